"""Where rows live: every sum that the solver needs is a sum over row blocks.

The objective never touches an array of n rows. It hands a *task* to a block source, which runs it
on each block, where that block's rows are, and adds up what comes back::

    states, total = blocks.run(task, states, ..., shared=(w, ...))

    task(block, row_data, ..., w, ...) -> (state, sums)

``state`` (predictions, say) stays with its block and can be given to the next task; ``sums`` is a
tuple of small arrays, added over the blocks in float64. A task is a plain function and changes
nothing in place, so a block source may run it in this process, in another one, or a second time
after a failure. Memory is here, torch's devices are in ``torch_blocks.py``, and chunks of rows on
disk or on a cluster, each with memory blocks of its own, in ``chunked_blocks.py``. What a task sees
are NumPy arrays or tensors, all of one kind.
"""

from __future__ import annotations

import mmap
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from lasn.costs import Costs
from lasn.disk_features import DiskFeatures
from lasn.kernels import KernelColumns
from lasn.memory import ready_pages
from lasn.threads import n_threads, run_in_threads, stretch

# Bytes of one block: threads seldom wait for each other between two products, and what one of those
# has read is still in the cache that cores share when the next reads it again; and at least as many
# rows as columns, for matrix products.
_BLOCK_BYTES = 4 << 20
_LEAST_BLOCK_BYTES = 1 << 20
_ROWS_PER_COLUMN = 1
# Rows of F are made so many bytes at a time, in memory that is used again; and at least so many for
# each column, for symmetric products.
_PART_BYTES = 1 << 20
_PART_ROWS = 4
# Bytes that one thread has read before another has begun, and bytes of what a task reads for each
# row and column beside features.
_LITTLE = 16 << 20
_A_VALUE = 160
# From so many bytes of features on, their memory is asked for ahead of time, by few threads: more
# of them wait for each other at the system's list of the process's pages.
_MANY_BYTES = 64 << 20
_FEW_THREADS = 3
# From so many bytes on NumPy asks for large pages.
_LARGE = 4 << 20
# Beside the features themselves, a fit copies the active ones: up to half of them.
_ROOM_FOR_COPIES = 0.5


@dataclass
class Work:
    """What a fit cost: rows of the feature matrix that were read, and how many of them computed.

    ``bytes_moved`` went between here and the place where rows live.
    """

    rows_read: int = 0
    rows_computed: int = 0
    bytes_moved: int = 0


class Block(Protocol):
    """Some rows of the feature matrix (before the linear map M, see ``features.py``)."""

    rows: slice  # which rows of the source those are
    n_rows: int
    n_columns: int
    dtype: np.dtype
    row_bytes: int
    spare_bytes: int
    worth_copying: float  # up to this share of the rows, copying them pays: products skip the rest

    def matrix(self, rows: Any = None) -> Any:
        """The rows, or those at the given positions: shape (rows, n_columns), dense or CSR.

        In a block of NumPy's that is kept, positions may be a slice that starts with the first row.

        All rows are valid until a matrix is asked for again; chosen rows may be kept.
        """

    @property
    def is_kept(self) -> bool:
        """Whether reading all rows is no more than that."""

    def gather(self, rows: np.ndarray) -> Any:
        """The rows at the given positions, copied, until it is called again; None without room."""

    def count(self, n_rows: int) -> None:
        """Note that rows handed out before were read once more."""

    def parts(self, rows: Any) -> Sequence[Any]:
        """The positions in pieces whose rows of F = K M may all be held at once."""

    def gram(self, F: Any, steers: bool) -> Any:
        """F^T F; less exact where that is faster and the product only ``steers``."""


class BlockSource(Protocol):
    """What the objective needs of the place where rows live."""

    n_rows: int
    n_columns: int
    dtype: np.dtype
    work: Work
    costs: Costs
    has_room_to_map: bool  # for the rows of F = K M beside those of K, in memory

    def split(self, rows: Any) -> list[Any]:
        """Hand an array with one entry a row to the blocks."""

    def run(
        self,
        task: Callable[..., tuple[Any, tuple]],
        *states: Sequence[Any],
        shared: tuple = (),
        n_read: int | None = None,
    ) -> tuple[list[Any], tuple[Any, ...]]:
        """Run a task on every block: one state a block, and the sums over the blocks.

        The sums are where the blocks compute: NumPy arrays or tensors. ``n_read`` is the number of
        feature rows that the task will read, where that is known: few are not worth threads.
        """

    def collect(self, states: list[Any]) -> list[Any]:
        """Bring states here from where their blocks are; they must be small."""


def chosen_rows(X: Any, rows: Any) -> Any:
    """The rows of X at some positions, not copied yet."""
    return X.chosen(rows) if hasattr(X, "chosen") else ChosenRows(X, rows)


class ChosenRows:
    """Some rows of X, copied block by block when they are wanted."""

    def __init__(self, X: Any, rows: Any):
        nested = isinstance(X, ChosenRows)
        self.X: Any = X.X if nested else X
        self.rows: Any = X.rows[rows] if nested else rows
        self.shape = (len(rows), X.shape[1])
        self.dtype = X.dtype

    def __getitem__(self, part):
        return self.X[self.rows[part]]


class Workspace:
    """Memory that the stages of a fit hand on to each other.

    Memory costs most when it is first touched, often more than the kernel values written to it.
    """

    def __init__(self) -> None:
        self.free: list[np.ndarray] = []
        self.taken: list[np.ndarray] = []
        self.lock = threading.Lock()

    def take(self, n_rows: int, n_columns: int, dtype: np.dtype) -> np.ndarray:
        """An array of that shape with arbitrary contents."""
        size = n_rows * n_columns * dtype.itemsize
        with self.lock:
            fitting = [buffer for buffer in self.free if buffer.nbytes >= size]
            if fitting:
                buffer = min(fitting, key=lambda one: one.nbytes)
                self.free = [one for one in self.free if one is not buffer]
            else:
                self.free = []  # too small for this stage: two stages' memory would pass the limit
                buffer = _room(size)
            self.taken.append(buffer)
        return buffer[:size].view(dtype).reshape(n_rows, n_columns)

    def give_back(self, arrays: Iterable[np.ndarray]) -> None:
        """End the use of some of the arrays handed out."""
        with self.lock:
            ended = [one for one in self.taken if any(np.may_share_memory(one, a) for a in arrays)]
            self.taken = [one for one in self.taken if not any(one is e for e in ended)]
            self.free += ended

    def clear(self) -> None:
        """Let go of all memory."""
        self.free, self.taken = [], []

    def take_back(self) -> None:
        """End the use of all arrays handed out so far."""
        self.free += self.taken
        self.taken = []


def _room(size: int) -> np.ndarray:
    """So many bytes, in pages of the system's usual size.

    NumPy asks for large pages, and where memory is in pieces the system moves others about to make
    some: that can take longer than a fit.
    """
    if size < _LARGE or not hasattr(mmap, "MAP_PRIVATE"):
        return np.empty(size, dtype=np.uint8)
    try:
        room = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError:  # there is not so much: NumPy says it as a MemoryError
        return np.empty(size, dtype=np.uint8)
    return np.frombuffer(room, dtype=np.uint8)


class MemoryBlocks:
    """Rows in this process's memory; feature rows are kept as far as ``budget`` bytes reach.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, p)
    columns : KernelColumns or None
        The kernel against the landmarks; None when the rows of X are the features (linear kernel).
    dtype : dtype of the features
    budget : int
        Bytes for features. Blocks beyond it are computed anew each time they are read, which
        costs time and changes no result.
    workspace : Workspace, optional
        Where features are kept. Blocks that were made with it before are no longer valid.
    once : bool
        Whether to expect that rows are read once: then kernel values are kept from the second
        reading on, and features that are there may be in large blocks.
    disk : DiskFeatures, optional
        Where features beyond the budget may be kept.
    """

    def __init__(
        self,
        X,
        columns: KernelColumns | None,
        dtype,
        budget: int,
        workspace: Workspace | None = None,
        once: bool = False,
        disk: DiskFeatures | None = None,
    ):
        self.made_of = (X, columns, dtype, budget)
        self.n_rows = X.shape[0]
        self.n_columns = X.shape[1] if columns is None else columns.n_columns
        self.dtype = np.dtype(dtype)
        self.disk = disk
        self.work = Work()
        self.workspace = workspace or Workspace()
        self.workspace.take_back()
        self.once = once and columns is not None and columns.is_cheap(X)
        self.scratch = threading.local()
        self.buffers: list[np.ndarray] = []
        row_bytes = self.dtype.itemsize * max(1, self.n_columns)
        if columns is None and hasattr(X, "nnz"):  # values and indices of the non-zeros
            row_bytes = 1 + (self.dtype.itemsize + 8) * X.nnz // max(1, self.n_rows)
        self.row_bytes = row_bytes
        threads, longer = n_threads(), stretch()
        share = -(-self.n_rows // threads) * row_bytes
        wanted = min(max(share, _LEAST_BLOCK_BYTES), _BLOCK_BYTES * longer)
        wanted = max(wanted, _ROWS_PER_COLUMN * self.n_columns * row_bytes)
        if once and columns is None:  # nothing is read again while it is in the cache
            wanted = max(wanted, share)
        size = max(1, min(wanted, max(budget // (8 * longer), 1 << 20)) // row_bytes)
        if self.n_rows > size:  # as many blocks for each thread
            size = -(-self.n_rows // (threads * -(-self.n_rows // (threads * size))))
        starts = range(0, max(1, self.n_rows), size)
        self.slices = [slice(start, min(start + size, self.n_rows)) for start in starts]
        n_kept, spare = _share(budget, len(self.slices), size * row_bytes)
        # In float64 a matrix product takes twice as long, and a factorisation so much less of it.
        factor = Costs().factor if self.dtype == np.float32 else 3.0
        self.costs = Costs(factor=factor, at_hand=n_kept == len(self.slices))
        is_large = n_kept * size * row_bytes >= _MANY_BYTES
        self.readies_pages = is_large and threads <= _FEW_THREADS
        # Features, copies of active ones, as much again, of which another copy is made, and as much
        # for inner products of active ones.
        self.has_room_to_map = budget >= (4.0 + _ROOM_FOR_COPIES) * row_bytes * self.n_rows
        self.blocks = [
            _MemoryBlock(X, rows, columns, self, keep=index < n_kept, spare_bytes=spare)
            for index, rows in enumerate(self.slices)
        ]

    def split(self, rows: np.ndarray) -> list[np.ndarray]:
        return [rows[part] for part in self.slices]

    def collect(self, states: list[Any]) -> list[Any]:
        return states

    def buffer(self, n_rows: int) -> np.ndarray:
        """Room for one block that is not kept, for each thread."""
        if not hasattr(self.scratch, "rows"):
            size = self.slices[0].stop
            self.scratch.rows = self.workspace.take(size, self.n_columns, self.dtype)
            self.buffers.append(self.scratch.rows)
        return self.scratch.rows[:n_rows]

    def release(self) -> None:
        """Let go of the room for blocks that are not kept, until it is wanted again."""
        self.workspace.give_back(self.buffers)
        self.buffers, self.scratch = [], threading.local()

    def __reduce__(self):
        # In another process features are computed anew.
        return MemoryBlocks, self.made_of

    def __sizeof__(self) -> int:
        return 1000 + sum(block.kept.nbytes for block in self.blocks if block.kept is not None)

    def run(self, task, *states, shared=(), n_read=None):
        def run_some(part: Iterable[int]) -> tuple[list[Any], list[np.ndarray]]:
            """Blocks in order, with their sums."""
            results: list[Any] = []
            total: list[np.ndarray] = []
            for index in part:
                inputs = (state[index] for state in states)
                state, sums = task(self.blocks[index], *inputs, *shared)
                results.append(state)
                add_sums(total, sums)
            return results, total

        n_blocks = len(self.blocks)
        if n_blocks == 1:  # small problems spend their time on what is around the sums
            results, total = run_some(range(1))
            return results, tuple(total)
        # By turns: where rows are sorted, a block has as much to do as its neighbours.
        n_jobs = min(n_threads(), n_blocks)
        jobs = [partial(run_some, range(first, n_blocks, n_jobs)) for first in range(n_jobs)]
        outcomes = (
            run_in_threads(jobs) if self._is_much(n_read, states) else [job() for job in jobs]
        )
        results, total = [None] * n_blocks, outcomes[0][1]
        for first, (some, sums) in enumerate(outcomes):
            results[first::n_jobs] = some
            if first > 0:
                add_sums(total, sums)
        return results, tuple(total)

    def _is_much(self, n_read: int | None, states: Sequence[Sequence[Any]]) -> bool:
        """Whether reading so many features, and what else the blocks hold, is worth threads."""
        if n_read is None or (n_read and not all(block.is_kept for block in self.blocks)):
            return True
        held = [state[0] for state in states if isinstance(state[0], np.ndarray)]
        n_columns = max((one.shape[1] for one in held if one.ndim == 2), default=1)
        return n_read * self.row_bytes + _A_VALUE * n_columns * self.n_rows > _LITTLE


def add_sums(total: list[np.ndarray], sums) -> None:
    """Add sums to the total, which is empty before the first."""
    if not total:
        total += [np.array(part, dtype=np.float64) for part in sums]
    else:
        for accumulated, part in zip(total, sums, strict=True):
            accumulated += part


def _share(budget: int, n_blocks: int, block_bytes: int) -> tuple[int, int]:
    """How many blocks to keep, and how many bytes each may take for copies of active rows."""
    if budget >= n_blocks * block_bytes:
        left = budget // n_blocks - block_bytes
        return n_blocks, min(left, int(_ROOM_FOR_COPIES * block_bytes))
    return budget // (2 * block_bytes), budget // (2 * n_blocks)


class _MemoryBlock:
    """Features of some rows.

    They are kept where the budget allows, from the first reading or from the second on.
    """

    worth_copying = 0.5

    def __init__(
        self,
        X,
        rows: slice,
        columns: KernelColumns | None,
        source: MemoryBlocks,
        keep: bool,
        spare_bytes: int,
    ):
        self.source_rows, self.rows, self.columns = X, rows, columns
        # The source holds its blocks. If they held it too, their features would stay in memory
        # until somebody looked for such rings.
        self.source = weakref.proxy(source)
        self.n_rows = rows.stop - rows.start
        self.n_columns, self.dtype = source.n_columns, source.dtype
        self.keep, self.spare_bytes, self.row_bytes = keep, spare_bytes, source.row_bytes
        self.kept: Any = None
        self.copies: np.ndarray | None = None
        self.times_read = 0

    @property
    def X(self):
        return self.source_rows[self.rows]

    @property
    def is_kept(self):
        return self.kept is not None or self.columns is None

    def gather(self, rows):
        if len(rows) * self.row_bytes > self.spare_bytes:
            return None
        if self.columns is None:
            return self.matrix(rows)
        if self.copies is None:
            most = self.spare_bytes // self.row_bytes
            self.copies = self.source.workspace.take(most, self.n_columns, self.dtype)
        copy = self.copies[: len(rows)]
        if self.kept is not None:
            self.count(len(rows))
            # "clip", as NumPy would otherwise copy twice, to leave "out" alone if a place is wrong.
            return np.take(self.kept, rows, axis=0, out=copy, mode="clip")
        self.count(len(rows))
        self.source.work.rows_computed += len(rows)
        return self.columns.matrix(self.X[rows], out=copy)

    def count(self, n_rows):
        self.source.work.rows_read += n_rows

    def parts(self, rows):
        size = max(_PART_BYTES // self.row_bytes, _PART_ROWS * self.n_columns)
        return [rows[start : start + size] for start in range(0, len(rows), size)]

    def gram(self, F, steers):
        return F.T @ F

    def matrix(self, rows=None):
        if isinstance(rows, slice):
            self.count(rows.stop)
        else:
            self.count(self.n_rows if rows is None else len(rows))
        work = self.source.work
        if self.columns is None:
            chosen = self.X if rows is None else self.X[rows]
            return chosen.astype(self.dtype, copy=False)
        if self.kept is not None:
            return self.kept if rows is None else self.kept[rows]
        if rows is not None:
            work.rows_computed += len(rows)
            return self.columns.matrix(self.X[rows])
        self.times_read += 1
        if self.keep and (self.times_read > 1 or not self.source.once):
            room = self.source.workspace.take(self.n_rows, self.n_columns, self.dtype)
            if self.source.readies_pages:
                ready_pages(room)
            self.kept = self._compute(room)
            return self.kept
        room = self.source.buffer(self.n_rows)
        disk = self.source.disk
        if disk is None:
            return self._compute(room)
        return disk.fill(room, self.rows, self._compute)

    def _compute(self, room: np.ndarray) -> np.ndarray:
        assert self.columns is not None
        self.source.work.rows_computed += self.n_rows
        return self.columns.matrix(self.X, out=room)

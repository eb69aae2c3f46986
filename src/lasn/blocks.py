"""Where rows live: every sum that the solver needs is a sum over row blocks.

The objective never touches an array of n rows. It hands a *task* to a block source, which runs it
on each block, where that block's rows are, and adds up what comes back::

    states, total = blocks.run(task, rows, ..., shared=(w, ...))

    task(block, row_data, ..., w, ...) -> (state, sums)

``state`` (predictions, say) stays with its block and can be given to the next task; ``sums`` is a
tuple of small arrays, added over the blocks in float64. A task is a plain function and changes
nothing in place, so a block source may run it in this process, in another one, or a second time
after a failure. Memory is here; disk, GPU and cluster are further sources with the same methods.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from lasn.kernels import KernelColumns

# Bytes of one block: long enough for matrix products, short enough to meet caches.
_BLOCK_BYTES = 32 << 20
# Beside the features themselves, a fit copies the active ones: up to half of them.
_ROOM_FOR_COPIES = 0.5


@dataclass
class Work:
    """What a fit cost, in rows of the feature matrix: how many were read, how many computed."""

    rows_read: int = 0
    rows_computed: int = 0


class Block(Protocol):
    """Some rows of the feature matrix (before the linear map M, see ``features.py``)."""

    n_rows: int
    n_columns: int
    dtype: np.dtype
    spare_bytes: int

    def matrix(self, rows: np.ndarray | None = None) -> Any:
        """The rows, or those at the given positions: shape (rows, n_columns), dense or CSR.

        All rows are valid until a matrix is asked for again; chosen rows may be kept.
        """

    def count(self, n_rows: int) -> None:
        """Note that rows handed out before were read once more."""


class BlockSource(Protocol):
    """What the objective needs of the place where rows live."""

    n_rows: int
    n_columns: int
    dtype: np.dtype
    work: Work

    def split(self, rows: np.ndarray) -> list[Any]:
        """Hand an array with one entry a row to the blocks."""

    def run(
        self, task: Callable[..., tuple[Any, tuple]], *states: Sequence[Any], shared: tuple = ()
    ) -> tuple[list[Any], tuple[np.ndarray, ...]]:
        """Run a task on every block: one state a block, and the sums over the blocks."""


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
    """

    def __init__(self, X, columns: KernelColumns | None, dtype, budget: int):
        self.n_rows = X.shape[0]
        self.n_columns = X.shape[1] if columns is None else columns.n_columns
        self.dtype = np.dtype(dtype)
        self.work = Work()
        self.scratch: np.ndarray | None = None
        row_bytes = self.dtype.itemsize * max(1, self.n_columns)
        size = max(1, min(_BLOCK_BYTES, max(budget // 8, 1 << 20)) // row_bytes)
        starts = range(0, self.n_rows, size)
        self.slices = [slice(start, min(start + size, self.n_rows)) for start in starts]
        n_kept, spare = _share(budget, len(self.slices), size * row_bytes)
        self.blocks = [
            _MemoryBlock(X[rows], columns, self, keep=index < n_kept, spare_bytes=spare)
            for index, rows in enumerate(self.slices)
        ]

    def split(self, rows: np.ndarray) -> list[np.ndarray]:
        return [rows[part] for part in self.slices]

    def buffer(self, n_rows: int) -> np.ndarray:
        """Room for one block that is not kept: memory costs most when it is first touched."""
        if self.scratch is None:
            self.scratch = np.empty((self.slices[0].stop, self.n_columns), dtype=self.dtype)
        return self.scratch[:n_rows]

    def run(self, task, *states, shared=()):
        results: list[Any] = []
        total: list[np.ndarray] = []
        for index, block in enumerate(self.blocks):
            state, sums = task(block, *(part[index] for part in states), *shared)
            results.append(state)
            if not total:
                total = [np.array(part, dtype=np.float64) for part in sums]
            else:
                for accumulated, part in zip(total, sums, strict=True):
                    accumulated += part
        return results, tuple(total)


def _share(budget: int, n_blocks: int, block_bytes: int) -> tuple[int, int]:
    """How many blocks to keep, and how many bytes each may take for copies of active rows."""
    if budget >= (1.0 + _ROOM_FOR_COPIES) * n_blocks * block_bytes:
        return n_blocks, int(_ROOM_FOR_COPIES * block_bytes)
    return budget // (2 * block_bytes), budget // (2 * n_blocks)


class _MemoryBlock:
    """Features of some rows.

    They are kept where the budget allows. Values that are cheap to compute are kept from the second
    reading on: what is read twice will be read again, but from a good start rows are read once.
    """

    def __init__(self, X, columns: KernelColumns | None, source, keep: bool, spare_bytes: int):
        self.X, self.columns, self.source = X, columns, source
        self.n_rows, self.n_columns, self.dtype = X.shape[0], source.n_columns, source.dtype
        self.keep, self.spare_bytes = keep, spare_bytes
        self.kept: Any = None
        self.times_read = 0

    def count(self, n_rows):
        self.source.work.rows_read += n_rows

    def matrix(self, rows=None):
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
        work.rows_computed += self.n_rows
        self.times_read += 1
        if self.keep and (self.times_read > 1 or not self.columns.is_cheap(self.X)):
            self.kept = self.columns.matrix(self.X)
            return self.kept
        return self.columns.matrix(self.X, out=self.source.buffer(self.n_rows))

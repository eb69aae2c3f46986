"""Rows in chunks that live elsewhere: on this machine's disk here, on a cluster in ``cluster.py``.

Work goes to the rows, and small sums come back::

    states, total = chunks.run(function, states, ..., shared=(w, ...))

    function(chunk, state, ..., w, ...) -> (state, sums)

is the bargain of ``blocks.py`` once more, for chunks that are large enough to be sent for. A state
stays with its chunk; whoever holds one may hand it to the next function and can do nothing else
with it.
"""

from __future__ import annotations

import pickle
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from lasn.blocks import add_sums
from lasn.disk_features import Judge
from lasn.row_files import RowFile


@dataclass
class Chunk:
    """Some of the rows, as they were given: labels or targets, and weights or None.

    Each is an array or, where it is on disk, something that is read by indexing.
    """

    X: Any
    y: Any
    sample_weight: Any = None

    @property
    def n_rows(self) -> int:
        return self.X.shape[0]

    def __sizeof__(self) -> int:
        parts = [getattr(self.X, name, None) for name in ("data", "indices", "indptr")]
        arrays = [*parts, self.y, self.sample_weight] if hasattr(self.X, "indptr") else [self.X]
        return 1000 + sum(int(getattr(one, "nbytes", 0)) for one in arrays)


class Chunks(Protocol):
    """What a fit needs of the place where chunks live."""

    n_chunks: int
    bytes_moved: int  # so far, between here and there

    def run(
        self, function: Callable[..., tuple[Any, tuple]], *states: Sequence[Any], shared: tuple = ()
    ) -> tuple[list[Any], Sequence[np.ndarray]]:
        """Run a function on every chunk: one state a chunk, and the sums over all of them."""

    def collect(self, states: list[Any]) -> list[Any]:
        """Bring states here; they must be small."""

    def share(self, value: Any) -> Any:
        """Something that many calls share, sent once; it stands for the value in ``shared``."""

    def memory_for_features(self, limit: Any, reserved: int) -> int:
        """Bytes that all chunks together may keep."""

    def judge(self, n_bytes: int, tell: Callable[[str], None]) -> Judge | None:
        """Who decides whether so many bytes of features go to disk; None: they never do."""


class LazySums(Sequence):
    """Sums that are fetched when they are looked at.

    So nobody waits for a call whose sums nobody wants.
    """

    def __init__(self, fetch: Callable[[], tuple]):
        self.fetch = fetch
        self.values: tuple | None = None

    def _fetched(self) -> tuple:
        if self.values is None:
            self.values = self.fetch()
        return self.values

    def __len__(self) -> int:
        return len(self._fetched())

    def __getitem__(self, index):
        return self._fetched()[index]


class LocalChunks:
    """Chunks of this machine, worked on one after the other, each by all cores.

    Parameters
    ----------
    chunks : list of Chunk
    state_bytes : int
        States beyond this many bytes wait in a temporary file.
    """

    def __init__(self, chunks: list[Chunk], state_bytes: int):
        self.chunks = chunks
        self.n_chunks = len(chunks)
        self.bytes_moved = 0
        self.waiting_room = WaitingRoom(state_bytes)

    def run(self, function, *states, shared=()):
        results: list[Any] = []
        total: list[np.ndarray] = []
        for index, chunk in enumerate(self.chunks):
            inputs = (_awake(state[index]) for state in states)
            state, sums = function(chunk, *inputs, *shared)
            results.append(self.waiting_room.keep(state))
            add_sums(total, sums)
        return results, tuple(total)

    def collect(self, states):
        return [_awake(state) for state in states]

    def share(self, value):
        return value

    def memory_for_features(self, limit, reserved):
        from lasn.memory import working_memory

        left = working_memory(limit, reserved)
        return max(left - self.waiting_room.limit, left // 4)

    def judge(self, n_bytes, tell):
        return Judge(n_bytes, tell)


class WaitingRoom:
    """States, which have a few numbers for every row: in memory up to a limit, then in a file."""

    def __init__(self, limit: int):
        self.limit = limit
        self.in_memory = 0
        self.file: RowFile | None = None
        self.free: dict[int, list[int]] = {}  # places in the file that are free again, by size

    def keep(self, state: Any) -> Any:
        """The state, or what stands for it while it waits in the file."""
        size = _size(state)
        if size == 0:
            return state
        if self.in_memory + size <= self.limit:
            self.in_memory += size
            held = _Held(state)
            weakref.finalize(held, self._let_go, size).atexit = False
            return held
        if self.file is None:
            self.file = RowFile()
        data = np.frombuffer(pickle.dumps(state, protocol=5), np.uint8)
        places = self.free.get(len(data))
        offset = places.pop() if places else self.file.size
        self.file.write(data, offset)
        asleep = _Asleep(self.file, offset, len(data))
        free = self.free.setdefault(len(data), [])
        weakref.finalize(asleep, free.append, offset).atexit = False
        return asleep

    def _let_go(self, size: int) -> None:
        self.in_memory -= size


@dataclass(eq=False)
class _Held:
    state: Any


@dataclass(eq=False)
class _Asleep:
    file: RowFile
    offset: int
    size: int


def _awake(state: Any) -> Any:
    if isinstance(state, _Held):
        return state.state
    if isinstance(state, _Asleep):
        data = state.file.read(np.empty(state.size, np.uint8), state.offset)
        return pickle.loads(data.tobytes())
    return state


def _size(state: Any) -> int:
    """Bytes of arrays, and of lists of them; what is anything else has to stay in memory."""
    if isinstance(state, np.ndarray):
        return state.nbytes
    if isinstance(state, (list, tuple)):
        sizes = [_size(one) for one in state]
        return sum(sizes) if all(sizes) else 0
    return 0

"""Row blocks of chunks that live elsewhere: the sums of ``blocks.py`` where each chunk is.

Every chunk has blocks in memory of its own (:class:`lasn.blocks.MemoryBlocks`), made and kept where
the chunk is; a task is run on them there, and what comes back are the chunk's sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lasn.blocks import ChosenRows, MemoryBlocks, Work
from lasn.chunks import Chunk, Chunks, LazySums
from lasn.costs import Costs
from lasn.disk_features import DiskFeatures, Judge


@dataclass
class ChunkArray:
    """An array with one entry a row, of which each chunk has its part: a state."""

    states: list[Any]
    shape: tuple[int, ...]

    @property
    def ndim(self) -> int:
        return len(self.shape)


class ChunkedBlocks:
    """Rows in chunks; a :class:`lasn.blocks.BlockSource`.

    Parameters
    ----------
    chunks : Chunks
    rows : states or None
        Positions of the chunk's rows that take part; None: all of them.
    shape : (n_rows, n_features)
    columns : KernelColumns or None
    dtype : dtype of the features
    budget : int
        Bytes of features that all chunks together may keep.
    once : bool
    judge : Judge or None
        Says whether features beyond the budget go to disk; None: they do not.
    """

    def __init__(
        self,
        chunks: Chunks,
        rows: list[Any] | None,
        shape: tuple[int, int],
        columns: Any,
        dtype: np.dtype,
        budget: int,
        once: bool,
        judge: Judge | None = None,
    ):
        self.chunks = chunks
        self.n_rows = shape[0]
        self.n_columns = shape[1] if columns is None else columns.n_columns
        self.dtype = np.dtype(dtype)
        self.work = Work()
        self.costs = Costs(together=False)
        self.has_room_to_map = False
        self.moved_before = chunks.bytes_moved
        bytes_a_row = budget / max(1, self.n_rows)
        shared = (chunks.share(columns), self.dtype, bytes_a_row, once, judge)
        everything = [None] * chunks.n_chunks
        self.blocks, _ = chunks.run(_open, rows or everything, shared=shared)

    def split(self, rows: ChunkArray) -> list[Any]:
        return self.chunks.run(_split, self.blocks, rows.states)[0]

    def collect(self, states: list[Any]) -> list[Any]:
        return [part for parts in self.chunks.collect(states) for part in parts]

    def run(self, task, *states, shared=(), n_read=None):
        results, sums = self.chunks.run(_run_task, self.blocks, *states, shared=(task, shared))
        return results, LazySums(lambda: self._without_work(sums))

    def _without_work(self, sums) -> tuple:
        """The sums of the task alone; the work of all chunks is taken note of."""
        if not sums:
            return ()
        *own, work = sums
        self.work.rows_read += int(work[0])
        self.work.rows_computed += int(work[1])
        self.work.bytes_moved = self.chunks.bytes_moved - self.moved_before
        return tuple(own)


# What runs where a chunk is.


def _open(chunk: Chunk, rows, columns, dtype, bytes_a_row, once, judge):
    X = chunk.X if rows is None else ChosenRows(chunk.X, rows)
    disk = None if judge is None or columns is None else DiskFeatures(judge)
    budget = int(bytes_a_row * X.shape[0])
    return MemoryBlocks(X, columns, dtype, budget, once=once, disk=disk), ()


def _split(chunk: Chunk, blocks: MemoryBlocks, rows):
    return blocks.split(rows), ()


def _run_task(chunk: Chunk, blocks: MemoryBlocks, *inputs):
    """The task's states on the blocks of this chunk, and its sums, with the work at the end."""
    *states, task, shared = inputs
    states = [[None] * len(blocks.blocks) if state is None else state for state in states]
    results, sums = blocks.run(task, *states, shared=shared)
    blocks.release()
    if not sums:
        return results, ()
    work, blocks.work = blocks.work, Work()
    return results, (*sums, np.array([work.rows_read, work.rows_computed]))

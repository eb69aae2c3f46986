"""Rows of F = K M that several problems share.

Problems have many active rows in common, and so have points that follow each other. So a row is
mapped when a problem first needs it, and stays. To whoever assembles Hessians these rows are a
block source of their own, of one block and with nothing left to map: each problem is one thread's
work, and gathers its rows in one go.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lasn import block_tasks as tasks
from lasn.blocks import BlockSource, Workspace
from lasn.mapping import TimesMapping
from lasn.threads import for_each_slice

# Bytes of rows that are gathered at a time: a thread uses their memory again for the next.
_PART_BYTES = 2 << 20
# At least so many rows for each column, for symmetric products.
_PART_ROWS = 2


class MappedRows:
    """F, shape (n, q), as far as it was asked for: a block source, and its only block.

    Parameters
    ----------
    blocks : BlockSource
        The rows of K, in memory.
    to_features : TimesMapping
        K -> K M.
    """

    def __init__(self, blocks: BlockSource, to_features: TimesMapping):
        self.source, self.to_features = blocks, to_features
        self.n_rows, self.n_columns = blocks.n_rows, to_features.M.shape[1]
        self.dtype, self.work = blocks.dtype, blocks.work
        self.F = Workspace().take(self.n_rows, self.n_columns, self.dtype)
        self.is_there = np.zeros(self.n_rows, dtype=bool)

    def add(self, wanted: np.ndarray) -> None:
        """Let the rows be there that are ``wanted``, shape (n,)."""
        new = self.source.split(wanted & ~self.is_there)
        parts, _ = self.source.run(tasks.map_rows, new, shared=(self.to_features,))
        places = self.source.split(self.F)

        def write(one: slice) -> None:
            places[one.start][new[one.start]] = parts[one.start]

        for_each_slice(len(parts), 1, write)
        self.is_there |= wanted

    def run(self, task, *states, shared=(), n_read=None) -> tuple[list[Any], tuple[Any, ...]]:
        """The task on all rows at once, in the caller's thread."""
        state, sums = task(self, *(state[0] for state in states), *shared)
        return [state], sums

    def collect(self, states: list[Any]) -> list[Any]:
        return states

    def matrix(self, rows: np.ndarray | None = None) -> np.ndarray:
        """All rows, or a copy of those at the given positions; they are there."""
        self.work.rows_read += self.n_rows if rows is None else len(rows)
        return self.F if rows is None else self.F.take(rows, axis=0)

    def parts(self, rows: np.ndarray) -> list[np.ndarray]:
        size = max(
            _PART_BYTES // (self.dtype.itemsize * self.n_columns), _PART_ROWS * self.n_columns
        )
        return [rows[start : start + size] for start in range(0, len(rows), size)]

    def gram(self, F: np.ndarray, steers: bool) -> np.ndarray:
        return F.T @ F

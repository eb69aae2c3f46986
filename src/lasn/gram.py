"""K(X_U, X_U) for a set U of rows that may grow, in tiles and under a memory limit.

U is a list of groups of at most 1024 rows. A tile is the kernel of one group against another. It is
read strip by strip, each small enough to stay in a core's cache, so that one reading from memory
serves both halves of the symmetric matrix::

    out_i += T_ij v_j        out_j += T_ij^T v_i        (j < i)

Tiles are computed once and kept as far as the budget reaches; those beyond it are computed anew for
each product. A new group adds its own row of tiles and leaves the others as they are.

On a torch device tiles are tensors, and larger (``torch_gram.py``).
"""

from __future__ import annotations

import threading
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from lasn.kernels import Kernel
from lasn.threads import for_each_slice, n_threads, run_in_threads

GROUP_ROWS = 1024
# Of 1024 float32 values each: 2 MB.
_STRIP_ROWS = 512


@dataclass
class Group:
    """Rows of U that came together: where they are in U, their values, the kernel against them."""

    place: slice
    rows: Any
    columns: Any


class Gram:
    """The kernel matrix among rows of X; a plan for a memory that runs out, where it can shrink.

    Parameters
    ----------
    kernel : Kernel
    X : array or CSR matrix of shape (n, p)
    dtype : dtype of the kernel values; sums over tiles are float64
    budget : int
        Bytes of tiles that may be kept.
    """

    # Copying the tiles of some rows pays where those are less than this part of U.
    worth_copying = 0.85

    def __init__(self, kernel: Kernel, X, dtype, budget: int):
        self.kernel, self.X, self.dtype = kernel, X, np.dtype(dtype)
        self.budget = budget
        self.group_rows = GROUP_ROWS
        self.rows = np.empty(0, dtype=int)
        self.groups: list[Group] = []
        self.tiles: dict[tuple[int, int], Any] = {}
        self.scratch = threading.local()

    def add(self, rows: np.ndarray) -> None:
        """Let the rows of X at these positions follow those that are there."""
        first = len(self.groups)
        for start in range(0, len(rows), self.group_rows):
            chosen = rows[start : start + self.group_rows]
            place = slice(len(self.rows) + start, len(self.rows) + start + len(chosen))
            self.groups.append(self._group(place, self.X[chosen]))
        self.rows = np.concatenate([self.rows, rows])
        new = [(i, j) for i in range(first, len(self.groups)) for j in range(i + 1)]
        kept: list[tuple[int, int]] = []
        for i, j in new:
            size = self.groups[i].rows.shape[0] * self.groups[j].rows.shape[0] * self.dtype.itemsize
            keep = size <= self.budget
            self.budget -= size if keep else 0
            self.tiles[i, j] = None
            kept += [(i, j)] if keep else []
        for_each_slice(len(kept), 1, lambda one: self._keep(*kept[one.start]))

    def product(self, V: np.ndarray) -> np.ndarray:
        """K V for V of shape (m, c), in float64."""
        V = np.ascontiguousarray(V, dtype=self.dtype)

        def add_tiles(tiles: list) -> np.ndarray:
            out = np.zeros(V.shape)
            for i, j in tiles:
                tile, to, other = self._tile(i, j), self.groups[i].place, self.groups[j].place
                for start in range(0, len(tile), _STRIP_ROWS):
                    strip = tile[start : start + _STRIP_ROWS]
                    part = slice(to.start + start, to.start + start + len(strip))
                    out[part] += strip @ V[other]
                    if i != j:
                        out[other] += strip.T @ V[part]
            return out

        tiles = list(self.tiles)
        threads = max(1, min(n_threads(), len(tiles)))
        jobs = [partial(add_tiles, tiles[first::threads]) for first in range(threads)]
        return sum(run_in_threads(jobs), np.zeros(V.shape))

    def only(self, mask: np.ndarray) -> Gram:
        """K among the rows of U where the mask is true: kept tiles are copied, not computed."""
        smaller = copy(self)
        smaller.budget, smaller.rows, smaller.groups = 0, self.rows[mask], []
        inside = [np.flatnonzero(mask[group.place]) for group in self.groups]
        stops = np.cumsum([len(rows) for rows in inside])
        for group, rows, stop in zip(self.groups, inside, stops, strict=True):
            place = slice(stop - len(rows), stop)
            changes = 0 < len(rows) < group.rows.shape[0]
            smaller.groups.append(
                self._group(place, group.rows[rows]) if changes else replace(group, place=place)
            )
        smaller.tiles = {(i, j): None for i, j in self.tiles if len(inside[i]) and len(inside[j])}

        def copy_tile(i: int, j: int) -> None:
            if self.tiles[i, j] is not None:
                smaller.tiles[i, j] = self._values(i, j, inside[i], inside[j])

        tiles = list(smaller.tiles)
        for_each_slice(len(tiles), 1, lambda one: copy_tile(*tiles[one.start]))
        return smaller

    def part(self, positions: np.ndarray, dtype=np.float64) -> Any:
        """K among the rows at these positions in U (rising), as one array."""
        out = self._empty(len(positions), dtype)
        ends = np.searchsorted(positions, [group.place.stop for group in self.groups])
        starts = np.concatenate([[0], ends[:-1]])

        def copy_tile(i: int, j: int) -> None:
            parts = [slice(starts[g], ends[g]) for g in (i, j)]
            inside = [
                positions[p] - self.groups[g].place.start
                for g, p in zip((i, j), parts, strict=True)
            ]
            if len(inside[0]) and len(inside[1]):
                values = self._values(i, j, *inside)
                out[parts[0], parts[1]] = values
                if i != j:
                    out[parts[1], parts[0]] = values.T

        tiles = list(self.tiles)
        for_each_slice(len(tiles), 1, lambda one: copy_tile(*tiles[one.start]))
        return out

    def can_shrink(self) -> bool:
        """The host's memory does not run out: tiles keep to the budget."""
        return False

    def shrink(self) -> str:
        raise TypeError("a matrix in the host's memory keeps to its budget from the start")

    def _group(self, place: slice, values: Any) -> Group:
        return Group(place, values, self.kernel.against(values, self.dtype))

    def _empty(self, n_rows: int, dtype) -> Any:
        """Room for a square matrix."""
        return np.empty((n_rows, n_rows), dtype=dtype)

    def _values(self, i: int, j: int, rows: np.ndarray, columns: np.ndarray) -> Any:
        """A tile at some positions of its rows and columns."""
        return self._tile(i, j).take(rows, axis=0).take(columns, axis=1)  # faster than by np.ix_

    def _keep(self, i: int, j: int) -> None:
        self.tiles[i, j] = self._compute(i, j)

    def _tile(self, i: int, j: int) -> np.ndarray:
        kept = self.tiles[i, j]
        if kept is not None:
            return kept
        if not hasattr(self.scratch, "tile"):
            self.scratch.tile = np.empty((self.group_rows, self.group_rows), dtype=self.dtype)
        n_rows, n_columns = self.groups[i].rows.shape[0], self.groups[j].rows.shape[0]
        return self._compute(i, j, self.scratch.tile.ravel()[: n_rows * n_columns])

    def _compute(self, i: int, j: int, room: np.ndarray | None = None) -> np.ndarray:
        rows, columns = self.groups[i].rows, self.groups[j].columns
        shape = (rows.shape[0], columns.n_columns)
        out = np.empty(shape, dtype=self.dtype) if room is None else room.reshape(shape)
        columns.fill(rows, out)
        return out

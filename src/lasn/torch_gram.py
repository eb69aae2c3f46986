"""The kernel matrix of ``gram.py`` on a torch device.

Tiles are tensors. Those beyond the budget are computed anew for each product; of the rbf kernel on
CUDA they are never held then, as fused products compute them on their way (``triton_rbf.py``).
Vectors come from the host and go back to it, once for each product; sums over tiles are float64
where the device has that.

Where memory runs out although there was room for the budget, half of the kept tiles are given up,
again and again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from lasn.arrays import device_of, taken, to_numpy, torch_dtype, widest_dtype
from lasn.gram import Gram, Group
from lasn.kernels import Kernel
from lasn.memory import with_less_memory
from lasn.problem import free_memory
from lasn.torch_rows import SparseRows, shared_tensor

# Rows of a tile: many, so that a GPU is busy for longer than it takes to ask for a tile.
MOST_ROWS = {"cuda": 8192, "mps": 4096, "cpu": 2048}
_FEWEST_ROWS = 128
# Of the free memory: one tile, or the rows of a group where those are longer; all kept tiles,
# beside which there must be room for copies of the active ones.
_TILE_SHARE = 1 / 16
_KEPT_SHARE = 0.6
# Values that are held for each feature of a row: its own, and prepared, to a power of two.
_COPIES_OF_ROWS = 3


class TorchGram(Gram):
    """The kernel matrix among rows of X: a tensor, HostRows or SparseRows."""

    # Memory is read as fast as it is copied, in order, and slower out of order.
    worth_copying = 0.6

    def __init__(self, kernel: Kernel, X: Any, dtype: Any, budget: int, group_rows: int):
        super().__init__(kernel, X, dtype, budget)
        self.device = device_of(X)
        self.group_rows = group_rows
        self.is_full = False

    @classmethod
    def within(cls, memory_limit, reserved: int, kernel: Kernel, X, dtype, n_rows: int):
        """One for about so many rows, beside ``reserved`` bytes for other things."""
        device, itemsize = device_of(X), np.dtype(dtype).itemsize
        if not _is_wide(X):
            reserved += _COPIES_OF_ROWS * itemsize * X.shape[1] * n_rows
        free = free_memory(device, memory_limit, reserved)
        values = int(_TILE_SHARE * free) // itemsize
        wanted = int(min(values**0.5, values / X.shape[1]))
        group_rows = max(_FEWEST_ROWS, min(wanted, MOST_ROWS.get(device.type, MOST_ROWS["cpu"])))
        return cls(kernel, X, dtype, int(_KEPT_SHARE * free), group_rows)

    def product(self, V: np.ndarray) -> np.ndarray:
        return with_less_memory(lambda: self._product(V), self)

    def _product(self, V: np.ndarray) -> np.ndarray:
        # One column is a vector: products with a matrix of one column are slower.
        there = shared_tensor(V.astype(self.dtype, copy=False)).to(self.device).squeeze(1)
        out = torch.zeros(there.shape, dtype=widest_dtype(self.device), device=self.device)
        for i, j in self.tiles:
            tile, to, other = self._operator(i, j), self.groups[i].place, self.groups[j].place
            out[to] += tile @ there[other]
            if i != j:
                out[other] += tile.T @ there[to]
        return to_numpy(out).astype(np.float64, copy=False).reshape(V.shape)

    def can_shrink(self) -> bool:
        return not self.is_full or any(tile is not None for tile in self.tiles.values())

    def shrink(self) -> str:
        """Keep half of the tiles that are kept, and no new ones."""
        kept = [place for place, tile in self.tiles.items() if tile is not None]
        for place in kept[len(kept) // 2 :]:
            self.tiles[place] = None
        self.budget, self.is_full = 0, True
        n_bytes = sum(tile.nbytes for tile in self.tiles.values() if tile is not None)
        return f"{n_bytes / 1e9:.2f} GB of kernel values kept"

    def _group(self, place: slice, values: Any) -> Group:
        """Wide sparse rows would be long as landmarks: those are made for one tile at a time."""
        if _is_wide(values):
            return Group(place, values, None)
        return super()._group(place, values.to_dense())

    def _columns(self, j: int) -> Any:
        group = self.groups[j]
        return group.columns or self.kernel.against(group.rows, self.dtype)

    def _keep(self, i: int, j: int) -> None:
        def attempt() -> None:
            if not self.is_full:
                self.tiles[i, j] = self._columns(j).matrix(self.groups[i].rows)

        with_less_memory(attempt, self)

    def _operator(self, i: int, j: int) -> Any:
        """A tile, or something with its products."""
        if self.tiles[i, j] is not None:
            return self.tiles[i, j]
        columns = self._columns(j)
        return columns.operator(columns.prepare(self.groups[i].rows))

    def _empty(self, n_rows: int, dtype: Any) -> torch.Tensor:
        dtype = torch_dtype(dtype)
        if dtype == torch.float64:
            dtype = widest_dtype(self.device)
        return torch.empty((n_rows, n_rows), dtype=dtype, device=self.device)

    def _values(self, i: int, j: int, rows: np.ndarray, columns: np.ndarray) -> torch.Tensor:
        tile = self.tiles[i, j]
        if tile is not None:
            there = [shared_tensor(positions).to(self.device) for positions in (rows, columns)]
            return tile[there[0][:, None], there[1]]
        others = self.kernel.against(taken(self.groups[j].rows, columns), self.dtype)
        return others.matrix(taken(self.groups[i].rows, rows))


def _is_wide(X: Any) -> bool:
    return isinstance(X, SparseRows) and not X.is_narrow

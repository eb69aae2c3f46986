"""Rows for a torch device that are not a tensor on it: sparse, or too many for its memory.

Both (the latter are :class:`lasn.torch_stream.HostRows`) have what tensors of rows have: ``shape``,
``dtype``, ``device`` and ``X[rows]`` for a slice or for positions. ``place_rows`` decides which
form rows take.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from lasn.arrays import is_tensor, to_numpy, torch_dtype, widest_dtype
from lasn.torch_stream import HostRows

# Sparse rows of up to this many features are unpacked, block by block.
_NARROW = 4096
# Up to this many bytes are copied as they are, without pinned buffers on their way.
_SMALL = 64 << 20
# Of the device's memory, rows may take this part; more of them stay outside.
ROWS_SHARE = 0.4


def place_rows(X: Any, device: torch.device, memory: int) -> Any:
    """Rows in the form in which the device works on them, given its free bytes."""
    if isinstance(X, (HostRows, SparseRows)):
        return X
    if sp.issparse(X):
        return SparseRows(X, device)
    tensor = shared_tensor(X)
    tensor = tensor.to(_dtype_there(tensor.dtype, device))
    fits = tensor.nbytes <= ROWS_SHARE * memory
    if tensor.device.type != "cpu" or (fits and tensor.nbytes <= _SMALL):
        return tensor.to(device)
    rows = HostRows(tensor, device)
    if not fits:
        return rows
    return tensor if device.type == "cpu" else rows[: rows.shape[0]]


def place_landmarks(landmarks: Any, device: torch.device) -> Any:
    """The same for landmarks, which are always on the device."""
    return place_rows(landmarks, device, memory=1 << 62)


def shared_tensor(array: Any) -> torch.Tensor:
    """The array, in its own memory, as a tensor that nobody writes to."""
    if is_tensor(array):
        return array
    with warnings.catch_warnings():
        # Memory may be read-only, a file's for example, which torch has no word for.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(np.ascontiguousarray(array))


def _dtype_there(dtype: torch.dtype, device: torch.device) -> torch.dtype:
    """The dtype itself, or what the device has instead of float64."""
    return widest_dtype(device) if dtype == torch.float64 else dtype


class SparseRows:
    """CSR rows in the host's memory; a few of them at a time are copied to the device."""

    def __init__(self, rows: Any, device: torch.device, dtype: torch.dtype | None = None):
        self.rows, self.device = rows, device
        self.shape = rows.shape
        self.dtype = dtype or _dtype_there(torch_dtype(rows.dtype), device)

    @property
    def is_narrow(self) -> bool:
        return self.shape[1] <= _NARROW

    def __getitem__(self, rows) -> SparseRows:
        return SparseRows(self.rows[to_numpy(rows)], self.device, self.dtype)

    def to(self, dtype: torch.dtype) -> SparseRows:
        return SparseRows(self.rows, self.device, dtype)

    def to_dense(self) -> torch.Tensor:
        return self._tensor(self.rows).to_dense()

    def squares(self) -> torch.Tensor:
        """|x_i|^2 for each row, shape (n,), in float64 or what the device has."""
        squares = np.asarray(self.rows.multiply(self.rows).sum(axis=1)).ravel()
        return torch.from_numpy(squares).to(self.dtype).to(self.device)

    def __matmul__(self, dense: torch.Tensor) -> torch.Tensor:
        if self.is_narrow:
            return self.to_dense() @ dense
        return self._tensor(self.rows) @ dense

    def _tensor(self, rows) -> torch.Tensor:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sparse")  # "in beta state", "invariant"
            return torch.sparse_csr_tensor(
                torch.from_numpy(rows.indptr.astype(np.int64)),
                torch.from_numpy(rows.indices.astype(np.int64)),
                torch.from_numpy(rows.data).to(self.dtype),
                size=rows.shape,
                device=self.device,
                check_invariants=False,
            )

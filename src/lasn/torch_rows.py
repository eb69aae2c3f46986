"""Rows for a torch device that are not a tensor on it: sparse, or too many for its memory.

Both have what tensors of rows have: ``shape``, ``dtype``, ``device`` and ``X[rows]`` for a slice or
for positions. ``place_rows`` decides which form rows take.
"""

from __future__ import annotations

import warnings
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from lasn.arrays import is_tensor, to_numpy, torch_dtype

# Sparse rows of up to this many features are unpacked, block by block.
_NARROW = 4096
# Of the device's memory, rows may take this part; more of them stay outside.
ROWS_SHARE = 0.4


def place_rows(X: Any, device: torch.device, memory: int) -> Any:
    """Rows in the form in which the device works on them, given its free bytes."""
    if isinstance(X, (HostRows, SparseRows)):
        return X
    if sp.issparse(X):
        return SparseRows(X, device)
    tensor = shared_tensor(X)
    if tensor.device == device or tensor.nbytes <= ROWS_SHARE * memory:
        return tensor.to(device)
    return HostRows(tensor, device)


def shared_tensor(array: Any) -> torch.Tensor:
    """The array as a tensor, copied only if torch, which knows no read-only memory, has to."""
    if is_tensor(array):
        return array
    array = np.ascontiguousarray(array)
    return torch.from_numpy(array if array.flags.writeable else array.copy())


class HostRows:
    """Rows in the host's memory; a slice of them is copied to the device when it is asked for.

    ``prefetch`` starts such a copy, through pinned memory and beside what the device computes.
    """

    def __init__(self, rows: torch.Tensor, device: torch.device):
        self.rows, self.device = rows, device
        self.shape, self.dtype = rows.shape, rows.dtype
        self.thread = ThreadPoolExecutor(1, "lasn-copy")
        self.ahead: tuple[slice, Future] | None = None
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None

    def __getitem__(self, rows) -> torch.Tensor:
        if isinstance(rows, slice) and self.ahead is not None and self.ahead[0] == rows:
            tensor, event = self.ahead[1].result()
            self.ahead = None
            if event is not None:
                current = torch.cuda.current_stream(self.device)
                current.wait_event(event)
                tensor.record_stream(current)
            return tensor
        if is_tensor(rows):
            rows = rows.cpu()
        return self.rows[rows].to(self.device)

    def prefetch(self, rows: slice) -> None:
        self.ahead = (rows, self.thread.submit(self._copy, rows))

    def _copy(self, rows: slice) -> tuple[torch.Tensor, Any]:
        part = self.rows[rows]
        if self.stream is None:
            return part.to(self.device), None
        with torch.cuda.stream(self.stream):
            tensor = part.pin_memory().to(self.device, non_blocking=True)
            event = torch.cuda.Event()
            event.record(self.stream)
        return tensor, event


class SparseRows:
    """CSR rows in the host's memory; a few of them at a time are copied to the device."""

    def __init__(self, rows: Any, device: torch.device, dtype: torch.dtype | None = None):
        self.rows, self.device = rows, device
        self.shape = rows.shape
        self.dtype = torch_dtype(rows.dtype) if dtype is None else dtype

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

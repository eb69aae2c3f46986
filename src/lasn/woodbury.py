"""What Woodbury's identity needs of a Nystroem map over rows that grow in number.

With A = diag(scale) F and F = [K(U, L) M, 1]::

    (I + A A^T)^-1 = I - A (I + A^T A)^-1 A^T

F is computed once for each row, where the rows are; products with it are shared out among threads,
in its own type, and sums over rows are float64. Vectors are NumPy's wherever F is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from lasn.arrays import concatenate, is_tensor, like, to_numpy, transposed_times, wide
from lasn.features import mapping_among
from lasn.gram import Gram, Group
from lasn.kernels import Kernel
from lasn.threads import for_each_slice, n_threads, run_in_threads

# Rows of F whose products are summed in its own type: as many as a cache holds, or more of them, so
# that a device is busy.
_SLICE_ROWS, _SLICE_ROWS_THERE = 1024, 8192


class MapFeatures:
    """[K(U, L) M, 1] for U that grows, shape (m, q + 1)."""

    def __init__(self, kernel: Kernel, landmarks, dtype):
        self.columns = kernel.against(landmarks, dtype)
        self.mapping = mapping_among(kernel, landmarks, dtype=dtype)
        self.parts: list[Any] = []
        self.n_groups = 0

    def of(self, gram: Gram) -> Any:
        new = gram.groups[self.n_groups :]
        if new:
            parts = [*self.parts, self._features(new)]
            self.parts = [concatenate(parts)] if len(parts) > 1 else parts
            self.n_groups = len(gram.groups)
        return self.parts[0]

    def _features(self, groups: list[Group]) -> Any:
        ends = np.cumsum([group.rows.shape[0] for group in groups])
        shape = (int(ends[-1]), self.mapping.shape[1] + 1)
        if is_tensor(self.mapping):
            F = self.mapping.new_ones(shape)
        else:
            F = np.ones(shape, dtype=self.mapping.dtype)

        def fill(one: slice) -> None:
            values = self.columns.matrix(groups[one.start].rows) @ self.mapping
            end = int(ends[one.start])
            F[end - len(values) : end, :-1] = values

        for_each_slice(len(groups), 1, fill)
        return F


def shifted_square(F: Any, scale: np.ndarray) -> Any:
    """I + F^T diag(scale^2) F, summed in float64, where F is."""
    scale = like(scale, F)

    def square(rows: slice) -> Any:
        block = F[rows] * scale[rows, None]
        return block.T @ block

    total = _sum_over_rows(F, F.shape[1], square)
    total.reshape(-1)[:: F.shape[1] + 1] += 1.0
    return total


def transposed_product(F: Any, V: np.ndarray) -> np.ndarray:
    """F^T V, summed in float64."""
    V = like(V, F)
    total = _sum_over_rows(F, V.shape[1], lambda rows: transposed_times(F[rows], V[rows]))
    return wide(to_numpy(total))


def product_with(F: Any, V: np.ndarray) -> np.ndarray:
    """F V, in the type of F."""
    if is_tensor(F):
        return to_numpy(F @ like(V, F))
    out = np.empty((len(F), V.shape[1]), dtype=F.dtype)

    def multiply(part: slice) -> None:
        np.matmul(F[part], V, out=out[part])

    for_each_slice(len(F), _SLICE_ROWS, multiply)
    return out


def _sum_over_rows(F: Any, n_columns: int, some: Callable[[slice], Any]) -> Any:
    """The sum of ``some(rows)``, shape (q + 1, n_columns), over slices of the rows of F."""
    size = _SLICE_ROWS_THERE if is_tensor(F) else _SLICE_ROWS
    slices = [slice(start, start + size) for start in range(0, len(F), size)]
    threads = max(1, min(n_threads(), len(slices)))
    shape = (F.shape[1], n_columns)

    def add(chosen: list[slice]) -> Any:
        total = wide(F.new_zeros(shape)) if is_tensor(F) else np.zeros(shape)
        for rows in chosen:
            total += some(rows)
        return total

    return sum(run_in_threads([partial(add, slices[first::threads]) for first in range(threads)]))

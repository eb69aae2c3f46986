"""What Woodbury's identity needs of a Nystroem map over rows that grow in number.

With A = diag(scale) F and F = [K(U, L) M, 1]::

    (I + A A^T)^-1 = I - A (I + A^T A)^-1 A^T

F is computed once for each row; products with it are shared out among threads, in its own type,
and sums over rows are float64.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from lasn.features import mapping_matrix
from lasn.gram import Gram
from lasn.kernels import Kernel
from lasn.threads import for_each_slice, n_threads, run_in_threads


class MapFeatures:
    """[K(U, L) M, 1] for U that grows, shape (m, q + 1)."""

    def __init__(self, kernel: Kernel, landmarks, dtype):
        self.columns = kernel.against(landmarks, dtype)
        self.mapping = mapping_matrix(kernel(landmarks, landmarks), dtype=dtype)
        self.parts: list[np.ndarray] = []
        self.n_groups = 0

    def of(self, gram: Gram) -> np.ndarray:
        new = gram.groups[self.n_groups :]
        self.n_groups = len(gram.groups)
        sizes = [group.rows.shape[0] for group in new]
        F = np.ones((sum(sizes), self.mapping.shape[1] + 1), dtype=self.mapping.dtype)
        ends = np.cumsum(sizes)

        def fill(one: slice) -> None:
            group, end = new[one.start], ends[one.start]
            values = np.empty((sizes[one.start], self.columns.n_columns), dtype=F.dtype)
            self.columns.fill(group.rows, values)
            np.matmul(values, self.mapping, out=F[end - len(values) : end, :-1])

        for_each_slice(len(new), 1, fill)
        self.parts = [np.concatenate([*self.parts, F])] if len(new) else self.parts
        return self.parts[0]


def _slices(n_rows: int) -> list[list[slice]]:
    """Slices of rows that stay in cache, shared out among the threads."""
    slices = [slice(start, start + 1024) for start in range(0, n_rows, 1024)]
    threads = max(1, min(n_threads(), len(slices)))
    return [slices[first::threads] for first in range(threads)]


def shifted_square(F: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """I + F^T diag(scale^2) F, summed in float64."""

    def some(slices: list[slice]) -> np.ndarray:
        total = np.zeros((F.shape[1], F.shape[1]))
        for part in slices:
            block = F[part] * scale[part, None]
            total += block.T @ block
        return total

    return sum(run_in_threads([partial(some, one) for one in _slices(len(F))]), np.eye(F.shape[1]))


def transposed_product(F: np.ndarray, V: np.ndarray) -> np.ndarray:
    def some(slices: list[slice]) -> np.ndarray:
        return sum((F[part].T @ V[part] for part in slices), np.zeros((F.shape[1], V.shape[1])))

    zero = np.zeros((F.shape[1], V.shape[1]))
    return sum(run_in_threads([partial(some, one) for one in _slices(len(F))]), zero)


def product_with(F: np.ndarray, V: np.ndarray) -> np.ndarray:
    out = np.empty((len(F), V.shape[1]), dtype=F.dtype)

    def multiply(part: slice) -> None:
        np.matmul(F[part], V, out=out[part])

    for_each_slice(len(F), 1024, multiply)
    return out

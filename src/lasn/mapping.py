"""Products K M with the mapping matrix, half of which is zero where it is a Cholesky factor's.

::

    F[:, j : j'] = K[:, : j'] M[: j', j : j']        for slices j : j' of the columns of M

Of an upper triangular M that is little more than half of the operations.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lasn.arrays import is_tensor

# Narrower slices would skip a few zeros more, and be multiplied more slowly.
_SLICE_COLUMNS = 256


class TimesMapping:
    """The function K -> K M, shape (n, q), for M of shape (k, q): an array or a tensor."""

    def __init__(self, M: Any):
        self.M = M
        self.slices = None if is_tensor(M) else _slices_of_triangle(M)

    def __call__(self, K: Any, out: np.ndarray | None = None) -> Any:
        if is_tensor(self.M):
            return K @ self.M
        if self.slices is None:
            return np.matmul(K, self.M, out=out)
        if out is None:
            out = np.empty((len(K), self.M.shape[1]), dtype=np.result_type(K, self.M))
        for part in self.slices:
            np.matmul(K[:, : part.stop], self.M[: part.stop, part], out=out[:, part])
        return out


def _slices_of_triangle(M: np.ndarray) -> list[slice] | None:
    """Slices of the columns of M, below each of which it is zero; None if it is not."""
    k, q = M.shape
    if k != q or q <= _SLICE_COLUMNS or M[1:, 0].any():  # the last tells it of most at once
        return None
    slices = [slice(start, min(start + _SLICE_COLUMNS, q)) for start in range(0, q, _SLICE_COLUMNS)]
    return None if any(M[part.stop :, part].any() for part in slices) else slices

"""Products K M with the mapping matrix, half of which is zero where it is a Cholesky factor's.

Of an upper triangular M, BLAS's ``trmm`` (see ``triangles.py``) reads the other half only, and
F = K M takes half of the operations and K's own memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lasn.arrays import is_tensor
from lasn.triangles import times_upper

# Smaller triangles are looked at in the time that they would save.
_FEWEST_COLUMNS = 64


class TimesMapping:
    """The function K -> K M, shape (n, q), for M of shape (k, q): an array or a tensor."""

    def __init__(self, M: Any):
        self.is_triangle = not is_tensor(M) and _is_upper_triangle(M)
        self.M = np.ascontiguousarray(M) if self.is_triangle else M

    def __call__(self, K: Any, out: np.ndarray | None = None, own: bool = False) -> Any:
        """K M in ``out``, or else in new memory; a K that is ``own`` is not needed any more."""
        if is_tensor(self.M):
            return K @ self.M
        multiply = None
        if self.is_triangle and K.dtype == self.M.dtype:
            multiply = times_upper(K.dtype)
        if multiply is None:
            return np.matmul(K, self.M, out=out)
        if out is not None:
            np.copyto(out, K)
        elif own and K.flags.c_contiguous:
            out = K
        else:
            out = np.array(K, order="C")
        multiply(self.M, out)
        return out


def _is_upper_triangle(M: np.ndarray) -> bool:
    k, q = M.shape
    if k != q or q < _FEWEST_COLUMNS or M[1:, 0].any():  # the last tells it of most at once
        return False
    ends = range(_FEWEST_COLUMNS, q + _FEWEST_COLUMNS, _FEWEST_COLUMNS)
    parts = [(slice(end - _FEWEST_COLUMNS, end), end) for end in ends]
    return not any(np.tril(M[j, j], -1).any() or M[end:, j].any() for j, end in parts)

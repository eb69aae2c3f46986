"""Products K M with the mapping matrix, half of which is zero where it is a Cholesky factor's.

Of an upper triangular M, BLAS's ``trmm`` reads the other half only, and F = K M takes half of the
operations and K's own memory. SciPy has it, but calls it with Python's lock held, so that threads
would wait for each other. SciPy gives the address of the function to other compilers (in
``scipy.linalg.cython_blas``), and called there by ctypes it runs without the lock.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.linalg import cython_blas

from lasn.arrays import is_tensor

# Smaller triangles are looked at in the time that they would save.
_FEWEST_COLUMNS = 64
# By the type of the numbers; all arguments are addresses: side, triangle, transposed, diagonal of
# ones, rows, columns, factor, M and its stride, B and its stride.
_TRMM = {"float32": ("strmm", ctypes.c_float), "float64": ("dtrmm", ctypes.c_double)}
_ARGUMENTS, _FIRST_INTEGER = 11, 4


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
            multiply = _triangular_product(str(K.dtype))
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
    starts = range(0, q, _FEWEST_COLUMNS)
    return not any(np.tril(M[j:, j : j + _FEWEST_COLUMNS], -1).any() for j in starts)


@lru_cache(maxsize=2)
def _triangular_product(dtype: str) -> Callable[[np.ndarray, np.ndarray], None] | None:
    """A function (M, B) that writes B M to B; None where SciPy has none.

    M is C-contiguous, and so is each row of B. BLAS reads by columns: to it this is
    B^T <- M^T B^T with M^T a lower triangle.
    """
    name, number = _TRMM[dtype]
    trmm = _compiled(getattr(cython_blas, "__pyx_capi__", {}).get(name))
    if trmm is None:
        return None
    at = ctypes.byref
    left, lower, as_it_is, any_diagonal = map(ctypes.c_char, (b"L", b"L", b"N", b"N"))
    options = at(left), at(lower), at(as_it_is), at(any_diagonal)
    one = number(1.0)

    def multiply(M: np.ndarray, B: np.ndarray) -> None:
        n_rows, k, stride = map(ctypes.c_int, (*B.shape, max(len(M), B.strides[0] // B.itemsize)))
        places = M.ctypes.data, at(k), B.ctypes.data, at(stride)
        trmm(*options, at(k), at(n_rows), at(one), *places)

    return multiply


def _compiled(capsule: Any) -> Callable[..., None] | None:
    """The function that a capsule of Cython's holds, where its integers are C's ``int``."""
    if capsule is None or not hasattr(ctypes, "pythonapi"):
        return None
    name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)
    address_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    signature = name_of(("PyCapsule_GetName", ctypes.pythonapi))(capsule)
    arguments = signature.partition(b"(")[2].split(b",")
    if len(arguments) != _ARGUMENTS or arguments[_FIRST_INTEGER].strip() != b"int *":
        return None
    address = address_of(("PyCapsule_GetPointer", ctypes.pythonapi))(capsule, signature)
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * _ARGUMENTS)(address)

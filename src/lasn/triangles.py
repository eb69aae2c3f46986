"""Triangular matrices: BLAS's products and solutions in place, and Cholesky factors in halves.

SciPy has these functions of BLAS, but calls them with Python's lock held, so that threads would
wait for each other. SciPy gives their addresses to other compilers, in
``scipy.linalg.cython_blas``, and called there by ctypes they run without the lock.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache, partial
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cython_blas, lapack

from lasn.threads import n_threads, run_in_threads

# All arguments are addresses: side, triangle, transposed, diagonal of ones, rows, columns, factor,
# the triangle and its stride, B and its stride.
_ARGUMENTS, _FIRST_INTEGER = 11, 4
_NUMBERS = {"float32": ("s", ctypes.c_float), "float64": ("d", ctypes.c_double)}
# Smaller matrices are factored at once, and fewer rows of a product are no thread's work.
_SMALL, _FEWEST_ROWS = 256, 125

Triangular = Callable[[np.ndarray, np.ndarray], None]


def times_upper(dtype: Any) -> Triangular | None:
    """A function (U, B) that writes B U to B for an upper triangle U; None where SciPy has none.

    Each row of U, shape (k, k), and of B, shape (n, k), is contiguous; of U nothing else is read.
    """
    return _function("trmm", "lower", False, str(dtype))


def times_upper_transposed(dtype: Any) -> Triangular | None:
    """The same for B U^T."""
    return _function("trmm", "lower", True, str(dtype))


def over_lower_transposed(dtype: Any) -> Triangular | None:
    """The same for B R^-T and a lower triangle R."""
    return _function("trsm", "upper", True, str(dtype))


@cache
def _function(name: str, triangle: str, is_transposed: bool, dtype: str) -> Triangular | None:
    """A function of BLAS, which reads by columns: to it, B <- B T is B^T <- T^T B^T."""
    letter, number = _NUMBERS[dtype]
    called = _compiled(getattr(cython_blas, "__pyx_capi__", {}).get(letter + name))
    if called is None:
        return None
    at = ctypes.byref
    letters = b"L", triangle[:1].upper().encode(), b"T" if is_transposed else b"N", b"N"
    options = tuple(at(ctypes.c_char(one)) for one in letters)
    one = number(1.0)

    def stride(array: np.ndarray) -> Any:
        return at(ctypes.c_int(max(array.shape[1], array.strides[0] // array.itemsize, 1)))

    def function(triangle: np.ndarray, B: np.ndarray) -> None:
        n_rows, k = map(ctypes.c_int, B.shape)
        places = triangle.ctypes.data, stride(triangle), B.ctypes.data, stride(B)
        called(*options, at(k), at(n_rows), at(one), *places)

    return function


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


def inverse_factor(A: np.ndarray) -> np.ndarray:
    """M = R^-T, an upper triangle, where R R^T = A; the triangle of A below becomes R.

    A, shape (k, k), is C-contiguous float64; a ``LinAlgError`` if it is not positive definite.
    Large ones are factored in halves, and all threads have a part in the products::

        R_11 R_11^T = A_11                        M_11 = R_11^-T
        R_21 = A_21 R_11^-T
        R_22 R_22^T = A_22 - R_21 R_21^T          M_22 = R_22^-T
        M_12 = -(R_21 M_11^T)^T M_22
    """
    M = np.zeros_like(A)
    _fill_inverse(A, M)
    return M


def _fill_inverse(A: np.ndarray, M: np.ndarray) -> None:
    k = len(A)
    solve, times, times_transposed = (
        find(A.dtype) for find in (over_lower_transposed, times_upper, times_upper_transposed)
    )
    if k <= _SMALL or solve is None or times is None or times_transposed is None:
        # LAPACK reads by columns: the upper triangle of the transpose.
        upper, info = lapack.dpotrf(A.T, lower=0, clean=1)
        if info != 0:
            raise LinAlgError(f"{info}-th leading minor is not positive definite")
        A[...] = upper.T
        M[...] = lapack.dtrtri(upper, lower=0, overwrite_c=1)[0]
        return
    half = k // 2
    first, second = slice(half), slice(half, k)
    R_21, products = A[second, first], np.empty((k - half, half))
    _fill_inverse(A[first, first], M[first, first])

    def below(part: slice) -> None:
        solve(A[first, first], R_21[part])
        products[part] = R_21[part]
        times_transposed(M[first, first], products[part])

    def subtract(part: slice) -> None:
        A[second, second][part, : part.stop] -= R_21[part] @ R_21[: part.stop].T

    def beside(part: slice) -> None:
        M_12 = M[first, second][part]
        np.negative(products[:, part].T, out=M_12)
        times(M[second, second], M_12)

    _in_parts(k - half, below)
    _in_parts(k - half, subtract, triangle=True)
    _fill_inverse(A[second, second], M[second, second])
    _in_parts(half, beside)


def _in_parts(n_rows: int, work: Callable[[slice], None], triangle: bool = False) -> None:
    """Call ``work`` on a slice of the rows for each thread; those of a triangle grow shorter."""
    n_parts = max(1, min(n_threads(), n_rows // _FEWEST_ROWS))
    shares = np.linspace(0.0, 1.0, n_parts + 1)
    ends = (n_rows * (np.sqrt(shares) if triangle else shares)).round().astype(int)
    run_in_threads([partial(work, slice(a, b)) for a, b in pairwise(ends) if b > a])

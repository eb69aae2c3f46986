"""Cholesky factors of the symmetric k x k matrices that a fit needs, where those matrices are.

``factorize(V)`` takes a NumPy array or a torch tensor. What it returns solves V x = b for NumPy
arrays b of shape (q, c), so that Newton's method need not know where V is.

On a device triangular solves wait for each other, one row after the next. There the inverse of
the factor is kept instead, and a solve is two matrix-vector products.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.linalg import LinAlgError
from scipy.linalg.blas import dsymv, dtrsv, ssymv, strsv
from scipy.linalg.lapack import dpotrf, dpotrs, spotrf, spotrs

from lasn.arrays import cast, is_tensor, like, to_numpy, wide, widest_dtype

# Up to this many columns are solved for one after the other: LAPACK solves many at once, and takes
# as long for one as for eight.
_FEW_COLUMNS = 4
# So often a solution by a factor in float32 is corrected before one in float64 is made.
_CORRECTIONS = 3
# torch loads its linear algebra for a GPU when it is first used, and fails if two threads do so.
_ONE_AT_A_TIME = threading.Lock()


class Factor(Protocol):
    """What is kept of V."""

    @property
    def shift(self) -> float:
        """What was added to the diagonal of V."""

    def solve(self, B: np.ndarray) -> np.ndarray:
        """V^-1 b for each column, in float64."""

    def rounded(self) -> Factor:
        """The same in float32: enough for preconditioning."""


@dataclass(frozen=True)
class _TriangularFactor:
    """L with L L^T = V + shift I."""

    lower: np.ndarray
    shift: float

    def solve(self, B):
        single, upper = self.lower.dtype == np.float32, self.lower.T
        if B.ndim == 2 and B.shape[1] <= _FEW_COLUMNS:
            solve = strsv if single else dtrsv
            columns = (solve(upper, solve(upper, b, trans=1)) for b in B.T)
            return np.column_stack(list(columns)).astype(np.float64, copy=False)
        solve = spotrs if single else dpotrs
        found, _ = solve(upper, B, lower=False)
        return found.astype(np.float64, copy=False)

    def rounded(self):
        largest = np.finfo(np.float32).max
        if self.lower.max() > largest or self.lower.min() < -largest:
            return self
        return _TriangularFactor(self.lower.astype(np.float32), self.shift)


@dataclass(frozen=True)
class _InverseFactor:
    """L^-1 on a device."""

    inverse: Any
    shift: float

    def solve(self, B):
        found = self.inverse.T @ (self.inverse @ like(B, self.inverse))
        return to_numpy(found).astype(np.float64, copy=False)

    def rounded(self):
        return _InverseFactor(cast(self.inverse, np.float32), self.shift)


def factorize(V: Any, own: bool = False, least: float = np.inf) -> Factor:
    """Cholesky factor of V; what rounding took from its positive definiteness is added back.

    A V that is ``own`` is nobody else's, and its memory may become the factor's. No eigenvalue of V
    is less than ``least``. Where V's entries are so large that rounding hides it, solutions would
    consist of noise in those directions: then the size of that rounding is added ahead.
    """
    own = own and not is_tensor(V)
    diagonal = V.diagonal().copy() if own else V.diagonal()
    scale = float(diagonal.max())
    first, rounding = (1e-6, 2.0**-23) if "float32" in str(V.dtype) else (1e-12, 2.0**-52)
    shift = rounding * scale if rounding * scale > least else 0.0
    while True:
        try:
            return _factor(V, shift, own and shift == 0.0)
        except LinAlgError:
            if own and shift == 0.0:
                _restore(V, diagonal)
            shift = max(10.0 * shift, first * scale)
            if not np.isfinite(shift) or shift > scale:
                raise


def _restore(V: np.ndarray, diagonal: np.ndarray) -> None:
    """Mirror the triangle above the diagonal, where LAPACK has written over the one below it."""
    below = np.tril_indices(len(V), -1)
    V[below] = V.T[below]
    np.fill_diagonal(V, diagonal)


def refined_solution(V: np.ndarray, b: np.ndarray, most_left: float) -> np.ndarray:
    """V^-1 b, shape (q,), by a factor in V's own type; V, shape (q, q), is its lower triangle.

    Corrections follow, a few at most, until |b - V x| <= most_left; else the factor is float64's.
    """
    factor = factorize(V)
    product = ssymv if V.dtype == np.float32 else dsymv
    x = factor.solve(b)
    for _ in range(_CORRECTIONS):
        left = b - product(1.0, V.T, x, lower=False)  # BLAS reads by columns, as LAPACK does
        if np.linalg.norm(left) <= most_left:
            return x
        x += factor.solve(left)
    return factorize(wide(V)).solve(b)


def _factor(V: Any, shift: float, overwrite: bool) -> Factor:
    if is_tensor(V):
        inverse = inverse_cholesky(V, shift)
        return _InverseFactor(inverse.to(V.device, widest_dtype(V.device)), shift)
    shifted = V + shift * np.eye(len(V)) if shift else V
    factor = spotrf if shifted.dtype == np.float32 else dpotrf
    # LAPACK itself: SciPy's own part takes longer than LAPACK's where matrices are small. LAPACK
    # reads by columns, and the lower triangle by columns is the upper one of the transpose.
    upper, info = factor(shifted.T, lower=False, clean=False, overwrite_a=overwrite)
    if info != 0:
        raise LinAlgError(f"{info}-th leading minor is not positive definite")
    return _TriangularFactor(upper.T, shift)


def inverse_cholesky(V: Any, shift: float) -> Any:
    """L^-1 with L L^T = V + shift I, for a tensor V; a ``LinAlgError`` if that is not positive."""
    import torch

    if V.device.type == "mps":  # it has no float64
        V = V.cpu()
    V = V.to(torch.float64)
    identity = torch.eye(len(V), dtype=V.dtype, device=V.device)
    with _ONE_AT_A_TIME:
        lower, info = torch.linalg.cholesky_ex(V + shift * identity)
        if int(info) != 0:
            raise LinAlgError(f"{int(info)}-th leading minor is not positive definite")
        return torch.linalg.solve_triangular(lower, identity, upper=False)

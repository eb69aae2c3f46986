"""Preconditioned conjugate gradients for several systems that share the reading of their rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

# A linear map for each column: (D, columns) to an array of D's shape.
ColumnMap = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Solutions(NamedTuple):
    """x_c of V_c x_c = b_c, shape (q, c), and what it took; arrays of shape (c,) for the rest.

    ``steps`` of conjugate gradients leave a residual r_c, and ``left`` is <r, V^-1 r> as far as a
    preconditioner knows V. For such x, <b, V^-1 b> = <b, x> + <r, V^-1 r>.
    """

    X: np.ndarray
    steps: np.ndarray
    left: np.ndarray


def conjugate_gradients(
    product: ColumnMap,
    B: np.ndarray,
    forcing: np.ndarray,
    max_iter: int,
    precondition: ColumnMap = lambda R, columns: R,
) -> Solutions:
    """Solve V_c x_c = b_c for each column until |V_c x_c - b_c| <= forcing_c |b_c|.

    ::

        r = b;  s = P^-1 r;  p = s
        repeat
            alpha = <r, s> / <p, V p>
            x += alpha p;  r -= alpha V p;  s = P^-1 r
            p = s + (<r, s> / <old r, old s>) p

    Every x on the way is a descent direction for f, so stopping early is safe. P is the
    preconditioner, the identity by default. Columns that are done take no further part.
    """
    columns = np.arange(B.shape[1])
    X = np.zeros_like(B)
    R = B.copy()
    P = precondition(R, columns)
    rs = np.einsum("qc,qc->c", R, P)
    target = forcing * column_norms(B)
    steps, left = np.zeros(B.shape[1], dtype=int), rs.copy()
    for _ in range(max_iter):
        going = column_norms(R) > target[columns]
        if not going.all():
            columns, R, P, rs = columns[going], R[:, going], P[:, going], rs[going]
        if len(columns) == 0:
            break
        VP = product(P, columns)
        curvature = np.einsum("qc,qc->c", P, VP)
        alpha = np.divide(rs, curvature, out=np.zeros_like(rs), where=curvature > 0.0)
        X[:, columns] += alpha * P
        R = R - alpha * VP
        S = precondition(R, columns)
        before, rs = rs, np.einsum("qc,qc->c", R, S)
        P = S + np.divide(rs, before, out=np.zeros_like(rs), where=before > 0.0) * P
        steps[columns] += 1
        left[columns] = rs
    return Solutions(X, steps, left)


def column_norms(columns: np.ndarray) -> np.ndarray:
    return np.sqrt(np.einsum("qc,qc->c", columns, columns))

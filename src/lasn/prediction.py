"""Algorithm 3: scores K_el beta + b, in float32 where that will do and in float64 elsewhere.

A score is a sum f(x) = sum_j beta_j k(x, l_j), and coefficients of near landmarks are large and of
opposite signs: terms of size |beta_j| cancel to scores of size 1. Each float32 kernel value is off
by some 1e-7 of itself, so the score is off by about 1e-7 |beta|, where |beta| may pass 10^4 from
some hundreds of landmarks on. How much it is off is measured, at the landmarks that weigh most.
Half of it and more are sums that float32 rounds, so those are the first to be had in float64.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from lasn.arrays import is_tensor, like, to_numpy
from lasn.kernels import Kernel, KernelColumns
from lasn.threads import serial_products

# Of the largest score, at few rows: others may be worse, and 1e-4 are promised.
_TOLERANCE = 5e-5
_MEASURED_ROWS = 256


def scores(X, columns: KernelColumns | None, beta, intercept) -> Any:
    """K(X, L) beta + b, shape (m, c); X beta + b without landmarks (linear kernel)."""
    if columns is None:
        products = X @ like(beta, X)
    else:
        products = columns.times(X, beta)
    if is_tensor(products):
        return products + like(np.atleast_1d(intercept), products)
    return np.asarray(products) + intercept


@serial_products()  # else threads of BLAS are awake when those of a prediction begin
def prediction_columns(kernel: Kernel, landmarks: Any, beta: np.ndarray, dtype: Any) -> Any:
    """The kernel against landmarks in the dtype of the features, or in float64 if scores need it.

    Parameters
    ----------
    kernel : Kernel
    landmarks : array or CSR matrix of shape (k, p), or the same on a torch device
    beta : array of shape (k, c)
        Coefficients of the landmarks; K(X, L) beta are the scores.
    dtype : dtype
        Of the features that the model was fitted to.

    Returns
    -------
    columns : KernelColumns
        Of which ``times(X, beta)`` is exact to about 1e-4 of each column's largest score.

    Examples
    --------
    >>> import numpy as np
    >>> from lasn.kernels import Kernel
    >>> from lasn.prediction import prediction_columns
    >>> landmarks = np.array([[0.0], [1e-3]])
    >>> for beta in ([[1.0], [1.0]], [[-1e5], [1e5]]):
    ...     print(prediction_columns(Kernel("rbf"), landmarks, np.array(beta), np.float32).dtype)
    float32
    float64
    """
    exact = kernel.against(landmarks, np.float64)
    if np.dtype(dtype) == exact.dtype:
        return exact
    heaviest = np.argsort(np.abs(beta).max(axis=1))[-_MEASURED_ROWS:]
    rows = landmarks[np.sort(heaviest)]
    expected = to_numpy(exact.times(rows, beta))
    allowed = _TOLERANCE * np.abs(expected).max(axis=0)
    for columns in _fastest_first(kernel.against(landmarks, dtype)):
        try:
            error = np.abs(to_numpy(columns.times(rows, beta)) - expected).max(axis=0)
        except ValueError:  # float32 overflows where float64 does not
            break
        if np.all(error <= allowed):
            return columns
    return exact


def _fastest_first(columns: Any) -> Iterator[Any]:
    """Columns of float32 values, with their sums in float32 and in float64."""
    yield columns
    if isinstance(columns, KernelColumns):
        yield columns.with_exact_sums()

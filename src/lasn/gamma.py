"""What ``gamma`` stands for: rules that look at the rows, once.

========== ============================ =============================================
rule       gamma                        whose
========== ============================ =============================================
"variance" 1 / tr Cov(X)                the paper's
"scale"    1 / (p Var(X))               scikit-learn's, the variance of all values
"auto"     1 / p                        scikit-learn's
========== ============================ =============================================
"""

from __future__ import annotations

import threading

import numpy as np
import scipy

from lasn.arrays import is_sparse, like, times, to_numpy, wide
from lasn.memory import VALUES_AT_A_TIME, for_each_part
from lasn.threads import for_each_slice

# Of rows that are here: with fewer, threads would mostly wait for Python's lock.
_VALUES_OF_A_THREAD = 1 << 17


def resolve_gamma(gamma, X, sample_weight=None) -> float:
    """The number that ``gamma`` stands for on the rows ``X``.

    ``"variance"`` is the paper's rule, 1 / tr Cov(X): its kernel is exp(-|x - y|^2 / g) with
    g the average squared distance, and the g that it prints are total variances (half of
    the mean over pairs). ``"scale"`` and ``"auto"`` are scikit-learn's, 1 / (p Var(X)) and
    1 / p. Constant data has no scale: gamma is 1 then.
    """
    if not isinstance(gamma, str):
        return float(gamma)
    if gamma == "auto":
        return 1.0 / X.shape[1]
    mean, variance = column_moments(X, sample_weight)
    return gamma_of_moments(gamma, mean, variance, is_sparse(X))


def gamma_of_moments(gamma: str, mean: np.ndarray, variance: np.ndarray, is_sparse: bool) -> float:
    """The same from the mean and variance of each column, shapes (p,)."""
    if gamma == "auto":
        return 1.0 / len(mean)
    # What rounding leaves of a constant column is not a scale.
    rounding = 1e-14 if is_sparse else 1e-30
    spread = float(variance.sum())
    if gamma == "scale":
        spread += float(np.sum((mean - mean.mean()) ** 2))
    return 1.0 / spread if spread > rounding * float(np.sum(mean**2)) else 1.0


def column_moments(X, sample_weight) -> tuple[np.ndarray, np.ndarray]:
    """Weighted mean and variance of each column, shapes (p,), one pass, in float64.

    Dense rows are shifted by the first one, so that columns far from zero keep their digits.
    """
    weight = np.ones(X.shape[0]) if sample_weight is None else wide(sample_weight)
    weight = weight / weight.sum()
    if is_sparse(X):
        mean = X.T @ weight
        squares = scipy.sparse.csr_matrix((X.data * X.data, X.indices, X.indptr), shape=X.shape)
        return mean, np.maximum(squares.T @ weight - mean**2, 0.0)
    origin = wide(X[:1])
    is_here = isinstance(X, np.ndarray)
    shifted_moments = _shifted_moments if is_here else _shifted_moments_on_a_device
    mean, mean_square = shifted_moments(X, weight, origin)
    return mean + to_numpy(origin[0]), np.maximum(mean_square - mean**2, 0.0)


def _shifted_moments(X: np.ndarray, weight: np.ndarray, origin: np.ndarray) -> np.ndarray:
    """Mean and mean square of the columns of X minus the origin's, shape (2, p)."""
    size = max(64, _VALUES_OF_A_THREAD // X.shape[1])
    sums: dict[int, list[np.ndarray]] = {}
    scratch = threading.local()

    def add(part: slice) -> None:
        if not hasattr(scratch, "rows"):
            scratch.rows = np.empty((min(size, X.shape[0]), X.shape[1]))
        rows = scratch.rows[: part.stop - part.start]
        np.subtract(X[part], origin, out=rows)
        total = times(weight[part], rows)
        np.square(rows, out=rows)
        sums[part.start] = [total, times(weight[part], rows)]

    for_each_slice(X.shape[0], size, add)
    # In the order of the rows, whichever thread was first.
    return np.sum([sums[start] for start in sorted(sums)], axis=0)


def _shifted_moments_on_a_device(X, weight, origin) -> np.ndarray:
    """The same of rows on a torch device, or on their way to it, some at a time."""
    sums = np.zeros((2, X.shape[1]))

    def add(part: slice) -> None:
        nonlocal sums
        rows = X[part] - origin
        some = like(weight[part], rows)
        total = to_numpy(times(some, rows))
        rows *= rows
        # Both at once: where memory runs out, a part is added whole or not at all.
        sums += np.stack([total, to_numpy(times(some, rows))])

    for_each_part(X.shape[0], max(1, VALUES_AT_A_TIME // X.shape[1]), add)
    return sums

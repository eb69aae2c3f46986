"""How well a Nystroem map stands for the kernel: errors of K, and Theorem 2.

The residual R = K - F~ F~^T of the map is positive semidefinite, and its diagonal costs no more
than the features. Few rows: |R|_F and |R|_2 are computed. Many: rows are drawn with probabilities
R_ii / tr R, and::

    |R|_F^2  =  mean over the draws of  tr R * sum_j R_ij^2 / R_ii        unbiased
    |R|_2    >= the largest eigenvalue of R among the drawn rows          always true
    |R|_2    <= |R|_F
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigh, solve
from scipy.special import stdtrit

from lasn.features import best_rank_k_map, mapping_matrix
from lasn.kernels import Kernel

# Up to this many rows the kernel matrix is formed whole.
SMALL = 1000
_DRAWS = 200
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class KernelError:
    """``|K - K~|`` of a Nystroem map; intervals hold with the stated confidence, 1 where exact.

    The confidence is that of Student's interval over the drawn rows, so it is approximate; the
    lower end for the spectral norm holds always.

    Examples
    --------
    >>> import lasn
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = lasn.LASNClassifier(20, random_state=0).fit(X, y)
    >>> error = lasn.certify(model, X, y).kernel_error
    >>> error.confidence, error.spectral <= error.frobenius
    (1.0, True)
    """

    frobenius: float
    frobenius_interval: tuple[float, float]
    spectral: float
    spectral_interval: tuple[float, float]
    confidence: float
    rows: int


def kernel_error(kernel: Kernel, X, landmarks, mapping: np.ndarray, rng) -> KernelError:
    """The errors of the map x -> K(x, L) M on the rows X."""
    n = X.shape[0]
    columns = kernel.against(landmarks)
    if n <= SMALL:
        F = columns.times(X, mapping)
        R = kernel(X, X) - F @ F.T
        frobenius, spectral = float(np.linalg.norm(R)), float(np.linalg.norm(R, 2))
        return KernelError(frobenius, (frobenius,) * 2, spectral, (spectral,) * 2, 1.0, n)
    blocks = [slice(start, start + 1024) for start in range(0, n, 1024)]
    squares = [np.sum(columns.times(X[part], mapping) ** 2, axis=1) for part in blocks]
    diagonal = np.maximum(kernel.diagonal(X) - np.concatenate(squares), 0.0)
    trace = float(diagonal.sum())
    if trace == 0.0:
        return KernelError(0.0, (0.0, 0.0), 0.0, (0.0, 0.0), 1.0, n)
    drawn = rng.choice(n, size=_DRAWS, p=diagonal / trace)
    chosen = kernel.against(X[drawn])
    F_drawn = columns.times(X[drawn], mapping)
    sums = np.zeros(_DRAWS)
    for part in blocks:
        R = chosen.matrix(X[part]) - columns.times(X[part], mapping) @ F_drawn.T
        sums += np.sum(R * R, axis=0)
    samples = trace * sums / diagonal[drawn]
    mean = float(samples.mean())
    half = float(stdtrit(_DRAWS - 1, 0.5 + 0.5 * _CONFIDENCE) * samples.std(ddof=1))
    half /= np.sqrt(_DRAWS)
    interval = float(np.sqrt(max(mean - half, 0.0))), float(np.sqrt(mean + half))
    distinct, counts = np.unique(drawn, return_counts=True)
    F_distinct = columns.times(X[distinct], mapping)
    R = kernel(X[distinct], X[distinct]) - F_distinct @ F_distinct.T
    lower = float(eigh(R, eigvals_only=True)[-1])
    # Rows drawn by R_ii: tr R / draws times the spectrum of R_ij / sqrt(R_ii R_jj).
    scale = np.sqrt(counts / diagonal[distinct])
    spectral = trace / _DRAWS * float(eigh(scale[:, None] * R * scale, eigvals_only=True)[-1])
    upper = max(interval[1], lower)
    spectral = float(np.clip(spectral, lower, upper))
    return KernelError(
        float(np.sqrt(mean)), interval, spectral, (lower, upper), _CONFIDENCE, _DRAWS
    )


@dataclass(frozen=True)
class Theorem2:
    """Theorem 2: ``|w - w~|`` for the best map of rank k and the model's, and what bounds it.

    ``printed`` is the paper's bound; ``repaired`` the one that its proof supports for every C (see
    docs/paper_map.md).

    Examples
    --------
    >>> import lasn
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = lasn.LASNClassifier(20, C=1.0, random_state=0).fit(X[:100], y[:100])
    >>> sides = lasn.certify(model, X[:100], y[:100]).theorem_2
    >>> bool(sides.distance <= sides.repaired)
    True
    """

    distance: float
    printed: float
    repaired: float


def theorem_2(kernel: Kernel, X, landmarks, y: np.ndarray, C: float) -> Theorem2:
    """Both sides of Theorem 2 for few rows, both problems without bias."""
    K_ll = kernel(landmarks, landmarks)
    mapping = mapping_matrix(K_ll)
    K, n, k = kernel(X, X), X.shape[0], min(mapping.shape[1], X.shape[0] - 1)
    best = best_rank_k_map(K, k)
    F = kernel(X, landmarks) @ mapping[:, :k]
    # The sign of an eigenvector is free: each column is turned to the side of its partner.
    F = F * np.where(np.sum(best * F, axis=0) < 0.0, -1.0, 1.0)
    w, w_nystroem = (_linear_svm(rows, y, C) for rows in (best, F))
    rho = max(np.max(np.sum(rows**2, axis=1)) for rows in (best, F))
    G = max(np.max(np.abs(rows @ v)) for rows in (best, F) for v in (w, w_nystroem))
    exact = eigh(K, eigvals_only=True)[::-1]
    approximate = eigh(K_ll, eigvals_only=True)[::-1][:k] * n / len(K_ll)
    error = K - F @ F.T
    e_f = np.sqrt(np.sum(exact[k:] ** 2)) + np.linalg.norm(error)
    e_2 = max(exact[k], 0.0) + np.linalg.norm(error, 2)
    kept = np.maximum(exact[:k], np.finfo(float).tiny)
    A = np.maximum(1.0 / approximate + 1.0 / kept, 3.0 / approximate - 1.0 / kept)
    bracket = (
        k * e_f**0.25
        + exact[0] * np.sum(A)
        + k * e_2 * np.sum(1.0 / approximate) * (e_f**0.25 + np.sum(kept**2) ** 0.25)
    )
    scale = (C * n) ** 2 * np.sqrt(rho)
    return Theorem2(
        distance=float(np.linalg.norm(w - w_nystroem)),
        printed=float(np.sqrt(4.0 * scale * G * (G + 1.0) * bracket)),
        repaired=float(np.sqrt(8.0 * scale * (G + 1.0) ** 2 * np.linalg.norm(best - F))),
    )


def _linear_svm(F: np.ndarray, y: np.ndarray, C: float) -> np.ndarray:
    """argmin 1/2 |w|^2 + C sum max(0, 1 - y <w, x>)^2: Algorithm 1 with dense solves."""

    def value(w: np.ndarray) -> float:
        return 0.5 * float(w @ w) + C * float(np.sum(np.maximum(1.0 - y * (F @ w), 0.0) ** 2))

    w, before = np.zeros(F.shape[1]), None
    for _ in range(100):
        active = 1.0 - y * (F @ w) > 0.0
        if before is not None and np.array_equal(active, before):
            break
        A: Any = F[active]
        V = np.eye(len(w)) + 2.0 * C * A.T @ A
        step = solve(V, 2.0 * C * A.T @ y[active], assume_a="pos") - w
        t = 1.0
        while value(w + t * step) > value(w) and t > 1e-10:
            t *= 0.5
        w, before = w + t * step, active if t == 1.0 else None
    return w

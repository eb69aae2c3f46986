"""The exact L2-loss kernel SVM for a few thousand rows: semismooth Newton with the whole K.

::

    min_f  1/2 |f|^2 + C sum_i max(0, 1 - y_i f(x_i))^2,    f(x) = sum_j alpha_j (k(x, x_j) + 1)

The bias is regularised as everywhere in this package, which adds 1 to the kernel. Let I be the rows
with y_i f(x_i) < 1. Newton's step solves, over those rows only,

    (K_II + 1 + I / (2C)) alpha_I = y_I,        alpha = 0 elsewhere,

which is the solution once I stays. f is linear in alpha, so the minimiser along the line to it
costs O(n) a trial. lambda = y alpha is feasible for the dual in the end; the gap is returned.
"""

import numpy as np
from scipy.linalg import cho_factor, cho_solve

MOST_STEPS = 100


def exact_l2_svm(K: np.ndarray, y: np.ndarray, C: float) -> tuple[np.ndarray, float]:
    """alpha, shape (n,), for the kernel matrix K of the training rows, and the relative gap.

    Decision values for kernel rows K_test, shape (m, n), are ``(K_test + 1) @ alpha``.
    """
    K = K + 1.0
    alpha, scores = np.zeros(len(y)), np.zeros(len(y))
    for _ in range(MOST_STEPS):
        active = np.flatnonzero(y * scores < 1.0)
        system = K[np.ix_(active, active)]
        system[np.diag_indices_from(system)] += 0.5 / C
        target = np.zeros(len(y))
        target[active] = cho_solve(cho_factor(system, overwrite_a=True), y[active])
        target_scores = K[:, active] @ target[active]
        same = np.array_equal(np.flatnonzero(y * target_scores < 1.0), active)
        t = 1.0 if same else _best_step(alpha, scores, target, target_scores, y, C)
        alpha, scores = alpha + t * (target - alpha), scores + t * (target_scores - scores)
        if same:
            break
    return alpha, _gap(alpha, scores, y, C)


def _best_step(alpha, scores, target, target_scores, y, C) -> float:
    """The t that minimises the objective on the line, by bisection of its increasing slope."""
    d, d_scores = target - alpha, target_scores - scores

    def slope(t: float) -> float:
        residual = np.maximum(0.0, 1.0 - y * (scores + t * d_scores))
        return float((alpha + t * d) @ d_scores - 2.0 * C * (residual * y) @ d_scores)

    low, high = 0.0, 1.0
    if slope(high) <= 0.0:
        return 1.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if slope(middle) < 0.0 else (low, middle)
    return 0.5 * (low + high)


def _gap(alpha, scores, y, C) -> float:
    norm = float(alpha @ scores)
    primal = 0.5 * norm + C * float(np.sum(np.maximum(0.0, 1.0 - y * scores) ** 2))
    dual_variables = np.maximum(0.0, y * alpha)
    dual = float(np.sum(dual_variables)) - 0.5 * norm - float(alpha @ alpha) / (4.0 * C)
    return (primal - dual) / primal

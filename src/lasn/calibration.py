"""Probabilities from scores, such that the most probable class is the one with the largest score.

Both maps are fitted to held-out scores z, shape (n, c) (one column for two classes)::

    "sigmoid"    p = softmax(a z), for two classes 1 / (1 + exp(-a z)); a > 0 has the largest
                 likelihood
    "isotonic"   p_j = g(z_j) / sum_j g(z_j); g, the same for all classes, is the monotone function
                 with the least squared error. For two classes g(z) stays on z's side of 1/2.

A constant beside a, or a function g for each class, could fit better, but would now and then call
another class more probable than the one that is predicted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.isotonic import IsotonicRegression

# Keeps order, and sums above zero, where g is flat.
TILT = 1e-6
_LOG_SLOPES = (np.log(1e-4), np.log(1e4))


class Calibration(Protocol):
    """A fitted map from scores, shape (m, c), to probabilities, shape (m, classes)."""

    def probabilities(self, scores: np.ndarray) -> np.ndarray: ...


def calibrate(method: str, scores: np.ndarray, labels: np.ndarray, weight) -> Calibration:
    """Fit a map; ``labels`` are positions of classes, shape (n,)."""
    fit: Any = {"sigmoid": _fit_sigmoid, "isotonic": _fit_isotonic}[method]
    return fit(np.asarray(scores, dtype=np.float64), labels, weight)


@dataclass(frozen=True)
class SigmoidCalibration:
    """softmax(slope * scores)."""

    slope: float

    def probabilities(self, scores):
        if scores.shape[1] == 1:
            positive = expit(self.slope * scores[:, 0])
            return np.column_stack([1.0 - positive, positive])
        return softmax(self.slope * scores, axis=1)


@dataclass(frozen=True)
class IsotonicCalibration:
    """g by its corners: linear between ``scores`` and ``values``, both ascending."""

    scores: np.ndarray
    values: np.ndarray

    def probabilities(self, scores):
        g = np.interp(scores, self.scores, self.values)
        if scores.shape[1] == 1:
            positive = np.where(scores > 0.0, np.maximum(g, 0.5 + TILT), np.minimum(g, 0.5))[:, 0]
            return np.column_stack([1.0 - positive, positive])
        tilted = g + TILT * (1.0 + expit(scores))
        return tilted / tilted.sum(axis=1, keepdims=True)


def _fit_sigmoid(scores, labels, weight) -> SigmoidCalibration:
    rows = np.arange(len(labels))
    sign = np.where(labels == 1, 1.0, -1.0)

    def loss(log_slope: float) -> float:
        slope = np.exp(log_slope)
        if scores.shape[1] == 1:
            likelihoods = log_expit(slope * sign * scores[:, 0])
        else:
            likelihoods = log_softmax(slope * scores, axis=1)[rows, labels]
        return -float(weight @ likelihoods)

    best = minimize_scalar(loss, bounds=_LOG_SLOPES, method="bounded", options={"xatol": 1e-6})
    return SigmoidCalibration(float(np.exp(best.x)))


def _fit_isotonic(scores, labels, weight) -> IsotonicCalibration:
    if scores.shape[1] == 1:
        hits = (labels == 1).astype(np.float64)[:, None]
    else:
        hits = (labels[:, None] == np.arange(scores.shape[1])).astype(np.float64)
    weights = np.broadcast_to(weight[:, None], scores.shape)
    fitted = IsotonicRegression(out_of_bounds="clip").fit(
        scores.ravel(), hits.ravel(), sample_weight=weights.ravel()
    )
    return IsotonicCalibration(fitted.X_thresholds_, fitted.y_thresholds_)

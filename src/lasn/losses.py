"""Losses: what one row costs, as a function of its target y and its score z = w . x.

A loss is one small class with two methods, both elementwise over arrays of one shape, NumPy's or
torch's:

``value(y, z)``
    the loss;
``expand(y, z)``
    the loss, its derivative in z and its (generalised) second derivative in z.

The second derivative must not be negative. Rows where it is zero are *inactive*: they leave the
Hessian and cost nothing there. ``rests(y, z, margin)`` says which rows cost nothing at z nor at any
score within ``margin`` of it. To add a loss, write such a class; a classifier's is named in
``CLASSIFIER_LOSSES``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from lasn.arrays import namespace, positive_part, sigmoid, softplus


class Loss(Protocol):
    """What the objective needs of a loss."""

    def value(self, y: np.ndarray, z: np.ndarray) -> np.ndarray: ...

    def expand(self, y: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]: ...

    def rests(self, y: np.ndarray, z: np.ndarray, margin: float) -> np.ndarray: ...


@dataclass(frozen=True)
class SquaredHinge:
    """max(0, 1 - y z)^2 with y in {-1, +1}: the L2-loss SVM of the paper.

    Its derivative -2 y max(0, 1 - y z) is semismooth; 2 [1 - y z > 0] is the element of
    the generalised second derivative that Algorithm 1 takes.
    """

    def value(self, y, z):
        slack = positive_part(1.0 - y * z)
        return slack * slack

    def expand(self, y, z):
        slack = positive_part(1.0 - y * z)
        slope = y * slack
        slope *= -2.0
        return slack * slack, slope, 2.0 * (slack > 0.0)

    def rests(self, y, z, margin):
        return y * z > 1.0 + margin


@dataclass(frozen=True)
class LogLoss:
    """log(1 + exp(-y z)) with y in {-1, +1}: logistic regression, so scores are log-odds."""

    def value(self, y, z):
        return softplus(-y * z)

    def expand(self, y, z):
        wrong = sigmoid(-y * z)
        return softplus(-y * z), -y * wrong, wrong * (1.0 - wrong)

    def rests(self, y, z, margin):
        return z > np.inf  # none


@dataclass(frozen=True)
class SquaredEpsilonInsensitive:
    """max(0, |z - y| - epsilon)^2 with real y: the L2-loss support vector regression."""

    epsilon: float = 0.1

    def value(self, y, z):
        outside = positive_part(abs(z - y) - self.epsilon)
        return outside * outside

    def expand(self, y, z):
        residual = z - y
        outside = positive_part(abs(residual) - self.epsilon)
        return outside * outside, 2.0 * namespace(z).sign(residual) * outside, 2.0 * (outside > 0.0)

    def rests(self, y, z, margin):
        return abs(z - y) < self.epsilon - margin


CLASSIFIER_LOSSES: dict[str, Loss] = {"squared_hinge": SquaredHinge(), "log_loss": LogLoss()}

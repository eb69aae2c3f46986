"""What a model and the exact machine f* must have in common: scores, and labels.

With the model f, a dual point a, its function f_a = sum_i a_i k^(x_i, .) and the gap
G = P(f) - D(a) of ``duality.py``, and with z_i and z*_i for the scores of f and f* at row i::

    G = 1/2 |f - f*|^2 + 1/2 |f_a - f*|^2 + sum_i T_i(z*_i)

    T_i(t) = C_i (loss(z_i) - loss(t) - loss'(t) (z_i - t))        what f's score is above a tangent
           + C_i loss(t) + a_i t - g(lambda_i)                     Fenchel and Young's gap of a

an equation: the first two parts of G - T are what strong convexity gives, and T_i, which is not
negative, is what it leaves out. Around the midpoint m = (f + f_a) / 2 it reads::

    |m - f*|^2 + sum_i T_i(z*_i) = G - 1/4 |f - f_a|^2 = room

so no score of f* is further from m(x) than (room (k(x, x) + 1))^(1/2). Suppose that f has a score
above some t and f* one below. Either part of T_i falls towards one point and rises after it. If
that point is above t, the part is at least what it is at t. So such a row costs

    (m(x_i) - t)^2 / (k(x_i, x_i) + 1)  +  T_i(t), as far as its parts rise beyond t

If that is more than the room, it cannot be: the row has the label that f* gives it. And all rows
whose labels differ share one room, so there are no more of them than can be paid for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lasn.enclosure import Dual, DualPoint, Primal, kernel_times

_UNIT = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class SharedLabels:
    """Rows, shape (n,), whose label is proved, and how many rows may have another label at most."""

    proved: np.ndarray
    most_different: int


class Neighbourhood:
    """All functions that f* may be, seen from the rows of the problem. Scores have shape (n, c)."""

    def __init__(self, primal: Primal, dual: Dual, point: DualPoint, gap: np.ndarray):
        problem = primal.problem
        self.primal, self.problem, self.gap = primal, problem, gap
        n_rows, n_problems = primal.z.shape
        signed = dual.signs * point.multipliers
        self.alpha, self.g = np.zeros((2, n_rows, n_problems))
        self.alpha[dual.rows] = signed
        for c, terms in enumerate(dual.terms):
            self.g[dual.rows, c] = terms.value(point.multipliers[:, c])
        scores = _scores_of_dual(problem.X, dual, signed, point.Ka)
        self.centre = 0.5 * (primal.z + scores)
        size = np.sum(np.abs(signed), axis=0)
        self.rounding = 2.0 * (primal.rounding + dual.rounding * size)
        self.reach = primal.model.kernel.diagonal(problem.X) + 1.0
        apart = primal.square + primal.bias**2
        apart = apart - 2.0 * np.sum(signed * primal.z[dual.rows], axis=0)
        apart += np.sum(signed * point.Ka, axis=0)
        apart -= primal.square_rounding + 2.0 * size * self.rounding + dual.rounding * size**2
        self.room = gap - 0.25 * np.maximum(apart, 0.0)
        self.room = np.maximum(self.room, 0.0) + 64.0 * _UNIT * gap

    def score_distance(self) -> float:
        """Bounds |f(x) - f*(x)| over rows and problems, by either of the two balls."""
        reach = np.sqrt(self.reach)[:, None]
        from_centre = np.abs(self.primal.z - self.centre) + reach * np.sqrt(self.room)
        from_model = reach * np.sqrt(2.0 * self.gap)
        distances = np.minimum(from_centre + self.rounding, from_model + self.primal.rounding)
        return float(np.max(distances))

    def labels(self, predicted: np.ndarray) -> SharedLabels:
        """What is known of labels.

        ``predicted``, shape (n,), are the model's: the column of the largest score, or for a single
        column 0 and 1.
        """
        z = self.primal.z
        rows = np.arange(len(z))
        if z.shape[1] == 1:
            best, threshold, above = (z[:, 0] > 0.0).astype(int), np.zeros(len(z)), z > 0.0
        else:
            best = z.argmax(axis=1)
            above = np.zeros(z.shape, dtype=bool)
            above[rows, best] = True
            threshold = 0.5 * (z[rows, best] + np.max(np.where(above, -np.inf, z), axis=1))
        distance, terms = self._crossing_costs(threshold[:, None], np.where(above, 1.0, -1.0))
        proved = np.all(distance + terms > self.room, axis=1) & (predicted == best)
        # A row that differs has crossed in at least one problem.
        costs = np.where(predicted == best, terms.min(axis=1), 0.0)
        paid = np.cumsum(np.sort(costs[~proved]))
        return SharedLabels(proved, int(np.searchsorted(paid, self.room.sum(), side="right")))

    def _crossing_costs(self, t: np.ndarray, side: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What it costs f* to be across t, where f is on the given side of it (1 is above): the
        distance from the centre, and T. Each gives way by its rounding.
        """
        problem, loss = self.problem, self.problem.loss
        costs = (problem.C * problem.sample_weight)[:, None]
        away = np.maximum(side * (self.centre - t) - self.rounding, 0.0)
        distance = away**2 / self.reach[:, None] * (1.0 - 64.0 * _UNIT)
        z = t + side * np.maximum(side * (self.primal.z - t) - 2.0 * self.primal.rounding, 0.0)
        at_t, slope, _ = loss.expand(problem.targets, t + np.zeros_like(z))
        at_z, tangent = loss.value(problem.targets, z), at_t + slope * (z - t)
        of_tangent = at_z - tangent - 64.0 * _UNIT * (at_z + at_t + np.abs(slope * (z - t)))
        of_dual = costs * at_t + self.alpha * t - self.g
        of_dual -= 64.0 * _UNIT * (costs * at_t + np.abs(self.alpha * t) + np.abs(self.g))
        rises = side * (costs * slope + self.alpha) < 0.0
        terms = costs * np.maximum(of_tangent, 0.0) + np.where(rises, np.maximum(of_dual, 0.0), 0.0)
        return distance, terms


def _scores_of_dual(X, dual: Dual, alpha: np.ndarray, Ka: np.ndarray) -> np.ndarray:
    """f_a at all rows; at the active ones it is known."""
    scores = np.empty((X.shape[0], alpha.shape[1]))
    others = np.ones(X.shape[0], dtype=bool)
    others[dual.rows] = False
    scores[dual.rows] = Ka
    if others.any():
        scores[others] = kernel_times(dual.model.kernel, X[others], dual.X[:], alpha)
        scores[others] += alpha.sum(axis=0)
    return scores

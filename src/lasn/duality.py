"""Duality: what a dual point proves about the optimum of a kernel machine.

With the kernel k^ = k + 1 (the bias is regularised, so it is one more kernel) and costs C_i::

    P(f) = 1/2 |f|^2 + sum_i C_i loss(y_i, f(x_i))                        to be minimised over f
    D(a) = sum_i -C_i loss*(y_i, -a_i / C_i)  -  1/2 a^T K^ a             to be maximised over a

D(a) <= P(f) for every a and every f, and at the optimum f = sum_i a_i k^(x_i, .) with
a_i = -C_i loss'(y_i, f(x_i)): that formula makes a dual point from any f. Written with signs s_i
and multipliers lambda_i >= 0, a = s lambda, the first term of D is a sum of

============================== ========= ================================================ =========
loss                           s         g(lambda)                                        lambda
============================== ========= ================================================ =========
squared hinge                  y         lambda - lambda^2 / (4 C)                        [0, inf)
squared epsilon-insensitive    +1 or -1  (s y - epsilon) lambda - lambda^2 / (4 C)        [0, inf)
log loss                       y         -lambda log p - (C - lambda) log(1 - p),         [0, C]
                                         p = lambda / C
============================== ========= ================================================ =========

from the conjugates loss*(y, u) = u y + u^2 / 4 for u y <= 0 (squared hinge),
u y + epsilon |u| + u^2 / 4 (squared epsilon-insensitive) and
p log p + (1 - p) log(1 - p) for u = -y p (log loss).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import xlogy

from lasn.losses import LogLoss, Loss, SquaredEpsilonInsensitive

# Multipliers of the log loss stay inside their interval: a step goes no nearer to its ends.
_INSIDE = 1e-3


@dataclass(frozen=True)
class DualTerms:
    """g of the table above: ``signs``, ``slopes`` and ``costs``, shape (n,), or (n, c) for several.

    ``slopes`` is g'(0) of the squared losses; None for the log loss. A row may cost nothing in a
    squared loss: its multiplier is 0 and stays there, as the slope of its g is not finite.
    """

    signs: np.ndarray
    costs: np.ndarray
    slopes: np.ndarray | None

    def only(self, part) -> DualTerms:
        """Those of some rows; or, with an index of both axes, of some problems."""
        slopes = None if self.slopes is None else self.slopes[part]
        return replace(self, signs=self.signs[part], costs=self.costs[part], slopes=slopes)

    def columns(self) -> list[DualTerms]:
        """One for each problem."""
        return [self.only((slice(None), c)) for c in range(self.signs.shape[1])]

    @property
    def largest(self) -> np.ndarray:
        """The largest multiplier that is allowed."""
        return np.full_like(self.costs, np.inf) if self.slopes is not None else self.costs

    def value(self, lam: np.ndarray) -> np.ndarray:
        if self.slopes is not None:
            bend = np.divide(lam * lam, 4.0 * self.costs, out=np.zeros_like(lam), where=lam > 0.0)
            return self.slopes * lam - bend
        p = np.clip(lam / self.costs, 0.0, 1.0)
        return -self.costs * (xlogy(p, p) + xlogy(1.0 - p, 1.0 - p))

    def slope(self, lam: np.ndarray) -> np.ndarray:
        if self.slopes is not None:
            with np.errstate(invalid="ignore"):
                return self.slopes - lam / (2.0 * self.costs)
        with np.errstate(divide="ignore"):
            return np.log(self.costs - lam) - np.log(lam)

    def curvature(self, lam: np.ndarray) -> np.ndarray:
        """-g'', which is positive."""
        if self.slopes is not None:
            with np.errstate(divide="ignore"):
                return 1.0 / (2.0 * self.costs)
        with np.errstate(divide="ignore"):
            return self.costs / (lam * (self.costs - lam))


def dual_point(loss: Loss, y, z, costs) -> tuple[DualTerms, np.ndarray]:
    """The dual point of a function with scores z: terms and multipliers, all of one shape."""
    _, derivative, _ = loss.expand(y, z)
    if isinstance(loss, SquaredEpsilonInsensitive):
        signs = np.where(z > y, -1.0, 1.0)
        slopes = signs * y - loss.epsilon
    else:
        signs = y
        slopes = None if isinstance(loss, LogLoss) else np.ones(y.shape)
    return DualTerms(signs, costs, slopes), np.maximum(-signs * costs * derivative, 0.0)


def best_step(
    terms: DualTerms, lam: np.ndarray, move: np.ndarray, linear: float, square: float, most: float
) -> float:
    """The t in [0, most] that maximises D(lambda + t move).

    ``linear`` and ``square`` are the quadratic form's part: the change of 1/2 a^T K^ a is
    t linear + t^2 square / 2. For the squared losses D is a parabola, for the log loss its slope
    falls and is bisected (``most`` is finite there).
    """
    # Rows that do not move may stand where g' is infinite.
    moving = move != 0.0
    terms, lam, move = terms.only(moving), lam[moving], move[moving]

    def slope(t: float) -> float:
        return float(terms.slope(lam + t * move) @ move) - linear - t * square

    if terms.slopes is not None:
        bend = square + float(terms.curvature(lam) @ (move * move))
        return float(np.clip(slope(0.0) / bend, 0.0, most)) if bend > 0.0 else 0.0
    low, high = 0.0, most
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if slope(middle) > 0.0 else (low, middle)
    return low


def best_multiple(terms: DualTerms, lam: np.ndarray, square: float) -> float:
    """The t >= 0 that maximises D(t lambda), where a^T K^ a = ``square``."""
    positive = lam > 0.0
    room = terms.largest[positive] / lam[positive]
    return best_step(
        terms, np.zeros_like(lam), lam, 0.0, square, float(np.min(room, initial=np.inf))
    )


def ascend(
    terms: list[DualTerms],
    lam: np.ndarray,
    product: Callable[[np.ndarray], np.ndarray],
    solve: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Dual points of rising D, each as multipliers and K^ a, shapes (m, c); the first is scaled.

    ::

        d = (K~ + diag(-g''))^-1 gradient  over the rows that are free to move
        lambda <- lambda + t (max(0, lambda + d) - lambda),        t by line search

    Parameters
    ----------
    terms : one for each problem
    lam : array of shape (m, c)
    product : a -> K^ a, the only costly part: once for each point
    solve : (v, r) -> (K~^ + diag(1 / v))^-1 r over the rows with v > 0, zero elsewhere, for all
        columns: the approximate Newton direction
    """
    signs = np.column_stack([one.signs for one in terms])
    Ka = product(signs * lam)
    squares = np.sum(signs * lam * Ka, axis=0)
    scale = np.array([best_multiple(*one) for one in zip(terms, lam.T, squares, strict=True)])
    lam, Ka = scale * lam, scale * Ka
    while True:
        yield lam, Ka
        move = _projected_moves(terms, signs, lam, Ka, solve)
        K_move = product(signs * move)
        t = np.empty(len(terms))
        for c, one in enumerate(terms):
            change = signs[:, c] * move[:, c]
            linear, square = change @ Ka[:, c], change @ K_move[:, c]
            t[c] = best_step(one, lam[:, c], move[:, c], linear, square, 1.0)
        lam, Ka = lam + t * move, Ka + t * K_move


def _projected_moves(terms: list[DualTerms], signs, lam, Ka, solve) -> np.ndarray:
    """Newton directions for each problem, cut where lambda + move would leave its interval."""
    v, gradients = np.zeros_like(lam), np.zeros_like(lam)
    for c, one in enumerate(terms):
        x = lam[:, c]
        gradient = one.slope(x) - signs[:, c] * Ka[:, c]
        free = np.isfinite(gradient) & ((x > 0.0) | (gradient > 0.0))
        gradients[free, c] = gradient[free]
        v[free, c] = 1.0 / one.curvature(x)[free]
    moves = signs * solve(v, signs * gradients)
    for c, one in enumerate(terms):
        x, low, high = lam[:, c], np.zeros(len(lam)), one.largest
        if one.slopes is None:
            low, high = _INSIDE * x, high - _INSIDE * (high - x)
        moves[:, c] = np.clip(x + moves[:, c], low, high) - x
    return moves

"""Directions that past gradients tell: limited-memory BFGS on top of a preconditioner.

While rows enter and leave the active set at every step, a direction that solves V d = -g far is
wasted: V is another one after it. What V did to the last steps is known without a product, though,
from the gradients at their ends. With P a preconditioner, and for the last few steps::

    s_j = the step        y_j = the change of the gradient along it        z_j = P^-1 y_j

    H   = the matrix nearest to a multiple of P^-1 with H y_j = s_j        (BFGS)
    d   = -H g

Each step is one pass over all rows, which brings the gradient at its end (``Line``). Conjugate
gradients take as many products for a fraction of the progress, for each V anew. They are the ones
to take where products read far fewer rows than a pass, and near the minimum, where V has settled
and Newton's rate begins.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

# So many past steps are remembered.
_MEMORY = 6
# A step leaves several times what it gains: so many times <g, H g> is left of <g, V^-1 g>.
_LEFT = 9.0
# Where the last so many steps have not brought <g, H g> to this share, they lead nowhere.
_PATIENCE, _PROGRESS = 6, 0.35


class _Step(NamedTuple):
    """One past step: s, y and z, shapes (q, c), and 1 / <s, y>, shape (c,); 0 where it is void."""

    s: np.ndarray
    y: np.ndarray
    z: np.ndarray
    inverse: np.ndarray

    def of(self, keep: np.ndarray) -> _Step:
        return _Step(*(array[..., keep] for array in self))


class Secants:
    """H for each of c columns, which is made anew from where it is asked for a direction.

    ``most`` is how often it may be asked; ``count`` says how often it was, one time after another.
    """

    def __init__(self, most: int):
        self.most = most
        self.count = 0
        self.forget()

    def forget(self) -> None:
        """Begin anew: something else has made a step, or there is another preconditioner."""
        self.steps: list[_Step] = []
        self.energies: list[float] = []
        self.columns = np.empty(0, dtype=int)
        self.last: tuple[np.ndarray, ...] = ()

    @property
    def lead_on(self) -> bool:
        """Whether another direction is worth its pass."""
        seen = self.energies
        is_slow = len(seen) > _PATIENCE and seen[-1] > _PROGRESS * seen[-1 - _PATIENCE]
        return self.count < self.most and not is_slow

    def direction(
        self,
        W: np.ndarray,
        gradient: np.ndarray,
        columns: np.ndarray,
        precondition: Callable[[np.ndarray], np.ndarray],
    ) -> tuple[np.ndarray, np.ndarray]:
        """-H g at W, shape (q, c) for the given columns, and what it leaves of <g, V^-1 g>.

        ``precondition`` is P^-1. Columns may become fewer from one call to the next.
        """
        z = precondition(gradient)
        self._remember(W, gradient, z, columns)
        # g and P^-1 g less what past steps account for, from the newest to the oldest.
        left, direction = gradient.copy(), z.copy()
        shares = []
        for step in reversed(self.steps):
            share = step.inverse * _dots(step.s, left)
            left -= share * step.y
            direction -= share * step.z
            shares.append(share)
        if self.steps:
            direction *= self._scale()
        for step, share in zip(self.steps, reversed(shares), strict=True):
            direction += (share - step.inverse * _dots(step.y, direction)) * step.s
        energy = _dots(gradient, direction)
        self.energies.append(float(energy.sum()))
        self.count += 1
        return -direction, _LEFT * energy

    def _remember(self, W, gradient, z, columns) -> None:
        """Add the step that led here from where the last direction began."""
        if len(self.columns):
            keep = np.isin(self.columns, columns)
            if not keep.all():
                self.steps = [step.of(keep) for step in self.steps]
                self.last = tuple(array[:, keep] for array in self.last)
            last_W, last_gradient, last_z = self.last
            s, y = W - last_W, gradient - last_gradient
            along = _dots(s, y)
            # f is strongly convex: <s, y> >= |s|^2, but for rounding and steps of length zero.
            inverse = np.divide(1.0, along, out=np.zeros_like(along), where=along > 0.0)
            self.steps = [*self.steps, _Step(s, y, z - last_z, inverse)][-_MEMORY:]
        self.columns = columns
        self.last = (W, gradient, z)

    def _scale(self) -> np.ndarray:
        """The multiple of P^-1 that fits the last step best: <s, y> / <y, P^-1 y>."""
        last = self.steps[-1]
        along, across = _dots(last.s, last.y), _dots(last.y, last.z)
        fits = (along > 0.0) & (across > 0.0)
        return np.divide(along, across, out=np.ones_like(along), where=fits)


def _dots(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    return np.einsum("qc,qc->c", A, B)

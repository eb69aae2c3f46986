"""Subsampled Newton: values and gradients over all rows, Hessians over some of them.

V is a sum over the active rows, so m random ones of them tell it to about sqrt(k / m): with 100 of
them for each of k features, to a tenth. A direction that solves V_part d = -g leaves about a tenth
of the gradient, which is as far as Algorithm 1 solves it on the way (its forcing term), and the
gradient over all rows tells what is left. So of very many rows all that is needed at each iteration
is one pass, and nothing of them need be kept: conjugate gradients read the part.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lasn.blocks import Work
from lasn.curvature import LossCurvature
from lasn.objective import LossLine, LossPoint, RegularizedLoss


class SubsampledLoss:
    """The objective over all rows, as Newton sees it, with the Hessians of a part of them.

    Parameters
    ----------
    whole : RegularizedLoss
    part : RegularizedLoss
        The same problem on a random sample of the rows, weighted like all of them.
    """

    def __init__(self, whole: RegularizedLoss, part: RegularizedLoss):
        self.whole, self.part = whole, part
        self.blocks = whole.blocks
        self.n_variables, self.n_problems = whole.n_variables, whole.n_problems
        self.precision, self.alike = whole.precision, whole.alike

    @property
    def work(self) -> Work:
        """What was read and computed so far, of all rows and of the part."""
        both = self.whole.work, self.part.work
        return Work(*(sum(getattr(one, name) for one in both) for name in vars(both[0])))

    def begin(self, W: np.ndarray) -> tuple[LossPoint, np.ndarray]:
        return self.whole.begin(W)

    def line(self, point: LossPoint, D: np.ndarray) -> LossLine:
        return self.whole.line(point, D)

    def curvature(self, point: LossPoint) -> LossCurvature:
        return self.part.curvature_at(point.W, point.columns)

    def scores(self, W: np.ndarray) -> Any:
        return self.whole.scores(W)

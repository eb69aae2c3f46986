"""The number of landmarks alone, where one C and one gamma are given.

::

    k = 100, 200, ...     landmarks: those of the k before, and as many more
        all rows          W, from where the k before ended
        without a fold    W, from that of all rows, with its Hessians as preconditioners

With nothing else to compare, every k is fitted to all rows as it would be by itself. Without one
fold of them the minimum is nearby, so that all folds together cost less than that fit does. The
best k is fitted already when it is found, unless rows stood for its landmarks (``stand_ins.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter

import numpy as np

from lasn.cross_validation import Evaluation, Fold, fold_columns, held_out_scores
from lasn.memory import with_less_memory
from lasn.minimization import manners_of, minimize_with_bill
from lasn.model import Model
from lasn.newton import NewtonOptions, NewtonResult, NewtonStart, minimize
from lasn.objective import RegularizedLoss
from lasn.problem import Problem
from lasn.search import Search
from lasn.shared_features import GammaFeatures
from lasn.training import Training, resolve_dtype

# What twice the landmarks may be expected to gain, as a part of what the last doubling gained. If
# what k landmarks leave out fell like 1 / k, gains would halve; for smooth kernels it falls faster.
_NEXT_GAIN = 0.4
# Up to so many landmarks most of what a fit costs grows with k, not with k^2.
_CHEAP = 1000
# Standard errors by which more landmarks, or the exact machine, may fall behind by chance.
_CHANCE, _CHANCE_OF_EXACT = 1.0, 2.0
# What float32 reaches with ease.
_USUAL_TOLERANCE = NewtonOptions().tol


class LandmarkSearch(Search):
    """A search over numbers of landmarks, with one C and one gamma.

    To know what twice the landmarks gain they would have to be fitted, which costs up to four times
    what all the search has cost before. So it goes on as long as they are expected to gain
    ``margin``, by what the last doubling gained; with four times as many, where that is cheap and
    the doubling after the next is expected to gain the margin too.
    """

    def __init__(self, *given, **options):
        super().__init__(*given, **options)
        self.trainings: dict[tuple[int, int], Training] = {}  # by rows and level

    @property
    def best(self) -> Evaluation:
        """The highest score; but more landmarks, where their score is not clearly lower.

        The exact machine is what landmarks stand for, and more of them come nearer to it. So chance
        has to be excluded: a score must be lower by more standard errors of the difference, fold by
        fold, than chance explains.
        """
        highest = super().best
        larger = [one for one in self._comparable() if one.n_landmarks > highest.n_landmarks]
        for one in sorted(larger, key=lambda one: -one.n_landmarks):
            lead = highest.fold_scores - one.fold_scores
            chance = _CHANCE_OF_EXACT if one.exact else _CHANCE
            if lead.mean() <= chance * np.std(lead) / np.sqrt(len(lead)):
                return one
        return highest

    def _goes_on(self, level: int, gained: float) -> bool:
        nothing_to_compare = not np.isfinite(gained)
        return nothing_to_compare or self._next_gain(gained) >= self.margin

    def _following(self, size: int, gained: float) -> int:
        following = super()._following(size, gained)
        if self.ends_exact or self._rows_are_few() or not np.isfinite(gained):
            return following
        afterwards = _NEXT_GAIN * self._next_gain(gained)
        return 2 * following if afterwards >= self.margin and 2 * following <= _CHEAP else following

    def _next_gain(self, gained: float) -> float:
        """What twice the landmarks are expected to gain, where the last growth gained so much.

        Over d doublings gains add up to a geometric sum, of which the last doubling has its part.
        """
        before, size = self.sizes[-2:]
        d = np.log2(size / before)
        share = _NEXT_GAIN ** (d - 1.0) * (1.0 - _NEXT_GAIN) / (1.0 - _NEXT_GAIN**d)
        return _NEXT_GAIN * share * gained

    def _shares_inner_products(self) -> bool:
        """There is one C."""
        return False

    def _newton(self, level: int) -> NewtonOptions:
        """To ``tol``, as it may be the model; roughly where the exact machine follows."""
        return super()._newton(level) if self.ends_exact else self.newton

    def _dtype(self, n_columns: int) -> np.dtype:
        """That of a search, unless the model has to be nearer to its minimum than is usual."""
        if self.newton.tol >= _USUAL_TOLERANCE:
            return super()._dtype(n_columns)
        return resolve_dtype(self.dtype, self.problem.n_rows * n_columns)

    def _screen(self) -> bool:
        """A sample of the rows can tell one thing: whether the exact machine is worth its time."""
        return self.ends_exact and super()._screen()

    def _sample_size(self) -> int:
        """Half of what a grid takes: one difference on the same rows has less noise than scores."""
        return super()._sample_size() // 2

    def _evaluate(self, gamma: float, Cs: list[float], level: int) -> None:
        began = perf_counter()
        (C,) = Cs
        features, problem = self.features[0], replace(self.problem, C=C)
        newton = self._newton(level)

        def fit() -> tuple[NewtonResult, list[np.ndarray]]:
            shared = features.at(gamma, len(self.folds) * problem.n_problems, n_costs=1)
            known = self._nearest_solution(0, gamma, C)
            start = None if known is None else features.coefficients(known, gamma)
            with manners_of(self.device):
                return whole_then_folds(problem, self.folds, shared, newton, start)

        whole, held_out = with_less_memory(fit, features)
        self.solutions[0, gamma, C] = features.function(whole.W)
        kernel = replace(self.kernel, gamma=gamma)
        model = Model(kernel, features.landmarks, features.mapping, whole.W, features.dtype)
        self.seconds_of_path = perf_counter() - began
        self._judge(gamma, C, level, held_out, self.seconds_of_path)
        if newton is self.newton:
            self.trainings[problem.n_rows, level] = Training(model, whole, {})

    def training_of(self, one: Evaluation) -> Training | None:
        """The fit to all rows, unless it was rough, exact, with rows for centres or on a device."""
        stand_ins = any(part.places is not None for part in self.landmarks_of_level[one.level])
        if self.device is not None or stand_ins:
            return None
        return self.trainings.get((one.n_rows, one.level))


def whole_then_folds(
    problem: Problem,
    folds: Sequence[Fold],
    features: GammaFeatures,
    newton: NewtonOptions,
    start: np.ndarray | None,
) -> tuple[NewtonResult, list[np.ndarray]]:
    """The fit to all rows, from a W or zero, and the scores that each fold holds out: (m, c) each.

    Each fold is solved to the same tolerance as all rows, so that where it began does not matter
    to where it ends.
    """

    def objective(targets: np.ndarray, weights: np.ndarray, alike=None) -> RegularizedLoss:
        blocks, mapping, inner = features.blocks, features.mapping, features.inner
        costs = problem.C * weights
        return RegularizedLoss(blocks, mapping, problem.loss, targets, costs, alike, inner)

    n_rows, n_problems, precision = problem.n_rows, problem.n_problems, str(features.blocks.dtype)
    all_rows = objective(problem.targets, problem.sample_weight)
    if start is None:
        start = np.zeros((all_rows.n_variables, n_problems))
    whole = minimize_with_bill(
        all_rows,
        NewtonStart(start),
        newton,
        lambda W, record: record.update(rows=n_rows, precision=precision),
    )
    targets, weights = fold_columns(problem, folds)
    without_fold = objective(targets, weights, np.tile(np.arange(n_problems), len(folds)))
    hessians = [one and one.elsewhere() for one in whole.assembled] * len(folds)
    near = NewtonStart(np.tile(whole.W, len(folds)), preconditioners=hessians)
    fitted = minimize(without_fold, near, newton)
    return whole, held_out_scores(without_fold.scores(fitted.W), folds)

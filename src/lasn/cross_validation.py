"""One candidate of a search: fit every fold over shared features, and keep how good each was.

Folds are columns of one problem: in its own column a held-out row costs nothing. A path over C
costs Newton iterations over features that are there already.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np

from lasn.newton import NewtonOptions, NewtonStart, minimize
from lasn.objective import RegularizedLoss
from lasn.problem import Problem
from lasn.shared_features import GammaFeatures


@dataclass(frozen=True)
class Fold:
    """Positions of the rows to train on, and of those that are held out."""

    train: np.ndarray
    test: np.ndarray

    def among(self, rows: np.ndarray) -> Fold:
        """The part of the fold in the given rows (ascending), by positions among those."""

        def places(positions: np.ndarray) -> np.ndarray:
            return np.flatnonzero(np.isin(rows, positions))

        return Fold(places(self.train), places(self.test))


@dataclass
class Evaluation:
    """One candidate: how good each fold was, and the seconds that it took.

    ``held_out`` are the scores of held-out rows, shape (m, c) a fold, while it may be chosen.
    ``exact``: of the exact machine, for which all rows count as landmarks.
    """

    n_landmarks: int
    gamma: float
    C: float
    fold_scores: np.ndarray
    fit_seconds: float
    score_seconds: float
    level: int
    n_rows: int
    held_out: list[np.ndarray]
    exact: bool = False
    score: float = field(init=False)
    standard_error: float = field(init=False)

    def __post_init__(self) -> None:
        self.score = float(np.mean(self.fold_scores))
        self.standard_error = float(np.std(self.fold_scores) / np.sqrt(len(self.fold_scores)))

    @property
    def simplicity(self) -> tuple[float, float, float]:
        """Smaller models first, then smoother ones."""
        return (self.n_landmarks, self.C, self.gamma)


def best_of(evaluations: Sequence[Evaluation]) -> Evaluation:
    """The highest score; of equal ones the simplest."""
    return min(evaluations, key=lambda one: (-one.score, one.simplicity))


def simplest_of_the_best(evaluations: Sequence[Evaluation]) -> Evaluation:
    """The simplest candidate within one standard error of the best."""
    best = best_of(evaluations)
    good = [one for one in evaluations if one.score >= best.score - best.standard_error]
    return min(good, key=lambda one: one.simplicity)


@dataclass
class Path:
    """What a path over C gives for each: W, held-out scores of every fold, and the seconds."""

    W: list[np.ndarray] = field(default_factory=list)
    held_out: list[list[np.ndarray]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


def fold_columns(problem: Problem, folds: Sequence[Fold]) -> tuple[np.ndarray, np.ndarray]:
    """Targets and weights of all folds as columns of one problem, both of shape (n, folds * c).

    Column f * c + j is problem j without the rows that fold f holds out: their weight is 0 there.
    """
    in_training = np.zeros((problem.n_rows, len(folds)))
    for index, fold in enumerate(folds):
        in_training[fold.train, index] = problem.sample_weight[fold.train]
    targets = np.tile(problem.targets, len(folds))
    return targets, np.repeat(in_training, problem.n_problems, axis=1)


def held_out_scores(scores: np.ndarray, folds: Sequence[Fold]) -> list[np.ndarray]:
    """Of the scores of all rows in such columns, those that each fold holds out: (m, c) a fold."""
    by_fold = scores.reshape(len(scores), len(folds), -1)
    return [by_fold[fold.test, index] for index, fold in enumerate(folds)]


def fold_path(
    problem: Problem,
    folds: Sequence[Fold],
    features: GammaFeatures,
    Cs: Sequence[float],
    newton: NewtonOptions,
    starts: Sequence[np.ndarray | None],
) -> Path:
    """Fit every fold, as columns of one problem, for each C in turn.

    ``starts`` has a W for each C, or None. A column starts there or where the last C ended,
    whichever is lower.
    """
    n_problems = problem.n_problems
    targets, weights = fold_columns(problem, folds)
    alike = np.tile(np.arange(n_problems), len(folds))
    W = None
    path = Path()
    for C, start in zip(Cs, starts, strict=True):
        began = perf_counter()
        objective = RegularizedLoss(
            features.blocks,
            features.mapping,
            problem.loss,
            targets,
            C * weights,
            alike,
            features.inner,
        )
        W = minimize(objective, NewtonStart(_lowest(objective, W, start)), newton).W
        path.W.append(W)
        path.held_out.append(held_out_scores(objective.scores(W), folds))
        path.seconds.append(perf_counter() - began)
    return path


def _lowest(objective: RegularizedLoss, *starts: np.ndarray | None) -> np.ndarray:
    """Of the given W, for each column the one of the lowest value; zero where none is given."""
    known = [W for W in starts if W is not None]
    if not known:
        return np.zeros((objective.n_variables, objective.n_problems))
    if len(known) == 1:
        return known[0]
    values = [objective.begin(W)[0].value for W in known]
    return np.choose(np.argmin(values, axis=0), known)

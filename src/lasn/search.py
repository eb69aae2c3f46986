"""Cross-validation over C, gamma and the number of landmarks, with everything shared.

::

    landmarks            one set to a level, with all of the level before among them
    exponents  (n, k)    once for all gammas (rbf and laplacian: log K is proportional to gamma)
    F = K M    (n, q)    once for each level and gamma: no fold and no C adds to that
    folds                columns of one problem: in its own column a held-out row costs nothing
    C                    ascending, each started where the one before ended; with more landmarks,
                         where it ended with fewer

So a path over C and its folds cost Newton iterations over features that are there already.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

import numpy as np

from lasn.blocks import BlockSource
from lasn.kernels import Kernel, resolve_kernel_name
from lasn.landmarks import more_landmarks, nearest_rows
from lasn.newton import NewtonOptions, NewtonStart, minimize
from lasn.objective import RegularizedLoss
from lasn.problem import Problem
from lasn.shared_features import Function, SharedFeatures
from lasn.threads import serial_products
from lasn.training import find_landmarks, manners_of, resolve_dtype

# Rows times columns (classes times folds) up to which the whole grid is tried on all rows, and the
# fewest rows that it is tried on otherwise.
_MANY_SCORES = 500_000
_FEWEST_ROWS = 3000
# Where the search may widen: steps of C and gamma, and how far they lead.
_STEP_OF_C, _STEP_OF_GAMMA = 10.0, 4.0
_RANGE_OF_C = (1e-3, 1e5)
_RANGE_OF_GAMMA = 4.0**4
_FOLLOWING = 2.0  # each number of landmarks, as a multiple of the one before


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

    @property
    def score(self) -> float:
        return float(np.mean(self.fold_scores))

    @property
    def standard_error(self) -> float:
        return float(np.std(self.fold_scores) / np.sqrt(len(self.fold_scores)))

    @property
    def simplicity(self) -> tuple[float, float, float]:
        """Smaller models first, then smoother ones."""
        return (self.n_landmarks, self.C, self.gamma)


@dataclass
class Grid:
    """What to try. ``widens``: whether to go on where the best is at an edge."""

    Cs: list[float]
    gammas: list[float]
    widens: bool


@dataclass
class Path:
    """What a path over C gives for each: W, held-out scores of every fold, and the seconds."""

    W: list[np.ndarray] = field(default_factory=list)
    held_out: list[list[np.ndarray]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


def fold_path(
    problem: Problem,
    folds: Sequence[Fold],
    features: tuple[BlockSource, Any],
    Cs: Sequence[float],
    newton: NewtonOptions,
    starts: Sequence[np.ndarray | None],
) -> Path:
    """Fit every fold, as columns of one problem, for each C in turn.

    Column f * c + j is problem j without the rows that fold f holds out. ``starts`` has a W for
    each C, or None to start where the last one ended.
    """
    n_problems = problem.targets.shape[1]
    in_training = np.zeros((problem.n_rows, len(folds)))
    for index, fold in enumerate(folds):
        in_training[fold.train, index] = problem.sample_weight[fold.train]
    costs = np.repeat(in_training, n_problems, axis=1)
    targets = np.tile(problem.targets, len(folds))
    alike = np.tile(np.arange(n_problems), len(folds))
    blocks, mapping = features
    W = None
    path = Path()
    for C, start in zip(Cs, starts, strict=True):
        began = perf_counter()
        objective = RegularizedLoss(blocks, mapping, problem.loss, targets, C * costs, alike)
        W = W if start is None else start
        if W is None:
            W = np.zeros((objective.n_variables, objective.n_problems))
        W = minimize(objective, NewtonStart(W), newton).W
        path.W.append(W)
        scores = objective.scores(W).reshape(problem.n_rows, len(folds), n_problems)
        path.held_out.append([scores[fold.test, f] for f, fold in enumerate(folds)])
        path.seconds.append(perf_counter() - began)
    return path


class Search:
    """The search itself: candidates in an order in which stopping early is no great loss.

    First the whole grid at the smallest number of landmarks, where it costs least; where rows times
    columns are many, on a sample of the rows. Then the better half of the gammas with twice as many
    landmarks, and after that the best gamma alone, with the C next to the best, until the score
    gains less than ``margin`` or the time is over. Numbers of landmarks that were given are all
    tried, with the whole grid, on all rows.

    Parameters
    ----------
    problem : Problem
    folds : list of Fold
    score_fold : callable
        ``score_fold(scores, rows)``: how good the scores, shape (m, c), of held-out rows are.
    kernel : Kernel
    grid : Grid
    sizes : list of int
        Numbers of landmarks; with ``grows``, the first of them.
    """

    def __init__(
        self,
        problem: Problem,
        folds: Sequence[Fold],
        score_fold: Callable[[np.ndarray, np.ndarray], float],
        *,
        kernel: Kernel,
        grid: Grid,
        sizes: Sequence[int],
        grows: bool,
        landmarks,
        per_fold: bool,
        newton: NewtonOptions,
        margin: float,
        prefers_simple: bool,
        rng: np.random.RandomState,
        dtype: str,
        cutoff,
        memory_limit,
        device: Any,
        deadline: float,
        on_candidate: Callable[[Evaluation], None],
    ):
        self.problem, self.folds, self.score_fold = problem, folds, score_fold
        self.kernel, self.grid = kernel, grid
        self.sizes, self.grows, self.margin = list(sizes), grows, margin
        self.method, self.newton, self.rng = landmarks, newton, rng
        self.prefers_simple = prefers_simple
        self.dtype, self.cutoff, self.memory_limit = dtype, cutoff, memory_limit
        self.device, self.deadline, self.on_candidate = device, deadline, on_candidate
        self.per_fold = per_fold
        self.parts = self._parts(problem.n_rows, folds)
        self.features: list[SharedFeatures] = []
        self.landmarks_of_level: list[Any] = []
        self.solutions: dict[tuple[int, float, float], Function] = {}
        self.evaluations: list[Evaluation] = []
        self.seconds_of_path = 0.0
        self.n_landmarks = 0

    @serial_products()
    def run(self) -> None:
        """Fill ``evaluations``; leave the features of the last level."""
        level = 0
        while level < len(self.sizes):
            size = self.sizes[level]
            # Whatever the time, something has to be tried on all rows.
            known = self._comparable()
            if known and self._late(factor=(size / self.sizes[level - 1]) ** 2):
                return
            gained = np.inf
            if not (level == 0 and self.grows and self._screen()):
                self._choose_landmarks(size)
                for gamma, Cs in self._candidates(level):
                    if self._comparable() and self._late():
                        return
                    self._evaluate(gamma, Cs, level)
                if self.grid.widens and level == 0:
                    self._widen()
                if known:
                    gained = self.level_best(level).score - best_of(known).score
            if self.grows and gained >= self.margin and size < self.problem.n_rows:
                self.sizes.append(min(self.problem.n_rows, int(_FOLLOWING * size)))
            level += 1

    @property
    def best(self) -> Evaluation:
        """The best of those that were tried on all rows."""
        return best_of(self._comparable() or self.evaluations)

    def level_best(self, level: int) -> Evaluation:
        return best_of([one for one in self.evaluations if one.level == level])

    def _comparable(self) -> list[Evaluation]:
        return [one for one in self.evaluations if one.n_rows == self.problem.n_rows]

    def _screen(self) -> bool:
        """Try the whole grid on a sample of the rows, if that makes a difference."""
        n_rows, n_columns = self.problem.n_rows, self.problem.targets.shape[1] * len(self.folds)
        size = max(_FEWEST_ROWS, _MANY_SCORES // n_columns)
        if 2 * size > n_rows:
            return False
        rows = np.sort(self.rng.permutation(n_rows)[:size])
        folds = [fold.among(rows) for fold in self.folds]
        if not all(len(fold.train) and len(fold.test) for fold in folds):
            return False
        screen = copy(self)
        screen.problem = replace(self.problem.sample(rows), X=self.problem.X[rows])
        screen.folds, screen.parts = folds, self._parts(size, folds)
        screen.score_fold = lambda scores, chosen: self.score_fold(scores, rows[chosen])
        screen.grows, screen.sizes, screen.features = False, self.sizes[:1], []
        screen.run()
        self.seconds_of_path = screen.seconds_of_path * n_rows / size
        return True

    @property
    def chosen(self) -> Evaluation:
        """The candidate to refit."""
        if self.prefers_simple:
            return _simplest_of_the_best(self._comparable() or self.evaluations)
        return self.best

    def _parts(self, n_rows: int, folds: Sequence[Fold]) -> list[tuple[np.ndarray, list[int]]]:
        """Which rows landmarks come from, for which folds."""
        if self.per_fold:
            return [(fold.train, [index]) for index, fold in enumerate(folds)]
        return [(np.arange(n_rows), list(range(len(folds))))]

    def _candidates(self, level: int) -> list[tuple[float, list[float]]]:
        """Each gamma that this level tries, with its C in ascending order."""
        if level == 0 or not self.grows:
            return [(gamma, sorted(self.grid.Cs)) for gamma in self.grid.gammas]
        before = [one for one in self.evaluations if one.level == level - 1]
        by_gamma = {gamma: best_of([e for e in before if e.gamma == gamma]) for gamma in
                    {e.gamma for e in before}}  # fmt: skip
        ranked = sorted(by_gamma.values(), key=lambda one: -one.score)
        n_kept = -(-len(ranked) // 2) if level == 1 else 1
        Cs, gammas = sorted(self.grid.Cs), sorted(self.grid.gammas)
        kept = {one.gamma: one.C for one in ranked[:n_kept]}
        # More landmarks can follow a kernel that is less smooth.
        following = gammas.index(ranked[0].gamma) + 1
        if following < len(gammas):
            kept.setdefault(gammas[following], ranked[0].C)
        candidates = []
        for gamma, C in kept.items():
            place = Cs.index(C)
            candidates.append((gamma, Cs[max(0, place - 1) : place + (2 if level == 1 else 1)]))
        return candidates

    def _widen(self) -> None:
        """Try what lies beyond, as long as the best is at an edge of what was tried."""
        middle = self.grid.gammas[len(self.grid.gammas) // 2]
        while not self._late():
            best, Cs, gammas = self.best, sorted(self.grid.Cs), sorted(self.grid.gammas)
            step = _beyond(best.C, Cs, _STEP_OF_C)
            if step is not None and _RANGE_OF_C[0] <= step <= _RANGE_OF_C[1]:
                self.grid.Cs.append(step)
                self._evaluate(best.gamma, [step], level=0)
                continue
            step = _beyond(best.gamma, gammas, _STEP_OF_GAMMA)
            if step is None or not 1 / _RANGE_OF_GAMMA <= step / middle <= _RANGE_OF_GAMMA:
                return
            self.grid.gammas.append(step)
            self._evaluate(step, sorted(self.grid.Cs), level=0)

    def _evaluate(self, gamma: float, Cs: list[float], level: int) -> None:
        began = perf_counter()
        held_out: list[list[np.ndarray]] = [[np.empty(0)] * len(self.folds) for _ in Cs]
        seconds = np.zeros(len(Cs))
        for part, (_, indices) in enumerate(self.parts):
            path, shared = self._path(part, gamma, Cs)
            features = self.features[part]
            for C, W in zip(Cs, path.W, strict=True):
                self.solutions[part, gamma, C] = features.function(W)
            for place, scores in enumerate(path.held_out):
                for index, values in zip(indices, scores, strict=True):
                    held_out[place][index] = values
                seconds[place] += path.seconds[place] + shared / len(Cs)
        for place, C in enumerate(Cs):
            before = perf_counter()
            fold_scores = [
                self.score_fold(values, fold.test)
                for fold, values in zip(self.folds, held_out[place], strict=True)
            ]
            took = perf_counter() - before
            evaluation = Evaluation(
                self.n_landmarks,
                gamma,
                C,
                np.array(fold_scores),
                seconds[place],
                took,
                level,
                self.problem.n_rows,
                held_out[place],
            )
            self.evaluations.append(evaluation)
            self._forget_held_out()
            self.on_candidate(evaluation)
        self.seconds_of_path = perf_counter() - began

    def _path(self, part: int, gamma: float, Cs: list[float]) -> tuple[Path, float]:
        """The folds of a part for each C, and the seconds of what the Cs share.

        Where a device runs out of memory, once more with smaller blocks.
        """
        features = self.features[part]
        while True:
            try:
                return self._try_path(part, gamma, Cs)
            except Exception as error:
                if not features.can_shrink(error):
                    raise
            features.shrink()  # here the error is gone, and with it all that it held

    def _try_path(self, part: int, gamma: float, Cs: list[float]) -> tuple[Path, float]:
        began = perf_counter()
        features, folds = self.features[part], [self.folds[index] for index in self.parts[part][1]]
        blocks = features.at(gamma, len(folds) * self.problem.targets.shape[1])
        known = [self.solutions.get((part, gamma, C)) for C in Cs]
        starts = [None if one is None else features.coefficients(one, gamma) for one in known]
        shared = perf_counter() - began
        with manners_of(self.device):
            return fold_path(self.problem, folds, blocks, Cs, self.newton, starts), shared

    def _choose_landmarks(self, size: int) -> None:
        if resolve_kernel_name(self.kernel.name) == "linear":
            if not self.features:
                self.features = [self._new_features(None) for _ in self.parts]
            self.landmarks_of_level.append(None)
            return
        chosen = [self._landmarks_of(part, size) for part in range(len(self.parts))]
        self.n_landmarks = max(one.shape[0] for one in chosen)
        if not self.features:
            self.features = [self._new_features(one) for one in chosen]
        else:
            for features, one in zip(self.features, chosen, strict=True):
                features.grow(one)
        self.landmarks_of_level.append(chosen[0])

    def _new_features(self, landmarks) -> SharedFeatures:
        n_columns = self.problem.X.shape[1] if landmarks is None else landmarks.shape[0]
        return SharedFeatures(
            self.problem.X,
            self.kernel,
            landmarks,
            resolve_dtype(self.dtype, self.problem.n_rows * n_columns),
            self.cutoff,
            self.memory_limit,
            len(self.grid.gammas),
            self.device,
        )

    def _landmarks_of(self, part: int, size: int):
        """Landmarks for some folds, from rows that they all may see."""
        if not isinstance(self.method, str):
            return self.method
        rows = self.parts[part][0]
        rows = rows[self.problem.sample_weight[rows] > 0.0]
        seen = replace(self.problem.only(rows), X=self.problem.X[rows])
        size = min(size, seen.n_rows)
        if self.features and self.method == "boundary" and self.best.held_out:
            near = np.flatnonzero(self._active()[rows])
            if len(near) > 0:
                known = self.features[part].landmarks
                groups, weight = seen.groups, seen.sample_weight
                found = more_landmarks(seen.X, known, size, near, groups, weight, self.rng)
                return found if self.per_fold else nearest_rows(seen.X, found)
        limits = {"memory_limit": self.memory_limit}
        middle = sorted(self.grid.Cs)[len(self.grid.Cs) // 2]
        problem = replace(seen, C=middle)
        found, _ = find_landmarks(problem, self.kernel, size, self.method, limits, self.rng)
        by_label = self.method in ("boundary", "class_kmeans") and not self.per_fold
        # The mean of rows of one class tells their class, that of the held-out ones among them too.
        return nearest_rows(seen.X, found) if by_label else found

    def _forget_held_out(self) -> None:
        """Keep the scores of the best; of all, where one that was passed over may be chosen yet."""
        if not self.prefers_simple:
            for one in self.evaluations:
                if one is not self.best:
                    one.held_out = []

    def _active(self) -> np.ndarray:
        """Rows on which the best candidate so far is wrong or not sure, when they are held out."""
        active = np.zeros(self.problem.n_rows, dtype=bool)
        for fold, scores in zip(self.folds, self.best.held_out, strict=True):
            targets = self.problem.targets[fold.test]
            _, _, curvature = self.problem.loss.expand(targets, scores)
            active[fold.test] |= np.any(curvature > 0.0, axis=1)
        return active

    def _late(self, factor: float = 1.0) -> bool:
        """Whether another path, so much longer than the last, and the last fit would be too long.

        That fit is about as long as a path.
        """
        return perf_counter() + (factor + 1.0) * self.seconds_of_path > self.deadline


def best_of(evaluations: Sequence[Evaluation]) -> Evaluation:
    """The highest score; of equal ones the simplest."""
    return min(evaluations, key=lambda one: (-one.score, one.simplicity))


def _simplest_of_the_best(evaluations: Sequence[Evaluation]) -> Evaluation:
    """The simplest candidate within one standard error of the best."""
    best = best_of(evaluations)
    good = [one for one in evaluations if one.score >= best.score - best.standard_error]
    return min(good, key=lambda one: one.simplicity)


def _beyond(value: float, tried: list[float], step: float) -> float | None:
    """The next value past the end of the sorted list at which ``value`` is; None in its middle."""
    if value == tried[-1]:
        return value * step
    return value / step if value == tried[0] else None

"""Cross-validation over C, gamma and the number of landmarks, with everything shared.

::

    landmarks            one set to a level, with all of the level before among them
    exponents  (n, k)    once for all gammas (rbf and laplacian: log K is proportional to gamma)
    F = K M    (n, q)    once for each level and gamma: no fold and no C adds to that
    folds                columns of one problem: in its own column a held-out row costs nothing
    C                    ascending, each started where the one before ended; with more landmarks,
                         where it ended with fewer
    k = n                no landmarks and no F: the exact machine of ``exact_folds.py``

So a path over C and its folds cost Newton iterations over features that are there already.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from lasn.candidates import (
    Candidates,
    Grid,
    again_with_more_rows,
    below_clearly_worse,
    onwards,
    outwards,
    sharper,
    uphill,
    whole_grid,
    widen,
)
from lasn.cross_validation import (
    Evaluation,
    Fold,
    Path,
    best_of,
    fold_path,
    simplest_of_the_best,
)
from lasn.devices import Place
from lasn.exact_folds import exact_folds, exact_pays
from lasn.kernels import Kernel, resolve_kernel_name
from lasn.landmarks import more_landmarks
from lasn.memory import with_less_memory
from lasn.minimization import manners_of
from lasn.model import Model
from lasn.newton import NewtonOptions
from lasn.problem import Problem
from lasn.shared_features import Function, SharedFeatures
from lasn.stand_ins import Landmarks, with_stand_ins
from lasn.threads import serial_products
from lasn.training import Training, find_landmarks, resolve_dtype

# Rows times columns (classes times folds) up to which the whole grid is tried on all rows, and the
# fewest rows that it is tried on otherwise.
_MANY_SCORES = 500_000
_FEWEST_ROWS = 3000
# Up to so many rows, and rows times columns, the second level is the last and has this many
# landmarks, all rows if they are fewer: that is the kernel machine itself, or near it, and its
# Newton steps are small factorisations.
_FEW_ROWS, _FEW_SCORES = 5000, 150_000
_MANY_LANDMARKS = 2000
# Which C and gamma to look at further is told by scores that are this near to the minimum.
_ROUGH = 1e-2
# Features of a search are used so much more often than those of a fit that float32 pays earlier.
_TIMES_USED = 8
# So often at least the number of landmarks grows: a first gain may be hidden by chance.
_LEAST_LEVELS = 2
_FOLLOWING = 2.0  # each number of landmarks, as a multiple of the one before


class Search:
    """The search itself: candidates in an order in which stopping early is no great loss.

    First the grid at the smallest number of landmarks, where it costs least, from its middle
    outwards; where rows times columns are many, on a sample of the rows. Then the neighbourhood of
    the best with twice as many landmarks, or, where rows are few, with most of them and no more.
    Then the best and the next gamma with twice as many, and so on, until the score gains less than
    ``margin`` or the time is over. Where the exact machine costs no more than many landmarks would,
    it is what follows the first number of them, on the sample and then on all rows. Numbers of
    landmarks that were given are all tried, with the whole grid, on all rows.

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
    allows_exact : bool
        Whether the landmarks may end with all rows, as the exact machine.
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
        allows_exact: bool,
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
        self.explores = grows
        self.method, self.newton, self.rng = landmarks, newton, rng
        self.prefers_simple = prefers_simple
        self.dtype, self.cutoff, self.memory_limit = dtype, cutoff, memory_limit
        self.device, self.deadline, self.on_candidate = device, deadline, on_candidate
        self.per_fold = per_fold
        self.parts = self._parts(problem.n_rows, folds)
        self.features: list[SharedFeatures] = []
        self.landmarks_of_level: list[list[Landmarks]] = []  # one for each part
        # Rows near the boundary, of a sample that the first level was tried on.
        self.near_in_sample: np.ndarray | None = None
        self.solutions: dict[tuple[int, float, float], Function] = {}
        self.exact_models: dict[tuple[float, float], Model] = {}
        self.evaluations: list[Evaluation] = []
        pays = exact_pays(problem, len(folds), memory_limit, device)
        self.ends_exact = grows and allows_exact and pays and not self._shares_inner_products()
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
            if known and self._late(self._slowdown(size, self.sizes[level - 1])):
                return
            gained = np.inf
            if level == 0 and self.grows and self._screen():
                level = len(self.sizes) - 1
            else:
                evaluate = self._evaluate
                if self._is_exact(level, size):
                    evaluate = self._evaluate_exact
                    self.landmarks_of_level.append([])
                else:
                    self._choose_landmarks(size)
                for gamma, Cs in self._candidates(level):
                    if self._comparable() and self._late():
                        return
                    evaluate(gamma, Cs, level)
                if known:
                    gained = self.level_best(level).score - best_of(known).score
            if self.grows and self._goes_on(level, gained):
                following = self._following(size, gained)
                if following > size:
                    self.sizes.append(following)
            level += 1

    @property
    def best(self) -> Evaluation:
        """The best of those that were tried on all rows."""
        return best_of(self._comparable() or self.evaluations)

    def level_best(self, level: int) -> Evaluation:
        return best_of(self._at_level(level))

    def _at_level(self, level: int) -> list[Evaluation]:
        return [one for one in self.evaluations if one.level == level]

    def _comparable(self) -> list[Evaluation]:
        return [one for one in self.evaluations if one.n_rows == self.problem.n_rows]

    def _screen(self) -> bool:
        """Try the whole grid on a sample of the rows, if that makes a difference."""
        n_rows, size = self.problem.n_rows, self._sample_size()
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
        screen.grows, screen.sizes, screen.features = self.ends_exact, self.sizes[:1], []
        screen.landmarks_of_level = []
        screen.run()
        self._take_screened_levels(screen)
        self.landmarks_of_level = [
            [one.among(rows) for one in parts] for parts in screen.landmarks_of_level
        ]
        self.near_in_sample = rows[np.flatnonzero(screen._active())]
        return True

    def _sample_size(self) -> int:
        n_columns = self.problem.targets.shape[1] * len(self.folds)
        return max(_FEWEST_ROWS, _MANY_SCORES // n_columns)

    def _take_screened_levels(self, screen: Search) -> None:
        """Whether the exact machine was worth its time on the sample decides about all rows."""
        n_levels = 1 + max(one.level for one in self.evaluations)
        self.sizes = screen.sizes[:n_levels]  # time may have been over before the last
        more_rows = self.problem.n_rows / screen.problem.n_rows
        self.seconds_of_path = screen.seconds_of_path * more_rows
        if self.ends_exact:
            tried = any(one.exact for one in self.evaluations)
            gained = tried and self.level_best(1).score - self.level_best(0).score >= self.margin
            self.ends_exact = gained and not self._late(more_rows)

    @property
    def chosen(self) -> Evaluation:
        """The candidate to refit."""
        if self.prefers_simple:
            return simplest_of_the_best(self._comparable() or self.evaluations)
        return self.best

    def _parts(self, n_rows: int, folds: Sequence[Fold]) -> list[tuple[np.ndarray, list[int]]]:
        """Which rows landmarks come from, for which folds."""
        if self.per_fold:
            return [(fold.train, [index]) for index, fold in enumerate(folds)]
        return [(np.arange(n_rows), list(range(len(folds))))]

    def _candidates(self, level: int) -> Candidates:
        """Each gamma that this level tries, with its C in ascending order."""

        def found() -> list[Evaluation]:
            return self._at_level(level)

        if level > 0 and self.grows:
            before, start = self._at_level(level - 1), self.level_best(level - 1)
            if start.exact:
                yield from again_with_more_rows(before, found)
            elif self._is_exact(level, self.sizes[level]):
                yield from sharper(self.grid, before, found)
            elif level == 1:
                yield from uphill(self.grid, start, before, found)
            else:
                grid = below_clearly_worse(self.grid, start, before)
                rivals = before if level == 2 else []
                yield from onwards(grid, start, self.margin, found, rivals)
            return
        yield from outwards(self.grid, found) if self.explores else whole_grid(self.grid)
        if level == 0 and self.grid.widens:
            yield from widen(self.grid, found)

    def _goes_on(self, level: int, gained: float) -> bool:
        """Whether more landmarks are worth trying, where those of this level gained so much."""
        return gained >= self.margin or level < _LEAST_LEVELS

    def _rows_are_few(self) -> bool:
        n_scores = self.problem.n_rows * self.problem.n_problems * len(self.folds)
        return self.problem.n_rows <= _FEW_ROWS and n_scores <= _FEW_SCORES

    def _shares_inner_products(self) -> bool:
        """Whether candidates share so much with many landmarks that the exact machine costs more.

        It computes for each C anew what they find in one F F^T.
        """
        return self._rows_are_few()

    def _is_exact(self, level: int, size: int) -> bool:
        return self.ends_exact and level > 0 and size >= self.problem.n_rows

    def _following(self, size: int, gained: float) -> int:
        """The next number of landmarks, where these gained so much; the same without a next."""
        n_rows = self.problem.n_rows
        if self.ends_exact:
            return n_rows
        if self._rows_are_few():
            return max(size, min(n_rows, _MANY_LANDMARKS))
        return min(n_rows, int(_FOLLOWING * size))

    def _evaluate(self, gamma: float, Cs: list[float], level: int) -> None:
        began = perf_counter()
        newton = self._newton(level)
        held_out: list[list[np.ndarray]] = [[np.empty(0)] * len(self.folds) for _ in Cs]
        seconds = np.zeros(len(Cs))
        for part, (_, indices) in enumerate(self.parts):
            path, shared = self._path(part, gamma, Cs, newton)
            features = self.features[part]
            for C, W in zip(Cs, path.W, strict=True):
                self.solutions[part, gamma, C] = features.function(W)
            for place, scores in enumerate(path.held_out):
                for index, values in zip(indices, scores, strict=True):
                    held_out[place][index] = values
                seconds[place] += path.seconds[place] + shared / len(Cs)
        for C, scores, took in zip(Cs, held_out, seconds, strict=True):
            self._judge(gamma, C, level, scores, took)
        self.seconds_of_path = perf_counter() - began

    def _evaluate_exact(self, gamma: float, Cs: list[float], level: int) -> None:
        """The same for the exact machine, which has no features to share."""
        began = perf_counter()
        place = Place(self.device)

        def attempt(C: float) -> tuple[Model, list[np.ndarray]]:
            return exact_folds(
                replace(self.problem, C=C, X=place.rows(self.problem.X, self.memory_limit)),
                self.folds,
                kernel=replace(self.kernel, gamma=gamma),
                start=self._exact_start(gamma, C, level),
                newton=self._newton(level),
                dtype=self.dtype,
                memory_limit=self.memory_limit,
                rng=self.rng,
            )

        for C in Cs:
            before = perf_counter()
            model, held_out = with_less_memory(partial(attempt, C), place)
            self.exact_models[gamma, C] = model
            self._judge(gamma, C, level, held_out, perf_counter() - before, exact=True)
        self.seconds_of_path = perf_counter() - began

    def _exact_start(self, gamma: float, C: float, level: int) -> Model:
        """The nearest exact machine so far; the best model with landmarks if there is none."""
        if not self.exact_models:
            return self.model_of(self.level_best(level - 1))

        def distance(key: tuple[float, float]) -> tuple[float, float]:
            return abs(np.log(key[0] / gamma)), abs(np.log(key[1] / C))

        return self.exact_models[min(self.exact_models, key=distance)]

    def _newton(self, level: int) -> NewtonOptions:
        rough = self.explores and level == 0
        return replace(self.newton, tol=max(self.newton.tol, _ROUGH)) if rough else self.newton

    def _judge(
        self,
        gamma: float,
        C: float,
        level: int,
        held_out: list[np.ndarray],
        seconds: float,
        exact: bool = False,
    ) -> None:
        """Score a candidate's folds, and keep what came out."""
        before = perf_counter()
        fold_scores = [
            self.score_fold(values, fold.test)
            for fold, values in zip(self.folds, held_out, strict=True)
        ]
        took = perf_counter() - before
        n_rows = self.problem.n_rows
        n_landmarks = n_rows if exact else self.n_landmarks
        evaluation = Evaluation(
            n_landmarks,
            gamma,
            C,
            np.array(fold_scores),
            seconds,
            took,
            level,
            n_rows,
            held_out,
            exact,
        )
        self.evaluations.append(evaluation)
        self._forget_held_out()
        self.on_candidate(evaluation)

    def _path(
        self, part: int, gamma: float, Cs: list[float], newton: NewtonOptions
    ) -> tuple[Path, float]:
        """The folds of a part for each C, and the seconds of what the Cs share.

        Where a device runs out of memory, once more with smaller blocks.
        """
        return with_less_memory(
            lambda: self._try_path(part, gamma, Cs, newton), self.features[part]
        )

    def _try_path(
        self, part: int, gamma: float, Cs: list[float], newton: NewtonOptions
    ) -> tuple[Path, float]:
        began = perf_counter()
        features, folds = self.features[part], [self.folds[index] for index in self.parts[part][1]]
        shared_by_all = features.at(gamma, len(folds) * self.problem.targets.shape[1])
        known = [self._nearest_solution(part, gamma, C) for C in Cs]
        starts = [None if one is None else features.coefficients(one, gamma) for one in known]
        shared = perf_counter() - began
        with manners_of(self.device):
            return fold_path(self.problem, folds, shared_by_all, Cs, newton, starts), shared

    def _nearest_solution(self, part: int, gamma: float, C: float) -> Function | None:
        """The last solution for this gamma whose C is nearest."""
        known = [key for key in self.solutions if key[:2] == (part, gamma)]
        if not known:
            return None
        return self.solutions[min(known, key=lambda key: abs(np.log(key[2] / C)))]

    def _choose_landmarks(self, size: int) -> None:
        if resolve_kernel_name(self.kernel.name) == "linear":
            if not self.features:
                self.features = [self._new_features(None) for _ in self.parts]
            self.landmarks_of_level.append([])
            return
        chosen = [self._landmarks_of(part, size) for part in range(len(self.parts))]
        in_folds = [one.in_folds(self.problem.X) for one in chosen]
        self.n_landmarks = max(one.shape[0] for one in in_folds)
        if not self.features:
            self.features = [self._new_features(one) for one in in_folds]
        else:
            for features, one in zip(self.features, in_folds, strict=True):
                features.grow(one, self._dtype(one.shape[0]))
        self.landmarks_of_level.append(chosen)

    def _new_features(self, landmarks) -> SharedFeatures:
        n_columns = self.problem.X.shape[1] if landmarks is None else landmarks.shape[0]
        return SharedFeatures(
            self.problem.X,
            self.kernel,
            landmarks,
            self._dtype(n_columns),
            self.cutoff,
            self.memory_limit,
            len(self.grid.gammas),
            self.device,
        )

    def _dtype(self, n_columns: int) -> np.dtype:
        return resolve_dtype(self.dtype, _TIMES_USED * self.problem.n_rows * n_columns)

    def _landmarks_of(self, part: int, size: int) -> Landmarks:
        """Landmarks for some folds, from rows that they all may see; those before come first."""
        if not isinstance(self.method, str):
            return Landmarks(self.method)
        rows = self.parts[part][0]
        rows = rows[self.problem.sample_weight[rows] > 0.0]
        seen = replace(self.problem.only(rows), X=self.problem.X[rows])
        size = min(size, seen.n_rows)
        known, near = self._known_landmarks(part)
        near = np.flatnonzero(np.isin(rows, near))
        if known is None or (self.method == "boundary" and len(near) == 0):
            problem = replace(seen, C=self.grid.middle_C)
            limits = {"memory_limit": self.memory_limit}
            found, *_ = find_landmarks(problem, self.kernel, size, self.method, limits, self.rng)
            return self._stand_ins(found, seen, rows, None)
        near = near if self.method == "boundary" else np.arange(len(rows))
        before = known.in_folds(self.problem.X)
        groups, weight = seen.groups, seen.sample_weight
        found = more_landmarks(self.method, seen.X, before, size, near, groups, weight, self.rng)
        if size == seen.n_rows:  # all of them
            return Landmarks(found)
        new = found[before.shape[0] :]
        return known.followed_by(self._stand_ins(new, seen, rows, known.places))

    def _stand_ins(self, centres, seen: Problem, rows: np.ndarray, taken) -> Landmarks:
        """These landmarks, with rows other than those taken to stand for them where need be."""
        if self.method not in ("boundary", "class_kmeans") or self.per_fold:
            return Landmarks(centres)
        taken = None if taken is None else np.flatnonzero(np.isin(rows, taken))
        return with_stand_ins(centres, seen.X, seen.groups, taken, self.rng).among(rows)

    def _known_landmarks(self, part: int) -> tuple[Landmarks | None, np.ndarray]:
        """The landmarks to grow from, None if there are none, and the rows near the boundary."""
        if self.features and self.best.held_out:
            return self.landmarks_of_level[-1][part], np.flatnonzero(self._active())
        if self.near_in_sample is not None and not self.features:
            return self.landmarks_of_level[0][part], self.near_in_sample
        return None, np.empty(0, dtype=int)

    def model_of(self, one: Evaluation) -> Model:
        """The exact machine, or the mean of its folds' models.

        Where folds have landmarks of their own, it is the mean of the first ones' models.
        """
        if one.exact:
            return self.exact_models[one.gamma, one.C]
        function = self.solutions[0, one.gamma, one.C]
        W = np.vstack([function.beta, function.bias])
        mean = W.reshape(len(W), -1, self.problem.targets.shape[1]).mean(axis=1)
        kernel = replace(self.kernel, gamma=one.gamma)
        return Model(kernel, function.landmarks, None, mean, self.features[0].dtype)

    def training_of(self, one: Evaluation) -> Training | None:
        """The fit to all rows, where the search has made it."""
        return None

    def _forget_held_out(self) -> None:
        """Keep the scores of the best; of all, where one that was passed over may be chosen yet."""
        if not self.prefers_simple:
            best = self.best
            for one in self.evaluations:
                if one is not best:
                    one.held_out = []

    def _active(self) -> np.ndarray:
        """Rows on which the best candidate so far is wrong or not sure, when they are held out."""
        active = np.zeros(self.problem.n_rows, dtype=bool)
        for fold, scores in zip(self.folds, self.best.held_out, strict=True):
            targets = self.problem.targets[fold.test]
            _, _, curvature = self.problem.loss.expand(targets, scores)
            active[fold.test] |= np.any(curvature > 0.0, axis=1)
        return active

    @staticmethod
    def _slowdown(size: int, before: int) -> float:
        """How much longer a path takes with so many more landmarks, roughly.

        Where most rows become landmarks, it is active rows that it costs, not landmarks.
        """
        return (size / before) ** (2 if size <= _FOLLOWING * before else 1)

    def _late(self, factor: float = 1.0) -> bool:
        """Whether another path, so much longer than the last, and the last fit would be too long.

        That fit is about as long as a path.
        """
        return perf_counter() + (factor + 1.0) * self.seconds_of_path > self.deadline

"""Where Newton's method starts, and what helps it on the way from there.

From zero every row is active, so the first Hessian is the dearest. Where rows are many, a *coarse*
model, with few of the landmarks, is fitted to a sample of them first, and then::

    W        the same function by all landmarks, bettered on samples that grow
    P        the Hessian of some active rows, factored: it preconditions all that follow
    order    rows that the coarse model leaves active come first: Hessian products skip the others
    V_part   of very many rows, the Hessians of a part stand for those of all (subsampled.py)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lasn.arrays import like, to_numpy, wide
from lasn.chunked_problem import ChunkedProblem
from lasn.costs import active_rows_that_pay, direct_solves_pay, sample_pays
from lasn.curvature import MOST_ROWS
from lasn.kernels import Kernel
from lasn.landmarks import MAX_KMEANS_ROWS, sample_by_group, scattered
from lasn.losses import LogLoss, SquaredHinge
from lasn.memory import with_less_memory
from lasn.minimization import manners_of, minimize_over
from lasn.model import Model
from lasn.newton import NewtonOptions, NewtonResult, NewtonStart
from lasn.objective import RegularizedLoss
from lasn.problem import Memory, Problem
from lasn.sampled_hessian import SampledHessian

# What many rows say need not be asked of all.
MANY = 5000
# Samples of rows give a start, each four times the last, where rows or operations for one Hessian
# are so many. Several columns, each with a Hessian of its own, want it sooner, but for a few
# variables, whose Hessians cost nothing.
_GROWTH = 4
_WORK = 1e9
_ENOUGH, _FEW_VARIABLES = 500, 125
# A sample's minimum is no nearer to that of all rows than this.
_SAMPLED = NewtonOptions(tol=2e-2, max_iter=4)
# A part of the rows with so many active ones for each feature, at least and at best, tells Hessians
# well enough to take a few steps by them; directions are no more exact than those.
_LEAST_FOR_A_FEATURE, _BEST_FOR_A_FEATURE = 40, 80
_LARGEST_PART = 0.25
STEPS_BY_A_PART = 4
FORCING_BY_A_PART = 0.1
# A glance is a fit with an eighth of the landmarks, but so many at least and twice as many at most,
# and so many rows for each. Where it leaves this share of them active in each of several columns,
# their Hessians are alike.
_VERY_FEW, _ROWS_A_LANDMARK = 25, 40
_GLANCE = NewtonOptions(max_iter=2)
_MOST = 0.55
# So many rows tell what share of them is active.
_FEW_ROWS = 2000
# With more landmarks, blocks have too few rows of a part for matrix products to be fast.
_LANDMARKS_OF_A_PART = 600
# Rows are sorted by how many of these margins they are at rest by, where the coarse model's scores
# of this share of them are known and at most this share of them is active.
_LEVELS = (-0.25, 0.0, 0.25)
_KNOWN, _NOT_ALL = 0.5, 0.9

# Fits a problem with the given landmarks, roughly: (problem, kernel, landmarks, limits, rng, ...).
RoughFit = Callable[..., Any]


@dataclass
class Coarse:
    """A model with few of the landmarks, and what is known of its scores.

    ``scores``, shape (m, c), are those of the problem's rows at the positions ``rows``, shape (m,);
    None where the model was not fitted to rows of this problem, or those are elsewhere.
    """

    model: Model
    rows: Any = None
    scores: Any = None

    def scores_of_all(self, problem: Problem | ChunkedProblem) -> np.ndarray | None:
        """Its scores of all rows, shape (n, c), if those of most are known."""
        if self.rows is None or len(self.rows) < _KNOWN * problem.n_rows:
            return None
        assert isinstance(problem, Problem)
        scores = np.empty(problem.targets.shape)
        scores[self.rows] = self.scores
        others = np.ones(problem.n_rows, dtype=bool)
        others[self.rows] = False
        if others.any():
            scores[others] = self.model.scores(problem.only(np.flatnonzero(others)).X)
        return scores


@dataclass
class Part:
    """The objective over a part of the rows, which are kept, and memory to read the others with."""

    objective: RegularizedLoss
    memory: Memory


@dataclass
class Start:
    """The problem, whose rows may have been sorted, and how Newton's method is to begin.

    ``model`` is the cheapest one with the scores of the first W. ``part`` is there where Hessians
    of a part of the rows may stand for those of all.
    """

    problem: Problem | ChunkedProblem
    model: Model
    newton: NewtonStart
    part: Part | None = None


def find_start(
    problem: Problem | ChunkedProblem,
    pool: Problem,
    model: Model,
    coarse: Coarse | None,
    memory: Memory,
    rng,
    rough_fit: RoughFit,
    alike: bool | None = False,
) -> Start:
    """Where to start with all of the model's landmarks, given a model with few of them, if any is.

    ``pool`` are rows at hand: samples are drawn from it as far as it reaches, and then where the
    problem's rows are. ``alike``: whether columns have similar Hessians, None if that is not known.
    """
    start = NewtonStart(model.W)
    n_variables, n_problems = model.W.shape
    pays = _start_pays(pool.n_rows, n_variables, n_problems, coarse is not None)
    if model.landmarks is None or not pays:
        if coarse is None or n_problems > 1:
            return Start(problem, model, start)
        return Start(problem, coarse.model, NewtonStart(embed(coarse.model, model)))
    if alike is None and coarse is None:
        alike = are_alike(
            problem, pool, model.kernel, model.landmarks, memory.limits, rng, rough_fit
        )
    if alike:
        return Start(problem, model, NewtonStart(model.W, alike=True))
    if coarse is None:
        few = model.landmarks[::_GROWTH]
        sample = pool.drawn(min(pool.n_rows // _GROWTH, MAX_KMEANS_ROWS), rng)
        coarse = Coarse(rough_fit(sample, model.kernel, few, memory.limits, rng).model)
    first = coarse.model
    model = replace(model, W=embed(first, model))
    # Columns that share a factor are not helped by more rows in it, and a GPU's products are fast.
    one_factor = n_problems == 1 and problem.device is None
    scores = coarse.scores_of_all(problem) if one_factor else None
    some = scattered(pool.n_rows, min(_FEW_ROWS, pool.n_rows), rng)
    active = active_rows(pool.only(some), first, None if scores is None else scores[some])
    share = max(float(wide(active).mean()), 0.01)
    k, sizes = model.landmarks.shape[0], _sample_sizes(problem.n_rows, MAX_KMEANS_ROWS)
    n_rows = problem.n_rows
    n_part = 0
    is_much = k > _FEW_VARIABLES and not memory.keeps_easily(n_rows, model)
    if sizes and problem.device is None and is_much and problem.is_cheap(model, memory):
        n_part = _rows_that_tell_hessians(k, share, n_rows, pool.n_rows)
    if n_part:
        sizes = [n_part]
    direct = direct_solves_pay(n_rows, share * n_rows, k, n_problems)
    if not sizes and problem.device is None and direct:
        return Start(problem, first, NewtonStart(model.W))
    ahead = share * (n_part or n_rows + sum(sizes)) if one_factor else 0.0
    n_active = active_rows_that_pay(k, ahead)
    n_sampled = min(n_active, share * (pool.n_rows // 2))
    if one_factor and not sizes and not sample_pays(k, n_sampled, share * n_rows):
        return Start(problem, first, NewtonStart(model.W))
    if scores is not None and share <= _NOT_ALL and isinstance(problem, Problem):
        problem = _active_first(problem, scores)
    is_kept = k <= _LANDMARKS_OF_A_PART and memory.keeps_easily(n_rows, model)
    if one_factor and not sizes and is_kept and share >= MOST_ROWS:
        return Start(problem, first, NewtonStart(model.W))  # some of its own rows will do
    least = min(MANY, pool.n_rows // _GROWTH)
    size = min(max(least, int(n_active / share)), pool.n_rows // 2)
    chosen = sample_by_group(pool.groups, size, rng)
    near = pool.sample(chosen).near(first, 0.0, None if scores is None else scores[chosen])
    start = _prepared(near, model, memory)
    aside = memory.set_aside() if n_part else memory
    for size in sizes:
        larger = pool.drawn(size, rng) if size <= pool.n_rows else problem.drawn(size, rng)
        result, objective = minimize_over(larger, model, start, _SAMPLED, memory)
        start = NewtonStart(result.W, preconditioners=elsewhere(result), sample=start.sample)
        first = replace(model, W=result.W)
    part = None
    if n_part:
        assert isinstance(objective, RegularizedLoss)
        part = Part(objective, aside)
    return Start(problem, first, start, part)


def _start_pays(n_rows: int, n_variables: int, n_problems: int, known: bool) -> bool:
    """Whether more than the W of a coarse model, which is known or has to be fitted first, pays."""
    if n_problems > 1:
        return n_rows >= _ENOUGH and (known or n_variables > _FEW_VARIABLES)
    return n_rows >= 2 * MANY or n_rows * n_variables**2 >= _WORK


def _sample_sizes(n_rows: int, smallest: int) -> list[int]:
    """Sizes above the smallest that grow by a factor of four, to a quarter of the rows."""
    sizes = []
    size = n_rows // _GROWTH
    while size > smallest:
        sizes.append(size)
        size //= _GROWTH
    return sizes[::-1]


def _rows_that_tell_hessians(k: int, share: float, n_rows: int, n_at_hand: int) -> int:
    """How many of n rows, a share of them active, have Hessians like that of all; 0 if too many."""
    least, best = (
        int(active * k / share) for active in (_LEAST_FOR_A_FEATURE, _BEST_FOR_A_FEATURE)
    )
    size = int(min(best, _LARGEST_PART * n_rows, n_at_hand))
    return size if size >= least else 0


def _prepared(active: Problem, model: Model, memory: Memory) -> NewtonStart:
    """The model's W, and Hessians of a sample's active rows.

    Fewer of them than features would say nothing about most directions.
    """
    if active.n_rows < len(model.W):
        return NewtonStart(model.W)

    def attempt() -> NewtonStart:
        with manners_of(active.device):
            hessian = SampledHessian(active, model, memory)
            return NewtonStart(model.W, preconditioners=hessian.at(model.W), sample=hessian)

    return with_less_memory(attempt, memory)


def _active_first(problem: Problem, scores: np.ndarray) -> Problem:
    """The same problem: rows that are active at these scores first, those furthest from it last.

    Scores have shape (n, c). Rows stay in their order where they rest by as many of ``_LEVELS``.
    Then most blocks are active as a whole, or at rest, and products with Hessians need not read
    what rests, or copy what does not.
    """
    rests = [problem.loss.rests(problem.targets, scores, margin) for margin in _LEVELS]
    return problem.only(np.argsort(np.sum(rests, axis=0).min(axis=1), kind="stable"))


def are_alike(
    problem: Problem | ChunkedProblem,
    pool: Problem,
    kernel: Kernel,
    landmarks,
    limits: dict[str, Any],
    rng,
    rough_fit: RoughFit,
) -> bool:
    """Whether most rows are active in each of several columns, as far as a glance can tell.

    That is a fit with a few of the landmarks to a few of the pool's rows. Then there is no boundary
    to be found, and all Hessians on the way from zero are like the first, which columns share. Very
    many rows are not read so often: samples of them give a better start.
    """
    n_landmarks = min(max(_VERY_FEW, landmarks.shape[0] // 8), 2 * _VERY_FEW)
    n_rows = _ROWS_A_LANDMARK * n_landmarks
    if problem.n_problems == 1 or pool.n_rows < _GROWTH * n_rows:
        return False
    if _sample_sizes(problem.n_rows, MAX_KMEANS_ROWS):
        return False
    sample = with_inactive_rows(pool.drawn(n_rows, rng))
    few = landmarks[:: max(1, landmarks.shape[0] // n_landmarks)]
    glance = rough_fit(sample, kernel, few, limits, rng, newton=_GLANCE, with_scores=True)
    return float(wide(active_rows(sample, glance.model, glance.newton.scores)).mean()) >= _MOST


def with_inactive_rows(problem: Problem) -> Problem:
    """The same with another loss, if every row is active in its own."""
    if isinstance(problem.loss, LogLoss):
        return replace(problem, loss=SquaredHinge())
    return problem


def active_rows(problem: Problem, model: Model, scores: np.ndarray | None = None) -> Any:
    """Which rows are active in which column, shape (n, c); their scores may be known."""
    if scores is None:
        scores = model.scores(problem.X)
    _, _, curvature = problem.loss.expand(problem.targets, like(scores, problem.targets))
    return curvature > 0.0


def embed(coarse: Model, model: Model) -> np.ndarray:
    """W for which the model is the coarse one: w = M^T K(L, L_coarse) beta_coarse."""
    cross = model.kernel(model.landmarks, coarse.landmarks)
    coef = wide(model.mapping).T @ (cross @ like(coarse.beta, cross))
    return np.vstack([to_numpy(coef), coarse.W[-1:]])


def elsewhere(result: NewtonResult) -> list:
    """What was assembled, to precondition another problem; what columns share, they share there."""
    moved = {id(one): one and one.elsewhere() for one in result.assembled}
    return [moved[id(one)] for one in result.assembled]

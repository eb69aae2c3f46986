"""Algorithm 2 whole: landmarks, mapping matrix, features, reduced linear SVM.

::

    1  choose landmarks L                                landmarks.py
    2  K_ll = V diag(lambda) V^T                         features.py
    3  M = V diag(lambda)^(-1/2)                         features.py
    4  features K_rl M, block by block                   kernels.py, blocks.py
    5  minimise the reduced objective by Algorithm 1     objective.py, newton.py

Algorithm 3, prediction through beta = M w, is in ``prediction.py``.

All steps happen where the problem's rows are: in memory or on a torch device (``problem.py``), on
disk or on a cluster (``chunked_problem.py``).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np

from lasn.arrays import ascending, float32_products, like, permutation, to_numpy, wide
from lasn.blocks import Work, Workspace
from lasn.chunked_problem import ChunkedProblem
from lasn.directions import active_rows_that_pay, direct_solves_pay, sample_pays
from lasn.duplicates import distinct
from lasn.features import mapping_matrix
from lasn.kernels import Kernel, resolve_kernel_name
from lasn.landmarks import MAX_KMEANS_ROWS, count_landmarks, sample_by_group, stack_rows
from lasn.losses import LogLoss, SquaredHinge
from lasn.memory import with_less_memory
from lasn.model import Model
from lasn.newton import NewtonOptions, NewtonResult, NewtonStart, Status, minimize
from lasn.objective import RegularizedLoss
from lasn.problem import Memory, Problem
from lasn.sampled_hessian import SampledHessian
from lasn.threads import one_thread, serial_products, threads_for

# Up to this many feature values, float64 costs nothing that anyone would notice; whoever gives rows
# in float32 may notice it sooner.
_SMALL, _SMALL_IN_FLOAT32 = 1 << 22, 1 << 20
# Equal rows are merged where this share of them goes; with few landmarks, finding them costs more.
_WORTH_MERGING = 0.1
_FEW_LANDMARKS = 100
# A fit that only has to tell which rows are active may stop early. Of many columns a few may need
# several times the steps of the others, and each step reads all rows.
_ROUGH = NewtonOptions(tol=3e-2, max_iter=4, max_cg_iter=10)
# Several columns gain more from a good start than it costs, but not with very many landmarks.
_ROUGH_OF_SEVERAL = replace(_ROUGH, tol=1e-2, max_iter=6)
_ROUGH_LANDMARKS = 500
# A sample's minimum is no nearer to that of all rows than this.
_SAMPLED = NewtonOptions(tol=2e-2, max_iter=4)
# What many rows say need not be asked of all.
_MANY = 5000
# Samples of rows give a start, each four times the last, where rows or operations for one Hessian
# are so many. Several columns, each with a Hessian of its own, want it sooner, but for a few
# variables, whose Hessians cost nothing.
_GROWTH = 4
_WORK = 1e9
_ENOUGH, _FEW_VARIABLES = 500, 125
# A glance is a fit with an eighth of the landmarks, but so many at least and twice as many at most,
# and so many rows for each. Where it leaves this share of them active in each of several columns,
# their Hessians are alike.
_VERY_FEW, _ROWS_A_LANDMARK = 25, 40
_GLANCE = NewtonOptions(max_iter=2)
_MOST = 0.55
# So many rows tell what share of them is active.
_FEW_ROWS = 2000
# Rows whose score is further than this from being active rest while the others are solved, if
# those are few enough.
_MARGINS = (0.5, 0.25)
_FEW = 0.6
# Rows are sorted by how many of these margins they are at rest by, where the coarse model's scores
# of this share of them are known and at most this share of them is active.
_LEVELS = (-0.25, 0.0, 0.25)
_KNOWN, _NOT_ALL = 0.5, 0.9
# Matrices of the Hessian's size that a solve holds at once: assembled, factored, summed by threads.
_HESSIANS = 10


@dataclass
class Training:
    """A model, how Newton's method got there, and the seconds that each stage took.

    Landmarks and mapping are where the problem's rows are.
    """

    model: Model
    newton: NewtonResult
    seconds: dict[str, float]


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


@serial_products()  # blocks of rows have the threads
def train(
    problem: Problem | ChunkedProblem,
    *,
    kernel: Kernel,
    n_landmarks,
    landmarks,
    newton: NewtonOptions,
    rng: np.random.RandomState,
    eigenvalue_cutoff="auto",
    dtype="auto",
    memory_limit=None,
    workspace: Workspace | None = None,
    start: Model | None = None,
    solved: bool = False,
    more_landmarks: Any = None,
    guess: Model | None = None,
    merge: bool = True,
    alike: bool | None = None,
    with_scores: bool = False,
    on_stage: Callable[[str], None] = lambda name: None,
    on_iteration: Callable[[Model, dict], bool | None] | None = None,
) -> Training:
    """Fit the reduced problem.

    ``start`` is a model whose landmarks and W are taken over; ``solved``: it was fitted with this
    C, so that a small gradient is enough. ``more_landmarks`` are rows to follow those landmarks,
    and then the fit starts from the same function. ``guess`` is a model of a similar problem, with
    any landmarks, that gives the first W. ``merge``: equal rows have not been looked for.
    ``alike``: whether columns have similar Hessians, where that is known (see ``_are_alike``).
    ``with_scores``: those of the rows are wanted, if all of them are at hand in the end.
    """
    clock = _Clock(on_stage)
    workspace = workspace or Workspace()
    limits = {"memory_limit": memory_limit, "workspace": workspace}
    problem = problem.without_zero_weights()
    coarse = None
    clock.stage("landmarks")
    if resolve_kernel_name(kernel.name) == "linear":
        chosen = mapping = None
        n_variables = problem.n_features
        n_values = problem.n_rows * n_variables
        dtype = resolve_dtype(dtype, n_values, problem.device, problem.X.dtype)
    else:
        if start is not None:
            start = replace(start, landmarks=problem.place(start.landmarks))
            chosen = start.landmarks
            if more_landmarks is not None:
                chosen = stack_rows(chosen, more_landmarks)
            problem = _merged(problem, chosen.shape[0])
        elif isinstance(landmarks, str):
            k = count_landmarks(n_landmarks, problem.n_rows)
            problem = _merged(problem, k)
            chosen, coarse, alike = find_landmarks(problem, kernel, k, landmarks, limits, rng)
            if with_scores and coarse is not None:
                coarse.rows = None  # all rows stay where they are
        else:
            chosen = problem.own_landmarks(landmarks)
            problem = _merged(problem, chosen.shape[0]) if merge else problem
        clock.stage("map")
        n_values = problem.n_rows * chosen.shape[0]
        dtype = resolve_dtype(dtype, n_values, problem.device, problem.X.dtype)
        mapping = mapping_matrix(kernel(chosen, chosen), cutoff=eigenvalue_cutoff, dtype=dtype)
        n_variables = mapping.shape[1]

    clock.stage("solve")
    pool = problem.pool(rng)
    hessians = 8 * _HESSIANS * (n_variables + 1) ** 2 if mapping is not None else 0
    free = problem.free_memory(memory_limit, hessians)
    memory = Memory(free, workspace, limits, problem.device)
    W = np.zeros((n_variables + 1, problem.n_problems))
    model = Model(kernel, chosen, mapping, W, dtype)
    with threads_for(n_values):
        if start is not None and more_landmarks is not None:
            model = replace(model, W=_embed(start, model))
            known, first, problem = _start(problem, pool, model, Coarse(start), memory, rng)
        elif start is not None and start.W.shape == W.shape:
            known = NewtonStart(start.W, value=np.full(W.shape[1], np.inf) if solved else None)
            first = replace(model, W=start.W)
        else:
            if guess is not None and mapping is not None:
                coarse = Coarse(replace(guess, landmarks=problem.place(guess.landmarks)))
                model = replace(model, W=_embed(coarse.model, model))
            known, first, problem = _start(problem, pool, model, coarse, memory, rng, alike)
        result = _solve(
            problem, pool, model, known, first, newton, memory, on_iteration, with_scores
        )
    return Training(replace(model, W=result.W), result, clock.stop())


def _merged(problem: Problem | ChunkedProblem, k: int) -> Problem | ChunkedProblem:
    """The same problem, equal rows merged where they are many and k landmarks make that pay."""
    if isinstance(problem, Problem) and problem.device is None and k >= _FEW_LANDMARKS:
        return distinct(problem, worth=_WORTH_MERGING)
    return problem


def find_landmarks(
    problem: Problem | ChunkedProblem,
    kernel: Kernel,
    k: int,
    method: str,
    limits: dict[str, Any],
    rng,
):
    """Step 1: landmarks, and the model that was fitted on the way to them, if one was.

    And whether the columns' Hessians are alike, if that was found out.
    """
    coarse: Coarse | None = None
    alike: bool | None = None

    def active_rows(first, sample: Problem, rows=None):
        """Which rows of a sample, at these positions, a first, smaller fit leaves active."""
        nonlocal alike, coarse
        sample = _with_inactive_rows(sample)
        if sample.n_problems > 1:
            first = first[:: -(-first.shape[0] // _ROUGH_LANDMARKS)]
            alike = _are_alike(problem, sample, kernel, first, limits, rng)
            if alike:
                return np.ones(sample.n_rows, dtype=bool)
        rough = _rough_fit(sample, kernel, first, limits, rng, with_scores=True)
        scores = rough.newton.scores
        if scores is None:
            scores = rough.model.scores(sample.X)
        coarse = Coarse(rough.model, rows, scores)
        return to_numpy(_active(sample, rough.model, scores).any(axis=1))

    chosen = problem.place(problem.landmarks(method, k, rng, active_rows))
    return chosen, coarse, alike


def _with_inactive_rows(problem: Problem) -> Problem:
    """The same with another loss, if every row is active in its own."""
    if isinstance(problem.loss, LogLoss):
        return replace(problem, loss=SquaredHinge())
    return problem


def _rough_fit(
    problem: Problem,
    kernel: Kernel,
    landmarks,
    limits: dict[str, Any],
    rng,
    newton: NewtonOptions | None = None,
    **options,
) -> Training:
    return train(
        problem,
        kernel=kernel,
        n_landmarks=None,
        landmarks=landmarks,
        newton=newton or _rough_options(problem),
        rng=rng,
        merge=False,
        alike=False,
        **limits,
        **options,
    )


def _are_alike(
    problem: Problem | ChunkedProblem, pool: Problem, kernel: Kernel, landmarks, limits, rng
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
    order = permutation(pool.n_rows, rng, pool.targets)
    sample = _with_inactive_rows(pool.sample(ascending(order[:n_rows])))
    few = landmarks[:: max(1, landmarks.shape[0] // n_landmarks)]
    glance = _rough_fit(sample, kernel, few, limits, rng, newton=_GLANCE, with_scores=True)
    return float(wide(_active(sample, glance.model, glance.newton.scores)).mean()) >= _MOST


def _rough_options(problem: Problem | ChunkedProblem) -> NewtonOptions:
    return _ROUGH_OF_SEVERAL if problem.n_problems > 1 else _ROUGH


def _minimize(
    problem: Problem | ChunkedProblem,
    model: Model,
    start: NewtonStart,
    options: NewtonOptions,
    memory: Memory,
    once: bool = False,
    on_iteration: Callable[[np.ndarray, dict], bool | None] | None = None,
    with_scores: bool = False,
) -> NewtonResult:
    """Algorithm 1 over some rows; where memory runs out, again with smaller blocks."""

    def attempt() -> NewtonResult:
        with manners_of(problem.device):
            objective = problem.objective(model, memory, once)
            result = minimize_with_bill(objective, start, options, on_iteration)
            if with_scores:  # kernel values are there, so it is one reading of them
                result.scores = objective.scores(result.W)
            return result

    return with_less_memory(attempt, memory)


def minimize_with_bill(
    objective: RegularizedLoss, start: NewtonStart, options: NewtonOptions, on_iteration
) -> NewtonResult:
    """Algorithm 1, whose records say what each iteration cost: passes over rows, bytes moved."""
    blocks = objective.blocks
    seen = Work()

    def with_bill(W, record):
        nonlocal seen
        now = replace(blocks.work)
        record["passes"] = (now.rows_read - seen.rows_read) / max(1, blocks.n_rows)
        record["bytes_moved"] = now.bytes_moved - seen.bytes_moved
        seen = now
        return on_iteration(W, record)

    return minimize(objective, start, options, None if on_iteration is None else with_bill)


@contextmanager
def manners_of(device: Any) -> Iterator[None]:
    """On a torch device, exact products (a setting of the process) from a single thread.

    Nobody will ask for their gradients.
    """
    if device is None:
        yield
        return
    with one_thread(), float32_products(), sys.modules["torch"].no_grad():
        yield


def _start(
    problem: Problem | ChunkedProblem,
    pool: Problem,
    model: Model,
    coarse: Coarse | None,
    memory: Memory,
    rng,
    alike: bool | None = False,
) -> tuple[NewtonStart, Model, Problem | ChunkedProblem]:
    """Where to start: a W, Hessians to precondition with, and the cheapest model of W's scores.

    And the problem, whose rows may be in another order.

    From zero every row is active, so the first Hessian is the dearest. So where rows are many, a
    *coarse* model, with few of the landmarks, is fitted to a sample of them and gives the first W.
    Larger samples better it, of the pool as far as that reaches and then where the rows are. The
    Hessian of some of the rows preconditions all that follow.
    """
    start = NewtonStart(model.W)
    n_variables, n_problems = model.W.shape
    pays = _start_pays(pool.n_rows, n_variables, n_problems, coarse is not None)
    if model.landmarks is None or not pays:
        return start, model, problem
    if alike is None and coarse is None:
        alike = _are_alike(problem, pool, model.kernel, model.landmarks, memory.limits, rng)
    if alike:
        return NewtonStart(model.W, alike=True), model, problem
    order = permutation(pool.n_rows, rng, pool.targets)
    if coarse is None:
        few = model.landmarks[::_GROWTH]
        size = min(pool.n_rows // _GROWTH, MAX_KMEANS_ROWS)
        sample = pool.sample(ascending(order[:size]))
        coarse = Coarse(_rough_fit(sample, model.kernel, few, memory.limits, rng).model)
    first = coarse.model
    model = replace(model, W=_embed(first, model))
    # Columns that share a factor are not helped by more rows in it, and a GPU's products are fast.
    one_factor = n_problems == 1 and problem.device is None
    scores = coarse.scores_of_all(problem) if one_factor else None
    some = order[:_FEW_ROWS]
    active = _active(pool.only(some), first, None if scores is None else scores[some])
    share = max(float(wide(active).mean()), 0.01)
    k, sizes = model.landmarks.shape[0], _sample_sizes(problem.n_rows, MAX_KMEANS_ROWS)
    n_rows = problem.n_rows
    direct = direct_solves_pay(n_rows, share * n_rows, k, n_problems)
    if not sizes and problem.device is None and direct:
        return NewtonStart(model.W), first, problem
    ahead = share * (n_rows + sum(sizes)) if one_factor else 0.0
    n_active = active_rows_that_pay(k, ahead)
    if one_factor and not sizes and not sample_pays(k, n_active, share * n_rows):
        return NewtonStart(model.W), first, problem
    least = min(_MANY, pool.n_rows // _GROWTH)
    size = min(max(least, int(n_active / share)), pool.n_rows // 2)
    chosen = sample_by_group(pool.groups, size, rng)
    near = pool.sample(chosen).near(first, 0.0, None if scores is None else scores[chosen])
    start = _prepared(near, model, memory)
    if scores is not None and share <= _NOT_ALL and isinstance(problem, Problem):
        problem = _active_first(problem, scores)
    for size in sizes:
        larger = pool.drawn(size, rng) if size <= pool.n_rows else problem.drawn(size, rng)
        result = _minimize(larger, model, start, _SAMPLED, memory)
        start = NewtonStart(result.W, preconditioners=_elsewhere(result), sample=start.sample)
        first = replace(model, W=result.W)
    return start, first, problem


def _start_pays(n_rows: int, n_variables: int, n_problems: int, known: bool) -> bool:
    """Whether to start from a coarse model, which is known or has to be fitted first."""
    if n_problems > 1:
        return n_rows >= _ENOUGH and (known or n_variables > _FEW_VARIABLES)
    return n_rows >= 2 * _MANY or n_rows * n_variables**2 >= _WORK


def _active_first(problem: Problem, scores: np.ndarray) -> Problem:
    """The same problem: rows that are active at these scores first, those furthest from it last.

    Scores have shape (n, c). Rows stay in their order where they rest by as many of ``_LEVELS``.
    Then most blocks are active as a whole, or at rest, and products with Hessians need not read
    what rests, or copy what does not.
    """
    rests = [problem.loss.rests(problem.targets, scores, margin) for margin in _LEVELS]
    return problem.only(np.argsort(np.sum(rests, axis=0).min(axis=1), kind="stable"))


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


def _active(problem: Problem, model: Model, scores: np.ndarray | None = None) -> Any:
    """Which rows are active in which column, shape (n, c); their scores may be known."""
    if scores is None:
        scores = model.scores(problem.X)
    _, _, curvature = problem.loss.expand(problem.targets, like(scores, problem.targets))
    return curvature > 0.0


def _solve(
    problem: Problem | ChunkedProblem,
    pool: Problem,
    model: Model,
    start: NewtonStart,
    first: Model,
    newton: NewtonOptions,
    memory: Memory,
    report,
    with_scores: bool,
) -> NewtonResult:
    """Step 5: Algorithm 1 over all rows.

    Where kernel values are cheap enough to be computed a few times rather than kept, the rows that
    are active, or near it, are solved first. Mostly all that is left then is to confirm the answer
    in one pass over all rows (a rough fit does without). ``first`` is a model with the scores of
    the start. The history holds the iterations of both.
    """
    history: list[dict] = []
    precision = str(model.dtype)
    if problem.device is not None and problem.device.type == "cuda" and precision == "float32":
        precision = "float32 (TF32 in preconditioners)"
    began = perf_counter()

    def over(part: Problem | ChunkedProblem, options: NewtonOptions) -> NewtonResult:
        def on_iteration(W, record):
            record.update(rows=part.n_rows, seconds=perf_counter() - began, precision=precision)
            return report and report(replace(model, W=W), record)

        left = max(1, newton.max_iter - len(history))
        options = replace(options, max_iter=min(left, options.max_iter))
        # What rows near the boundary have settled is only confirmed over all of them.
        once = part is problem and start.value is not None
        scored = with_scores and part is problem
        result = _minimize(part, model, start, options, memory, once, on_iteration, scored)
        history.extend(result.history)
        return result

    if np.any(start.W) and problem.n_rows >= 2 * _MANY and problem.is_cheap(model, memory):
        rough = _rough_options(problem)
        for options in (rough, newton):
            near = _near(problem, pool, first)
            if near is None:
                break
            result = over(near, options)
            if newton is rough or Status.INTERRUPTED in result.status:
                return replace(result, history=history)
            start = NewtonStart(result.W, result.value, _elsewhere(result), start.sample)
            first = replace(model, W=result.W)
            if np.all(result.relative_gradient <= newton.tol):  # all rows may confirm that
                break
    moved = problem.bytes_moved
    result = over(problem, newton)
    if history and not result.history:  # one look at all rows confirmed the answer
        confirmed = result.record(seconds=perf_counter() - began)
        confirmed |= {"passes": 1.0, "bytes_moved": problem.bytes_moved - moved}
        history.append({**confirmed, "rows": problem.n_rows, "precision": precision})
    return replace(result, history=history)


def _near(
    problem: Problem | ChunkedProblem, pool: Problem, model: Model
) -> Problem | ChunkedProblem | None:
    """The problem on the rows that are active or near it; None where those are most of all."""
    some = pool.only(np.arange(0, pool.n_rows, 1 + pool.n_rows // _MANY))
    for margin in _MARGINS:
        if some.near(model, margin).n_rows <= _FEW * some.n_rows:
            return problem.near(model, margin)
    return None


def _embed(coarse: Model, model: Model) -> np.ndarray:
    """W for which the model is the coarse one: w = M^T K(L, L_coarse) beta_coarse."""
    cross = model.kernel(model.landmarks, coarse.landmarks)
    coef = wide(model.mapping).T @ (cross @ like(coarse.beta, cross))
    return np.vstack([to_numpy(coef), coarse.W[-1:]])


def _elsewhere(result: NewtonResult) -> list:
    """What was assembled, to precondition another problem; what columns share, they share there."""
    moved = {id(one): one and one.elsewhere() for one in result.assembled}
    return [moved[id(one)] for one in result.assembled]


def _sample_sizes(n_rows: int, smallest: int) -> list[int]:
    """Sizes above the smallest that grow by a factor of four, to a quarter of the rows."""
    sizes = []
    size = n_rows // _GROWTH
    while size > smallest:
        sizes.append(size)
        size //= _GROWTH
    return sizes[::-1]


def resolve_dtype(dtype: str, n_values: int, device: Any = None, of_rows: Any = None) -> np.dtype:
    """The features' dtype for so many of them, made of rows of another dtype."""
    if device is not None and device.type == "mps":
        if dtype == "float64":
            raise ValueError('device="mps" has no float64; use dtype="auto" or dtype="float32".')
        return np.dtype(np.float32)
    if dtype == "auto":
        most = _SMALL_IN_FLOAT32 if "float32" in str(of_rows) else _SMALL
        return np.dtype(np.float64 if n_values <= most else np.float32)
    return np.dtype(dtype)


class _Clock:
    """Seconds of each stage; announces stages as they begin."""

    def __init__(self, on_stage: Callable[[str], None]):
        self.on_stage = on_stage
        self.seconds: dict[str, float] = {}
        self.name, self.since = "", perf_counter()

    def stage(self, name: str) -> None:
        self.stop()
        self.name = name
        self.on_stage(name)

    def stop(self) -> dict[str, float]:
        now = perf_counter()
        if self.name:
            self.seconds[self.name] = self.seconds.get(self.name, 0.0) + now - self.since
        self.since = now
        return self.seconds

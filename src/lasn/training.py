"""Algorithm 2 whole: landmarks, mapping matrix, features, reduced linear SVM.

::

    1  choose landmarks L                                landmarks.py
    2  K_ll = V diag(lambda) V^T                         features.py
    3  M = V diag(lambda)^(-1/2)                         features.py
    4  features K_rl M, block by block                   kernels.py, blocks.py
    5  minimise the reduced objective by Algorithm 1     starts.py, objective.py, newton.py

Algorithm 3, prediction through beta = M w, is in ``prediction.py``.

All steps happen where the problem's rows are: in memory or on a torch device (``problem.py``), on
disk or on a cluster (``chunked_problem.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np

from lasn import starts
from lasn.arrays import to_numpy
from lasn.blocks import Workspace
from lasn.chunked_problem import ChunkedProblem
from lasn.duplicates import distinct
from lasn.features import mapping_among
from lasn.kernels import Kernel, resolve_kernel_name
from lasn.landmarks import count_landmarks, stack_rows
from lasn.minimization import minimize_over
from lasn.model import Model
from lasn.newton import NewtonOptions, NewtonResult, NewtonStart, Status
from lasn.problem import Memory, Problem
from lasn.starts import FORCING_BY_A_PART, MANY, STEPS_BY_A_PART, Coarse, Part, Start
from lasn.threads import serial_products, threads_for

# Up to this many feature values, float64 costs nothing that anyone would notice; whoever gives rows
# in float32 may notice it sooner (on a device later than here), and will not miss it unless
# gradients are to be this small.
_SMALL, _SMALL_IN_FLOAT32, _SMALL_ON_A_DEVICE = 1 << 22, 1 << 18, 1 << 20
_EXACTING = 1e-5
# Equal rows are merged where this share of them goes; with few landmarks, finding them costs more.
_WORTH_MERGING = 0.1
_FEW_LANDMARKS = 100
# A fit that only has to tell which rows are active may stop early. Of many columns a few may need
# several times the steps of the others, and each step reads all rows.
_ROUGH = NewtonOptions(tol=3e-2, max_iter=4, max_cg_iter=10)
# Several columns gain more from a good start than it costs, but not with very many landmarks.
_ROUGH_OF_SEVERAL = replace(_ROUGH, tol=1e-2, max_iter=6)
_ROUGH_LANDMARKS = 500
# Rows whose score is further than this from being active rest while the others are solved, if
# those are few enough.
_MARGINS = (0.5, 0.25)
_FEW = 0.6
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
    ``alike``: whether columns have similar Hessians, where that is known (``starts.are_alike``).
    ``with_scores``: those of the rows are wanted, if all of them are at hand in the end.
    """
    clock = _Clock(on_stage)
    as_for = {"device": problem.device, "of_rows": problem.X.dtype, "tol": newton.tol}
    workspace = workspace or Workspace()
    limits = {"memory_limit": memory_limit, "workspace": workspace}
    problem = problem.without_zero_weights()
    coarse = None
    clock.stage("landmarks")
    if resolve_kernel_name(kernel.name) == "linear":
        chosen = mapping = None
        n_variables = problem.n_features
        n_values = problem.n_rows * n_variables
        dtype = resolve_dtype(dtype, n_values, **as_for)
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
            dtype = resolve_dtype(dtype, problem.n_rows * k, **as_for).name
            if problem.device is None:  # where float64 takes longer, and a rough fit can do without
                limits["dtype"] = dtype
            chosen, coarse, alike = find_landmarks(problem, kernel, k, landmarks, limits, rng)
            if with_scores and coarse is not None:
                coarse.rows = None  # all rows stay where they are
        else:
            chosen = problem.own_landmarks(landmarks)
            problem = _merged(problem, chosen.shape[0]) if merge else problem
        clock.stage("map")
        n_values = problem.n_rows * chosen.shape[0]
        dtype = resolve_dtype(dtype, n_values, **as_for)
        mapping = mapping_among(kernel, chosen, cutoff=eigenvalue_cutoff, dtype=dtype)
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
            model = replace(model, W=starts.embed(start, model))
            begun = starts.find_start(problem, pool, model, Coarse(start), memory, rng, _rough_fit)
        elif start is not None and start.W.shape == W.shape:
            known = NewtonStart(start.W, value=np.full(W.shape[1], np.inf) if solved else None)
            begun = Start(problem, replace(model, W=start.W), known)
        else:
            if guess is not None and mapping is not None:
                coarse = Coarse(replace(guess, landmarks=problem.place(guess.landmarks)))
                model = replace(model, W=starts.embed(coarse.model, model))
            begun = starts.find_start(problem, pool, model, coarse, memory, rng, _rough_fit, alike)
        result = _solve(begun, pool, model, newton, memory, on_iteration, with_scores)
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
        sample = starts.with_inactive_rows(sample)
        if sample.n_problems > 1:
            first = first[:: -(-first.shape[0] // _ROUGH_LANDMARKS)]
            alike = starts.are_alike(problem, sample, kernel, first, limits, rng, _rough_fit)
            if alike:
                return np.ones(sample.n_rows, dtype=bool)
        rough = _rough_fit(sample, kernel, first, limits, rng, with_scores=True)
        scores = rough.newton.scores
        if scores is None:
            scores = rough.model.scores(sample.X)
        coarse = Coarse(rough.model, rows, scores)
        return to_numpy(starts.active_rows(sample, rough.model, scores).any(axis=1))

    chosen = problem.place(problem.landmarks(method, k, rng, active_rows))
    return chosen, coarse, alike


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


def _rough_options(problem: Problem | ChunkedProblem) -> NewtonOptions:
    return _ROUGH_OF_SEVERAL if problem.n_problems > 1 else _ROUGH


def _solve(
    begun: Start,
    pool: Problem,
    model: Model,
    newton: NewtonOptions,
    memory: Memory,
    report,
    with_scores: bool,
) -> NewtonResult:
    """Step 5: Algorithm 1 over all rows.

    Where kernel values are cheap enough to be computed a few times rather than kept, the rows that
    are active, or near it, are solved first. Mostly all that is left then is to confirm the answer
    in one pass over all rows (a rough fit does without). Very many rows are not kept either: a part
    of them has the Hessians. The history holds the iterations of all this.
    """
    history: list[dict] = []
    problem, first, start = begun.problem, begun.model, begun.newton
    precision = str(model.dtype)
    if problem.device is not None and problem.device.type == "cuda" and precision == "float32":
        precision = "float32 (TF32 in preconditioners)"
    began = perf_counter()

    def over(
        rows: Problem | ChunkedProblem, options: NewtonOptions, part: Part | None = None
    ) -> NewtonResult:
        def on_iteration(W, record):
            record.update(rows=rows.n_rows, seconds=perf_counter() - began, precision=precision)
            return report and report(replace(model, W=W), record)

        left = max(1, newton.max_iter - len(history))
        options = replace(options, max_iter=min(left, options.max_iter))
        # What rows near the boundary have settled is only confirmed over all of them.
        result, _ = minimize_over(
            rows,
            model,
            start,
            options,
            memory if part is None else part.memory,
            once=rows is problem and start.value is not None,
            hessians=None if part is None else part.objective,
            on_iteration=on_iteration,
            with_scores=with_scores and rows is problem,
        )
        history.extend(result.history)
        return result

    if begun.part is not None:
        options = replace(newton, eta0=FORCING_BY_A_PART, max_iter=STEPS_BY_A_PART)
        result = over(problem, options, begun.part)
        if Status.INTERRUPTED in result.status or set(result.status) == {Status.CONVERGED}:
            return replace(result, history=history)
        begun.part = None  # its memory is wanted
        start = NewtonStart(result.W, preconditioners=start.preconditioners, sample=start.sample)
        first = replace(model, W=result.W)
    if np.any(start.W) and problem.n_rows >= 2 * MANY and problem.is_cheap(model, memory):
        rough = _rough_options(problem)
        for options in (rough, newton):
            near = _near(problem, pool, first)
            if near is None:
                break
            result = over(near, options)
            if newton is rough or Status.INTERRUPTED in result.status:
                return replace(result, history=history)
            start = NewtonStart(result.W, result.value, starts.elsewhere(result), start.sample)
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
    some = pool.only(np.arange(0, pool.n_rows, 1 + pool.n_rows // MANY))
    for margin in _MARGINS:
        if some.near(model, margin).n_rows <= _FEW * some.n_rows:
            return problem.near(model, margin)
    return None


def resolve_dtype(
    dtype: str, n_values: int, device: Any = None, of_rows: Any = None, tol: float = 1.0
) -> np.dtype:
    """The features' dtype for so many of them, made of rows of another dtype."""
    if device is not None and device.type == "mps":
        if dtype == "float64":
            raise ValueError('device="mps" has no float64; use dtype="auto" or dtype="float32".')
        return np.dtype(np.float32)
    if dtype == "auto":
        most = _SMALL
        if "float32" in str(of_rows) and tol >= _EXACTING:
            most = _SMALL_IN_FLOAT32 if device is None else _SMALL_ON_A_DEVICE
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

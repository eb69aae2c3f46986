"""Algorithm 2 whole: landmarks, mapping matrix, features, reduced linear SVM.

::

    1  choose landmarks L                                landmarks.py
    2  K_ll = V diag(lambda) V^T                         features.py
    3  M = V diag(lambda)^(-1/2)                         features.py
    4  features K_rl M, block by block                   kernels.py, blocks.py
    5  minimise the reduced objective by Algorithm 1     objective.py, newton.py

and Algorithm 3, prediction through beta = M w, in :meth:`Model.scores`.

A problem's arrays are NumPy's or torch's on some device: all steps happen where they are.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np

from lasn.arrays import (
    ascending,
    bincount,
    float32_products,
    is_tensor,
    like,
    nonzero,
    permutation,
    to_numpy,
    wide,
    widest_dtype,
)
from lasn.blocks import BlockSource, ChosenRows, MemoryBlocks, Workspace
from lasn.caller import warn_caller
from lasn.features import mapping_matrix
from lasn.kernels import Kernel, KernelColumns, resolve_kernel_name
from lasn.landmarks import MAX_KMEANS_ROWS, check_landmarks, choose_landmarks, count_landmarks
from lasn.losses import LogLoss, Loss, SquaredHinge
from lasn.memory import working_memory
from lasn.newton import NewtonOptions, NewtonResult, NewtonStart, Status, minimize
from lasn.objective import RegularizedLoss
from lasn.threads import one_thread, serial_products

# Up to this many feature values, float64 costs nothing that anyone would notice.
_SMALL = 1 << 22
# A fit that only has to tell which rows are active may stop early.
_ROUGH = NewtonOptions(tol=1e-2, max_iter=4)
# One Newton step: all that is wanted is its Hessian, one for all columns.
_GLANCE = NewtonOptions(max_iter=1, solver="prepared")
# Samples of rows that give a start: none of fewer rows than this, each four times the last.
_MANY = 5000
_GROWTH = 4
# Rows whose score is further than this from being active rest while the others are solved, if
# those are few enough.
_MARGINS = (0.5, 0.25)
# Matrices of the Hessian's size that a solve holds at once: assembled, factored, summed by threads.
_HESSIANS = 10
# A Hessian for preconditioning wants more active rows than it has columns; a GPU, where products of
# matrices are all but free, can afford many more.
_ROWS_A_COLUMN = 2.5
_ROWS_A_COLUMN_ON_DEVICE = 4.0
_FEW = 0.6
# A device that has not even this much memory left cannot be helped by smaller blocks.
_LEAST_BUDGET = 64 << 20


@dataclass
class Problem:
    """Rows, and what to fit to them.

    ``targets`` has shape (n, c): +-1 for each class, or real targets. ``groups``, shape (n,), are
    classes or bins of the target, for choosing landmarks. All are NumPy's, or all are on one of
    torch's devices.
    """

    X: Any
    targets: Any
    sample_weight: Any
    groups: Any
    C: float
    loss: Loss

    @property
    def n_rows(self) -> int:
        return self.X.shape[0]

    @property
    def device(self) -> Any:
        """torch's device; None for NumPy."""
        return self.targets.device if is_tensor(self.targets) else None

    def place(self, rows: Any) -> Any:
        """Landmarks where the rows are."""
        if self.device is None or rows is None:
            return rows
        from lasn.torch_rows import place_rows

        return place_rows(rows, self.device, memory=1 << 62)

    def on(self, device: Any, memory_limit: Any) -> Problem:
        """The problem on one of torch's devices; as it is where that is None."""
        if device is None:
            return self
        from lasn.torch_blocks import device_memory
        from lasn.torch_rows import place_rows, shared_tensor

        X = place_rows(self.X, device, device_memory(device, memory_limit))
        dtype = widest_dtype(device)
        return replace(
            self,
            X=X,
            targets=shared_tensor(self.targets).to(device, dtype),
            sample_weight=shared_tensor(self.sample_weight).to(device, dtype),
            groups=shared_tensor(self.groups).to(device),
        )

    def sample(self, rows: Any) -> Problem:
        """The problem on some of the rows, weighted so that each group counts as in the whole."""
        rows = like(rows, self.groups, np.int64)
        weight, groups = self.sample_weight[rows], self.groups[rows]
        size = int(self.groups.max()) + 1
        whole = to_numpy(bincount(self.groups, self.sample_weight, size))
        part = to_numpy(bincount(groups, weight, size))
        scale = np.divide(whole, part, out=np.zeros(size), where=part > 0.0)
        return replace(self.only(rows), sample_weight=weight * like(scale, weight)[groups])

    def only(self, rows: Any) -> Problem:
        """The problem on some of the rows, as if there were no others.

        Their positions may come from anywhere; they are kept where the problem is.
        """
        rows = like(rows, self.groups, np.int64)
        return replace(
            self,
            X=ChosenRows(self.X, rows),
            targets=self.targets[rows],
            sample_weight=self.sample_weight[rows],
            groups=self.groups[rows],
        )


@dataclass
class Model:
    """What training found: the function f(x) = K(x, L) beta + b, one column a problem."""

    kernel: Kernel
    landmarks: Any
    mapping: Any
    W: np.ndarray
    dtype: np.dtype

    @property
    def beta(self) -> np.ndarray:
        """beta = M w, shape (k, c)."""
        if self.mapping is None:
            return self.W[:-1]
        mapping = wide(self.mapping)
        return to_numpy(mapping @ like(self.W[:-1], mapping))

    def scores(self, X) -> Any:
        """Algorithm 3: K_el beta + b, shape (m, c), block by block, F never formed."""
        columns = None
        if self.landmarks is not None:
            columns = self.kernel.against(self.landmarks, self.dtype)
        return scores(X, columns, self.beta, self.W[-1])


@dataclass
class Memory:
    """How many bytes of features may be kept, and where; and what a fit inside this one is told."""

    budget: int
    workspace: Workspace
    limits: dict[str, Any]

    def back_off(self, error: Exception) -> bool:
        """Whether to try again, with half of the budget, after a device ran out of memory."""
        if type(error).__name__ != "OutOfMemoryError" or self.budget <= _LEAST_BUDGET:
            return False
        self.budget //= 2
        warn_caller(
            f"The device ran out of memory; going on with blocks of {self.budget / 1e9:.1f} GB in "
            "all. Set memory_limit to leave more of it to others from the start."
        )
        sys.modules["torch"].cuda.empty_cache()
        return True


@dataclass
class Training:
    """A model, how Newton's method got there, and the seconds that each stage took.

    Landmarks and mapping are where the problem's rows are.
    """

    model: Model
    newton: NewtonResult
    seconds: dict[str, float]


def scores(X, columns: KernelColumns | None, beta, intercept) -> Any:
    """K(X, L) beta + b, shape (m, c); X beta + b without landmarks (linear kernel)."""
    if columns is None:
        products = X @ like(beta, X)
    else:
        products = columns.times(X, beta)
    if is_tensor(products):
        return products + like(np.atleast_1d(intercept), products)
    return np.asarray(products) + intercept


@serial_products()  # blocks of rows have the threads
def train(
    problem: Problem,
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
    guess: Model | None = None,
    on_stage: Callable[[str], None] = lambda name: None,
    on_iteration: Callable[[Model, dict], bool | None] | None = None,
) -> Training:
    """Fit the reduced problem.

    ``start`` is a model whose landmarks and W are taken over; ``guess`` one of a similar problem,
    with any landmarks, that gives the first W.
    """
    clock = _Clock(on_stage)
    workspace = workspace or Workspace()
    limits = {"memory_limit": memory_limit, "workspace": workspace}
    problem = _without_zero_weights(problem)
    coarse = None
    clock.stage("landmarks")
    if resolve_kernel_name(kernel.name) == "linear":
        chosen = mapping = None
        n_variables = problem.X.shape[1]
        dtype = resolve_dtype(dtype, problem.n_rows * n_variables, problem.device)
    else:
        if start is not None:
            chosen = problem.place(start.landmarks)
        elif isinstance(landmarks, str):
            k = count_landmarks(n_landmarks, problem.n_rows)
            chosen, coarse = find_landmarks(problem, kernel, k, landmarks, limits, rng)
        else:
            chosen = problem.place(check_landmarks(landmarks, problem.X))
        clock.stage("map")
        dtype = resolve_dtype(dtype, problem.n_rows * chosen.shape[0], problem.device)
        mapping = mapping_matrix(kernel(chosen, chosen), cutoff=eigenvalue_cutoff, dtype=dtype)
        n_variables = mapping.shape[1]

    clock.stage("solve")
    hessians = 8 * _HESSIANS * (n_variables + 1) ** 2 if mapping is not None else 0
    memory = Memory(_free_memory(problem, memory_limit, hessians), workspace, limits)
    W = np.zeros((n_variables + 1, problem.targets.shape[1]))
    model = Model(kernel, chosen, mapping, W, dtype)
    if start is not None and start.W.shape == W.shape:
        known = NewtonStart(start.W, value=np.full(W.shape[1], np.inf))
        first = replace(model, W=start.W)
    else:
        if guess is not None and mapping is not None:
            coarse = replace(guess, landmarks=problem.place(guess.landmarks))
            model = replace(model, W=_embed(coarse, model))
        known, first = _start(problem, model, coarse, memory, rng)
    result = _solve(problem, model, known, first, newton, memory, on_iteration)
    return Training(replace(model, W=result.W), result, clock.stop())


def find_landmarks(
    problem: Problem, kernel: Kernel, k: int, method: str, limits: dict[str, Any], rng
):
    """Step 1: landmarks, and the model that was fitted on the way to them, if one was."""
    fitted: list[Model] = []

    def active_rows(first, rows):
        """Which rows a first, smaller fit with these landmarks leaves active: a mask."""
        sample = problem.sample(rows)
        if isinstance(sample.loss, LogLoss):  # every row is active in it
            sample = replace(sample, loss=SquaredHinge())
        fitted.append(_rough_fit(sample, kernel, first, limits, rng))
        _, _, curvature = sample.loss.expand(sample.targets, fitted[0].scores(sample.X))
        return to_numpy((curvature > 0.0).any(axis=1))

    chosen = choose_landmarks(
        method,
        problem.X,
        k,
        groups=problem.groups,
        sample_weight=problem.sample_weight,
        rng=rng,
        active_rows=active_rows,
    )
    chosen = problem.place(chosen)
    return chosen, fitted[0] if fitted else None


def _rough_fit(problem: Problem, kernel: Kernel, landmarks, limits: dict[str, Any], rng) -> Model:
    return train(
        problem,
        kernel=kernel,
        n_landmarks=None,
        landmarks=landmarks,
        newton=_ROUGH,
        rng=rng,
        **limits,
    ).model


def _objective(
    problem: Problem, model: Model, memory: Memory, once: bool = False
) -> RegularizedLoss:
    """Step 4: the reduced problem over blocks of rows, where the rows are."""
    X, dtype, budget = problem.X, model.dtype, memory.budget
    columns = None
    if model.landmarks is not None:
        columns = model.kernel.against(model.landmarks, dtype)
    if problem.device is None:
        blocks: BlockSource = MemoryBlocks(X, columns, dtype, budget, memory.workspace, once)
    else:
        from lasn.torch_blocks import TorchBlocks

        n_problems = problem.targets.shape[1]
        blocks = TorchBlocks(X, columns, dtype, budget, n_problems, problem.device)
    costs = problem.C * problem.sample_weight
    return RegularizedLoss(blocks, model.mapping, problem.loss, problem.targets, costs)


def _minimize(
    problem: Problem,
    model: Model,
    start: NewtonStart,
    options: NewtonOptions,
    memory: Memory,
    once: bool = False,
    on_iteration: Callable[[np.ndarray, dict], bool | None] | None = None,
) -> NewtonResult:
    """Algorithm 1 over some rows; where memory runs out, again with smaller blocks."""
    while True:
        try:
            with manners_of(problem.device):
                objective = _objective(problem, model, memory, once)
                return minimize(objective, start, options, on_iteration)
        except Exception as error:
            if not memory.back_off(error):
                raise


@contextmanager
def manners_of(device: Any) -> Iterator[None]:
    """On a torch device, exact products (a setting of the process) from a single thread."""
    if device is None:
        yield
        return
    with one_thread(), float32_products():
        yield


def _start(
    problem: Problem, model: Model, coarse: Model | None, memory: Memory, rng
) -> tuple[NewtonStart, Model]:
    """Where to start: a W, Hessians to precondition with, and the cheapest model of W's scores.

    From zero every row is active, so the first Hessian is the dearest. So where rows are many, a
    *coarse* model, with few of the landmarks, is fitted to a sample of them and gives the first W.
    Larger samples, if there are any, better it.
    """
    start = NewtonStart(model.W)
    if model.landmarks is None or problem.n_rows < max(2 * _MANY, 5 * model.W.shape[0]):
        return start, model
    order = permutation(problem.n_rows, rng, problem.targets)
    if coarse is None:
        few = model.landmarks[::_GROWTH]
        size = min(max(_MANY, problem.n_rows // _GROWTH), MAX_KMEANS_ROWS)
        sample = problem.sample(ascending(order[:size]))
        coarse = _rough_fit(sample, model.kernel, few, memory.limits, rng)
    model = replace(model, W=_embed(coarse, model))
    share = _active_share(problem.only(order[:_MANY]), coarse)
    rows_a_column = _ROWS_A_COLUMN if problem.device is None else _ROWS_A_COLUMN_ON_DEVICE
    size = int(rows_a_column * model.W.shape[0] / max(share, 0.01))
    sample = problem.sample(ascending(order[: min(max(_MANY, size), problem.n_rows // 2)]))
    glance = _minimize(sample, model, NewtonStart(model.W), _GLANCE, memory)
    start = NewtonStart(model.W, preconditioners=_elsewhere(glance))
    first = coarse
    for size in _sample_sizes(problem.n_rows, MAX_KMEANS_ROWS):
        sample = problem.sample(ascending(order[:size]))
        result = _minimize(sample, model, start, _ROUGH, memory)
        start = NewtonStart(result.W, preconditioners=_elsewhere(result))
        first = replace(model, W=result.W)
    return start, first


def _active_share(problem: Problem, model: Model) -> float:
    """Which part of the rows is active, the mean over the columns."""
    _, _, curvature = problem.loss.expand(problem.targets, model.scores(problem.X))
    return float(wide(curvature > 0.0).mean())


def _solve(
    problem: Problem,
    model: Model,
    start: NewtonStart,
    first: Model,
    newton: NewtonOptions,
    memory: Memory,
    report,
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

    def over(part: Problem, options: NewtonOptions) -> NewtonResult:
        def on_iteration(W, record):
            record.update(rows=part.n_rows, seconds=perf_counter() - began, precision=precision)
            return report and report(replace(model, W=W), record)

        left = max(1, newton.max_iter - len(history))
        options = replace(options, max_iter=min(left, options.max_iter))
        # What rows near the boundary have settled is only confirmed over all of them.
        once = part is problem and start.value is not None
        result = _minimize(part, model, start, options, memory, once, on_iteration)
        history.extend(result.history)
        return result

    if np.any(start.W) and _cheap(problem, model):
        for options in (_ROUGH, newton):
            near = _near_rows(problem, first)
            if near is None:
                break
            result = over(problem.only(near), options)
            if newton is _ROUGH or Status.INTERRUPTED in result.status:
                return replace(result, history=history)
            start = NewtonStart(result.W, result.value, _elsewhere(result))
            first = replace(model, W=result.W)
    result = over(problem, newton)
    if history and not result.history:
        confirmed = result.record(seconds=perf_counter() - began)
        history.append({**confirmed, "rows": problem.n_rows, "precision": precision})
    return replace(result, history=history)


def _cheap(problem: Problem, model: Model) -> bool:
    if model.landmarks is None or problem.n_rows < 2 * _MANY:
        return False
    return model.kernel.against(model.landmarks, model.dtype).is_cheap(problem.X)


def _near_rows(problem: Problem, model: Model) -> Any:
    """Positions of the rows that are active or near it; None where those are most of all."""

    def near(part: Problem, margin: float) -> Any:
        rests = part.loss.rests(part.targets, model.scores(part.X), margin)
        return nonzero(~rests.all(axis=1))

    every = np.arange(0, problem.n_rows, 1 + problem.n_rows // _MANY)
    some = problem.only(every)
    for margin in _MARGINS:
        if len(near(some, margin)) <= _FEW * some.n_rows:
            return near(problem, margin)
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


def _without_zero_weights(problem: Problem) -> Problem:
    """Rows of weight zero are absent: they may not become landmarks either."""
    present = problem.sample_weight > 0.0
    if present.all():
        return problem
    kept = nonzero(present)
    return replace(problem.only(kept), X=problem.X[kept])


def _free_memory(problem: Problem, limit, reserved: int) -> int:
    """Bytes that may still be taken, where the rows are."""
    if problem.device is None:
        return working_memory(limit, reserved)
    from lasn.torch_blocks import device_memory

    return device_memory(problem.device, limit, reserved)


def resolve_dtype(dtype: str, n_values: int, device: Any = None) -> np.dtype:
    """The features' dtype for so many of them."""
    if device is not None and device.type == "mps":
        if dtype == "float64":
            raise ValueError('device="mps" has no float64; use dtype="auto" or dtype="float32".')
        return np.dtype(np.float32)
    if dtype == "auto":
        return np.dtype(np.float64 if n_values <= _SMALL else np.float32)
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

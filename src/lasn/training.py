"""Algorithm 2 whole: landmarks, mapping matrix, features, reduced linear SVM.

::

    1  choose landmarks L                                landmarks.py
    2  K_ll = V diag(lambda) V^T                         features.py
    3  M = V diag(lambda)^(-1/2)                         features.py
    4  features K_rl M, block by block                   kernels.py, blocks.py
    5  minimise the reduced objective by Algorithm 1     objective.py, newton.py

and Algorithm 3, prediction through beta = M w, in :meth:`Model.scores`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np

from lasn.blocks import MemoryBlocks
from lasn.features import mapping_matrix
from lasn.kernels import Kernel, resolve_kernel_name
from lasn.landmarks import check_landmarks, choose_landmarks, count_landmarks
from lasn.losses import LogLoss, Loss, SquaredHinge
from lasn.memory import working_memory
from lasn.newton import NewtonOptions, NewtonResult, NewtonStart, minimize
from lasn.objective import RegularizedLoss

# Up to this many feature values, float64 costs nothing that anyone would notice.
_SMALL = 1 << 22
# A fit that only has to tell which rows are active may stop early.
_ROUGH = NewtonOptions(tol=1e-2, max_iter=20)
# Samples of rows that give the start: each this many times smaller than the next.
_SAMPLE_GROWTH = 4
_SMALLEST_SAMPLE = 3000


@dataclass
class Problem:
    """Rows, and what to fit to them.

    ``targets`` has shape (n, c): +-1 for each class, or real targets. ``groups``, shape (n,), are
    classes or bins of the target, for choosing landmarks.
    """

    X: Any
    targets: np.ndarray
    sample_weight: np.ndarray
    groups: np.ndarray
    C: float
    loss: Loss

    @property
    def n_rows(self) -> int:
        return self.X.shape[0]

    def sample(self, rows: np.ndarray) -> Problem:
        """The problem on some of the rows, with C raised so that its solution is about the same."""
        kept = self.sample_weight[rows]
        return replace(
            self,
            X=self.X[rows],
            targets=self.targets[rows],
            sample_weight=kept,
            groups=self.groups[rows],
            C=self.C * float(self.sample_weight.sum() / kept.sum()),
        )


@dataclass
class Model:
    """What training found: the function f(x) = K(x, L) beta + b, one column a problem."""

    kernel: Kernel
    landmarks: Any
    mapping: np.ndarray | None
    W: np.ndarray
    dtype: np.dtype

    @property
    def beta(self) -> np.ndarray:
        """beta = M w, shape (k, c)."""
        return self.W[:-1] if self.mapping is None else self.mapping @ self.W[:-1]

    def scores(self, X) -> np.ndarray:
        """Algorithm 3: K_el beta + b, shape (m, c), block by block, F never formed."""
        return scores(X, self.kernel, self.landmarks, self.beta, self.W[-1], self.dtype)


@dataclass
class Training:
    """A model, how Newton's method got there, and the seconds that each stage took."""

    model: Model
    newton: NewtonResult
    seconds: dict[str, float]


def scores(X, kernel: Kernel, landmarks, beta, intercept, dtype) -> np.ndarray:
    """K(X, L) beta + b, shape (m, c); X beta + b without landmarks (linear kernel)."""
    if landmarks is None:
        return np.asarray(X @ beta.astype(X.dtype, copy=False)) + intercept
    return kernel.against(landmarks, dtype).times(X, beta) + intercept


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
    start: Model | None = None,
    on_stage: Callable[[str], None] = lambda name: None,
    on_iteration: Callable[[Model, dict], bool | None] | None = None,
) -> Training:
    """Fit the reduced problem; ``start`` is a model whose landmarks and W are taken over."""
    clock = _Clock(on_stage)
    problem = _without_zero_weights(problem)
    X = problem.X
    clock.stage("landmarks")
    if resolve_kernel_name(kernel.name) == "linear":
        chosen = mapping = columns = None
        dtype = _resolve_dtype(dtype, X.shape[0] * X.shape[1])
    else:
        if start is not None:
            chosen = start.landmarks
        elif isinstance(landmarks, str):
            chosen = choose_landmarks(
                landmarks,
                X,
                count_landmarks(n_landmarks, problem.n_rows),
                groups=problem.groups,
                sample_weight=problem.sample_weight,
                rng=rng,
                active_rows=lambda first, rows: _active_rows(problem, kernel, first, rows, rng),
            )
        else:
            chosen = check_landmarks(landmarks, X)
        clock.stage("map")
        dtype = _resolve_dtype(dtype, X.shape[0] * chosen.shape[0])
        mapping = mapping_matrix(kernel(chosen, chosen), cutoff=eigenvalue_cutoff, dtype=dtype)
        columns = kernel.against(chosen, dtype)

    clock.stage("solve")
    budget = working_memory(memory_limit)
    W = np.zeros((_n_variables(X, mapping), problem.targets.shape[1]))
    if start is not None and start.W.shape == W.shape:
        begin = NewtonStart(start.W, settled=True)
    else:
        begin = _start_from_samples(problem, columns, mapping, dtype, budget, NewtonStart(W), rng)
    model = Model(kernel, chosen, mapping, begin.W, dtype)

    def report(iterate, record):
        return on_iteration and on_iteration(replace(model, W=iterate), record)

    objective = _objective(problem, columns, mapping, dtype, budget)
    result = minimize(objective, begin, newton, report)
    return Training(replace(model, W=result.W), result, clock.stop())


def _n_variables(X, mapping) -> int:
    """Features and the bias."""
    return (X.shape[1] if mapping is None else mapping.shape[1]) + 1


def _objective(problem: Problem, columns, mapping, dtype, budget: int) -> RegularizedLoss:
    """The reduced problem over rows in memory."""
    blocks = MemoryBlocks(problem.X, columns, dtype, budget)
    costs = problem.C * problem.sample_weight
    return RegularizedLoss(blocks, mapping, problem.loss, problem.targets, costs)


def _start_from_samples(problem, columns, mapping, dtype, budget, start, rng) -> NewtonStart:
    """Solve growing samples of the rows, each from the solution of the one before.

    From zero every row is active, so the first Hessian is the dearest; on a sample it costs little,
    and it leaves the full problem with few active rows, a good start and a preconditioner.
    """
    order = None
    for size in _sample_sizes(problem.n_rows, start.W.shape[0]):
        order = rng.permutation(problem.n_rows) if order is None else order
        sample = problem.sample(np.sort(order[:size]))
        result = minimize(_objective(sample, columns, mapping, dtype, budget), start, _ROUGH)
        known = [one and one.elsewhere() for one in result.assembled]
        start = NewtonStart(result.W, preconditioners=known)
    return start


def _sample_sizes(n_rows: int, n_variables: int) -> list[int]:
    """Sizes that grow by a factor of about four; none where sampling would not pay."""
    sizes = []
    size = n_rows // _SAMPLE_GROWTH
    while size >= max(_SMALLEST_SAMPLE, 2 * n_variables):
        sizes.append(size)
        size //= _SAMPLE_GROWTH
    return sizes[::-1]


def _active_rows(problem: Problem, kernel: Kernel, landmarks, rows, rng) -> np.ndarray:
    """Which of the rows a first, smaller fit with these landmarks leaves active: a mask."""
    sample = problem.sample(rows)
    if isinstance(sample.loss, LogLoss):  # every row is active in it
        sample = replace(sample, loss=SquaredHinge())
    first = train(
        sample, kernel=kernel, n_landmarks=None, landmarks=landmarks, newton=_ROUGH, rng=rng
    )
    _, _, curvature = sample.loss.expand(sample.targets, first.model.scores(sample.X))
    return np.any(curvature > 0.0, axis=1)


def _without_zero_weights(problem: Problem) -> Problem:
    """Rows of weight zero are absent: they may not become landmarks either."""
    present = problem.sample_weight > 0.0
    if present.all():
        return problem
    kept = np.flatnonzero(present)
    return replace(problem.sample(kept), C=problem.C)


def _resolve_dtype(dtype: str, n_values: int) -> np.dtype:
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

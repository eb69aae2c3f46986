"""The exact kernel machine: semismooth Newton over rows, no landmarks in the answer.

f = sum_i alpha_i k^(x_i, .) with k^ = k + 1 minimises P(f) of ``duality.py``. With slopes g_i = C_i
loss' and curvatures v_i = C_i loss'' at the scores z = K^ alpha, and active rows I = {i : v_i > 0},
Newton's equations in the space of functions are::

    (K^_II + diag(1 / v_I)) alpha_I = z_I - g_I / v_I,        alpha_i = -g_i elsewhere

for the squared hinge (K^_II + I / (2 C)) alpha_I = y_I and 0 elsewhere. So::

    1  merge rows that are equal and have equal targets: their weights add up
    2  fit a Nystroem model; its scores say which rows are active, or near it: U
    3  Newton's method with line search for the rows U alone, from those scores
    4  the scores of all other rows; stop if the duality gap P - D is small
    5  add to U the rows outside that are active; go to 3

alpha with the wrong signs set to zero is a dual point, and its gap is a sum over rows, without any
product: sum_i alpha_i z_i + C_i loss(y_i, z_i) - g(lambda_i), with g of ``duality.py``. Rows
outside U count with alpha_i = 0, so the gap is that of the whole problem.

The equations are those of ``row_equations.py``. Kernel values among U are computed once and kept as
far as memory reaches (``gram.py``); they have the type ``dtype``, everything else is float64.

Rows may be on a torch device, or on their way to it. Then all that has to do with the kernel is
there: tiles, scores, the preconditioner's features and the factors. What has one entry a row
(alpha, z, targets, costs) is NumPy's in any place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from lasn.arrays import device_of, to_numpy, wide
from lasn.blocks import chosen_rows
from lasn.caller import warn_caller
from lasn.devices import Place
from lasn.duality import DualTerms, ascend, dual_point
from lasn.duplicates import distinct
from lasn.gram import Gram
from lasn.kernels import Kernel, resolve_kernel_name
from lasn.memory import with_less_memory
from lasn.minimization import manners_of
from lasn.model import Model
from lasn.newton import NewtonOptions, Status, line_search
from lasn.problem import Problem, free_memory
from lasn.row_equations import RowEquations, map_size
from lasn.threads import serial_products
from lasn.training import resolve_dtype, train

# Up to this many scores, float64 costs nothing that anyone would notice.
_SMALL = 2048
# Rows whose score is nearer than this to being active are taken into U from the start.
_MARGIN = 0.05
# The gap that is asked for, in units of ``tol``.
_GAP = 0.1
# How much of the gap that is asked for may be the rounding of kernel values.
_ROUNDING = 0.15
# How much of the current gap the solution of one linear system may leave.
_FORCING = 0.03
# A problem whose gap over U is below this multiple of what a linear system may leave at last is
# solved, and waits for the others.
_SOLVED = 3.0
# Points tried to better a dual point.
_DUAL_STEPS = 3
# The relative gap over U at which other rows are looked at for the first time; and again, in units
# of what was found outside.
_LOOK_BELOW, _LOOK_AGAIN = 0.01, 0.02
_FEWEST_NEW = 1000
# Where the slope at the full step is more than this part of the first slope, the line is searched.
# A full step leaves no coefficient outside the active rows, and is exact once those are known.
_LONG_STEP = 0.9
# A step shorter than this is taken only where the full one does not lessen the gap either.
_SHORT_STEP = 0.01
# Landmarks of the Nystroem model that begins, in units of the root of the number of rows.
_LANDMARKS = 4.0
# What a fit to begin with is worth.
_BEGIN = NewtonOptions(tol=1e-3, max_iter=10)


def _resolve_dtype(
    dtype, problem: Problem, costs: np.ndarray, kernel: Kernel, tol: float
) -> np.dtype:
    """What was asked for; else float32, unless its rounding would hide what is left of the gap.

    Coefficients are slopes g, so rounding by u = eps / 2 changes P by about u |g|^2 max K^. As
    g_i^2 is 4 C_i times the row's loss, relatively this is about 4 u max K^ times the mean of C_i,
    in which rows count by their costs. (Merged rows have large ones, but are few.)
    """
    device = device_of(problem.X)
    if dtype != "auto" or (device is not None and device.type == "mps"):
        return resolve_dtype(dtype, 0, device)
    if problem.n_rows * problem.n_problems <= _SMALL:
        return np.dtype(np.float64)
    mean_cost = float(np.sum(costs**2) / np.sum(costs))
    largest = float(np.max(kernel.diagonal(problem.X))) + 1.0
    rounding = 2.0 * np.finfo(np.float32).eps * largest * mean_cost
    return np.dtype(np.float64 if rounding > _ROUNDING * _GAP * tol else np.float32)


@dataclass
class ExactResult:
    """How the gap was closed; every array has one entry a problem."""

    value: np.ndarray
    relative_gap: np.ndarray
    status: Status
    history: list[dict[str, Any]] = field(default_factory=list)

    def warn_unless_converged(self, options: NewtonOptions, dtype) -> None:
        """Say in one :class:`ConvergenceWarning` what went wrong and what to do about it."""
        gap, wanted = float(np.max(self.relative_gap)), _GAP * options.tol
        if self.status is Status.ITERATION_LIMIT:
            warn_caller(
                f"The exact solver stopped after max_iter={options.max_iter} iterations at a "
                f"relative duality gap of {gap:.1e} (wanted: {wanted:.0e}, a tenth of tol). Raise "
                "max_iter or tol, scale the features, or lower C.",
                ConvergenceWarning,
            )
        elif self.status is Status.ROUNDING:
            warn_caller(
                f"The exact solver can make no further progress in {np.dtype(dtype)} arithmetic: "
                f"the relative duality gap is {gap:.1e} (wanted: {wanted:.0e}, a tenth of tol). "
                'Raise tol, scale the features, lower C, or set dtype="float64".',
                ConvergenceWarning,
            )


@dataclass
class ExactTraining:
    """A model whose landmarks are its support vectors, and how it was found."""

    model: Model
    newton: ExactResult
    seconds: dict[str, float]


@serial_products()  # tiles and blocks of rows have the threads
def train_exact(
    problem: Problem,
    *,
    kernel: Kernel,
    n_landmarks,
    newton: NewtonOptions,
    rng: np.random.RandomState,
    dtype="auto",
    memory_limit=None,
    start: Model | None = None,
    on_stage: Callable[[str], None] = lambda name: None,
    on_iteration: Callable[[Model, dict], bool | None] | None = None,
    **options,
):
    """Fit the exact problem; the arguments are those of :func:`lasn.training.train`.

    ``start`` is any model of the same kernel. ``n_landmarks`` belongs to the Nystroem model that is
    fitted otherwise, to begin with and to precondition.
    """
    begin: Any = partial(
        train, kernel=kernel, rng=rng, on_stage=on_stage, memory_limit=memory_limit, **options
    )
    if resolve_kernel_name(kernel.name) == "linear":  # its features are exact already
        return begin(
            problem,
            n_landmarks=n_landmarks,
            newton=replace(newton, solver="auto"),
            dtype=dtype,
            start=start,
            on_iteration=on_iteration,
        )
    if not kernel.is_positive_semidefinite:
        raise ValueError(
            f'solver="exact" needs a positive semidefinite kernel, and kernel={kernel.name!r} with '
            'these parameters is not. Use solver="auto", which drops the negative part of its '
            "spectrum, or another kernel."
        )
    problem = distinct(problem)
    seconds = {}
    if start is None:
        if n_landmarks == "auto":
            n_landmarks = min(problem.n_rows, max(100, int(_LANDMARKS * problem.n_rows**0.5)))
        beginning = begin(problem, n_landmarks=n_landmarks, newton=_BEGIN)
        start = beginning.model
        seconds["nystroem"] = sum(beginning.seconds.values())
    on_stage("solve")
    began = perf_counter()
    device = device_of(problem.X)
    # Rows stay where they are; what has one entry a row is NumPy's from here on.
    targets, weight = (wide(to_numpy(part)) for part in (problem.targets, problem.sample_weight))
    problem = replace(problem, targets=targets)
    start = replace(start, landmarks=Place(device).landmarks(start.landmarks))
    with manners_of(device):
        scores, costs = start.scores(problem.X), problem.C * weight[:, None]
        solver = ExactSolver(problem, costs, scores, newton, kernel, dtype, memory_limit, rng)
        result = solver.solve(on_iteration)
        model = solver.model()
    seconds["solve"] = perf_counter() - began
    return ExactTraining(model, result, seconds)


def _new_gram(kernel: Kernel, X, dtype, n_rows: int, memory_limit, reserved: int) -> Gram:
    """Room for the kernel among so many rows, beside ``reserved`` bytes for other things.

    Tiles may take nearly half of it: as much again is for copies of the active ones.
    """
    if device_of(X) is None:
        return Gram(kernel, X, dtype, int(0.45 * free_memory(None, memory_limit, reserved)))
    from lasn.torch_gram import TorchGram

    return TorchGram.within(memory_limit, reserved, kernel, X, dtype, n_rows)


class ExactSolver:
    """Steps 2 to 5 above. Arrays over U have shape (m, c), in the order of ``gram.rows``.

    The problem's rows are in any place, its targets are NumPy's. ``costs`` are C_i of every row,
    shape (n, 1), or (n, c) where problems differ in them; ``scores``, shape (n, c), are those of a
    model to begin with.
    """

    def __init__(
        self,
        problem: Problem,
        costs: np.ndarray,
        scores: Any,
        options: NewtonOptions,
        kernel: Kernel,
        dtype,
        memory_limit,
        rng,
    ):
        dtype = _resolve_dtype(dtype, problem, costs, kernel, options.tol)
        self.options = options
        self.problem, self.kernel, self.dtype = problem, kernel, dtype
        self.costs = costs
        self.scores = np.array(to_numpy(scores), dtype=np.float64)
        rests = problem.loss.rests(problem.targets, self.scores, _MARGIN).all(axis=1)
        n_near = int(np.count_nonzero(~rests))
        device = device_of(problem.X)
        room = free_memory(device, memory_limit, 0) // (8 * dtype.itemsize * max(1, n_near))
        q = map_size(n_near, room, device)
        # The map: its features, a copy of them, and matrices of its size.
        reserved = 3 * dtype.itemsize * q * n_near + 8 * 6 * q * q
        self.gram = _new_gram(kernel, problem.X, dtype, n_near, memory_limit, reserved)
        self.equations = RowEquations(self.gram, q, rng)
        self.inside = np.zeros(problem.n_rows, dtype=bool)
        self.alpha = np.zeros((0, problem.targets.shape[1]))
        self.z = np.zeros_like(self.alpha)
        # P over the rows U and the two parts of its gap, shape (3, c), and where they are not so.
        self.known = np.zeros((3, problem.targets.shape[1]))
        self.unknown = np.ones(problem.targets.shape[1], dtype=bool)
        self._take_in(self._active_outside(_MARGIN))

    def _active_outside(self, margin: float) -> np.ndarray:
        """Positions of the rows outside U that are active, or nearer to it than the margin.

        No more than half of U: scores are rough while rows are missing.
        """
        targets = self.problem.targets
        rests = self.problem.loss.rests(targets, self.scores, margin)
        rows = np.flatnonzero(~(rests.all(axis=1) | self.inside))
        most = max(_FEWEST_NEW, len(self.gram.rows) // 2)
        if len(self.gram.rows) == 0 or len(rows) <= most:
            return rows
        losses = self.costs[rows] * self.problem.loss.value(targets[rows], self.scores[rows])
        return np.sort(rows[np.argsort(-losses.sum(axis=1), kind="stable")[:most]])

    def _take_in(self, rows: np.ndarray) -> None:
        self.gram.add(rows)
        self.inside[rows] = True
        self.alpha = np.vstack([self.alpha, np.zeros((len(rows), self.alpha.shape[1]))])
        self.z = np.vstack([self.z, self.scores[rows]])
        self.y = self.problem.targets[self.gram.rows]
        self.C = self.costs[self.gram.rows]
        self.unknown[:] = True

    def model(self) -> Model:
        """Support vectors alone: rows with a coefficient that is not zero."""
        support = np.flatnonzero(self.alpha.any(axis=1))
        order = support[np.argsort(self.gram.rows[support])]
        W = np.vstack([self.alpha[order], self.alpha.sum(axis=0)])
        landmarks = self.problem.X[self.gram.rows[order]]
        return Model(self.kernel, landmarks, None, W, self.dtype)

    def solve(self, on_iteration=None) -> ExactResult:
        options = self.options
        wanted, accuracy = _GAP * options.tol, 0.1 * _GAP * options.tol
        began = perf_counter()
        history: list[dict[str, Any]] = []
        status = Status.ITERATION_LIMIT
        look_below = _LOOK_BELOW
        while len(history) < options.max_iter and status is Status.ITERATION_LIMIT:
            t, cg_steps = self._step(accuracy, first=not history)
            value, gap, of_wrong_signs = self._value_and_gap()
            whole = gap + of_wrong_signs
            near = bool(np.all(whole <= 2.0 * wanted * value))  # worth a proof
            outside = np.zeros_like(gap)
            if near or gap.sum() <= look_below * value.sum():
                outside = self._look_outside()
                look_below = _LOOK_AGAIN * float(outside.sum() / value.sum())
            complete = bool(np.all(outside <= 0.5 * wanted * value))
            if near and complete:
                whole = self._proved_gap(wanted - outside / value)
                accuracy *= 0.3
            value, gap = value + outside, whole + outside
            relative = gap / np.maximum(value, np.finfo(float).tiny)
            record = _record(value, gap, relative, self, t, cg_steps)
            history.append({**record, "seconds": perf_counter() - began})
            if on_iteration is not None and on_iteration(self.model(), history[-1]):
                status = Status.INTERRUPTED
            elif near and complete and np.all(relative <= wanted):
                status = Status.CONVERGED
            elif not complete:
                self._take_in(self._active_outside(0.0))
            elif not t.any():
                status = Status.ROUNDING
        return ExactResult(value, relative, status, history)

    def _expand(self, z, columns=slice(None)):
        """Losses, slopes g and curvatures v, with their costs, of all problems or of some."""
        C = self.C if self.C.shape[1] == 1 else self.C[:, columns]
        return tuple(C * part for part in self.problem.loss.expand(self.y[:, columns], z))

    def _dual_point(self, columns) -> tuple[DualTerms, np.ndarray]:
        """Terms and multipliers of alpha; what has the wrong sign is taken as zero."""
        z = self.z[:, columns]
        costs = np.broadcast_to(self.C, self.z.shape)[:, columns]
        terms, _ = dual_point(self.problem.loss, self.y[:, columns], z, costs)
        return terms, np.clip(terms.signs * self.alpha[:, columns], 0.0, terms.largest)

    def _value_and_gap(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What ``_measured`` says of all problems; of those that did not move it is known."""
        columns = np.flatnonzero(self.unknown)
        if len(columns):
            self.known[:, columns] = self._measured(columns)
            self.unknown[:] = False
        value, gap, of_wrong_signs = self.known.copy()
        return value, gap, of_wrong_signs

    def _measured(self, columns: np.ndarray, exactly: bool = False) -> tuple[np.ndarray, ...]:
        """P over the rows U, and two parts of P - D for the dual point of alpha.

        With a the part of alpha that had the wrong sign, P - D is a sum over rows plus
        a^T K^ a / 2. In the latter the Nystroem map may stand for K^, which makes it a little less.
        """
        terms, lam = self._dual_point(columns)
        alpha, z = self.alpha[:, columns], self.z[:, columns]
        losses = self._expand(z, columns)[0]
        value = 0.5 * np.sum(alpha * z, axis=0) + losses.sum(axis=0)
        right = terms.signs * lam
        gap = np.sum(right * z + losses - terms.value(lam), axis=0)
        wrong = alpha - right
        square = None if exactly else self.equations.square_by_nystroem(wrong)
        if square is None:
            square = np.sum(wrong * self._product(wrong), axis=0)
        return value, gap, 0.5 * square

    def _proved_gap(self, wanted) -> np.ndarray:
        """P - D over the rows U, by products with K^ alone; the dual point may be bettered."""
        everyone = np.arange(self.alpha.shape[1])
        value, gap, of_wrong_signs = self._measured(everyone, exactly=True)
        gap = gap + of_wrong_signs
        if np.all(gap <= wanted * value):
            return gap
        terms, lam = self._dual_point(everyone)
        ascent = ascend(terms.columns(), lam, self._product, self.equations.solve_by_nystroem)
        for _, (point, Ka) in zip(range(_DUAL_STEPS), ascent, strict=False):
            dual = np.sum(terms.value(point) - 0.5 * terms.signs * point * Ka, axis=0)
            gap = np.minimum(gap, value - dual)
            if np.all(gap <= wanted * value):
                break
        return gap

    def _look_outside(self) -> np.ndarray:
        """Score the rows outside U; return what they cost, shape (c,)."""
        self.scores[self.gram.rows] = self.z
        rows = np.flatnonzero(~self.inside)
        X, model = chosen_rows(self.problem.X, rows), self.model()
        self.scores[rows] = with_less_memory(lambda: to_numpy(model.scores(X)), self.gram)
        losses = self.problem.loss.value(self.problem.targets[rows], self.scores[rows])
        return np.sum(self.costs[rows] * losses, axis=0)

    def scores_of_all_rows(self) -> np.ndarray:
        """The scores of the present alpha, shape (n, c)."""
        self._look_outside()
        return self.scores

    def _product(self, V: np.ndarray) -> np.ndarray:
        return self.gram.product(V) + V.sum(axis=0)

    def _step(self, accuracy: float, first: bool):
        """One Newton step: step lengths and conjugate gradient steps, shapes (c,).

        Problems that are solved over U stay as they are, with step length 0. At the first step z
        belongs to the model that began, so there is no line to search.
        """
        n_problems = self.alpha.shape[1]
        t, cg_steps = np.zeros(n_problems), np.zeros(n_problems, dtype=int)
        todo = np.arange(n_problems)
        if first:
            value = gap = self._expand(self.z)[0].sum(axis=0)
        else:
            value, gap, of_wrong_signs = self._value_and_gap()
            unsolved = np.flatnonzero(gap + of_wrong_signs > _SOLVED * accuracy * value)
            todo = unsolved if len(unsolved) else todo
        target = np.maximum(accuracy * value, _FORCING * np.minimum(gap, value))[todo]
        old_alpha, old_z = self.alpha[:, todo], self.z[:, todo]
        _, g, v = self._expand(old_z, todo)
        active = v > 0.0
        b = np.where(active, old_z - np.divide(g, v, out=np.zeros_like(g), where=active), 0.0)
        alpha = np.where(active, 0.0, -g)
        if np.any(alpha):
            b -= np.where(active, self._product(alpha), 0.0)
        guess = np.where(active, -g if first else old_alpha, 0.0)
        solution, cg_steps[todo] = self.equations.solve(b, v, guess, target)
        alpha += solution
        z = self._product(alpha)
        self.unknown[todo] = True
        if first:
            self.alpha, self.z = alpha, z
            return np.ones(n_problems), cg_steps
        line: Any = _Line(partial(self._expand, columns=todo), old_alpha, old_z, alpha, z)
        options = replace(self.options, long_step=_LONG_STEP)
        found, stuck = line_search(line, value[todo], line.slope(np.zeros(len(todo)))[0], options)
        found[stuck] = 0.0
        short = found < _SHORT_STEP
        if short.any():
            # P may be compared with its own rounding: then believe the gap.
            self.alpha[:, todo], self.z[:, todo] = alpha, z
            _, new_gap, of_new_signs = self._measured(todo)
            lessens = new_gap + of_new_signs < (gap + of_wrong_signs)[todo]
            found[short & lessens] = 1.0
        t[todo] = found
        # A full step has no trace of what was there before, not even rounding.
        full = found == 1.0
        self.alpha[:, todo] = np.where(full, alpha, old_alpha + found * line.da)
        self.z[:, todo] = np.where(full, z, old_z + found * line.dz)
        return t, cg_steps


class _Line:
    """P from alpha to alpha_1, for ``newton.line_search``: alpha + t da with scores z + t dz."""

    def __init__(self, expand: Callable, alpha, z, alpha_1, z_1):
        self.expand, self.alpha, self.z = expand, alpha, z
        self.da, self.dz = alpha_1 - alpha, z_1 - z

    def value(self, t: np.ndarray) -> np.ndarray:
        alpha, z = self.alpha + t * self.da, self.z + t * self.dz
        return 0.5 * np.sum(alpha * z, axis=0) + self.expand(z)[0].sum(axis=0)

    def slope(self, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        z = self.z + t * self.dz
        _, g, v = self.expand(z)
        # <alpha + t da, K^ da> = <da, z + t dz>: K^ is symmetric.
        first = np.sum(self.da * z, axis=0) + np.sum(g * self.dz, axis=0)
        second = np.sum(self.da * self.dz, axis=0) + np.sum(v * self.dz**2, axis=0)
        return first, second


def _record(value, gap, relative, solver: ExactSolver, t, cg_steps) -> dict[str, Any]:
    """A line of the history; scalars for one problem, arrays of shape (c,) for several."""
    active = np.count_nonzero(solver._expand(solver.z)[2] > 0.0, axis=0)
    record = {
        "value": value,
        "gap": gap,
        "relative_gap": relative,
        "active_rows": active,
        "cg_steps": cg_steps,
        "step_length": t,
    }
    if len(value) == 1:
        record = {name: array[0].item() for name, array in record.items()}
    return record | {"rows": len(solver.alpha)}

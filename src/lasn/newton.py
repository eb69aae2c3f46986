"""Algorithm 1 of the paper: the globalised semismooth Newton method.

::

    given w, sigma and rho in (0, 1), eta0, eta1 > 0
    repeat
        g = grad f(w);  stop if |g| <= tol |grad f(0)| and f has settled
        find d with |V d + g| <= mu |g|,  V a generalised Hessian at w,
             mu = min(eta0, eta1 |g|^2 / |last g|^2)
        t = t0 rho^m for the smallest m = 0, 1, ... with
             f(w + t d) <= f(w) + sigma t <g, d>
        w = w + t d

This module knows no SVM: it sees an :class:`Objective`. It minimises c functions at once that
share their rows but nothing else (the classes of a one-vs-rest classifier, the targets of a
regression), one to a column of W, shape (q, c): every scalar above is an array of shape (c,), and
a column that has converged takes no further part. With c = 1 it is the algorithm as printed.

Where it differs from the paper, and why:

- stopping uses the gradient norm relative to the one at zero, so that it means the same whatever
  the number of rows and C;
- the forcing term mu, there min(eta0, eta1 |g|), follows the gradient's decrease: where the last
  step lessened it by little, it was rows that entered or left the active set, and a more exact
  direction would not have done better (the second choice of Eisenstat and Walker, 1996);
- that norm is so large for many rows that 0.001 of it can leave f several percent above its
  minimum. So f must have settled too: the last step changed it, and what its direction left
  unsolved would have, by less than ``tol``, relatively, or
  |g|^2 / 2, which bounds the distance to the minimum, is less than a tenth of that, or half of
  Newton's decrement <g, V^-1 g>, which is about that distance, is less than a part of it, or
  the gradient is a thousand times smaller than it has to be;
- V d = -g may also be solved by assembling and factoring V: exact, and cheaper when q is small
  against the number of conjugate gradient steps that would be needed. An assembled V is kept and
  changed by the rows that entered or left the active set since, or serves as the preconditioner;
- far from the minimum, where a pass over all rows costs little more than a product with V, d may
  be what past steps and gradients tell of V (``secants.py``). Near it d is Newton's, and so is the
  rate;
- the line search starts at m = 0; at t0 = 1, without which there is no quadratic rate, unless the
  slope there is still a sizeable part of the one at 0. Then t0 is the minimiser along the line,
  which costs no pass over the rows and sheds inactive rows much sooner;
- near the limit of the floating point numbers the Armijo test compares noise; then the step is
  taken if the gradient shrinks, and the method stops if it does not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from time import perf_counter
from typing import Any, Protocol

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from lasn.caller import warn_caller
from lasn.conjugate_gradients import column_norms
from lasn.directions import Assembled, Curvature, DirectionSolver, SampledCurvature

# A gradient so many times ``tol`` can be as small after one step, which is to leave so much of it.
_LAST, _AND_SOME = 5.0, 0.25
# Secants may tell directions while more than this is left of a gradient: then Newton's rate begins.
_ROUGHLY = 1e-4
# They may do so this often, and leave so many iterations for the others. A step of another length
# than theirs is a second pass over the rows: the slope at its end has to be this much of the first.
_MOST_SECANTS, _LEFT_FOR_OTHERS, _LONG_SECANT = 30, 10, 0.9
# After a step as short as this, V is told from rounding before it is factored.
_SHORT_STEP = 0.1
# Newton's decrement, of the last Hessian or of a sample's, may be so much of ``tol``.
_NEXT_TO = 0.03


class Objective(Protocol):
    """c strongly convex functions of the columns of W, as Newton sees them.

    Columns are always named by ``columns``, an integer array: arrays with a column axis hold
    those columns only. Nothing here says what a row is or where it lives.
    """

    n_variables: int
    n_problems: int
    precision: float  # relative rounding error of gradients
    alike: np.ndarray | None  # columns with the same number have similar Hessians

    def begin(self, W: np.ndarray) -> tuple[Point, np.ndarray]:
        """The point at W, shape (q, c), and |grad f_c(0)|, shape (c,): one pass over the rows."""

    def line(self, point: Any, D: np.ndarray) -> Line:
        """The objective along D from the point: one pass over the rows."""

    def curvature(self, point: Any) -> Curvature:
        """The generalised Hessians at the point."""


class Point(Protocol):
    """W and what is known of the objective there; every array has one column a problem."""

    W: np.ndarray
    columns: np.ndarray
    value: np.ndarray
    gradient: np.ndarray
    n_active: np.ndarray

    def select(self, keep: np.ndarray) -> Point:
        """The same point for the columns where the mask ``keep`` is true."""


class Line(Protocol):
    """f(w + t d) for any t, from predictions already computed: no pass over the rows."""

    def value(self, t: np.ndarray) -> np.ndarray:
        """f at the step lengths t, shape (c,)."""

    def slope(self, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """First and second derivative of f(w + t d) in t, shapes (c,)."""

    def point(self, t: np.ndarray) -> Point:
        """The point at step lengths t; free where t = 1, one pass otherwise."""


class Status(str, Enum):
    """Why Newton's method stopped."""

    CONVERGED = "converged"
    ITERATION_LIMIT = "iteration limit"
    ROUNDING = "line search at rounding level"
    INTERRUPTED = "stopped by a callback"


_REMEDIES = {
    Status.ITERATION_LIMIT: (
        "Newton's method stopped after max_iter={max_iter} iterations at a relative gradient of "
        "{gradient:.1e} (tol={tol:g}). Raise max_iter, scale the features, or lower C."
    ),
    Status.ROUNDING: (
        "Newton's method can make no further progress in {dtype} arithmetic: the relative "
        "gradient is {gradient:.1e} (tol={tol:g}). Raise tol, scale the features, lower C, "
        'or set dtype="float64".'
    ),
}


@dataclass(frozen=True)
class NewtonOptions:
    """Parameters of Algorithm 1, in its notation.

    ``solver`` says how V d = -g is solved: ``"newton"`` (V assembled and factored),
    ``"newton-cg"`` (conjugate gradients) or ``"auto"`` (the cheapest).
    """

    tol: float = 1e-3
    max_iter: int = 50
    solver: str = "auto"
    eta0: float = 0.2
    eta1: float = 0.9
    sigma: float = 1e-4
    rho: float = 0.5
    long_step: float = 0.2
    max_backtracks: int = 30
    max_cg_iter: int = 1000


_DEFAULTS = NewtonOptions()


@dataclass
class NewtonStart:
    """Where Newton's method starts.

    ``value`` is the minimum, shape (c,), where W is believed to have reached it: if f has that
    value at W, it counts as settled there. ``preconditioners`` are Hessians of a similar problem,
    one a column, and ``sample`` can make new ones. ``alike``: all columns' Hessians are similar.
    """

    W: np.ndarray
    value: np.ndarray | None = None
    preconditioners: list[Assembled | None] | None = None
    sample: SampledCurvature | None = None
    alike: bool = False


@dataclass
class NewtonResult:
    """What :func:`minimize` found: W, shape (q, c), and how it got there.

    ``scores`` of all rows, shape (n, c), are there for whoever has asked the objective for them.
    """

    W: np.ndarray
    value: np.ndarray
    gradient_norm: np.ndarray
    relative_gradient: np.ndarray
    n_active: np.ndarray
    status: list[Status]
    history: list[dict[str, Any]] = field(default_factory=list)
    assembled: list[Assembled | None] = field(default_factory=list)
    scores: np.ndarray | None = None

    @property
    def n_iter(self) -> int:
        return len(self.history)

    def record(self, cg_steps=None, step_length=None, seconds: float = 0.0) -> dict[str, Any]:
        """A line of the history; scalars for one problem, arrays of shape (c,) for several."""
        none = np.zeros(len(self.value), dtype=int)
        record = {
            "value": self.value.copy(),
            "gradient_norm": self.gradient_norm.copy(),
            "relative_gradient": self.relative_gradient.copy(),
            "active_rows": self.n_active.copy(),
            "cg_steps": none if cg_steps is None else cg_steps,
            "step_length": none.astype(float) if step_length is None else step_length,
        }
        if len(none) == 1:
            record = {name: array[0].item() for name, array in record.items()}
        return record | {"seconds": seconds}

    def warn_unless_converged(self, options: NewtonOptions, dtype) -> None:
        """Say in one :class:`ConvergenceWarning` what went wrong and what to do about it."""
        for status, text in _REMEDIES.items():
            hit = [c for c, reason in enumerate(self.status) if reason is status]
            if hit:
                worst = float(np.max(self.relative_gradient[hit]))
                message = text.format(
                    max_iter=options.max_iter,
                    tol=options.tol,
                    gradient=worst,
                    dtype=np.dtype(dtype),
                )
                warn_caller(message, ConvergenceWarning)


def minimize(
    objective: Objective,
    start: NewtonStart,
    options: NewtonOptions = _DEFAULTS,
    on_iteration: Callable[[np.ndarray, dict[str, Any]], bool | None] | None = None,
) -> NewtonResult:
    """Minimise the objective's c functions from ``start.W``, shape (q, c).

    ``start`` is what is known before: W, and perhaps the Hessians of a similar problem to
    precondition with. ``on_iteration(W, record)`` is called after each iteration with the iterate
    and its history record; a true return value stops the method there.
    """
    began = perf_counter()
    n_problems = objective.n_problems
    W = np.array(start.W, dtype=np.float64)
    point, reference = objective.begin(W)
    # A zero gradient at zero means that zero is the solution.
    reference = np.where(reference > 0.0, reference, 1.0)
    result = NewtonResult(
        W=W,
        value=np.zeros(n_problems),
        gradient_norm=np.full(n_problems, np.inf),
        relative_gradient=np.full(n_problems, np.inf),
        n_active=np.zeros(n_problems, dtype=int),
        status=[Status.ITERATION_LIMIT] * n_problems,
    )
    solver = DirectionSolver(
        options.solver,
        options.max_cg_iter,
        start.preconditioners or [None] * n_problems,
        np.zeros(n_problems, dtype=int) if start.alike else objective.alike,
        start.sample,
        min(_MOST_SECANTS, options.max_iter - _LEFT_FOR_OTHERS),
    )

    _write(result, point, reference)
    settled = np.zeros(n_problems, dtype=bool)
    if start.value is not None:
        settled = result.value - start.value <= options.tol * np.abs(result.value)
    point = _leave_converged(result, point, settled, options)

    before = result.relative_gradient.copy()
    while len(point.columns) and result.n_iter < options.max_iter:
        columns = point.columns
        norm = column_norms(point.gradient)
        relative = norm / reference[columns]
        forcing = _forcing(relative, before[columns], options)
        before[columns] = relative
        curvature = objective.curvature(point)
        roughly = bool(np.any(relative > _ROUGHLY))
        settling = bool(np.all(relative <= options.tol))
        found = solver.solve(
            curvature, columns, point.gradient, forcing, result.W, roughly, settling
        )
        slope = np.einsum("qc,qc->c", point.gradient, found.D)
        line = objective.line(point, found.D)
        noisy = relative <= 4.0 * objective.precision
        search = replace(options, long_step=_LONG_SECANT) if found.by_secants else options
        t, at_rounding = line_search(line, point.value, slope, search, noisy)
        solver.is_held_up = bool(np.any(t < _SHORT_STEP))
        following = line.point(t)
        # Armijo compared noise: believe the gradient instead.
        stuck = at_rounding & ~(column_norms(following.gradient) < norm)
        # What the step has changed, and what a direction that was not solved further has left.
        change = point.value - following.value + 0.5 * found.left
        settled[columns] = change <= options.tol * np.abs(following.value)
        settled[columns] |= _is_at_minimum(solver, following, reference[columns], options)

        t_all, cg_all = np.zeros(n_problems), np.zeros(n_problems, dtype=int)
        t_all[columns], cg_all[columns] = np.where(stuck, 0.0, t), found.steps
        _leave(result, point, stuck & (relative > options.tol), Status.ROUNDING)
        _leave(result, point, stuck & (relative <= options.tol), Status.CONVERGED)
        point = following.select(~stuck) if stuck.any() else following
        _write(result, point, reference)
        record = result.record(cg_all, t_all, perf_counter() - began)
        result.history.append(record)
        point = _leave_converged(result, point, settled, options)
        if on_iteration is not None and on_iteration(result.W, record):
            _leave(result, point, np.ones(len(point.columns), bool), Status.INTERRUPTED)
            break
    _leave(result, point, result.relative_gradient[point.columns] <= options.tol, Status.CONVERGED)
    result.assembled = solver.assembled
    return result


def _forcing(relative: np.ndarray, before: np.ndarray, options: NewtonOptions) -> np.ndarray:
    """mu for each column, given its relative gradient here and at the last iteration.

    Where a direction could be the last one, it is to be: solved as far as ``tol`` needs, and then
    some, as rows will enter and leave the active set. There is no use in going further.
    """
    forcing = np.minimum(options.eta0, options.eta1 * (relative / before) ** 2)
    is_last = relative <= _LAST * options.tol
    forcing[is_last] = np.minimum(forcing, _AND_SOME * options.tol / relative)[is_last]
    return np.maximum(forcing, options.eta0 * np.minimum(options.tol / relative, 1.0))


def line_search(
    line: Line,
    value: np.ndarray,
    slope: np.ndarray,
    options: NewtonOptions,
    noisy: np.ndarray | bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Step 4 of Algorithm 1, for each column: t with sufficient decrease (Armijo).

    ``noisy`` marks columns whose gradient is known to be rounding. Returns the step lengths and a
    mask of the columns whose decrease is too small to be told from rounding (their t is 1).
    """
    noise = 1e-14 * np.abs(value)
    at_rounding = noisy | (np.abs(slope) <= noise)
    t = np.where(at_rounding, 1.0, _first_step(line, slope, options))
    searching = ~at_rounding
    for _ in range(options.max_backtracks):
        trial = line.value(t)
        searching &= ~(trial <= value + options.sigma * t * slope + noise)
        if not searching.any():
            return t, at_rounding
        t[searching] *= options.rho
    t[searching] = 1.0
    return t, at_rounding | searching


def _first_step(line: Line, slope: np.ndarray, options: NewtonOptions) -> np.ndarray:
    """t0: 1, or the minimiser along the line (by Newton's method) where 1 is far from it."""
    t = np.ones_like(slope)
    slope_at_t, curvature = line.slope(t)
    far = np.abs(slope_at_t) > options.long_step * np.abs(slope)
    for _ in range(10):
        off = far & (np.abs(slope_at_t) > 1e-3 * np.abs(slope)) & (curvature > 0.0)
        if not off.any():
            break
        minimiser = t - slope_at_t / np.where(off, curvature, 1.0)
        t[off] = np.clip(minimiser[off], 0.01, 10.0)
        slope_at_t, curvature = line.slope(t)
    return t


def _write(result: NewtonResult, point: Point, reference: np.ndarray) -> None:
    result.W[:, point.columns] = point.W
    result.value[point.columns] = point.value
    result.n_active[point.columns] = point.n_active
    result.gradient_norm[point.columns] = column_norms(point.gradient)
    result.relative_gradient[point.columns] = (
        result.gradient_norm[point.columns] / reference[point.columns]
    )


def _is_at_minimum(
    solver: DirectionSolver, point: Point, reference: np.ndarray, options: NewtonOptions
) -> np.ndarray:
    """Whether f is next to its minimum by Newton's decrement, and the gradient small enough."""
    is_there = column_norms(point.gradient) <= options.tol * reference
    for index in np.flatnonzero(is_there):
        left = 0.5 * solver.decrement(point.columns[index], point.gradient[:, index])
        is_there[index] = left <= _NEXT_TO * options.tol * abs(point.value[index])
    return is_there


def _leave_converged(result, point: Point, settled: np.ndarray, options: NewtonOptions) -> Point:
    relative = result.relative_gradient[point.columns]
    # f - min f <= |g|^2 / 2, since V is never less than the identity.
    near = 0.5 * column_norms(point.gradient) ** 2 <= 0.1 * options.tol * np.abs(point.value)
    near |= relative <= 1e-3 * options.tol
    done = (relative <= options.tol) & (settled[point.columns] | near)
    return _leave(result, point, done, Status.CONVERGED)


def _leave(result: NewtonResult, point: Point, gone: np.ndarray, status: Status) -> Point:
    """Note why the columns in the mask ``gone`` stop; return the point of the others."""
    if not gone.any():
        return point
    for column in point.columns[gone]:
        result.status[column] = status
    return point.select(~gone)

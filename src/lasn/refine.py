"""Refinement: more landmarks where the certificate says that the model is wrong.

For the dual point of the model itself, a_i = -C_i loss'(y_i, f(x_i)), the gap to the exact problem
(``duality.py``) is a distance::

    P(f) - D(a) = 1/2 |h - f|^2,        h = sum_i a_i k^(x_i, .)

and h - f is orthogonal to the kernels of all landmarks, where f is the best with those. A landmark
more, at row i, adds one direction: k(x_i, .) less its projection on the others, of squared length
R_ii, the i-th diagonal entry of K - K~. Along it P has the slope -r_i, r_i = h(x_i) - f(x_i), and
bends by R_ii + v_i R_ii^2 at least, v_i = C_i loss''. So the *violation* of row i::

    r_i^2 / (2 (R_ii + v_i R_ii^2))        summed over classes

bounds what this landmark alone takes from P. Where several are added, each is chosen as if those
before it were there: r and R are projected. Then::

    1  fit with the landmarks that were asked for
    2  enclose the exact optimum; note a point of the curve; stop if the price is reached
    3  add the rows of the largest violation as landmarks, half as many as there are
    4  fit again from the same function, w = M^T K(L, L_before) beta_before; go to 2

The functions of step 4 contain those of the step before, so P can only fall, and each fit starts
where the last one ended. Landmarks grow by a constant factor, so all fits together cost about three
times the last.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral
from time import perf_counter
from typing import Any

import numpy as np

from lasn.enclosure import Dual, Primal
from lasn.kernels import Kernel
from lasn.model import Model
from lasn.newton import Status
from lasn.problem import Problem
from lasn.progress import Bar
from lasn.threads import serial_products
from lasn.training import Training, train

# Landmarks of a round, as a part of those that there are, and the fewest.
_GROWTH = 0.5
_FEWEST_NEW = 10
# Rows that landmarks are chosen from, for each that is chosen: those of the largest violation.
_CANDIDATES = 4
# Steps that better the dual point of the exact problem, as in ``certify``.
_DUAL_STEPS = 5
# What is left of a kernel's diagonal below this part of it is rounding.
_NOTHING_LEFT = 1e-6


@dataclass
class RefinedTraining(Training):
    """The last round's model, the history and seconds of all, and the curve: one record a round."""

    curve: list[dict[str, Any]]


@serial_products()
def train_refined(
    problem: Problem,
    *,
    kernel: Kernel,
    refine: float,
    score: Callable[[np.ndarray], float],
    memory_limit=None,
    on_stage: Callable[[str], None] = lambda name: None,
    start: Model | None = None,
    landmarks: Any = None,
    **options,
) -> RefinedTraining:
    """Fit, and add landmarks until ``refine`` is reached.

    A whole number means landmarks, a fraction the relative gap to the exact problem. ``score`` is
    a function of the rows' scores, shape (n, c), for the curve. The other arguments are those of
    :func:`lasn.training.train`.
    """
    if not kernel.is_positive_semidefinite:
        raise ValueError(
            f"refine={refine!r} needs a positive semidefinite kernel, and kernel={kernel.name!r} "
            "with these parameters is not: there is no exact problem to come nearer to. Use "
            "refine=None, or another kernel."
        )
    began = perf_counter()
    options |= {"kernel": kernel, "memory_limit": memory_limit, "on_stage": on_stage}
    training = train(problem, start=start, landmarks=landmarks, **options)
    curve: list[dict[str, Any]] = []
    best = training
    while True:
        on_stage("certificate")
        at = perf_counter()
        primal = Primal(problem, training.model)
        upper = float(primal.values().sum())
        if curve and upper >= curve[-1]["upper_bound"]:  # all that is left is rounding
            break
        best = training
        dual = Dual(problem, training.model, primal.z, memory_limit)
        point = _point(dual, upper) | {"training_score": score(primal.z)}
        curve.append(point | {"seconds": perf_counter() - began})
        more = _landmarks_of_round(refine, point)
        if Status.INTERRUPTED in training.newton.status:
            more = 0
        rows: Any = worst_rows(problem, dual, primal.z, more) if more else []
        best.seconds["certificate"] = best.seconds.get("certificate", 0.0) + perf_counter() - at
        if len(rows) == 0:
            break
        again = train(
            problem, start=best.model, landmarks=None, more_landmarks=problem.X[rows], **options
        )
        training = _after(best, again)
    return RefinedTraining(best.model, best.newton, best.seconds, curve)


def _point(dual: Dual, upper: float) -> dict[str, Any]:
    """What a round has reached."""
    landmarks = dual.model.landmarks
    lower = float(np.sum(dual.exact_point(_DUAL_STEPS, Bar(False)).bounds))
    return {
        "n_landmarks": 0 if landmarks is None else landmarks.shape[0],
        "upper_bound": upper,
        "exact_lower_bound": lower,
        "relative_exact_gap": (upper - lower) / max(upper, np.finfo(float).tiny),
        "active_rows": len(dual.rows),
    }


def _landmarks_of_round(refine, point: dict[str, Any]) -> int:
    """How many landmarks to add; 0 if the price is reached."""
    k = point["n_landmarks"]
    if k == 0:  # the linear kernel: its features are exact
        return 0
    more = min(max(_FEWEST_NEW, int(_GROWTH * k)), point["active_rows"])
    if isinstance(refine, Integral):
        return max(0, min(more, int(refine) - k))
    return 0 if point["relative_exact_gap"] <= refine else more


def worst_rows(problem: Problem, dual: Dual, z: np.ndarray, count: int) -> np.ndarray:
    """Positions of at most ``count`` active rows, the largest violation first."""
    model, alpha = dual.model, dual.signs * dual.multipliers
    assert model.mapping is not None
    X = dual.X[:]
    F = model.kernel.against(model.landmarks).times(X, model.mapping.astype(np.float64))
    # A fit that stops at its tolerance leaves a part of h - f to the landmarks that there are.
    r = dual.product(alpha) - z[dual.rows]
    r -= F @ (F.T @ alpha - model.W[:-1]) + (alpha.sum(axis=0) - model.W[-1])
    diagonal = model.kernel.diagonal(X)
    left = diagonal - np.sum(F**2, axis=1)
    _, _, curvature = problem.loss.expand(problem.targets[dual.rows], z[dual.rows])
    v = (problem.C * problem.sample_weight[dual.rows])[:, None] * curvature

    order = np.argsort(-_violations(r, left, v, diagonal), kind="stable")[: _CANDIDATES * count]
    X, F, r, left, v, diagonal = (part[order] for part in (X, F, r, left, v, diagonal))
    # Columns of a Cholesky factor of K - K~ among the candidates: one for each landmark.
    factor = np.zeros((len(order), count))
    chosen: list[int] = []
    while len(chosen) < min(count, len(order)):
        violations = _violations(r, left, v, diagonal)
        i, t = int(np.argmax(violations)), len(chosen)
        if violations[i] <= 0.0:
            break
        residual = model.kernel(X, X[[i]])[:, 0] - F @ F[i] - factor[:, :t] @ factor[i, :t]
        factor[:, t] = residual / np.sqrt(left[i])
        r = r - residual[:, None] * (r[i] / left[i])
        left = left - factor[:, t] ** 2
        left[i] = 0.0
        chosen.append(i)
    return dual.rows[order[chosen]]


def _violations(r, left, v, diagonal) -> np.ndarray:
    """The formula above, for r and v of shape (m, c); 0 where nothing is left of k(x_i, .)."""
    there = left > _NOTHING_LEFT * diagonal
    length = np.where(there, left, 1.0)[:, None]
    return np.where(there, np.sum(r**2 / (2.0 * (length + v * length**2)), axis=1), 0.0)


def _after(before: Training, training: Training) -> Training:
    """A round that goes on where another ended: one history, and the seconds of both."""
    offset = before.newton.history[-1]["seconds"] if before.newton.history else 0.0
    later = [record | {"seconds": record["seconds"] + offset} for record in training.newton.history]
    newton = replace(training.newton, history=[*before.newton.history, *later])
    seconds = dict(before.seconds)
    for stage, took in training.seconds.items():
        seconds[stage] = seconds.get(stage, 0.0) + took
    return replace(training, newton=newton, seconds=seconds)

"""Bounds on the optimum from both sides: a model's objective value, and its dual point's.

The dual point is the model's own, lambda_i = C_i |loss'(y_i, f(x_i))|, times its best multiple. For
the exact problem it is then improved by the projected steps of ``duality.ascend`` over the active
rows, with the Nystroem approximation in the place of the kernel among them.

Everything is computed in float64 from the kernel itself, and every bound gives way by what rounding
may have taken. K_AA is used tile by tile; memory beyond ``memory_limit`` is paid for by computing
tiles again.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lasn.blocks import ChosenRows
from lasn.duality import ascend, best_multiple, dual_point
from lasn.duplicates import row_bytes
from lasn.factors import factorize
from lasn.gram import GROUP_ROWS, Gram
from lasn.kernels import Kernel, resolve_kernel_name
from lasn.memory import working_memory
from lasn.model import Model
from lasn.problem import Problem
from lasn.progress import Bar

_UNIT = float(np.finfo(np.float64).eps)
# Columns of a kernel matrix that are in memory at once, for a slice of rows.
_CHUNK = 4096


class Primal:
    """Scores and objective values of the model, in float64, with what rounding may have changed."""

    def __init__(self, problem: Problem, model: Model):
        self.problem, self.model = problem, model
        beta, self.bias = model.beta.astype(np.float64), model.W[-1]
        self.landmarks = model.landmarks
        if self.landmarks is None:
            self.z = np.asarray(problem.X.astype(np.float64) @ beta) + self.bias
            self.square = np.sum(beta * beta, axis=0)
            size = np.sqrt(np.max(Kernel("linear").diagonal(problem.X)))
            norm = np.sqrt(self.square)
            self.rounding = (problem.X.shape[1] + 8.0) * _UNIT * (size * norm + abs(self.bias))
            self.square_rounding = 16.0 * _UNIT * self.square
            return
        kernel = model.kernel
        self.z = kernel_times(kernel, problem.X, self.landmarks, beta) + self.bias
        among = kernel_times(kernel, self.landmarks, self.landmarks, beta)
        self.square = np.sum(beta * among, axis=0)
        size = np.sum(np.abs(beta), axis=0)
        error = kernel.rounding(problem.X, self.landmarks)
        error += len(beta) * _UNIT * _largest(kernel, problem.X, self.landmarks)
        if model.mapping is not None:  # beta itself is M w, rounded
            products = np.abs(model.mapping).astype(np.float64) @ np.abs(model.W[:-1])
            size = size + np.sum(products, axis=0)
        self.rounding = error * size + 4.0 * _UNIT * abs(self.bias)
        self.square_rounding = error * size**2

    def values(self) -> np.ndarray:
        """Upper bounds on both optima, shape (c,): the larger of the norms |f| and |w| counts."""
        problem, mapped = self.problem, self.model.mapping is not None
        losses, slopes, _ = problem.loss.expand(problem.targets, self.z)
        # A loss's second derivative is at most 2.
        losses = losses + np.abs(slopes) * self.rounding + self.rounding**2
        costs = problem.C * problem.sample_weight
        square = self.square + self.square_rounding
        if mapped:
            square = np.maximum(square, np.sum(self.model.W[:-1] ** 2, axis=0))
        return (0.5 * (square + self.bias**2) + costs @ losses) * (1.0 + 64.0 * _UNIT)


@dataclass(frozen=True)
class DualPoint:
    """Multipliers over the active rows, what they prove, and K^ a: shapes (m, c), (c,), (m, c)."""

    multipliers: np.ndarray
    bounds: np.ndarray
    Ka: np.ndarray

    def or_better(self, other: DualPoint) -> DualPoint:
        better = other.bounds > self.bounds
        return DualPoint(
            np.where(better, other.multipliers, self.multipliers),
            np.where(better, other.bounds, self.bounds),
            np.where(better, other.Ka, self.Ka),
        )


class Dual:
    """The model's dual point, over the active rows: multipliers of shape (m, c)."""

    def __init__(self, problem: Problem, model: Model, z: np.ndarray, memory_limit):
        costs = problem.C * problem.sample_weight
        present = np.flatnonzero(costs > 0.0)
        points = [
            dual_point(problem.loss, y, scores, costs[present])
            for y, scores in zip(problem.targets[present].T, z[present].T, strict=True)
        ]
        if model.mapping is None and model.landmarks is not None:
            points = _of_coefficients(points, problem.X[present], model)
        multipliers = np.column_stack([point[1] for point in points])
        active = np.flatnonzero(multipliers.any(axis=1))
        self.model, self.memory_limit = model, memory_limit
        self.rows = present[active]
        self.X = ChosenRows(problem.X, self.rows)
        self.multipliers = multipliers[active]
        self.terms = [terms.only(active) for terms, _ in points]
        self.signs = np.column_stack([terms.signs for terms in self.terms])

    @property
    def n_problems(self) -> int:
        return len(self.terms)

    def reduced_bounds(self) -> np.ndarray:
        """Lower bounds on the reduced optimum, shape (c,)."""
        model = self.model
        if model.mapping is None or len(self.rows) == 0:
            return np.zeros(self.n_problems)
        alpha = self.signs * self.multipliers
        size = np.sum(np.abs(alpha), axis=0)
        pulled = kernel_times(model.kernel, model.landmarks, self.X, alpha)
        error = model.kernel.rounding(self.X[:], model.landmarks)
        error += len(alpha) * _UNIT * _largest(model.kernel, self.X[:], model.landmarks)
        mapping = model.mapping.astype(np.float64)
        norms = np.linalg.norm(mapping.T @ pulled, axis=0)
        norms += np.linalg.norm(mapping) * np.sqrt(len(mapping)) * error * size
        squares = norms**2 + np.sum(alpha, axis=0) ** 2
        return self._best_multiples(self.multipliers, squares, 64.0 * _UNIT * squares)[0]

    @cached_property
    def rounding(self) -> float:
        """By how much a score of a dual point may be wrong, for each unit of sum |a_i|."""
        if len(self.rows) == 0:
            return 0.0
        kernel = self.model.kernel
        error = kernel.rounding(self.X[:], self.X[:])
        size = _largest(kernel, self.X[:]) + 1.0
        return error + (GROUP_ROWS + len(self.rows) / 64.0) * _UNIT * size

    def exact_point(self, steps: int, bar: Bar) -> DualPoint:
        """The best point for the exact problem among the model's own and some steps from it."""
        zero = np.zeros_like(self.multipliers)
        best = DualPoint(zero, np.zeros(self.n_problems), zero)
        if not self.model.kernel.is_positive_semidefinite:
            return DualPoint(zero, np.full(self.n_problems, -np.inf), zero)
        if len(self.rows) == 0:
            return best
        bar.draw(0.1, "kernel among active rows")
        points = ascend(self.terms, self.multipliers, self.product, self._nystroem_solve())
        for step, (lam, Ka) in zip(range(steps + 1), points, strict=False):
            bar.draw(0.1 + 0.8 * (step + 1) / (steps + 1), f"dual step {step}")
            alpha = self.signs * lam
            rounding = self.rounding * np.sum(np.abs(alpha), axis=0) ** 2
            bounds, t = self._best_multiples(lam, np.sum(alpha * Ka, axis=0), rounding)
            done = np.all(bounds - best.bounds <= 1e-4 * bounds)
            best = best.or_better(DualPoint(t * lam, bounds, t * Ka))
            if done:
                break
        return best

    @cached_property
    def product(self):
        """V -> (K + 1) V over the active rows."""
        if resolve_kernel_name(self.model.kernel.name) == "linear":
            rows = self.X[:].astype(np.float64)
            return lambda V: np.asarray(rows @ (rows.T @ V)) + V.sum(axis=0)
        budget = working_memory(self.memory_limit) // 2
        gram = Gram(self.model.kernel, self.X, np.float64, budget)
        gram.add(np.arange(len(self.rows)))
        return lambda V: gram.product(V) + V.sum(axis=0)

    def _best_multiples(self, lam, squares, rounding) -> tuple[np.ndarray, np.ndarray]:
        """For each problem the largest D(t lambda), less what rounding may have added, and its t.

        Multipliers of zero prove that no optimum is below 0.
        """
        bounds, multiples = np.zeros((2, self.n_problems))
        for c, terms in enumerate(self.terms):
            square = squares[c] + rounding[c]
            t = best_multiple(terms, lam[:, c], square)
            values = terms.value(t * lam[:, c])
            size = float(np.sum(np.abs(values))) + t**2 * square
            if terms.slopes is not None:  # value is the difference of these
                size += float(np.sum(np.abs(terms.slopes) * t * lam[:, c]))
            bound = float(values.sum()) - 0.5 * t**2 * square - 64.0 * _UNIT * size
            if bound > 0.0:
                bounds[c], multiples[c] = bound, t
        return bounds, multiples

    def _nystroem_solve(self):
        """(v, r) -> (K~ + 1 + diag(1 / v))^-1 r over the rows with v > 0, for each column.

        By Woodbury's identity with A = [F, 1]: v r - v A (I + A^T v A)^-1 A^T v r. Features that
        would not fit in memory are done without.
        """
        model = self.model
        F = np.ones((len(self.rows), 1))
        budget = working_memory(self.memory_limit) // 4
        if model.mapping is not None and 8 * model.mapping.shape[1] * len(F) <= budget:
            mapping = model.mapping.astype(np.float64)
            F = np.hstack([kernel_times(model.kernel, self.X, model.landmarks, mapping), F])

        def solve(v, R):
            out = v * R
            for c in range(R.shape[1]):
                factor = factorize(np.eye(F.shape[1]) + (F.T * v[:, c]) @ F)
                inner = factor.solve(F.T @ out[:, c])
                out[:, c] -= v[:, c] * (F @ inner)
            return out

        return solve


def _of_coefficients(points: list, X, model: Model) -> list:
    """The dual point that the coefficients of support vectors are, instead of that of scores.

    a_i = beta_j for the row that landmark j is; equal rows share it in proportion to their costs,
    and what has the wrong sign for its row is dropped: any multipliers are a dual point. Scores
    decide where some landmark is none of the rows.
    """
    found: dict[bytes, int] = {}
    owner = np.array([found.setdefault(one, len(found)) for one in row_bytes(model.landmarks)])
    places = np.array([found.get(one, -1) for one in row_bytes(X.astype(model.landmarks.dtype))])
    known = np.flatnonzero(places >= 0)
    if len(np.unique(places[known])) < len(found):
        return points
    changed = []
    for (terms, multipliers), beta in zip(points, model.beta.T, strict=True):
        lam = np.zeros_like(multipliers)
        for sign in (1.0, -1.0):
            rows = known[terms.signs[known] == sign]
            sums = np.bincount(owner, np.maximum(sign * beta, 0.0), len(found))
            costs = np.bincount(places[rows], terms.costs[rows], len(found))
            lam[rows] = sums[places[rows]] * terms.costs[rows] / costs[places[rows]]
        changed.append((terms, np.minimum(lam, terms.largest)))
    return changed


def kernel_times(kernel: Kernel, X, columns, coef: np.ndarray) -> np.ndarray:
    """K(X, columns) coef in float64, for as many columns at a time as fit in memory."""
    out = np.zeros((X.shape[0], coef.shape[1]))
    for start in range(0, columns.shape[0], _CHUNK):
        part = slice(start, start + _CHUNK)
        out += kernel.against(columns[part], np.float64).times(X, coef[part])
    return out


def _largest(kernel: Kernel, *row_sets) -> float:
    """The largest |k(x, l)|: by Cauchy and Schwarz, on the diagonal."""
    return max(float(np.max(np.abs(kernel.diagonal(rows)))) for rows in row_sets)

"""The regularised objective over row blocks, as Newton sees it.

For each problem c (a class against the rest, a target of a regression), with feature rows
x~_i = [K_i M, 1] (Algorithm 2, the 1 carries the bias), targets y_ic and costs C_i = C s_i::

    f_c(w)      = 1/2 |w|^2 + sum_i C_i loss(y_ic, z_ic),        z_ic = <w, x~_i>
    grad f_c(w) = w + sum_i C_i loss'(y_ic, z_ic) x~_i
    V_c(w)      = I + sum_{i active} C_i loss''(y_ic, z_ic) x~_i x~_i^T

W has shape (q + 1, c), its last row the biases, which are regularised like the rest. F = K M is
not formed for products: z = K (M w) + b and F^T u = M^T (K^T u). Only an assembled V needs rows of
F, and only active ones.

Sums over rows are float64 whatever the type of the features; so are W, predictions and the line
search. M and an assembled V are where the blocks compute (NumPy or torch, see ``arrays.py``); all
that Newton's method sees is NumPy's. Here a *pass* is one reading of every feature row: a point
costs one, a line costs one and brings the gradient at its full step, a step length tried on it
costs none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from lasn.arrays import (
    cast,
    concatenate,
    is_tensor,
    like,
    namespace,
    nonzero,
    times,
    to_numpy,
    wide,
)
from lasn.blocks import Block, BlockSource
from lasn.directions import Assembled
from lasn.factors import factorize, refined_solution
from lasn.inner_products import KeptInnerProducts
from lasn.losses import Loss
from lasn.mapping import TimesMapping

# For a single product the copy must cost less than the rows that it skips.
_WORTH_GATHERING = 0.3
# Operations of a matrix product in the time that one inner product of active rows is copied.
_GATHERING = 60.0
# A single column is looked at in so much of the time that one of several takes.
_LOOKING_AT_ONE = 0.2
# So many inner products a row are factored in their own type, and solutions bettered until this
# part of the right-hand side is left.
_LARGE = 300
_EXACTLY = 1e-5
# From so many on, rows are copied one by one: half of the matrix is enough then.
_MANY_ROWS = 300


@dataclass
class LossPoint:
    """W, shape (q + 1, c), with f and its gradient there; predictions stay with the blocks."""

    objective: RegularizedLoss
    W: np.ndarray
    columns: np.ndarray
    value: np.ndarray
    gradient: np.ndarray
    n_active: np.ndarray
    predictions: list[Any]

    def select(self, keep: np.ndarray) -> LossPoint:
        return replace(
            self,
            W=self.W[:, keep],
            columns=self.columns[keep],
            value=self.value[keep],
            gradient=self.gradient[:, keep],
            n_active=self.n_active[keep],
            predictions=self.objective._columns_of(self.predictions, keep),
        )


class RegularizedLoss:
    """The objective above.

    Parameters
    ----------
    blocks : BlockSource
        The rows of K (or of X itself for the linear kernel).
    mapping : array of shape (k, q) or None
        M, in the place where the blocks compute; None stands for the identity.
    loss : Loss
    targets : array of shape (n, c)
    costs : array of shape (n,) or (n, 1), or (n, c) where columns weigh rows differently
        C_i, not negative.
    alike : integer array of shape (c,), optional
        Columns with the same number have similar Hessians: one problem on different folds, say.
    inner : array of shape (n, n), optional
        F F^T (only its lower triangle is read), where rows are few and problems many: then a Newton
        step of a column with m active rows costs little more than a factorisation of that size.
    """

    def __init__(
        self,
        blocks: BlockSource,
        mapping: Any,
        loss: Loss,
        targets: Any,
        costs: Any,
        alike: np.ndarray | None = None,
        inner: np.ndarray | None = None,
    ):
        self.blocks = blocks
        self.alike = alike
        self.inner = inner
        self.mapping = None if mapping is None else cast(mapping, blocks.dtype)
        self.to_features = None if mapping is None else TimesMapping(self.mapping)
        self.loss = loss
        self.precision = float(np.finfo(blocks.dtype).eps)
        self.n_problems = targets.shape[1]
        self.n_variables = (blocks.n_columns if mapping is None else mapping.shape[1]) + 1
        # Operations to add one row to an assembled V: the row of F, then a symmetric product.
        self.row_cost = float(self.n_variables**2)
        if mapping is not None:
            self.row_cost += 2.0 * mapping.shape[0] * mapping.shape[1]
        self._targets = blocks.split(targets)
        self._costs = blocks.split(costs[:, None] if costs.ndim == 1 else costs)
        self._one_cost = costs.ndim == 1 or costs.shape[1] == 1
        # Rows of F that were needed so far, where several problems share them.
        self._mapped: list[Any] | None = None
        self._kept_inner: KeptInnerProducts | None = None
        if self.shares_mapped_rows:
            self._kept_inner = KeptInnerProducts(blocks.n_rows * blocks.n_columns)
        # Targets and costs of the columns that were worked on last.
        self._chosen: tuple[bytes, list[Any], list[Any]] = (b"", [], [])

    @property
    def shares_mapped_rows(self) -> bool:
        """Whether rows of F are kept that several problems need."""
        return self.mapping is not None and self.n_problems > 1 and self.blocks.has_room_to_map

    def begin(self, W: np.ndarray) -> tuple[LossPoint, np.ndarray]:
        columns = np.arange(self.n_problems)
        shared = (*self._scores(W), self.loss)
        predictions, (*sums, products, total) = self._run(_begin, columns, shared=shared)
        at_zero = np.linalg.norm(self._pull_back(products, total), axis=0)
        return self._point(W, columns, predictions, sums), at_zero

    def line(self, point: LossPoint, D: np.ndarray) -> LossLine:
        changes, sums = self._run(
            _move, point.columns, point.predictions, shared=(*self._scores(D), self.loss)
        )
        full_step = self._point(point.W + D, point.columns, point.predictions, sums)
        return LossLine(self, point, D, changes, full_step)

    def scores(self, W: np.ndarray) -> np.ndarray:
        """<w, x~> for every row, shape (n, c): one pass."""
        scores, _ = self.blocks.run(_score, shared=self._scores(W))
        return to_numpy(concatenate(self.blocks.collect(scores)))

    def curvature(self, point: LossPoint) -> LossCurvature:
        weights, _ = self._run(
            _curvature_weights, point.columns, point.predictions, shared=(self.loss,), n_read=0
        )
        return LossCurvature(self, weights, point.n_active, point.columns)

    def _run(self, task, columns, *states, shared=(), n_read=None):
        """Run a task that sees the targets and costs of the given columns."""
        targets, costs = self._targets, self._costs
        if len(columns) < self.n_problems:
            if self._chosen[0] != columns.tobytes():
                targets = self._columns_of(targets, columns)
                if not self._one_cost:
                    costs = self._columns_of(costs, columns)
                self._chosen = (columns.tobytes(), targets, costs)
            _, targets, costs = self._chosen
        return self.blocks.run(task, targets, costs, *states, shared=shared, n_read=n_read)

    def _columns_of(self, states: list[Any], columns) -> list[Any]:
        """Some columns of what the blocks hold."""
        return self.blocks.run(_select, states, shared=(columns,), n_read=0)[0]

    def _scores(self, W: np.ndarray) -> tuple[Any, np.ndarray]:
        """(M w, b): what rows of K are multiplied with to get scores."""
        coef = W[:-1].astype(self.blocks.dtype, copy=False)
        return coef if self.mapping is None else self.mapping @ like(coef, self.mapping), W[-1]

    def _pull_back(self, products, total) -> np.ndarray:
        """The transpose of ``_scores``: (M^T K^T u, sum u)."""
        if self.mapping is not None:
            products = self.mapping.T @ cast(products, self.mapping.dtype)
        return np.vstack([to_numpy(products), to_numpy(total)])

    def _point(self, W, columns, predictions, sums) -> LossPoint:
        losses, products, total, n_active = sums
        return LossPoint(
            objective=self,
            W=W,
            columns=columns,
            value=0.5 * np.einsum("qc,qc->c", W, W) + to_numpy(losses),
            gradient=W + self._pull_back(products, total),
            n_active=to_numpy(n_active).astype(int),
            predictions=predictions,
        )


@dataclass
class LossLine:
    """f along D: predictions at w + t d are z + t dz."""

    objective: RegularizedLoss
    start: LossPoint
    D: np.ndarray
    changes: list[Any]
    full_step: LossPoint

    def value(self, t: np.ndarray) -> np.ndarray:
        if np.all(t == 1.0):
            return self.full_step.value
        W = self.start.W + t * self.D
        _, (losses,) = self.objective._run(
            _try_step,
            self.start.columns,
            self.start.predictions,
            self.changes,
            shared=(t, self.objective.loss),
            n_read=0,
        )
        return 0.5 * np.einsum("qc,qc->c", W, W) + to_numpy(losses)

    def slope(self, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        D, start = self.D, self.start
        _, (first, second) = self.objective._run(
            _slope_at_step,
            start.columns,
            start.predictions,
            self.changes,
            shared=(t, self.objective.loss),
            n_read=0,
        )
        squares = np.einsum("qc,qc->c", D, D)
        along = np.einsum("qc,qc->c", start.W, D) + t * squares
        return along + to_numpy(first), squares + to_numpy(second)

    def point(self, t: np.ndarray) -> LossPoint:
        predictions, _ = self.objective.blocks.run(
            _step, self.start.predictions, self.changes, shared=(t,), n_read=0
        )
        if np.all(t == 1.0):
            return replace(self.full_step, predictions=predictions)
        columns = self.start.columns
        _, sums = self.objective._run(
            _gradient, columns, predictions, shared=(self.objective.loss,)
        )
        return self.objective._point(self.start.W + t * self.D, columns, predictions, sums)


class LossCurvature:
    """V_c at a point: I + sum_i v_ic x~_i x~_i^T with v_ic = C_i loss''.

    ``weights`` holds v, shape (rows, c), for each block; ``columns`` says which problems those are.
    """

    def __init__(
        self,
        objective: RegularizedLoss,
        weights: list[Any],
        n_active: np.ndarray,
        columns: np.ndarray,
    ):
        self.objective = objective
        self.weights = weights
        self.n_active = n_active
        self.columns = columns
        self.costs = objective.blocks.costs
        self._active: list[_ActiveRows] | None = None

    @property
    def product_cost(self) -> float:
        # Several columns share the reading of the rows.
        n_columns = len(self.n_active)
        n_rows = min(float(self.n_active.sum()), self.objective.blocks.n_rows)
        penalty = max(1.5, self.costs.product / n_columns)
        values = n_rows * self.objective.blocks.n_columns
        if self.objective.mapping is not None:  # M is read as often as the rows
            values += self.objective.mapping.shape[0] * self.objective.mapping.shape[1]
        return penalty * 4.0 * values * n_columns

    def product(self, D: np.ndarray, columns: np.ndarray) -> np.ndarray:
        objective = self.objective
        if self._active is None:
            self._active, _ = objective.blocks.run(_gather_active, self.weights)
        shared = (*objective._scores(D), columns)
        n_read = int(self.n_active.sum())
        _, sums = objective.blocks.run(_hessian_product, self._active, shared=shared, n_read=n_read)
        return D + objective._pull_back(*sums)

    def assembly_cost(self, column: int, base: Assembled | None) -> float:
        n_rows = min(self.n_active[column], self._count_changes(self._contents(column), base))
        return n_rows * self.objective.row_cost + self._looking_cost

    @property
    def _looking_cost(self) -> float:
        """Of finding the active rows of a column."""
        share = 1.0 if self.objective.n_problems > 1 else _LOOKING_AT_ONE
        return self.objective.blocks.n_rows * self.costs.look * share

    def assemble(self, column: int, base: Assembled | None) -> Assembled:
        contents = self._contents(column)
        n_changes = self._count_changes(contents, base)
        if n_changes >= self.n_active[column]:
            return self._assemble(contents, None)
        assert base is not None
        if n_changes <= self.objective.n_variables:
            return self._changed(contents, base)
        return self._assemble(contents, base)

    def mean_assembly_cost(self, columns: np.ndarray) -> float:
        n_active = min(float(self.n_active[columns].sum()), self.objective.blocks.n_rows)
        return n_active * self.objective.row_cost + self._looking_cost

    def assemble_mean(self, columns: np.ndarray) -> Assembled:
        means, _ = self.objective.blocks.run(_mean, self.weights, shared=(columns,), n_read=0)
        return replace(self._assemble(means, None, steers=True), contents=None)

    @property
    def rows_cost(self) -> float:
        m, objective = self.n_active.astype(float), self.objective
        q = objective.n_variables
        factoring = self.costs.factor * m**3 / 3.0
        if objective.inner is not None:
            return float(np.sum(_GATHERING * m**2 + 6.0 * objective.blocks.n_rows * q + factoring))
        n_mapped = float(m.sum())
        if objective.shares_mapped_rows:
            n_mapped = 0.0 if objective._mapped else min(n_mapped, objective.blocks.n_rows)
        return float(n_mapped * (objective.row_cost - q**2) + np.sum(m**2 * q + factoring))

    def solve_by_rows(self, B: np.ndarray) -> np.ndarray:
        """V^-1 b by Woodbury's identity.

        With A the active rows of [F, 1] and v > 0 their weights,
        (I + A^T v A)^-1 b = b - A^T (diag(1 / v) + A A^T)^-1 A b.
        """
        if self.objective.inner is not None:
            return self._solve_by_inner(B, self.objective.inner)
        X = np.empty_like(B)
        mapped = self._mapped_rows()

        def solve(index: int) -> None:
            contents = self._contents(index)
            F, v = self._features_of(contents, mapped)
            S, order = self._inner_products(index, contents, F)
            S = S + 1.0
            S.reshape(-1)[:: len(S) + 1] += cast(1.0 / v[order], S.dtype)
            b = like(B[:, index], F)
            products = to_numpy(times(F, b[:-1]) + b[-1])
            u = np.empty(len(products))
            u[order] = _solution(S, products[order])
            X[:-1, index] = B[:-1, index] - to_numpy(times(F.T, like(u, F)))
            X[-1, index] = B[-1, index] - u.sum()

        self.costs.for_each(B.shape[1], solve)
        return X

    def _inner_products(self, index: int, contents: list[Any], F: Any) -> tuple[Any, Any]:
        """F F^T, of which the lower triangle is enough, and the order that F's rows have in it."""
        kept = self.objective._kept_inner
        if kept is None:
            return _dense(F @ F.T), slice(None)
        return kept.of(self.columns[index], np.flatnonzero(np.concatenate(contents)), F)

    def _solve_by_inner(self, B: np.ndarray, inner: np.ndarray) -> np.ndarray:
        """The same where A A^T is part of a matrix that is there: two passes for all columns."""
        objective = self.objective
        v = concatenate(objective.blocks.collect(self.weights))
        products = objective.scores(B)
        U = np.zeros_like(products)

        def solve(index: int) -> None:
            rows = np.flatnonzero(v[:, index])
            S = _lower_part(inner, rows)
            S += 1.0
            S.reshape(-1)[:: len(rows) + 1] += 1.0 / v[rows, index]
            U[rows, index] = _solution(S, products[rows, index])

        self.costs.for_each(B.shape[1], solve)
        _, sums = objective.blocks.run(_pull, objective.blocks.split(U))
        return B - objective._pull_back(*sums)

    def _mapped_rows(self) -> list[Any]:
        """For each block the rows of F that any column needs, or None.

        Columns have many of them in common, and so have points that follow each other.
        """
        objective = self.objective
        nothing = [None] * len(self.weights)
        if not objective.shares_mapped_rows:
            return nothing
        before = objective._mapped or nothing
        shared = (objective.to_features,)
        objective._mapped, _ = objective.blocks.run(
            _map_active, self.weights, before, shared=shared
        )
        return objective._mapped

    def _features_of(self, contents: list[Any], mapped: list[Any]) -> tuple[Any, Any]:
        """F, dense or CSR of shape (m, q), and v, shape (m,), of all blocks' rows with v != 0."""
        blocks = self.objective.blocks
        parts, _ = blocks.run(_features_of, contents, mapped, shared=(self.objective.to_features,))
        F, v = zip(*blocks.collect(parts), strict=True)
        stack = sp.vstack if sp.issparse(F[0]) else concatenate
        return stack(F), concatenate(v)

    def _assemble(
        self, contents: list[Any], base: Assembled | None, steers: bool = False
    ) -> Assembled:
        """I + sum_i v_i x~_i x~_i^T for v, shape (rows,), in each block.

        ``steers``: it will only precondition, so that the place where the blocks are may be less
        exact.
        """
        objective = self.objective
        before = [None] * len(contents) if base is None else base.contents
        _, (gram, border, corner) = objective.blocks.run(
            _assemble, contents, before, shared=(objective.to_features, steers)
        )
        q = objective.n_variables
        V = gram.new_empty((q, q)) if is_tensor(gram) else np.empty((q, q))
        V[:-1, :-1] = gram
        V[-1, :-1] = V[:-1, -1] = border
        V[-1, -1] = corner
        if base is None:
            V.reshape(-1)[:: q + 1] += 1.0
        else:
            V += base.matrix
        return Assembled(V, contents)

    def _changed(self, contents: list[Any], base: Assembled) -> Assembled:
        """The base with a few rows that entered or left it, in one product for all blocks."""
        blocks = self.objective.blocks
        changes, _ = blocks.run(_difference, contents, base.contents, n_read=0)
        F, v = self._features_of(changes, [None] * len(contents))
        V = base.matrix + 0.0
        for sign in (1.0, -1.0):
            rows = nonzero(sign * v > 0.0)
            if len(rows):
                some = abs(v[rows])
                gram, border = _weighed(F[rows], some, lambda A: A.T @ A, own=True)
                V[:-1, :-1] += sign * wide(gram)
                V[-1, :-1] += sign * wide(border)
                V[:-1, -1] += sign * wide(border)
                V[-1, -1] += sign * some.sum()
        return Assembled(V, contents)

    def _count_changes(self, contents: list[Any], base: Assembled | None) -> float:
        """How many rows differ from those that the base was made from."""
        if base is None or base.contents is None:
            return np.inf
        _, (count,) = self.objective.blocks.run(_count_changes, contents, base.contents, n_read=0)
        return float(count)

    def _contents(self, column: int) -> list[Any]:
        return self.objective._columns_of(self.weights, column)


@dataclass(frozen=True)
class _ActiveRows:
    """The rows of a block that V needs.

    ``weights``, shape (rows, c), is v in the features' type; ``positions`` says which rows of the
    block (None: all of them, weight 0 marks the inactive) and ``kept`` holds their features if that
    paid.
    """

    weights: Any
    positions: Any = None
    kept: Any = None

    def matrix(self, block: Block):
        if self.kept is None:
            return block.matrix(self.positions)
        block.count(self.kept.shape[0])
        return self.kept


@dataclass(frozen=True)
class _MappedRows:
    """Some rows of F = K M of a block: ``places`` says where in F each row is, -1 if nowhere."""

    F: np.ndarray
    places: np.ndarray


# The tasks: plain functions of one block's data, which is NumPy's or torch's.


def _select(block: Block, state, columns):
    return state[:, columns], ()


def _mean(block: Block, weights, columns):
    return weights[:, columns].mean(axis=1), ()


def _score(block: Block, coef, bias):
    return _product(block.matrix(), coef) + bias, ()


def _pull(block: Block, U):
    return None, _transposed_product(block.matrix(), U)


def _step(block: Block, z, dz, t):
    return z + t * dz, ()


def _move(block: Block, y, cost, z, coef, bias, loss):
    """The change of z along (coef, bias), and the objective's sums at the full step."""
    K = block.matrix()
    change = _product(K, coef) + bias
    return change, _sums(K, y, cost, z + change, loss)


def _gradient(block: Block, y, cost, z, loss):
    return None, _sums(block.matrix(), y, cost, z, loss)


def _begin(block: Block, y, cost, coef, bias, loss):
    """Scores of (coef, bias), the objective's sums there, and the gradient's sums at zero."""
    K = block.matrix()
    z = _product(K, coef) + bias
    _, slope, _ = loss.expand(y, 0.0 * y)
    return z, (*_sums(K, y, cost, z, loss), *_transposed_product(K, cost * slope))


def _try_step(block: Block, y, cost, z, dz, t, loss):
    return None, ((cost * loss.value(y, z + t * dz)).sum(axis=0),)


def _sums(K, y, cost, z, loss):
    value, slope, curvature = loss.expand(y, z)
    n_active = ((curvature > 0.0) & (cost > 0.0)).sum(axis=0)
    products, total = _transposed_product(K, cost * slope)
    return (cost * value).sum(axis=0), products, total, n_active


def _product(K, coef):
    return wide(times(K, coef))


def _transposed_product(K, U):
    """K^T U and the column sums of U; rows of zeros in U, the inactive ones, are not read."""
    rows = nonzero(U.any(axis=1))
    total = U.sum(axis=0)
    if len(rows) < _WORTH_GATHERING * len(U):
        K, U = K[rows], U[rows]
    return times(K.T, cast(U, K.dtype)), total


def _slope_at_step(block: Block, y, cost, z, dz, t, loss):
    _, slope, curvature = loss.expand(y, z + t * dz)
    first = cost * slope * dz
    return None, (first.sum(axis=0), (cost * curvature * dz * dz).sum(axis=0))


def _curvature_weights(block: Block, y, cost, z, loss):
    _, _, curvature = loss.expand(y, z)
    return cost * curvature, ()


def _gather_active(block: Block, weights):
    positions = nonzero(weights.any(axis=1))
    weights = cast(weights, block.dtype)
    if len(positions) > block.worth_copying * block.n_rows:
        return _ActiveRows(weights), ()
    kept = block.gather(positions)
    if kept is None and block.is_kept:
        return _ActiveRows(weights), ()
    return _ActiveRows(weights[positions], positions, kept), ()


def _count_changes(block: Block, weights, before):
    return None, ((weights != before).sum(),)


def _hessian_product(block: Block, active: _ActiveRows, coef, bias, columns):
    K = active.matrix(block)
    weights = active.weights
    U = times(K, coef)
    U += like(bias, U)
    if len(columns) < weights.shape[1]:
        U *= weights[:, columns]
        return None, _transposed_product(K, U)
    U *= weights
    return None, (times(K.T, U), U.sum(axis=0))


def _solution(S: Any, b: np.ndarray) -> np.ndarray:
    """S^-1 b, shape (m,), for S of shape (m, m), of which the lower triangle is enough."""
    if is_tensor(S) or len(S) < _LARGE:
        return factorize(wide(S)).solve(b[:, None])[:, 0]
    return refined_solution(S, b, _EXACTLY * float(np.linalg.norm(b)))


def _lower_part(matrix: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The lower triangle of these rows and columns; above it is anything."""
    n = len(rows)
    if n < _MANY_ROWS:
        return matrix[np.ix_(rows, rows)]
    part = np.ones((n, n), dtype=matrix.dtype)
    for place, row in enumerate(rows):
        # "clip", as NumPy would otherwise check places by copying what it takes.
        matrix[row].take(rows[: place + 1], out=part[place, : place + 1], mode="clip")
    return part


def _dense(matrix):
    return matrix.toarray() if sp.issparse(matrix) else matrix


def _map_active(block: Block, weights, mapped: _MappedRows | None, to_features: TimesMapping):
    """The rows of F that are there, and those that any column needs now."""
    if mapped is None:
        empty = np.empty((0, to_features.M.shape[1]), dtype=to_features.M.dtype)
        mapped = _MappedRows(empty, np.full(block.n_rows, -1))
    new = np.flatnonzero(weights.any(axis=1) & (mapped.places < 0))
    if len(new) == 0:
        return mapped, ()
    places = mapped.places.copy()
    places[new] = len(mapped.F) + np.arange(len(new))
    F = np.concatenate([mapped.F, to_features(block.matrix(new), own=True)])
    return _MappedRows(F, places), ()


def _difference(block: Block, weights, before):
    return weights - before, ()


def _features_of(
    block: Block, weights, mapped: _MappedRows | None, to_features: TimesMapping | None
):
    """Rows of F with a weight, and their weights."""
    rows = nonzero(weights != 0.0)
    if mapped is not None:
        return (mapped.F[mapped.places[rows]], weights[rows]), ()
    K = block.matrix(rows)
    return (K if to_features is None else to_features(K, own=True), weights[rows]), ()


def _assemble(block: Block, weights, before, to_features: TimesMapping | None, steers):
    """sum_i v_i x~_i x~_i^T, as F^T v F, F^T v and sum v, for v = weights - before.

    Only rows with v != 0 are read. F^T v F is the difference of two symmetric products, one for
    the rows that entered and one for those that left.
    """
    change = weights if before is None else weights - before
    gram: Any = 0.0
    border: Any = 0.0
    for sign in (1.0, -1.0):
        rows = nonzero(sign * change > 0.0)
        for part in block.parts(rows):
            whole = len(part) == block.n_rows
            K = block.matrix(None if whole else part)
            F = K if to_features is None else to_features(K, own=not whole)
            own = to_features is not None
            part_gram, part_border = _weighed(
                F, abs(change[part]), partial(block.gram, steers=steers), own
            )
            gram, border = gram + sign * part_gram, border + sign * part_border
    q = block.n_columns if to_features is None else to_features.M.shape[1]
    if np.ndim(gram) == 0:
        gram, border = like(np.zeros((q, q)), change), like(np.zeros(q), change)
    return None, (gram, border, change.sum())


def _weighed(F, v, product, own: bool):
    """F^T v F and F^T v for v > 0, shapes (q, q) and (q,); ``product(A)`` is A^T A.

    An F that is ``own`` is nobody else's, and may be changed.
    """
    v = cast(v, F.dtype)
    border = times(F.T, v)
    root = namespace(v).sqrt(v)[:, None]
    if sp.issparse(F):
        F = F.multiply(root).tocsr()
    elif own:
        F *= root
    else:
        F = F * root
    return _dense(product(F)), border

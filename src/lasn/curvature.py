"""The objective's generalised Hessians: V_c at a point, by products or as a matrix.

::

    V_c d = d + sum_{i active} v_ic x~_i <x~_i, d>         v_ic = C_i loss''(y_ic, z_ic)

Products read the active rows of K, as F = K M is not formed for them. An assembled V needs active
rows of F, and is changed by those that entered or left the active set.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from lasn import block_tasks as tasks
from lasn.arrays import cast, concatenate, is_tensor, like, nonzero, times, to_numpy, wide
from lasn.blocks import BlockSource
from lasn.costs import active_rows_that_pay
from lasn.directions import Assembled
from lasn.factors import factorize, refined_solution
from lasn.mapped_rows import MappedRows
from lasn.mapping import TimesMapping
from lasn.threads import for_each_slice, n_threads

if TYPE_CHECKING:
    from lasn.objective import RegularizedLoss

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
# Rows of F that entered or left V are held at once if they are so many times its columns.
_IN_ONE_GO = 6
# Where this share of all rows is active, most of those stay so, and a Hessian of some of them does
# not age: one that is assembled from all and changed on the way costs more. At zero all are active,
# and most will not be.
MOST_ROWS = 0.5


@dataclass(frozen=True)
class _Rows:
    """Rows with a weight v, shape (rows, c), for each block; they lack ``to_features`` to be F."""

    blocks: BlockSource | MappedRows
    weights: list[Any]
    to_features: TimesMapping | None


class LossCurvature:
    """V_c at a point: I + sum_i v_ic x~_i x~_i^T with v_ic = C_i loss''.

    ``find_weights()`` is v, shape (rows, c), for each block, and is called if those are needed;
    ``columns`` says which problems those are.
    """

    def __init__(
        self,
        objective: RegularizedLoss,
        find_weights: Callable[[], list[Any]],
        n_active: np.ndarray,
        columns: np.ndarray,
    ):
        self.objective = objective
        self._find_weights = find_weights
        self.n_active = n_active
        self.columns = columns
        self.costs = objective.blocks.costs
        self._active: list[tasks.ActiveRows] | None = None
        self._shared: _Rows | None = None
        self._is_shared = False

    @cached_property
    def weights(self) -> list[Any]:
        """v, shape (rows, c), for each block."""
        return self._find_weights()

    @property
    def product_cost(self) -> float:
        return self._cost_of_reading(min(float(self.n_active.sum()), self.objective.blocks.n_rows))

    @property
    def pass_cost(self) -> float:
        return self._cost_of_reading(self.objective.blocks.n_rows)

    def _cost_of_reading(self, n_rows: float) -> float:
        """Of a product with so many rows."""
        # Several columns share the reading of the rows.
        n_columns = len(self.n_active)
        penalty = max(1.5, self.costs.product / n_columns)
        values = n_rows * self.objective.blocks.n_columns
        if self.objective.mapping is not None:  # M is read as often as the rows
            values += self.objective.mapping.shape[0] * self.objective.mapping.shape[1]
        return penalty * 4.0 * values * n_columns

    def product(self, D: np.ndarray, columns: np.ndarray) -> np.ndarray:
        objective = self.objective
        if self._active is None:
            self._active, _ = objective.blocks.run(tasks.gather_active, self.weights)
        shared = (*objective._scores(D), columns)
        n_read = int(self.n_active.sum())
        _, sums = objective.blocks.run(
            tasks.hessian_product, self._active, shared=shared, n_read=n_read
        )
        return D + objective._pull_back(*sums)

    @property
    def sharing_cost(self) -> float:
        objective = self.objective
        if objective.mapped is None or objective.mapped.is_there.any():  # few are left to map
            return 0.0
        n_rows = min(float(self.n_active.sum()), objective.blocks.n_rows)
        return n_rows * (objective.row_cost - objective.n_variables**2)

    def share(self) -> None:
        mapped = self.objective.mapped
        if mapped is not None and not self._is_shared:
            mapped.add(self._rows.weights[0].any(axis=1))
        self._is_shared = True

    def assembly_cost(self, column: int, base: Assembled | None) -> float:
        objective = self.objective
        n_rows = self.n_active[column]
        if base is not None and base.contents is not None:
            n_rows = min(n_rows, self._count_changes(self._contents(column), base))
        mapped = objective.mapped is not None
        row_cost = float(objective.n_variables**2) if mapped else objective.row_cost
        return n_rows * row_cost + self._looking_cost

    @property
    def _looking_cost(self) -> float:
        """Of finding the active rows of a column."""
        share = 1.0 if self.objective.n_problems > 1 else _LOOKING_AT_ONE
        return self.objective.blocks.n_rows * self.costs.look * share

    def assemble(self, column: int, base: Assembled | None) -> Assembled:
        self.share()
        contents = self._contents(column)
        n_changes = self._count_changes(contents, base)
        if n_changes >= self.n_active[column]:
            return self._assemble(self._rows, contents, None)
        assert base is not None
        if self.objective.mapped is None and n_changes <= _IN_ONE_GO * self.objective.n_variables:
            return self._changed(contents, base)
        return self._assemble(self._rows, contents, base)

    @property
    def rows_that_tell(self) -> float:
        blocks, n_active = self.objective.blocks, float(self.n_active.sum())
        are_most = MOST_ROWS * blocks.n_rows <= n_active < blocks.n_rows
        if not are_most or is_tensor(self.objective._targets[0]):
            return np.inf
        n_rows = active_rows_that_pay(blocks.n_columns, n_active)
        return n_rows if n_rows < n_active else np.inf

    @property
    def is_one(self) -> bool:
        if len(self.n_active) == 1 or np.ptp(self.n_active) > 0:
            return False
        blocks = self.objective.blocks
        first, _ = blocks.run(tasks.select, self.weights, shared=([0],), n_read=0)
        _, (n_unlike,) = blocks.run(tasks.count_changes, self.weights, first, n_read=0)
        return int(n_unlike) == 0

    def mean_assembly_cost(self, columns: np.ndarray, n_rows: float = np.inf) -> float:
        n_active = min(float(self.n_active[columns].sum()), self.objective.blocks.n_rows, n_rows)
        return n_active * self.objective.row_cost + self._looking_cost

    def assemble_mean(
        self, columns: np.ndarray, steers: bool = True, n_rows: float = np.inf
    ) -> Assembled:
        # One matrix for all columns: block by block, so that all threads have a part in it.
        blocks, to_features = self.objective.blocks, self.objective.to_features
        means, sums = blocks.run(tasks.mean, self.weights, shared=(columns,), n_read=0)
        if np.isfinite(n_rows):
            (total,) = sums
            shared = (n_rows / float(total),)
            means, _ = blocks.run(tasks.some_for_all, means, shared=shared, n_read=0)
        rows = _Rows(blocks, self.weights, to_features)
        return replace(self._assemble(rows, means, None, steers), contents=None)

    @property
    def rows_cost(self) -> float:
        m, objective = self.n_active.astype(float), self.objective
        q = objective.n_variables
        factoring = self.costs.factor * m**3 / 3.0
        if objective.inner is not None:
            return float(np.sum(_GATHERING * m**2 + 6.0 * objective.blocks.n_rows * q + factoring))
        mapping = self.sharing_cost
        if objective.mapped is None:
            mapping = float(m.sum()) * (objective.row_cost - q**2)
        return mapping + float(np.sum(m**2 * q + factoring))

    def solve_by_rows(self, B: np.ndarray) -> np.ndarray:
        """V^-1 b by Woodbury's identity.

        With A the active rows of [F, 1] and v > 0 their weights,
        (I + A^T v A)^-1 b = b - A^T (diag(1 / v) + A A^T)^-1 A b.
        """
        if self.objective.inner is not None:
            return self._solve_by_inner(B, self.objective.inner)
        X = np.empty_like(B)
        self.share()
        if self.objective._kept_inner is not None:
            self.objective._kept_inner.expect(self.columns, self.n_active)

        def solve(index: int) -> None:
            contents = self._contents(index)
            F, v = self._features_of(contents, self._rows.to_features)
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
            return tasks.dense(F @ F.T), slice(None)
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
        _, sums = objective.blocks.run(tasks.pull, objective.blocks.split(U))
        return B - objective._pull_back(*sums)

    @property
    def _rows(self) -> _Rows:
        """The rows that V_c are assembled from, where all columns share them or block by block."""
        objective = self.objective
        if objective.mapped is None:
            return _Rows(objective.blocks, self.weights, objective.to_features)
        if self._shared is None:
            v = np.asfortranarray(np.concatenate(self.weights))  # columns are read one by one
            self._shared = _Rows(objective.mapped, [v], None)
        return self._shared

    def _features_of(
        self, contents: list[Any], to_features: TimesMapping | None
    ) -> tuple[Any, Any]:
        """F, dense or CSR of shape (m, q), and v, shape (m,), of all rows with v != 0."""
        blocks = self._rows.blocks
        parts, _ = blocks.run(tasks.features_of, contents, shared=(to_features,))
        F, v = zip(*blocks.collect(parts), strict=True)
        stack = sp.vstack if sp.issparse(F[0]) else concatenate
        return stack(F), concatenate(v)

    def _assemble(
        self, rows: _Rows, contents: list[Any], base: Assembled | None, steers: bool = False
    ) -> Assembled:
        """I + sum_i v_i x~_i x~_i^T for v, shape (rows,), in each block.

        ``steers``: it will only precondition, so that the place where the blocks are may be less
        exact.
        """
        before = [None] * len(contents) if base is None else base.contents
        _, (gram, border, corner) = rows.blocks.run(
            tasks.assemble, contents, before, shared=(rows.to_features, steers)
        )
        q = self.objective.n_variables
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
        """The base with a few rows that entered or left it, in products for all blocks."""
        changes, _ = self._rows.blocks.run(tasks.difference, contents, base.contents, n_read=0)
        at_once, in_parts = self._rows.to_features, None
        if not is_tensor(changes[0]):  # each thread maps its part; a device has no use for that
            at_once, in_parts = in_parts, at_once
        F, v = self._features_of(changes, at_once)
        parts = [(sign, rows) for sign in (1.0, -1.0) for rows in _parts(nonzero(sign * v > 0.0))]
        grams: list[Any] = [None] * len(parts)

        def multiply(one: slice) -> None:
            _, rows = parts[one.start]
            own = F[rows] if in_parts is None else in_parts(F[rows], own=True)
            grams[one.start] = tasks.weighed(own, abs(v[rows]), lambda A: A.T @ A, own=True)

        for_each_slice(len(parts), 1, multiply)
        V = base.matrix + 0.0
        for (sign, _), (gram, border) in zip(parts, grams, strict=True):
            if sign > 0.0:  # in V's own memory
                V[:-1, :-1] += gram
            else:
                V[:-1, :-1] -= gram
            V[-1, :-1] += sign * wide(border)
            V[:-1, -1] += sign * wide(border)
        V[-1, -1] += v.sum()
        return Assembled(V, contents)

    def _count_changes(self, contents: list[Any], base: Assembled | None) -> float:
        """How many rows differ from those that the base was made from."""
        if base is None or base.contents is None:
            return np.inf
        _, (count,) = self._rows.blocks.run(tasks.count_changes, contents, base.contents, n_read=0)
        return float(count)

    def _contents(self, column: int) -> list[Any]:
        rows = self._rows
        return rows.blocks.run(tasks.select, rows.weights, shared=(column,), n_read=0)[0]


def _parts(rows: Any) -> list[Any]:
    """The rows in as many parts as there are threads, if they are that many; on a device in one."""
    n_parts = 1 if is_tensor(rows) else n_threads()
    size = -(-len(rows) // n_parts)
    return [rows[start : start + size] for start in range(0, len(rows), max(1, size))]


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

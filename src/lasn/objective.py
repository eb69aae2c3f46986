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
from typing import Any

import numpy as np

from lasn import block_tasks as tasks
from lasn.arrays import cast, concatenate, like, to_numpy
from lasn.blocks import BlockSource, Work
from lasn.curvature import LossCurvature
from lasn.inner_products import KeptInnerProducts
from lasn.losses import Loss
from lasn.mapped_rows import MappedRows
from lasn.mapping import TimesMapping


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
        self._one_cost = costs.ndim == 1 or costs.shape[1] == 1
        self._targets = self._split(targets)
        self._costs = self._split(costs[:, None] if costs.ndim == 1 else costs)
        # Rows of F that were needed so far, where several problems share them, and inner products.
        self.mapped: MappedRows | None = None
        self._kept_inner: KeptInnerProducts | None = None
        if self.to_features is not None and self.n_problems > 1 and blocks.has_room_to_map:
            self.mapped = MappedRows(blocks, self.to_features)
            self._kept_inner = KeptInnerProducts(blocks.n_rows * blocks.n_columns)
        # Targets and costs of the columns that were worked on last.
        self._chosen: tuple[bytes, list[Any], list[Any]] = (b"", [], [])

    @property
    def work(self) -> Work:
        """What was read and computed so far."""
        return replace(self.blocks.work)

    def begin(self, W: np.ndarray) -> tuple[LossPoint, np.ndarray]:
        columns = np.arange(self.n_problems)
        shared = (*self._scores(W), self.loss)
        predictions, (*sums, products, total) = self._run(tasks.begin, columns, shared=shared)
        at_zero = np.linalg.norm(self._pull_back(products, total), axis=0)
        return self._point(W, columns, predictions, sums), at_zero

    def line(self, point: LossPoint, D: np.ndarray) -> LossLine:
        changes, (*sums, first, second) = self._run(
            tasks.move,
            point.columns,
            point.predictions,
            shared=(*self._scores(D), self.loss),
            n_read=self.blocks.n_rows,
        )
        full_step = self._point(point.W + D, point.columns, point.predictions, sums)
        return LossLine(self, point, D, changes, full_step, (to_numpy(first), to_numpy(second)))

    def scores(self, W: np.ndarray) -> np.ndarray:
        """<w, x~> for every row, shape (n, c): one pass."""
        scores, _ = self.blocks.run(tasks.score, shared=self._scores(W))
        return to_numpy(concatenate(self.blocks.collect(scores)))

    def curvature_at(self, W: np.ndarray, columns: np.ndarray) -> LossCurvature:
        """V_c at W, shape (q + 1, len(columns)), for those columns: one pass."""
        weights, (n_active,) = self._run(
            tasks.weights_at, columns, shared=(*self._scores(W), self.loss)
        )
        return LossCurvature(self, lambda: weights, to_numpy(n_active).astype(int), columns)

    def curvature(self, point: LossPoint) -> LossCurvature:
        def weights() -> list[Any]:
            states, shared = point.predictions, (self.loss,)
            return self._run(
                tasks.curvature_weights, point.columns, states, shared=shared, n_read=0
            )[0]

        return LossCurvature(self, weights, point.n_active, point.columns)

    def _split(self, rows: Any) -> list[Any]:
        """Hand an array of shape (n, c) to the blocks."""
        parts = self.blocks.split(rows)
        if rows.shape[1] > 1:
            parts, _ = self.blocks.run(tasks.in_columns, parts, n_read=0)
        return parts

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
        return self.blocks.run(tasks.select, states, shared=(columns,), n_read=0)[0]

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
    """f along D: predictions at w + t d are z + t dz.

    ``at_full_step`` are the derivatives of the sum of losses in t, at 1.
    """

    objective: RegularizedLoss
    start: LossPoint
    D: np.ndarray
    changes: list[Any]
    full_step: LossPoint
    at_full_step: tuple[np.ndarray, np.ndarray]

    def value(self, t: np.ndarray) -> np.ndarray:
        if np.all(t == 1.0):
            return self.full_step.value
        W = self.start.W + t * self.D
        _, (losses,) = self.objective._run(
            tasks.try_step,
            self.start.columns,
            self.start.predictions,
            self.changes,
            shared=(t, self.objective.loss),
            n_read=0,
        )
        return 0.5 * np.einsum("qc,qc->c", W, W) + to_numpy(losses)

    def slope(self, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        D, start = self.D, self.start
        if np.all(t == 1.0):
            first, second = self.at_full_step
        else:
            _, (first, second) = self.objective._run(
                tasks.slope_at_step,
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
            tasks.step, self.start.predictions, self.changes, shared=(t,), n_read=0
        )
        if np.all(t == 1.0):
            return replace(self.full_step, predictions=predictions)
        columns = self.start.columns
        _, sums = self.objective._run(
            tasks.gradient,
            columns,
            predictions,
            shared=(self.objective.loss,),
            n_read=self.objective.blocks.n_rows,
        )
        return self.objective._point(self.start.W + t * self.D, columns, predictions, sums)

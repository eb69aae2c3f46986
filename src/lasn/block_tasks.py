"""What the objective does with one block of rows: the tasks that block sources run.

A task is a plain function of a block, of what that block holds and of what all blocks share
(``blocks.py``); it changes none of these. It returns what stays with the block, and sums. With K
the block's rows of the feature matrix (before the map M, F = K M), y and C their targets and costs,
and z = K (M w) + b their scores, the sums are::

    sum_i C_i loss(y_i, z_i)         K^T u, sum_i u_i    for u_i = C_i loss'(y_i, z_i)
    K^T v (K d + b)                  for v_i = C_i loss''(y_i, z_i): a product with V
    F^T v F, F^T v, sum_i v_i        the parts of an assembled V

All is NumPy's or torch's, for one column or several.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from lasn.arrays import (
    by_columns,
    cast,
    concatenate,
    is_tensor,
    like,
    namespace,
    nonzero,
    times,
    transposed_times,
    wide,
)
from lasn.blocks import Block
from lasn.mapping import TimesMapping

# For a single product the copy must cost less than the rows that it skips.
_WORTH_GATHERING = 0.3
# Two products instead of one must cost so much less.
_WORTH_PARTING = 0.9
_GOLDEN_RATIO = 0.5 * (1.0 + 5.0**0.5)


@dataclass(frozen=True)
class ActiveRows:
    """The rows of a block that V needs: so many in front as they are, and active ones behind them.

    ``weights``, shape (rows, c), is v in the features' type; weight 0 marks the inactive among the
    rows in front. ``positions`` says which rows of the block the others are, and ``kept`` holds
    their features if that paid.
    """

    weights: Any
    front: int
    positions: Any
    kept: Any = None

    def parts(self, block: Block) -> Iterator[tuple[Any, Any]]:
        """Features and weights, shapes (rows, k) and (rows, c)."""
        if self.front == block.n_rows:
            yield block.matrix(), self.weights
            return
        if self.front:
            yield block.matrix(slice(self.front)), self.weights[: self.front]
        if self.kept is not None:
            block.count(len(self.positions))
            yield self.kept, self.weights[self.front :]
        elif len(self.positions) or not self.front:
            yield block.matrix(self.positions), self.weights[self.front :]


def in_columns(block: Block, state):
    """The same with each column in one piece, as scores come."""
    return by_columns(state), ()


def select(block: Block, state, columns):
    """Some columns of what the block holds."""
    return state[:, columns], ()


def mean(block: Block, weights, columns):
    """The mean weight of each row over some columns, shape (rows,), and their sum."""
    means = weights[:, columns].mean(axis=1)
    return means, (means.sum(),)


def some_for_all(block: Block, weights, chance):
    """Weights v of some rows, shape (rows,), which stand for all: sums are the same on average.

    A row is kept with a chance of min(1, ``chance`` v_i), and then weighs v_i over that. It is kept
    where a multiple of the golden ratio, less its whole part, is smaller than its chance: that is
    the same in any block and any thread, and in step with no pattern of rows that repeats.
    """
    lots = np.arange(block.rows.start + 1, block.rows.stop + 1) * _GOLDEN_RATIO % 1.0
    chances = np.minimum(chance * weights, 1.0)
    return np.where(lots < chances, weights / np.maximum(chances, lots), 0.0), ()


def score(block: Block, coef, bias):
    """z, shape (rows, c)."""
    return _product(block.matrix(), coef) + bias, ()


def pull(block: Block, U):
    """K^T U and the sums of U's columns."""
    return None, _transposed_product(block.matrix(), U)


def step(block: Block, z, dz, t):
    """Scores after a step of length t along dz."""
    return z + t * dz, ()


def move(block: Block, y, cost, z, coef, bias, loss):
    """The change of z along (coef, bias), and the objective's sums at the full step.

    The last two are the first and second derivative there, along the change.
    """
    K = block.matrix()
    change = _product(K, coef) + bias
    expansion = loss.expand(y, z + change)
    return change, (*_sums_of(K, cost, expansion), *_along(cost, expansion, change))


def gradient(block: Block, y, cost, z, loss):
    """The objective's sums at scores that are known."""
    return None, _sums(block.matrix(), y, cost, z, loss)


def begin(block: Block, y, cost, coef, bias, loss):
    """Scores of (coef, bias), the objective's sums there, and the gradient's sums at zero."""
    K = block.matrix()
    z = _product(K, coef) + bias
    _, slope, _ = loss.expand(y, 0.0 * y)
    return z, (*_sums(K, y, cost, z, loss), *_transposed_product(K, cost * slope))


def try_step(block: Block, y, cost, z, dz, t, loss):
    """The sum of losses after a step; no row of K is read."""
    return None, ((cost * loss.value(y, z + t * dz)).sum(axis=0),)


def _sums(K, y, cost, z, loss):
    return _sums_of(K, cost, loss.expand(y, z))


def _along(cost, expansion, dz):
    """First and second derivative of the sum of losses along dz."""
    _, slope, curvature = expansion
    change = cost * dz
    first = (slope * change).sum(axis=0)
    change *= dz
    change *= curvature
    return first, change.sum(axis=0)


def _sums_of(K, cost, expansion):
    value, slope, curvature = expansion
    n_active = ((curvature > 0.0) & (cost > 0.0)).sum(axis=0)
    products, total = _transposed_product(K, cost * slope)
    return (cost * value).sum(axis=0), products, total, n_active


def _product(K, coef):
    return wide(times(K, coef))


def _transposed_product(K, U):
    """K^T U and the column sums of U; rows of zeros in U, the inactive ones, are not read."""
    total = U.sum(axis=0)
    # With so many values that are not zero, there cannot be so many rows of zeros.
    if is_tensor(U) or np.count_nonzero(U) < _WORTH_GATHERING * U.size:
        rows = nonzero(U.any(axis=1))
        if len(rows) < _WORTH_GATHERING * len(U):
            K, U = K[rows], U[rows]
    return transposed_times(K, cast(U, K.dtype)), total


def slope_at_step(block: Block, y, cost, z, dz, t, loss):
    """First and second derivative of that sum in t."""
    return None, _along(cost, loss.expand(y, z + t * dz), dz)


def curvature_weights(block: Block, y, cost, z, loss):
    """v_i = C_i loss''(y_i, z_i), shape (rows, c)."""
    _, _, curvature = loss.expand(y, z)
    return cost * curvature, ()


def weights_at(block: Block, y, cost, coef, bias, loss):
    """v at the scores of (coef, bias), and how many rows have a weight in each column."""
    _, _, curvature = loss.expand(y, _product(block.matrix(), coef) + bias)
    weights = cost * curvature
    return weights, ((weights > 0.0).sum(axis=0),)


def gather_active(block: Block, weights):
    """The rows of K that have a weight in any column, copied where that pays."""
    positions = nonzero(weights.any(axis=1))
    weights = cast(weights, block.dtype)
    front = _read_in_front(block, positions)
    if 0 < front < block.n_rows:
        positions = positions[positions >= front]
    kept = block.gather(positions) if front < block.n_rows else None
    if front == block.n_rows or (kept is None and block.is_kept):
        return ActiveRows(weights, block.n_rows, None), ()
    weights = concatenate([weights[:front], weights[positions]]) if front else weights[positions]
    return ActiveRows(weights, front, positions, kept), ()


def _read_in_front(block: Block, positions) -> int:
    """How many rows in front to read with the inactive among them, to copy active ones behind only.

    A row that is copied costs as much as 1 / ``worth_copying`` rows that are read.
    """
    if is_tensor(positions) or not block.is_kept:
        return block.n_rows if len(positions) > block.worth_copying * block.n_rows else 0
    behind = np.arange(len(positions))[::-1]
    cost = block.worth_copying * (positions + 1) + behind
    simple = min(len(positions), block.worth_copying * block.n_rows)
    if len(positions) and cost.min() < _WORTH_PARTING * simple:
        return int(positions[cost.argmin()]) + 1
    return 0 if simple == len(positions) else block.n_rows


def count_changes(block: Block, weights, before):
    """How many weights are not what they were."""
    return None, ((weights != before).sum(),)


def hessian_product(block: Block, active: ActiveRows, coef, bias, columns):
    """K^T v (K coef + bias) and the sums of v (K coef + bias)."""
    sums: tuple[Any, Any] | None = None
    for K, weights in active.parts(block):
        U = times(K, coef)
        U += like(bias, U)
        if len(columns) < weights.shape[1]:
            U *= weights[:, columns]
            part = _transposed_product(K, U)
        else:
            U *= weights
            part = transposed_times(K, U), U.sum(axis=0)
        sums = part if sums is None else (sums[0] + part[0], sums[1] + part[1])
    return None, sums


def dense(matrix):
    """The matrix as an array."""
    return matrix.toarray() if sp.issparse(matrix) else matrix


def map_rows(block: Block, wanted, to_features: TimesMapping):
    """The rows of F that are wanted."""
    rows = np.flatnonzero(wanted)
    if len(rows) == 0:
        return np.empty((0, to_features.M.shape[1]), dtype=block.dtype), ()
    return to_features(block.matrix(rows), own=True), ()


def difference(block: Block, weights, before):
    """By how much the weights have changed."""
    return weights - before, ()


def features_of(block: Block, weights, to_features: TimesMapping | None):
    """Rows of F with a weight, and their weights."""
    rows = nonzero(weights != 0.0)
    K = block.matrix(rows)
    return (K if to_features is None else to_features(K, own=True), weights[rows]), ()


def assemble(block: Block, weights, before, to_features: TimesMapping | None, steers: bool):
    """sum_i v_i x~_i x~_i^T, as F^T v F, F^T v and sum v, for v = weights - before.

    Only rows with v != 0 are read. F^T v F is the difference of two symmetric products, one for
    the rows that entered and one for those that left.
    """
    change = weights if before is None else weights - before
    gram: Any = None
    border: Any = None
    for entered in (True, False):
        rows = nonzero(change > 0.0 if entered else change < 0.0)
        for part in block.parts(rows):
            whole = len(part) == block.n_rows
            K = block.matrix(None if whole else part)
            F = K if to_features is None else to_features(K, own=not whole)
            own = to_features is not None or not whole
            part_gram, part_border = weighed(
                F, abs(change[part]), partial(block.gram, steers=steers), own
            )
            if not entered:
                part_gram, part_border = -part_gram, -part_border
            if gram is None:
                gram, border = part_gram, part_border
            else:
                gram += part_gram
                border += part_border
    if gram is None:
        q = block.n_columns if to_features is None else to_features.M.shape[1]
        gram, border = like(np.zeros((q, q)), change), like(np.zeros(q), change)
    return None, (gram, border, change.sum())


def weighed(F, v, product, own: bool):
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
    return dense(product(F)), border

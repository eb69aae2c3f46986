"""The Hessian of a sample of rows, to precondition with, made anew as W moves.

As W nears the minimum, rows come to rest. A Hessian that still has them costs conjugate gradients
several times as many steps. So the features F = K M of the sample's rows are kept, shape (m, q),
and a Hessian at another W is one symmetric product::

    V = I + sum_i v_i x~_i x~_i^T        v_i = C_i loss'' at the scores of W, x~_i = [F_i, 1]
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lasn.blocks import Workspace
from lasn.directions import Assembled, as_preconditioner
from lasn.model import Model
from lasn.problem import Memory, Problem

# Of the memory for features, those of the sample may take this part.
_SHARE = 0.125


class SampledHessian:
    """V over a sample of rows, one for all columns of W.

    Parameters
    ----------
    sample : Problem
        On rows of which most are active at the W to come, weighted like all rows.
    model : Model
        Its landmarks and mapping are those of W.
    memory : Memory
        What is kept here is taken from its budget.
    """

    def __init__(self, sample: Problem, model: Model, memory: Memory):
        own = replace(memory, workspace=Workspace())
        n_columns = model.mapping.shape[1]
        size = sample.n_rows * n_columns * model.dtype.itemsize
        is_kept = size <= _SHARE * memory.budget
        if is_kept:
            memory.budget -= size
            sample = replace(sample, X=model.columns.times(sample.X, model.mapping))
            model = replace(model, landmarks=None, mapping=None)
        self.objective = sample.objective(model, own, once=is_kept)
        self.factoring = self.objective.blocks.costs.factor * (n_columns + 1) ** 3 / 3.0
        self.W: np.ndarray | None = None

    @property
    def cost(self) -> float:
        """What another one costs, in operations of a matrix product."""
        return self.objective.blocks.n_rows * self.objective.row_cost + self.factoring

    def at(self, W: np.ndarray) -> list[Assembled | None]:
        """V at W, shape (q + 1, c), once for each column."""
        self.W = W.copy()
        columns = np.arange(W.shape[1])
        mean = self.objective.curvature_at(W, columns).assemble_mean(columns)
        return [as_preconditioner(mean)] * len(columns)

    def is_at(self, W: np.ndarray) -> bool:
        """Whether the last one was made for this W."""
        return self.W is not None and np.array_equal(self.W, W)

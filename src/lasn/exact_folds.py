"""The exact machine as a candidate of a search: k = n, the end of the curve of landmarks.

It is fitted to all rows first. Without one fold of them it has nearly the same support vectors, so
folds begin with its scores and need few iterations. They are columns of one problem, as in
``cross_validation.py``, and share the kernel values; each has a proof of its own, the duality gap,
that where it began does not matter to where it ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lasn.arrays import device_of, to_numpy
from lasn.cross_validation import Fold, fold_columns, held_out_scores
from lasn.exact import ExactSolver, train_exact
from lasn.kernels import Kernel
from lasn.minimization import manners_of
from lasn.model import Model
from lasn.newton import NewtonOptions
from lasn.problem import Problem, free_memory
from lasn.threads import serial_products

# Kernel values of all pairs of rows pay up to so many rows, where so many columns share them.
_MOST_ROWS = 20_000
_ROWS_A_COLUMN = 200
_BYTES_A_PAIR = 4


def exact_pays(problem: Problem, n_folds: int, memory_limit, device=None) -> bool:
    """Whether the exact machine costs no more than one with many landmarks, and has the memory."""
    n_rows, n_columns = problem.n_rows, problem.n_problems * n_folds
    few = n_rows <= min(_MOST_ROWS, _ROWS_A_COLUMN * n_columns)
    return few and _BYTES_A_PAIR * n_rows**2 <= free_memory(device, memory_limit, 0)


@serial_products()
def exact_folds(
    problem: Problem,
    folds: Sequence[Fold],
    *,
    kernel: Kernel,
    start: Model,
    newton: NewtonOptions,
    dtype,
    memory_limit,
    rng: np.random.RandomState,
) -> tuple[Model, list[np.ndarray]]:
    """The machine of all rows, and the scores that each fold holds out, shape (m, c) a fold.

    ``start`` is a model to begin with, of any kernel. Rows are in any place, targets are NumPy's.
    """
    options = {"kernel": kernel, "dtype": dtype, "memory_limit": memory_limit, "rng": rng}
    whole = train_exact(problem, n_landmarks=None, newton=newton, start=start, **options).model
    targets, weights = fold_columns(problem, folds)
    columns = replace(problem, targets=targets)
    with manners_of(device_of(problem.X)):
        scores = np.tile(to_numpy(whole.scores(problem.X)), len(folds))
        solver = ExactSolver(columns, problem.C * weights, scores, newton, **options)
        solver.solve()
        return whole, held_out_scores(solver.scores_of_all_rows(), folds)

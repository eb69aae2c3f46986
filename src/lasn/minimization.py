"""Algorithm 1 over the rows of a problem, wherever those are, and what it cost.

``minimize_over`` makes the objective (``objective.py``) and hands it to Newton's method
(``newton.py``). What differs from place to place is here: a device's manners, and what to do where
its memory runs out.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from lasn.arrays import float32_products
from lasn.chunked_problem import ChunkedProblem
from lasn.memory import with_less_memory
from lasn.model import Model
from lasn.newton import NewtonOptions, NewtonResult, NewtonStart, minimize
from lasn.objective import RegularizedLoss
from lasn.problem import Memory, Problem
from lasn.subsampled import SubsampledLoss
from lasn.threads import one_thread

AnyLoss = RegularizedLoss | SubsampledLoss
OnIteration = Callable[[np.ndarray, dict[str, Any]], "bool | None"]


def minimize_over(
    problem: Problem | ChunkedProblem,
    model: Model,
    start: NewtonStart,
    options: NewtonOptions,
    memory: Memory,
    *,
    once: bool = False,
    hessians: RegularizedLoss | None = None,
    on_iteration: OnIteration | None = None,
    with_scores: bool = False,
) -> tuple[NewtonResult, AnyLoss]:
    """Algorithm 1 over the problem's rows, and the objective, which holds what was kept of them.

    ``once``: expect that rows are read once. ``hessians`` is the objective over other rows, whose
    Hessians are to be taken (``subsampled.py``). Where a device runs out of memory, it begins again
    with smaller blocks.
    """

    def attempt() -> tuple[NewtonResult, AnyLoss]:
        with manners_of(problem.device):
            whole = problem.objective(model, memory, once)
            objective = whole if hessians is None else SubsampledLoss(whole, hessians)
            result = minimize_with_bill(objective, start, options, on_iteration)
            if with_scores:  # kernel values are there, so it is one reading of them
                result.scores = objective.scores(result.W)
            return result, objective

    return with_less_memory(attempt, memory)


def minimize_with_bill(
    objective: AnyLoss,
    start: NewtonStart,
    options: NewtonOptions,
    on_iteration: OnIteration | None,
) -> NewtonResult:
    """Algorithm 1, whose records say what each iteration cost: passes over rows, bytes moved."""
    if on_iteration is None:
        return minimize(objective, start, options)
    report, seen = on_iteration, objective.work

    def with_bill(W, record):
        nonlocal seen
        now = objective.work
        record["passes"] = (now.rows_read - seen.rows_read) / max(1, objective.blocks.n_rows)
        record["bytes_moved"] = now.bytes_moved - seen.bytes_moved
        seen = now
        return report(W, record)

    return minimize(objective, start, options, with_bill)


@contextmanager
def manners_of(device: Any) -> Iterator[None]:
    """On a torch device, exact products (a setting of the process) from a single thread.

    Nobody will ask for their gradients.
    """
    if device is None:
        yield
        return
    with one_thread(), float32_products(), sys.modules["torch"].no_grad():
        yield

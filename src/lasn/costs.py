"""What solving V d = -g costs, in operations of a matrix product, and what pays accordingly.

Directions are chosen by these costs (``directions.py``), and so is what is prepared for them
(``starts.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lasn.threads import for_each_slice

# How many conjugate gradient steps to expect of several columns, preconditioned by one Hessian of
# some rows.
UNLIKE_SAMPLED_STEPS = 40
# In all iterations of a fit, preconditioned with the Hessian of a sample; gathering the rows that
# they read counts as some.
_STEPS_OF_A_FIT = 40
# What conjugate gradients leave of the error, over a whole fit, about.
_LEFT = 1e-3
# A Hessian for preconditioning wants so many active rows for each column; less than so many are of
# no use.
_ROWS_A_COLUMN, _LEAST_ROWS_A_COLUMN = 4, 1.25


@dataclass(frozen=True)
class Costs:
    """What one operation costs in the place where rows are, in operations of a matrix product.

    Products with one vector wait for memory (``product``), and so do triangular solves (``solve``).
    Factoring (``factor``) is done in float64, on a CPU by one core. ``look`` is what it costs to
    find the active rows of one column, for each row. ``together`` says that columns may be worked
    on at once, a thread each; else they come one after the other, and each has all threads.
    ``at_hand``: all rows are kept, and reading one that is not active costs no more than another.
    """

    product: float = 12.0
    solve: float = 12.0
    factor: float = 6.0
    look: float = 20_000.0
    together: bool = True
    at_hand: bool = False

    def for_each(self, n_columns: int, work: Callable[[int], None]) -> None:
        """Call ``work`` on every column."""
        if self.together:
            for_each_slice(n_columns, 1, lambda part: work(part.start))
        else:
            for column in range(n_columns):
                work(column)


def active_rows_that_pay(k: int, ahead: float) -> int:
    """How many active rows a Hessian should have that preconditions products with those ``ahead``.

    Preconditioned with the Hessian of m random rows, conjugate gradients reduce the error by about
    sqrt(k / m) in each step, which is a product with all active rows ahead; k is the number of
    landmarks. The Hessian itself costs 3 k^2 m operations.
    """

    def cost(m: int) -> float:
        steps = np.log(1.0 / _LEFT) / (0.5 * np.log(m / k))
        return 3.0 * k**2 * m + steps * 4.0 * Costs().product * k * ahead

    m = _ROWS_A_COLUMN * k
    while cost(2 * m) < cost(m):
        m *= 2
    return m


def sample_pays(k: int, n_sampled: float, n_active: float) -> bool:
    """Whether to precondition with the Hessian of some active rows, for a single problem.

    In operations of a matrix product, that is 3 k^2 m for m rows of a sample and, for all n active
    ones, the products of a fit's conjugate gradient steps. Else their own Hessian is assembled and
    factored, and changed on the way by about half of them: 1.5 times 3 k^2 n. A sample of hardly
    more rows than landmarks says nothing of many directions.
    """
    steps = _STEPS_OF_A_FIT * 4.0 * Costs().product * k * n_active
    tells = n_sampled >= _LEAST_ROWS_A_COLUMN * k
    return tells and 3.0 * k**2 * n_sampled + steps < 4.5 * k**2 * n_active


def direct_solves_pay(n_rows: int, n_active: float, k: int, n_problems: int) -> bool:
    """Whether several problems, each with so many active rows, will rather be solved directly.

    Then nothing is preconditioned. In operations of a matrix product, with m active rows of n and
    c problems: by active rows c (m^2 k + factor m^3 / 3), by Hessians c (m k^2 + factor k^3 / 3),
    and 2 n k^2 for the features of all rows, once; against 4 n k c, half as much again for several
    columns, for each expected step.
    """
    if n_problems == 1:
        return False
    factor = Costs().factor / 3.0
    by_rows = n_active**2 * k + factor * n_active**3
    by_hessians = n_active * k**2 + factor * k**3
    direct = n_problems * min(by_rows, by_hessians) + 2.0 * n_rows * k**2
    step = 1.5 * 4.0 * n_rows * k
    return direct < UNLIKE_SAMPLED_STEPS * n_problems * step

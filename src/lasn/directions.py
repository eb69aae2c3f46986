"""Step 3 of Algorithm 1: directions d with V d close to -g.

V_c, one to a column, is known by its products (:class:`Curvature`), or assembled as a matrix and
factored. Which is cheaper is worked out from the costs that the curvature states; an assembled V
that is out of date still serves as the preconditioner.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from lasn.conjugate_gradients import ColumnMap, column_norms, conjugate_gradients
from lasn.costs import UNLIKE_SAMPLED_STEPS, Costs
from lasn.factors import Factor, factorize
from lasn.secants import Secants

# How many conjugate gradient steps to expect before any have been seen: alone, preconditioned,
# preconditioned by one factor for several columns, which are alike or are not, and preconditioned
# by a Hessian of some rows that is about as old as the point (for several columns: ``costs.py``).
_PLAIN_STEPS = 100
_PREPARED_STEPS = 15
_ALIKE_STEPS = 12
_UNLIKE_STEPS = 60
_SAMPLED_STEPS = 8
# No fewer are expected because few were enough, or because secants will do.
_FEWEST_STEPS = 5
# Where rounding has cost a solution by rows so little of the gradient, the others are not checked.
_NEXT_TO_NOTHING = 1e-6
# What rounding has cost a solution by rows may be given back so often, at the same price.
_CORRECTIONS = 2
# What rounding may do to a preconditioner, V, of which the smallest eigenvalue is 1.
_LITTLE_ROUNDING = 0.1
# With a preconditioner, more steps than this only follow rounding errors.
_MOST_PREPARED_STEPS = 100
# A pass over all rows, by which secants tell a direction, may cost so many products.
_WORTH_A_PASS = 2.0


class Directions(NamedTuple):
    """D with V_c d_c close to -g_c, shape (q, c), and what it took, as in ``Solutions``.

    ``by_secants``: no V had a part in it, and ``left`` is a guess.
    """

    D: np.ndarray
    steps: np.ndarray
    left: np.ndarray
    by_secants: bool = False


class Curvature(Protocol):
    """V_c, the generalised Hessians at a point. Costs are in operations of a matrix product."""

    costs: Costs

    @property
    def product_cost(self) -> float:
        """What :meth:`product` costs."""

    def product(self, D: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """V_c d_c for the given columns, shape (q, len(columns)): one pass over active rows."""

    @property
    def pass_cost(self) -> float:
        """What a product would cost that read all rows, active or not."""

    @property
    def sharing_cost(self) -> float:
        """What :meth:`share` costs."""

    def share(self) -> None:
        """Do once what :meth:`assemble` and :meth:`solve_by_rows` need for every column."""

    def assembly_cost(self, column: int, base: Assembled | None) -> float:
        """What :meth:`assemble` would cost after :meth:`share`."""

    def assemble(self, column: int, base: Assembled | None) -> Assembled:
        """V_c as a matrix; from ``base``, by the rows in which the two differ, if it is given."""

    @property
    def is_one(self) -> bool:
        """Whether there are several columns, and V_c is the same for all of them."""

    @property
    def rows_that_tell(self) -> float:
        """How many active rows precondition a single column as well as all do; infinite: all."""

    def mean_assembly_cost(self, columns: np.ndarray, n_rows: float = np.inf) -> float:
        """What :meth:`assemble_mean` costs."""

    def assemble_mean(
        self, columns: np.ndarray, steers: bool = True, n_rows: float = np.inf
    ) -> Assembled:
        """The mean of V_c over the given columns; not exact where it only ``steers``.

        About so many of its active rows stand for all of them, if those are more.
        """

    @property
    def rows_cost(self) -> float:
        """What :meth:`solve_by_rows` costs."""

    def solve_by_rows(self, B: np.ndarray) -> np.ndarray:
        """V_c^-1 b_c through a matrix with one row for each active row."""


class SampledCurvature(Protocol):
    """V_c over a sample of rows, whose features are at hand: for preconditioning at any W."""

    @property
    def cost(self) -> float:
        """What :meth:`at` costs, in operations of a matrix product."""

    def at(self, W: np.ndarray) -> list[Assembled | None]:
        """V_c at W, factored, for each column."""

    def is_at(self, W: np.ndarray) -> bool:
        """Whether the last one was made for this W."""


@dataclass
class Assembled:
    """V_c as a matrix, shape (q, q), in the place where the rows are, and its factor.

    ``contents`` is what it was made from, known to the objective alone. It is None when that was
    another objective: then V_c serves as a preconditioner only.
    """

    matrix: Any
    contents: Any
    factor: Factor | None = None

    def elsewhere(self) -> Assembled:
        """The same as seen by another objective: its factor, for preconditioning."""
        assert self.factor is not None
        return Assembled(None, None, self.factor.rounded())


class DirectionSolver:
    """V d = -g in the way that costs least.

    ========== ================================================================================
    "one"      V assembled and factored once, where it is the same for all columns: at zero, say
    "factor"   V_c assembled, or changed from the last time, and factored, for each column
    "rows"     a matrix of the active rows' inner products, factored: they may be few
    "prepared" conjugate gradients, preconditioned with the last factors; where there are none,
               with one factor for columns that are alike, of their mean Hessian
    "renewed"  conjugate gradients, preconditioned with the Hessian of a sample of rows
    "plain"    conjugate gradients alone
    ========== ================================================================================

    In place of "prepared" and "renewed" conjugate gradients, secants (``secants.py``) may tell up
    to ``max_secants`` directions, where those need not be exact.
    """

    def __init__(
        self,
        solver: str,
        max_cg_iter: int,
        assembled,
        alike: np.ndarray | None = None,
        sample: SampledCurvature | None = None,
        max_secants: int = 0,
    ):
        self.solver, self.sample = solver, sample
        self.secants = Secants(max_secants)
        # Columns with the same number share a preconditioner; None: all of them, like it or not.
        self.alike = np.zeros(len(assembled), dtype=int) if alike is None else alike
        self.max_cg_iter = max_cg_iter
        self.assembled: list[Assembled | None] = list(assembled)
        several = len(self.assembled) > 1
        if sample is not None:
            prepared = UNLIKE_SAMPLED_STEPS if several else _SAMPLED_STEPS
        elif several:
            prepared = _UNLIKE_STEPS if alike is None else _ALIKE_STEPS
        else:
            prepared = _PREPARED_STEPS
        self.expected_steps = {"plain": _PLAIN_STEPS, "prepared": prepared, "renewed": prepared}
        self.is_of_a_part = sample is not None  # what conjugate gradients are preconditioned with
        self.rows_are_exact = True  # until they were not
        self.trusts_rows = False
        self.is_held_up = False  # the last step was short: directions may be mostly rounding

    def solve(
        self,
        curvature,
        columns,
        gradient,
        forcing,
        W,
        roughly: bool = False,
        settling: bool = False,
    ) -> Directions:
        """D with V_c d_c close to -g_c for each column, or a good guess where ``roughly`` will do.

        ``W`` are all columns' iterates, shape (q, c). ``settling``: gradients are small enough, and
        all that is left is to see that f has settled; secants that have led there will do.
        """
        way = self._choose(curvature, columns, W)
        if way not in ("prepared", "renewed") or not (roughly or settling):
            self.secants.forget()
        if way == "one":
            one = factored(curvature.assemble_mean(np.arange(len(columns)), steers=False))
            assert one.factor is not None
            for column in columns:
                self.assembled[column] = one
            return _directly(-one.factor.solve(gradient))
        if way == "factor":
            D = np.empty_like(gradient)

            def factor_and_solve(index: int) -> None:
                column = columns[index]
                assembled = curvature.assemble(index, self.assembled[column])
                self.assembled[column] = assembled = factored(assembled, self.is_held_up)
                assert assembled.factor is not None
                D[:, [index]] = -assembled.factor.solve(gradient[:, [index]])

            curvature.share()
            curvature.costs.for_each(len(columns), factor_and_solve)
            return _directly(D)
        if way == "rows":
            D = self._by_rows(curvature, gradient, forcing)
            if D is not None:
                return _directly(D)
            # Large kernel values: too much was lost to rounding, and will be again.
            self.rows_are_exact = False
            return self.solve(curvature, columns, gradient, forcing, W, roughly, settling)
        with_factors = {}
        most = self.max_cg_iter
        if way != "plain":
            if way == "renewed":
                assert self.sample is not None
                self.assembled = self.sample.at(W)
                self.secants.forget()
            elif not self._known(columns):
                self._prepare(curvature, columns)
            known = [self.assembled[column] for column in columns]
            with_factors["precondition"] = precondition = _preconditioner(known)
            most = min(most, _MOST_PREPARED_STEPS)
            by_secants = roughly and self._pass_pays(curvature)
            by_secants |= settling and bool(self.secants.steps)
            if by_secants and self.secants.lead_on:
                everyone = np.arange(len(columns))
                D, left = self.secants.direction(
                    W[:, columns], gradient, columns, lambda R: precondition(R, everyone)
                )
                self.expected_steps[way] = self.expected_steps["prepared"] = _FEWEST_STEPS
                return Directions(D, np.zeros(len(columns), dtype=int), left, by_secants=True)
        found = conjugate_gradients(curvature.product, -gradient, forcing, most, **with_factors)
        self.expected_steps[way] = max(_FEWEST_STEPS, int(found.steps.max()))
        if way == "renewed":
            self.expected_steps["prepared"] = self.expected_steps[way]
        # Without a preconditioner nothing is known of V^-1 but that it is at most 1: far too much.
        left = found.left if way != "plain" else 0.0 * found.left
        return Directions(found.X, found.steps, left)

    def _pass_pays(self, curvature) -> bool:
        """Whether a pass over all rows costs little more than a product with the active ones."""
        return (
            curvature.costs.at_hand
            and curvature.pass_cost <= _WORTH_A_PASS * curvature.product_cost
        )

    def decrement(self, column: int, gradient: np.ndarray) -> float:
        """<g, V^-1 g> for g of shape (q,), by this column's own last factor; infinite without one.

        A V of a sample of the rows will do, but not one that several columns share.
        """
        last = self.assembled[column]
        if last is None or last.factor is None:
            return np.inf
        is_sampled = self.is_of_a_part and len(self.assembled) == 1
        if last.contents is None and not is_sampled:
            return np.inf
        return float(gradient @ last.factor.solve(gradient[:, None])[:, 0])

    def _by_rows(self, curvature, gradient, forcing) -> np.ndarray | None:
        """D through active rows, corrected by what rounding has left; None if that is too much."""
        everyone = np.arange(gradient.shape[1])
        D = curvature.solve_by_rows(-gradient)
        if self.trusts_rows:
            return D
        for correction in range(1 + _CORRECTIONS):
            residual = curvature.product(D, everyone) + gradient
            error = column_norms(residual) / column_norms(gradient)
            if np.all(error <= forcing):
                self.trusts_rows = correction == 0 and bool(np.all(error <= _NEXT_TO_NOTHING))
                return D
            if correction < _CORRECTIONS:
                D -= curvature.solve_by_rows(residual)
        return None

    def _prepare(self, curvature, columns) -> None:
        """One factor for each group of columns."""
        n_rows = self._rows_to_prepare(curvature)
        self.is_of_a_part = np.isfinite(n_rows)

        def factor(index: int) -> None:
            group = groups[index]
            mean = factored(curvature.assemble_mean(group, n_rows=n_rows))
            for column in columns[group]:
                self.assembled[column] = mean

        groups = self._groups(columns)
        curvature.costs.for_each(len(groups), factor)

    def _rows_to_prepare(self, curvature) -> float:
        """How many active rows a new factor is made of; infinite: all of them."""
        return curvature.rows_that_tell if len(self.assembled) == 1 else np.inf

    def _groups(self, columns) -> list[np.ndarray]:
        """Places among ``columns`` of those that are alike."""
        return [
            np.flatnonzero(self.alike[columns] == one) for one in np.unique(self.alike[columns])
        ]

    def _known(self, columns) -> bool:
        return all(self.assembled[column] is not None for column in columns)

    def _choose(self, curvature, columns, W) -> str:
        if self.solver == "newton-cg":
            return "plain"
        directly = "one" if curvature.is_one else "factor"
        if self.solver == "newton":
            return directly
        n_variables = len(W)
        factoring = curvature.costs.factor * n_variables**3 / 3.0
        if directly == "one":
            direct = curvature.mean_assembly_cost(np.arange(len(columns))) + factoring
        else:
            direct = curvature.sharing_cost + sum(
                curvature.assembly_cost(index, self.assembled[column]) + factoring
                for index, column in enumerate(columns)
            )
        product = curvature.product_cost
        solves = [id(self.assembled[column]) for column in columns]
        penalty = curvature.costs.solve * len(set(solves)) / len(solves)
        solve = max(1.5, penalty) * 2.0 * n_variables**2 * len(columns)
        renewed = np.inf
        if self.sample is not None and not self.sample.is_at(W):
            renewed = self.expected_steps["renewed"] * (product + solve) + self.sample.cost
        rows = curvature.rows_cost if self.rows_are_exact else np.inf
        n_steps = self.expected_steps["prepared"]
        prepared = n_steps * (product + solve)
        if not self._known(columns):
            n_rows = self._rows_to_prepare(curvature)
            if np.isfinite(n_rows):
                prepared = min(n_steps, _SAMPLED_STEPS) * (product + solve)
            if prepared < min(direct, rows):
                for group in self._groups(columns):
                    prepared += curvature.mean_assembly_cost(group, n_rows) + factoring
        costs = {
            directly: direct,
            "rows": rows,
            "prepared": prepared,
            "renewed": renewed,
            "plain": self.expected_steps["plain"] * product,
        }
        return min(costs, key=lambda way: costs[way])


def _directly(D: np.ndarray) -> Directions:
    """What was found without conjugate gradients."""
    none = np.zeros(D.shape[1])
    return Directions(D, none.astype(int), none)


def factored(assembled: Assembled, without_noise: bool = False) -> Assembled:
    """The same with its factor; V >= I, which rounding may hide."""
    least = 1.0 if without_noise else np.inf
    return replace(assembled, factor=factorize(assembled.matrix, least=least))


def as_preconditioner(assembled: Assembled) -> Assembled:
    """Its factor alone, made in its memory, or of a copy in float32 where that tells V from 0.

    V >= I, and rounding changes it by about eps times its largest eigenvalue: by eps tr V at most.
    """
    V = assembled.matrix
    single = np.finfo(np.float32)
    if isinstance(V, np.ndarray) and V.trace() <= _LITTLE_ROUNDING / single.eps:
        V = V.astype(single.dtype)
    return Assembled(None, None, factorize(V, own=True)).elsewhere()


def _preconditioner(assembled: list) -> ColumnMap:
    """Columns that have one factor between them are solved together."""
    owners = np.array([id(one) for one in assembled])

    def precondition(R, columns):
        S = np.empty_like(R)
        for owner in set(owners[columns]):
            group = np.flatnonzero(owners[columns] == owner)
            S[:, group] = assembled[columns[group[0]]].factor.solve(R[:, group])
        return S

    return precondition

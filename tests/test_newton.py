"""Algorithm 1 on objectives that are no SVM."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from lasn.conjugate_gradients import conjugate_gradients
from lasn.costs import Costs, active_rows_that_pay, direct_solves_pay, sample_pays
from lasn.directions import Assembled, DirectionSolver, factored
from lasn.factors import factorize
from lasn.newton import (
    NewtonOptions,
    NewtonStart,
    Status,
    _forcing,
    line_search,
    minimize,
)


@dataclass
class _Point:
    objective: object
    W: np.ndarray
    columns: np.ndarray

    @property
    def value(self):
        return self.objective.f(self.W, self.columns)

    @property
    def gradient(self):
        return self.objective.g(self.W, self.columns)

    @property
    def n_active(self):
        return np.zeros(len(self.columns), dtype=int)

    def select(self, keep):
        return _Point(self.objective, self.W[:, keep], self.columns[keep])


@dataclass
class _Line:
    start: _Point
    D: np.ndarray

    def value(self, t):
        return self.point(t).value

    def slope(self, t):
        point = self.point(t)
        objective = self.start.objective
        curved = np.stack(
            [
                objective.h(w, c) @ d
                for w, c, d in zip(point.W.T, point.columns, self.D.T, strict=True)
            ],
            axis=1,
        )
        return (point.gradient * self.D).sum(axis=0), (curved * self.D).sum(axis=0)

    def point(self, t):
        return _Point(self.start.objective, self.start.W + t * self.D, self.start.columns)


@dataclass
class _Curvature:
    point: _Point
    product_cost: float = 1.0
    rows_cost: float = np.inf
    sharing_cost: float = 0.0
    is_one: bool = False
    rows_that_tell: float = np.inf
    costs = Costs()

    def share(self):
        """Columns have nothing in common."""

    def _matrix(self, index):
        return self.point.objective.h(self.point.W[:, index], self.point.columns[index])

    def product(self, D, columns):
        return np.stack([self._matrix(i) @ d for i, d in zip(columns, D.T, strict=True)], axis=1)

    def assembly_cost(self, column, base):
        return 1.0

    def assemble(self, column, base):
        return Assembled(self.point.objective.place.array(self._matrix(column)), None)

    def mean_assembly_cost(self, columns, n_rows=np.inf):
        return 1.0

    def assemble_mean(self, columns, steers=True, n_rows=np.inf):
        matrices = [self._matrix(index) for index in columns]
        return Assembled(self.point.objective.place.array(np.mean(matrices, axis=0)), None)


class LogCosh:
    """f_c(w) = 1/2 |w|^2 + a_c sum log cosh(B w - s_c): smooth, strongly convex, c problems.

    Its Hessians are in the place.
    """

    n_variables, n_problems, precision, alike = 4, 3, 1e-16, None

    def __init__(self, place, scale=5.0):
        self.place = place
        rng = np.random.RandomState(0)
        self.B = rng.normal(size=(9, 4))
        self.s = scale * rng.normal(size=(9, 3))
        self.a = np.array([1.0, 10.0, 100.0])

    def _inner(self, W, columns):
        return self.B @ W - self.s[:, columns]

    def f(self, W, columns):
        z = self._inner(W, columns)
        soft = np.logaddexp(z, -z) - np.log(2.0)
        return 0.5 * (W * W).sum(axis=0) + self.a[columns] * soft.sum(axis=0)

    def g(self, W, columns):
        return W + self.a[columns] * (self.B.T @ np.tanh(self._inner(W, columns)))

    def h(self, w, column):
        z = self.B @ w - self.s[:, column]
        return np.eye(4) + self.a[column] * (self.B.T * (1.0 - np.tanh(z) ** 2)) @ self.B

    def evaluate(self, W, columns):
        return _Point(self, W, columns)

    def gradient_norm_at_zero(self):
        columns = np.arange(self.n_problems)
        return np.linalg.norm(self.g(np.zeros((4, self.n_problems)), columns), axis=0)

    def begin(self, W):
        return self.evaluate(W, np.arange(self.n_problems)), self.gradient_norm_at_zero()

    def line(self, point, D):
        return _Line(point, D)

    def curvature(self, point):
        return _Curvature(point)


ZERO = NewtonStart(np.zeros((4, 3)))


@pytest.mark.parametrize("solver", ["newton", "newton-cg", "auto"])
def test_minimises_any_objective(place, solver):
    objective = LogCosh(place)
    result = minimize(objective, ZERO, NewtonOptions(tol=1e-10, solver=solver))
    assert result.status == [Status.CONVERGED] * 3
    gradient = objective.g(result.W, np.arange(3))
    assert np.all(np.linalg.norm(gradient, axis=0) <= 1e-10 * objective.gradient_norm_at_zero())


def test_columns_are_independent_problems(place):
    together = minimize(LogCosh(place), ZERO, NewtonOptions(tol=1e-12, solver="newton"))
    for column in range(3):
        alone = LogCosh(place)
        alone.a, alone.s, alone.n_problems = alone.a[[column]], alone.s[:, [column]], 1
        result = minimize(
            alone, NewtonStart(np.zeros((4, 1))), NewtonOptions(tol=1e-12, solver="newton")
        )
        np.testing.assert_allclose(result.W[:, 0], together.W[:, column], atol=1e-12)


def test_converged_columns_take_no_further_part(place):
    result = minimize(LogCosh(place), ZERO, NewtonOptions(tol=1e-12, solver="newton"))
    steps = np.array([record["step_length"] for record in result.history])
    finished = [np.flatnonzero(steps[:, c])[-1] for c in range(3)]
    assert min(finished) < max(finished)
    assert all((steps[last + 1 :, c] == 0).all() for c, last in enumerate(finished))


def test_the_value_never_rises(place):
    result = minimize(LogCosh(place), ZERO, NewtonOptions(tol=1e-10))
    values = np.array([record["value"] for record in result.history])
    assert np.all(np.diff(values, axis=0) <= 1e-12 * np.abs(values[1:]))


def test_iteration_limit_is_kept_and_said(place):
    options = NewtonOptions(tol=1e-12, max_iter=1)
    result = minimize(LogCosh(place), ZERO, options)
    assert result.n_iter == 1
    assert Status.ITERATION_LIMIT in result.status
    with pytest.warns(ConvergenceWarning, match=r"max_iter=1 .*Raise max_iter"):
        result.warn_unless_converged(options, np.float64)


def test_stops_at_rounding_level_and_says_what_to_do(place):
    options = NewtonOptions(tol=1e-300, max_iter=50)
    result = minimize(LogCosh(place), ZERO, options)
    assert Status.ROUNDING in result.status
    assert result.n_iter < 50
    with pytest.warns(ConvergenceWarning, match="float32 arithmetic.*dtype"):
        result.warn_unless_converged(options, np.float32)


def test_a_start_at_the_solution_needs_no_iteration(place):
    solved = minimize(LogCosh(place), ZERO, NewtonOptions(tol=1e-10))
    again = minimize(LogCosh(place), NewtonStart(solved.W, solved.value), NewtonOptions(tol=1e-6))
    assert again.n_iter == 0
    assert again.status == [Status.CONVERGED] * 3


def test_a_start_that_is_not_at_the_promised_value_is_not_believed(place):
    far = NewtonStart(np.full((4, 3), 3.0), value=np.zeros(3))
    result = minimize(LogCosh(place), far, NewtonOptions(tol=0.9))
    assert result.n_iter > 0


def test_newtons_decrement_tells_that_the_minimum_is_reached(place, monkeypatch):
    """A step that changed f by much may have reached it all the same: no other has to show that."""
    lowest = minimize(LogCosh(place, scale=1.0), ZERO, NewtonOptions(tol=1e-12, solver="newton"))
    options = NewtonOptions(tol=1e-2, solver="newton")
    shared = minimize(LogCosh(place, scale=1.0), ZERO, options)
    assemble = _Curvature.assemble
    own = lambda *given: replace(assemble(*given), contents="rows")  # noqa: E731
    monkeypatch.setattr(_Curvature, "assemble", own)
    result = minimize(LogCosh(place, scale=1.0), ZERO, options)
    steps, more = (
        np.array([record["step_length"] > 0.0 for record in one.history]).sum(axis=0)
        for one in (result, shared)
    )
    assert np.all(steps <= more)
    assert steps.sum() < more.sum()
    assert result.status == [Status.CONVERGED] * 3
    np.testing.assert_allclose(result.value, lowest.value, rtol=1e-3)


class SteepAndFlat(LogCosh):
    """1/2 (w_1^2 + 10^6 w_2^2) - 200 w_1 - 10^6 w_2: nearly all of the gradient is along w_2."""

    n_variables, n_problems = 2, 1
    curvatures, b = np.array([1.0, 1e6]), np.array([200.0, 1e6])

    def f(self, W, columns):
        return (0.5 * self.curvatures[:, None] * W**2 - self.b[:, None] * W).sum(axis=0)

    def g(self, W, columns):
        return self.curvatures[:, None] * W - self.b[:, None]

    def h(self, w, column):
        return np.diag(self.curvatures)

    def gradient_norm_at_zero(self):
        return np.array([np.linalg.norm(self.b)])


def test_a_step_of_little_change_is_not_the_last_where_its_direction_was_not_solved(
    place, monkeypatch
):
    """One conjugate gradient step along w_2 lessens the gradient enough, f hardly."""
    objective = SteepAndFlat(place)
    monkeypatch.setattr(DirectionSolver, "_choose", lambda *given: "prepared")
    known = [Assembled(None, None, factorize(place.array(np.eye(2))))]
    start = NewtonStart(np.array([[0.0], [0.995]]), preconditioners=known)
    result = minimize(objective, start, NewtonOptions(tol=1e-3))
    assert result.history[0]["cg_steps"] == 1
    assert result.history[0]["relative_gradient"] <= 1e-3
    lowest = -0.5 * float((objective.b**2 / objective.curvatures).sum())
    assert result.value[0] - lowest <= 1e-3 * abs(lowest)


@pytest.mark.parametrize(
    ("contents", "n_columns", "sample", "is_told"),
    [
        ("rows", 1, None, True),
        ("rows", 2, None, True),
        (None, 1, object(), True),
        (None, 2, object(), False),  # a sample's is one for all columns
        (None, 1, None, False),  # of another problem
    ],
)
def test_a_decrement_is_by_a_factor_of_the_columns_own(contents, n_columns, sample, is_told):
    V, g = np.diag([1.0, 4.0]), np.array([2.0, 2.0])
    last = factored(Assembled(V, contents))
    solver = DirectionSolver("auto", 10, [last] * n_columns, sample=sample)
    assert solver.decrement(0, g) == (pytest.approx(5.0) if is_told else np.inf)
    solver.assembled[0] = None
    assert solver.decrement(0, g) == np.inf


@pytest.mark.parametrize(("relative", "expected"), [(0.1, 0.2), (0.005, 0.05), (0.0025, 0.1)])
def test_a_direction_that_could_be_the_last_is_solved_as_far_as_that_takes(relative, expected):
    options = NewtonOptions(tol=1e-3)
    given = np.array([relative])
    assert _forcing(given, given, options) == pytest.approx(expected)


def test_a_callback_can_stop_it(place):
    seen = []
    result = minimize(
        LogCosh(place),
        ZERO,
        NewtonOptions(tol=1e-12),
        lambda W, record: seen.append(record) or True,
    )
    assert len(seen) == result.n_iter == 1
    assert Status.INTERRUPTED in result.status


def test_line_search_finds_sufficient_decrease(place):
    objective = LogCosh(place)
    point = objective.evaluate(np.zeros((4, 3)), np.arange(3))
    D = -100.0 * point.gradient  # far too long
    slope = (point.gradient * D).sum(axis=0)
    options = NewtonOptions()
    t, at_rounding = line_search(objective.line(point, D), point.value, slope, options)
    assert not at_rounding.any()
    assert np.all(objective.line(point, D).value(t) <= point.value + options.sigma * t * slope)


@dataclass
class _Parabolas:
    """(t - least)^2 / 2 for each column."""

    least: np.ndarray

    def value(self, t):
        return 0.5 * (t - self.least) ** 2

    def slope(self, t):
        return t - self.least, np.ones_like(t)


def test_a_full_step_is_taken_where_little_of_the_slope_is_left():
    line = _Parabolas(np.array([0.8, 0.95, 1.0, 1.05, 1.5]))
    t, _ = line_search(line, 0.5 * line.least**2, -line.least, NewtonOptions())
    np.testing.assert_allclose(t, [0.8, 1.0, 1.0, 1.0, 1.5])


def test_line_search_gives_up_on_a_direction_that_ascends(place):
    objective = LogCosh(place)
    point = objective.evaluate(np.zeros((4, 3)), np.arange(3))
    D = point.gradient
    promised = -(np.linalg.norm(D, axis=0) ** 2)
    t, at_rounding = line_search(objective.line(point, D), point.value, promised, NewtonOptions())
    assert at_rounding.all()
    np.testing.assert_array_equal(t, 1.0)


def test_a_preconditioner_has_more_rows_where_more_work_is_ahead():
    sizes = [active_rows_that_pay(500, ahead) for ahead in (0.0, 10**4, 10**5, 10**6, 10**8)]
    assert sizes[0] == sizes[1] == 4 * 500  # little to save
    assert sizes == sorted(sizes)
    assert 10_000 <= sizes[3] <= 40_000  # of 10^6: more would save a step at most
    assert active_rows_that_pay(4000, 10**6) < 10 * 4000  # dear


def test_many_problems_of_few_active_rows_want_no_preconditioner():
    assert direct_solves_pay(15_000, n_active=650, k=1500, n_problems=26)
    assert not direct_solves_pay(15_000, n_active=3000, k=1500, n_problems=26)  # large factors
    assert direct_solves_pay(15_000, n_active=3000, k=200, n_problems=26)  # small Hessians
    assert not direct_solves_pay(60_000, n_active=5000, k=2000, n_problems=10)
    assert not direct_solves_pay(15_000, n_active=650, k=1500, n_problems=1)


def test_a_sample_preconditions_where_the_hessian_of_all_rows_is_dearer():
    assert sample_pays(1000, n_sampled=4000, n_active=17_000)
    assert not sample_pays(1000, n_sampled=4000, n_active=3700)  # hardly more rows than that
    assert not sample_pays(200, n_sampled=3200, n_active=17_000)  # few landmarks: it is cheap
    assert sample_pays(2000, n_sampled=3200, n_active=6400)
    assert not sample_pays(2000, n_sampled=2100, n_active=6400)  # hardly more rows than landmarks


def _systems(condition):
    rng = np.random.RandomState(1)
    basis, _ = np.linalg.qr(rng.normal(size=(30, 30)))
    V = (basis * np.geomspace(1.0, condition, 30)) @ basis.T
    return V, rng.normal(size=(30, 4))


def test_conjugate_gradients_reach_the_forcing_term_of_each_column():
    V, B = _systems(1e3)
    forcing = np.array([0.5, 1e-2, 1e-6, 1e-10])
    X, steps, _ = conjugate_gradients(lambda P, columns: V @ P, B, forcing, 200)
    residual = np.linalg.norm(V @ X - B, axis=0) / np.linalg.norm(B, axis=0)
    assert np.all(residual <= forcing * (1 + 1e-6))
    assert list(steps) == sorted(steps)
    assert steps[0] < steps[-1]


def test_an_exact_preconditioner_needs_one_step():
    V, B = _systems(1e6)
    _, steps, _ = conjugate_gradients(
        lambda P, columns: V @ P, B, np.full(4, 1e-6), 200, lambda R, columns: np.linalg.solve(V, R)
    )
    assert steps.max() <= 2


def test_columns_that_are_done_take_no_part_in_products():
    V, B = _systems(1e3)
    seen = []

    def product(P, columns):
        seen.append(len(columns))
        return V @ P

    _, steps, _ = conjugate_gradients(product, B, np.array([0.9, 0.5, 1e-3, 1e-9]), 200)
    assert sum(seen) == steps.sum()
    assert seen[0] == 4
    assert seen[-1] == 1


class _RoundedRows:
    """A curvature whose way by rows is the cheapest, and leaves this part of what it is given."""

    costs = Costs()
    product_cost, rows_cost, sharing_cost, is_one = 1e6, 1.0, 0.0, False
    rows_that_tell = np.inf

    def __init__(self, V, left):
        self.V, self.left, self.solved = V, left, 0

    def product(self, D, columns):
        return self.V @ D

    def assembly_cost(self, column, base):
        return 1e9  # dear

    def mean_assembly_cost(self, columns, n_rows=np.inf):
        return 1e9  # dear

    def solve_by_rows(self, B):
        self.solved += 1
        return (1.0 - self.left) * np.linalg.solve(self.V, B)


@pytest.mark.parametrize(("left", "solved"), [(0.0, 1), (0.05, 1), (0.3, 2), (0.45, 3)])
def test_what_rounding_leaves_of_a_solution_by_rows_is_corrected(left, solved):
    V, G = _systems(1e3)
    curvature = _RoundedRows(V, left)
    solver = DirectionSolver("auto", 100, [None] * 4)
    forcing = np.full(4, 0.1)
    D, steps, *_ = solver.solve(curvature, np.arange(4), G, forcing, np.zeros((30, 4)))
    assert curvature.solved == solved
    assert not steps.any()
    assert np.all(np.linalg.norm(V @ D + G, axis=0) <= 0.1 * np.linalg.norm(G, axis=0))


def test_solutions_by_rows_that_cannot_be_corrected_are_given_up():
    V, G = _systems(1e3)
    curvature = _RoundedRows(V, 1.5)
    solver = DirectionSolver("auto", 200, [None] * 4)
    for solved in (3, 3):  # not tried a second time
        D, steps, *_ = solver.solve(curvature, np.arange(4), G, np.full(4, 0.1), np.zeros((30, 4)))
        assert curvature.solved == solved
        assert steps.all()
        assert np.all(np.linalg.norm(V @ D + G, axis=0) <= 0.11 * np.linalg.norm(G, axis=0))


@pytest.mark.parametrize("max_iter", [0, 1, 5, 30])
def test_conjugate_gradients_say_what_is_left_of_the_decrement(max_iter):
    """<b, V^-1 b> = <b, x> + <r, V^-1 r>, the last by the preconditioner."""
    V, B = _systems(1e3)
    inverse = np.linalg.inv(V)
    nearly = np.linalg.inv(V + 0.1 * np.diag(np.diag(V)))
    X, _, left = conjugate_gradients(
        lambda P, columns: V @ P, B, np.full(4, 1e-3), max_iter, lambda R, columns: nearly @ R
    )
    R = B - V @ X
    np.testing.assert_allclose(left, np.einsum("qc,qr,rc->c", R, nearly, R), rtol=1e-6, atol=1e-12)
    whole = np.einsum("qc,qr,rc->c", B, inverse, B)
    np.testing.assert_allclose(
        np.einsum("qc,qc->c", B, X) + np.einsum("qc,qr,rc->c", R, inverse, R), whole, rtol=1e-6
    )


def test_conjugate_gradients_stop_at_their_limit():
    V, B = _systems(1e12)
    _, steps, _ = conjugate_gradients(lambda P, columns: V @ P, B, np.full(4, 1e-15), 7)
    assert steps.max() == 7


def test_factorize_repairs_what_rounding_took(place):
    V = np.eye(5)
    V[-1, -1] = -1e-13
    factor = factorize(place.array(V))
    assert 0.0 < factor.shift < 1e-10
    assert np.isfinite(factor.solve(np.ones((5, 1)))).all()
    with pytest.raises(np.linalg.LinAlgError):
        factorize(place.array(-np.eye(3)))

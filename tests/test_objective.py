"""The objective over row blocks: derivatives, sums, and what they cost in rows read."""

from functools import partial
from importlib.util import find_spec

import numpy as np
import pytest
import scipy.sparse as sp
from places import Place
from sklearn.datasets import make_blobs

from lasn.arrays import concatenate, to_numpy
from lasn.curvature import LossCurvature
from lasn.directions import DirectionSolver
from lasn.features import mapping_matrix
from lasn.kernels import Kernel
from lasn.losses import LogLoss, SquaredEpsilonInsensitive, SquaredHinge
from lasn.newton import NewtonStart, minimize
from lasn.objective import RegularizedLoss

LOSSES = [SquaredHinge(), LogLoss(), SquaredEpsilonInsensitive(0.3)]
N, C = 120, 3


@pytest.fixture
def make_objective(place):
    """The objective of 120 rows and 3 problems, in the place."""
    return partial(objective_in, place)


def objective_in(
    place,
    loss=LOSSES[0],
    *,
    budget=1 << 30,
    linear=False,
    sparse=False,
    C_scale=1.0,
    columns_of_targets=slice(None),
):
    rng = np.random.RandomState(0)
    X = rng.normal(size=(N, 4))
    targets = np.where(0.1 * rng.normal(size=(N, C)) + X[:, :1] > 0, 1.0, -1.0)
    costs = C_scale * rng.uniform(0.5, 2.0, size=N)
    columns = mapping = None
    if not linear:
        kernel, landmarks = Kernel("rbf", gamma=0.2), place.rows(X[:10])
        columns = kernel.against(landmarks)
        mapping = mapping_matrix(kernel(landmarks, landmarks))
    rows = sp.csr_matrix(X) if sparse else X
    blocks = place.blocks(place.rows(rows), columns, np.float64, budget, C)
    targets, costs = place.array(targets[:, columns_of_targets]), place.array(costs)
    return RegularizedLoss(blocks, mapping, loss, targets, costs)


def small_blocks(monkeypatch):
    monkeypatch.setattr("lasn.blocks._BLOCK_BYTES", 17 * 10 * 8)
    if find_spec("torch"):
        monkeypatch.setattr("lasn.torch_blocks.rows_at_a_time", lambda *_: 17)


ALL = np.arange(C)


def random_point(objective, seed=1):
    W = 0.3 * np.random.RandomState(seed).normal(size=(objective.n_variables, C))
    return objective.begin(W)[0]


def solve(objective):
    return minimize(objective, NewtonStart(np.zeros((objective.n_variables, C)))).W


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("linear", [False, True])
def test_gradient_by_finite_differences(make_objective, loss, linear):
    objective = make_objective(loss, linear=linear)
    point = random_point(objective)
    step = 1e-6
    for direction in np.eye(objective.n_variables):
        move = step * np.tile(direction[:, None], C)
        ahead = objective.begin(point.W + move)[0].value
        behind = objective.begin(point.W - move)[0].value
        np.testing.assert_allclose(
            (ahead - behind) / (2 * step), direction @ point.gradient, rtol=1e-5, atol=1e-5
        )


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("linear", [False, True])
def test_hessian_product_by_finite_differences(make_objective, loss, linear):
    objective = make_objective(loss, linear=linear)
    point = random_point(objective)
    D = np.random.RandomState(2).normal(size=point.W.shape)
    step = 1e-7
    ahead = objective.begin(point.W + step * D)[0].gradient
    behind = objective.begin(point.W - step * D)[0].gradient
    product = objective.curvature(point).product(D, np.arange(D.shape[1]))
    np.testing.assert_allclose((ahead - behind) / (2 * step), product, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_assembled_hessian_is_the_product(make_objective, loss, sparse):
    objective = make_objective(loss, linear=sparse, sparse=sparse)
    curvature = objective.curvature(random_point(objective))
    D = np.random.RandomState(2).normal(size=(objective.n_variables, C))
    product = curvature.product(D, np.arange(D.shape[1]))
    for column in range(C):
        V = to_numpy(curvature.assemble(column, None).matrix)
        np.testing.assert_allclose(V, V.T, atol=1e-10)
        np.testing.assert_allclose(V @ D[:, column], product[:, column], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("sparse", [False, True])
def test_solving_by_rows_is_solving_with_the_hessian(make_objective, monkeypatch, loss, sparse):
    small_blocks(monkeypatch)
    objective = make_objective(loss, linear=sparse, sparse=sparse)
    curvature = objective.curvature(random_point(objective))
    B = np.random.RandomState(2).normal(size=(objective.n_variables, C))
    X = curvature.solve_by_rows(B)
    for column in ALL:
        V = to_numpy(curvature.assemble(column, None).matrix)
        np.testing.assert_allclose(V @ X[:, column], B[:, column], atol=1e-10)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_known_inner_products_give_the_same_solution_by_rows(monkeypatch, loss):
    small_blocks(monkeypatch)
    objective = objective_in(Place("numpy", None), loss)
    curvature = objective.curvature(random_point(objective))
    B = np.random.RandomState(2).normal(size=(objective.n_variables, C))
    expected = curvature.solve_by_rows(B)
    F = np.vstack([block.matrix() for block in objective.blocks.blocks]) @ objective.mapping
    objective.inner = np.tril(F @ F.T)
    np.testing.assert_allclose(curvature.solve_by_rows(B), expected, atol=1e-10)


def test_a_product_costs_the_reading_of_the_mapping_too():
    objective = objective_in(Place("numpy", None), LOSSES[0])
    curvature = objective.curvature(random_point(objective))
    k, q = objective.mapping.shape
    whole, objective.mapping = curvature.product_cost, None
    n_rows = min(curvature.n_active.sum(), objective.blocks.n_rows)
    assert whole / curvature.product_cost == pytest.approx(1.0 + k * q / (n_rows * k))


def test_few_active_rows_are_solved_by_rows(place):
    """With more landmarks than active rows, no (q, q) matrix is made."""
    X, y = make_blobs(400, centers=2, cluster_std=0.5, random_state=0)
    kernel = Kernel("rbf", gamma=0.1)
    X = place.rows(X)
    mapping = mapping_matrix(kernel(X, X))
    blocks = place.blocks(X, kernel.against(X), np.float64, 1 << 30)
    targets, costs = np.where(y > 0, 1.0, -1.0)[:, None], np.ones(400)
    objective = RegularizedLoss(
        blocks, mapping, LOSSES[0], place.array(targets), place.array(costs)
    )
    coarse = minimize(objective, NewtonStart(np.zeros((objective.n_variables, 1))))

    point, _ = objective.begin(2.0 * coarse.W)
    assert 0 < point.n_active[0] < mapping.shape[1] // 2
    solver = DirectionSolver("auto", 100, [None])
    curvature = objective.curvature(point)
    D, steps, *_ = solver.solve(curvature, point.columns, point.gradient, 1e-8, point.W)
    assert steps[0] == 0
    assert solver.assembled == [None]
    residual = objective.curvature(point).product(D, point.columns) + point.gradient
    np.testing.assert_allclose(residual, 0.0, atol=1e-8)


def test_a_hessian_that_all_columns_have_is_factored_once(make_objective, monkeypatch):
    """At zero, where all rows are active."""
    objective = make_objective()
    point, _ = objective.begin(np.zeros((objective.n_variables, C)))
    curvature = objective.curvature(point)
    assert curvature.is_one
    solver = DirectionSolver("auto", 100, [None] * C)
    D, steps, *_ = solver.solve(curvature, point.columns, point.gradient, np.full(C, 1e-8), point.W)
    assert not steps.any()
    assert all(one is solver.assembled[0] for one in solver.assembled)
    residual = curvature.product(D, point.columns) + point.gradient
    np.testing.assert_allclose(residual, 0.0, atol=1e-6)

    elsewhere = objective.curvature(objective.begin(solve(objective))[0])
    assert not elsewhere.is_one
    alone = make_objective(columns_of_targets=slice(1))
    point, _ = alone.begin(np.zeros((alone.n_variables, 1)))
    assert not alone.curvature(point).is_one


def test_rows_that_several_problems_need_are_mapped_once(make_objective):
    objective, roomless = make_objective(), make_objective(budget=1 << 10)
    solution = solve(roomless)
    needed = np.zeros(N, dtype=bool)
    for factor in (0.9, 1.1, 1.1):
        point, _ = objective.begin(factor * solution)
        by_rows = objective.curvature(point).solve_by_rows(-point.gradient)
        plain = roomless.curvature(roomless.begin(factor * solution)[0])
        np.testing.assert_allclose(by_rows, plain.solve_by_rows(-point.gradient), atol=1e-9)
        weights = concatenate(objective.blocks.collect(objective.curvature(point).weights))
        needed |= to_numpy(weights).any(axis=1)
        if objective.mapped is not None:
            np.testing.assert_array_equal(objective.mapped.is_there, needed)
    assert roomless.mapped is None


@pytest.mark.parametrize("shares", [True, False])
@pytest.mark.parametrize("few", [True, False])
def test_hessian_changed_by_the_rows_that_differ_is_the_hessian(
    make_objective, monkeypatch, few, shares
):
    """A few rows are gathered for one product, many are multiplied block by block.

    Where problems share rows of F, all are gathered from those.
    """
    small_blocks(monkeypatch)
    objective = make_objective()
    if not shares:
        objective.mapped = None
    solution = solve(objective)
    before = objective.curvature(objective.begin(solution)[0]).assemble(1, None)
    near = objective.begin(0.9 * solution)[0]
    curvature = objective.curvature(near)
    n_changes = curvature._count_changes(curvature._contents(1), before)
    assert 0 < n_changes < near.n_active[1]
    assert n_changes <= objective.n_variables
    if not few:
        by_blocks = partial(curvature._assemble, curvature._rows)
        monkeypatch.setattr(curvature, "_changed", by_blocks)
    curvature.share()
    read = objective.blocks.work.rows_read
    changed = curvature.assemble(1, before)
    assert objective.blocks.work.rows_read - read == n_changes
    fresh = curvature.assemble(1, None).matrix
    np.testing.assert_allclose(to_numpy(changed.matrix), to_numpy(fresh), atol=1e-9)


def test_line_is_the_objective_along_a_direction(make_objective):
    objective = make_objective()
    point = random_point(objective)
    D = np.random.RandomState(3).normal(size=point.W.shape)
    line = objective.line(point, D)
    for t in (np.ones(C), np.array([0.5, 0.1, 2.0])):
        there = objective.begin(point.W + t * D)[0]
        np.testing.assert_allclose(line.value(t), there.value)
        np.testing.assert_allclose(line.point(t).value, there.value)
        np.testing.assert_allclose(line.point(t).gradient, there.gradient, atol=1e-9)
        first, second = line.slope(t)
        np.testing.assert_allclose(first, (there.gradient * D).sum(axis=0))
        product = objective.curvature(there).product(D, np.arange(D.shape[1]))
        np.testing.assert_allclose(second, (product * D).sum(axis=0))


def test_blocks_change_nothing_but_rounding(make_objective, monkeypatch):
    whole = random_point(make_objective())
    small_blocks(monkeypatch)
    objective = make_objective()
    assert len(objective.blocks.blocks) > 5
    blocked = random_point(objective)
    np.testing.assert_allclose(blocked.value, whole.value, rtol=1e-13)
    np.testing.assert_allclose(blocked.gradient, whole.gradient, atol=1e-11)
    np.testing.assert_array_equal(blocked.n_active, whole.n_active)


def test_selected_columns_are_those_columns(make_objective):
    objective = make_objective()
    point = random_point(objective)
    part = point.select(np.array([True, False, True]))
    fresh_objective = make_objective(columns_of_targets=[0, 2])
    fresh, _ = fresh_objective.begin(point.W[:, [0, 2]])
    np.testing.assert_allclose(part.value, fresh.value)
    np.testing.assert_allclose(part.gradient, fresh.gradient)
    D = np.random.RandomState(2).normal(size=part.W.shape)
    np.testing.assert_allclose(
        objective.curvature(part).product(D, np.arange(D.shape[1])),
        fresh_objective.curvature(fresh).product(D, np.arange(D.shape[1])),
    )


class Meter:
    """Rows of the feature matrix read by a call."""

    def __init__(self, objective):
        self.work = objective.blocks.work

    def __call__(self, call):
        before = self.work.rows_read
        result = call()
        return self.work.rows_read - before, result


def test_a_gradient_costs_one_pass_and_a_trial_step_none(make_objective):
    objective = make_objective()
    meter = Meter(objective)
    rows, point = meter(lambda: random_point(objective))
    assert rows == N
    rows, line = meter(lambda: objective.line(point, -point.gradient))
    assert rows == N
    rows, _ = meter(lambda: [line.value(np.full(C, t)) for t in (1.0, 0.5, 0.25)])
    assert rows == 0
    rows, _ = meter(lambda: line.slope(np.full(C, 0.5)))
    assert rows == 0
    rows, _ = meter(lambda: line.point(np.ones(C)))  # came with the line
    assert rows == 0
    rows, _ = meter(lambda: line.point(np.full(C, 0.5)))
    assert rows == N


@pytest.mark.parametrize("budget", [1 << 30, 1])
def test_a_hessian_product_reads_active_rows_only(make_objective, budget):
    objective = make_objective(budget=budget, C_scale=30.0)
    point = objective.begin(solve(objective))[0].select(ALL == 1)
    n_active = int(point.n_active[0])
    assert 0 < n_active < 0.5 * N
    curvature = objective.curvature(point)
    D = np.ones((objective.n_variables, 1))
    curvature.product(D, np.arange(D.shape[1]))  # gathers the rows where memory allows
    rows, _ = Meter(objective)(lambda: curvature.product(D, np.arange(D.shape[1])))
    assert rows == n_active
    rows, _ = Meter(objective)(lambda: curvature.assemble(0, None))
    assert rows == n_active


@pytest.mark.parametrize("n_late", [0, 3])
def test_a_hessian_product_skips_rows_at_rest_behind_active_ones(make_objective, place, n_late):
    """Most rows are active: a few at rest among them are read, active ones behind are copied."""
    objective = make_objective()
    random_point(objective)  # kernel values are kept from here on
    weights = np.zeros((N, C))
    weights[:80] = 2.0
    weights[[5, 17]] = 0.0
    weights[100 + 5 * np.arange(n_late), 1] = 1.0
    states = objective.blocks.split(place.array(weights))
    curvature = LossCurvature(objective, lambda: states, (weights > 0.0).sum(axis=0), ALL)
    D = np.random.RandomState(2).normal(size=(objective.n_variables, C))
    expected = [to_numpy(curvature.assemble(c, None).matrix) @ D[:, c] for c in ALL]
    np.testing.assert_allclose(curvature.product(D, ALL), np.transpose(expected), atol=1e-9)
    rows, some = Meter(objective)(lambda: curvature.product(D[:, [1]], ALL[[1]]))
    np.testing.assert_allclose(some[:, 0], expected[1], atol=1e-9)
    if place.device is None:
        assert rows == 80 + n_late

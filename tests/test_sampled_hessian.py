"""The Hessian of a sample of rows: what it is, what it keeps, when it is made anew."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lasn import LASNClassifier, factors
from lasn.arrays import to_numpy
from lasn.blocks import Workspace
from lasn.directions import Assembled, DirectionSolver, as_preconditioner
from lasn.features import mapping_matrix
from lasn.kernels import Kernel
from lasn.losses import SquaredHinge
from lasn.model import Model
from lasn.newton import NewtonStart, minimize
from lasn.problem import Memory, Problem
from lasn.sampled_hessian import SampledHessian

ROOMY, TIGHT = 1 << 30, 1 << 10


@pytest.fixture
def parts(place):
    """A problem of 300 rows, a model of 12 landmarks without coefficients, a way to get memory."""
    rng = np.random.RandomState(0)
    X = rng.normal(size=(300, 4))
    targets = np.where(X[:, :1] + 0.5 * rng.normal(size=(300, 2)) > 0.0, 1.0, -1.0)
    arrays = (place.array(a) for a in (targets, rng.uniform(0.5, 2.0, 300), np.zeros(300, int)))
    problem = Problem(place.rows(X), *arrays, C=5.0, loss=SquaredHinge())
    kernel, landmarks = Kernel("rbf", gamma=0.2), place.rows(X[:12])
    mapping = mapping_matrix(kernel(landmarks, landmarks))
    model = Model(
        kernel, landmarks, mapping, np.zeros((mapping.shape[1] + 1, 2)), np.dtype(np.float64)
    )
    return problem, model, lambda budget: Memory(budget, Workspace(), {}, place.device)


@pytest.mark.parametrize("budget", [ROOMY, TIGHT])
def test_over_all_rows_it_is_the_mean_hessian(parts, budget):
    problem, model, memory = parts
    objective = problem.objective(model, memory(ROOMY), once=False)
    solution = minimize(objective, NewtonStart(model.W)).W
    sampled = SampledHessian(problem, model, memory(budget))
    for W in (0.3 * solution, solution):
        curvature = objective.curvature(objective.begin(W)[0])
        V = to_numpy(curvature.assemble_mean(np.arange(2)).matrix)
        for made in sampled.at(W):
            b = np.arange(1.0, len(V) + 1.0)[:, None]
            np.testing.assert_allclose(V @ made.factor.solve(b), b, rtol=1e-3, atol=1e-3)


def test_what_it_keeps_is_taken_from_the_budget(parts):
    problem, model, memory = parts
    roomy, tight = memory(ROOMY), memory(TIGHT)
    kept = SampledHessian(problem, model, roomy)
    assert roomy.budget == ROOMY - 300 * model.mapping.shape[1] * 8
    computed = SampledHessian(problem, model, tight)
    assert tight.budget == TIGHT
    assert kept.cost < computed.cost


def test_it_is_made_anew_where_that_saves_steps_and_only_there(parts):
    problem, model, memory = parts
    objective = problem.objective(model, memory(ROOMY), once=False)
    W = minimize(objective, NewtonStart(model.W)).W
    sampled = SampledHessian(problem, model, memory(ROOMY))
    solver = DirectionSolver("auto", 100, sampled.at(0.0 * W), sample=sampled)
    point, _ = objective.begin(0.9 * W)
    curvature = objective.curvature(point)

    def solve(expected_steps):
        solver.expected_steps["prepared"] = expected_steps
        solver.expected_steps["plain"] = 10**9
        solver.rows_are_exact = False
        curvature.assembly_cost = lambda *_: np.inf
        return solver.solve(curvature, point.columns, point.gradient, 1e-3, point.W)

    solve(expected_steps=1)
    assert sampled.is_at(0.0 * W)
    _, steps, *_ = solve(expected_steps=10**6)
    assert sampled.is_at(point.W)
    assert steps.max() < 20
    made = solver.assembled
    solve(expected_steps=10**6)
    assert solver.assembled is made, "it is at this W already"


def test_many_classes_of_few_active_rows_make_none(monkeypatch):
    rng = np.random.default_rng(0)
    centres = rng.normal(scale=6.0, size=(12, 5))
    y = rng.integers(12, size=2000)
    X = centres[y] + rng.normal(size=(2000, 5))
    made = []
    whole = SampledHessian.__init__
    monkeypatch.setattr(
        SampledHessian, "__init__", lambda self, *given: made.append(self) or whole(self, *given)
    )
    fit = LASNClassifier(300, tol=1e-6, landmarks="class_kmeans", random_state=0).fit
    without = fit(X, y).decision_function(X)
    assert not made
    monkeypatch.setattr("lasn.starts.direct_solves_pay", lambda *given: False)
    assert_allclose(fit(X, y).decision_function(X), without, atol=1e-3)
    assert made


@pytest.mark.parametrize(("largest", "dtype"), [(1e4, "float32"), (3e6, "float64")])
def test_a_preconditioner_is_factored_in_float32_where_that_tells_it_from_zero(
    largest, dtype, monkeypatch, rng
):
    Q, _ = np.linalg.qr(rng.normal(size=(20, 20)))
    V = (Q * np.geomspace(1.0, largest, 20)) @ Q.T
    factored = []

    def factorize(V, own):
        factored.append(str(V.dtype))
        return factors.factorize(V, own)

    monkeypatch.setattr("lasn.directions.factorize", factorize)
    factor = as_preconditioner(Assembled(V.copy(), None)).factor
    assert factored == [dtype]
    # Preconditioned, V is about the identity.
    eigenvalues = np.linalg.eigvals(factor.solve(V)).real
    assert_allclose(eigenvalues, 1.0, atol=0.2)

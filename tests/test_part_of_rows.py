"""Some active rows that stand for all of them in a preconditioner: which, when, and how well."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lasn import LASNClassifier
from lasn.block_tasks import some_for_all
from lasn.blocks import Workspace
from lasn.curvature import LossCurvature
from lasn.features import mapping_matrix
from lasn.kernels import Kernel
from lasn.losses import SquaredHinge
from lasn.model import Model
from lasn.newton import NewtonStart, minimize
from lasn.problem import Memory, Problem

N, K = 6000, 30


def noisy_rows(n_rows, flipped):
    """Rows of two classes, of which a share has the other's label."""
    rng = np.random.RandomState(0)
    X = rng.normal(size=(n_rows, 4))
    y = (np.sin(2.0 * X[:, 0]) + X[:, 1] > 0.0) ^ (rng.uniform(size=n_rows) < flipped)
    return X, y.astype(int)


def curvature_at_the_minimum(sample_weight):
    X, y = noisy_rows(N, 0.3)
    groups = np.zeros(N, dtype=int)
    problem = Problem(X, 2.0 * y[:, None] - 1.0, sample_weight, groups, C=1.0, loss=SquaredHinge())
    kernel, landmarks = Kernel("rbf", gamma=0.2), X[:K]
    mapping = mapping_matrix(kernel(landmarks, landmarks))
    model = Model(kernel, landmarks, mapping, np.zeros((len(mapping.T) + 1, 1)), np.dtype("f8"))
    objective = problem.objective(model, Memory(1 << 30, Workspace(), {}), once=False)
    W = minimize(objective, NewtonStart(model.W)).W
    return objective, objective.curvature(objective.begin(W)[0])


@pytest.mark.parametrize("spread", [0.0, 1.5])
def test_a_third_of_the_rows_tells_the_hessian(spread):
    weight = np.exp(spread * np.random.RandomState(1).normal(size=N))
    objective, curvature = curvature_at_the_minimum(weight)
    V = curvature.assemble_mean(np.array([0])).matrix
    before = objective.work.rows_read
    part = curvature.assemble_mean(np.array([0]), n_rows=2000).matrix
    assert objective.work.rows_read - before <= 2100, "the others are not read"
    eigenvalues = np.linalg.eigvals(np.linalg.solve(V, part)).real
    assert eigenvalues.min() > 0.7
    assert eigenvalues.max() < 1.4


def test_more_rows_than_are_active_are_all_of_them():
    _, curvature = curvature_at_the_minimum(np.ones(N))
    V = curvature.assemble_mean(np.array([0])).matrix
    part = curvature.assemble_mean(np.array([0]), n_rows=10.0 * N).matrix
    assert_allclose(part, V, rtol=1e-12)


def test_blocks_do_not_change_which_rows_it_is(monkeypatch):
    _, whole = curvature_at_the_minimum(np.ones(N))
    V = whole.assemble_mean(np.array([0]), n_rows=1000).matrix
    monkeypatch.setattr("lasn.blocks._BLOCK_BYTES", 700 * K * 8)
    objective, curvature = curvature_at_the_minimum(np.ones(N))
    assert len(objective.blocks.blocks) > 5
    assert_allclose(curvature.assemble_mean(np.array([0]), n_rows=1000).matrix, V, rtol=1e-6)


@pytest.mark.parametrize("share", [0.05, 0.2, 0.5])
def test_rows_that_repeat_are_all_seen(share):
    block = SimpleNamespace(rows=slice(300, 20_300))
    kept, _ = some_for_all(block, np.ones(20_000), share)
    assert_allclose(kept[kept > 0.0], 1.0 / share)
    for period in range(2, 40):
        of_each = [np.mean(kept[start::period] > 0.0) for start in range(period)]
        assert_allclose(of_each, share, rtol=0.5)


def test_rows_without_weight_stay_without():
    kept, _ = some_for_all(SimpleNamespace(rows=slice(0, 4)), np.array([0.0, 3.0, 0.0, 0.0]), 1.0)
    assert_allclose(kept, [0.0, 3.0, 0.0, 0.0])


@pytest.mark.parametrize(("flipped", "is_part"), [(0.15, True), (0.0, False)])
def test_it_is_taken_where_most_rows_are_active(flipped, is_part, monkeypatch):
    asked = []
    whole = LossCurvature.assemble_mean

    def assemble_mean(self, columns, steers=True, n_rows=np.inf):
        asked.append((n_rows, self.n_active.sum()))
        return whole(self, columns, steers, n_rows)

    monkeypatch.setattr(LossCurvature, "assemble_mean", assemble_mean)
    X, y = noisy_rows(2 * N, flipped)  # so many that they do not start from zero
    options = {"landmarks": X[:300], "gamma": 0.5, "random_state": 0}
    model = LASNClassifier(**options, tol=1e-4).fit(X, y)
    parts = [(n_rows, n_active) for n_rows, n_active in asked if np.isfinite(n_rows)]
    assert bool(parts) == is_part
    assert all(2 * n_rows < n_active for n_rows, n_active in parts)
    exact = LASNClassifier(**options, tol=1e-6, solver="newton").fit(X, y)
    assert model.history_[-1]["relative_gradient"] <= 1e-4
    assert model.history_[-1]["value"] <= exact.history_[-1]["value"] * (1.0 + 1e-4)

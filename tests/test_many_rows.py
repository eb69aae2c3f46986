"""Enough rows for every shortcut that a fit may take: what it ends with is still the solution."""

import numpy as np
import pytest
import scipy.sparse as sp
from places import every_place
from reference import certificate
from sklearn.svm import LinearSVC

import lasn.starts
import lasn.training
from lasn import LASNClassifier, LASNRegressor
from lasn.arrays import to_numpy
from lasn.kernels import Kernel
from lasn.losses import LogLoss, SquaredEpsilonInsensitive, SquaredHinge

pytestmark = every_place

N_ROWS = 16_000


@pytest.fixture(autouse=True)
def nothing_is_easy_to_keep(monkeypatch):
    """So few rows would all be kept; here they are to be solved like many."""
    monkeypatch.setattr("lasn.problem._EASY_TO_KEEP", 0)


@pytest.fixture(scope="module", params=["noise", "no noise"])
def sphere(request):
    """Rows of shape (16 000, 3), labels by their length, and the length itself."""
    rng = np.random.RandomState(0)
    X = rng.normal(size=(N_ROWS, 3))
    length = np.sum(X**2, axis=1) + (request.param == "noise") * rng.normal(size=N_ROWS)
    return X, (length > 2.4).astype(int) + (length > 6.0), length


def features_of(model, X):
    if model.landmarks_ is None:
        return X
    return Kernel("rbf", gamma=model.gamma_)(X, model.landmarks_) @ model.mapping_


def assert_solved(model, X, targets, loss, tol):
    """The gradient, computed from the fitted attributes, is below the tolerance."""
    targets = targets.reshape(len(X), -1)
    coef, intercept = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
    truth = certificate(features_of(model, X), targets, coef, intercept, model.C, loss)
    assert np.all(truth.relative_gradient <= 1.01 * tol)
    return truth


@pytest.mark.parametrize("tol", [1e-3, 1e-7])
@pytest.mark.parametrize("solver", ["newton", "newton-cg", "auto"])
@pytest.mark.parametrize("loss", [SquaredHinge(), LogLoss()])
def test_two_classes(sphere, loss, solver, tol):
    X, y, _ = sphere
    name = "log_loss" if isinstance(loss, LogLoss) else "squared_hinge"
    model = LASNClassifier(
        40, loss=name, solver=solver, tol=tol, dtype="float64", random_state=0
    ).fit(X, y > 0)
    assert_solved(model, X, np.where(y > 0, 1.0, -1.0), loss, tol)


def test_history_ends_with_the_solution(sphere):
    X, y, _ = sphere
    model = LASNClassifier(40, dtype="float64", random_state=0).fit(X, y > 0)
    truth = assert_solved(model, X, np.where(y > 0, 1.0, -1.0), SquaredHinge(), 1e-3)
    assert len(model.history_) == model.n_iter_ >= 1
    for name, expected in vars(truth).items():
        assert model.history_[-1][name] == pytest.approx(expected[0], rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("tol", [3e-2, 1e-4])
def test_rows_near_the_boundary_are_looked_for_once_if_that_solves_them(sphere, monkeypatch, tol):
    """A first, rough look may be enough; all rows confirm it."""
    found = []
    near = lasn.training._near
    monkeypatch.setattr(
        lasn.training, "_near", lambda *given: (found.append(near(*given)), found[-1])[1]
    )
    X, y, _ = sphere
    model = LASNClassifier(40, tol=tol, random_state=0).fit(X, y > 0)
    assert found[0] is None or len(found) == (1 if tol == 3e-2 else 2)
    assert_solved(model, X, np.where(y > 0, 1.0, -1.0), SquaredHinge(), tol)


@pytest.mark.parametrize("solver", ["newton", "auto"])
def test_values_easy_to_keep_are_kept_and_all_rows_solved(place, sphere, monkeypatch, solver):
    monkeypatch.setattr("lasn.problem._EASY_TO_KEEP", 1 << 30)
    X, y, _ = sphere
    common = {"solver": solver, "tol": 1e-7, "dtype": "float64", "random_state": 0}
    model = LASNClassifier(40, **common).fit(X, y > 0)
    assert_solved(model, X, np.where(y > 0, 1.0, -1.0), SquaredHinge(), 1e-7)
    if place.device is None:
        assert all(record["rows"] == N_ROWS for record in model.history_)
    # Where there is no room for them, the rows near the boundary are solved first.
    limited = LASNClassifier(40, memory_limit=1, **common).fit(X, y > 0)
    assert_solved(limited, X, np.where(y > 0, 1.0, -1.0), SquaredHinge(), 1e-7)


@pytest.mark.parametrize("k", [150, 300])
@pytest.mark.parametrize("easy_to_keep", [0, 1 << 30])
def test_rows_are_sorted_where_conjugate_gradients_will_read_them_often(
    place, sphere, monkeypatch, k, easy_to_keep
):
    """Active ones first, by the scores of a coarse model that has seen most of them.

    Where values are not kept, that model need not have left its scores.
    """
    monkeypatch.setattr("lasn.starts.sample_pays", lambda *given: True)
    monkeypatch.setattr("lasn.problem._EASY_TO_KEEP", easy_to_keep)
    levels = []
    sort = lasn.starts._active_first

    def noted(problem, scores):
        np.testing.assert_allclose(scores, noted.coarse.scores(problem.X), atol=1e-6)
        ahead = sort(problem, scores)
        margin = to_numpy(ahead.targets * noted.coarse.scores(ahead.X))[:, 0]
        levels.append(np.digitize(margin, [0.75, 1.0, 1.25]))
        return ahead

    prepared = lasn.training.Coarse

    def coarse(model, *known):
        noted.coarse = model
        return prepared(model, *known)

    monkeypatch.setattr(lasn.starts, "_active_first", noted)
    monkeypatch.setattr(lasn.training, "Coarse", coarse)
    X, y, _ = sphere
    options = {"solver": "newton-cg", "tol": 1e-6, "dtype": "float64", "random_state": 0}
    model = LASNClassifier(k, **options).fit(X, y > 0)
    assert_solved(model, X, np.where(y > 0, 1.0, -1.0), SquaredHinge(), 1e-6)
    assert len(levels) == (place.device is None)
    for level in levels:
        assert np.all(np.diff(level) >= 0)
        assert len(np.unique(level)) == 4


@pytest.mark.parametrize("solver", ["newton", "newton-cg"])
def test_three_classes(sphere, solver):
    X, y, _ = sphere
    model = LASNClassifier(40, solver=solver, tol=1e-6, dtype="float64", random_state=0).fit(X, y)
    signs = np.where(y[:, None] == np.arange(3), 1.0, -1.0)
    assert_solved(model, X, signs, SquaredHinge(), 1e-6)


@pytest.mark.parametrize("landmarks", ["boundary", "class_kmeans"])
@pytest.mark.parametrize("noise", [0.0, 5.0])
def test_classes_of_most_rows_active_start_from_zero(monkeypatch, landmarks, noise):
    """No smaller fit finds a boundary then, and a factor that all columns share is enough."""
    rng = np.random.RandomState(0)
    X = rng.normal(size=(N_ROWS, 3))
    y = np.argmax(X + noise * rng.normal(size=X.shape), axis=1)
    found = []
    are_alike = lasn.starts.are_alike
    monkeypatch.setattr(
        "lasn.starts.are_alike", lambda *given: (found.append(are_alike(*given)), found[-1])[1]
    )
    model = LASNClassifier(150, landmarks=landmarks, tol=1e-6, random_state=0).fit(X, y)
    assert found == [noise > 0.0]
    assert (model.history_[0]["passes"] == 3.0) == (noise > 0.0)
    signs = np.where(y[:, None] == np.arange(3), 1.0, -1.0)
    assert_solved(model, X, signs, SquaredHinge(), 1e-6)


@pytest.mark.parametrize("solver", ["newton", "newton-cg"])
def test_regression(sphere, solver):
    X, _, length = sphere
    model = LASNRegressor(40, solver=solver, tol=1e-6, dtype="float64", random_state=0)
    assert_solved(model.fit(X, length), X, length, SquaredEpsilonInsensitive(0.1), 1e-6)


@pytest.mark.parametrize("container", [np.asarray, sp.csr_matrix])
def test_linear_kernel(sphere, container):
    X, y, _ = sphere
    model = LASNClassifier(kernel="linear", tol=1e-6).fit(container(X), y > 0)
    assert_solved(model, X, np.where(y > 0, 1.0, -1.0), SquaredHinge(), 1e-6)


def test_objective_is_that_of_linear_svc_on_the_features(sphere):
    X, y, _ = sphere
    signs = np.where(y > 0, 1.0, -1.0)[:, None]
    model = LASNClassifier(40, random_state=0, dtype="float64").fit(X, y > 0)
    F = features_of(model, X)
    liblinear = LinearSVC(C=10.0, dual=False, intercept_scaling=1.0, tol=1e-6, max_iter=10_000)
    liblinear.fit(F, y > 0)
    ours, theirs = (
        certificate(F, signs, fitted.coef_, fitted.intercept_, 10.0, SquaredHinge()).value[0]
        for fitted in (model, liblinear)
    )
    assert ours <= theirs * (1.0 + 1e-3)


def test_float32_features_reach_the_default_tolerance(sphere):
    X, y, _ = sphere
    model = LASNClassifier(40, dtype="float32", random_state=0).fit(X, y > 0)
    assert_solved(model, X, np.where(y > 0, 1.0, -1.0), SquaredHinge(), 1e-3)


def test_weights_are_repetitions(sphere):
    X, y, _ = sphere
    weight = np.random.RandomState(1).randint(0, 3, size=N_ROWS)
    estimator = LASNClassifier(landmarks=X[:40], tol=1e-7, dtype="float64")
    weighted = estimator.fit(X, y > 0, sample_weight=weight).decision_function(X)
    estimator.fit(np.repeat(X, weight, axis=0), np.repeat(y > 0, weight))
    np.testing.assert_allclose(estimator.decision_function(X), weighted, atol=1e-3)


def test_sorted_rows_change_nothing(sphere):
    X, y, _ = sphere
    order = np.argsort(y, kind="stable")
    estimator = LASNClassifier(landmarks=X[:40], tol=1e-7, dtype="float64", random_state=0)
    expected = estimator.fit(X, y > 0).decision_function(X)
    found = estimator.fit(X[order], y[order] > 0).decision_function(X)
    np.testing.assert_allclose(found, expected, atol=1e-3)


def test_a_rare_class_is_found(sphere):
    X, _, length = sphere
    rare = length > np.sort(length)[-21]
    model = LASNClassifier(40, class_weight="balanced", tol=1e-6, random_state=0).fit(X, rare)
    assert np.count_nonzero(rare) == 20
    assert model.predict(X[rare]).all()


def test_same_seed_gives_the_same_model(sphere):
    X, y, _ = sphere
    coefs = [LASNClassifier(40, random_state=3).fit(X, y).dual_coef_ for _ in range(2)]
    np.testing.assert_array_equal(coefs[0], coefs[1])

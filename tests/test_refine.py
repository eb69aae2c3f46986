"""refine= goes from Nystroem to exact: P falls, the enclosure stays true, the price is kept."""

import numpy as np
import pytest
import scipy.sparse as sp
from reference import exact_kernel_machine
from sklearn.base import clone
from sklearn.datasets import load_digits, make_friedman1, make_moons

import lasn
from lasn import LASNClassifier, LASNRegressor, certify
from lasn.enclosure import Dual, Primal
from lasn.kernels import Kernel
from lasn.losses import SquaredHinge
from lasn.refine import worst_rows


@pytest.fixture(scope="module")
def moons():
    return make_moons(800, noise=0.25, random_state=0)


def column(model, name):
    return np.array([point[name] for point in model.refine_curve_])


def assert_falls_and_encloses(model):
    upper, lower = column(model, "upper_bound"), column(model, "exact_lower_bound")
    assert len(upper) > 1
    assert np.all(np.diff(upper) < 0.0)
    assert np.max(lower) <= np.min(upper)
    assert np.all(np.diff(column(model, "n_landmarks")) > 0)
    assert np.all(np.diff(column(model, "seconds")) > 0.0)
    assert model.n_landmarks_ == column(model, "n_landmarks")[-1]


def test_a_whole_number_is_how_many_landmarks_there_will_be(moons):
    X, y = moons
    model = LASNClassifier(20, gamma=5.0, refine=77, random_state=0).fit(X, y)
    assert column(model, "n_landmarks").tolist() == [20, 30, 45, 67, 77]
    assert_falls_and_encloses(model)
    assert model.refine_curve_[-1]["training_score"] == model.score(X, y)
    assert model.stage_seconds_.keys() == {"landmarks", "map", "solve", "certificate"}
    assert model.n_iter_ == len(model.history_)
    assert np.all(np.diff([record["seconds"] for record in model.history_]) >= 0.0)


def test_a_fraction_is_the_gap_that_is_proved(moons):
    X, y = moons
    model = LASNClassifier(10, gamma=5.0, refine=0.01, random_state=0).fit(X, y)
    gaps = column(model, "relative_exact_gap")
    assert gaps[-1] <= 0.01 < gaps[-2]
    assert_falls_and_encloses(model)
    certificate = certify(model, X, y)
    last = model.refine_curve_[-1]
    assert certificate.upper_bound == pytest.approx(last["upper_bound"])
    assert certificate.exact_lower_bound == pytest.approx(last["exact_lower_bound"])
    K = Kernel("rbf", 5.0)(X, X)
    signs = np.where(y == 1, 1.0, -1.0)
    value = exact_kernel_machine(K, signs, np.full(len(y), 10.0), SquaredHinge()).value
    assert last["exact_lower_bound"] <= value <= last["upper_bound"] <= 1.02 * value


def test_landmarks_at_violations_are_worth_more_than_others(moons):
    X, y = moons

    def mean_gap(n_landmarks: int, **options) -> float:
        gaps = []
        for seed in range(8):
            model = LASNClassifier(n_landmarks, gamma=20.0, C=100.0, random_state=seed, **options)
            assert model.fit(X, y).n_landmarks_ == 160
            gaps.append(certify(model, X, y).exact_gap)
        return float(np.mean(gaps))

    refined = mean_gap(40, refine=160)
    assert refined < 0.75 * mean_gap(160, landmarks="boundary")
    assert refined < 0.25 * mean_gap(160, landmarks="kmeans")


def test_the_first_landmark_takes_what_its_violation_says_at_most(moons):
    """The violation bounds what one more landmark takes from P, to second order and so near it."""
    X, y = moons
    model = LASNClassifier(30, C=0.1, gamma=1.0, tol=1e-8, dtype="float64", random_state=0)
    model.fit(X, y)
    problem, fitted = model._fitted_problem(X, y, None), model._fitted_model()
    primal = Primal(problem, fitted)
    dual = Dual(problem, fitted, primal.z, None)
    order = worst_rows(problem, dual, primal.z, 40)
    assert len(np.unique(order)) == len(order)
    gains = [model.history_[-1]["value"] - more.history_[-1]["value"] for more in (
        clone(model).set_params(landmarks=np.vstack([model.landmarks_, X[[row]]])).fit(X, y)
        for row in (order[0], order[-1])
    )]  # fmt: skip
    assert gains[0] > gains[1] >= 0.0


def test_classes_targets_and_weights():
    X, y = load_digits(n_class=5, return_X_y=True)
    weight = np.random.RandomState(0).exponential(size=len(y))
    model = LASNClassifier(30, refine=120, random_state=0).fit(X / 16.0, y, sample_weight=weight)
    assert_falls_and_encloses(model)
    X, y = make_friedman1(400, 5, random_state=0)
    targets = np.column_stack([y, -(y**2) / 20.0])
    for target in (y, targets):
        model = LASNRegressor(20, refine=0.05, C=1.0, random_state=0).fit(X, target)
        assert_falls_and_encloses(model)
        assert model.refine_curve_[-1]["training_score"] == pytest.approx(model.score(X, target))
    logistic = LASNClassifier(20, loss="log_loss", refine=60, random_state=0)
    assert_falls_and_encloses(logistic.fit(X, y > np.median(y)))


def test_weight_zero_is_a_row_left_out(moons):
    X, y = moons
    weight = np.ones(len(y))
    weight[::3] = 0.0
    options = {"landmarks": X[1:40:3], "gamma": 5.0, "refine": 60, "dtype": "float64"}
    options["random_state"] = 0
    with_zeros = LASNClassifier(**options).fit(X, y, sample_weight=weight)
    without = LASNClassifier(**options).fit(X[weight > 0.0], y[weight > 0.0])
    np.testing.assert_allclose(with_zeros.landmarks_, without.landmarks_)


def test_sparse_rows_get_sparse_landmarks(sparse_rows):
    X, y = sparse_rows
    sparse = LASNClassifier(20, refine=50, landmarks="uniform", random_state=0).fit(X, y)
    assert sp.issparse(sparse.landmarks_)
    dense = clone(sparse).fit(X.toarray(), y)
    np.testing.assert_allclose(
        column(sparse, "upper_bound"), column(dense, "upper_bound"), rtol=1e-6
    )


def test_all_rows_are_enough(moons):
    X, y = moons
    model = LASNClassifier(10, gamma=2.0, refine=1e-9, tol=1e-9, random_state=0).fit(X, y)
    assert model.refine_curve_[-1]["relative_exact_gap"] < 1e-4
    assert model.n_landmarks_ < len(X)


def test_without_refine_there_is_no_curve(moons):
    model = LASNClassifier(20, random_state=0).fit(*moons)
    assert model.refine_curve_ == []
    enough = LASNClassifier(20, refine=5, random_state=0).fit(*moons)
    assert column(enough, "n_landmarks").tolist() == [20]
    np.testing.assert_array_equal(enough.coef_, model.coef_)
    linear = LASNClassifier(kernel="linear", refine=50).fit(*moons)
    assert column(linear, "n_landmarks").tolist() == [0]


def test_a_refined_model_is_saved_with_its_curve(moons, tmp_path):
    X, y = moons
    model = LASNClassifier(20, refine=50, random_state=0).fit(X, y)
    lasn.save(model, tmp_path / "m.lasn")
    copy = lasn.load(tmp_path / "m.lasn")
    assert copy.refine_curve_ == model.refine_curve_
    np.testing.assert_array_equal(copy.decision_function(X), model.decision_function(X))


def test_a_warm_start_goes_on_from_the_landmarks_that_there_are(moons):
    X, y = moons
    model = LASNClassifier(20, gamma=5.0, refine=40, warm_start=True, random_state=0).fit(X, y)
    first = model.landmarks_
    model.set_params(refine=60).fit(X, y)
    assert model.n_landmarks_ == 60
    np.testing.assert_array_equal(model.landmarks_[:40], first)


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"refine": 0}, ValueError, "whole number of landmarks"),
        ({"refine": 1.5}, ValueError, "above 0 and below 1"),
        ({"refine": "all"}, TypeError, "whole number of landmarks"),
        ({"refine": True}, TypeError, "whole number of landmarks"),
        ({"refine": 50, "solver": "exact"}, ValueError, 'not "exact"'),
        ({"refine": 50, "kernel": "tanh", "gamma": 0.1}, ValueError, "positive semidefinite"),
    ],
)
def test_what_cannot_be_refined_is_refused(moons, parameters, error, message):
    with pytest.raises(error, match=message):
        LASNClassifier(20, random_state=0, **parameters).fit(*moons)

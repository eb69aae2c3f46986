"""Limits: little data, degenerate data, extreme parameters."""

import numpy as np
import pytest
from places import every_place
from sklearn.datasets import load_breast_cancer

from lasn import LASNClassifier, LASNRegressor, NystroemMap

pytestmark = every_place

ESTIMATORS = {
    "squared_hinge": LASNClassifier(random_state=0),
    "log_loss": LASNClassifier(loss="log_loss", random_state=0),
    "regressor": LASNRegressor(random_state=0),
}


@pytest.fixture(params=ESTIMATORS)
def estimator(request):
    return ESTIMATORS[request.param].__class__(**ESTIMATORS[request.param].get_params())


def finite(model, X):
    """Scores of a model, all of them numbers."""
    scores = model.decision_function(X) if hasattr(model, "classes_") else model.predict(X)
    assert np.isfinite(scores).all()
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.dual_coef_).all()
    return scores


@pytest.mark.parametrize("kernel", ["rbf", "polynomial", "tanh", "laplacian", "linear"])
def test_one_feature(estimator, kernel, rng):
    X = rng.uniform(-1.0, 1.0, size=(100, 1))
    y = (X[:, 0] > 0).astype(int)
    model = estimator.set_params(kernel=kernel).fit(X, y)
    finite(model, X)
    assert model.score(X, y) > 0.6


@pytest.mark.parametrize("value", [0.0, 1.0, -1e6])
@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "linear"])
def test_constant_features_tell_nothing(estimator, kernel, value):
    X, y = np.full((60, 3), value), np.arange(60) % 3 == 0
    scores = finite(estimator.set_params(kernel=kernel).fit(X, y), X)
    np.testing.assert_allclose(scores, scores[0])


def test_a_constant_feature_beside_others_changes_no_rbf_model(estimator, binary):
    X, y = binary
    wider = np.column_stack([X, np.full(len(X), 3.0)])
    estimator.set_params(tol=1e-8)
    expected = finite(estimator.set_params(landmarks=X[:20]).fit(X, y), X)
    found = finite(estimator.set_params(landmarks=wider[:20]).fit(wider, y), wider)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("landmarks", ["boundary", "kmeans", "class_kmeans", "uniform"])
def test_one_landmark(estimator, binary, landmarks):
    X, y = binary
    model = estimator.set_params(n_landmarks=1, landmarks=landmarks).fit(X, y)
    finite(model, X)
    assert model.n_landmarks_ == 1
    assert model.landmarks_.shape == (1, 5)


def test_two_rows(estimator):
    X, y = np.array([[0.0], [1.0]]), np.array([0, 1])
    model = estimator.set_params(C=1e4).fit(X, y)
    finite(model, X)
    assert model.score(X, y) > 0.9


def test_all_rows_equal_within_each_class(estimator):
    X, y = np.repeat([[0.0, 1.0], [1.0, 0.0]], 50, axis=0), np.repeat([0, 1], 50)
    model = estimator.set_params(n_landmarks=20).fit(X, y)
    finite(model, X)
    assert model.score(X, y) > 0.9


def test_equal_rows_with_different_labels(estimator):
    X, y = np.ones((60, 2)), np.arange(60) % 2
    scores = finite(estimator.set_params(n_landmarks=10).fit(X, y), X)
    assert np.ptp(scores) < 1e-9


def test_duplicate_landmarks_change_nothing(estimator, binary):
    X, y = binary
    estimator.set_params(tol=1e-8)
    once = finite(estimator.set_params(landmarks=X[:20]).fit(X, y), X)
    twice = finite(estimator.set_params(landmarks=np.vstack([X[:20], X[:20]])).fit(X, y), X)
    np.testing.assert_allclose(twice, once, atol=1e-5)
    assert estimator.coef_.shape[-1] == 20


def test_duplicate_landmarks_leave_no_noise_in_float32(estimator, rng):
    """Landmarks that are there twice would have large coefficients that make next to nothing."""
    X = rng.randint(2, size=(400, 12)).astype(float)
    y = (X @ rng.normal(size=12) + rng.normal(size=400) > 0.0).astype(int)
    estimator.set_params(tol=1e-5, dtype="float32", C=100.0)
    sizes = []
    for landmarks in (X[:150], np.vstack([X[:150], X[:150]])):
        finite(estimator.set_params(landmarks=landmarks).fit(X, y), X)
        sizes.append(np.linalg.norm(estimator.dual_coef_))
    assert sizes[1] < 1.5 * sizes[0]


@pytest.mark.parametrize("solver", ["newton", "newton-cg"])
@pytest.mark.parametrize("C", [1e-8, 1e-4, 1e4, 1e8])
def test_extreme_c(estimator, binary, C, solver):
    X, y = binary
    model = estimator.set_params(C=C, solver=solver).fit(X, y)
    scores = finite(model, X)
    assert model.history_[-1]["relative_gradient"] <= model.tol
    if C < 1e-3:
        assert np.max(np.abs(scores)) < 0.1
    else:
        assert model.score(X, y) > 0.8


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("gamma", [1e-12, 1e-6, 1e6, 1e12])
@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "tanh"])
def test_extreme_gamma(estimator, binary, kernel, gamma, dtype):
    X, y = binary
    finite(estimator.set_params(kernel=kernel, gamma=gamma, dtype=dtype).fit(X, y), X)


@pytest.mark.parametrize("gamma", [1e-12, 1e6])
def test_extreme_gamma_of_a_polynomial(estimator, binary, gamma):
    X, y = binary
    finite(estimator.set_params(kernel="polynomial", gamma=gamma).fit(X, y), X)


def test_kernel_values_of_1e18_leave_next_to_nothing(binary):
    """Such a machine meets every row; rounding hides the smallest eigenvalues of V."""
    X, y = binary
    model = LASNClassifier(kernel="polynomial", gamma=1e6, random_state=0).fit(X, y)
    assert model.score(X, y) == 1.0
    assert model.history_[-1]["value"] < 0.5


@pytest.mark.parametrize("gamma", ["variance", "auto", 1.0])
def test_polynomial_of_degree_10_on_unscaled_data_works_in_float64(gamma):
    X, y = load_breast_cancer(return_X_y=True)
    model = LASNClassifier(
        kernel="polynomial", degree=10, gamma=gamma, dtype="float64", random_state=0
    ).fit(X, y)
    finite(model, X)
    assert model.score(X, y) > 0.8


def test_polynomial_that_overflows_says_to_scale():
    X, y = load_breast_cancer(return_X_y=True)
    model = LASNClassifier(kernel="polynomial", degree=10, gamma=1.0, dtype="float32")
    with pytest.raises(ValueError, match=r"degree=10.*overflows.*float32.*Scale the features"):
        model.fit(X, y)


@pytest.mark.parametrize("scale", [1e-15, 1e-6, 1e6, 1e15])
def test_scale_of_the_data_does_not_matter_to_the_default_gamma(estimator, binary, scale):
    X, y = binary
    expected = estimator.fit(X, y).score(X, y)
    model = estimator.fit(scale * X, y)
    finite(model, scale * X)
    assert model.score(scale * X, y) == pytest.approx(expected, abs=0.03)


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_regression_targets_of_any_size(regression, scale):
    X, y = regression
    model = LASNRegressor(30, epsilon=0.1, random_state=0, tol=1e-8).fit(X, y)
    scaled = LASNRegressor(30, epsilon=0.1 * scale, random_state=0, tol=1e-8).fit(X, scale * y)
    np.testing.assert_allclose(scaled.predict(X) / scale, model.predict(X), atol=1e-5)


def test_classes_of_one_row_each(rng):
    X, y = rng.normal(size=(12, 2)), np.arange(12)
    model = LASNClassifier(C=1e3).fit(X, y)
    assert finite(model, X).shape == (12, 12)
    assert model.score(X, y) > 0.9


def test_a_class_of_weight_zero_is_never_predicted(three_classes):
    X, y = three_classes
    model = LASNClassifier(20, random_state=0).fit(X, y, sample_weight=1.0 * (y != 1))
    finite(model, X)
    assert list(model.classes_) == [0, 1, 2]
    assert 1 not in model.predict(X)


def test_map_of_constant_rows_is_one_column():
    features = NystroemMap().fit(np.ones((30, 4)))
    np.testing.assert_allclose(features.transform(np.ones((3, 4))), np.ones((3, 1)))

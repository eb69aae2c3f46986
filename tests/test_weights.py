"""Weights of rows and classes: identities that hold for every loss and container."""

import numpy as np
import pytest
import scipy.sparse as sp
from places import every_place
from sklearn.utils.class_weight import compute_sample_weight

from lasn import LASNClassifier, LASNRegressor

pytestmark = every_place

TIGHT = {"tol": 1e-9, "random_state": 0}


@pytest.fixture(params=["squared_hinge", "log_loss", "multi-class", "regression", "linear"])
def problem(request, binary, three_classes, regression):
    """An estimator with landmarks of its own, rows and targets."""
    if request.param == "multi-class":
        X, y = three_classes
        return LASNClassifier(landmarks=X[:15], **TIGHT), X, y
    if request.param == "regression":
        X, y = regression
        return LASNRegressor(landmarks=X[:15], **TIGHT), X, y
    X, y = binary
    if request.param == "linear":
        return LASNClassifier(kernel="linear", C=1.0, **TIGHT), X, y
    return LASNClassifier(landmarks=X[:15], loss=request.param, **TIGHT), X, y


@pytest.fixture(params=["dense", "sparse"])
def container(request):
    return np.asarray if request.param == "dense" else sp.csr_matrix


def assert_same_model(one, other, X):
    assert one.gamma_ == pytest.approx(other.gamma_, rel=1e-9)
    scores = [
        model.decision_function(X) if hasattr(model, "classes_") else model.predict(X)
        for model in (one, other)
    ]
    np.testing.assert_allclose(scores[0], scores[1], rtol=1e-6, atol=1e-6)


def fit(estimator, *data, **weights):
    return estimator.__class__(**estimator.get_params()).fit(*data, **weights)


def test_weight_zero_is_a_row_left_out(problem, container, rng):
    estimator, X, y = problem
    weight = 1.0 * (rng.uniform(size=len(y)) < 0.5)
    kept = weight > 0
    weighted = fit(estimator, container(X), y, sample_weight=weight)
    assert_same_model(weighted, fit(estimator, container(X[kept]), y[kept]), container(X))


def test_weight_two_is_a_row_twice(problem, container, rng):
    estimator, X, y = problem
    weight = rng.randint(1, 4, size=len(y))
    weighted = fit(estimator, container(X), y, sample_weight=weight)
    repeated = fit(estimator, container(np.repeat(X, weight, axis=0)), np.repeat(y, weight))
    assert_same_model(weighted, repeated, container(X))


def test_weights_divided_by_a_hundred_are_undone_by_c(problem, rng):
    estimator, X, y = problem
    weight = rng.uniform(0.5, 2.0, size=len(y))
    expected = fit(estimator, X, y, sample_weight=weight)
    estimator.set_params(C=100.0 * estimator.C)
    assert_same_model(fit(estimator, X, y, sample_weight=weight / 100.0), expected, X)


def test_one_number_is_a_weight_for_every_row(problem):
    estimator, X, y = problem
    one_number = fit(estimator, X, y, sample_weight=3.0)
    assert_same_model(one_number, fit(estimator, X, y, sample_weight=np.full(len(y), 3.0)), X)


@pytest.mark.parametrize("landmarks", ["boundary", "kmeans", "class_kmeans", "uniform"])
def test_rows_of_weight_zero_do_not_become_landmarks(binary, landmarks):
    X, y = binary
    weight = np.where(np.arange(200) < 150, 1.0, 0.0)
    estimator = LASNClassifier(20, landmarks=landmarks, **TIGHT)
    weighted = fit(estimator, X, y, sample_weight=weight)
    left_out = fit(estimator, X[:150], y[:150])
    np.testing.assert_array_equal(weighted.landmarks_, left_out.landmarks_)
    assert_same_model(weighted, left_out, X)


def test_class_weights_are_sample_weights(three_classes):
    X, y = three_classes
    settings = {"landmarks": X[:15], "gamma": 0.1, **TIGHT}
    classes = LASNClassifier(class_weight={0: 5.0, 2: 0.1}, **settings).fit(X, y)
    weight = np.array([5.0, 1.0, 0.1])[y]
    assert_same_model(classes, LASNClassifier(**settings).fit(X, y, sample_weight=weight), X)


def test_balanced_class_weights_make_classes_equally_heavy(three_classes):
    X, y = three_classes
    few = np.flatnonzero((y > 0) | (np.arange(len(y)) < 20))
    X, y = X[few], y[few]
    settings = {"landmarks": X[:15], "gamma": 0.1, **TIGHT}
    balanced = LASNClassifier(class_weight="balanced", **settings).fit(X, y)
    weight = compute_sample_weight("balanced", y)
    assert_same_model(balanced, LASNClassifier(**settings).fit(X, y, sample_weight=weight), X)


def test_balanced_class_weights_count_weighted_rows(binary, rng):
    X, y = binary
    weight = rng.randint(0, 4, size=len(y)) * np.where(y == 1, 3, 1)
    estimator = LASNClassifier(landmarks=X[:15], gamma=0.2, class_weight="balanced", **TIGHT)
    weighted = fit(estimator, X, y, sample_weight=weight)
    repeated = fit(estimator, np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert_same_model(weighted, repeated, X)


def test_class_weight_and_sample_weight_are_multiplied(binary, rng):
    X, y = binary
    weight = rng.uniform(0.5, 2.0, size=len(y))
    settings = {"landmarks": X[:15], "gamma": 0.2, **TIGHT}
    both = LASNClassifier(class_weight={0: 4.0}, **settings).fit(X, y, sample_weight=weight)
    product = weight * np.where(y == 0, 4.0, 1.0)
    expected = LASNClassifier(**settings).fit(X, y, sample_weight=product)
    assert_same_model(both, expected, X)


def test_class_weights_take_labels_of_any_type(binary):
    X, y = binary
    names = np.array(["no", "yes"])[y]
    settings = {"landmarks": X[:15], **TIGHT}
    named = LASNClassifier(class_weight={"yes": 4.0}, **settings).fit(X, names)
    assert_same_model(named, LASNClassifier(class_weight={1: 4.0}, **settings).fit(X, y), X)


def test_heavier_class_is_predicted_more_often(binary):
    X, y = binary
    counts = [
        np.count_nonzero(
            LASNClassifier(10, C=1.0, class_weight={1: weight}, random_state=0).fit(X, y).predict(X)
        )
        for weight in (0.1, 1.0, 10.0)
    ]
    assert counts[0] < counts[1] < counts[2]

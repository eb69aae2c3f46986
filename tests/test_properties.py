"""Invariants over random small problems."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from places import every_place
from sklearn.base import clone

from lasn import LASNClassifier, LASNRegressor, NystroemMap

pytestmark = every_place

TOL = 1e-8
few_examples = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],  # the place is the same for all
)
exponents = st.integers(-3, 3)


@st.composite
def problems(draw):
    """Rows, labels (both classes), weights (some of them zero) and landmarks."""
    rng = np.random.RandomState(draw(st.integers(0, 10_000)))
    n, p = draw(st.integers(4, 50)), draw(st.integers(1, 5))
    X = rng.normal(size=(n, p))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=n) > 0, 1, 0)
    y[:2] = 0, 1
    weight = rng.randint(0, 4, size=n) * rng.uniform(0.1, 1.0, size=n)
    weight[:2] = 1.0
    return X, y, weight, rng.normal(size=(draw(st.integers(1, 10)), p))


def scores(model, X):
    return model.decision_function(X) if hasattr(model, "classes_") else model.predict(X)


estimators = st.sampled_from(
    [
        LASNClassifier(),
        LASNClassifier(loss="log_loss"),
        LASNClassifier(solver="newton-cg"),
        LASNRegressor(),
        LASNRegressor(solver="newton-cg", epsilon=0.0),
    ]
).map(clone)


@few_examples
@given(
    problem=problems(),
    estimator=estimators,
    kernel=st.sampled_from(["rbf", "polynomial", "tanh", "laplacian", "linear"]),
    landmarks=st.sampled_from(["own", "kmeans", "boundary", "uniform"]),
    C=exponents.map(lambda exponent: 10.0**exponent),
)
def test_the_gradient_is_below_the_tolerance_at_the_end(problem, estimator, kernel, landmarks, C):
    X, y, weight, own = problem
    estimator.set_params(
        kernel=kernel,
        gamma=0.3,
        degree=2,
        C=C,
        tol=1e-6,
        n_landmarks=2,
        landmarks=own if landmarks == "own" else landmarks,
        random_state=0,
    )
    model = estimator.fit(X, y, sample_weight=weight)
    if model.n_iter_:
        assert model.history_[-1]["relative_gradient"] <= 1e-6
    assert np.isfinite(scores(model, X)).all()


@few_examples
@given(
    problem=problems(),
    estimator=estimators,
    kernel=st.sampled_from(["rbf", "laplacian", "polynomial"]),
    scale=exponents.map(lambda exponent: 10.0**exponent),
)
def test_scaled_rows_with_a_scaled_gamma_give_the_same_model(problem, estimator, kernel, scale):
    X, y, weight, own = problem
    power = 1 if kernel == "laplacian" else 2
    estimator.set_params(kernel=kernel, degree=2, C=1.0, tol=TOL)
    estimator.set_params(gamma=0.3, landmarks=own)
    expected = scores(estimator.fit(X, y, sample_weight=weight), X)
    estimator.set_params(gamma=0.3 / scale**power, landmarks=scale * own)
    found = scores(estimator.fit(scale * X, y, sample_weight=weight), scale * X)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@few_examples
@given(problem=problems(), estimator=estimators, seed=st.integers(0, 100))
def test_the_order_of_rows_and_landmarks_does_not_matter(problem, estimator, seed):
    X, y, weight, own = problem
    rng = np.random.RandomState(seed)
    order = rng.permutation(len(y))
    estimator.set_params(kernel="rbf", gamma="variance", C=1.0, tol=TOL, landmarks=own)
    expected = scores(estimator.fit(X, y, sample_weight=weight), X)
    estimator.set_params(landmarks=own[rng.permutation(len(own))])
    found = scores(estimator.fit(X[order], y[order], sample_weight=weight[order]), X)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@few_examples
@given(problem=problems(), shift=st.floats(-100.0, 100.0))
def test_moving_all_rows_changes_no_rbf_model(problem, shift):
    X, y, weight, own = problem
    model = LASNClassifier(landmarks=own, C=1.0, tol=TOL)
    expected = model.fit(X, y, sample_weight=weight).decision_function(X)
    model.set_params(landmarks=own + shift)
    found = model.fit(X + shift, y, sample_weight=weight).decision_function(X + shift)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@few_examples
@given(problem=problems(), loss=st.sampled_from(["squared_hinge", "log_loss"]))
def test_exchanging_the_classes_turns_the_sign(problem, loss):
    X, y, weight, own = problem
    model = LASNClassifier(landmarks=own, loss=loss, C=1.0, tol=TOL)
    expected = model.fit(X, y, sample_weight=weight).decision_function(X)
    found = model.fit(X, 1 - y, sample_weight=weight).decision_function(X)
    np.testing.assert_allclose(found, -expected, rtol=1e-4, atol=1e-4)


@few_examples
@given(problem=problems(), kernel=st.sampled_from(["rbf", "laplacian"]))
def test_features_have_at_most_unit_length_and_landmarks_exactly(problem, kernel):
    """k(x, x) = 1 and F F^T is a projection: exact on landmarks, shorter elsewhere."""
    X, _, _, own = problem
    features = NystroemMap(kernel=kernel, landmarks=own).fit(X)
    assert np.max(np.sum(features.transform(X) ** 2, axis=1)) <= 1.0 + 1e-6
    lengths = np.sum(features.transform(own) ** 2, axis=1)
    np.testing.assert_allclose(lengths, 1.0, atol=1e-6)


@few_examples
@given(problem=problems())
def test_probabilities_of_exchanged_classes_are_exchanged(problem):
    X, y, weight, own = problem
    model = LASNClassifier(landmarks=own, loss="log_loss", C=1.0, tol=TOL)
    expected = model.fit(X, y, sample_weight=weight).predict_proba(X)
    found = model.fit(X, 1 - y, sample_weight=weight).predict_proba(X)
    np.testing.assert_allclose(found, expected[:, ::-1], atol=1e-4)
    assert expected.sum(axis=1) == pytest.approx(1.0)

"""Predictions are in float32 where that is exact enough, and in float64 where it is not."""

import numpy as np
import pytest
from places import every_place
from sklearn.datasets import make_classification

from lasn import LASNClassifier, LASNRegressor
from lasn.arrays import to_numpy
from lasn.kernels import Kernel
from lasn.prediction import prediction_columns

pytestmark = every_place


def exact_scores(model, X):
    columns = model._fitted_kernel().against(model.landmarks_, np.float64)
    return columns.matrix(X) @ model.dual_coef_.T + model.intercept_


@pytest.mark.parametrize("gamma", [0.003, "variance", 0.3])
@pytest.mark.parametrize("C", [0.1, 10.0, 1000.0])
def test_scores_of_float32_models_are_exact(C, gamma):
    X, y = make_classification(3000, 15, n_informative=8, n_classes=3, random_state=0)
    model = LASNClassifier(
        500, C=C, gamma=gamma, dtype="float32", landmarks="uniform", tol=1e-2, random_state=0
    ).fit(X[:1500], y[:1500])
    expected = exact_scores(model, X)
    error = np.abs(model.decision_function(X) - expected).max(axis=0)
    assert np.all(error <= 1e-4 * np.abs(expected).max(axis=0))


def test_each_target_counts_by_its_own_size(rng):
    X = rng.normal(size=(400, 3))
    y = np.column_stack([1e6 * np.sin(X[:, 0]), 1e-3 * np.cos(X[:, 1])])
    model = LASNRegressor(300, epsilon=1e-4, dtype="float32", random_state=0).fit(X, y)
    expected = exact_scores(model, X)
    error = np.abs(model.predict(X) - expected).max(axis=0)
    assert np.all(error <= 1e-4 * np.abs(expected).max(axis=0))


def test_float32_stays_where_it_will_do(place, rng):
    L = rng.normal(size=(200, 5))
    mild, wild = np.ones((200, 1)), np.full((200, 1), 1e6)
    wild[::2] = -1e6
    wild = wild[np.argsort(L[:, 0])]
    L = place.rows(L)
    assert prediction_columns(Kernel("rbf"), L, mild, np.float32).dtype == np.float32
    assert prediction_columns(Kernel("rbf", gamma=1e-4), L, wild, np.float32).dtype == np.float64
    assert prediction_columns(Kernel("rbf"), L, mild, np.float64).dtype == np.float64


def test_sums_are_the_first_to_be_had_in_float64(rng):
    L, X = rng.normal(size=(600, 5)), rng.normal(size=(2000, 5))
    kernel = Kernel("rbf", gamma=0.2)
    K, noise = kernel(L, L), rng.normal(size=(600, 1))
    kinds = []
    for ridge in np.geomspace(1.0, 1e-3, 13):  # coefficients grow from 20 to 10^4
        beta = np.linalg.solve(K + ridge * np.eye(len(L)), noise)
        columns, expected = prediction_columns(kernel, L, beta, np.float32), kernel(X, L) @ beta
        kinds.append((str(columns.dtype), columns.exact_sums))
        error = np.abs(columns.times(X, beta) - expected).max()
        assert error <= 1e-4 * np.abs(expected).max()
    order = [("float32", False), ("float32", True), ("float64", False)]
    assert sorted(set(kinds), key=kinds.index) == order


@pytest.mark.parametrize("c", [1, 3, 40])
def test_exact_sums_are_those_of_float64(rng, c):
    X, L = rng.normal(size=(5000, 4)), rng.normal(size=(300, 4))
    coef = 1e3 * rng.normal(size=(300, c))
    columns = Kernel("rbf").against(L, np.float32).with_exact_sums()
    expected = columns.matrix(X).astype(np.float64) @ coef
    np.testing.assert_allclose(columns.times(X, coef), expected, rtol=1e-7, atol=1e-9)


def test_no_rows_have_no_scores(place, rng):
    L = rng.normal(size=(20, 3))
    columns = Kernel("rbf").against(place.rows(L), np.float32)
    assert columns.times(place.rows(L[:0]), np.ones((20, 2))).shape == (0, 2)


def test_what_overflows_in_float32_is_predicted_in_float64(place, rng):
    L = place.rows(1e4 * rng.normal(size=(20, 3)))
    kernel = Kernel("polynomial", gamma=1.0, degree=6)
    assert prediction_columns(kernel, L, np.ones((20, 1)), np.float32).dtype == np.float64


@pytest.mark.parametrize("k", [1, 63, 64, 65, 300])
@pytest.mark.parametrize("c", [1, 3, 40])
def test_sums_over_groups_of_landmarks(place, rng, k, c):
    X, L = rng.normal(size=(50, 4)), rng.normal(size=(k, 4))
    coef = rng.normal(size=(k, c))
    columns = Kernel("rbf", gamma=0.1).against(place.rows(L), np.float32)
    expected = Kernel("rbf", gamma=0.1)(X, L) @ coef
    np.testing.assert_allclose(to_numpy(columns.times(place.rows(X), coef)), expected, atol=1e-4)

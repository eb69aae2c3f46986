"""Equal rows with equal targets are found, whatever their form, and merged where that pays."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from lasn import LASNClassifier, LASNRegressor, duplicates
from lasn.duplicates import distinct
from lasn.losses import SquaredHinge
from lasn.problem import Problem


def rows_of_few_kinds(n_rows, n_features=12, dtype=np.float32, seed=0):
    """Rows of zeros and ones, most of them zeros, so that many are equal and some are all zero."""
    rng = np.random.default_rng(seed)
    return (rng.random((n_rows, n_features)) < 0.2).astype(dtype)


def problem_of(X, targets, weight=None):
    targets = np.asarray(targets, dtype=float).reshape(X.shape[0], -1)
    groups = (targets[:, 0] > 0.0).astype(int)
    weight = np.ones(X.shape[0]) if weight is None else weight
    return Problem(X, targets, weight, groups, 1.0, SquaredHinge())


def merged_by_hand(X, targets, weight):
    """Every kind of row with its targets, and its weight."""
    totals: dict[bytes, float] = {}
    for row, target, one in zip(X.tolist(), targets.tolist(), weight, strict=True):
        key = str((row, target))
        totals[key] = totals.get(key, 0.0) + one
    return totals


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix, sp.csr_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_targets", [1, 3])
def test_every_equal_row_is_found(form, dtype, n_targets):
    rng = np.random.default_rng(1)
    X = rows_of_few_kinds(500, dtype=dtype)
    targets, weight = np.sign(rng.normal(size=(500, n_targets))), rng.random(500)
    merged = distinct(problem_of(form(X), targets, weight))
    kept = merged.X.toarray() if sp.issparse(merged.X) else merged.X
    expected = merged_by_hand(X, targets, weight)
    found = merged_by_hand(kept, merged.targets, merged.sample_weight)
    assert found.keys() == expected.keys()
    assert len(kept) == len(expected)
    assert_allclose([found[key] for key in expected], list(expected.values()))


def test_the_first_of_equal_rows_stays_where_it_was():
    X = np.array([[3.0], [1.0], [3.0], [2.0], [1.0]])
    merged = distinct(problem_of(X, np.ones(5)))
    assert_array_equal(merged.X[:, 0], [3.0, 1.0, 2.0])
    assert_array_equal(merged.sample_weight, [2.0, 2.0, 1.0])


def test_how_csr_rows_are_stored_makes_no_difference():
    """The same row with a stored zero, and with its values in another order."""
    X = sp.csr_matrix(
        (np.array([1.0, 2.0, 1.0, 0.0, 2.0, 2.0, 1.0]), [0, 3, 0, 1, 3, 3, 0], [0, 2, 5, 7]),
        shape=(3, 4),
    )
    merged = distinct(problem_of(X, np.ones(3)))
    assert merged.n_rows == 1
    assert_array_equal(merged.X.toarray(), [[1.0, 0.0, 0.0, 2.0]])
    assert X.nnz == 7  # the rows that were given stay as they are


def test_rows_whose_keys_are_equal_by_chance_are_compared(monkeypatch):
    monkeypatch.setattr(duplicates, "_keys", lambda X, targets: np.zeros(X.shape[0], dtype=int))
    X = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    for rows in (X, sp.csr_matrix(X)):
        merged = distinct(problem_of(rows, np.ones(4)))
        assert_array_equal(merged.sample_weight, [2.0, 1.0, 1.0])


def test_a_few_equal_rows_are_left_alone_and_a_sample_tells(monkeypatch):
    monkeypatch.setattr(duplicates, "_LOOKED_AT", 100)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 3))
    X[1] = X[0]
    few = problem_of(X, np.ones(1000))
    assert distinct(few, worth=1e-9).n_rows <= 1000
    many = problem_of(np.repeat(X[:40], 25, axis=0), np.ones(1000))
    assert distinct(many, worth=0.1).n_rows == 39
    monkeypatch.setattr(duplicates, "_owners", None)  # not looked at
    assert distinct(few, worth=0.1) is few


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("kernel", ["rbf", "polynomial"])
def test_repeated_rows_give_the_model_of_weighted_ones(form, kernel):
    X = np.unique(rows_of_few_kinds(600), axis=0)
    y = (X @ np.linspace(-1.0, 1.0, 12) > 0.0).astype(int)
    times = 1 + np.arange(len(X)) % 4
    common = {"landmarks": X[:100], "kernel": kernel, "gamma": 0.2, "tol": 1e-9}
    repeated = LASNClassifier(**common).fit(form(np.repeat(X, times, axis=0)), np.repeat(y, times))
    weighted = LASNClassifier(**common).fit(form(X), y, sample_weight=times)
    assert_allclose(repeated.coef_, weighted.coef_, atol=1e-5)
    # The work is that of the distinct rows.
    assert repeated.history_[-1]["rows"] == len(X)


def test_regressions_merge_rows_of_equal_targets_only():
    X = np.repeat(rows_of_few_kinds(40), 10, axis=0)
    same = LASNRegressor(landmarks=X[::10].repeat(3, axis=0), gamma=0.2).fit(X, X.sum(axis=1))
    assert same.history_[-1]["rows"] < 41
    noisy = X.sum(axis=1) + np.random.default_rng(0).normal(size=len(X))
    other = LASNRegressor(landmarks=X[::10].repeat(3, axis=0), gamma=0.2).fit(X, noisy)
    assert other.history_[-1]["rows"] == len(X)


def test_few_landmarks_are_not_worth_looking_for_equal_rows():
    X = np.repeat(rows_of_few_kinds(200), 5, axis=0)
    y = X[:, 0]
    few = LASNClassifier(20, random_state=0).fit(X, y)
    assert few.history_[-1]["rows"] == 1000


def test_as_many_landmarks_as_rows_are_asked_for_by_default():
    """The default k is that of the rows that were given, not of the distinct ones."""
    X = np.repeat(np.random.default_rng(0).normal(size=(3000, 4)), 5, axis=0)
    model = LASNClassifier(random_state=0).fit(X, X[:, 0] > 0.0)
    assert model.n_landmarks_ == int(np.ceil(np.sqrt(15_000)))
    assert model.history_[-1]["rows"] <= 3000

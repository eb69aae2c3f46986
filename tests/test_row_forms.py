"""Arrays and CSR change places where that makes a product cheaper, and nothing else changes."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from lasn import LASNClassifier, row_forms
from lasn.kernels import Kernel
from lasn.row_forms import add_product, fastest_form, packed, product_cost, write_product


def rows_with(stored, n_rows=400, n_features=300):
    """Rows of which each has about so many values that are not zero; one has none at all."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_features)) * (
        rng.random((n_rows, n_features)) * n_features < stored
    )
    X[3] = 0.0
    return X.astype(np.float32)


def test_few_values_are_packed_and_many_unpacked():
    few, many = rows_with(10), rows_with(100)
    packed = fastest_form(few, 500)
    assert sp.issparse(packed)
    assert packed.has_sorted_indices
    assert_array_equal(packed.toarray(), few)
    assert fastest_form(many, 500) is many
    stored = sp.csr_matrix(few)
    assert fastest_form(stored, 500) is stored
    assert_array_equal(fastest_form(sp.csr_matrix(many), 500), many)


def test_what_costs_more_than_it_saves_is_left_alone():
    few = rows_with(10)
    assert fastest_form(few, 50) is few  # zeros would be sought for 50 results a row
    assert isinstance(fastest_form(few[:20], 500), np.ndarray)  # a few rows, at once
    narrow = few[:, :50]
    assert fastest_form(narrow, 500) is narrow
    large = sp.csr_matrix(np.ones((1500, 2000), dtype=np.float32))
    assert fastest_form(large, 500) is large  # 12 MB as an array


@pytest.mark.parametrize("n_rows", [400, 5000])
def test_a_whole_array_is_packed_or_stays(n_rows):
    few = rows_with(10, n_rows)
    assert sp.issparse(packed(few))
    assert packed(few).has_canonical_format
    assert_array_equal(packed(few).toarray(), few)
    for other in (rows_with(100, n_rows), few[:, :50], few[:20]):
        assert packed(other) is other


def test_an_array_of_very_many_features_is_packed(monkeypatch):
    """Of which a single row has more values than are looked at at a time."""
    monkeypatch.setattr(row_forms, "_VALUES_AT_A_TIME", 100)
    few = rows_with(10)
    assert_array_equal(packed(few).toarray(), few)


@pytest.mark.parametrize("landmarks", ["boundary", "kmeans", "uniform"])
@pytest.mark.parametrize("k", [50, 400])
def test_landmarks_of_a_packed_array_are_an_array(landmarks, k):
    X = rows_with(10)
    model = LASNClassifier(k, landmarks=landmarks, random_state=0).fit(X, X[:, 0] > 0.0)
    assert isinstance(model.landmarks_, np.ndarray)
    assert model.landmarks_.dtype == X.dtype


def test_kernel_functions_get_rows_as_they_came():
    X = rows_with(10)

    def linear(rows, others):
        assert isinstance(rows, np.ndarray)
        return rows @ others.T

    LASNClassifier(50, kernel=linear, random_state=0).fit(X, X[:, 0] > 0.0)


@pytest.mark.parametrize("with_scipys_own", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_are_added_to_what_is_there(with_scipys_own, dtype, monkeypatch):
    if not with_scipys_own:
        monkeypatch.setattr(row_forms, "_sparsetools", lambda: None)
    rows = sp.csr_matrix(rows_with(10).astype(dtype))
    columns = np.random.default_rng(0).normal(size=(300, 7)).astype(dtype)
    everything = np.ones((500, 7), dtype=dtype)
    add_product(rows, columns, everything[50:450])
    assert_allclose(everything[50:450], 1.0 + rows.toarray() @ columns, rtol=1e-5, atol=1e-5)
    assert np.all(everything[:50] == 1.0)
    assert np.all(everything[450:] == 1.0)
    add_product(rows, sp.csr_matrix(columns), everything[50:450])
    assert_allclose(everything[50:450], 1.0 + 2.0 * (rows @ columns), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("way", ["scikit-learn's", "many threads", "an older scikit-learn"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_of_sparse_rows_and_columns_are_written(way, dtype, monkeypatch):
    if way == "many threads":
        monkeypatch.setattr(row_forms, "stretch", lambda: 4)
    elif way == "an older scikit-learn":
        monkeypatch.setattr(row_forms, "_scikit_learns_product", lambda: None)
    rows = sp.csr_matrix(rows_with(10).astype(dtype))
    columns = sp.csr_matrix(rows_with(20, n_rows=60).astype(dtype).T)
    everything = np.ones((500, 60), dtype=dtype)
    write_product(rows, columns, everything[50:450])
    assert_allclose(everything[50:450], (rows @ columns).toarray(), rtol=1e-5, atol=1e-5)
    assert np.all(everything[:50] == 1.0)
    assert np.all(everything[450:] == 1.0)


def test_rows_that_are_not_contiguous():
    X = np.asfortranarray(rows_with(10))
    assert_array_equal(fastest_form(X, 500).toarray(), X)
    assert_array_equal(fastest_form(X[::2], 500).toarray(), X[::2])


def test_the_cost_of_a_product_is_that_of_its_form():
    few, many = rows_with(10), rows_with(100)
    assert product_cost(many, 500) == product_cost(sp.csr_matrix(many), 500) == 300
    assert product_cost(sp.csr_matrix(few), 500) < product_cost(few, 500) < 300


@pytest.mark.parametrize("kernel", ["rbf", "polynomial", "tanh", "linear", "laplacian"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_kernel_values_do_not_depend_on_the_form(kernel, dtype):
    X, landmarks = rows_with(10).astype(dtype), rows_with(60, n_rows=500).astype(dtype)
    columns = Kernel(kernel, gamma=0.02).against(landmarks, np.dtype(dtype))
    expected = Kernel(kernel, gamma=0.02)(X.astype(float), landmarks.astype(float))
    tolerance = {"rtol": 2e-5, "atol": 2e-5} if dtype == np.float32 else {"rtol": 1e-10}
    for rows in (X, sp.csr_matrix(X)):
        assert_allclose(columns.matrix(rows), expected, **tolerance)


def test_an_array_of_zeros_mostly_gives_the_model_of_the_same_rows_as_csr():
    X = rows_with(12, n_rows=1500)
    y = X[:, :40].sum(axis=1) > 0.0
    dense = LASNClassifier(200, tol=1e-8, random_state=0).fit(X, y)
    assert isinstance(dense.landmarks_, np.ndarray)
    sparse = LASNClassifier(200, tol=1e-8, random_state=0).fit(sp.csr_matrix(X), y)
    assert_allclose(
        dense.decision_function(X), sparse.decision_function(sp.csr_matrix(X)), atol=1e-4
    )

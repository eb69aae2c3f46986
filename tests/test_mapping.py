"""K M, with or without zeros to skip in M."""

import pickle

import numpy as np
import pytest

from lasn import mapping
from lasn.features import mapping_matrix
from lasn.kernels import Kernel
from lasn.mapping import TimesMapping


@pytest.fixture(params=["BLAS", "NumPy"])
def way(request, monkeypatch):
    """The triangular product, and the way of a SciPy that does not show it."""
    if request.param == "NumPy":
        monkeypatch.setattr(mapping, "times_upper", lambda dtype: None)
    return request.param


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [100, 600])  # by the spectrum and by Cholesky
def test_products_are_those_of_the_whole_matrix(k, dtype, way, rng):
    landmarks, X = rng.normal(size=(k, 5)), rng.normal(size=(70, 5))
    kernel = Kernel("rbf", gamma=0.2)
    M = mapping_matrix(kernel(landmarks, landmarks), dtype=dtype)
    K = kernel(X, landmarks).astype(dtype)
    to_features = pickle.loads(pickle.dumps(TimesMapping(M)))
    assert to_features.is_triangle == (k == 600)
    rounding = np.finfo(dtype).eps * k * abs(M).max()
    before = K.copy()
    np.testing.assert_allclose(to_features(K), K.astype(float) @ M, atol=rounding)
    np.testing.assert_array_equal(K, before)
    wider = np.full((70, k + 3), 7.0, dtype=dtype)
    to_features(K, out=wider[:, : M.shape[1]])
    np.testing.assert_array_equal(wider[:, : M.shape[1]], to_features(K))
    np.testing.assert_array_equal(wider[:, M.shape[1] :], 7.0)


@pytest.mark.parametrize("n_rows", [0, 1, 9])
def test_rows_that_nobody_needs_any_more_become_the_product(n_rows, rng):
    M = np.triu(rng.normal(size=(80, 80)))
    K = rng.normal(size=(n_rows, 80))
    expected = K @ M
    F = TimesMapping(M)(K, own=True)
    assert F is K
    np.testing.assert_allclose(F, expected, atol=1e-12)
    by_columns = np.asfortranarray(rng.normal(size=(9, 80)))
    expected = by_columns @ M
    np.testing.assert_allclose(TimesMapping(M)(by_columns, own=True), expected, atol=1e-12)
    np.testing.assert_allclose(TimesMapping(np.asfortranarray(M))(K @ M), K @ M @ M, atol=1e-9)


def test_only_the_triangle_is_read(rng):
    M = np.triu(rng.normal(size=(200, 200)))
    to_features = TimesMapping(M)
    expected = to_features(K := rng.normal(size=(9, 200)))
    to_features.M[np.tril_indices(200, -1)] = np.nan
    np.testing.assert_array_equal(to_features(K), expected)


@pytest.mark.parametrize("place", [(1, 0), (599, 0), (599, 300), (300, 10), (64, 63), (65, 64)])
def test_one_number_below_the_triangle_is_not_lost(place, rng):
    M = np.triu(rng.normal(size=(600, 600)))
    M[place] = 3.0
    K = rng.normal(size=(9, 600))
    assert not TimesMapping(M).is_triangle
    np.testing.assert_allclose(TimesMapping(M)(K), K @ M, atol=1e-9)


def test_other_types_of_numbers_are_multiplied_as_they_are(rng):
    M = np.triu(rng.normal(size=(100, 100)))
    K = rng.normal(size=(9, 100)).astype(np.float32)
    np.testing.assert_allclose(TimesMapping(M)(K), K @ M, atol=1e-9)

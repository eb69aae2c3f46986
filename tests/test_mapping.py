"""K M, with or without zeros to skip in M."""

import pickle

import numpy as np
import pytest

from lasn.features import mapping_matrix
from lasn.kernels import Kernel
from lasn.mapping import TimesMapping


@pytest.mark.parametrize("k", [100, 600])  # by the spectrum and by Cholesky
def test_products_are_those_of_the_whole_matrix(k, rng):
    landmarks, X = rng.normal(size=(k, 5)), rng.normal(size=(70, 5))
    kernel = Kernel("rbf", gamma=0.2)
    M = mapping_matrix(kernel(landmarks, landmarks))
    K = kernel(X, landmarks)
    to_features = pickle.loads(pickle.dumps(TimesMapping(M)))
    assert (to_features.slices is None) == (k == 100)
    np.testing.assert_allclose(to_features(K), K @ M, atol=1e-9 * abs(M).max())
    wider = np.full((70, k + 3), 7.0)
    to_features(K, out=wider[:, : M.shape[1]])
    np.testing.assert_array_equal(wider[:, : M.shape[1]], to_features(K))
    np.testing.assert_array_equal(wider[:, M.shape[1] :], 7.0)


def test_a_triangle_costs_little_more_than_half(rng):
    M = np.triu(rng.normal(size=(2000, 2000)))
    slices = TimesMapping(M).slices
    assert sum(part.stop * (part.stop - part.start) for part in slices) < 0.6 * M.size
    assert TimesMapping(M + 1.0).slices is None


@pytest.mark.parametrize("place", [(1, 0), (599, 0), (599, 300), (300, 10)])
def test_one_number_below_the_triangle_is_not_lost(place, rng):
    M = np.triu(rng.normal(size=(600, 600)))
    M[place] = 3.0
    K = rng.normal(size=(9, 600))
    np.testing.assert_allclose(TimesMapping(M)(K), K @ M, atol=1e-9)

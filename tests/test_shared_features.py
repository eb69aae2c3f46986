"""Features that a search shares: where all rows are landmarks, they are those of K_ll."""

import numpy as np
import pytest

from lasn.kernels import Kernel
from lasn.landmarks import distinct_rows
from lasn.shared_features import SharedFeatures


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n_rows", [60, 700])  # by the spectrum and by Cholesky
def test_rows_that_are_all_landmarks_have_the_features_of_those(n_rows, dtype, rng):
    X = rng.normal(size=(n_rows, 4))
    X[5] = X[17]
    kernel = Kernel("rbf", gamma=0.7)
    shared = SharedFeatures(X, kernel, distinct_rows(X), np.dtype(dtype), "auto", None, n_gammas=3)
    found = shared.at(0.2, n_problems=n_rows)
    F = np.vstack(found.blocks.run(lambda block: (block.matrix(), ()))[0])
    expected = Kernel("rbf", gamma=0.2)(X, X)
    tolerance = 1e-5 if dtype == "float32" else 1e-8
    np.testing.assert_allclose(F @ F.T, expected, atol=tolerance)
    np.testing.assert_allclose(np.tril(found.inner), np.tril(expected), atol=tolerance)
    function = shared.function(np.vstack([np.eye(F.shape[1])[:, :3], np.zeros((1, 3))]))
    again = Kernel("rbf", gamma=0.2)(X, shared.landmarks) @ function.beta
    np.testing.assert_allclose(again, F[:, :3], atol=100 * tolerance)

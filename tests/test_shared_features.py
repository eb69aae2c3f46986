"""Features that a search shares: F, K with M beside it, or F F^T, whichever costs least."""

import numpy as np
import pytest

from lasn.kernels import Kernel
from lasn.landmarks import distinct_rows
from lasn.losses import SquaredHinge
from lasn.objective import RegularizedLoss
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


@pytest.mark.parametrize(("n_problems", "n_costs"), [(5, 1), (5, 4), (50, 1)])
def test_features_are_multiplied_out_for_many_problems_only(n_problems, n_costs, rng):
    """A few of them, with one C, need K and M; they give the same scores."""
    X = rng.normal(size=(900, 3))
    kernel = Kernel("rbf", gamma=0.3)
    shared = SharedFeatures(X, kernel, X[:20], np.dtype(float), "auto", None, n_gammas=1)
    found = shared.at(0.3, n_problems, n_costs)
    few = n_problems * n_costs == 5
    assert (found.mapping is not None) == few
    assert shared.products == (0 if few else len(X))
    W = rng.normal(size=(shared.mapping.shape[1] + 1, 2))
    targets = np.ones((len(X), 2))
    objective = RegularizedLoss(
        found.blocks, found.mapping, SquaredHinge(), targets, np.ones(len(X)), inner=found.inner
    )
    function = shared.function(W)
    expected = kernel(X, X[:20]) @ function.beta + function.bias
    np.testing.assert_allclose(objective.scores(W), expected, atol=1e-9)

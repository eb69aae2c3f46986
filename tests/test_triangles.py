"""Triangular matrices: BLAS's functions through their addresses, and factors in halves."""

import numpy as np
import pytest
from scipy.linalg import LinAlgError, solve_triangular
from threadpoolctl import threadpool_limits

from lasn import triangles
from lasn.triangles import inverse_factor, over_lower_transposed, times_upper_transposed


@pytest.fixture(params=["BLAS", "LAPACK alone"])
def way(request, monkeypatch):
    """As here, and as with a SciPy that does not show its BLAS."""
    if request.param == "LAPACK alone":
        monkeypatch.setattr(triangles, "_function", lambda *given: None)


def positive(k, rng):
    F = rng.normal(size=(k, k + 5))
    return F @ F.T + np.eye(k)


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("k", [1, 2, 100, 257, 601, 1100])
def test_an_inverse_factor_is_one_and_leaves_the_factor(k, n_threads, way, rng):
    A = positive(k, rng)
    given = A.copy()
    with threadpool_limits(n_threads, "blas"):
        M = inverse_factor(given)
    np.testing.assert_array_equal(np.tril(M, -1), 0.0)
    np.testing.assert_allclose(M.T @ A @ M, np.eye(k), atol=1e-8)
    np.testing.assert_allclose(np.tril(given), np.linalg.cholesky(A), atol=1e-8 * abs(A).max())


@pytest.mark.parametrize("k", [50, 700])
@pytest.mark.parametrize("place", [0, -1])
def test_what_is_not_positive_definite_is_told(k, place, way, rng):
    A = positive(k, rng)
    A[place, place] = -1.0
    with pytest.raises(LinAlgError, match="not positive definite"):
        inverse_factor(A)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_rows", [0, 1, 9])
def test_parts_of_larger_arrays_are_changed_and_nothing_beside_them(dtype, n_rows, rng):
    whole = rng.normal(size=(40, 40)).astype(dtype) + 9.0 * np.eye(40, dtype=dtype)
    T = whole[10:30, 10:30]
    around = rng.normal(size=(n_rows + 2, 30)).astype(dtype)
    expected = {
        times_upper_transposed: lambda B: B @ np.triu(T).T,
        over_lower_transposed: lambda B: solve_triangular(T, B.T, lower=True).T,
    }
    for find, result in expected.items():
        given = around.copy()
        find(np.dtype(dtype))(T, given[1:-1, 5:25])
        np.testing.assert_allclose(given[1:-1, 5:25], result(around[1:-1, 5:25]), rtol=1e-4)
        given[1:-1, 5:25] = around[1:-1, 5:25]
        np.testing.assert_array_equal(given, around)

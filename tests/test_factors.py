"""Solutions by Cholesky factors: as exact as was asked for, whatever their type."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import lasn.factors
from lasn.factors import refined_solution
from lasn.threads import n_threads, one_thread, parallel_products, serial_products


def symmetric(n, condition, dtype, rng):
    """A matrix with these eigenvalues' spread, its upper triangle spoilt, and the whole of it."""
    Q = np.linalg.qr(rng.normal(size=(n, n)))[0]
    whole = ((Q * np.geomspace(1.0, condition, n)) @ Q.T).astype(dtype)
    whole = np.tril(whole) + np.tril(whole, -1).T
    return np.tril(whole) + np.triu(np.full((n, n), 7.0, dtype), 1), whole.astype(float)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("condition", [1e2, 1e5])
def test_corrections_reach_what_is_asked_for(dtype, condition, rng):
    lower, whole = symmetric(60, condition, dtype, rng)
    b = rng.normal(size=60)
    x = refined_solution(lower, b, 1e-5)
    assert np.linalg.norm(b - whole @ x) <= 2e-5


def test_what_float32_cannot_reach_is_solved_in_float64(rng, monkeypatch):
    types = []
    factorize = lasn.factors.factorize
    monkeypatch.setattr(
        lasn.factors, "factorize", lambda V: (types.append(V.dtype), factorize(V))[1]
    )
    lower, whole = symmetric(60, 1e6, "float32", rng)
    b = rng.normal(size=60)
    x = refined_solution(lower, b, 1e-12)
    assert types == [np.float32, np.float64]
    np.testing.assert_allclose(whole @ x, b, atol=1e-8)


def test_a_large_factor_may_use_all_threads_unless_others_work_beside_it():
    def threads_of_blas():
        from lasn.threads import _blas

        return min(library["num_threads"] for library in _blas().info())

    with threadpool_limits(2, "blas"):
        outside = n_threads()
        with serial_products():
            assert threads_of_blas() == 1
            with parallel_products():
                assert threads_of_blas() == outside
            assert threads_of_blas() == 1
            with one_thread(), parallel_products():
                assert threads_of_blas() == 1

"""Solutions by Cholesky factors: as exact as was asked for, whatever their type."""

import numpy as np
import pytest

import lasn.factors
from lasn.factors import factorize, refined_solution


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


@pytest.mark.parametrize("own", [False, True])
def test_a_factor_in_the_place_of_its_matrix_is_the_same(own, rng):
    _, V = symmetric(60, 1e3, "float64", rng)
    b = rng.normal(size=(60, 1))
    given = V.copy()
    np.testing.assert_allclose(V @ factorize(given, own=own).solve(b), b, atol=1e-9)
    if not own:
        np.testing.assert_array_equal(given, V)


def test_a_matrix_that_rounding_has_spoilt_is_shifted_in_its_place_too(rng):
    """LAPACK has written over a part of it when it finds that out."""
    F = rng.normal(size=(60, 40))
    V = F @ F.T
    b = F @ rng.normal(size=(40, 1))
    factor, in_place = factorize(V), factorize(V.copy(), own=True)
    assert factor.shift == in_place.shift > 0.0
    np.testing.assert_allclose(in_place.solve(b), factor.solve(b), rtol=1e-6)


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rounding_that_hides_the_least_eigenvalue_is_added(dtype, own, rng):
    """Else a solution would be noise in the directions where V is the identity."""
    rounding = float(np.finfo(dtype).eps)
    F = rng.normal(size=(20, 60)) * np.sqrt(10.0 / rounding)
    V = (np.eye(60) + F.T @ F).astype(dtype)
    factor = factorize(V.copy(), own=own, least=1.0)
    assert factor.shift >= rounding * V.diagonal().max()
    assert factorize(np.eye(60, dtype=dtype) * 1e3, own=own, least=1.0).shift == 0.0

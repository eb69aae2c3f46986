"""Kernels: values, containers, digits, and the rules for gamma."""

import numpy as np
import pytest
import scipy.sparse as sp
from forms import SPARSE_FORMS
from sklearn.metrics import pairwise

from lasn.arrays import to_numpy
from lasn.gamma import resolve_gamma
from lasn.kernels import KERNEL_NAMES, Kernel, resolve_kernel_name, row_norms_squared

PAIRWISE = {
    "rbf": lambda X, L: pairwise.rbf_kernel(X, L, gamma=0.3),
    "polynomial": lambda X, L: pairwise.polynomial_kernel(X, L, degree=2, gamma=0.3, coef0=0.5),
    "tanh": lambda X, L: pairwise.sigmoid_kernel(X, L, gamma=0.3, coef0=0.5),
    "laplacian": lambda X, L: pairwise.laplacian_kernel(X, L, gamma=0.3),
    "linear": lambda X, L: pairwise.linear_kernel(X, L),
}


@pytest.fixture(params=PAIRWISE)
def kernel(request):
    return Kernel(request.param, gamma=0.3, degree=2, coef0=0.5)


def test_every_named_kernel_is_compared():
    assert set(PAIRWISE) == set(KERNEL_NAMES)


def test_values_are_those_of_scikit_learn(place, kernel, three_classes):
    X, _ = three_classes
    expected = PAIRWISE[kernel.name](X, X[:20])
    found = to_numpy(kernel(place.rows(X), place.rows(X[:20])))
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("synonym", ["poly", "sigmoid"])
def test_scikit_learn_names_are_understood(synonym, binary):
    X, _ = binary
    name = {"poly": "polynomial", "sigmoid": "tanh"}[synonym]
    assert resolve_kernel_name(synonym) == name
    np.testing.assert_array_equal(Kernel(synonym)(X, X[:3]), Kernel(name)(X, X[:3]))


@pytest.mark.parametrize("landmarks", ["dense landmarks", "sparse landmarks"])
@pytest.mark.parametrize("form", SPARSE_FORMS)
def test_sparse_rows_have_the_values_of_dense_rows(kernel, three_classes, form, landmarks):
    X, _ = three_classes
    L = SPARSE_FORMS[form](X[:20]) if landmarks == "sparse landmarks" else X[:20]
    np.testing.assert_allclose(
        kernel(SPARSE_FORMS[form](X), L), kernel(X, X[:20]), rtol=1e-10, atol=1e-12
    )


@pytest.mark.parametrize("compact_bytes", [0, 1 << 20])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_wide_sparse_rows_have_features_that_no_landmark_has(
    kernel, rng, monkeypatch, compact_bytes, dtype
):
    """Landmarks that have few features are multiplied as an array of those, others as they are."""
    monkeypatch.setattr("lasn.kernels._COMPACT_BYTES", compact_bytes)
    X = sp.random(60, 500, density=0.02, format="csr", random_state=rng, dtype=dtype)
    L = X[:5]
    assert len(np.unique(L.indices)) < len(np.unique(X.indices))
    expected = kernel(X.toarray(), L.toarray(), dtype)
    np.testing.assert_allclose(kernel(X, L, dtype), expected, rtol=1e-5, atol=1e-6)


def test_dense_rows_meet_sparse_landmarks(kernel, three_classes):
    X, _ = three_classes
    np.testing.assert_allclose(
        kernel(X, sp.csr_matrix(X[:20])), kernel(X, X[:20]), rtol=1e-10, atol=1e-12
    )


@pytest.mark.parametrize("container", [np.asarray, sp.csr_matrix])
def test_float32_has_float32_digits(place, kernel, three_classes, container):
    X, _ = three_classes
    rows, landmarks = container(X.astype(np.float32)), container(X[:20])
    values = to_numpy(kernel(place.rows(rows), place.rows(landmarks), dtype=np.float32))
    assert values.dtype == np.float32
    np.testing.assert_allclose(values, kernel(X, X[:20]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("n_rows", [1, 63, 64, 65, 20_000])
def test_slices_over_threads_cover_every_row(n_rows, rng):
    X = rng.normal(size=(n_rows, 3))
    columns = Kernel("rbf", gamma=0.5).against(X[:1])
    expected = np.exp(-0.5 * np.sum((X - X[0]) ** 2, axis=1, keepdims=True))
    np.testing.assert_allclose(columns.matrix(X), expected, atol=1e-12)
    np.testing.assert_allclose(columns.times(X, np.array([[2.0]])), 2.0 * expected, atol=1e-12)


def test_matrix_writes_into_the_array_it_is_given(kernel, binary):
    X, _ = binary
    out = np.empty((len(X), 7))
    assert kernel.against(X[:7]).matrix(X, out=out) is out
    np.testing.assert_array_equal(out, kernel(X, X[:7]))


def test_rbf_in_float32_keeps_its_digits_far_from_the_origin(place, rng):
    X = rng.normal(size=(200, 4))
    L = X[:20]
    near = Kernel("rbf", gamma=0.3)(X, L)
    rows, landmarks = place.rows(X + 1e4), place.rows(L + 1e4)
    far = to_numpy(Kernel("rbf", gamma=0.3)(rows, landmarks, dtype=np.float32))
    np.testing.assert_allclose(far, near, atol=1e-4)


def test_rbf_of_a_row_with_itself_is_one(three_classes):
    X, _ = three_classes
    for rows in (X, sp.csr_matrix(X)):
        for gamma in (1e-12, 1.0, 1e6):
            diagonal = np.diag(Kernel("rbf", gamma=gamma)(rows, rows))
            np.testing.assert_allclose(diagonal, 1.0, atol=1e-6)


@pytest.mark.parametrize("container", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("gamma", [1.0, 1e6, 1e12])
def test_rbf_in_float32_is_not_above_one(binary, gamma, container):
    X = container(binary[0].astype(np.float32))
    assert np.max(Kernel("rbf", gamma=gamma)(X, X, dtype=np.float32)) <= 1.0 + 1e-5


@pytest.mark.parametrize("container", [np.asarray, sp.csr_matrix])
def test_callable_kernel_gets_rows_and_landmarks_as_they_came(three_classes, container):
    X = container(three_classes[0])
    seen = []

    def cosine(rows, landmarks):
        seen.append((type(rows), landmarks.shape))
        return pairwise.cosine_similarity(rows, landmarks)

    values = Kernel(cosine)(X, X[:20])
    np.testing.assert_allclose(values, pairwise.cosine_similarity(X, X[:20]), atol=1e-12)
    assert set(seen) == {(type(X), (20, 64))}


def test_callable_kernel_may_return_a_sparse_matrix(three_classes):
    X, _ = three_classes
    values = Kernel(lambda rows, L: sp.csr_matrix(rows @ L.T))(X, X[:20])
    np.testing.assert_allclose(values, X @ X[:20].T, atol=1e-12)


@pytest.mark.parametrize(
    "wrong", [lambda X, L: X @ X.T, lambda X, L: (X @ L.T)[:, 0], lambda X, L: 1.0]
)
def test_callable_kernel_of_wrong_shape_is_told_the_right_one(binary, wrong):
    X, _ = binary
    with pytest.raises(
        ValueError, match=r"kernel function returned .* must return shape \(50, 3\)"
    ):
        Kernel(wrong)(X[:50], X[:3])


def test_overflow_says_what_to_do(binary):
    X, _ = binary
    with pytest.raises(ValueError, match=r"polynomial.*degree=40.*overflows.*Scale the features"):
        Kernel("polynomial", gamma=1.0, degree=40)(1e10 * X, X)


@pytest.mark.parametrize("name", ["gaussian", "", None, 3])
def test_unknown_kernel_lists_the_known_ones(name):
    with pytest.raises(ValueError, match=rf"kernel={name!r}.*rbf, polynomial, tanh, laplacian"):
        resolve_kernel_name(name)


@pytest.mark.parametrize("container", [np.asarray, sp.csr_matrix])
def test_row_norms_are_squared(three_classes, container):
    X, _ = three_classes
    np.testing.assert_allclose(row_norms_squared(container(X)), np.sum(X**2, axis=1))


@pytest.mark.parametrize("container", [np.asarray, sp.csr_matrix])
def test_gamma_rules(three_classes, container):
    X, _ = three_classes
    rows = container(X)
    assert resolve_gamma(0.7, rows) == 0.7
    assert resolve_gamma("auto", rows) == pytest.approx(1.0 / 64)
    assert resolve_gamma("scale", rows) == pytest.approx(1.0 / (64 * X.var()))
    assert resolve_gamma("variance", rows) == pytest.approx(1.0 / np.trace(np.cov(X.T, ddof=0)))


@pytest.mark.parametrize("container", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("rule", ["variance", "scale"])
def test_gamma_counts_a_row_as_often_as_its_weight(place, three_classes, rule, container, rng):
    X, _ = three_classes
    weight = rng.randint(0, 3, size=len(X))
    if container is np.asarray:  # of sparse rows, moments are the CPU's
        weighted = resolve_gamma(rule, place.rows(X), place.array(weight))
    else:
        weighted = resolve_gamma(rule, container(X), weight)
    assert weighted == pytest.approx(resolve_gamma(rule, container(np.repeat(X, weight, axis=0))))


@pytest.mark.parametrize("container", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("constant", [0.0, 0.1, 1e6])
def test_gamma_of_constant_data_is_one(constant, container):
    assert resolve_gamma("variance", container(np.full((50, 3), constant))) == 1.0


def test_gamma_keeps_its_digits_far_from_the_origin(place, binary):
    X, _ = binary
    weight = place.array(np.ones(len(X)))
    assert resolve_gamma("variance", place.rows(X + 1e8), weight) == pytest.approx(
        resolve_gamma("variance", X), rel=1e-6
    )


def test_gamma_is_summed_in_float64(rng):
    X = rng.normal(size=(20_000, 2)).astype(np.float32) + np.float32(100.0)
    assert resolve_gamma("variance", X) == pytest.approx(
        resolve_gamma("variance", X.astype(np.float64)), rel=1e-10
    )

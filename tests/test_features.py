"""The mapping matrix and its eigenvalue cut, and NystroemMap as a transformer."""

import numpy as np
import pytest
import scipy.sparse as sp
from forms import FORMS, data_frame
from places import every_place
from sklearn.decomposition import PCA
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lasn import NystroemMap
from lasn.arrays import to_numpy
from lasn.features import (
    PAPER_CUTOFF,
    best_rank_k_map,
    mapping_among,
    mapping_matrix,
    spectral_factor,
)
from lasn.kernels import Kernel

pytestmark = every_place


def random_gram(rank, size, rng):
    factor = rng.normal(size=(size, rank))
    return factor @ factor.T


def test_mapping_is_a_root_of_the_inverse(place, rng):
    K = random_gram(10, 10, rng)
    M = to_numpy(mapping_matrix(place.array(K)))
    np.testing.assert_allclose(M @ M.T, np.linalg.inv(K), rtol=1e-6)


def test_columns_are_ordered_by_falling_eigenvalue(place, rng):
    M = to_numpy(mapping_matrix(place.array(random_gram(10, 10, rng))))
    assert np.all(np.diff(np.linalg.norm(M, axis=0)) > 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rank_deficiency_is_cut(place, rng, dtype):
    K = random_gram(4, 12, rng)
    M = to_numpy(mapping_matrix(place.array(K), dtype=dtype))
    assert M.shape == (12, 4)
    np.testing.assert_allclose(M @ M.T, np.linalg.pinv(K, rcond=1e-9), atol=1e-9)


def test_duplicate_landmarks_add_no_column(place, binary):
    L = binary[0][:10]
    kernel = Kernel("rbf", gamma=0.3)
    once = to_numpy(mapping_matrix(place.array(kernel(L, L))))
    doubled = np.vstack([L, L[:4]])
    twice = to_numpy(mapping_matrix(place.array(kernel(doubled, doubled))))
    assert once.shape == (10, 10)
    assert twice.shape == (14, 10)
    X = binary[0]
    F, G = kernel(X, L) @ once, kernel(X, doubled) @ twice
    np.testing.assert_allclose(G @ G.T, F @ F.T, atol=1e-9)


def test_negative_eigenvalues_of_tanh_are_cut(place, binary):
    L = binary[0][:40]
    K = Kernel("tanh", gamma=0.3, coef0=-1.0)(L, L)
    values, vectors = np.linalg.eigh(K)
    positive = values > 1e-12
    assert values[0] < -0.1
    M = to_numpy(mapping_matrix(place.array(K)))
    assert M.shape == (40, np.count_nonzero(positive))
    kept = vectors[:, positive]
    np.testing.assert_allclose(K @ M @ M.T @ K, (kept * values[positive]) @ kept.T, atol=1e-9)


def test_cutoff_of_the_paper_is_absolute(place):
    assert PAPER_CUTOFF == 1e-6
    K = place.array(np.diag([1e3, 2e-6, 0.5e-6]))
    assert mapping_matrix(K, cutoff=PAPER_CUTOFF).shape == (3, 2)
    assert mapping_matrix(1e6 * K, cutoff=PAPER_CUTOFF).shape == (3, 3)


@pytest.mark.parametrize(("dtype", "columns"), [(np.float32, 2), (np.float64, 3)])
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_automatic_cutoff_follows_scale_and_dtype(place, dtype, columns, scale):
    K = place.array(scale * np.diag([1.0, 1e-5, 1e-9, 1e-17]))
    assert mapping_matrix(K, dtype=dtype).shape == (4, columns)


def test_cholesky_in_float32_gives_the_same_kernel_as_the_spectrum(place, rng):
    """300 landmarks, well conditioned: M differs, F F^T agrees to what float32 can tell."""
    X = rng.normal(size=(500, 6))
    L = X[:300]
    kernel = Kernel("rbf", gamma=0.5)
    K_ll, K = kernel(L, L), kernel(X, L)
    M = to_numpy(mapping_matrix(place.array(K_ll), dtype=np.float32))
    np.testing.assert_array_equal(M, np.triu(M))
    cholesky = K @ M
    spectral = K @ mapping_matrix(K_ll, dtype=np.float64)
    np.testing.assert_allclose(cholesky @ cholesky.T, spectral @ spectral.T, atol=1e-4)


@pytest.mark.parametrize("name", ["rbf", "tanh"])  # the other one has no Cholesky factor
def test_mapping_in_the_memory_of_kernel_values_is_the_same(place, rng, name):
    L = rng.normal(size=(300, 6))
    kernel = Kernel(name, gamma=0.5, coef0=-1.0)
    rows = place.array(L)
    M = to_numpy(mapping_among(kernel, rows, dtype=np.float32))
    expected = to_numpy(mapping_matrix(kernel(rows, rows), dtype=np.float32))
    np.testing.assert_array_equal(M, expected)


@pytest.mark.parametrize("kernel", [Kernel("rbf", gamma=1e-3), Kernel("tanh", coef0=-1.0)])
def test_many_float32_landmarks_of_bad_condition_give_finite_features(place, rng, kernel):
    L = np.repeat(rng.normal(size=(150, 3)), 2, axis=0)
    K_ll = kernel(L, L)
    F = K_ll @ to_numpy(mapping_matrix(place.array(K_ll), dtype=np.float32))
    positive = spectral_factor(K_ll)
    np.testing.assert_allclose(F @ F.T, positive @ positive.T, atol=1e-3 * np.abs(K_ll).max())


def test_landmark_that_is_there_twice_has_no_direction_of_its_own(place, rng):
    """What another row like it leaves is the shift, and float32 would divide rounding by it."""
    L = rng.normal(size=(150, 6))
    kernel, X = Kernel("rbf", gamma=0.5), rng.normal(size=(200, 6))
    doubled = np.vstack([L, L[:40]])
    M = to_numpy(mapping_matrix(place.array(kernel(doubled, doubled)), dtype=np.float32))
    np.testing.assert_array_equal(np.flatnonzero(~M.any(axis=0)), np.arange(150, 190))
    assert np.abs(M).max() < 100.0
    once = kernel(X, L) @ to_numpy(mapping_matrix(place.array(kernel(L, L)), dtype=np.float32))
    twice = kernel(X, doubled).astype(np.float32) @ M
    np.testing.assert_allclose(twice @ twice.T, once @ once.T, atol=1e-4)


def test_kernel_without_positive_eigenvalues_is_an_error(place):
    for K in (np.zeros((5, 5)), -np.eye(5)):
        with pytest.raises(ValueError, match=r"No eigenvalue .* 5 landmarks .*kernel parameters"):
            mapping_matrix(place.array(K))


def test_best_rank_k_of_full_rank_is_the_kernel(rng):
    K = random_gram(10, 10, rng)
    F = best_rank_k_map(K, 10)
    np.testing.assert_allclose(F @ F.T, K, atol=1e-9)


@pytest.mark.parametrize("kernel", ["rbf", "polynomial", "laplacian", "linear"])
def test_map_is_the_nystroem_approximation(three_classes, kernel):
    """F F^T = K_xl K_ll^+ K_lx."""
    X, _ = three_classes
    features = NystroemMap(kernel=kernel, gamma=0.1, landmarks=X[:30]).fit(X)
    F = features.transform(X)
    K = Kernel(kernel, gamma=0.1)
    K_xl = K(X, X[:30])
    expected = K_xl @ np.linalg.pinv(K(X[:30], X[:30]), rcond=1e-14) @ K_xl.T
    np.testing.assert_allclose(F @ F.T, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())


def test_all_rows_agree_with_nystroem_of_scikit_learn(binary):
    X, _ = binary
    F = NystroemMap(len(X), gamma=0.2).fit_transform(X)
    G = Nystroem(gamma=0.2, n_components=len(X), random_state=0).fit_transform(X)
    np.testing.assert_allclose(F @ F.T, G @ G.T, atol=1e-8)


@pytest.mark.parametrize("landmarks", ["kmeans", "uniform"])
def test_approximation_improves_with_the_number_of_landmarks(binary, landmarks):
    X, _ = binary
    errors = []
    for k in (2, 10, 50, 200):
        features = NystroemMap(k, landmarks=landmarks, random_state=0)
        F = features.fit_transform(X)
        errors.append(np.linalg.norm(Kernel("rbf", gamma=features.gamma_)(X, X) - F @ F.T))
    assert np.all(np.diff(errors) < 0)
    assert errors[-1] < 1e-8


@pytest.mark.parametrize("form", FORMS)
def test_map_of_every_container_is_the_same(three_classes, form):
    X, _ = three_classes
    settings = {"n_landmarks": 20, "random_state": 0}
    F = NystroemMap(**settings).fit_transform(X)
    G = NystroemMap(**settings).fit_transform(FORMS[form](X))
    np.testing.assert_allclose(G @ G.T, F @ F.T, atol=1e-5)


@pytest.mark.parametrize("container", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_map_keeps_the_dtype(three_classes, dtype, container):
    X = container(three_classes[0].astype(dtype))
    features = NystroemMap(20, random_state=0).fit(X)
    assert features.transform(X).dtype == dtype
    assert features.landmarks_.dtype == dtype


def test_integers_are_taken_as_float64(three_classes):
    X = (16 * three_classes[0]).astype(int)
    F = NystroemMap(20, random_state=0).fit_transform(X)
    assert F.dtype == np.float64
    np.testing.assert_array_equal(F, NystroemMap(20, random_state=0).fit_transform(1.0 * X))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_set_output_gives_frames(binary, library):
    pytest.importorskip(library)
    X, _ = binary
    names = [f"nystroemmap{column}" for column in range(7)]
    features = NystroemMap(7, random_state=0).set_output(transform=library)
    frame = features.fit_transform(X)
    assert type(frame).__module__.split(".")[0] == library
    assert list(frame.columns) == list(features.get_feature_names_out()) == names
    np.testing.assert_array_equal(frame.to_numpy(), NystroemMap(7, random_state=0).fit_transform(X))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_bring_their_feature_names(binary, library):
    X, _ = binary
    frame = data_frame(library, X, "abcde")
    features = NystroemMap(7, random_state=0).fit(frame)
    assert list(features.feature_names_in_) == list("abcde")
    np.testing.assert_array_equal(
        features.transform(frame), NystroemMap(7, random_state=0).fit(X).transform(X)
    )


def test_map_works_in_a_pipeline_and_takes_labels(three_classes):
    X, y = three_classes
    model = make_pipeline(
        StandardScaler(),
        NystroemMap(30, landmarks="class_kmeans", random_state=0),
        PCA(20),
        RidgeClassifier(),
    ).fit(X, y)
    assert model.score(X, y) > 0.98


def test_rank_deficient_map_counts_what_is_left(binary):
    X, _ = binary
    features = NystroemMap(landmarks=np.vstack([X[:10], X[:10]])).fit(X)
    assert features.n_landmarks_ == 20
    assert features.mapping_.shape == (20, 10)
    assert features.transform(X).shape == (200, 10)
    assert len(features.get_feature_names_out()) == 10


def test_paper_cutoff_is_a_parameter(binary):
    X, _ = binary
    kept = [
        NystroemMap(100, gamma=0.01, eigenvalue_cutoff=cutoff, random_state=0)
        .fit(X)
        .mapping_.shape[1]
        for cutoff in ("auto", PAPER_CUTOFF, 1e-2)
    ]
    assert 100 >= kept[0] > kept[1] > kept[2] > 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tensors_are_mapped_to_tensors_where_they_are(place, three_classes, dtype):
    X, y = three_classes
    settings = {"n_landmarks": 20, "landmarks": "class_kmeans", "random_state": 0}
    rows, labels = place.array(X.astype(dtype)), place.array(y)
    features = NystroemMap(**settings).fit(rows, labels)
    F = features.transform(rows)
    assert type(F) is type(rows)
    assert F.dtype == rows.dtype
    assert getattr(F, "device", None) == getattr(rows, "device", None)
    assert isinstance(features.landmarks_, np.ndarray)
    F, G = to_numpy(F), NystroemMap(**settings, device="cpu").fit(X, y).transform(X)
    np.testing.assert_allclose(F @ F.T, G @ G.T, atol=1e-4)

"""One test for each theorem and proposition of the paper, and for the equations they stand on."""

import numpy as np
import pytest
from places import every_place
from reference import decision_values, exact_kernel_svm, theorem_2
from sklearn.datasets import load_breast_cancer, load_wine, make_circles, make_moons
from sklearn.metrics import pairwise_distances
from sklearn.preprocessing import scale
from sklearn.svm import SVC

from lasn import LASNClassifier, NystroemMap
from lasn.features import best_rank_k_map, exact_map
from lasn.gamma import resolve_gamma
from lasn.kernels import Kernel

pytestmark = every_place

KERNELS = {
    "rbf": Kernel("rbf", gamma=0.2),
    "polynomial": Kernel("polynomial", gamma=0.2, degree=3, coef0=1.0),
    "laplacian": Kernel("laplacian", gamma=0.2),
}
DATA_SETS = {
    "breast_cancer": lambda: load_breast_cancer(return_X_y=True),
    "wine": lambda: load_wine(return_X_y=True),
    "moons": lambda: make_moons(120, noise=0.2, random_state=0),
    "circles": lambda: make_circles(120, noise=0.1, factor=0.5, random_state=0),
}


@pytest.fixture(params=KERNELS)
def kernel(request):
    return KERNELS[request.param]


@pytest.fixture
def split(binary):
    """Training rows, their signs and test rows."""
    X, y = binary
    return X[:120], np.where(y[:120] == 1, 1.0, -1.0), X[120:]


def reduced_and_best_features(data_set, k):
    """K, y, F^(k), F~ and the eigenvalues of K_ll for 120 rows of a data set."""
    X, y = DATA_SETS[data_set]()
    X, y = scale(X)[:120], np.where(y[:120] == y[0], 1.0, -1.0)
    features = NystroemMap(k, random_state=0).fit(X)
    kernel = Kernel("rbf", gamma=features.gamma_)
    K = kernel(X, X)
    values = np.linalg.eigvalsh(kernel(features.landmarks_, features.landmarks_))
    return K, y, best_rank_k_map(K, k), features.transform(X), values


def test_proposition_1_linearised_l1_loss_svm_is_the_kernel_svm(kernel, split):
    X_train, y, X_test = split
    F_train, F_test = exact_map(kernel, X_train, X_test)
    exact = SVC(C=1.0, kernel="precomputed", tol=1e-10).fit(kernel(X_train, X_train), y)
    linear = SVC(C=1.0, kernel="linear", tol=1e-10).fit(F_train, y)
    np.testing.assert_allclose(
        linear.decision_function(F_test),
        exact.decision_function(kernel(X_test, X_train)),
        atol=1e-6,
    )


@pytest.mark.parametrize("C", [0.1, 10.0])
def test_theorem_1_linear_svm_on_the_exact_map_is_the_kernel_svm(kernel, split, C):
    X_train, y, X_test = split
    F_train, F_test = exact_map(kernel, X_train, X_test)
    model = LASNClassifier(kernel="linear", C=C, tol=1e-11).fit(F_train, y)
    assert model.history_[-1]["relative_gradient"] <= 1e-11
    alpha = exact_kernel_svm(kernel(X_train, X_train), y, C)
    exact = decision_values(kernel(X_test, X_train), alpha)
    np.testing.assert_allclose(model.decision_function(F_test), exact, atol=1e-6)
    np.testing.assert_array_equal(model.predict(F_test), np.where(exact > 0, 1.0, -1.0))


@pytest.mark.parametrize("eigenvalues", ["of K_ll, times n / k", "of F~ F~^T"])
@pytest.mark.parametrize("C", [0.1, 10.0])
@pytest.mark.parametrize("k", [2, 10, 30])
@pytest.mark.parametrize("data_set", DATA_SETS)
def test_theorem_2_bound_holds(data_set, k, C, eigenvalues):
    """For both readings of "the Nystroem approximate eigenvalues of the kernel matrix"."""
    K, y, F_best, F, values = reduced_and_best_features(data_set, k)
    if eigenvalues == "of F~ F~^T":
        values = np.linalg.eigvalsh(F.T @ F)
    else:
        values = values * len(y) / k
    result = theorem_2(K, F_best, F, y, C, values)
    assert 0.0 < result.distance <= result.repaired
    assert result.distance <= result.printed


@pytest.mark.parametrize("data_set", DATA_SETS)
def test_theorem_2_bound_needs_its_proof_repaired_for_small_c(data_set):
    K, y, F_best, F, values = reduced_and_best_features(data_set, 2)
    result = theorem_2(K, F_best, F, y, 1e-8, values * len(y) / 2)
    assert result.printed < result.distance <= result.repaired


@pytest.mark.parametrize("solver", ["newton", "newton-cg"])
def test_theorem_3_convergence_is_quadratic(binary, solver):
    model = LASNClassifier(
        20, loss="log_loss", landmarks="kmeans", solver=solver, tol=1e-11, random_state=0
    ).fit(*binary)
    gradients = np.array([record["relative_gradient"] for record in model.history_])
    tail = gradients[gradients < 0.1]
    assert len(tail) >= 3
    assert np.all(tail[1:] <= 10.0 * tail[:-1] ** 2 + 1e-11)
    assert [record["step_length"] for record in model.history_[-2:]] == [1.0, 1.0]


@pytest.mark.parametrize("C", [1.0, 10.0, 100.0])
def test_theorem_3_squared_hinge_ends_on_the_solution(binary, C):
    """Piecewise quadratic: once the active rows are right, one full step is exact."""
    model = LASNClassifier(
        20, C=C, landmarks="kmeans", solver="newton", tol=1e-11, random_state=0
    ).fit(*binary)
    before, last = model.history_[-2:]
    assert before["active_rows"] == last["active_rows"]
    assert before["relative_gradient"] > 1e-7
    assert last["relative_gradient"] <= 1e-13
    assert last["step_length"] == 1.0


def test_all_rows_as_landmarks_reproduce_the_kernel(kernel, binary):
    X, _ = binary
    features = NystroemMap(
        len(X), kernel=kernel.name, gamma=kernel.gamma, degree=kernel.degree, coef0=kernel.coef0
    )
    F = features.fit_transform(X)
    K = kernel(X, X)
    np.testing.assert_allclose(F @ F.T, K, atol=1e-9 * np.abs(K).max())


def test_exact_map_reproduces_the_kernel_of_training_and_test_rows(kernel, split):
    X_train, _, X_test = split
    F_train, F_test = exact_map(kernel, X_train, X_test)
    for F, X in [(F_train, X_train), (F_test, X_test)]:
        np.testing.assert_allclose(F_train @ F.T, kernel(X_train, X), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("k", [1, 5, 40])
@pytest.mark.parametrize("landmarks", ["kmeans", "uniform"])
def test_equation_fk_is_the_best_approximation_of_its_rank(kernel, binary, k, landmarks):
    X, _ = binary
    K = kernel(X, X)
    F_best = best_rank_k_map(K, k)
    features = NystroemMap(
        k,
        kernel=kernel.name,
        gamma=kernel.gamma,
        degree=kernel.degree,
        coef0=kernel.coef0,
        landmarks=landmarks,
        random_state=0,
    )
    F = features.fit_transform(X)
    left_out = np.sort(np.linalg.eigvalsh(K))[:-k]
    best = np.linalg.norm(K - F_best @ F_best.T)
    assert F_best.shape == F.shape == (len(X), k)
    np.testing.assert_allclose(best, np.linalg.norm(left_out), rtol=1e-9)
    assert best < np.linalg.norm(K - F @ F.T)


def test_gamma_of_the_paper_is_half_of_the_mean_squared_distance(binary):
    X, _ = binary
    half_of_mean = 0.5 * np.mean(pairwise_distances(X) ** 2)
    assert resolve_gamma("variance", X) == pytest.approx(1.0 / half_of_mean, rel=1e-12)


def test_algorithm_3_predicts_through_the_landmarks(kernel, split):
    X_train, y, X_test = split
    model = LASNClassifier(
        20,
        kernel=kernel.name,
        gamma=kernel.gamma,
        degree=kernel.degree,
        coef0=kernel.coef0,
        random_state=0,
    ).fit(X_train, y)
    K = kernel(X_test, model.landmarks_)
    expected = model.decision_function(X_test)
    through_landmarks = K @ model.dual_coef_.T + model.intercept_
    through_features = (K @ model.mapping_) @ model.coef_.T + model.intercept_
    np.testing.assert_allclose(through_landmarks[:, 0], expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(through_features[:, 0], expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(model.predict(X_test), np.where(expected > 0, 1.0, -1.0))

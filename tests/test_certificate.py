"""Certificates are true: bounds hold, labels that are guaranteed are right, nothing is n x n."""

import json
import sys
import tracemalloc

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from places import every_place
from reference import exact_kernel_machine, exact_kernel_svm, theorem_2
from sklearn.datasets import make_classification, make_moons
from sklearn.svm import SVC

from lasn import LASNClassifier, LASNRegressor, NystroemMap, certify
from lasn.features import best_rank_k_map
from lasn.kernels import Kernel
from lasn.losses import CLASSIFIER_LOSSES, SquaredEpsilonInsensitive

pytestmark = every_place


def optimum(model, X, targets, weight):
    """The exact machine of a fitted model's problem, and its scores on the same rows."""
    kernel = Kernel(model.kernel, model.gamma_, model.degree, model.coef0)
    if isinstance(model, LASNRegressor):
        loss = SquaredEpsilonInsensitive(model.epsilon)
    else:
        loss = CLASSIFIER_LOSSES[model.loss]
    K = kernel(X, X)
    machine = exact_kernel_machine(K, targets, model.C * weight, loss)
    return machine.value, (K + 1.0) @ machine.alpha


def assert_true(certificate, value, slack=1e-9):
    room = slack * max(1.0, value)
    assert certificate.exact_lower_bound <= value + room
    assert value <= certificate.upper_bound + room
    assert certificate.exact_lower_bound <= certificate.upper_bound
    assert certificate.lower_bound <= certificate.upper_bound


def assert_labels_are_shared(certificate, labels, exact):
    sure = certificate.guaranteed
    assert np.array_equal(labels[sure], exact[sure])
    assert certificate.guaranteed_share == np.mean(sure)
    assert certificate.guaranteed_share <= certificate.agreement_share
    assert certificate.agreement_share <= np.mean(labels == exact)


@pytest.mark.parametrize("seed", range(30))
def test_bounds_enclose_the_optimum_of_a_dense_solver(seed):
    """The L2-loss SVM; its optimum comes from the dual, by nonnegative least squares."""
    rng = np.random.RandomState(seed)
    n, C = int(rng.randint(30, 120)), float(10.0 ** rng.uniform(-2, 2))
    X, y = make_classification(n, 6, flip_y=0.1, class_sep=rng.uniform(0.3, 2), random_state=seed)
    weight = rng.uniform(0.1, 3.0, size=n)
    model = LASNClassifier(int(rng.randint(3, n)), C=C, random_state=seed)
    model.fit(X, y, sample_weight=weight)
    signs = np.where(y == 1, 1.0, -1.0)
    K = Kernel("rbf", model.gamma_)(X, X)
    alpha = exact_kernel_svm(K, signs, C, sample_weight=weight)
    scores = (K + 1.0) @ alpha
    value = 0.5 * alpha @ scores + C * weight @ np.maximum(1.0 - signs * scores, 0.0) ** 2
    certificate = certify(model, X, y, sample_weight=weight)
    assert_true(certificate, value)
    assert np.max(np.abs(model.decision_function(X) - scores)) <= certificate.score_distance + 1e-9
    assert_labels_are_shared(certificate, model.predict(X), (scores > 0.0).astype(int))


def squared_distance_kernel(X, L):
    """A kernel given as a function: the rational quadratic."""
    distances = ((X[:, None, :] - L[None, :, :]) ** 2).sum(axis=2)
    return 1.0 / (1.0 + 0.3 * distances)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(8, 40),
    k=st.integers(1, 40),
    kernel=st.sampled_from(["rbf", "laplacian", "polynomial", "linear", squared_distance_kernel]),
    loss=st.sampled_from(["squared_hinge", "log_loss", "regression"]),
    C=st.floats(-2.0, 3.0).map(lambda power: 10.0**power),
    dtype=st.sampled_from(["float32", "float64"]),
    zeros=st.booleans(),
)
def test_bounds_and_label_guarantees_hold_for_random_problems(
    seed, n, k, kernel, loss, C, dtype, zeros
):
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(n, 3))
    weight = rng.exponential(size=n)
    if zeros:
        weight[rng.permutation(n)[: n // 4]] = 0.0
    y = X[:, 0] + 0.5 * rng.normal(size=n)
    common = {"C": C, "kernel": kernel, "dtype": dtype, "landmarks": "uniform", "random_state": 0}
    k = min(k, np.count_nonzero(weight))
    if loss == "regression":
        model, targets = LASNRegressor(k, epsilon=0.1, **common), y
    else:
        y = (y > np.median(y[weight > 0.0])).astype(int)
        model, targets = LASNClassifier(k, loss=loss, **common), np.where(y == 1, 1.0, -1.0)
    model.set_params(tol=1e-2, max_iter=200).fit(X, y, sample_weight=weight)
    value, scores = optimum(model, X, targets, weight)
    certificate = certify(model, X, y, sample_weight=weight)
    assert_true(certificate, value, slack=1e-8)
    if loss != "regression":
        exact = model.classes_[(scores > 0.0).astype(int)]
        assert_labels_are_shared(certificate, model.predict(X), exact)


@pytest.mark.parametrize("loss", ["squared_hinge", "log_loss"])
def test_a_model_on_all_rows_is_proved_to_be_exact(binary, loss):
    X, y = binary
    model = LASNClassifier(len(X), C=1.0, loss=loss, dtype="float64", tol=1e-10).fit(X, y)
    certificate = certify(model, X, y)
    assert certificate.relative_exact_gap <= 1e-8
    assert certificate.guaranteed_share == 1.0


def test_the_gap_closes_with_more_landmarks(binary):
    X, y = binary
    models = [
        LASNClassifier(k, landmarks="uniform", random_state=0).fit(X, y) for k in (5, 50, 200)
    ]
    gaps = [certify(model, X, y).relative_exact_gap for model in models]
    assert gaps[0] > 2.0 * gaps[1] > 100.0 * gaps[2]


def test_reduced_gap_is_that_of_the_solver(binary):
    X, y = binary
    loose, tight = (
        certify(LASNClassifier(30, tol=tol, random_state=0).fit(X, y), X, y).relative_gap
        for tol in (0.3, 1e-10)
    )
    assert tight <= 1e-9 < loose


def test_dual_steps_raise_the_exact_lower_bound(binary):
    X, y = binary
    model = LASNClassifier(60, random_state=0).fit(X, y)
    bounds = [certify(model, X, y, steps=steps).exact_lower_bound for steps in (0, 1, 5)]
    assert bounds[0] < bounds[1] <= bounds[2]


def test_classes_have_their_own_certificates(three_classes):
    X, y = three_classes
    model = LASNClassifier(40, random_state=0).fit(X, y)
    certificate = certify(model, X, y)
    K = Kernel("rbf", model.gamma_)(X, X)
    assert len(certificate.problems) == 3
    scores = np.empty((len(X), 3))
    for c, part in enumerate(certificate.problems):
        signs = np.where(y == c, 1.0, -1.0)
        machine = exact_kernel_machine(
            K, signs, np.full(len(y), model.C), CLASSIFIER_LOSSES["squared_hinge"]
        )
        scores[:, c] = (K + 1.0) @ machine.alpha
        assert part["exact_lower_bound"] <= machine.value <= part["upper_bound"]
    sums = {name: sum(part[name] for part in certificate.problems) for name in ("gap", "exact_gap")}
    assert certificate.gap == pytest.approx(sums["gap"])
    assert certificate.exact_gap == pytest.approx(sums["exact_gap"])
    assert_labels_are_shared(certificate, model.predict(X), scores.argmax(axis=1))


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    n_classes=st.integers(2, 4),
    C=st.floats(-1.0, 3.0).map(lambda power: 10.0**power),
    loss=st.sampled_from(["squared_hinge", "log_loss"]),
    tol=st.floats(-6.0, -1.0).map(lambda power: 10.0**power),
    solver=st.sampled_from(["auto", "exact"]),
)
def test_labels_are_shared_near_the_exact_machine_too(seed, n_classes, C, loss, tol, solver):
    """Where the gap is small, many labels are proved: none of them may be wrong."""
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(60, 2))
    y = (np.digitize(X[:, 0] + 0.4 * rng.normal(size=60), [-0.5, 0.3, 0.9])) % n_classes
    weight = rng.exponential(size=60)
    model = LASNClassifier(
        60, C=C, loss=loss, tol=tol, solver=solver, gamma=1.0, random_state=0, max_iter=500
    ).fit(X, y, sample_weight=weight)
    certificate = certify(model, X, y, sample_weight=weight)
    K = Kernel("rbf", 1.0)(X, X)
    codes = range(n_classes) if n_classes > 2 else [1]
    scores = np.column_stack(
        [
            (K + 1.0)
            @ exact_kernel_machine(
                K, np.where(y == code, 1.0, -1.0), C * weight, CLASSIFIER_LOSSES[loss]
            ).alpha
            for code in codes
        ]
    )
    exact = scores.argmax(axis=1) if n_classes > 2 else (scores[:, 0] > 0.0).astype(int)
    assert_labels_are_shared(certificate, model.predict(X), exact)
    found = np.abs(model.decision_function(X).reshape(scores.shape) - scores)
    assert np.max(found) <= certificate.score_distance + 1e-9


def test_most_labels_are_proved_to_be_shared_long_before_the_gap_is_closed():
    X, y = make_moons(2000, noise=0.2, random_state=0)
    model = LASNClassifier(20, gamma=2.0, random_state=0).fit(X, y)
    rough = certify(model, X, y, kernel_error=False)
    assert rough.relative_exact_gap > 1e-3
    assert rough.agreement_share > 0.9
    exact = certify(LASNClassifier(gamma=2.0, solver="exact", random_state=0).fit(X, y), X, y)
    assert exact.guaranteed_share > 0.9


def test_weights_are_those_of_repeated_rows(binary):
    X, y = binary
    model = LASNClassifier(30, random_state=0).fit(X, y)
    twice = certify(model, X, y, sample_weight=np.full(len(X), 2.0))
    doubled = certify(model, np.vstack([X, X]), np.concatenate([y, y]))
    assert twice.upper_bound == pytest.approx(doubled.upper_bound)
    assert twice.exact_lower_bound == pytest.approx(doubled.exact_lower_bound, rel=1e-3)


def test_sparse_rows_have_the_certificate_of_dense_ones(sparse_rows):
    X, y = sparse_rows
    dense = X.toarray()
    model = LASNClassifier(40, random_state=0).fit(dense, y)
    assert certify(model, X, y).exact_gap == pytest.approx(certify(model, dense, y).exact_gap)


def test_kernel_errors_are_exact_for_few_rows_and_enclosed_for_many():
    X, y = make_moons(1500, noise=0.3, random_state=0)
    model = LASNClassifier(12, gamma=2.0, landmarks="uniform", random_state=0).fit(X, y)
    kernel = Kernel("rbf", 2.0)
    F = kernel(X, model.landmarks_) @ model.mapping_
    R = kernel(X, X) - F @ F.T
    estimate = certify(model, X, y).kernel_error
    assert estimate.confidence == 0.95
    assert estimate.frobenius == pytest.approx(np.linalg.norm(R), rel=0.2)
    assert estimate.frobenius_interval[0] <= np.linalg.norm(R) <= estimate.frobenius_interval[1]
    assert estimate.spectral_interval[0] <= np.linalg.norm(R, 2) <= estimate.spectral_interval[1]
    assert estimate.spectral == pytest.approx(np.linalg.norm(R, 2), rel=0.3)
    few = certify(model, X[:300], y[:300]).kernel_error
    assert few.confidence == 1.0
    assert few.frobenius == pytest.approx(np.linalg.norm(R[:300, :300]), rel=1e-6)
    assert few.spectral == pytest.approx(np.linalg.norm(R[:300, :300], 2), rel=1e-6)


def test_theorem_2_is_what_the_reference_computes(binary):
    X, y = binary
    signs = np.where(y == 1, 1.0, -1.0)
    features = NystroemMap(10, random_state=0).fit(X)
    model = LASNClassifier(C=0.5, landmarks=features.landmarks_, random_state=0).fit(X, y)
    K = Kernel("rbf", model.gamma_)(X, X)
    values = np.linalg.eigvalsh(Kernel("rbf", model.gamma_)(model.landmarks_, model.landmarks_))
    expected = theorem_2(
        K, best_rank_k_map(K, 10), features.transform(X), signs, 0.5, values * len(X) / 10
    )
    found = certify(model, X, y).theorem_2
    assert found.distance**2 == pytest.approx(expected.distance, rel=1e-6)
    assert found.printed**2 == pytest.approx(expected.printed, rel=1e-6)
    assert found.repaired**2 == pytest.approx(expected.repaired, rel=1e-6)
    assert found.distance <= found.repaired


def test_an_indefinite_kernel_has_no_exact_optimum(binary):
    X, y = binary
    model = LASNClassifier(20, kernel="tanh", gamma=0.1, random_state=0).fit(X, y)
    certificate = certify(model, X, y)
    assert certificate.exact_lower_bound == -np.inf
    assert certificate.guaranteed_share == 0.0
    assert np.isfinite(certificate.gap)


def test_the_certificate_is_a_mapping_a_text_and_plain_numbers(binary):
    X, y = binary
    certificate = certify(LASNClassifier(20, random_state=0).fit(X, y), X, y)
    assert certificate["exact_gap"] == certificate.exact_gap
    assert set(certificate) == set(dict(certificate)) == set(certificate.as_dict())
    with pytest.raises(KeyError):
        certificate["summary"]
    assert "Theorem 2" in str(certificate)
    assert f"{certificate.upper_bound:.7g}" in certificate.summary()
    assert json.loads(json.dumps(certificate.as_dict()))["gap"] == certificate.gap


def test_it_is_silent_and_keeps_to_its_memory(capfd):
    X, y = make_moons(6000, noise=0.4, random_state=0)
    model = LASNClassifier(20, random_state=0).fit(X, y)
    full = certify(model, X, y)
    assert full.active_rows > 1500
    tracemalloc.start()
    small = certify(model, X, y, memory_limit="1MB")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert small.exact_lower_bound == pytest.approx(full.exact_lower_bound, rel=1e-9)
    assert peak < 8 * full.active_rows**2
    assert capfd.readouterr() == ("", "")
    assert not sys.stderr.isatty()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda model, X, y: (SVC(), X, y), "fitted LASNClassifier or LASNRegressor"),
        (lambda model, X, y: (model, X, y + 7), "label .* its classes are"),
        (lambda model, X, y: (model, X[:, :2], y), "features"),
    ],
)
def test_what_cannot_be_certified_is_refused(binary, change, message):
    X, y = binary
    model = LASNClassifier(20, random_state=0).fit(X, y)
    with pytest.raises((TypeError, ValueError), match=message):
        certify(*change(model, X, y))

"""The exact solver gives a dense solver's answer, for every loss, with weights and classes."""

import numpy as np
import pytest
import scipy.sparse as sp
from places import every_place
from reference import exact_kernel_machine, exact_kernel_svm
from sklearn.base import clone
from sklearn.datasets import load_digits, make_classification, make_friedman1
from sklearn.exceptions import ConvergenceWarning

from lasn import LASNClassifier, LASNRegressor, certify, load, row_equations, save
from lasn import gram as gram_module
from lasn.arrays import to_numpy
from lasn.duplicates import distinct
from lasn.gram import Gram
from lasn.kernels import Kernel
from lasn.landmarks import here
from lasn.losses import CLASSIFIER_LOSSES, SquaredEpsilonInsensitive, SquaredHinge
from lasn.problem import Problem
from lasn.report import html_report

pytestmark = every_place

TIGHT = {"solver": "exact", "tol": 1e-8, "random_state": 0}


def rows_of(n, seed=0, **options):
    return make_classification(n, 8, n_informative=5, flip_y=0.1, random_state=seed, **options)


@pytest.mark.parametrize("C", [0.1, 10.0, 1000.0])
@pytest.mark.parametrize("n", [100, 1000])
def test_decision_values_are_those_of_a_dense_solver(n, C):
    X, y = rows_of(n)
    model = LASNClassifier(C=C, **TIGHT).fit(X, y)
    kernel = Kernel("rbf", model.gamma_)
    alpha = exact_kernel_svm(kernel(X, X), np.where(y == 1, 1.0, -1.0), C)
    new = rows_of(50, seed=1)[0]
    for rows in (X, new):
        expected = (kernel(rows, X) + 1.0) @ alpha
        np.testing.assert_allclose(model.decision_function(rows), expected, atol=1e-4)
    assert model.history_[-1]["relative_gap"] <= 1e-9


def test_two_thousand_rows_by_conjugate_gradients(monkeypatch):
    monkeypatch.setattr(row_equations, "_DIRECT", 100)
    X, y = rows_of(2000)
    model = LASNClassifier(**{**TIGHT, "tol": 1e-6}).fit(X, y)
    assert sum(record["cg_steps"] for record in model.history_) > 0
    kernel = Kernel("rbf", model.gamma_)
    machine = exact_kernel_machine(
        kernel(X, X), np.where(y == 1, 1.0, -1.0), np.full(2000, 10.0), SquaredHinge()
    )
    expected = (kernel(X, X) + 1.0) @ machine.alpha
    np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-2)
    assert model.history_[-1]["value"] == pytest.approx(machine.value, rel=1e-7)


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "polynomial"])
@pytest.mark.parametrize("loss", ["squared_hinge", "log_loss", "regression"])
def test_every_loss_and_kernel_with_weights(kernel, loss):
    rng = np.random.RandomState(0)
    weight = rng.exponential(size=150)
    weight[::10] = 0.0
    common = {**TIGHT, "C": 2.0, "kernel": kernel}
    if loss == "regression":
        X, y = make_friedman1(150, 5, noise=0.5, random_state=0)
        y = targets = (y - y.mean()) / y.std()
        model, function = LASNRegressor(epsilon=0.2, **common), SquaredEpsilonInsensitive(0.2)
    else:
        X, y = rows_of(150)
        targets = np.where(y == 1, 1.0, -1.0)
        model, function = LASNClassifier(loss=loss, **common), CLASSIFIER_LOSSES[loss]
    model.fit(X, y, sample_weight=weight)
    K = Kernel(kernel, model.gamma_)(X, X)
    machine = exact_kernel_machine(K, targets, 2.0 * weight, function)
    scores = model.predict(X) if loss == "regression" else model.decision_function(X)
    np.testing.assert_allclose(scores, (K + 1.0) @ machine.alpha, rtol=1e-4, atol=1e-4)


def test_classes_are_solved_together():
    X, y = load_digits(n_class=4, return_X_y=True)
    X = X / 16.0
    model = LASNClassifier(**TIGHT).fit(X, y)
    assert model.dual_coef_.shape == (4, model.n_landmarks_)
    assert np.all(model.history_[-1]["relative_gap"] <= 1e-9)
    for c in range(4):
        single = LASNClassifier(gamma=model.gamma_, **TIGHT).fit(X, y == c)
        np.testing.assert_allclose(
            model.decision_function(X)[:, c], single.decision_function(X), atol=1e-4
        )


def test_the_default_tolerance_closes_the_gap_to_a_ten_thousandth():
    X, y = rows_of(3000)
    model = LASNClassifier(solver="exact", random_state=0).fit(X, y)
    last = model.history_[-1]
    assert last["relative_gap"] <= 1e-4
    assert last["relative_gap"] == pytest.approx(last["gap"] / last["value"])
    certificate = certify(model, X, y)
    assert certificate.relative_exact_gap <= 1.5e-4
    assert certificate.lower_bound == certificate.exact_lower_bound


def test_a_certificate_knows_the_gap_that_the_solver_reached(sparse_rows):
    """Coefficients are a better dual point than scores, which C magnifies the rounding of."""
    X, y = rows_of(600)
    X, y = np.vstack([X, X[:100]]), np.concatenate([y, y[:100]])
    model = LASNClassifier(C=1000.0, dtype="float32", solver="exact", tol=1e-4, random_state=0).fit(
        X, y
    )
    certificate = certify(model, X, y)
    # In float32 the solver's own gap is rounded, and may even be below zero.
    assert certificate.relative_exact_gap <= 1.5 * abs(model.history_[-1]["relative_gap"])
    X, y = sparse_rows
    model = LASNClassifier(**TIGHT).fit(X.toarray(), y)
    assert certify(model, X, y).relative_exact_gap <= 1e-6  # no landmark is found among these


@pytest.mark.parametrize(("C", "dtype"), [(10.0, np.float32), (1000.0, np.float64)])
def test_kernel_values_are_as_exact_as_the_gap_needs_for_this_C(C, dtype):
    """In float32 the larger C would end at max_iter with a gap of 0.02, and a warning."""
    X, y = rows_of(2200)
    model = LASNClassifier(C=C, gamma=0.02, solver="exact", random_state=0).fit(X, y)
    assert model._dtype == dtype
    assert model.history_[-1]["relative_gap"] <= 1e-4


def test_the_model_is_its_support_vectors(binary):
    X, y = binary
    model = LASNClassifier(**TIGHT).fit(X, y)
    assert model.mapping_ is None
    assert 0 < model.n_landmarks_ == len(model.landmarks_) < len(X)
    assert np.all(model.dual_coef_ != 0.0)
    assert model.intercept_ == pytest.approx(model.dual_coef_.sum())
    K = Kernel("rbf", model.gamma_)(X, model.landmarks_)
    np.testing.assert_allclose(
        K @ model.dual_coef_[0] + model.intercept_, model.decision_function(X), atol=1e-10
    )
    assert certify(model, X, y).guaranteed_share == 1.0


def test_the_model_is_saved_and_reported_on(binary, tmp_path):
    X, y = binary
    model = LASNClassifier(**TIGHT).fit(X, y)
    save(model, tmp_path / "exact.lasn")
    copy = load(tmp_path / "exact.lasn")
    np.testing.assert_array_equal(copy.decision_function(X), model.decision_function(X))
    page = html_report(copy, X, y, certify=True)
    assert "Relative gap" in page
    assert "Landmark spectrum" not in page


def test_rows_twice_are_rows_of_weight_two(binary):
    X, y = binary
    twice = LASNClassifier(gamma=0.2, **TIGHT).fit(np.vstack([X, X]), np.concatenate([y, y]))
    weighted = LASNClassifier(gamma=0.2, **TIGHT).fit(X, y, sample_weight=np.full(len(X), 2.0))
    assert twice.n_landmarks_ == weighted.n_landmarks_
    np.testing.assert_allclose(twice.decision_function(X), weighted.decision_function(X), atol=1e-6)


@pytest.mark.parametrize("sparse", [False, True])
def test_equal_rows_are_merged_only_where_their_targets_are_equal(sparse, place):
    X = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 0.0], [1.0, 0.0]])
    targets, weight = np.array([[1.0], [1.0], [1.0], [-1.0]]), np.array([1.0, 0.0, 3.0, 2.0])
    there = map(place.array, (targets, weight, np.zeros(4, dtype=int)))
    rows = place.rows(sp.csr_matrix(X) if sparse else X)
    merged = distinct(Problem(rows, *there, 1.0, SquaredHinge()))
    kept = here(merged.X)
    np.testing.assert_array_equal(kept.toarray() if sparse else kept, [[1.0, 0.0], [1.0, 0.0]])
    np.testing.assert_array_equal(to_numpy(merged.targets)[:, 0], [1.0, -1.0])
    np.testing.assert_array_equal(to_numpy(merged.sample_weight), [4.0, 2.0])


def test_sparse_rows_give_the_model_of_dense_ones(sparse_rows):
    X, y = sparse_rows
    sparse = LASNClassifier(**TIGHT).fit(X, y)
    dense = LASNClassifier(**TIGHT).fit(X.toarray(), y)
    np.testing.assert_allclose(sparse.decision_function(X), dense.decision_function(X), atol=1e-5)


def test_memory_limit_changes_time_and_no_result(binary):
    X, y = rows_of(1500)
    free = LASNClassifier(**TIGHT).fit(X, y)
    limited = LASNClassifier(memory_limit="1MB", **TIGHT).fit(X, y)
    np.testing.assert_allclose(free.decision_function(X), limited.decision_function(X), atol=1e-5)


def test_warm_start_takes_fewer_iterations(binary):
    X, y = binary
    model = LASNClassifier(warm_start=True, **TIGHT).fit(X, y)
    cold = model.n_iter_
    scores = model.decision_function(X)
    model.fit(X, y)
    assert model.n_iter_ <= min(2, cold)
    np.testing.assert_allclose(model.decision_function(X), scores, atol=1e-6)
    model.set_params(solver="auto").fit(X, y)
    fresh = clone(model).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), fresh.decision_function(X))


def test_linear_kernel_is_exact_already(binary):
    X, y = binary
    exact = LASNClassifier(kernel="linear", solver="exact").fit(X, y)
    plain = LASNClassifier(kernel="linear").fit(X, y)
    np.testing.assert_array_equal(exact.coef_, plain.coef_)


def test_an_indefinite_kernel_is_refused(binary):
    with pytest.raises(ValueError, match=r'positive semidefinite.*solver="auto"'):
        LASNClassifier(kernel="tanh", solver="exact").fit(*binary)


def test_too_few_iterations_are_warned_of(binary):
    model = LASNClassifier(solver="exact", max_iter=1, C=1000.0)
    with pytest.warns(ConvergenceWarning, match="duality gap"):
        model.fit(*binary)
    assert model.n_iter_ == 1


@pytest.fixture
def new_gram(place, monkeypatch):
    """``new_gram(kernel, X, dtype, budget)``: the matrix in this place, of small tiles."""
    monkeypatch.setattr(gram_module, "GROUP_ROWS", 300)
    monkeypatch.setattr(gram_module, "_STRIP_ROWS", 128)

    def new_gram(kernel, X, dtype, budget):
        if place.device is None:
            return Gram(kernel, X, dtype, budget)
        from lasn.torch_gram import TorchGram

        return TorchGram(kernel, place.rows(X), dtype, budget, group_rows=300)

    return new_gram


@pytest.mark.parametrize("n_columns", [1, 3])
@pytest.mark.parametrize(("dtype", "rounding"), [(np.float64, 1e-12), (np.float32, 2e-6)])
@pytest.mark.parametrize("budget", [0, 10**6, 10**9])
def test_gram_is_the_kernel_matrix_however_much_of_it_is_kept(
    budget, dtype, rounding, n_columns, rng, new_gram
):
    X = rng.normal(size=(1300, 4))
    kernel, order = Kernel("rbf", 0.3), rng.permutation(1300)
    gram = new_gram(kernel, X, dtype, budget)
    gram.add(order[:700])
    gram.add(order[700:1200])
    U = order[:1200]
    K, V = kernel(X[U], X[U]), rng.normal(size=(1200, n_columns))
    np.testing.assert_allclose(gram.product(V), K @ V, atol=100 * rounding)
    mask = rng.uniform(size=1200) < 0.4
    mask[300:600] = False  # a whole group
    part = to_numpy(gram.part(np.flatnonzero(mask)))
    np.testing.assert_allclose(part, K[mask][:, mask], atol=rounding)
    smaller = gram.only(mask)
    expected = K[mask][:, mask] @ V[mask]
    np.testing.assert_allclose(smaller.product(V[mask]), expected, atol=100 * rounding)
    np.testing.assert_array_equal(smaller.rows, U[mask])

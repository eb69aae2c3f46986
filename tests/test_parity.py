"""The same problems solved by others: LIBLINEAR, scikit-learn and an exact kernel solver."""

import numpy as np
import pytest
import scipy.sparse as sp
from places import every_place
from reference import decision_values, exact_kernel_svm, linear_objective
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC, LinearSVR

from lasn import LASNClassifier, LASNRegressor
from lasn.kernels import Kernel
from lasn.losses import SquaredEpsilonInsensitive, SquaredHinge

pytestmark = every_place

LIBLINEAR = {"dual": False, "intercept_scaling": 1.0, "tol": 1e-10, "max_iter": 100_000}


@pytest.fixture(scope="module", params=["dense", "sparse"])
def container(request):
    if request.param == "sparse":
        return sp.csr_matrix
    return lambda X: X.toarray() if sp.issparse(X) else X


def assert_converged(model):
    assert np.max(model.history_[-1]["relative_gradient"]) <= model.tol


def signs(y, label):
    return np.where(y == label, 1.0, -1.0)


@pytest.mark.parametrize("solver", ["newton", "newton-cg"])
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("data", ["binary", "sparse_rows", "three_classes"])
def test_linear_kernel_agrees_with_linear_svc(request, data, container, C, solver):
    X, y = request.getfixturevalue(data)
    X = container(X)
    model = LASNClassifier(kernel="linear", C=C, tol=1e-8, solver=solver).fit(X, y)
    assert_converged(model)
    liblinear = LinearSVC(loss="squared_hinge", C=C, **LIBLINEAR).fit(X, y)
    assert model.coef_.shape == liblinear.coef_.shape
    positive = model.classes_ if len(model.classes_) > 2 else model.classes_[1:]
    for column, label in enumerate(positive):
        ours, theirs = (
            linear_objective(
                X,
                signs(y, label),
                fitted.coef_[column],
                fitted.intercept_[column],
                C,
                SquaredHinge().value,
            )
            for fitted in (model, liblinear)
        )
        assert ours == pytest.approx(theirs, rel=1e-4)
        assert ours <= theirs * (1.0 + 1e-9)
    assert np.mean(model.predict(X) == liblinear.predict(X)) >= 0.999
    np.testing.assert_allclose(
        model.decision_function(X), liblinear.decision_function(X), rtol=1e-3, atol=1e-3
    )


def test_weighted_rows_agree_with_linear_svc(binary, container, rng):
    X, y = binary
    X, weight = container(X), rng.randint(0, 4, size=len(y))
    model = LASNClassifier(kernel="linear", C=1.0, tol=1e-8, class_weight={1: 3.0})
    model.fit(X, y, sample_weight=weight)
    assert_converged(model)
    liblinear = LinearSVC(loss="squared_hinge", C=1.0, class_weight={1: 3.0}, **LIBLINEAR)
    liblinear.fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(model.coef_, liblinear.coef_, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(model.intercept_, liblinear.intercept_, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_linear_kernel_agrees_with_linear_svr(regression, container, C, epsilon):
    X, y = regression
    X = container(X)
    model = LASNRegressor(kernel="linear", C=C, epsilon=epsilon, tol=1e-8).fit(X, y)
    assert_converged(model)
    liblinear = LinearSVR(
        loss="squared_epsilon_insensitive", C=C, epsilon=epsilon, **LIBLINEAR
    ).fit(X, y)
    loss = SquaredEpsilonInsensitive(epsilon).value
    ours = linear_objective(X, y, model.coef_, model.intercept_, C, loss)
    theirs = linear_objective(X, y, liblinear.coef_, liblinear.intercept_[0], C, loss)
    assert ours == pytest.approx(theirs, rel=1e-4)
    assert ours <= theirs * (1.0 + 1e-9)
    np.testing.assert_allclose(model.predict(X), liblinear.predict(X), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("data", ["binary", "three_classes"])
def test_log_loss_agrees_with_logistic_regression(request, data, container, C):
    """A constant column stands for the bias there, since LASN regularises the bias."""
    X, y = request.getfixturevalue(data)
    model = LASNClassifier(kernel="linear", loss="log_loss", C=C, tol=1e-9).fit(container(X), y)
    assert_converged(model)
    logistic = LogisticRegression(
        C=C, fit_intercept=False, solver="newton-cholesky", tol=1e-9, max_iter=1000
    )
    if data == "three_classes":
        logistic = OneVsRestClassifier(logistic)
    with_constant = np.column_stack([X, np.ones(len(X))])
    logistic.fit(with_constant, y)
    np.testing.assert_allclose(
        model.predict_proba(container(X)), logistic.predict_proba(with_constant), atol=1e-6
    )


@pytest.mark.parametrize("C", [0.1, 10.0])
@pytest.mark.parametrize("name", ["rbf", "laplacian", "polynomial"])
def test_all_rows_as_landmarks_give_the_exact_kernel_svm(binary, name, C):
    X, y = binary
    X_train, y_train, X_test = X[:120], signs(y[:120], 1), X[120:]
    model = LASNClassifier(120, kernel=name, gamma=0.2, C=C, tol=1e-8).fit(X_train, y_train)
    assert_converged(model)
    kernel = Kernel(name, gamma=0.2)
    alpha = exact_kernel_svm(kernel(X_train, X_train), y_train, C)
    exact = decision_values(kernel(X_test, X_train), alpha)
    np.testing.assert_allclose(model.decision_function(X_test), exact, atol=1e-5)


def test_weighted_rows_agree_with_the_exact_kernel_svm(binary, rng):
    X, y = binary
    X, y, weight = X[:120], signs(y[:120], 1), rng.uniform(0.1, 2.0, size=120)
    model = LASNClassifier(120, gamma=0.2, tol=1e-8).fit(X, y, sample_weight=weight)
    assert_converged(model)
    K = Kernel("rbf", gamma=0.2)(X, X)
    exact = decision_values(K, exact_kernel_svm(K, y, 10.0, sample_weight=weight))
    np.testing.assert_allclose(model.decision_function(X), exact, atol=1e-5)


@pytest.mark.parametrize("loss", ["squared_hinge", "log_loss"])
@pytest.mark.parametrize("solver", ["newton", "newton-cg"])
def test_each_class_of_many_is_its_binary_problem(three_classes, loss, solver):
    X, y = three_classes
    settings = {"landmarks": X[:30], "loss": loss, "solver": solver, "tol": 1e-8}
    model = LASNClassifier(**settings).fit(X, y)
    assert_converged(model)
    for column, label in enumerate(model.classes_):
        binary = LASNClassifier(**settings).fit(X, y == label)
        assert_converged(binary)
        np.testing.assert_allclose(
            model.decision_function(X)[:, column], binary.decision_function(X), atol=1e-5
        )

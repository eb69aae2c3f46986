"""Rows in every container and dtype: the same model, never a dense copy of sparse data."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from forms import FORMS, data_frame
from places import every_place

from lasn import LASNClassifier, LASNRegressor

pytestmark = every_place


@pytest.mark.parametrize("kernel", ["rbf", "polynomial", "laplacian", "linear"])
@pytest.mark.parametrize("form", FORMS)
def test_every_container_gives_the_same_classifier(three_classes, form, kernel):
    X, y = three_classes
    settings = {"landmarks": X[:20], "kernel": kernel, "C": 1.0, "tol": 1e-9}
    expected = LASNClassifier(**settings).fit(X, y).decision_function(X)
    rows = FORMS[form](X)
    found = LASNClassifier(**settings).fit(rows, y).decision_function(rows)
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("form", FORMS)
def test_every_container_gives_the_same_regressor(regression, form):
    X, y = regression
    settings = {"landmarks": X[:20], "tol": 1e-9}
    expected = LASNRegressor(**settings).fit(X, y).predict(X)
    rows = FORMS[form](X)
    np.testing.assert_allclose(LASNRegressor(**settings).fit(rows, y).predict(rows), expected)


@pytest.mark.parametrize("landmarks", ["boundary", "kmeans", "class_kmeans", "uniform"])
def test_chosen_landmarks_depend_on_values_not_on_the_container(three_classes, landmarks):
    X, y = three_classes
    model = LASNClassifier(15, landmarks=landmarks, random_state=0)
    dense = model.fit(X, y).decision_function(X)
    sparse = model.fit(sp.csr_matrix(X), y).decision_function(X)
    np.testing.assert_allclose(sparse, dense, atol=1e-2)


def test_own_sparse_landmarks_are_taken(three_classes):
    X, y = three_classes
    dense = LASNClassifier(landmarks=X[:20], tol=1e-9).fit(X, y)
    sparse = LASNClassifier(landmarks=sp.csc_matrix(X[:20]), tol=1e-9).fit(sp.csr_matrix(X), y)
    np.testing.assert_allclose(sparse.decision_function(X), dense.decision_function(X), atol=1e-6)


@pytest.mark.parametrize("kernel", ["rbf", "polynomial", "linear"])
def test_wide_sparse_rows_are_never_densified(kernel, rng):
    n, p, per_row = 2000, 1_000_000, 20
    y = rng.randint(2, size=n)
    columns = rng.randint(2, p, size=(n, per_row))
    columns[:, 0] = y
    values = rng.uniform(size=n * per_row)
    X = sp.csr_matrix((values, columns.ravel(), np.arange(0, n * per_row + 1, per_row)), (n, p))
    model = LASNClassifier(20, kernel=kernel, random_state=0)
    tracemalloc.start()
    try:
        model.fit(X, y)
        predicted = model.predict(X)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert np.mean(predicted == y) > 0.9
    assert peak < n * p * 8 / 50


@pytest.mark.parametrize("container", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("estimator", [LASNClassifier, LASNRegressor])
def test_float32_rows_are_close_to_float64_rows(three_classes, estimator, container):
    X, y = three_classes
    settings = {"landmarks": X[:20], "tol": 1e-6}
    double = estimator(**settings).fit(X, y)
    single = estimator(**settings).fit(container(X.astype(np.float32)), y)
    assert single.landmarks_.dtype == np.float32
    np.testing.assert_allclose(single.predict(X), double.predict(X), atol=1e-2)


def test_scores_have_the_dtype_of_the_rows(three_classes):
    X, y = three_classes
    model = LASNClassifier(20, random_state=0).fit(X, y)
    assert model.decision_function(X).dtype == np.float64
    assert model.decision_function(X.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize("solver", ["newton", "newton-cg"])
@pytest.mark.parametrize("loss", ["squared_hinge", "log_loss"])
def test_float32_features_are_close_to_float64_features(three_classes, loss, solver):
    X, y = three_classes
    settings = {"landmarks": X[:20], "loss": loss, "solver": solver, "tol": 1e-4}
    double = LASNClassifier(dtype="float64", **settings).fit(X, y)
    single = LASNClassifier(dtype="float32", **settings).fit(X, y)
    assert np.max(single.history_[-1]["relative_gradient"]) <= 1e-4
    np.testing.assert_allclose(
        single.decision_function(X), double.decision_function(X), rtol=0.02, atol=0.02
    )
    np.testing.assert_array_equal(single.predict(X), double.predict(X))


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("estimator", [LASNClassifier, LASNRegressor])
def test_frames_bring_their_names(binary, estimator, library):
    X, y = binary
    frame = data_frame(library, X, "abcde")
    target = data_frame(library, y[:, None], "y")["y"]
    model = estimator(20, random_state=0).fit(frame, target)
    assert list(model.feature_names_in_) == list("abcde")
    expected = estimator(20, random_state=0).fit(X, y).predict(X)
    np.testing.assert_array_equal(model.predict(frame), expected)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(data_frame(library, X, "edcba"))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_of_integers_and_strings_as_labels(three_classes, library):
    X, y = three_classes
    frame = data_frame(library, (16 * X).astype(int), [f"pixel{column}" for column in range(64)])
    labels = data_frame(library, np.array(["zero", "one", "two"])[y][:, None], "y")["y"]
    model = LASNClassifier(20, random_state=0).fit(frame, labels)
    assert list(model.classes_) == ["one", "two", "zero"]
    assert model.score(frame, labels) > 0.98

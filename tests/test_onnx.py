"""ONNX graphs compute what the models compute, in onnxruntime."""

import os
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
import scipy.sparse as sp
import skl2onnx
from forms import data_frame
from sklearn.compose import ColumnTransformer
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, OneHotEncoder, StandardScaler

import lasn
from lasn import (
    LASNClassifier,
    LASNClassifierCV,
    LASNRegressor,
    LASNRegressorCV,
    NystroemMap,
    onnx_graph,
)
from lasn.calibration import IsotonicCalibration
from lasn.cli import main
from lasn.kernels import KERNEL_NAMES
from lasn.onnx_export import register_converters

DTYPES = ["float32", "float64"]


def run(graph, rows):
    """Check a graph and compute its outputs, by name."""
    onnx.checker.check_model(graph, full_check=True)
    session = onnxruntime.InferenceSession(
        graph.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    inputs = rows if isinstance(rows, dict) else {"X": rows}
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


def assert_close(found, expected):
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-4)


def assert_same_classifier(outputs, model, rows):
    np.testing.assert_array_equal(outputs["label"], model.predict(rows))
    assert_close(outputs["scores"], model.decision_function(rows))
    assert ("probabilities" in outputs) == hasattr(model, "predict_proba")
    if "probabilities" in outputs:
        assert_close(outputs["probabilities"], model.predict_proba(rows))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("loss", ["squared_hinge", "log_loss"])
@pytest.mark.parametrize("data", ["binary", "three_classes"])
@pytest.mark.parametrize("kernel", KERNEL_NAMES)
def test_classifiers(request, kernel, data, loss, dtype):
    X, y = request.getfixturevalue(data)
    model = LASNClassifier(20, kernel=kernel, gamma=0.05, loss=loss, random_state=0).fit(X, y)
    rows = X.astype(dtype)
    outputs = run(lasn.to_onnx(model, dtype=dtype), rows)
    assert outputs["scores"].dtype == dtype
    assert_same_classifier(outputs, model, rows)


@pytest.mark.parametrize(
    "options",
    [{"calibration": "sigmoid"}, {"calibration": "isotonic"}, {"calibration": None},
     {"loss": "log_loss"}],
)  # fmt: skip
@pytest.mark.parametrize("data", ["binary", "three_classes"])
def test_tuned_classifiers(request, data, options):
    X, y = request.getfixturevalue(data)
    model = LASNClassifierCV([1.0], [0.05], 20, random_state=0, **options).fit(X, y)
    assert_same_classifier(run(lasn.to_onnx(model, dtype="float64"), X), model, X)


def test_isotonic_probabilities_of_scores_beyond_the_corners(three_classes):
    X, y = three_classes
    model = LASNClassifierCV([1.0], [0.05], 20, calibration="isotonic", random_state=0).fit(X, y)
    model._calibration = IsotonicCalibration(np.array([-0.1, 0.1]), np.array([0.2, 0.7]))
    assert np.ptp(model.decision_function(X)) > 1.0
    assert_same_classifier(run(lasn.to_onnx(model, dtype="float64"), X), model, X)
    model._calibration = IsotonicCalibration(np.array([0.1]), np.array([0.4]))
    assert_same_classifier(run(lasn.to_onnx(model, dtype="float64"), X), model, X)


def test_tuned_regressors(regression):
    X, y = regression
    model = LASNRegressorCV([1.0], [0.1], 20, random_state=0).fit(X, y)
    outputs = run(lasn.to_onnx(model, dtype="float64"), X)
    assert_close(outputs["variable"][:, 0], model.predict(X))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("targets", [1, 3])
@pytest.mark.parametrize("kernel", KERNEL_NAMES)
def test_regressors(regression, kernel, targets, dtype):
    X, y = regression
    y = y if targets == 1 else np.column_stack([y, -y, y**2])
    model = LASNRegressor(20, kernel=kernel, gamma=0.1, random_state=0).fit(X, y)
    rows = X.astype(dtype)
    outputs = run(lasn.to_onnx(model, dtype=dtype), rows)
    assert outputs["variable"].dtype == dtype
    assert_close(outputs["variable"], model.predict(rows).reshape(len(X), targets))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kernel", KERNEL_NAMES)
def test_feature_maps(three_classes, kernel, dtype):
    X, _ = three_classes
    model = NystroemMap(20, kernel=kernel, gamma=0.05, random_state=0).fit(X)
    rows = X.astype(dtype)
    found = run(lasn.to_onnx(model, dtype=dtype), rows)["variable"]
    assert_close(found, model.transform(rows.astype(np.float64)))


LABELS = {
    "ints": (np.array([-5, 0, 7]), np.int64),
    "small ints": (np.array([3, 4, 5], dtype=np.int8), np.int64),
    "floats": (np.array([-1.0, 1.0, 3.0]), np.float64),
    "strings": (np.array(["eins", "zwei", "drei ü"]), object),
    "objects": (np.array(["a", "b", "c"], dtype=object), object),
}


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kind", LABELS)
def test_labels_of_every_type(three_classes, kind, n_classes):
    X, y = three_classes
    values, dtype = LABELS[kind]
    model = LASNClassifier(10, random_state=0).fit(X, values[np.minimum(y, n_classes - 1)])
    outputs = run(lasn.to_onnx(model), X.astype(np.float32))
    assert outputs["label"].dtype == dtype
    np.testing.assert_array_equal(outputs["label"], model.predict(X))


def test_bools_as_labels(binary):
    X, y = binary
    model = LASNClassifier(10, random_state=0).fit(X, y == 1)
    outputs = run(lasn.to_onnx(model), X.astype(np.float32))
    assert outputs["label"].dtype == bool
    np.testing.assert_array_equal(outputs["label"], model.predict(X))


def test_one_row_and_no_row(three_classes):
    X, y = three_classes
    for kernel in ("rbf", "laplacian"):
        model = LASNClassifier(10, kernel=kernel, random_state=0).fit(X, y)
        graph = lasn.to_onnx(model, dtype="float64")
        assert_same_classifier(run(graph, X[:1]), model, X[:1])
        assert run(graph, X[:0])["label"].shape == (0,)


@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_data_far_from_zero_keeps_its_digits(binary, kernel):
    X, y = binary
    far = (X + 1000.0).astype(np.float32).astype(np.float64)
    model = LASNClassifier(20, kernel=kernel, random_state=0).fit(far, y)
    scaled = make_pipeline(StandardScaler(), model).fit(far, y)
    for one in (model.fit(far, y), scaled.fit(far, y)):
        outputs = run(lasn.to_onnx(one), far.astype(np.float32))
        assert_same_classifier(outputs, one, far)


def test_extreme_scores_have_probabilities(binary):
    X, y = binary
    model = LASNClassifier(kernel="linear", loss="log_loss").fit(X, y)
    model.coef_ *= 1e4
    model.dual_coef_ *= 1e4
    found = run(lasn.to_onnx(model, dtype="float64"), X)["probabilities"]
    assert_close(found, model.predict_proba(X))
    assert set(np.round(found, 3).ravel()) == {0.0, 1.0}


def test_features_in_float32(binary):
    X, y = binary
    model = LASNClassifier(20, dtype="float32", random_state=0).fit(X, y)
    assert_same_classifier(run(lasn.to_onnx(model), X.astype(np.float32)), model, X)


@pytest.fixture(scope="module")
def many_rows():
    X, y = make_classification(
        2500,
        12,
        n_informative=8,
        n_redundant=2,
        n_classes=3,
        n_clusters_per_class=2,
        random_state=0,
    )
    return X, y


LARGE = {
    "two classes": lambda y: (LASNClassifier, y == 1, {"loss": "squared_hinge"}),
    "probabilities": lambda y: (LASNClassifier, y == 1, {"loss": "log_loss"}),
    "three classes": lambda y: (LASNClassifier, y, {"loss": "squared_hinge"}),
    "numbers": lambda y: (LASNRegressor, np.sin(y) + np.arange(len(y)) % 7, {}),
}


@pytest.mark.parametrize("task", LARGE)
@pytest.mark.parametrize("kernel", KERNEL_NAMES)
def test_a_thousand_landmarks_and_float32(many_rows, kernel, task):
    """Large coefficients of opposite signs cancel: rounding of kernel values must not show."""
    X, y = many_rows
    kind, y, options = LARGE[task](y)
    gamma = {"tanh": 0.01, "polynomial": 0.02}.get(kernel, "variance")
    options |= {"kernel": kernel, "gamma": gamma, "dtype": "float32", "landmarks": "uniform"}
    model = kind(1000, tol=1e-2, random_state=0, **options).fit(X[:2000], y[:2000])
    assert model._dtype == np.float32
    rows = X[1000:].astype(np.float32)
    outputs = run(lasn.to_onnx(model), rows)
    if task == "numbers":
        found, expected = outputs["variable"][:, 0], model.predict(rows)
    else:
        found, expected = outputs["scores"], model.decision_function(rows)
    tolerance = 1e-4 * max(1.0, np.abs(expected).max())
    assert np.abs(found - expected).max() <= tolerance
    if task == "probabilities":
        assert_close(outputs["probabilities"], model.predict_proba(rows))
    if task != "numbers":
        scores = np.sort(expected.reshape(len(rows), -1), axis=1)
        apart = np.ptp(scores[:, -2:], axis=1) if scores.shape[1] > 1 else np.abs(scores[:, 0])
        clear = apart > 2.0 * tolerance
        assert clear.mean() > 0.99
        np.testing.assert_array_equal(outputs["label"][clear], model.predict(rows)[clear])


@pytest.mark.parametrize("kernel", ["rbf", "polynomial", "laplacian"])
def test_sparse_landmarks_become_dense(sparse_rows, kernel):
    X, y = sparse_rows
    model = LASNClassifier(20, kernel=kernel, landmarks="uniform", random_state=0).fit(X, y)
    assert sp.issparse(model.landmarks_)
    assert_same_classifier(run(lasn.to_onnx(model, dtype="float64"), X.toarray()), model, X)


def test_landmarks_that_are_too_large_when_dense_are_refused(sparse_rows, monkeypatch):
    X, y = sparse_rows
    model = LASNClassifier(20, landmarks="uniform", random_state=0).fit(X, y)
    monkeypatch.setattr(onnx_graph, "MAX_LANDMARK_BYTES", 1 << 16)
    with pytest.raises(ValueError, match=r"20 landmarks of 1000 features .* Fit with fewer"):
        lasn.to_onnx(model)


def test_a_graph_holds_each_array_once(rng):
    X = rng.normal(size=(300, 40))
    model = make_pipeline(StandardScaler(), LASNClassifier(200, loss="log_loss", random_state=0))
    graph = lasn.to_onnx(model.fit(X, np.arange(300) % 3))
    arrays = [onnx.numpy_helper.to_array(tensor) for tensor in graph.graph.initializer]
    large = [array.tobytes() for array in arrays if array.size > 100]
    assert len(set(large)) == len(large)
    needed = 8 * 200 * (40 + 3 + 1)  # landmarks, coefficients, squares
    assert graph.ByteSize() < needed + 10_000


@pytest.mark.parametrize("scaler", [StandardScaler, MinMaxScaler, MaxAbsScaler])
@pytest.mark.parametrize("dtype", DTYPES)
def test_pipelines_with_a_scaler(three_classes, scaler, dtype):
    X, y = three_classes
    model = make_pipeline(scaler(), LASNClassifier(20, loss="log_loss", random_state=0)).fit(X, y)
    rows = X.astype(dtype)
    assert_same_classifier(run(lasn.to_onnx(model, dtype=dtype), rows), model, rows)


def mixed_frame(binary):
    X, y = binary
    frame = data_frame("pandas", X, "abcde")
    frame.loc[::9, "a"] = np.nan
    frame["colour"] = np.where(X[:, 0] > 0.0, "red", "blue").astype(object)
    frame["size"] = np.round(X[:, 1])
    return frame, y


def mixed_pipeline(*more):
    numeric = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    words = make_pipeline(
        SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")
    )
    columns = ColumnTransformer(
        [
            ("numeric", numeric, ["c", "a"]),
            ("words", words, ["colour"]),
            ("sizes", OneHotEncoder(handle_unknown="ignore"), ["size"]),
            ("none", "drop", ["d"]),
            *more,
        ],
        remainder="passthrough",
    )
    return make_pipeline(columns, LASNClassifier(20, random_state=0))


@pytest.mark.parametrize("dtype", DTYPES)
def test_pipelines_of_imputed_encoded_and_scaled_columns(binary, dtype):
    frame, y = mixed_frame(binary)
    holes = frame.copy()
    holes.loc[::11, "colour"] = np.nan
    model = mixed_pipeline().fit(holes, y)
    graph = lasn.to_onnx(model, dtype=dtype)
    names = [value.name for value in graph.graph.input]
    assert sorted(names) == ["a", "b", "c", "colour", "e", "size"]
    new = holes.copy()
    new.loc[3, "colour"] = "green"
    inputs = {name: new[[name]].to_numpy(dtype) for name in names if name != "colour"}
    inputs["colour"] = new[["colour"]].fillna("").to_numpy(object)
    outputs = run(graph, inputs)
    assert_close(outputs["scores"], model.decision_function(new))
    np.testing.assert_array_equal(outputs["label"], model.predict(new))


def test_columns_by_position(binary):
    X, y = binary
    columns = ColumnTransformer(
        [("scaled", StandardScaler(), [3, 0]), ("clipped", MinMaxScaler(clip=True), slice(1, 2))],
        remainder="passthrough",
    )
    model = make_pipeline(columns, LASNRegressor(20, random_state=0)).fit(X, y)
    found = run(lasn.to_onnx(model, dtype="float64"), X)["variable"]
    assert_close(found[:, 0], model.predict(X))


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        (OneHotEncoder(handle_unknown="ignore"), "category for missing values"),
        (SimpleImputer(strategy="most_frequent", add_indicator=True), "indicator"),
    ],
)
def test_preprocessing_that_would_not_be_exact_is_refused(binary, part, reason):
    frame, y = mixed_frame(binary)
    frame["shape"] = np.where(np.arange(200) % 3 == 0, "round", None)
    columns = ColumnTransformer([("a", part, ["shape"]), ("b", StandardScaler(), ["b"])])
    encoded = make_pipeline(columns, LASNClassifier(20))
    if isinstance(part, SimpleImputer):
        frame["shape"] = np.where(np.arange(200) % 3 == 0, np.nan, 1.0)
    with pytest.raises(ValueError, match=reason):
        lasn.to_onnx(encoded.fit(frame, y))


@pytest.mark.parametrize("dtype", DTYPES)
def test_skl2onnx_converts_whole_pipelines(three_classes, dtype):
    X, y = three_classes
    register_converters()
    rows = X.astype(dtype)
    model = make_pipeline(StandardScaler(), LASNClassifier(20, loss="log_loss", random_state=0))
    graph = skl2onnx.to_onnx(model.fit(rows, y), rows[:1])
    assert_same_classifier(run(graph, rows), model, rows)
    model = make_pipeline(MinMaxScaler(), NystroemMap(20, random_state=0), LogisticRegression())
    graph = skl2onnx.to_onnx(model.fit(rows, y), rows[:1], options={"zipmap": False})
    assert_close(run(graph, rows)["probabilities"], model.predict_proba(rows))
    model = make_pipeline(MinMaxScaler(), LASNRegressor(20, random_state=0)).fit(rows, y)
    graph = skl2onnx.convert_sklearn(
        model, initial_types=[("X", skl2onnx.common.data_types.guess_data_type(rows)[0][1])]
    )
    assert_close(run(graph, rows)["variable"][:, 0], model.predict(rows))


def test_an_older_opset_can_be_asked_for(three_classes):
    X, y = three_classes
    for kernel in KERNEL_NAMES:
        model = LASNClassifier(10, kernel=kernel, gamma=0.05, random_state=0).fit(X, y)
        graph = lasn.to_onnx(model, dtype="float64", target_opset=15)
        assert {domain.domain: domain.version for domain in graph.opset_import}[""] <= 15
        assert_same_classifier(run(graph, X), model, X)


def test_what_cannot_be_converted_says_so(binary):
    X, y = binary
    with pytest.raises(NotFittedError):
        lasn.to_onnx(LASNClassifier())
    with pytest.raises(ValueError, match="dtype='half'"):
        lasn.to_onnx(LASNClassifier(10).fit(X, y), dtype="half")
    own = LASNClassifier(10, kernel=lambda X, L: X @ L.T).fit(X, y)
    with pytest.raises(ValueError, match="function of yours"):
        lasn.to_onnx(own)


def test_missing_packages_are_named():
    script = (
        "import sys; sys.modules['skl2onnx'] = None\n"
        "import lasn, numpy as np\n"
        "model = lasn.LASNRegressor(2).fit(np.eye(4), np.arange(4.0))\n"
        "try: lasn.to_onnx(model)\n"
        "except ImportError as error: print(error)\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "ONNX export needs onnx and skl2onnx: pip install 'lasn[onnx]'"


def test_the_command_writes_a_graph(three_classes, tmp_path, capsys):
    X, y = three_classes
    model = make_pipeline(StandardScaler(), LASNClassifier(20, random_state=0)).fit(X, y)
    lasn.save(model, tmp_path / "model.lasn")
    target = tmp_path / "model.onnx"
    assert main(["export", str(tmp_path / "model.lasn"), "--onnx", str(target)]) == 0
    assert capsys.readouterr() == ("", "")
    rows = X.astype(np.float32)
    assert_same_classifier(run(onnx.load(target), rows), model, rows)


def test_the_command_reports_problems_in_one_line(tmp_path, capsys):
    (tmp_path / "broken.lasn").write_bytes(b"not a model")
    target = str(tmp_path / "model.onnx")
    for name, reason in (("absent.lasn", "no such model file"), ("broken.lasn", "cannot be read")):
        assert main(["export", str(tmp_path / name), "--onnx", target]) == 1
        out, err = capsys.readouterr()
        assert out == ""
        assert err.count("\n") == 1
        assert name in err
        assert reason in err
    with pytest.raises(SystemExit) as stopped:
        main(["export", str(tmp_path / "broken.lasn")])
    assert stopped.value.code == 2
    assert "--onnx" in capsys.readouterr().err
    assert sorted(os.listdir(tmp_path)) == ["broken.lasn"]

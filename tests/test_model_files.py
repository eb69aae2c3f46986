"""Model files: what is loaded behaves as what was saved."""

import copy
import io
import json
import os
import pickle
import stat
import subprocess
import sys
import time
from contextlib import nullcontext
from dataclasses import is_dataclass

import joblib
import numpy as np
import pytest
import safetensors
import safetensors.numpy
import scipy.sparse as sp
import skops.io
from forms import data_frame
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_selector
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
    ModelFileError,
    NystroemMap,
)
from lasn.kernels import KERNEL_NAMES
from lasn.persist import describe, file_chunks, fingerprint, read_model


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.lasn"


def through_a_file(model, path):
    lasn.save(model, path)
    return lasn.load(path)


def assert_same_value(found, expected):
    """Equal in value, type, dtype and memory order, however deep; NumPy's scalars are Python's."""
    expected = expected.item() if isinstance(expected, np.generic) else expected
    assert type(found) is type(expected)
    if isinstance(expected, np.ndarray):
        assert found.dtype == expected.dtype
        assert found.flags.c_contiguous == expected.flags.c_contiguous
        np.testing.assert_array_equal(found, expected)
    elif sp.issparse(expected):
        assert found.shape == expected.shape
        for part in ("data", "indices", "indptr"):
            np.testing.assert_array_equal(getattr(found, part), getattr(expected, part))
    elif isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key in expected:
            assert_same_value(found[key], expected[key])
    elif isinstance(expected, (list, tuple)):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same_value(one, other)
    elif hasattr(expected, "get_params") or is_dataclass(expected):
        assert_same_value(vars(found), vars(expected))
    elif isinstance(expected, np.random.RandomState):
        assert_same_value(found.get_state(), expected.get_state())
    else:
        assert found == expected or expected != expected


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("loss", ["squared_hinge", "log_loss"])
@pytest.mark.parametrize("data", ["binary", "three_classes"])
@pytest.mark.parametrize("kernel", KERNEL_NAMES)
def test_classifiers_are_the_same_after_loading(request, path, kernel, data, loss, dtype):
    X, y = request.getfixturevalue(data)
    model = LASNClassifier(20, kernel=kernel, gamma=0.1, loss=loss, dtype=dtype, random_state=0)
    loaded = through_a_file(model.fit(X, y), path)
    assert_same_value(loaded, model)
    assert loaded.get_params() == model.get_params()
    for method in ("decision_function", "predict"):
        np.testing.assert_array_equal(getattr(loaded, method)(X), getattr(model, method)(X))
    assert hasattr(loaded, "predict_proba") == (loss == "log_loss")
    if loss == "log_loss":
        np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("targets", [1, 2])
@pytest.mark.parametrize("kernel", KERNEL_NAMES)
def test_regressors_are_the_same_after_loading(regression, path, kernel, targets):
    X, y = regression
    y = y if targets == 1 else np.column_stack([y, -y])
    model = LASNRegressor(20, kernel=kernel, gamma=0.1, random_state=0).fit(X, y)
    loaded = through_a_file(model, path)
    assert_same_value(loaded, model)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


@pytest.mark.parametrize("kernel", KERNEL_NAMES)
def test_feature_maps_are_the_same_after_loading(binary, path, kernel):
    X, _ = binary
    model = NystroemMap(20, kernel=kernel, gamma=0.1, random_state=0).fit(X)
    loaded = through_a_file(model, path)
    assert_same_value(loaded, model)
    np.testing.assert_array_equal(loaded.transform(X), model.transform(X))
    assert list(loaded.get_feature_names_out()) == list(model.get_feature_names_out())


@pytest.mark.parametrize("calibration", ["sigmoid", "isotonic", None])
@pytest.mark.parametrize("data", ["binary", "three_classes"])
def test_tuned_classifiers_are_the_same_after_loading(request, path, data, calibration):
    X, y = request.getfixturevalue(data)
    model = LASNClassifierCV(
        [1.0, 10.0], np.array([0.05, 0.5]), [10, 20], calibration=calibration, random_state=0
    ).fit(X, y)
    loaded = through_a_file(model, path)
    assert_same_value(loaded, model)
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    assert hasattr(loaded, "predict_proba") == (calibration is not None)
    if calibration is not None:
        np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert describe(path)["summary"]["best_params"] == model.best_params_


def test_tuned_regressors_are_the_same_after_loading(regression, path):
    X, y = regression
    model = LASNRegressorCV([1.0], ["variance", 0.1], 20, random_state=0).fit(X, y)
    loaded = through_a_file(model, path)
    assert_same_value(loaded, model)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda model: object.__setattr__(model._calibration, "slope", -1.0), "slope"),
        (lambda model: model.cv_results_.update(mean_test_score=np.zeros(1)), "cv_results_"),
        (lambda model: setattr(model, "best_index_", 99), "best_index_"),
        (lambda model: delattr(model, "_calibration"), "probabilities"),
        (lambda model: model.landmark_curve_[0].pop("score"), "landmark_curve_"),
    ],
)
def test_a_search_that_makes_no_sense_is_not_saved(binary, path, damage, said):
    model = LASNClassifierCV([1.0, 10.0], [0.1], 10, random_state=0).fit(*binary)
    damage(model)
    with pytest.raises(ModelFileError, match=said):
        lasn.save(model, path)
    assert not path.exists()


LABELS = {
    "ints": np.array([-5, 0, 7]),
    "small ints": np.array([0, 1, 2], dtype=np.int8),
    "floats": np.array([-1.0, 1.0, 3.0]),
    "strings": np.array(["eins", "zwei", "drei ü"]),
    "objects": np.array(["a", "b", "c"], dtype=object),
}


@pytest.mark.parametrize("kind", LABELS)
def test_labels_keep_their_type(three_classes, path, kind):
    X, y = three_classes
    model = LASNClassifier(10, random_state=0).fit(X, LABELS[kind][y])
    loaded = through_a_file(model, path)
    assert_same_value(loaded.predict(X), model.predict(X))


def test_bools_are_labels_too(binary, path):
    X, y = binary
    loaded = through_a_file(LASNClassifier(10, random_state=0).fit(X, y == 1), path)
    assert loaded.predict(X).dtype == bool


@pytest.mark.parametrize("estimator", [LASNClassifier, LASNRegressor, NystroemMap])
def test_sparse_landmarks_stay_sparse(sparse_rows, path, estimator):
    X, y = sparse_rows
    model = estimator(20, landmarks="uniform", random_state=0).fit(X, y)
    assert sp.issparse(model.landmarks_)
    loaded = through_a_file(model, path)
    assert_same_value(loaded, model)
    assert path.stat().st_size < X.shape[1] * 20 * 8
    method = "transform" if estimator is NystroemMap else "predict"
    np.testing.assert_array_equal(getattr(loaded, method)(X), getattr(model, method)(X))


def test_given_landmarks_are_stored_once(rng, path):
    X = rng.normal(size=(400, 50))
    model = LASNRegressor(landmarks=X[:300]).fit(X, X[:, 0])
    loaded = through_a_file(model, path)
    assert_same_value(loaded, model)
    large = [name for name in describe(path)["arrays"] if not name.startswith("history_")]
    assert sorted(large) == ["coef_", "dual_coef_", "landmarks", "mapping_"]
    assert loaded.landmarks is loaded._landmark_parameters["landmarks"]


@pytest.mark.parametrize("landmarks", [sp.csr_array, sp.csc_matrix, np.ndarray.tolist])
def test_given_landmarks_are_kept_as_parameter(three_classes, path, landmarks):
    X, y = three_classes
    model = LASNClassifier(landmarks=landmarks(X[:10])).fit(X, y)
    loaded = through_a_file(model, path)
    assert_same_value(loaded.landmarks, model.landmarks)
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))


def test_clone_and_refit_of_a_loaded_model(binary, path):
    X, y = binary
    model = LASNClassifier(20, class_weight={0: 2.0, 1: 1.0}, random_state=3).fit(X, y)
    loaded = through_a_file(model, path)
    assert loaded.class_weight == {0: 2.0, 1: 1.0}
    fresh = clone(loaded)
    assert not hasattr(fresh, "coef_")
    np.testing.assert_array_equal(fresh.fit(X, y).coef_, model.coef_)


def test_warm_start_goes_on_from_a_loaded_model(binary, path):
    X, y = binary
    model = LASNClassifier(20, tol=1e-8, warm_start=True, random_state=0).fit(X, y)
    loaded = through_a_file(model, path)
    for one in (model, loaded):
        one.set_params(C=12.0).fit(X, y)
    np.testing.assert_array_equal(loaded.landmarks_, model.landmarks_)
    np.testing.assert_array_equal(loaded.coef_, model.coef_)
    assert loaded.n_iter_ == model.n_iter_


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_feature_names_are_checked_as_before(binary, path, library):
    X, y = binary
    model = LASNClassifier(20, random_state=0).fit(data_frame(library, X, "abcde"), y)
    loaded = through_a_file(model, path)
    assert list(loaded.feature_names_in_) == list("abcde")
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(data_frame(library, X, "edcba"))
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(data_frame(library, X[:, :4], "abcd"))


def test_a_random_state_is_saved_with_its_state(binary, path):
    X, y = binary
    model = LASNClassifier(20, random_state=np.random.RandomState(5)).fit(X, y)
    loaded = through_a_file(model, path)
    np.testing.assert_array_equal(loaded.fit(X, y).landmarks_, model.fit(X, y).landmarks_)


@pytest.mark.parametrize("scaler", [StandardScaler, MinMaxScaler, MaxAbsScaler])
@pytest.mark.parametrize("estimator", [LASNClassifier, LASNRegressor])
def test_pipelines_with_a_scaler(binary, path, scaler, estimator):
    X, y = binary
    model = make_pipeline(scaler(), estimator(20, random_state=0)).fit(X, y)
    loaded = through_a_file(model, path)
    assert_same_value(loaded, model)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.named_steps.keys() == model.named_steps.keys()


def test_scalers_of_columns_with_missing_values(binary, path):
    X, y = binary
    holes = X.copy()
    holes[::7, 0] = np.nan
    scaler = make_pipeline(StandardScaler(), SimpleImputer(), LASNClassifier(20, random_state=0))
    loaded = through_a_file(scaler.fit(holes, y), path)
    np.testing.assert_array_equal(loaded.decision_function(holes), scaler.decision_function(holes))


def mixed_frame(binary):
    X, y = binary
    frame = data_frame("pandas", X, "abcde")
    frame.loc[::9, "a"] = np.nan
    frame["colour"] = np.where(X[:, 0] > 0.0, "red", "blue").astype(object)
    frame.loc[::11, "colour"] = np.nan
    frame["size"] = np.round(X[:, 1])
    return frame, y


def mixed_pipeline(**encoder):
    numeric = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    words = make_pipeline(
        SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore", **encoder)
    )
    columns = ColumnTransformer(
        [
            ("numeric", numeric, ["a", "b", "c"]),
            ("words", words, ["colour"]),
            ("sizes", OneHotEncoder(), ["size"]),
            ("none", "drop", ["d"]),
        ],
        remainder="passthrough",
    )
    return make_pipeline(columns, LASNClassifier(20, random_state=0))


@pytest.mark.parametrize("encoder", [{}, {"min_frequency": 0.3}, {"drop": "first"}])
def test_pipelines_of_imputed_encoded_and_scaled_columns(binary, path, encoder):
    frame, y = mixed_frame(binary)
    model = mixed_pipeline(**encoder).fit(frame, y)
    loaded = through_a_file(model, path)
    assert_same_value(loaded, model)
    np.testing.assert_array_equal(loaded.decision_function(frame), model.decision_function(frame))
    new = frame.head(3).assign(colour=["green", "red", np.nan])
    with pytest.warns(UserWarning, match="unknown") if "drop" in encoder else nullcontext():
        expected = model.decision_function(new)
    with pytest.warns(UserWarning, match="unknown") if "drop" in encoder else nullcontext():
        np.testing.assert_array_equal(loaded.decision_function(new), expected)
    assert list(loaded[:-1].get_feature_names_out()) == list(model[:-1].get_feature_names_out())


def test_set_output_is_kept(binary, path):
    X, _ = binary
    frame = data_frame("pandas", X, "abcde")
    model = make_pipeline(StandardScaler().set_output(transform="pandas"), NystroemMap(5))
    loaded = through_a_file(model.fit(frame), path)
    assert list(loaded[0].transform(frame).columns) == list("abcde")


def test_the_same_model_gives_the_same_bytes(binary):
    frame, y = mixed_frame(binary)
    model = mixed_pipeline().fit(frame, y)
    data = b"".join(file_chunks(model))
    assert b"".join(file_chunks(copy.deepcopy(model))) == data
    assert b"".join(file_chunks(read_model(io.BytesIO(data), "bytes"))) == data


def test_a_file_that_other_software_wrote_again_is_the_same_model(binary, path):
    X, y = binary
    model = LASNClassifier(20, random_state=0).fit(X, y)
    lasn.save(model, path)
    with safetensors.safe_open(path, framework="numpy") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        safetensors.numpy.save_file(tensors, path, file.metadata())
    assert_same_value(lasn.load(path), model)


def test_describe_reads_the_header(binary, path):
    frame, y = mixed_frame(binary)
    model = mixed_pipeline().fit(frame, y)
    metadata = {"data": fingerprint(frame, y), "metrics": {"accuracy": np.float64(0.75)}}
    lasn.save(model, path, metadata=metadata)
    found = describe(path)
    assert found["format_version"] == 1
    assert found["versions"]["lasn"] == lasn.__version__
    assert found["bytes"] == path.stat().st_size
    assert found["metadata"]["metrics"] == {"accuracy": 0.75}
    assert found["metadata"]["data"]["rows"] == 200
    summary = found["summary"]
    assert summary["estimator"] == "LASNClassifier"
    assert summary["steps"] == ["ColumnTransformer", "LASNClassifier"]
    assert summary["classes"] == [0, 1]
    assert summary["n_features"] == 7
    assert summary["feature_names"] == [*"abcde", "colour", "size"]
    assert summary["n_landmarks"] == 20
    assert summary["n_iter"] == model[-1].n_iter_
    assert summary["relative_gradient"] == model[-1].history_[-1]["relative_gradient"]
    json.dumps(found)


def test_fingerprints_tell_data_apart(binary, sparse_rows):
    X, y = binary
    S, _ = sparse_rows
    words = np.array(["a", "b"])[y]
    prints = [fingerprint(*data) for data in [(X,), (X, y), (X, 1 - y), (X, words), (S,), (X[:9],)]]
    assert len({found["sha256"] for found in prints}) == len(prints)
    assert fingerprint(np.asfortranarray(X), list(y)) == fingerprint(X, y)
    assert fingerprint(S)["features"] == 1000


def test_kernel_functions_cannot_be_saved(binary, path):
    X, y = binary
    model = LASNClassifier(10, kernel=lambda X, L: X @ L.T, random_state=0).fit(X, y)
    with pytest.raises(ModelFileError, match=r"kernel is a function of yours.*rbf.*joblib"):
        lasn.save(make_pipeline(model), path)
    assert not path.exists()


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (LogisticRegression(), "LogisticRegression cannot be saved"),
        (make_pipeline(StandardScaler(), LogisticRegression()), "of type LogisticRegression"),
        (
            make_pipeline(
                ColumnTransformer(
                    [("all", StandardScaler(), make_column_selector())],
                ),
                LASNClassifier(10),
            ),
            "make_column_selector",
        ),
    ],
)
def test_models_that_a_file_cannot_hold(binary, path, model, reason):
    X, y = binary
    model.fit(data_frame("pandas", X, "abcde"), y)
    with pytest.raises(ModelFileError, match=reason):
        lasn.save(model, path)
    assert os.listdir(path.parent) == []


class OwnClassifier(LASNClassifier):
    """A class that a file would lose."""


def test_subclasses_and_own_attributes_are_refused(binary, path):
    X, y = binary
    with pytest.raises(ModelFileError, match="OwnClassifier cannot be saved"):
        lasn.save(OwnClassifier(10).fit(X, y), path)
    model = LASNClassifier(10).fit(X, y)
    model.note = "mine"
    with pytest.raises(ModelFileError, match="note is an attribute"):
        lasn.save(model, path)
    del model.note
    with pytest.raises(ModelFileError, match="C=-1"):
        lasn.save(model.set_params(C=-1), path)


def test_models_that_are_not_fitted_are_refused(path):
    for model in (LASNClassifier(), make_pipeline(StandardScaler(), LASNClassifier())):
        with pytest.raises(NotFittedError, match="call fit before saving"):
            lasn.save(model, path)


@pytest.mark.parametrize("metadata", [{"a": float("nan")}, {"a": object()}, {("a",): 1}])
def test_metadata_must_be_json(binary, path, metadata):
    X, y = binary
    with pytest.raises(ValueError, match="metadata must be what JSON can hold"):
        lasn.save(LASNClassifier(10).fit(X, y), path, metadata=metadata)
    with pytest.raises(TypeError, match="metadata must be a mapping"):
        lasn.save(LASNClassifier(10).fit(X, y), path, metadata=[1])


def test_callbacks_are_left_behind(binary, path):
    callback = pytest.importorskip("sklearn.callback", reason="scikit-learn 1.9 brings callbacks")
    X, y = binary
    monitor = callback.ScoringMonitor(scoring="accuracy")
    model = LASNClassifier(10, random_state=0).set_callbacks(monitor).fit(X, y)
    loaded = through_a_file(model, path)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert not hasattr(loaded, "_skl_callbacks")


def test_an_old_file_survives_a_failed_save(binary, path, monkeypatch):
    X, y = binary
    lasn.save(LASNClassifier(10, random_state=0).fit(X, y), path)
    before = path.read_bytes()
    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match=r"No space left on device.*model\.lasn"):
        lasn.save(LASNClassifier(20, random_state=0).fit(X, y), path)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == ["model.lasn"]


def full_disk(handle):
    raise OSError(28, "No space left on device")


def test_a_killed_process_leaves_a_whole_file(binary, path):
    X, y = binary
    models = [LASNClassifier(k, random_state=0).fit(X, y) for k in (10, 60)]
    script = (
        "import sys, lasn\n"
        "models = [lasn.load(path) for path in sys.argv[2:]]\n"
        "print('ready', flush=True)\n"
        "while True:\n"
        "    for model in models: lasn.save(model, sys.argv[1])\n"
    )
    sources = [path.with_name(f"source{index}.lasn") for index in range(2)]
    for model, source in zip(models, sources, strict=True):
        lasn.save(model, source)
    allowed = [source.read_bytes() for source in sources]
    command = [sys.executable, "-c", script, str(path), *map(str, sources)]
    for round_number in range(3):
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            time.sleep(0.05 + 0.013 * round_number)
            process.kill()
        assert path.read_bytes() in allowed


def test_a_save_keeps_permissions_and_links(binary, path):
    X, y = binary
    model = LASNClassifier(10, random_state=0).fit(X, y)
    lasn.save(model, path)
    assert stat.S_IMODE(path.stat().st_mode) & 0o600 == 0o600
    path.chmod(0o640)
    link = path.with_name("link.lasn")
    link.symlink_to(path)
    lasn.save(model, link)
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    np.testing.assert_array_equal(lasn.load(link).predict(X), model.predict(X))


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs Linux's /dev/full")
def test_a_full_device_is_reported_by_name(binary):
    X, y = binary
    with pytest.raises(OSError, match="/dev/full"):
        lasn.save(LASNClassifier(10).fit(X, y), "/dev/full")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


def test_paths_that_cannot_be_written_or_read(binary, tmp_path):
    X, y = binary
    model = LASNClassifier(10).fit(X, y)
    with pytest.raises(IsADirectoryError):
        lasn.save(model, tmp_path)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        lasn.save(model, tmp_path / "nowhere" / "model.lasn")
    with pytest.raises(FileNotFoundError, match="absent"):
        lasn.load(tmp_path / "absent.lasn")
    with pytest.raises(IsADirectoryError):
        lasn.load(tmp_path)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "estimator",
    [LASNClassifier(20, random_state=0), LASNClassifierCV([1.0], [0.1], 20, random_state=0)],
)
def test_pickle_joblib_and_skops_keep_working(three_classes, tmp_path, estimator):
    X, y = three_classes
    model = make_pipeline(StandardScaler(), estimator).fit(X, y)
    expected = model.decision_function(X)
    joblib.dump(model, tmp_path / "model.joblib")
    skops.io.dump(model, tmp_path / "model.skops")
    trusted = skops.io.get_untrusted_types(file=tmp_path / "model.skops")
    assert all(name.startswith(("lasn.", "sklearn.", "numpy.")) for name in trusted)
    copies = [
        pickle.loads(pickle.dumps(model)),
        joblib.load(tmp_path / "model.joblib"),
        skops.io.load(tmp_path / "model.skops", trusted=trusted),
    ]
    for copied in copies:
        np.testing.assert_array_equal(copied.decision_function(X), expected)


def test_importing_the_package_imports_no_model_files():
    script = (
        "import sys, lasn; "
        "print([m for m in sys.modules if m in ('lasn.persist', 'lasn.onnx_export', 'onnx')])"
    )
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"
    assert {"save", "load", "to_onnx", "persist"} <= set(dir(lasn))
    with pytest.raises(AttributeError, match="no attribute 'sav'"):
        lasn.sav  # noqa: B018

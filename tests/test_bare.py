"""Model files as arrays: the scores of the loaded model, bit by bit, without scikit-learn."""

import subprocess
import sys

import numpy as np
import pytest
from forms import data_frame
from numpy.testing import assert_array_equal
from shell import environment
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

import lasn
from lasn import LASNClassifier, LASNClassifierCV, LASNRegressor, NystroemMap
from lasn.bare import load_bare
from lasn.cli import main
from lasn.kernels import KERNEL_NAMES


def both(model, path):
    lasn.save(model, path)
    return load_bare(path), lasn.load(path)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("data", ["binary", "three_classes"])
@pytest.mark.parametrize("kernel", KERNEL_NAMES)
def test_classifiers(request, tmp_path, kernel, data, dtype):
    X, y = request.getfixturevalue(data)
    model = LASNClassifier(20, kernel=kernel, gamma=0.05, dtype=dtype, random_state=0).fit(X, y)
    bare, loaded = both(model, tmp_path / "m")
    assert_array_equal(bare.decision_function(X), loaded.decision_function(X))
    assert_array_equal(bare.predict(X), model.predict(X))
    assert bare.n_features_in_ == X.shape[1]


@pytest.mark.parametrize(
    "scaler",
    [StandardScaler(), StandardScaler(with_mean=False), StandardScaler(with_std=False),
     MinMaxScaler(), MinMaxScaler((-1, 2)), MaxAbsScaler()],
)  # fmt: skip
def test_scalers(binary, tmp_path, scaler):
    X, y = binary
    bare, loaded = both(make_pipeline(scaler, LASNClassifier(20)).fit(X, y), tmp_path / "m")
    assert_array_equal(bare.decision_function(X), loaded.decision_function(X))


@pytest.mark.parametrize("targets", [1, 2])
def test_regressors(regression, tmp_path, targets):
    X, y = regression
    y = y if targets == 1 else np.column_stack([y, -y])
    bare, loaded = both(
        make_pipeline(StandardScaler(), LASNRegressor(20)).fit(X, y), tmp_path / "m"
    )
    assert_array_equal(bare.predict(X), loaded.predict(X))
    assert not hasattr(bare, "classes_")


def test_sparse_rows(sparse_rows, tmp_path):
    X, y = sparse_rows
    model = make_pipeline(MaxAbsScaler(), LASNClassifier(20, random_state=0)).fit(X, y)
    bare, loaded = both(model, tmp_path / "m")
    assert_array_equal(bare.decision_function(X), loaded.decision_function(X))


def test_tuned_and_exact_models(binary, tmp_path):
    X, y = binary
    for model in (
        LASNClassifierCV([1.0], [0.05], 20, random_state=0),
        LASNClassifier(20, solver="exact", random_state=0),
    ):
        bare, loaded = both(model.fit(X, y), tmp_path / "m")
        assert_array_equal(bare.decision_function(X), loaded.decision_function(X))


@pytest.mark.parametrize("steps", [[], [StandardScaler()]])
def test_names_of_columns(binary, tmp_path, steps):
    X, y = binary
    frame = data_frame("pandas", X, "abcde")
    bare, _ = both(make_pipeline(*steps, LASNClassifier(20)).fit(frame, y), tmp_path / "m")
    assert bare.feature_names_in_.tolist() == list("abcde")
    assert not hasattr(both(LASNClassifier(20).fit(X, y), tmp_path / "m")[0], "feature_names_in_")
    frame[list("ecabd")].to_csv(tmp_path / "rows.csv", index=False)
    lasn.save(
        make_pipeline(*steps, LASNClassifier(20, random_state=0)).fit(frame, y), tmp_path / "m"
    )
    words = [
        "predict",
        str(tmp_path / "m"),
        str(tmp_path / "rows.csv"),
        "-o",
        str(tmp_path / "out"),
    ]
    assert main(words) == 0
    assert_array_equal(np.loadtxt(tmp_path / "out"), lasn.load(tmp_path / "m").predict(frame))


def test_what_takes_more_than_arrays_is_left_to_load(binary, tmp_path):
    X, y = binary
    for model in (
        NystroemMap(10),
        make_pipeline(MinMaxScaler(clip=True), LASNClassifier(20)),
        make_pipeline(NystroemMap(10), LASNClassifier(kernel="linear")),
    ):
        bare, loaded = both(model.fit(X, y), tmp_path / "m")
        assert bare is None
        assert loaded is not None


def test_a_damaged_file_is_named(binary, tmp_path):
    X, y = binary
    path = tmp_path / "m"
    lasn.save(LASNClassifier(20).fit(X, y), path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:])
    with pytest.raises(lasn.ModelFileError, match="was changed"):
        load_bare(path)


def test_predicting_a_file_imports_nothing_slow(binary, tmp_path):
    X, y = binary
    lasn.save(make_pipeline(StandardScaler(), LASNClassifier(20)).fit(X, y), tmp_path / "m")
    np.save(tmp_path / "rows.npy", X)
    script = (
        "import sys; from lasn.cli import main\n"
        "code = main(['predict', 'm', 'rows.npy', '-o', 'out'])\n"
        "print(code, sorted({'sklearn', 'pandas', 'scipy.sparse'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "0 []\n"
    assert_array_equal(np.loadtxt(tmp_path / "out"), lasn.load(tmp_path / "m").predict(X))

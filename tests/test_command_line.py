"""The story that a person tells the command line, on real files."""

import io
import json
import re
import sys

import numpy as np
import onnxruntime
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from shell import MIXED_HEADER, lasn, mixed_rows, write_csv
from sklearn.datasets import dump_svmlight_file, load_diabetes, load_iris, load_svmlight_file
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    f1_score,
    mean_absolute_error,
    r2_score,
    roc_auc_score,
)

import lasn as package
from lasn import LASNClassifier
from lasn.cli import main
from lasn.cli.estimator_flags import estimator_classes, parameter_docs, tuned_classes
from lasn.cli.models import read_model


def call(*arguments):
    """Run a command in this process."""
    return main([str(argument) for argument in arguments])


def test_the_whole_story(tmp_path):
    """Read, tune, train, look, report, predict, export; the same answers everywhere."""
    training = write_csv(tmp_path / "train.csv", MIXED_HEADER, mixed_rows(300))
    rows = mixed_rows(100, seed=1)
    new = write_csv(tmp_path / "new.csv", MIXED_HEADER, rows)
    tuned, model = tmp_path / "tuned.lasn", tmp_path / "model.lasn"
    columns = ["--target", "label", "--scale", "standard", "--random-state", "0"]

    said, _ = lasn(
        "tune", training, *columns, "--Cs", "1,10", "--gammas", "variance,1", "--n-landmarks",
        "40", "--cv", "3", "-o", tuned,
    )  # fmt: skip
    lines = [line.split() for line in said.splitlines()]
    assert lines[0] == ["score", "+-", "C", "gamma", "landmarks", "seconds"]
    assert lines[1][0] == "*"
    scores = [float(line[-6]) for line in lines[1:5]]
    assert scores == sorted(scores, reverse=True)
    best = {"C": lines[1][3], "gamma": lines[1][4]}

    said, log = lasn(
        "train", training, *columns, "--C", best["C"], "--n-landmarks", "60", "-o", model,
        "--report", tmp_path / "train.html", "--log",
    )  # fmt: skip
    assert "LASNClassifier (the target is text)" in said
    assert "300 rows, 4 columns, 6 features, 60 landmarks" in said
    assert "reading: 300 rows" in log
    assert "Newton 1," in log
    assert "Measured on the rows that the model was trained on" in read(tmp_path / "train.html")

    summary = json.loads(lasn("info", tuned, "--json")[0])["summary"]
    assert summary["classes"] == ["no", "yes"]
    assert f"{summary['best_params']['gamma']:.4g}" == best["gamma"]

    lasn("report", tuned, new, "-o", tmp_path / "new.html")
    report = read(tmp_path / "new.html")
    assert "Measured on other rows" in report

    out = tmp_path / "predictions.csv"
    lasn("predict", tuned, new, "-o", out)
    probabilities, metrics = lasn(
        "predict", tuned, new, "--output-kind", "probabilities", "--evaluate", "-o", "-"
    )
    lasn("export", tuned, "--onnx", tmp_path / "tuned.onnx", "--dtype", "float64")

    pipeline = package.load(tuned)
    X = np.array([row[:4] for row in rows], dtype=object)
    labels = np.array([row[4] for row in rows])
    lines = out.read_text().splitlines()
    assert lines[0] == "prediction"
    assert_array_equal(lines[1:], pipeline.predict(X))
    spelled = np.loadtxt(io.StringIO(probabilities))
    assert_allclose(spelled, pipeline.predict_proba(X), atol=1e-12)
    accuracy = np.mean(pipeline.predict(X) == labels)
    assert f"accuracy {accuracy:.6g}\n" in metrics
    assert accuracy > 0.9
    assert f"{100 * accuracy:.2f} %" in report

    session = onnxruntime.InferenceSession(tmp_path / "tuned.onnx")
    sent = {name: X[:, [j]].astype(float) for j, name in enumerate("abc")}
    names = ["label", "probabilities", "scores"]
    found = session.run(names, {**sent, "colour": X[:, [3]].astype(str)})
    assert_array_equal(found[0], lines[1:])
    assert_allclose(found[1], spelled, atol=1e-4)
    assert_allclose(found[2], pipeline.decision_function(X), atol=1e-4)


def read(path):
    return path.read_text(encoding="utf-8")


def test_information_for_people(iris, capsys):
    assert call("info", iris / "model.lasn") == 0
    said = capsys.readouterr().out
    assert re.search(r"--n-landmarks +40\n", said)
    assert re.search(r"data features +sl, sw, pl, pw\n", said)
    assert re.search(r"metrics on training +rows \d+, accuracy (0\.9|1)", said)


def test_preprocessing_is_scikit_learns_own(tmp_path):
    """The model file's pipeline is the one that a person would fit in Python."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler

    X, y = load_iris(return_X_y=True)
    np.savez(tmp_path / "iris.npz", X=X, y=y)
    model = tmp_path / "iris.lasn"
    call("train", tmp_path / "iris.npz", "--scale", "minmax", "--random-state", 0, "-o", model)
    expected = make_pipeline(MinMaxScaler(), LASNClassifier(random_state=0)).fit(X, y)
    assert_array_equal(package.load(model).decision_function(X), expected.decision_function(X))


@pytest.fixture(scope="module")
def iris(tmp_path_factory):
    """A folder with iris in every format, and a model trained on the CSV file."""
    folder = tmp_path_factory.mktemp("iris")
    X, y = load_iris(return_X_y=True)
    names = ["sl", "sw", "pl", "pw"]
    kinds = np.array(["setosa", "versicolor", "virginica"])[y].tolist()
    rows = [[*row, kind] for row, kind in zip(X.tolist(), kinds, strict=True)]
    write_csv(folder / "iris.csv", [*names, "kind"], rows)
    columns = {**dict(zip(names, X.T, strict=True)), "kind": kinds}
    pa.parquet.write_table(pa.table(columns), folder / "iris.parquet")
    pa.feather.write_feather(pa.table(columns), str(folder / "iris.feather"))
    np.save(folder / "iris.npy", X)
    dump_svmlight_file(X, y, str(folder / "iris.svm"), zero_based=False)
    call(
        "train", folder / "iris.csv", "--target", "kind", "--loss", "log_loss",
        "--random-state", 0, "--n-landmarks", 40, "-o", folder / "model.lasn",
    )  # fmt: skip
    return folder


@pytest.mark.parametrize("suffix", ["csv", "parquet", "feather", "npy", "svm"])
@pytest.mark.parametrize("kind", ["labels", "decision", "probabilities"])
def test_every_format_predicts_what_python_predicts(iris, tmp_path, suffix, kind):
    pipeline = package.load(iris / "model.lasn")
    X, _ = load_iris(return_X_y=True)
    compute = {
        "labels": pipeline.predict,
        "decision": pipeline.decision_function,
        "probabilities": pipeline.predict_proba,
    }
    out = tmp_path / "out.parquet"
    source = iris / f"iris.{suffix}"
    assert call("predict", iris / "model.lasn", source, "--output-kind", kind, "-o", out) == 0
    table = pa.parquet.read_table(out)
    values = np.column_stack([column.to_numpy() for column in table.columns])
    expected = compute[kind](X)
    if kind == "labels":
        assert_array_equal(values[:, 0].astype(str), expected)
    else:
        assert table.column_names[2].endswith("_virginica")
        assert_allclose(values, expected, rtol=1e-9, atol=1e-9)


def test_columns_are_found_by_name_in_any_order(iris, tmp_path):
    table = pa.parquet.read_table(iris / "iris.parquet")
    turned = table.select(table.column_names[::-1]).append_column("other", [["?"] * 150])
    pa.parquet.write_table(turned, tmp_path / "turned.parquet")
    for name, source in (("a", iris / "iris.csv"), ("b", tmp_path / "turned.parquet")):
        call("predict", iris / "model.lasn", source, "-o", tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_standard_input_and_output(iris):
    text = (iris / "iris.csv").read_bytes()
    model = iris / "model.lasn"
    out, _ = lasn("predict", model, "-", "--format", "csv", stdin=text)
    assert call("predict", model, iris / "iris.csv", "-o", iris / "lines") == 0
    assert out == (iris / "lines").read_text()
    assert len(out.splitlines()) == 150
    parquet = (iris / "iris.parquet").read_bytes()
    assert lasn("predict", model, "-", "--format", "parquet", stdin=parquet)[0] == out


def test_evaluation_of_classes_is_scikit_learns(tmp_path, capsys, binary, monkeypatch):
    monkeypatch.setattr("lasn.tables.arrays.PIECE_ROWS", 30)
    X, y = binary
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    call("train", tmp_path / "rows.npz", "--C", 0.01, "--n-landmarks", 20, "-o", tmp_path / "m")
    capsys.readouterr()
    call("predict", tmp_path / "m", tmp_path / "rows.npz", "--evaluate")
    said = dict(line.split() for line in capsys.readouterr().out.splitlines())
    model = package.load(tmp_path / "m")
    labels, scores = model.predict(X), model.decision_function(X)
    assert 0.5 < accuracy_score(y, labels) < 1.0
    assert float(said["accuracy"]) == pytest.approx(accuracy_score(y, labels), rel=1e-5)
    balanced = balanced_accuracy_score(y, labels)
    assert float(said["balanced_accuracy"]) == pytest.approx(balanced, rel=1e-5)
    assert float(said["f1"]) == pytest.approx(f1_score(y, labels), rel=1e-5)
    assert float(said["auc"]) == pytest.approx(roc_auc_score(y, scores), rel=1e-4)


def test_evaluation_of_numbers_is_scikit_learns(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("lasn.tables.arrays.PIECE_ROWS", 50)
    X, y = load_diabetes(return_X_y=True)
    np.save(tmp_path / "rows.npy", np.column_stack([X, y]))
    data = tmp_path / "rows.npy"
    call("train", data, "--target", -1, "--scale", "standard", "--epsilon", 5, "-o", tmp_path / "m")
    assert "LASNRegressor (the target has 214 different whole numbers)" in capsys.readouterr().out
    call("predict", tmp_path / "m", data, "--target", 11, "--evaluate")
    said = dict(line.split() for line in capsys.readouterr().out.splitlines())
    predicted = package.load(tmp_path / "m").predict(X)
    assert float(said["r2"]) == pytest.approx(r2_score(y, predicted), rel=1e-5)
    assert float(said["mae"]) == pytest.approx(mean_absolute_error(y, predicted), rel=1e-5)


def test_sparse_rows_stay_sparse(tmp_path, sparse_rows):
    X, y = sparse_rows
    path = tmp_path / "rows.svm"
    dump_svmlight_file(X, y, str(path), zero_based=False)
    call("train", path, "--scale", "maxabs", "--n-landmarks", 50, "-o", tmp_path / "m")
    pipeline = package.load(tmp_path / "m")
    rows, _ = load_svmlight_file(str(path), n_features=pipeline.n_features_in_, zero_based=False)
    assert read_model(str(tmp_path / "m")).notes.sparse
    call("predict", tmp_path / "m", path, "-o", tmp_path / "out")
    assert_array_equal(np.loadtxt(tmp_path / "out"), pipeline.predict(rows))


def test_missing_values_are_imputed_if_asked(tmp_path):
    rows = mixed_rows(120)
    for i in range(0, 120, 7):
        rows[i][i % 4] = ""
    source = write_csv(tmp_path / "rows.csv", MIXED_HEADER, rows)
    model = tmp_path / "m"
    filled = ["--impute", "median", "--scale", "standard"]
    call("train", source, "--target", "label", *filled, "-o", model)
    call("predict", model, source, "-o", tmp_path / "out")
    X = np.array([row[:4] for row in rows], dtype=object)
    X[:, :3][X[:, :3] == ""] = np.nan
    assert_array_equal((tmp_path / "out").read_text().split(), package.load(model).predict(X))


def test_a_category_that_training_did_not_see_is_none_of_them(tmp_path):
    source = write_csv(tmp_path / "rows.csv", MIXED_HEADER, mixed_rows(100))
    call("train", source, "--target", "label", "-o", tmp_path / "m")
    encoder = package.load(tmp_path / "m")[0]
    encoded = encoder.transform(np.array([[1.0, 2.0, 3.0, "purple"]], dtype=object))
    assert np.asarray(encoded).tolist() == [[1.0, 2.0, 3.0, 0.0, 0.0, 0.0]]


def test_a_column_of_keys_is_noticed(tmp_path, capsys):
    rows = [[f"row {number}", *row] for number, row in enumerate(mixed_rows(60))]
    source = write_csv(tmp_path / "rows.csv", ["id", *MIXED_HEADER], rows)
    words = ["train", source, "--target", "label", "--log", "-o", tmp_path / "m"]
    call(*words)
    told = capsys.readouterr().err
    assert "column 'id' has 60 different values" in told
    assert "'colour'" not in told
    call(*words, "--ignore", "id")
    assert "different values" not in capsys.readouterr().err


def test_files_without_names(tmp_path, binary):
    X, y = binary
    source = tmp_path / "rows.csv"
    np.savetxt(source, np.column_stack([y, X]), delimiter=";")
    flags = ["--no-header", "--delimiter", ";", "--target", 1]
    call("train", source, *flags, "-o", tmp_path / "m", "--task", "classify")
    call("predict", tmp_path / "m", source, *flags, "-o", tmp_path / "out.tsv")
    assert (tmp_path / "out.tsv").read_text().split()[0] == "prediction"
    labels = package.load(tmp_path / "m").predict(X)
    assert_array_equal(np.loadtxt(tmp_path / "out.tsv", skiprows=1), labels)


def test_labels_that_need_quotes(tmp_path):
    rows = [[float(i), '"a, b"' if i % 2 else '"say ""c"""'] for i in range(20)]
    source = write_csv(tmp_path / "rows.csv", ["x", "y"], rows)
    call("train", source, "--target", "y", "-o", tmp_path / "m")
    call("predict", tmp_path / "m", source, "-o", tmp_path / "out.csv")
    lines = (tmp_path / "out.csv").read_text().splitlines()[1:]
    assert set(lines) <= {'"a, b"', '"say ""c"""'}


def test_a_model_saved_in_python_predicts_files(tmp_path, binary):
    X, y = binary
    model = LASNClassifier(20, random_state=0).fit(X, y)
    package.save(model, tmp_path / "m")
    np.save(tmp_path / "rows.npy", X)
    call("predict", tmp_path / "m", tmp_path / "rows.npy", "-o", tmp_path / "out")
    assert_array_equal(np.loadtxt(tmp_path / "out"), model.predict(X))


def test_class_weights_and_words_reach_the_estimator(tmp_path):
    source = write_csv(tmp_path / "rows.csv", MIXED_HEADER, mixed_rows(60))
    call(
        "train", source, "--target", "label", "--class-weight", "yes=2,no=0.5", "--gamma", "0.5",
        "--kernel", "laplacian", "--memory-limit", "1GB", "-o", tmp_path / "m",
    )  # fmt: skip
    parameters = package.load(tmp_path / "m")[-1].get_params()
    assert parameters["class_weight"] == {"yes": 2, "no": 0.5}
    assert parameters["gamma"] == 0.5
    assert parameters["kernel"] == "laplacian"
    assert parameters["memory_limit"] == "1GB"


def manual(command, capsys):
    """What a command says of itself."""
    with pytest.raises(SystemExit) as ended:
        call(command, "--help")
    assert ended.value.code == 0
    return capsys.readouterr().out


def test_the_exact_solver(tmp_path, binary, capsys):
    """It has a gap where others have a gradient, and support vectors for landmarks."""
    X, y = binary
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    model, rows, page = (tmp_path / name for name in ("m", "rows.npz", "r.html"))
    words = ["--solver", "exact", "--checkpoint", tmp_path / "part", "--report", page, "--log"]
    assert call("train", rows, *words, "-o", model) == 0
    out, log = capsys.readouterr()
    assert re.search(r"Newton iterations? to gap = ", out)
    assert re.search(r"lasn: fit: Newton 1, gap ", log)
    assert "Relative gap" in page.read_text()
    assert "chart-spectrum" not in page.read_text()
    assert call("info", model) == 0
    assert re.search(r"relative_gap +-?\d", capsys.readouterr().out)  # rounding may be below zero
    assert call("predict", model, rows, "-o", tmp_path / "out") == 0
    assert_array_equal(np.loadtxt(tmp_path / "out"), package.load(model).predict(X))
    assert package.load(tmp_path / "part")[-1].mapping_ is None


@pytest.mark.parametrize(
    ("command", "classes"), [("train", estimator_classes()), ("tune", tuned_classes())]
)
def test_every_parameter_is_a_flag_with_the_docstrings_text(capsys, command, classes):
    help_text = " ".join(manual(command, capsys).split())
    other_ways = {"warm_start", "verbose", "checkpoint", "resume"}
    for estimator in classes.values():
        docs = parameter_docs(estimator)
        assert set(docs) == set(estimator().get_params())
        for name in set(docs) - other_ways:
            assert f"--{name.replace('_', '-')} " in help_text
    for name, (_, text) in parameter_docs(classes["classify"]).items():
        if name not in other_ways:
            assert text.replace(":class:", "").replace("`", "")[:40] in help_text


@pytest.mark.parametrize(
    "command", ["train", "tune", "predict", "report", "info", "export", "data", "demo"]
)
def test_help_is_a_manual(command, capsys):
    text = manual(command, capsys)
    assert f"example:\n  lasn {command}" in text
    assert "Exit codes: 0 done, 1 bad data, 2 bad usage, 130 interrupted." in text


def test_a_tuned_regression_and_its_report(tmp_path, capsys):
    X, y = load_diabetes(return_X_y=True)
    np.savez(tmp_path / "rows.npz", X=X, y=y / 100 + 0.001)
    assert call(
        "tune", tmp_path / "rows.npz", "--scale", "standard", "--n-landmarks", "20,40", "--Cs", 1,
        "--gammas", "variance", "--one-standard-error", "--random-state", 0, "--top", 1,
        "--scoring", "neg_mean_absolute_error", "-o", tmp_path / "m", "--report", tmp_path / "r",
    ) == 0  # fmt: skip
    said = capsys.readouterr().out
    assert "... and 1 more (--top 0 shows all)" in said
    assert "LASNRegressorCV (the target holds numbers with fractions)" in said
    model = package.load(tmp_path / "m")[-1]
    assert model.one_standard_error is True
    assert model.n_landmarks == [20, 40]
    assert model.best_score_ < 0.0
    report = read(tmp_path / "r")
    for chart in ("chart-landmarks", "chart-fit", "chart-residuals", "chart-spectrum"):
        assert f'id="{chart}"' in report
    assert call("report", tmp_path / "m", tmp_path / "rows.npz", "-o", tmp_path / "again") == 0
    assert "trained on: expect less on new ones" in read(tmp_path / "again")


def test_a_search_tells_a_log_and_a_terminal_how_far_it_is(tmp_path, binary, monkeypatch):
    X, y = binary
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    words = ["tune", tmp_path / "rows.npz", "--Cs", "1,10", "--gammas", 0.1, "--n-landmarks", 10]
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert call(*words, "-o", tmp_path / "m") == 0
    assert re.search(r"\[[#.]+\] .* 2 tried  k 10  gamma 0.1  C 10  score 0", terminal.getvalue())
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    assert call(*words, "--log", "-o", tmp_path / "m") == 0
    assert "lasn: search: candidate 2, k 10, gamma 0.1, C 10: score 0" in log.getvalue()


class Terminal(io.StringIO):
    """A stream that says that a person is watching."""

    def isatty(self):
        return True


def test_version():
    assert lasn("--version")[0] == f"lasn {package.__version__}\n"


def test_silence_where_nobody_watches(iris, capfd):
    call("predict", iris / "model.lasn", iris / "iris.csv", "-o", iris / "silent")
    assert capfd.readouterr() == ("", "")


def test_a_bar_in_a_terminal(iris, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    call("predict", iris / "model.lasn", iris / "iris.csv", "-o", iris / "watched")
    assert re.search(r"\[#+\] .* predicting  150 rows  \d+ rows/s  0s left", terminal.getvalue())
    assert terminal.getvalue().endswith("\r")


def test_what_cannot_fit_is_refused_before_the_fit(tmp_path, binary, capsys):
    X, y = binary
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    code = call(
        "train", tmp_path / "rows.npz", "--n-landmarks", 200, "--memory-limit", "1MB",
        "-o", tmp_path / "m",
    )  # fmt: skip
    said = capsys.readouterr().err
    assert code == 1
    assert "the fit needs about" in said
    assert "--n-landmarks less than 200" in said
    assert not (tmp_path / "m").exists()
    code = call("train", tmp_path / "rows.npz", "--memory-limit", "1KB", "-o", tmp_path / "m")
    assert code == 1
    assert "holding the rows needs about" in capsys.readouterr().err


def test_refinement_the_exact_machine_and_a_certificate(tmp_path, capsys):
    rows = write_csv(tmp_path / "rows.csv", MIXED_HEADER, mixed_rows(200))
    common = ["--target", "label", "--scale", "standard", "--random-state", "0"]
    refined = ["--n-landmarks", "20", "--refine", "0.05", "-o", tmp_path / "m"]
    page = tmp_path / "m.html"
    assert call("train", rows, *common, *refined, "--report", page, "--certify") == 0
    assert re.search(r"rounds of refinement to a gap of .* % to the exact", capsys.readouterr().out)
    assert package.load(tmp_path / "m")[-1].refine_curve_[-1]["relative_exact_gap"] <= 0.05
    for part in ('id="chart-refine"', 'id="certificate"', "known by row"):
        assert part in read(page)
    exact = ["--solver", "exact", "-o", tmp_path / "e", "--log"]
    assert call("train", rows, *common, *exact) == 0
    said, log = capsys.readouterr()
    assert "to gap = " in said
    assert "Newton 1, gap" in log
    assert call("report", tmp_path / "e", rows, "--certify", "-o", page) == 0
    assert "gap to the exact machine" in read(page)
    assert "not the rows that the model was trained on" not in read(page)
    others = write_csv(tmp_path / "others.csv", MIXED_HEADER, mixed_rows(60, seed=1))
    assert call("report", tmp_path / "e", others, "--certify", "-o", page) == 0
    assert "not the rows that the model was trained on" in read(page)
    assert call("train", rows, *common, "--certify", "-o", tmp_path / "f") == 2
    assert "--certify is for a report" in capsys.readouterr().err

"""The machinery of ``benchmarks/paper``: printed numbers, verdicts, resuming, the page."""

import csv
from html.parser import HTMLParser

import numpy as np
import pytest
import scipy.sparse as sp
from reference import exact_kernel_svm
from sklearn.datasets import dump_svmlight_file

from lasn.kernels import Kernel
from paper import __main__ as driver
from paper import page, printed, rows, table3, table4, verdicts
from paper.cells import Cell, Results, Run, write_machine
from paper.exact import exact_l2_svm
from paper.plots import Curve, Plot, svg
from paper.repeat import repeated

FIELDS = ("data_set", "method", "accuracy", "status")


@pytest.fixture
def data_folder(tmp_path, monkeypatch):
    """liver-disorders under its own name and size, with rows of our own; nothing else is here."""
    folder = tmp_path / "data"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for name, n in (("liver-disorders", 145), ("liver-disorders.t", 200)):
        X = rng.normal(size=(n, 5))
        y = (X[:, 0] * X[:, 1] > 0.0).astype(int)
        dump_svmlight_file(X, y, str(folder / name), zero_based=False)
    monkeypatch.setenv("LASN_DATA", str(folder))
    monkeypatch.setenv("LASN_CACHE", str(tmp_path / "cache"))
    return folder


@pytest.mark.parametrize(
    ("table", "data_set", "column", "value"),
    [
        (1, "cod-rna", "gamma", 36592.4),
        (1, "rcv1_binary", "group", "LD"),
        (2, "a7a", "n", 6414.0),
        (3, "phishing", "sn_accuracy", 95.4453),
        (3, "madelon", "dcd_seconds", 0.009),
        (3, "ijcnn", "tron_seconds", 14.2318),
        (4, "phishing", "lasn_accuracy", 96.99),
        (4, "w8a", "lasn_seconds_std", 1.65),
        (4, "mushrooms", "libsvm_accuracy", 38.39),
        (4, "gisette_scale", "k", 100.0),
    ],
)
def test_printed_numbers(table, data_set, column, value):
    assert printed.table(table)[data_set][column] == value


def test_printed_tables_name_the_same_28_sets_and_the_registry_knows_them():
    assert set(printed.table(2)) == set(printed.table(3)) == set(printed.table(4))
    assert len(printed.sets()) == 28
    assert set(printed.table(1)) < set(printed.sets())


def test_the_paper_prints_one_accuracy_for_two_solvers():
    assert all(row["dcd_accuracy"] == row["tron_accuracy"] for row in printed.table(3).values())


@pytest.mark.parametrize(
    ("ours", "deviation", "word"),
    [
        (95.31, 0.0, "higher"),
        (95.29, 0.0, "as printed"),
        (94.71, 0.0, "as printed"),
        (94.69, 0.0, "lower"),
        (94.0, 1.4, "lower"),
        (94.0, 1.7, "lower, noise"),
    ],
)
def test_verdict_on_accuracy(ours, deviation, word):
    verdict = verdicts.accuracy(ours, 95.0, deviation)
    assert verdict.word == word
    assert verdict.tone == ("bad" if word == "lower" else "good")


def test_verdict_cannot_ask_for_less_than_one_test_row():
    assert verdicts.accuracy(58.0, 58.5, one_row=0.5).word == "as printed"
    assert verdicts.accuracy(58.0, 58.5, one_row=0.1).word == "lower"


@pytest.mark.parametrize(
    ("ours", "other", "stopped_after", "word"),
    [
        (1.0, 2.0, None, "faster"),
        (2.0, 1.0, None, "slower"),
        (1.0, None, 5.0, "faster"),
        (1.0, None, None, "not run"),
        (None, 1.0, None, "not run"),
    ],
)
def test_verdict_on_speed(ours, other, stopped_after, word):
    assert verdicts.speed(ours, other, stopped_after).word == word


def test_a_result_is_appended_and_an_interrupted_line_dropped(tmp_path):
    results = Results(tmp_path, "table4", ("data_set", "method"))
    assert results.finished() == set()
    row = {"data_set": "a1a", "method": "lasn", "accuracy": 83.6, "status": "ok"}
    results.append(row, FIELDS)
    with open(results.path, "a") as file:
        file.write("a2a,lasn,8")
    assert results.finished() == {("a1a", "lasn")}
    results.append({**row, "data_set": "a2a"}, FIELDS)
    assert results.finished() == {("a1a", "lasn"), ("a2a", "lasn")}
    assert [row["accuracy"] for row in results.rows()] == ["83.6", "83.6"]


def test_a_cell_is_known_again_by_what_the_file_says_of_it(tmp_path):
    results = Results(tmp_path, "cost_parameter", ("data_set", "C"))
    for C in (1e-4, 10.0, 1e4):
        cell = Cell("cost_parameter", {"data_set": "a1a", "C": C})
        assert cell.identity not in results.finished()
        results.append({**cell.key, "status": "ok"}, ("data_set", "C", "status"))
        assert cell.identity in results.finished()


def test_repetitions_end_with_the_budget():
    once = repeated(lambda seed: {"accuracy": float(seed)}, runs=10, budget=0.0)
    assert once == {"runs": 1, "accuracy": 0.0, "accuracy_std": 0.0}
    twice = repeated(lambda seed: {"accuracy": float(seed)}, runs=2, budget=60.0)
    assert (twice["runs"], twice["accuracy"]) == (2, 0.5)


def test_missing_sets_are_named_and_rows_loaded(data_folder):
    assert rows.present() == ["liver-disorders"]
    assert len(rows.missing()) == 27
    sample = rows.load("liver-disorders")
    assert sample.X_train.shape == (145, 5)
    assert set(sample.y_test) == {-1.0, 1.0}


def test_test_rows_are_what_training_rows_leave_of_the_whole():
    X = sp.csr_matrix(np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 0.0], [3.0, 0.0]]))
    y = np.array([1.0, -1.0, 1.0, 1.0])
    part = [0, 3]
    X_left, y_left = rows.remainder(X, y, X[part], y[part])
    np.testing.assert_array_equal(X_left.toarray(), [[0.0, 2.0], [1.0, 0.0]])
    np.testing.assert_array_equal(y_left, [-1.0, 1.0])
    with pytest.raises(ValueError, match="2 rows of the part"):
        rows.remainder(X, y, X[part], -y[part])


@pytest.mark.parametrize("C", [0.1, 10.0, 1000.0])
def test_exact_l2_svm_is_the_reference(binary, C):
    X, y = binary
    y = np.where(y == 1, 1.0, -1.0)
    K = Kernel("rbf", gamma=0.2)(X, X)
    alpha, gap = exact_l2_svm(K, y, C)
    assert abs(gap) < 1e-10
    np.testing.assert_allclose(alpha, exact_kernel_svm(K, y, C), atol=1e-6 * C)


def test_solvers_of_table_3_find_the_same_minimum(binary):
    X, y = binary
    y = np.where(y == 1, 1.0, -1.0)
    problem = table3.ReducedProblem(rows.Rows(X, y, X, y), 20, seed=0)
    for solver in ("LA-SN", "LA-DCD", "LA-TRON"):
        model = problem.fit(solver, 1e-8, "equal")
        assert problem.excess(model) < 1e-6
        assert problem.accuracy(model) > 80.0


def test_the_driver_measures_each_cell_once_and_writes_the_page(data_folder, monkeypatch, tmp_path):
    monkeypatch.setattr(driver, "RESULTS", tmp_path / "results")
    command = ["paper", "--only", "table4", "--runs", "2", "--sets", "liver-disorders"]
    monkeypatch.setattr("sys.argv", command)
    assert driver.main() == 0
    path = tmp_path / "results" / "table4.csv"
    first = path.read_text()
    measured = list(csv.DictReader(first.splitlines()))
    assert {row["method"] for row in measured} == {"lasn", "svc", "exact", "exact-1"}
    assert {row["status"] for row in measured} == {"ok"}
    assert driver.main() == 0
    assert path.read_text() == first
    text = (tmp_path / "results" / "page.html").read_text()
    assert f"{float(measured[0]['accuracy']):.2f}" in text
    assert "58.50 (0.00)" in text
    assert "rcv1_binary" in text


class Tags(HTMLParser):
    """Whether tags are closed in order, and which were opened."""

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], []

    def handle_starttag(self, tag, attributes):
        self.seen.append(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_of_no_results_is_whole_and_says_that_nothing_was_run(data_folder, tmp_path):
    write_machine(tmp_path, "a <machine>")
    text = page.write(tmp_path).read_text()
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    assert "a &lt;machine&gt;" in text
    assert text.count("no data") == 27
    assert "not run" in text
    assert "src=" not in text


def test_a_plot_has_its_labels_and_takes_the_colour_of_the_page():
    curve = Curve("a9a", [50.0, 100.0, 200.0], [0.1, 0.2, 0.4])
    drawing = svg(Plot("Training time", "landmarks k", "training time, s", [curve], log_y=True))
    for text in ("Training time", "landmarks k", "training time, s", "a9a", "currentColor"):
        assert text in drawing
    assert "#010203" not in drawing
    assert drawing.startswith("<svg")


def test_table_4_leaves_the_exact_svm_to_sets_that_it_can_do():
    methods = [cell.key["method"] for cell in table4.cells(Run(sets=("a9a", "mushrooms")))]
    assert methods == ["lasn", "svc", "lasn", "svc", "exact", "exact-1"]

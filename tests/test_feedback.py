"""What a person, or a callback, sees while a fit runs."""

import io
import re
from contextlib import redirect_stderr

import pytest
from places import every_place
from threadpoolctl import threadpool_info

from lasn import LASNClassifier, LASNRegressor

pytestmark = every_place


class Terminal(io.StringIO):
    """A stream that says that a person is watching."""

    def isatty(self):
        return True


def drawn_by(estimator, data):
    """What a fit writes to a terminal."""
    with redirect_stderr(Terminal()) as terminal:
        estimator.fit(*data)
    return terminal.getvalue()


@pytest.mark.parametrize("estimator", [LASNClassifier, LASNRegressor])
def test_progress_is_drawn_on_a_terminal_and_wiped(binary, estimator):
    model = estimator(20, verbose=1, random_state=0)
    drawn = drawn_by(model, binary)
    assert "landmarks" in drawn
    assert re.search(rf"Newton {model.n_iter_} .* [1-9]\d* rows/s  \d+s left", drawn)
    assert "\n" not in drawn
    lines = drawn.split("\r")
    assert lines[-1] == ""
    assert lines[-2].strip() == ""
    assert len(lines[-2]) >= len(lines[-3].rstrip())


def test_verbose_2_keeps_a_line_an_iteration(binary):
    model = LASNClassifier(20, verbose=2, random_state=0)
    assert drawn_by(model, binary).count("\n") == model.n_iter_


def test_progress_is_wiped_after_an_error(binary):
    def broken(X, L):
        raise RuntimeError("broken kernel")

    model = LASNClassifier(20, kernel=broken, verbose=1, random_state=0)
    with (
        redirect_stderr(Terminal()) as terminal,
        pytest.raises(RuntimeError, match="broken kernel"),
    ):
        model.fit(*binary)
    assert terminal.getvalue().endswith("\r")


def test_several_classes_have_one_progress_bar(three_classes):
    assert "Newton 1 " in drawn_by(LASNClassifier(20, verbose=1, random_state=0), three_classes)


@pytest.mark.parametrize("verbose", [1, 2])
def test_nothing_is_written_where_nobody_watches(binary, capfd, verbose):
    LASNClassifier(20, verbose=verbose, random_state=0).fit(*binary)
    assert capfd.readouterr() == ("", "")


def test_nothing_is_drawn_by_default(binary):
    assert drawn_by(LASNClassifier(20, random_state=0), binary) == ""


@pytest.fixture
def callback_module():
    return pytest.importorskip("sklearn.callback", reason="scikit-learn 1.9 brings callbacks")


class Recorder:
    """A fit callback that notes each task and what the model of that moment scores."""

    def __init__(self, stop_after=None):
        self.stop_after = stop_after
        self.events = []
        self.scores = []

    def setup(self, estimator, context):
        self.events.append("setup")

    def teardown(self, estimator, context):
        self.events.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.events.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context, *, X, y, fitted_estimator):
        self.events.append(f"end {context.task_name}")
        self.scores.append(fitted_estimator.score(X, y))
        return len(self.scores) == self.stop_after


@pytest.mark.parametrize(
    ("estimator", "data"),
    [
        (LASNClassifier, "binary"),
        (LASNClassifier, "three_classes"),
        (LASNRegressor, "regression"),
    ],
)
def test_callbacks_see_every_iteration(request, callback_module, estimator, data):
    X, y = request.getfixturevalue(data)
    recorder = Recorder()
    model = estimator(20, tol=1e-6, random_state=0).set_callbacks(recorder).fit(X, y)
    iteration = ["begin newton-iteration", "end newton-iteration"]
    assert recorder.events == [
        "setup",
        "begin fit",
        *(model.n_iter_ * iteration),
        "end fit",
        "teardown",
    ]
    assert recorder.scores[-1] == recorder.scores[-2] == model.score(X, y)


def test_callback_stops_the_fit_without_a_warning(callback_module, binary):
    X, y = binary
    recorder = Recorder(stop_after=2)
    model = LASNClassifier(20, tol=1e-10, random_state=0).set_callbacks(recorder).fit(X, y)
    assert model.n_iter_ == 2
    assert model.history_[-1]["relative_gradient"] > 1e-10
    assert recorder.scores[-1] == recorder.scores[-2] == model.score(X, y)
    assert recorder.events[-2:] == ["end fit", "teardown"]


def test_callback_is_torn_down_after_an_error(callback_module, binary):
    X, y = binary
    recorder = Recorder()
    with pytest.raises(ValueError, match="must return shape"):
        LASNClassifier(kernel=lambda X, L: X).set_callbacks(recorder).fit(X, y)
    assert recorder.events[-1] == "teardown"


def test_scoring_monitor_of_scikit_learn_follows_a_fit(callback_module, binary):
    X, y = binary
    monitor = callback_module.ScoringMonitor(scoring="accuracy")
    model = LASNClassifier(20, tol=1e-6, random_state=0).set_callbacks(monitor).fit(X, y)
    log = monitor.get_logs()
    scores = [row["accuracy"] for row in log.data if row["task_name"] == "newton-iteration"]
    assert len(scores) == model.n_iter_
    assert scores[-1] == pytest.approx(model.score(X, y))


def test_an_interrupt_leaves_no_half_made_model_and_all_threads(binary):
    X, y = binary
    calls = []

    def interrupted(rows, landmarks):
        calls.append(len(rows))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return rows @ landmarks.T

    threads = [library["num_threads"] for library in threadpool_info()]
    model = LASNClassifier(20, kernel=interrupted, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert not hasattr(model, "coef_")
    assert [library["num_threads"] for library in threadpool_info()] == threads
    assert LASNClassifier(20, random_state=0).fit(X, y).score(X, y) > 0.8

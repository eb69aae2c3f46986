"""Ctrl-C and kill -9: the last iterate is a model, and going on finds the same minimum."""

import os
import signal
import subprocess
from time import monotonic, sleep

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from shell import MIXED_HEADER, command, environment, mixed_rows, write_csv

import lasn as package
from lasn import LASNClassifier, LASNRegressor, load
from lasn.callbacks import observing
from lasn.cli import main

TRAIN = ["--target", "label", "--scale", "standard", "--random-state", "0", "--tol", "1e-10"]


class StopAfter:
    """An observer that interrupts a fit, as Ctrl-C would, after some iterations."""

    def __init__(self, count):
        self.count = count

    def __call__(self, watcher):
        whole = watcher.iteration

        def iteration(number, record, model):
            whole(number, record, model)
            if number == self.count:
                raise KeyboardInterrupt

        watcher.iteration = iteration
        return observing(watcher)


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    path = tmp_path_factory.mktemp("rows") / "rows.csv"
    return str(write_csv(path, MIXED_HEADER, mixed_rows(600)))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_resumed_fit_finds_the_minimum_of_an_uninterrupted_one(
    tmp_path, rows, monkeypatch, capsys, count
):
    part, resumed, whole = (str(tmp_path / name) for name in ("part", "resumed", "whole"))
    assert main(["train", rows, *TRAIN, "-o", whole]) == 0
    with monkeypatch.context() as patch:
        patch.setattr("lasn.callbacks.observing", StopAfter(count))
        assert main(["train", rows, *TRAIN, "--checkpoint", part, "-o", resumed]) == 130
    said = capsys.readouterr().err
    assert f"{part} holds Newton iteration {count}. Go on with --resume" in said
    assert sorted(os.listdir(tmp_path)) == ["part", "whole"]
    assert package.load(part)[-1].n_iter_ == count
    assert main(["predict", part, rows, "-o", str(tmp_path / "predictions")]) == 0

    assert main(["train", rows, "--resume", part, "-o", resumed]) == 0
    X = np.array([row[:4] for row in mixed_rows(100, seed=5)], dtype=object)
    expected, found = package.load(whole), package.load(resumed)
    assert_array_equal(found.predict(X), expected.predict(X))
    assert_allclose(found.decision_function(X), expected.decision_function(X), atol=1e-7)
    assert not np.allclose(
        package.load(part).decision_function(X), expected.decision_function(X), atol=1e-7
    )
    assert found[-1].get_params() == expected[-1].get_params()


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--n-landmarks", "7"], "--n-landmarks was 'auto'"),
        (["--scale", "minmax"], "--scale is settled by the checkpoint"),
        (["--max-iter", "0"], "max_iter=0"),
    ],
)
def test_what_a_checkpoint_has_settled(tmp_path, rows, capsys, flags, said):
    part = str(tmp_path / "part")
    assert main(["train", rows, *TRAIN, "-o", part]) == 0
    assert main(["train", rows, "--resume", part, *flags, "-o", str(tmp_path / "m")]) == 2
    assert said in capsys.readouterr().err


def test_other_rows_are_refused(tmp_path, rows, capsys):
    part, other = str(tmp_path / "part"), str(tmp_path / "other.csv")
    assert main(["train", rows, *TRAIN, "-o", part]) == 0
    write_csv(other, MIXED_HEADER, mixed_rows(600, seed=3))
    assert main(["train", other, "--resume", part, "-o", str(tmp_path / "m")]) == 1
    assert "not the rows" in capsys.readouterr().err


def test_an_interrupted_search_writes_nothing(tmp_path, rows, monkeypatch, capsys):
    def interrupted(self, number, evaluation):
        raise KeyboardInterrupt

    monkeypatch.setattr("lasn.cli.feedback.Feedback.candidate", interrupted)
    words = ["tune", rows, "--target", "label", "--n-landmarks", "20", "-o", str(tmp_path / "m")]
    assert main(words) == 130
    assert capsys.readouterr().err == "lasn: interrupted; no model was written.\n"
    assert os.listdir(tmp_path) == []


def test_a_checkpoint_that_has_just_got_its_name_is_not_denied(tmp_path, rows, monkeypatch, capsys):
    from lasn.cli.models import write_model

    def interrupted(model, path):
        write_model(model, path)
        raise KeyboardInterrupt

    part = str(tmp_path / "part")
    monkeypatch.setattr("lasn.cli.fitting.write_model", interrupted)
    words = ["train", rows, *TRAIN, "--checkpoint", part, "-o", str(tmp_path / "model")]
    assert main(words) == 130
    assert f"{part} holds Newton iteration 1. Go on with --resume" in capsys.readouterr().err


def long_fit(folder, *flags):
    """Start a fit that takes a while, with a checkpoint; wait for its first iterate."""
    data = folder / "long.npz"
    if not data.exists():
        rng = np.random.default_rng(0)
        X = rng.normal(size=(3000, 10))
        np.savez(data, X=X, y=(np.sin(3 * X[:, 0]) * X[:, 1] > 0.0).astype(int))
    return subprocess.Popen(
        command(
            "train", data, "--n-landmarks", "400", "--C", "1000", "--solver", "newton-cg",
            "--tol", "1e-12", "--checkpoint", folder / "part", "-o", folder / "model", *flags,
        ),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )  # fmt: skip


def wait_for(path, process, old=None):
    """Until the file is there and is another than the old one."""
    limit = monotonic() + 60
    while not path.exists() or path.stat().st_mtime_ns == old:
        assert process.poll() is None
        assert monotonic() < limit
        sleep(0.01)


def test_ctrl_c_leaves_the_last_iterate(tmp_path):
    process = long_fit(tmp_path)
    wait_for(tmp_path / "part", process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == b""
    assert err.decode().count("\n") == 1
    assert "Go on with --resume" in err.decode()
    assert sorted(os.listdir(tmp_path)) == ["long.npz", "part"]
    assert package.load(tmp_path / "part")[-1].n_iter_ >= 1


def test_kill_at_any_time_leaves_the_old_file_or_the_new_one(tmp_path):
    """Killed right after a checkpoint and during the next, it is always a model that loads."""
    part, old = tmp_path / "part", None
    for pause in (0.0, 0.01, 0.05):
        process = long_fit(tmp_path)
        wait_for(part, process, old)
        sleep(pause)
        process.kill()
        process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL
        assert package.load(part)[-1].n_iter_ >= 1
        old = part.stat().st_mtime_ns


class Crash(Exception):
    """What ends a fit in the middle."""


class DiesAfter:
    """An observer that ends the fit after some iterations, as a crash would."""

    def __init__(self, n_iterations):
        self.n_iterations = n_iterations

    def stage(self, name):
        pass

    def iteration(self, number, record, model):
        if number > self.n_iterations:
            raise Crash


def test_a_fit_goes_on_from_its_checkpoint(three_classes, tmp_path):
    X, y = three_classes
    settings = {"n_landmarks": 30, "tol": 1e-8, "random_state": 0, "solver": "newton-cg"}
    whole = LASNClassifier(**settings).fit(X, y)
    settings |= {"checkpoint": tmp_path / "fit.part", "resume": True}
    with observing(DiesAfter(4)), pytest.raises(Crash):
        LASNClassifier(**settings).fit(X, y)
    left = load(tmp_path / "fit.part")
    assert left.n_iter_ == 4
    assert left.predict(X).shape == y.shape
    model = LASNClassifier(**settings).fit(X, y)
    np.testing.assert_array_equal(model.landmarks_, whole.landmarks_)
    np.testing.assert_allclose(model.coef_, whole.coef_, atol=1e-5)
    assert model.n_iter_ < whole.n_iter_
    np.testing.assert_allclose(load(tmp_path / "fit.part").coef_, model.coef_)


def test_a_checkpoint_of_another_fit_is_refused(three_classes, regression, tmp_path):
    X, y = three_classes
    path = tmp_path / "fit.part"
    LASNClassifier(20, random_state=0, checkpoint=path).fit(X, y)
    again = {"random_state": 0, "checkpoint": path, "resume": True}
    with pytest.raises(ValueError, match="n_landmarks=20, and this fit has n_landmarks=25"):
        LASNClassifier(25, **again).fit(X, y)
    with pytest.raises(ValueError, match=r"64 features and 3 problems; these rows have 10 and 3"):
        LASNClassifier(20, **again).fit(X[:, :10], y)
    with pytest.raises(ValueError, match="holds a LASNClassifier; this is a LASNRegressor"):
        LASNRegressor(20, **again).fit(*regression)

"""Wrong inputs: one line on standard error, the right exit code, no leftover file."""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from shell import MIXED_HEADER, command, environment, lasn, mixed_rows, write_csv

from lasn.cli import main


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A training file and its model."""
    folder = tmp_path_factory.mktemp("made")
    write_csv(folder / "good.csv", MIXED_HEADER, mixed_rows(80))
    good, model = str(folder / "good.csv"), str(folder / "model.lasn")
    assert main(["train", good, "--target", "label", "--n-landmarks", "30", "-o", model]) == 0
    X = np.random.RandomState(0).normal(size=(60, 3))
    np.savez(folder / "rows.npz", X=X, y=(X[:, 0] > 0).astype(int))
    rows, numbers = str(folder / "rows.npz"), str(folder / "numbers.lasn")
    assert main(["train", rows, "--n-landmarks", "20", "-o", numbers]) == 0
    return folder


def row(text):
    return "a,b,c,colour,label\n1,2,3,red,yes\n-1,2,3,blue,no\n" + text


# name of the file, its content (None: not there), the command, exit code, words of the message
TRAIN = ["train", "FILE", "--target", "label", "-o", "OUT"]
PREDICT = ["predict", "MODEL", "FILE", "-o", "OUT"]
TUNE = ["tune", "FILE", "--target", "label", "-o", "OUT"]
REPORT = ["report", "MODEL", "FILE", "-o", "OUT"]
CASES = {
    "missing file": ("no.csv", None, TRAIN, 1, ["no.csv", "no such file", "Check"]),
    "missing file to predict": ("no.csv", None, PREDICT, 1, ["no.csv", "no such file"]),
    "empty file": ("e.csv", "", TRAIN, 1, ["e.csv", "empty"]),
    "empty file to predict": ("e.csv", "", PREDICT, 1, ["e.csv", "empty"]),
    "no rows": ("e.csv", "a,b,c,colour,label\n", TRAIN, 1, ["e.csv", "no rows"]),
    "no rows to predict": ("e.csv", "a,b,c,colour\n", PREDICT, 1, ["e.csv", "no rows"]),
    "ragged": ("r.csv", row("1,2,red,yes\n"), TRAIN, 1, ["r.csv, line 4", "4 values", "5 columns"]),
    "ragged to predict": ("r.csv", row("1,2\n"), PREDICT, 1, ["r.csv, line 4", "2 values"]),
    "text in numbers": (
        "t.csv", row("1,oops,3,red,yes\n"), TRAIN, 1,
        ["t.csv, line 4, column 'b'", "'oops' is not a finite number", "--categorical"],
    ),
    "semicolons": (
        "s.csv", row("").replace(",", ";"), TRAIN, 1,
        ["s.csv", "no column 'label'", "only column is 'a;b;c;colour;label'", "--delimiter ';'"],
    ),
    "tabs to predict": (
        "s.csv", row("").replace(",", "\t"), PREDICT, 1, ["no column 'a'", "--delimiter 'tab'"],
    ),
    "infinity": ("t.csv", row("1,inf,3,red,yes\n"), TRAIN, 1, ["line 4, column 'b'", "'inf'"]),
    "missing value": (
        "m.csv", row("1,,3,red,yes\n"), TRAIN, 1, ["line 4, column 'b'", "missing", "--impute"]
    ),
    "missing value to predict": (
        "m.csv", row("1,,3,red,yes\n"), PREDICT, 1, ["line 4, column 'b'", "missing"]
    ),
    "missing label": (
        "m.csv", row("1,2,3,red,\n"), TRAIN, 1, ["line 4, column 'label'", "missing"]
    ),
    "unknown target": (
        "g.csv", row(""), ["train", "FILE", "--target", "labl", "-o", "OUT"], 1,
        ["g.csv", "no column 'labl'", "a, b, c, colour, label"],
    ),
    "no target": ("g.csv", row(""), ["train", "FILE", "-o", "OUT"], 2, ["--target is needed"]),
    "no labels to evaluate": (
        "g.csv", "a,b,c,colour\n1,2,3,red\n", [*PREDICT, "--evaluate"], 1,
        ["g.csv", "--evaluate needs labels", "--target"],
    ),
    "labels of no class": (
        "g.csv", row("1,2,3,red,perhaps\n"), [*PREDICT, "--evaluate"], 1,
        ["g.csv", "perhaps", "no, yes"],
    ),
    "a column is gone": (
        "g.csv", "a,b,colour\n1,2,red\n", PREDICT, 1, ["g.csv", "no column 'c'", "lasn info"]
    ),
    "more features than the model": (
        "x.svm", "1 1:1 3:1\n1 2:1 4:1\n", ["predict", "NUMBERS", "FILE", "-o", "OUT"], 1,
        ["x.svm, line 2", "index 4", "last, 3"],
    ),
    "more columns than the model": (
        "x.csv", "1,2,3,4\n", ["predict", "NUMBERS", "FILE", "--no-header", "-o", "OUT"], 1,
        ["x.csv", "4 columns", "model has 3"],
    ),
    "not UTF-8": (
        "u.csv", row("1,2,3,gr\xfcn,yes\n").encode("latin1"), TRAIN, 1,
        ["u.csv, line 4", "0xfc is not UTF-8", "iconv"],
    ),
    "not UTF-8 to predict": (
        "u.csv", row("1,2,3,gr\xfcn,yes\n").encode("latin1"), PREDICT, 1, ["u.csv, line 4", "UTF-8"]
    ),
    "unended quote": ("q.csv", row('1,2,3,"red,yes\n'), TRAIN, 1, ["q.csv, line 4", "quotes"]),
    "no header": ("h.csv", "1,2,3,red,yes\n", TRAIN, 1, ["h.csv, line 1", "--no-header"]),
    "a name twice": ("h.csv", "a,a,label\n1,2,x\n", TRAIN, 1, ["h.csv, line 1", "'a'"]),
    "a directory": (".", None, TRAIN, 1, ["folder", "Name one file"]),
    "a directory with a format": (".", None, [*TRAIN, "--format", "csv"], 1, ["folder"]),
    "one class": (
        "o.csv", "a,label\n1,yes\n2,yes\n", TRAIN, 1,
        ["o.csv", "at least two classes", "label 'yes'", "--target"],
    ),
    "UTF-16": ("u.csv", row("").encode("utf-16"), TRAIN, 1, ["u.csv, line 1", "iconv -f utf-16"]),
    "lines of an old Macintosh": (
        "m.csv", row("").replace("\n", "\r"), TRAIN, 1, ["m.csv", "carriage return", "tr "]
    ),
    "commas where others are named": (
        "g.csv", row(""), [*TRAIN, "--delimiter", ";"], 1, ["no column 'label'", "--delimiter ','"]
    ),
    "nothing compressed": ("e.xz", "", ["train", "FILE", "-o", "OUT"], 1, ["e.xz", "empty"]),
    "empty Parquet": ("e.parquet", "", TRAIN, 1, ["e.parquet", "the file is empty"]),
    "empty array": ("e.npy", "", TRAIN, 1, ["e.npy", "the file is empty"]),
    "empty svmlight": ("e.svm", "", ["train", "FILE", "-o", "OUT"], 1, ["e.svm", "is empty"]),
    "no features": (
        "n.svm", "1\n-1\n", ["train", "FILE", "-o", "OUT"], 1, ["n.svm", "no features", "index:"]
    ),
    "too many features to be dense": (
        "w.svm", "1 2000000000:1\n-1 5:1\n",
        ["train", "FILE", "--dense", "--memory-limit", "1GB", "-o", "OUT"], 1,
        ["w.svm", "holding the rows needs about 32 GB"],
    ),
    "a model for rows": (
        "g.csv", row(""), ["predict", "MODEL", "MODEL"], 1, ["this is a model, not rows"]
    ),
    "rows for a model": (
        "g.csv", row(""), ["predict", "FILE", "FILE"], 1,
        ["lasn: g.csv: cannot be read as a model: it is of another format, or was cut off"],
    ),
    "a checkpoint of other columns": (
        "g.csv", row("").replace("label", "other"),
        ["train", "FILE", "--resume", "MODEL", "-o", "OUT"], 1,
        ["g.csv", "no column 'label'", "a, b, c, colour, other"],
    ),
    "unknown format": ("g.xyz", row(""), TRAIN, 1, ["g.xyz", "--format"]),
    "not Parquet": ("g.parquet", row(""), TRAIN, 1, ["g.parquet", "not a Parquet file"]),
    "not Arrow": ("g.arrow", row(""), TRAIN, 1, ["g.arrow", "not an Arrow file"]),
    "not an array": ("g.npy", row(""), TRAIN, 1, ["g.npy", "not a NumPy array"]),
    "not an archive": ("g.npz", row(""), TRAIN, 1, ["g.npz", "not a .npz file"]),
    "not a model": ("g.csv", row(""), ["info", "FILE"], 1, ["g.csv"]),
    "no model": ("g.csv", row(""), ["predict", "NOTHING", "FILE"], 1, ["no such model file"]),
    "bad parameter": ("g.csv", row(""), [*TRAIN, "--C", "-1"], 2, ["C=-1", "positive"]),
    "bad word": ("g.csv", row(""), [*TRAIN, "--kernel", "rbff"], 2, ["rbff", "laplacian"]),
    "parameter of the other": ("g.csv", row(""), [*TRAIN, "--epsilon", "1"], 2, ["--epsilon"]),
    "bad seed": ("g.csv", row(""), [*TRAIN, "--random-state", "x"], 2, ["--random-state"]),
    "seed below zero": (
        "g.csv", row(""), [*TRAIN, "--random-state", "-1"], 2, ["--random-state -1", "from 0"]
    ),
    "standard scale of sparse rows": (
        "s.svm", "1 1:1\n-1 9:1\n", ["train", "FILE", "--scale", "standard", "-o", "OUT"], 2,
        ["--scale standard", "maxabs"],
    ),
    "probabilities of none": (
        "g.csv", row(""), [*PREDICT, "--output-kind", "probabilities"], 2, ["log_loss"]
    ),
    "missing file to tune": ("no.csv", None, TUNE, 1, ["no.csv", "no such file"]),
    "ragged to tune": ("r.csv", row("1,2,red,yes\n"), TUNE, 1, ["r.csv, line 4", "4 values"]),
    "fewer rows than folds": ("g.csv", row(""), TUNE, 1, ["g.csv", "n_splits=5"]),
    "no folds": ("g.csv", row(""), [*TUNE, "--cv", "1"], 2, ["--cv 1", "2 or more"]),
    "unknown scorer": ("g.csv", row(""), [*TUNE, "--scoring", "acc"], 2, ["--scoring acc", "f1"]),
    "bad list": ("g.csv", row(""), [*TUNE, "--Cs", "1,-1"], 2, ["Cs=-1", "positive"]),
    "bad gamma": ("g.csv", row(""), [*TUNE, "--gammas", "1,big"], 2, ["gammas='big'", "variance"]),
    "bad budget": ("g.csv", row(""), [*TUNE, "--time-budget", "0"], 2, ["time_budget=0"]),
    "bad calibration": ("g.csv", row(""), [*TUNE, "--calibration", "x"], 2, ["isotonic"]),
    "calibration of numbers": (
        "n.csv", "a,label\n1,0.5\n", [*TUNE, "--task", "regress", "--calibration", "sigmoid"], 2,
        ["--calibration", "LASNRegressorCV"],
    ),
    "report over the model": (
        "g.csv", row(""), [*TRAIN, "--report", "OUT"], 2, ["written twice"]
    ),
    "report over the rows": (
        "g.csv", row(""), [*TUNE, "--report", "FILE"], 2, ["overwrite what is read"]
    ),
    "report in no folder": (
        "g.csv", row(""), [*TRAIN, "--report", "no/r.html"], 1, ["no/r.html", "no folder"]
    ),
    "missing file to report": ("no.csv", None, REPORT, 1, ["no.csv", "no such file"]),
    "no labels to report": (
        "g.csv", "a,b,c,colour\n1,2,3,red\n", REPORT, 1, ["g.csv", "needs labels", "--target"]
    ),
    "labels of no class to report": (
        "g.csv", row("1,2,3,red,perhaps\n"), REPORT, 1, ["g.csv", "perhaps", "no, yes"]
    ),
    "report of no model": ("g.csv", row(""), ["report", "FILE", "FILE", "-o", "OUT"], 1, ["g.csv"]),
    "no rows to report": ("e.csv", "a,b,c,colour,label\n", REPORT, 1, ["e.csv", "no rows"]),
    "export of no model": ("g.csv", row(""), ["export", "FILE", "--onnx", "OUT"], 1, ["g.csv"]),
    "export over the model": (
        "g.csv", row(""), ["export", "FILE", "--onnx", "FILE"], 2, ["overwrite what is read"]
    ),
    "output over input": (
        "g.csv", row(""), ["train", "FILE", "--target", "label", "-o", "FILE"], 2, ["overwrite"]
    ),
    "output folder missing": (
        "g.csv", row(""), ["predict", "MODEL", "FILE", "-o", "no/where.csv"], 1,
        ["no/where.csv", "no folder", "Make it"],
    ),
    "output is a folder": (
        "g.csv", row(""), ["predict", "MODEL", "FILE", "-o", "."], 1, ["folder"]
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_wrong_input(case, tmp_path, made, monkeypatch, capfd):
    name, content, words, code, said = CASES[case]
    monkeypatch.chdir(tmp_path)
    if content is not None:
        content = content.encode() if isinstance(content, str) else content
        Path(name).write_bytes(content)
    before = sorted(os.listdir())
    names = {
        "FILE": name,
        "OUT": "out",
        "MODEL": str(made / "model.lasn"),
        "NUMBERS": str(made / "numbers.lasn"),
        "NOTHING": "nothing.lasn",
    }
    assert main([names.get(word, word) for word in words]) == code
    out, err = capfd.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("lasn: ")
    for part in said:
        assert part in err
    assert sorted(os.listdir()) == before
    if content is not None:
        assert Path(name).read_bytes() == content


def test_no_command_at_all_lists_the_commands(capsys):
    assert main([]) == 2
    assert "predict the rows of a file" in capsys.readouterr().err


def test_a_mistyped_flag_is_bad_usage(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["train", "x.csv", "-o", "m", "--targget", "y"])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said == "lasn: unrecognized arguments: --targget y. See lasn --help.\n"


def test_a_word_that_a_flag_does_not_take_is_one_line(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["train", "x.csv", "-o", "m", "--scale", "foo"])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("lasn: argument --scale: invalid choice: 'foo'")
    assert said.endswith(". See lasn train --help.\n")
    assert said.count("\n") == 1


def test_a_device_without_its_package(tmp_path, made, capfd, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    good, out = str(made / "good.csv"), str(tmp_path / "out")
    assert main(["train", good, "--target", "label", "--device", "cuda", "-o", out]) == 2
    said = capfd.readouterr().err
    assert said.count("\n") == 1
    assert "pip install 'lasn[gpu]'" in said
    assert os.listdir(tmp_path) == []


def test_a_warning_is_said_once(tmp_path, made):
    words = ["--target", "label", "--n-landmarks", "1000", "-o", tmp_path / "out"]
    _, err = lasn("train", made / "good.csv", *words)
    assert err.startswith("lasn: warning: n_landmarks=1000 is more than the 80 rows")
    assert err.count("\n") == 1


def test_an_error_is_not_lost_among_warnings(tmp_path):
    """Products of such numbers overflow on the way to the error."""
    (tmp_path / "h.csv").write_text("a,label\n1e300,yes\n-1e308,no\n3e307,yes\n")
    _, err = lasn("train", "h.csv", "--target", "label", "-o", "out", cwd=tmp_path, code=1)
    assert err.startswith("lasn: h.csv: No eigenvalue")
    assert err.count("\n") == 1
    assert os.listdir(tmp_path) == ["h.csv"]


@pytest.mark.parametrize("what", ["train", "predict"])
def test_no_space_left(tmp_path, made, what):
    """A limit on the size of files stands in for a full disk."""
    good = made / "good.csv"
    if what == "train":
        words = ["train", good, "--target", "label", "-o", tmp_path / "out"]
    else:
        words = ["predict", made / "model.lasn", good, "-o", tmp_path / "out"]
    _, err = lasn(*words, file_size=100, code=1)
    assert err.count("\n") == 1
    assert str(tmp_path / "out") in err
    assert "space" in err
    assert os.listdir(tmp_path) == []


@pytest.fixture
def small_disk(tmp_path):
    """A file system of its own, of two pages."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


FULL = {
    "train": ["train", "GOOD", "--target", "label", "--n-landmarks", "60", "-o", "OUT"],
    "checkpoint": ["train", "GOOD", "--target", "label", "--checkpoint", "OUT", "-o", "ELSEWHERE"],
    "predict": ["predict", "MODEL", "MANY", "--output-kind", "decision", "-o", "OUT"],
    "parquet": [
        "predict", "MODEL", "MANY", "--output-kind", "decision", "--output-format", "parquet",
        "-o", "OUT",
    ],
    "report": ["report", "MODEL", "GOOD", "-o", "OUT"],
    "export": ["export", "MODEL", "--onnx", "OUT"],
}  # fmt: skip


@pytest.mark.parametrize("what", FULL)
def test_a_small_disk_that_is_full(small_disk, tmp_path, made, what):
    (small_disk / "out").write_bytes(b"old")
    names = {
        "GOOD": made / "good.csv",
        "MANY": write_csv(tmp_path / "many.csv", MIXED_HEADER, mixed_rows(1000)),
        "MODEL": made / "model.lasn",
        "OUT": small_disk / "out",
        "ELSEWHERE": tmp_path / "elsewhere",
    }
    _, err = lasn(*(names.get(word, word) for word in FULL[what]), code=1)
    assert err == (
        f"lasn: {small_disk / 'out'}: No space left on device. "
        "Check the folder, its permissions and space.\n"
    )
    assert os.listdir(small_disk) == ["out"]
    assert (small_disk / "out").read_bytes() == b"old"
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_a_full_device(made):
    words = ["predict", made / "model.lasn", made / "good.csv"]
    _, err = lasn(*words, "-o", "/dev/full", code=1)
    assert err.startswith("lasn: /dev/full: No space left on device.")
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            command(*words), stdout=full, stderr=subprocess.PIPE, env=environment(), check=False
        )
    assert done.returncode == 1
    assert done.stderr.decode().splitlines() == [
        "lasn: standard output: No space left on device. "
        "Check the folder, its permissions and space."
    ]
    assert os.path.exists("/dev/full")
    assert not os.path.isfile("/dev/full")


def test_a_read_only_folder(tmp_path, made):
    """The superuser may write anywhere but in a file system that is itself read-only."""
    folder = tmp_path / "closed"
    folder.mkdir()
    folder.chmod(0o500)
    if os.access(folder, os.W_OK):
        folder = Path("/proc/self")
    out = folder / "out.csv"
    _, err = lasn("predict", made / "model.lasn", made / "good.csv", "-o", out, code=1)
    assert err.count("\n") == 1
    assert str(out) in err


@pytest.mark.skipif(not hasattr(fcntl, "F_SETPIPE_SZ"), reason="pipes may hold it all")
def test_broken_pipe(tmp_path, made):
    write_csv(tmp_path / "many.csv", MIXED_HEADER, mixed_rows(40_000))
    process = subprocess.Popen(
        command("predict", made / "model.lasn", tmp_path / "many.csv", "--output-kind", "decision"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, 4096)
    float(process.stdout.readline())
    process.stdout.close()
    err = process.stderr.read().decode()
    assert process.wait(60) == 1
    process.stderr.close()
    assert err.splitlines() == [
        "lasn: standard output: its reader closed it; give -o FILE to keep all rows."
    ]


def test_interrupted_prediction_leaves_nothing(tmp_path, made):
    process = subprocess.Popen(
        command("predict", made / "model.lasn", "-", "--format", "csv", "-o", tmp_path / "out"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    text = (made / "good.csv").read_bytes()
    body = text.partition(b"\n")[2] * 3000
    process.stdin.write(text + body)
    process.stdin.flush()
    assert any(name.startswith(".out") for name in os.listdir(tmp_path))
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == b"lasn: interrupted.\n"
    assert os.listdir(tmp_path) == []

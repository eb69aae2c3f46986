"""The command line as a shell runs it: a process of its own, its output and its exit code."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np

SOURCE = Path(__file__).resolve().parent.parent / "src"


def lasn(*arguments, stdin=None, cwd=None, file_size=None, code=0):
    """Run ``python -m lasn``; its streams as text. ``file_size`` limits what a file may hold."""

    def limit():
        if file_size is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))

    done = subprocess.run(
        command(*arguments),
        input=stdin,
        capture_output=True,
        cwd=cwd,
        env=environment(),
        preexec_fn=limit,
        timeout=100,
    )
    out, err = done.stdout.decode(), done.stderr.decode()
    assert done.returncode == code, f"exit code {done.returncode}\n{out}\n{err}"
    return out, err


def command(*arguments):
    return [sys.executable, "-m", "lasn", *map(str, arguments)]


def environment():
    path = os.pathsep.join(filter(None, [str(SOURCE), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}


def write_csv(path, header, rows):
    lines = [",".join(header)]
    lines += [
        ",".join(value if isinstance(value, str) else repr(value) for value in row) for row in rows
    ]
    Path(path).write_text("\n".join(lines) + "\n")
    return path


def mixed_rows(n_rows, seed=0):
    """Rows with three numbers and a colour, and labels yes and no that depend on both."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 3)).round(6)
    colours = rng.choice(["red", "green", "blue"], n_rows)
    labels = np.where(X[:, 0] * X[:, 1] + (colours == "red") > 0.2, "yes", "no")
    return [
        [*row, colour, label]
        for row, colour, label in zip(X.tolist(), colours.tolist(), labels.tolist(), strict=True)
    ]


MIXED_HEADER = ["a", "b", "c", "colour", "label"]

"""The command line against what it cannot avoid: reading its file.

    python benchmarks/command_line.py              10^6 rows x 30 features, 100 MB of svmlight
    python benchmarks/command_line.py --quick      a tenth of both

First, ``lasn predict`` on a CSV file (a whole process: start, reading, predicting, writing) beside
processes that only read that file: with the command's own reader, with pyarrow's ``read_csv``, with
that and its columns as one NumPy matrix (what any model needs, so ratios are to this one), and with
pandas. The best of several runs in turn. Second, loading a model file of 1000 landmarks in a
process that has imported lasn's estimators: the first time, with whatever is imported for it, and
the second. Third, parsers of svmlight text in MB/s, with the seconds that 1 GB would take:
scikit-learn's ``load_svmlight_file``, pyarrow on rewritten text, and ours.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np

import measure

TARGET = 1.5
LOADING_TARGET = 50.0
_OWN_READER = """
import sys
from lasn.tables import Selection, in_order, open_table
table = open_table(sys.argv[1])
names = tuple(column.name for column in table.columns)
print(sum(in_order(table, Selection(names), len)))
"""
_ARROW = "import sys, pyarrow.csv; print(pyarrow.csv.read_csv(sys.argv[1]).num_rows)"
_ARROW_TO_NUMPY = """
import sys, numpy, pyarrow.csv
table = pyarrow.csv.read_csv(sys.argv[1])
parts = []
for batch in table.to_batches():  # by their buffers: to_numpy would import pandas
    parts.append(numpy.column_stack([
        numpy.frombuffer(column.buffers()[1], count=len(column), offset=8 * column.offset)
        for column in batch.columns
    ]))
print(numpy.concatenate(parts).shape)
"""
_LOAD = """
import sys
from time import perf_counter
import lasn
lasn.LASNClassifier
times = [perf_counter()]
for _ in range(2):
    lasn.load(sys.argv[1])
    times.append(perf_counter())
print(times[1] - times[0], times[2] - times[1])
"""
_PANDAS = "import sys, pandas; print(len(pandas.read_csv(sys.argv[1])))"


def main() -> int:
    arguments = measure.parser(__doc__)
    arguments.add_argument("--quick", action="store_true", help="a tenth: a smoke test")
    arguments.add_argument("--rows", type=int, help="of the CSV file (default: 10^6)")
    arguments.add_argument("--bytes", type=int, help="of svmlight text (default: 10^8)")
    arguments.add_argument("--repeats", type=int, default=3)
    options = arguments.parse_args()
    scale = 10 if options.quick else 1
    n_rows, n_bytes = options.rows or 10**6 // scale, options.bytes or 10**8 // scale
    print(measure.machine())
    with tempfile.TemporaryDirectory() as folder:
        ratio = compare_prediction(Path(folder), n_rows, options.repeats)
        milliseconds = measure_loading(str(Path(folder) / "1000.lasn"), options.repeats)
        compare_parsers(Path(folder), n_bytes)
    missed = measure.verdicts(
        [
            ("lasn predict over reading alone", ratio, "<=", TARGET),
            ("loading 1000 landmarks, ms", milliseconds, "<=", LOADING_TARGET),
        ]
    )
    return 0 if options.quick else missed


def compare_prediction(folder: Path, n_rows: int, repeats: int) -> float:
    """Seconds of whole processes; returns the ratio for the smallest model."""
    import pyarrow as pa
    from pyarrow import csv

    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 30)).round(6)
    y = np.where(X[:, 0] * X[:, 1] + X[:, 2] > 0, 1, 0)
    columns = {f"x{j}": X[:, j] for j in range(30)}
    path, training = str(folder / "rows.csv"), str(folder / "training.csv")
    csv.write_csv(pa.table(columns), path)
    csv.write_csv(pa.table({**columns, "y": y}).slice(0, 10000), training)
    size = os.path.getsize(path) / 1e6

    python = sys.executable
    commands = {
        "pyarrow read_csv": (python, "-c", _ARROW, path),
        "pyarrow read_csv, NumPy matrix": (python, "-c", _ARROW_TO_NUMPY, path),
        "pandas read_csv": (python, "-c", _PANDAS, path),
        "lasn's reader": (python, "-c", _OWN_READER, path),
    }
    for k in (100, 300, 1000):
        model, out = str(folder / f"{k}.lasn"), str(folder / "labels.csv")
        lasn = (python, "-m", "lasn")
        _run(*lasn, "train", training, "--target", "y", "--n-landmarks", str(k), "-o", model)
        commands[f"lasn predict, {k} landmarks"] = (*lasn, "predict", model, path, "-o", out)
    runs = [{name: _seconds(one) for name, one in commands.items()} for _ in range(repeats)]
    best = {name: min(run[name] for run in runs) for name in commands}
    reading = best["pyarrow read_csv, NumPy matrix"]
    title = f"A CSV file of {n_rows} rows x 30 features, {size:.0f} MB; whole processes"
    cells = [[name, measure.seconds(t), measure.number(t / reading)] for name, t in best.items()]
    measure.table(title, ["process", "seconds", "over reading to NumPy"], cells)
    return best["lasn predict, 100 landmarks"] / reading


def measure_loading(path: str, repeats: int) -> float:
    """Milliseconds of the first loading in a process, the median over processes."""
    answers = [
        subprocess.run([sys.executable, "-c", _LOAD, path], check=True, capture_output=True).stdout
        for _ in range(repeats + 1)
    ]
    first, second = (
        1e3 * np.median(column)
        for column in np.array([answer.split() for answer in answers[1:]], dtype=float).T
    )  # the first is a warm-up
    measure.table(
        f"Loading 1000 landmarks, {os.path.getsize(path) / 1e6:.1f} MB",
        ["loading", "ms"],
        [["first in a process", measure.number(first)], ["second", measure.number(second)]],
    )
    return float(first)


def compare_parsers(folder: Path, n_bytes: int) -> None:
    from sklearn.datasets import load_svmlight_file

    from lasn.tables import Selection, open_table, read_rows

    rows = []
    for name, line in (("short (a9a-like)", _short_row), ("six decimals", _decimal_row)):
        path = str(folder / "rows.svm")
        _write_svmlight(path, line, n_bytes)
        text = Path(path).read_bytes()
        megabytes = len(text) / 1e6

        def ours(path=path):
            read_rows(open_table(path), Selection(target="label"))

        for who, read in (
            ("scikit-learn load_svmlight_file", lambda path=path: load_svmlight_file(path)),
            ("pyarrow on index,value lines", lambda text=text: _with_arrow(text)),
            ("lasn.tables", ours),
        ):
            speed = megabytes / measure.timed(read)[1]
            rows.append([name, who, f"{speed:.0f}", measure.number(1000.0 / speed)])
    title = f"Parsing {n_bytes / 1e6:.0f} MB of svmlight text"
    measure.table(title, ["text", "parser", "MB/s", "seconds for 1 GB"], rows)


def _with_arrow(text: bytes):
    """Every index:value becomes a line of a CSV file; a label is the value of index -1."""
    import pyarrow as pa
    from pyarrow import csv

    text = b"-1:" + text[:-1].replace(b"\n", b"\n-1:")
    table = csv.read_csv(
        pa.BufferReader(text.translate(bytes.maketrans(b": ", b",\n"))),
        read_options=csv.ReadOptions(column_names=["index", "value"]),
        convert_options=csv.ConvertOptions(
            column_types={"index": pa.int32(), "value": pa.float64()}
        ),
    )
    index, value = table["index"].to_numpy(), table["value"].to_numpy()
    is_label = index < 0
    return value[is_label], index[~is_label], value[~is_label], np.flatnonzero(is_label)


def _write_svmlight(path: str, line, n_bytes: int) -> None:
    rng = np.random.default_rng(0)
    some = "".join(line(rng) for _ in range(5000)).encode()
    with open(path, "wb") as file:
        for _ in range(n_bytes // len(some) + 1):
            file.write(some)


def _short_row(rng) -> str:
    indices = np.sort(rng.choice(123, 14, replace=False)) + 1
    return f"{rng.choice(['+1', '-1'])} " + " ".join(f"{j}:1" for j in indices) + "\n"


def _decimal_row(rng) -> str:
    indices = np.sort(rng.choice(500, 30, replace=False)) + 1
    pairs = zip(indices, rng.normal(size=30), strict=True)
    return f"{rng.choice(['+1', '-1'])} " + " ".join(f"{j}:{v:.6f}" for j, v in pairs) + "\n"


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def _seconds(command: tuple[str, ...]) -> float:
    start = perf_counter()
    _run(*command)
    return perf_counter() - start


if __name__ == "__main__":
    sys.exit(main())

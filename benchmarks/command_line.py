"""The command line against what it cannot avoid: reading its file.

    python benchmarks/command_line.py              10^6 rows x 30 features, 100 MB of svmlight
    python benchmarks/command_line.py --quick      a tenth of both

First, ``lasn predict`` on a CSV file (a whole process: start, reading, predicting, writing) beside
processes that only read that file: with the command's own reader, with pyarrow's ``read_csv`` and
with pandas. Second, parsers of svmlight text in MB/s, with the seconds that 1 GB
would take: scikit-learn's ``load_svmlight_file``, pyarrow on rewritten text, and ours.
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
_OWN_READER = """
import sys
from lasn.tables import Selection, in_order, open_table
table = open_table(sys.argv[1])
names = tuple(column.name for column in table.columns)
print(sum(in_order(table, Selection(names), len)))
"""
_ARROW = "import sys, pyarrow.csv; print(pyarrow.csv.read_csv(sys.argv[1]).num_rows)"
_PANDAS = "import sys, pandas; print(len(pandas.read_csv(sys.argv[1])))"


def main() -> int:
    arguments = measure.parser(__doc__)
    arguments.add_argument("--quick", action="store_true")
    arguments.add_argument("--repeats", type=int, default=3)
    options = arguments.parse_args()
    scale = 10 if options.quick else 1
    print(measure.machine())
    with tempfile.TemporaryDirectory() as folder:
        ratio = compare_prediction(Path(folder), 10**6 // scale, options.repeats)
        compare_parsers(Path(folder), 10**8 // scale)
    return measure.verdicts([("lasn predict over reading alone", ratio, "<=", TARGET)])


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

    def best(*command: str) -> float:
        return min(_seconds(command) for _ in range(repeats))

    python = sys.executable
    reading = best(python, "-c", _OWN_READER, path)
    rows = [
        ["import lasn alone", (t := best(python, "-c", "import lasn")), t / reading],
        ["lasn's reader alone", reading, 1.0],
        ["pyarrow read_csv alone", (t := best(python, "-c", _ARROW, path)), t / reading],
        ["pandas read_csv alone", (t := best(python, "-c", _PANDAS, path)), t / reading],
    ]
    ratios = []
    for k in (100, 300, 1000):
        model, out = str(folder / f"{k}.lasn"), str(folder / "labels.csv")
        lasn = (python, "-m", "lasn")
        _run(*lasn, "train", training, "--target", "y", "--n-landmarks", str(k), "-o", model)
        seconds = best(*lasn, "predict", model, path, "-o", out)
        ratios.append(seconds / reading)
        rows.append([f"lasn predict, {k} landmarks", seconds, ratios[-1]])
    title = f"A CSV file of {n_rows} rows x 30 features, {size:.0f} MB; whole processes"
    cells = [[name, measure.seconds(t), measure.number(ratio)] for name, t, ratio in rows]
    measure.table(title, ["process", "seconds", "over lasn's reader"], cells)
    return ratios[0]


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

"""LASN against the hardware's floor, in one run.

Fit: floor ratio = whole fit (landmarks, map, kernel blocks, Newton to tol=1e-3) / floor, where
floor = one pass of float32 rbf kernel blocks (n x k) + one symmetric float32 product F^T F
(n x k x k). Kernel blocks are made by lasn's fused, threaded blocks and, of dense rows, by plain
NumPy, products by NumPy and by BLAS syrk. Each is measured right before and right after every fit,
after a warm-up, when idle threads have fallen asleep, twice in a row; the least that any of them
took is the floor's. The table has medians over the repetitions. Stages are the fit's own, "other"
is what validation, gamma and bookkeeping take. Each case runs in a process of its own.

Predict: kernel-block floor / predict for many rows, and microseconds of a single-row predict.

Import: milliseconds that lasn, and its estimator, take beyond importing sklearn.svm.
"""

import os
import subprocess
import sys
from statistics import median

import numpy as np
import scipy.sparse as sp

import data
from measure import (
    isolated,
    machine,
    number,
    parser,
    record_table,
    say,
    seconds,
    settle,
    table,
    timed,
    verdicts,
    whole,
    write_csv,
)

CASES = [f"{name}:{k}" for name in ("a9a", "w8a", "ijcnn1") for k in (500, 1000, 2000)]
CASES += [f"generated-{n}:{k}" for n in (400_000, 1_000_000) for k in (500, 1000)]
QUICK_CASES = ["generated-20000:200", "generated-20000:500"]
# Bytes of F that the floor works on at a time, as if it came from a larger matrix.
_PRODUCT_BYTES = 256 << 20
_NUMPY_BYTES = 8 << 20
# Threads of BLAS may be woken late, or on one core: the second time they are there.
_TRIES = 2


class Floor:
    """The least work of any Nystroem method on rows X (float32) with k landmarks."""

    def __init__(self, X: np.ndarray, k: int, gamma: float):
        rows = np.random.default_rng(0).permutation(X.shape[0])[:k]
        self.X, self.landmarks, self.gamma, self.k = X, X[rows], gamma, k
        size = min(X.shape[0], max(1024, _PRODUCT_BYTES // (4 * k)))
        self.buffer = np.empty((size, k), dtype=np.float32)
        self.kernels = (
            [self.lasn_kernel] if sp.issparse(X) else [self.lasn_kernel, self.numpy_kernel]
        )
        self.products = self.numpy_product, self.blas_product
        for way in (*self.kernels, *self.products):
            way()

    def measure(self) -> tuple[float, float]:
        """Seconds of the kernel pass and of the product, by the fastest way and at its best."""
        return self.least(self.kernels), self.least(self.products)

    def least(self, ways) -> float:
        took = []
        for way in ways:
            settle()
            took += [timed(way)[1] for _ in range(_TRIES)]
        return min(took)

    def _slices(self, size: int):
        n_rows = self.X.shape[0]
        return (slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size))

    def lasn_kernel(self):
        from lasn.kernels import Kernel

        columns = Kernel("rbf", gamma=self.gamma).against(self.landmarks, np.float32)
        for rows in self._slices(len(self.buffer)):
            columns.matrix(self.X[rows], self.buffer[: rows.stop - rows.start])

    def numpy_kernel(self):
        """exp(2 g <x, l> - g |x|^2 - g |l|^2), block by block."""
        gamma = np.float32(self.gamma)
        right = np.ascontiguousarray(2.0 * gamma * self.landmarks.T)
        squares = gamma * np.einsum("ij,ij->i", self.landmarks, self.landmarks)
        for rows in self._slices(max(64, min(len(self.buffer), _NUMPY_BYTES // (4 * self.k)))):
            X, block = self.X[rows], self.buffer[: rows.stop - rows.start]
            np.matmul(X, right, out=block)
            block -= gamma * np.einsum("ij,ij->i", X, X)[:, None]
            block -= squares
            np.exp(block, out=block)

    def numpy_product(self):
        gram = np.zeros((self.k, self.k), dtype=np.float32)
        for rows in self._slices(len(self.buffer)):
            F = self.buffer[: rows.stop - rows.start]
            gram += F.T @ F

    def blas_product(self):
        from scipy.linalg.blas import ssyrk

        gram = np.zeros((self.k, self.k), dtype=np.float32, order="F")
        for rows in self._slices(len(self.buffer)):
            F = self.buffer[: rows.stop - rows.start]
            gram = ssyrk(1.0, F.T, beta=1.0, c=gram, overwrite_c=1)


def measure_fit(name: str, k: int, repeat: int) -> dict:
    """Floor, fit, floor, several times over, in this process."""
    from lasn import LASNClassifier

    X, y, X_test, y_test = data.load(name)
    X, X_test = data.as_rows(X), data.as_rows(X_test)
    floor = Floor(X, k, 1.0 / data.total_variance(X))
    LASNClassifier(n_landmarks=min(k, 100), random_state=0).fit(X[:2000], y[:2000])
    records = []
    for seed in range(repeat):
        before = floor.measure()
        model = LASNClassifier(n_landmarks=k, random_state=seed)
        settle()
        fit_seconds, stages = timed(model.fit, X, y)[1], model.stage_seconds_
        after = floor.measure()
        kernel, product = (min(pair) for pair in zip(before, after, strict=True))
        record = {"kernel": kernel, "product": product, "floor": kernel + product}
        record |= {"fit": fit_seconds, "ratio": fit_seconds / (kernel + product)}
        record |= {f"stage {stage}": took for stage, took in stages.items()}
        records.append(record | {"stage other": fit_seconds - sum(stages.values())})
    middle = {key: median(record[key] for record in records) for key in records[0]}
    return middle | {
        "n": X.shape[0],
        "p": X.shape[1],
        "iterations": model.n_iter_,
        "accuracy": 100.0 * float(np.mean(model.predict(X_test) == y_test)),
        "lowest": min(record["ratio"] for record in records),
        "highest": max(record["ratio"] for record in records),
    }


def measure_predict(n_rows: int, k: int, repeat: int) -> dict:
    """Seconds of the kernel-block floor and of predict for many rows, and of one row."""
    from lasn import LASNClassifier

    X, y, _ = data.generated(n_rows)
    model = LASNClassifier(n_landmarks=k, random_state=0).fit(X[:20_000], y[:20_000])
    floor = Floor(X, model.n_landmarks_, model.gamma_)
    model.predict(X[:1000])
    floors, predictions = [], []
    for _ in range(repeat):
        before = floor.least(floor.kernels)
        predictions.append(timed(model.predict, X)[1])
        floors.append(min(before, floor.least(floor.kernels)))
    single = [timed(model.predict, X[i : i + 1])[1] for i in range(1000)]
    return {
        "floor": median(floors),
        "predict": median(predictions),
        "share": median(floors) / median(predictions),
        "single_row_us": 1e6 * median(single),
    }


def import_milliseconds(statements: list[str], repeat: int) -> dict[str, float]:
    """Median over fresh interpreters, taken in turn, of what an import takes."""
    code = (
        "from time import perf_counter; start = perf_counter(); {}; print(perf_counter() - start)"
    )
    # The warm-up keeps compiled modules, as installing a package does.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    took: dict[str, list[float]] = {statement: [] for statement in statements}
    for _ in range(repeat + 1):
        for statement in statements:
            command = [sys.executable, "-c", code.format(statement)]
            answer = subprocess.run(command, check=True, capture_output=True, env=environment)
            took[statement].append(1e3 * float(answer.stdout))
    return {each: median(runs[1:]) for each, runs in took.items()}  # the first is a warm-up


def fit_tables(cases: list[str], repeat: int, limit: float, csv_name: str) -> list[tuple]:
    records = []
    for case in cases:
        name, k = case.rsplit(":", 1)
        record = isolated("floor:measure_fit", limit, name=name, k=int(k), repeat=repeat)
        records.append({"data": name, "k": int(k)} | record)
        say(f"{case}: {record.get('ratio') or record['reason']}")
    done = [record for record in records if record["status"] == "ok"]
    for record in records:
        if record["status"] != "ok":
            print(f"{record['data']} k={record['k']}: {record['status']}, {record['reason']}")
    if not done:
        raise SystemExit("no case was measured")
    columns = {"data": "data", "n": "n", "k": "k", "kernel s": ("kernel", seconds)}
    columns |= {"product s": ("product", seconds), "floor s": ("floor", seconds)}
    columns |= {"fit s": ("fit", seconds), "floor ratio": ("ratio", number)}
    columns |= {"lowest": ("lowest", number), "highest": ("highest", number)}
    columns |= {"iterations": "iterations", "accuracy %": ("accuracy", number)}
    record_table("Whole fit over floor", done, columns)
    stages = list(dict.fromkeys(key for r in done for key in r if key.startswith("stage ")))
    table(
        "Stages of the fit: seconds (over floor)",
        ["data", "k", *(stage.removeprefix("stage ") for stage in stages)],
        [
            [r["data"], r["k"]]
            + [f"{seconds(r[s])} ({r[s] / r['floor']:.2f})" if s in r else None for s in stages]
            for r in done
        ],
    )
    write_csv(csv_name, records)
    targets = [(r, 3.0 if r["n"] < 100_000 else 1.5) for r in done]
    return [
        (f"floor ratio, {r['data']} k={r['k']}", r["ratio"], "<=", target)
        for r, target in targets
        if 30_000 <= r["n"] < 100_000 or r["n"] >= 400_000
    ]


def predict_table(n_rows: int, ks: list[int], repeat: int, limit: float) -> list[tuple]:
    records = []
    for k in ks:
        r = isolated("floor:measure_predict", limit, n_rows=n_rows, k=k, repeat=repeat)
        if r["status"] != "ok":
            raise SystemExit(f"predict, k={k}: {r['status']}, {r['reason']}")
        records.append({"n": n_rows, "k": k} | r)
    columns = {"rows": "n", "k": "k", "kernel floor s": ("floor", seconds)}
    columns |= {"predict s": ("predict", seconds), "floor / predict": ("share", number)}
    record_table("Prediction", records, columns | {"one row, us": ("single_row_us", whole)})
    checks = [(f"predict, floor / predict at k={r['k']}", r["share"], ">=", 0.7) for r in records]
    return checks + [
        (f"single-row predict at k={r['k']}, us", r["single_row_us"], "<=", 300.0) for r in records
    ]


def import_table(repeat: int = 5) -> list[tuple]:
    theirs = "from sklearn.svm import SVC"
    ours = "import lasn", "from lasn import LASNClassifier"  # the first imports names when used
    took = import_milliseconds([theirs, *ours], repeat)
    table("Import", ["statement", "ms"], [[f"`{name}`", whole(ms)] for name, ms in took.items()])
    return [
        (f"{name}, ms beyond {theirs}", took[name] - took[theirs], "<=", 100.0) for name in ours
    ]


def main() -> int:
    command = parser(__doc__)
    command.add_argument(
        "--cases", nargs="+", help=f"DATA:K or generated-N:K (default: {' '.join(CASES)})"
    )
    command.add_argument("--only", choices=["fit", "predict", "import"], help="one part only")
    command.add_argument("--repeat", type=int, default=5, help="repetitions (default: 5)")
    command.add_argument("--limit", type=float, default=900.0, help="seconds a case may take")
    command.add_argument("--predict-rows", type=int, default=1_000_000)
    command.add_argument("--quick", action="store_true", help="small sizes: a smoke test")
    options = command.parse_args()
    repeat = min(options.repeat, 2) if options.quick else options.repeat
    print(machine())
    checks = []
    if options.only in (None, "fit"):
        cases = options.cases or (QUICK_CASES if options.quick else CASES)
        checks += fit_tables(
            cases, repeat, options.limit, "floor-quick" if options.quick else "floor"
        )
    if options.only in (None, "predict"):
        n_rows = 50_000 if options.quick else options.predict_rows
        ks = [200] if options.quick else [500, 1000]
        checks += predict_table(n_rows, ks, repeat, options.limit)
    if options.only in (None, "import"):
        checks += import_table()
    return 0 if options.quick else verdicts(checks)


if __name__ == "__main__":
    sys.exit(main())

"""Accuracy against the number of landmarks, for each way to choose them.

Two classes, several classes and regression (R2, shown in %), C = 10, mean and standard
deviation over seeds. One table a set, then a summary over all (set, k):

  best       in how many the method has the highest mean (all that share it count)
  near best  in how many it is within 0.1 points of the highest
  shortfall  points below the highest, mean
  rank       mean rank (1 is best)
  seconds    whole fit over the fit with uniform landmarks, geometric mean

Then in how many its mean is above another method's by more than 0.1 points. "pivoted" are rows by
randomly pivoted Cholesky factorisation, which the package does not have. Everything, with objective
values, goes to benchmarks/results/landmarks.csv; what is there already is not run again, so the run
may be broken off, or split by --seconds.
"""

import sys
from statistics import mean, stdev
from time import perf_counter

import numpy as np

import data
from measure import machine, number, parser, read_csv, say, table, timed, write_csv

METHODS = ["uniform", "kmeans", "class_kmeans", "boundary", "pivoted"]
DATA = ["a9a", "w8a", "ijcnn1", "covtype", "madelon", "letter", "satimage", "dna", "mnist"]
DATA += ["cadata", "abalone"]
KS = [50, 100, 200, 400, 800]
NEAR = 0.1


def measure(name: str, k: int, method: str, n_seeds: int, rows: int | None) -> dict:
    """The mean over the seeds, as one record."""
    from lasn import LASNClassifier, LASNRegressor

    estimator = LASNRegressor if data.is_regression(name) else LASNClassifier
    X_train, y_train, X_test, y_test = data.load(name, rows)
    X_train, X_test = data.as_rows(X_train), data.as_rows(X_test)
    scores, took, values = [], [], []
    for seed in range(n_seeds):
        landmarks, before = method, 0.0
        if method == "pivoted":
            landmarks, before = timed(pivoted_rows, X_train, k, np.random.default_rng(seed))
        model = estimator(n_landmarks=k, C=10.0, landmarks=landmarks, random_state=seed)
        took.append(before + timed(model.fit, X_train, y_train)[1])
        scores.append(100.0 * model.score(X_test, y_test))
        values.append(float(np.sum(model.history_[-1]["value"])))
    return {
        "data": name,
        "n": X_train.shape[0],
        "k": k,
        "method": method,
        "score": mean(scores),
        "std": stdev(scores) if n_seeds > 1 else 0.0,
        "fit_seconds": float(np.median(took)),
        "objective": mean(values),
    }


def pivoted_rows(X: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    """k rows, each drawn by what is left of the kernel's diagonal after those before it."""
    from sklearn.metrics.pairwise import rbf_kernel

    gamma = 1.0 / data.total_variance(X)
    left = np.ones(X.shape[0])
    factor = np.zeros((k, X.shape[0]), dtype=np.float32)
    chosen = []
    for step in range(k):
        pivot = rng.choice(len(left), p=left / left.sum())
        column = rbf_kernel(X[[pivot]], X, gamma)[0] - factor[:step, pivot] @ factor[:step]
        factor[step] = column / np.sqrt(column[pivot])
        left = np.maximum(left - factor[step] ** 2, 0.0)
        left[pivot] = 0.0
        chosen.append(pivot)
    return X[chosen]


def set_table(name: str, records: list[dict], methods: list[str]) -> None:
    lines = []
    for cell in _cells(records):
        best = max(cell.values(), key=lambda record: record["score"])
        shown = [f"{cell[m]['score']:.2f} ± {cell[m]['std']:.2f}" for m in methods]
        lines.append([best["k"], *shown, best["method"]])
    what = "R2 in %" if data.is_regression(name) else "test accuracy %"
    table(f"{name}: {what}", ["k", *methods, "best"], lines)


def summary(records: list[dict], methods: list[str]) -> None:
    cells = _cells(records)
    lines = []
    for method in methods:
        gaps, ranks, costs = [], [], []
        for cell in cells:
            scores = [record["score"] for record in cell.values()]
            own = cell[method]["score"]
            gaps.append(max(scores) - own)
            ranks.append(1 + sum(score > own for score in scores))
            reference = cell.get("uniform", cell[method])["fit_seconds"]
            costs.append(np.log(cell[method]["fit_seconds"] / reference))
        best, near = sum(gap == 0.0 for gap in gaps), sum(gap <= NEAR for gap in gaps)
        lines.append([method, best, near, number(mean(gaps)), number(mean(ranks))])
        lines[-1].append(number(float(np.exp(mean(costs)))))
    header = ["method", "best", "near best", "shortfall", "rank", "seconds"]
    table(f"Summary over {len(cells)} pairs (set, k)", header, lines)

    def wins(method, other):
        if method == other:
            return None
        return sum(cell[method]["score"] > cell[other]["score"] + NEAR for cell in cells)

    table(
        f"Pairs (set, k) where the row's method is above the column's by more than {NEAR} points",
        ["", *methods],
        [[method, *(wins(method, other) for other in methods)] for method in methods],
    )


def _cells(records: list[dict]) -> list[dict]:
    """The records of each (set, k), by method."""
    cells: dict[tuple, dict] = {}
    for record in records:
        cells.setdefault((record["data"], record["k"]), {})[record["method"]] = record
    return list(cells.values())


def main() -> int:
    command = parser(__doc__)
    command.add_argument("--data", nargs="+", default=DATA, help=f"default: {' '.join(DATA)}")
    command.add_argument("--k", nargs="+", type=int, default=KS, help="numbers of landmarks")
    command.add_argument("--methods", nargs="+", default=METHODS)
    command.add_argument("--seeds", type=int, default=3, help="how many (default: 3)")
    command.add_argument("--rows", type=int, help="at most so many of the training and test rows")
    command.add_argument("--seconds", type=float, default=np.inf, help="start nothing after these")
    command.add_argument("--quick", action="store_true", help="2000 rows, small k: a smoke test")
    options = command.parse_args()
    print(machine())
    began = perf_counter()
    ks, rows = ([25, 50], 2000) if options.quick else (options.k, options.rows)
    file = f"landmarks{'-quick' if options.quick else ''}"
    records = read_csv(file)
    done = {(one["data"], one["k"], one["method"]) for one in records}
    for name in options.data:
        for k, method in ((k, method) for k in ks for method in options.methods):
            if (name, k, method) in done or perf_counter() - began > options.seconds:
                continue
            records.append(measure(name, k, method, options.seeds, rows))
            say(f"{name} k={k} {method}: {records[-1]['score']:.2f}")
            write_csv(file, records)
    records = [one for one in records if one["method"] in options.methods]
    whole = [cell for cell in _cells(records) if len(cell) == len(options.methods)]
    complete = [one for cell in whole for one in cell.values()]
    for name in options.data:
        own = [one for one in complete if one["data"] == name]
        if own:
            set_table(name, own, options.methods)
    summary(complete, options.methods)
    return 0


if __name__ == "__main__":
    sys.exit(main())

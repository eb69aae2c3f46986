"""Accuracy against the number of landmarks, for each way to choose them.

Two classes, several classes and regression (R2, shown in %), C = 10, mean and standard
deviation over seeds. One table a set, then a summary over all (set, k):

  best       in how many the method has the highest mean (all that share it count)
  near best  in how many it is within 0.1 points of the highest
  shortfall  points below the highest, mean
  rank       mean rank (1 is best)
  seconds    whole fit over the fit with uniform landmarks, geometric mean

Then in how many its mean is above another method's by more than 0.1 points. Everything, with
objective values, goes to benchmarks/results/landmarks.csv.
"""

import sys
from statistics import mean, stdev

import numpy as np

import data
from measure import machine, number, parser, say, table, timed, write_csv

METHODS = ["uniform", "kmeans", "class_kmeans", "boundary"]
DATA = ["a9a", "w8a", "ijcnn1", "covtype", "madelon", "letter", "satimage", "dna", "mnist"]
DATA += ["cadata", "abalone"]
KS = [50, 100, 200, 400, 800]
NEAR = 0.1


def measure(name: str, ks: list[int], methods: list[str], n_seeds: int, rows: int | None):
    """One record for each (k, method)."""
    from lasn import LASNClassifier, LASNRegressor

    estimator = LASNRegressor if data.is_regression(name) else LASNClassifier
    X_train, y_train, X_test, y_test = data.load(name, rows)
    X_train, X_test = data.as_rows(X_train), data.as_rows(X_test)
    for k in (k for k in ks if k <= X_train.shape[0] // 2):
        for method in methods:
            scores, took, values = [], [], []
            for seed in range(n_seeds):
                model = estimator(n_landmarks=k, C=10.0, landmarks=method, random_state=seed)
                took.append(timed(model.fit, X_train, y_train)[1])
                scores.append(100.0 * model.score(X_test, y_test))
                values.append(float(np.sum(model.history_[-1]["value"])))
            yield {
                "data": name,
                "k": k,
                "method": method,
                "score": mean(scores),
                "std": stdev(scores) if n_seeds > 1 else 0.0,
                "fit_seconds": float(np.median(took)),
                "objective": mean(values),
            }


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
    command.add_argument("--quick", action="store_true", help="2000 rows, small k: a smoke test")
    options = command.parse_args()
    print(machine())
    ks, few = ([25, 50], 2000) if options.quick else (options.k, None)
    everything = []
    for name in options.data:
        records = []
        for record in measure(name, ks, options.methods, options.seeds, few):
            records.append(record)
            say(f"{name} k={record['k']} {record['method']}: {record['score']:.2f}")
        if records:
            set_table(name, records, options.methods)
        everything += records
        write_csv(f"landmarks{'-quick' if options.quick else ''}", everything)
    summary(everything, options.methods)
    return 0


if __name__ == "__main__":
    sys.exit(main())

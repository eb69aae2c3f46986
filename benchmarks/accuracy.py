"""Test accuracy that the core has to reach, mean of five seeds, C = 10, gamma = "variance".

Training and test sets are the official ones. mushrooms has none: 60 % of its rows, drawn at random,
are for training. The paper takes the first 60 % instead, which leaves kinds of mushrooms for the
test that training never saw (its mean is 95.66 %); that split is listed as mushrooms-first, with no
target. The exit status is 1 if a mean is below its target.
"""

import sys
from statistics import mean, stdev

import data
from measure import machine, number, parser, record_table, say, seconds, timed, verdicts, write_csv

# data, landmarks, k, least mean accuracy in %
TARGETS = [
    ("a9a", "kmeans", 200, 84.9),
    ("w8a", "kmeans", 200, 98.0),
    ("ijcnn1", "kmeans", 3000, 98.9),
    ("mushrooms", "kmeans", 200, 99.0),
    ("mushrooms-first", "kmeans", 200, None),
    ("ijcnn1", "boundary", 300, 98.4),
    ("w8a", "boundary", 600, 99.0),
]


def measure(name: str, landmarks: str, k: int, n_seeds: int, rows: int | None) -> dict:
    from lasn import LASNClassifier

    X_train, y_train, X_test, y_test = data.load(name, rows)
    X_train, X_test = data.as_rows(X_train), data.as_rows(X_test)
    accuracies, took = [], []
    for seed in range(n_seeds):
        model = LASNClassifier(
            n_landmarks=k, C=10.0, gamma="variance", landmarks=landmarks, random_state=seed
        )
        took.append(timed(model.fit, X_train, y_train)[1])
        accuracies.append(100.0 * model.score(X_test, y_test))
        say(f"{name} {landmarks} k={k} seed={seed}: {accuracies[-1]:.2f} %, {took[-1]:.2f} s")
    return {
        "data": name,
        "landmarks": landmarks,
        "k": k,
        "mean": mean(accuracies),
        "std": stdev(accuracies) if n_seeds > 1 else 0.0,
        "fit_seconds": mean(took),
    }


def main() -> int:
    command = parser(__doc__)
    command.add_argument("--data", nargs="+", help="only these sets")
    command.add_argument("--seeds", type=int, default=5, help="how many (default: 5)")
    command.add_argument(
        "--quick", action="store_true", help="3000 rows, two seeds: a smoke test, no verdict"
    )
    options = command.parse_args()
    print(machine())
    results = []
    for name, landmarks, k, target in TARGETS:
        if options.data and name not in options.data:
            continue
        size = (2, 3000) if options.quick else (options.seeds, None)
        results.append(measure(name, landmarks, min(k, 300) if options.quick else k, *size))
        results[-1]["target"] = target
    columns = {"data": "data", "landmarks": "landmarks", "k": "k", "mean": ("mean", number)}
    columns |= {"std": ("std", number), "target": "target", "fit s": ("fit_seconds", seconds)}
    record_table("Accuracy %", results, columns)
    write_csv(f"accuracy{'-quick' if options.quick else ''}", results)
    if options.quick:
        return 0
    checks = [
        (f"{r['data']} {r['landmarks']} k={r['k']}", r) for r in results if r["target"] is not None
    ]
    return verdicts([(what, r["mean"], ">=", r["target"]) for what, r in checks])


if __name__ == "__main__":
    sys.exit(main())

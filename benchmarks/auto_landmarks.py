"""n_landmarks="auto" of LASNClassifierCV against the best number of landmarks.

C = 10 and gamma = 1 / total variance are given. LASNClassifier is fitted with each k of 50, 100,
... 3200, 4000; LASNClassifierCV grows k by itself, with five folds of shuffled rows (w8a's stand in
an order, and folds of neighbours say little about others). Seconds and accuracy are means over
three seeds: by one alone, on 10 000 test rows, chance would choose the best of numbers that are all
alike. Sets without test rows of their own (vehicle, segment) leave some hundred for that, on which
most numbers are equal; they are split anew by each of ten seeds. On one core
(``OMP_NUM_THREADS=1``) seconds are the processor's; the first fit of a process is not timed.

Targets: test accuracy at most 0.2 points below the best k's, in at most 2.5 times the seconds of
that one fit. The exit status is 1 where one is missed. Fits that are in
benchmarks/results/auto_landmarks.csv are not run again, so the run may be broken off.
"""

import sys
from time import perf_counter

import numpy as np
from sklearn.model_selection import StratifiedKFold

import data
from measure import (
    cores,
    isolated,
    machine,
    measured,
    number,
    parser,
    read_csv,
    record_table,
    say,
    seconds,
    verdicts,
    write_csv,
)

DATA = ["vehicle", "segment", "dna", "satimage", "a9a", "w8a", "ijcnn1", "letter"]
N_SEEDS, N_SPLITS = 3, 10
KS = [50, 100, 200, 400, 800, 1600, 3200, 4000]
POINTS_BELOW, MOST_SECONDS = 0.2, 2.5


def contest(name: str, k: int | str, rows: int | None) -> dict:
    """The fits of all seeds, in this process."""
    landmarks, took, accuracy = [], [], []
    for seed in range(N_SEEDS if data.has_test_rows(name) else N_SPLITS):
        X, y, X_test, y_test = data.load(name, rows, split=seed)
        X, X_test = data.as_rows(X), data.as_rows(X_test)
        if seed == 0:
            _model(50, seed).fit(X[::10], y[::10])
        model, seconds_taken = measured(_model(k, seed).fit, X, y)
        landmarks.append(model.n_landmarks_)
        took.append(seconds_taken)
        accuracy.append(100.0 * model.score(X_test, y_test))
    return {
        "n": len(y),
        "landmarks": ", ".join(str(one) for one in sorted(set(landmarks))),
        "seconds": float(np.mean(took)),
        "accuracy": float(np.mean(accuracy)),
    }


def _model(k: int | str, seed: int):
    from lasn import LASNClassifier, LASNClassifierCV

    if k != "auto":
        return LASNClassifier(n_landmarks=k, C=10.0, random_state=seed)
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    return LASNClassifierCV(Cs=[10.0], gammas=["variance"], cv=folds, random_state=seed)


def report(records: list[dict], names: list[str]) -> int:
    lines, checks = [], []
    for name in names:
        own = [one for one in records if one["data"] == name and one["status"] == "ok"]
        fits = [one for one in own if one["k"] != "auto"]
        auto = next((one for one in own if one["k"] == "auto"), None)
        if not fits or auto is None:
            continue
        best = max(fits, key=lambda one: one["accuracy"])
        lead = auto["accuracy"] - best["accuracy"]
        cost = auto["seconds"] / best["seconds"]
        lines.append(
            {"data": name, "n": auto["n"], "best": best["k"], "best %": best["accuracy"]}
            | {"best s": best["seconds"], "auto": auto["landmarks"], "auto %": auto["accuracy"]}
            | {"auto s": auto["seconds"]}
        )
        checks.append((f"{name}, points above the best k", lead, ">=", -POINTS_BELOW))
        checks.append((f"{name}, seconds over the best k's", cost, "<=", MOST_SECONDS))
    columns = {"data": "data", "n": "n", "best k": "best", "test %": ("best %", number)}
    columns |= {"fit s": ("best s", seconds), "auto k": "auto", "auto test %": ("auto %", number)}
    record_table("Automatic number of landmarks", lines, columns | {"auto s": ("auto s", seconds)})
    return verdicts(checks)


def main() -> int:
    command = parser(__doc__)
    command.add_argument("--data", nargs="+", default=DATA)
    command.add_argument("--rows", type=int, default=10_000, help="at most so many (10 000)")
    command.add_argument("--again", action="store_true", help='run "auto" anew')
    command.add_argument("--limit", type=float, default=1800.0, help="seconds a process may take")
    command.add_argument("--seconds", type=float, default=np.inf, help="start nothing after these")
    options = command.parse_args()
    print(machine())
    began = perf_counter()
    records = [one for one in read_csv("auto_landmarks") if one["k"] != "auto" or not options.again]
    for name in options.data:
        for k in (*KS, "auto"):
            done = any((one["data"], one["k"]) == (name, k) for one in records)
            if done or perf_counter() - began > options.seconds:
                continue
            arguments = {"name": name, "k": k, "rows": options.rows}
            result = isolated("auto_landmarks:contest", options.limit, **arguments)
            records.append({"data": name, "k": k, "cores": cores()} | result)
            write_csv("auto_landmarks", records)
            say(f"{name} {k}: {result.get('accuracy', np.nan):.2f} {result.get('seconds')}")
    return report(records, options.data)


if __name__ == "__main__":
    sys.exit(main())

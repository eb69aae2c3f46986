"""Test accuracy of the tuned exact solver and of tuned SVC, on every set of up to 50 000 rows.

Both search the same grid, C = 0.01, 0.1, ... 1000 and gamma = 1/16, 1/4, 1, 4 over the total
variance, by five-fold cross-validation, and fit the best to all training rows; of more than 5000
rows 2000 are searched, or 200 a class. Up to 1000 rows, where a fit takes milliseconds, C comes in
steps of the root of 10: the two losses want C of different sizes, and decades may meet the best of
one and miss that of the other. SVC has the L1 loss and a free bias, ours the L2 loss and a
regularised bias; SVC sets one class against one, ours one against the rest. Sets without official
test rows are split several times, one row in five for the test, until about 2000 rows were tested
and, up to 10 000 rows, five times at least; the mean counts.

Target: ours is no worse than SVC by more than 0.2 points. A difference of a few test rows can be
chance, so the standard error of the paired difference is printed next to it. What
``results/exact_accuracy.csv`` holds is not measured again. ``OMP_NUM_THREADS=1`` with ``--jobs``
runs so many processes side by side.
"""

import sys
from functools import partial
from threading import Lock
from time import perf_counter

import numpy as np

import data
from measure import (
    isolated,
    machine,
    number,
    parser,
    read_csv,
    record_table,
    say,
    side_by_side,
    timed,
    write_csv,
)

CS = [0.01, 0.1, 1.0, 10.0, 100.0, 1000.0]
FINE_CS = [float(C) for C in np.geomspace(0.01, 1000.0, 11)]
GAMMAS = [1 / 16, 0.25, 1.0, 4.0]
TESTED_ROWS, FEWEST_SPLITS = 2000, 5
# Up to so many training rows, steps of C are finer; up to so many, there are several splits.
FINE_UP_TO, SPLIT_UP_TO = 1000, 10_000
# Rows that are all searched; otherwise, rows to search, and at least so many a class.
ALL_SEARCHED, SEARCHED, SEARCHED_OF_A_CLASS = 5000, 2000, 200
MARGIN = 0.2
# In the order of their size.
SETS = [
    "liver-disorders", "wine", "glass", "sonar", "heart", "ionosphere", "svmguide2", "vowel",
    "breast-cancer", "australian", "diabetes", "vehicle", "fourclass", "german.numer", "svmguide3",
    "a1a", "usps.t", "dna", "madelon", "a2a", "segment", "w1a", "satimage", "a4a", "covtype", "a5a",
    "w4a", "mushrooms", "a6a", "letter", "news20", "a7a", "a8a", "w7a", "a9a", "w8a", "ijcnn1",
]  # fmt: skip
PEERS = ["lasn-exact", "svc"]


def make(peer: str):
    if peer == "lasn-exact":
        from lasn import LASNClassifier

        return LASNClassifier(solver="exact", random_state=0)
    from sklearn.svm import SVC

    return SVC(cache_size=1000)


def contest(peer: str, name: str, split: int, search_jobs: int) -> dict:
    """Tune and fit one competitor on one split of one set."""
    from sklearn.model_selection import GridSearchCV, StratifiedKFold

    X, y, X_test, y_test = data.load(name, split=split)
    X, X_test = data.as_rows(X), data.as_rows(X_test)
    most = max(SEARCHED, SEARCHED_OF_A_CLASS * (int(y.max()) + 1))
    most = len(y) if len(y) <= ALL_SEARCHED else most
    few = np.sort(np.random.default_rng(0).permutation(len(y))[:most])
    gammas = [factor / data.total_variance(X) for factor in GAMMAS]
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    grid = {"C": FINE_CS if len(y) <= FINE_UP_TO else CS, "gamma": gammas}
    search = GridSearchCV(make(peer), grid, cv=folds, refit=False, n_jobs=search_jobs)
    _, tuning_seconds = timed(search.fit, X[few], y[few])
    model = make(peer).set_params(**search.best_params_)
    _, fit_seconds = timed(model.fit, X, y)
    right = model.predict(X_test) == y_test
    return {
        "data": name,
        "peer": peer,
        "split": split,
        "accuracy": 100.0 * float(np.mean(right)),
        "test_rows": len(y_test),
        "rows": len(y),
        "C": search.best_params_["C"],
        "gamma_factor": GAMMAS[gammas.index(search.best_params_["gamma"])],
        "tuning_seconds": tuning_seconds,
        "fit_seconds": fit_seconds,
    }


def comparisons(records: list[dict]) -> list[dict]:
    """One line a set on which both competitors are done."""
    found = []
    for name in SETS:
        by_peer = {
            peer: {int(r["split"]): r for r in records if (r["data"], r["peer"]) == (name, peer)}
            for peer in PEERS
        }
        splits = sorted(set(by_peer[PEERS[0]]) & set(by_peer[PEERS[1]]))
        if len(splits) < n_splits(name):
            continue
        ours, theirs = (
            np.array([float(by_peer[peer][split]["accuracy"]) for split in splits])
            for peer in PEERS
        )
        difference = ours - theirs
        if len(splits) > 1:
            error = difference.std(ddof=1) / np.sqrt(len(splits))
        else:  # rows on which one of the two is right are at most those that either gets wrong
            test_rows = int(by_peer[PEERS[0]][splits[0]]["test_rows"])
            wrong = 2.0 - (ours[0] + theirs[0]) / 100.0
            error = 100.0 * np.sqrt(wrong / test_rows)
        found.append(
            {
                "data": name,
                "rows": int(by_peer[PEERS[0]][splits[0]]["rows"]),
                "ours": ours.mean(),
                "svc": theirs.mean(),
                "difference": difference.mean(),
                "standard_error": float(error),
            }
        )
    return found


def n_splits(name: str) -> int:
    """One where the set has test rows of its own."""
    if data.has_test_rows(name):
        return 1
    _, y, _, y_test = data.load(name)
    fewest = FEWEST_SPLITS if len(y) <= SPLIT_UP_TO else 1
    return max(fewest, -(-TESTED_ROWS // len(y_test)))


def main() -> int:
    command = parser(__doc__)
    command.add_argument("--data", nargs="+", default=SETS, choices=SETS)
    command.add_argument("--seconds", type=float, default=np.inf, help="start nothing after these")
    command.add_argument("--limit", type=float, default=600.0, help="seconds of a process")
    command.add_argument("--jobs", type=int, default=1, help="processes side by side")
    command.add_argument("--search-jobs", type=int, default=1, help="processes of a search")
    options = command.parse_args()
    print(machine())
    began = perf_counter()
    records = read_csv("exact_accuracy")
    done = {(record["data"], record["peer"], int(record["split"])) for record in records}
    lock = Lock()

    def measure(peer: str, name: str, split: int) -> None:
        left = options.seconds - (perf_counter() - began)
        if left <= 0.0:
            return
        limit = min(options.limit, left)
        of = {"peer": peer, "name": name, "split": split, "search_jobs": options.search_jobs}
        result = isolated("exact_accuracy:contest", limit, **of)
        say(f"{name} {peer} {split}: {result.get('reason', 'ok')}")
        if result.pop("status") != "ok":
            return
        with lock:
            records.append(result)
            records.sort(key=lambda one: (SETS.index(one["data"]), one["peer"], int(one["split"])))
            write_csv("exact_accuracy", records)

    tasks = [
        partial(measure, peer, name, split)
        for name in reversed(options.data)
        for split in range(n_splits(name))
        for peer in PEERS
        if (name, peer, split) not in done
    ]
    side_by_side(tasks, options.jobs)
    found = comparisons(records)
    columns = {"data": "data", "rows": "rows", "ours %": ("ours", number), "SVC %": ("svc", number)}
    columns |= {"difference": ("difference", "{:+.2f}".format)}
    columns |= {"standard error": ("standard_error", number)}
    record_table("Tuned exact solver and tuned SVC", found, columns)
    worse = [one["data"] for one in found if one["difference"] < -MARGIN]
    missing = [name for name in SETS if name not in {one["data"] for one in found}]
    print(f"\nworse by more than {MARGIN} points: {', '.join(worse) or 'none'}")
    print(f"not measured yet: {', '.join(missing) or 'none'}")
    return int(bool(worse))


if __name__ == "__main__":
    sys.exit(main())

"""Tuning: LASNClassifierCV against GridSearchCV(SVC) and HalvingGridSearchCV(SVC), same grid.

The grid is 6 C (0.1 to 1000) by 6 gamma (1/16 to 64 over the total variance), 5 stratified folds,
the same cores for everyone (all, or as many as ``OMP_NUM_THREADS`` says). Every search runs in a
process of its own, and its winner, refitted on all training rows, predicts the test rows.

A grid search of SVC can take an hour. Its 36 candidates are independent, so it is run one
candidate after another; its seconds are their sum and the refit's. On several cores that leaves
some idle at the end of each candidate's five folds. One core (``OMP_NUM_THREADS=1``) is exact, and
is timed by the processor's clock, so that other processes do not matter much. A candidate that
passes --limit seconds counts with that time and without a score.

``OMP_NUM_THREADS=1`` with ``--jobs`` runs so many processes side by side, one on a core.

What is finished is in benchmarks/results/tuning.csv and tuning-grid.csv and is not run again (but
for the searches that --again names), so the run may be broken off, or split by --seconds.

Targets: accuracy at most 0.3 points below tuned SVC on every set, and not below it on half of them;
GridSearchCV over ours at least 20 and halving at least 5 on the 10 000-row parts of a9a, w8a and
ijcnn1; GridSearchCV at least 3 on letter and satimage and 1 on the small sets. The exit status is 1
where a target is missed. With --auto, auto_landmarks.py and its targets follow.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from threading import Lock
from time import perf_counter

import numpy as np

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
    side_by_side,
    verdicts,
    write_csv,
)

# data, rows, least ratio of grid search over ours, of halving over ours
CASES = [
    ("vehicle", None, 1.0, None),
    ("dna", None, 1.0, None),
    ("segment", None, 1.0, None),
    ("satimage", None, 3.0, None),
    ("a9a", 10_000, 20.0, 5.0),
    ("w8a", 10_000, 20.0, 5.0),
    ("ijcnn1", 10_000, 20.0, 5.0),
    ("letter", None, 3.0, None),
]
SEARCHES = ["lasn", "grid", "halving"]
CS = np.logspace(-1, 3, 6)
GAMMA_FACTORS = 4.0 ** np.arange(-2, 4)
POINTS_BELOW = 0.3


def contest(search: str, name: str, rows: int | None, only: dict | None = None) -> dict:
    """Tune on the training rows, in this process, or fit the ``only`` candidate to them."""
    X, y, X_test, y_test = _rows(name, rows)
    if only:
        from sklearn.svm import SVC

        model, took = measured(SVC(C=only["C"], gamma=only["gamma"]).fit, X, y)
        best = only
    else:
        model, took = measured(_search(search, CS, _gammas(X)).fit, X, y)
        best = model.best_params_
    return {
        "n": len(y),
        "seconds": took,
        "accuracy": 100.0 * model.score(X_test, y_test),
        "cv_accuracy": 100.0 * getattr(model, "best_score_", np.nan),
        "best": ", ".join(f"{key} {value:.4g}" for key, value in sorted(best.items())),
    }


def candidate(name: str, rows: int | None, C: float, factor: float) -> dict:
    """Five folds of SVC, as the grid search does them, in this process."""
    X, y, _, _ = _rows(name, rows)
    gamma = factor / data.total_variance(X)
    search = _search("grid", [C], [gamma]).set_params(refit=False)
    search, took = measured(search.fit, X, y)
    return {"gamma": gamma, "seconds": took, "cv_accuracy": 100.0 * search.best_score_}


def _rows(name: str, rows: int | None):
    X, y, X_test, y_test = data.load(name)
    X, X_test = data.as_rows(X, "float64"), data.as_rows(X_test, "float64")
    if rows:
        kept = np.random.RandomState(0).permutation(len(y))[:rows]
        X, y = X[kept], y[kept]
    return X, y, X_test, y_test


def _gammas(X) -> np.ndarray:
    return GAMMA_FACTORS / data.total_variance(X)


def _search(search: str, Cs, gammas):
    if search == "lasn":
        from lasn import LASNClassifierCV

        return LASNClassifierCV(Cs=Cs, gammas=gammas, cv=5, random_state=0)
    from sklearn.experimental import enable_halving_search_cv  # noqa: F401
    from sklearn.model_selection import GridSearchCV, HalvingGridSearchCV
    from sklearn.svm import SVC

    grid = {"C": Cs, "gamma": gammas}
    if search == "grid":
        return GridSearchCV(SVC(), grid, cv=5, n_jobs=cores())
    return HalvingGridSearchCV(SVC(), grid, cv=5, n_jobs=cores(), random_state=0)


class Ledger:
    """What is finished, in ``results``: searches, and candidates of grid searches."""

    def __init__(self, again: list[str]):
        self.searches = [one for one in read_csv("tuning") if one["search"] not in again]
        self.candidates = [] if "grid" in again else read_csv("tuning-grid")
        self.lock = Lock()

    def search(self, name: str, search: str) -> dict | None:
        found = (one for one in self.searches if (one["data"], one["search"]) == (name, search))
        return next(found, None)

    def grid(self, name: str) -> dict[tuple[float, float], dict]:
        """The candidates of a set by their C and gamma factor."""
        return {(one["C"], one["factor"]): one for one in self.candidates if one["data"] == name}

    def add_search(self, record: dict) -> None:
        order = [case[0] for case in CASES]
        with self.lock:
            self.searches.append(record)
            self.searches.sort(key=lambda r: (order.index(r["data"]), SEARCHES.index(r["search"])))
            write_csv("tuning", self.searches)

    def add_candidate(self, record: dict) -> None:
        with self.lock:
            self.candidates.append(record)
            self.candidates.sort(key=lambda r: (r["data"], r["factor"], r["C"]))
            write_csv("tuning-grid", self.candidates)


def run_search(ledger: Ledger, name: str, rows: int | None, search: str, limit: float) -> None:
    result = isolated("tuning:contest", limit, search=search, name=name, rows=rows)
    if result["status"] == "time-out":
        result["seconds"] = limit
    ledger.add_search({"data": name, "search": search, "cores": cores()} | result)
    say(f"{name} {search}: {result['status']} {result.get('seconds', 0.0):.1f} s")


def run_candidate(
    ledger: Ledger, name: str, rows: int | None, C: float, factor: float, limit: float
) -> None:
    result = isolated("tuning:candidate", limit, name=name, rows=rows, C=C, factor=factor)
    if result["status"] == "time-out":
        result |= {"seconds": limit, "cv_accuracy": -np.inf}
    say(f"{name} C={C:.3g} factor={factor:.3g}: {result['seconds']:.1f} s")
    ledger.add_candidate({"data": name, "C": C, "factor": factor, "cores": cores()} | result)


def finish_grid(ledger: Ledger, name: str, rows: int | None, limit: float) -> None:
    """The best of the candidates on all training rows."""
    candidates = list(ledger.grid(name).values())
    best = max(candidates, key=lambda one: one["cv_accuracy"])
    only = {"C": best["C"], "gamma": best["gamma"]}
    result = isolated("tuning:contest", limit, search="grid", name=name, rows=rows, only=only)
    result["seconds"] += sum(one["seconds"] for one in candidates)
    result["cv_accuracy"] = best["cv_accuracy"]
    ledger.add_search({"data": name, "search": "grid", "cores": cores()} | result)


def open_tasks(
    ledger: Ledger, names: list[str], searches: list[str], limit: float
) -> Iterator[Callable[[], None]]:
    """Searches and candidates that are missing, those of the largest sets first."""
    for name, rows, *_ in reversed(CASES):
        for search in searches:
            if name not in names or ledger.search(name, search):
                continue
            if search != "grid":
                yield partial(run_search, ledger, name, rows, search, limit)
                continue
            for factor in GAMMA_FACTORS:
                for C in CS:
                    if (C, factor) not in ledger.grid(name):
                        yield partial(run_candidate, ledger, name, rows, C, factor, limit)


def finished_grids(ledger: Ledger, names: list[str], limit: float) -> Iterator[Callable[[], None]]:
    for name, rows, *_ in CASES:
        whole = len(ledger.grid(name)) == len(CS) * len(GAMMA_FACTORS)
        if name in names and whole and not ledger.search(name, "grid"):
            yield partial(finish_grid, ledger, name, rows, limit)


def report(ledger: Ledger, names: list[str]) -> int:
    """The table of what is finished, and the targets that it meets or misses."""
    checks, leads = [], []
    for name, _, least_grid, least_halving in CASES:
        ours = ledger.search(name, "lasn")
        if name not in names or ours is None or ours["status"] != "ok":
            continue
        for search, least in (("grid", least_grid), ("halving", least_halving)):
            peer = ledger.search(name, search)
            if least and peer and "seconds" in peer:
                ratio = peer["seconds"] / ours["seconds"]
                checks.append((f"{name}, {search} over ours", ratio, ">=", least))
        part = ledger.grid(name).values()
        if part and not ledger.search(name, "grid"):
            ratio = sum(one["seconds"] for one in part) / ours["seconds"]
            what = f"{name}, {len(part)} candidates of {len(CS) * len(GAMMA_FACTORS)} over ours"
            checks.append((what, ratio, ">=", least_grid))
        tuned = ledger.search(name, "grid")
        if tuned and "accuracy" in tuned:
            leads.append(ours["accuracy"] - tuned["accuracy"])
            checks.append((f"{name}, points above tuned SVC", leads[-1], ">=", -POINTS_BELOW))
    if leads:
        share = float(np.mean(np.array(leads) >= 0.0))
        checks.append((f"share of {len(leads)} sets not below SVC", share, ">=", 0.5))
    columns = {"data": "data", "n": "n", "search": "search", "cores": "cores"}
    columns |= {"search s": ("seconds", seconds), "test %": ("accuracy", number)}
    columns |= {"cv %": ("cv_accuracy", number), "best": "best"}
    record_table("Tuning", [one for one in ledger.searches if one["data"] in names], columns)
    return verdicts(checks)


def main() -> int:
    command = parser(__doc__)
    names = [case[0] for case in CASES]
    command.add_argument("--data", nargs="+", default=names, choices=names)
    command.add_argument("--search", nargs="+", default=SEARCHES, choices=SEARCHES)
    command.add_argument("--again", nargs="*", default=[], choices=SEARCHES, help="run anew")
    command.add_argument("--limit", type=float, default=1800.0, help="seconds a process may take")
    command.add_argument("--seconds", type=float, default=np.inf, help="start nothing after these")
    command.add_argument("--jobs", type=int, default=1, help="processes side by side")
    command.add_argument("--auto", action="store_true", help="auto_landmarks.py after it, too")
    options = command.parse_args()
    print(machine())
    began = perf_counter()

    def in_time(task: Callable[[], None]) -> Callable[[], None]:
        return lambda: task() if perf_counter() - began < options.seconds else None

    ledger = Ledger(options.again)
    for tasks in (
        open_tasks(ledger, options.data, options.search, options.limit),
        finished_grids(ledger, options.data, options.limit),
    ):
        side_by_side(map(in_time, tasks), options.jobs)
    status = report(ledger, options.data)
    if options.auto:
        other = Path(__file__).with_name("auto_landmarks.py")
        status = max(status, subprocess.run([sys.executable, str(other)], check=False).returncode)
    return status


if __name__ == "__main__":
    sys.exit(main())

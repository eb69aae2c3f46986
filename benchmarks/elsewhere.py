"""Rows that live elsewhere: on disk under a memory limit, and on a Dask cluster of this machine.

Disk:  5 million generated rows x 20 (400 MB as float32; their features would be 10 GB), written
       block by block, k = 500, ``memory_limit="1GB"``: the most that the process held, and rows a
       second against a fit in memory of the million rows that fit there.
Dask:  a million rows, k = 500: one single-thread worker against a fit in memory on one thread; and
       four million: two such workers against one. Clusters are started, and rows loaded, before
       the clock.

Every fit has a process of its own; a small fit warms it up. The exit status is 1 where a target is
missed: 60 % of the rows a second, the limit, 25 % more time, 1.6 times faster.
"""

import sys
import tempfile
from pathlib import Path
from statistics import median

import numpy as np
from threadpoolctl import threadpool_limits

import data
from measure import (
    isolated,
    machine,
    number,
    parser,
    peak_memory,
    record_table,
    reset_peak_memory,
    say,
    seconds,
    timed,
    verdicts,
    whole,
    write_csv,
)

FEATURES, LANDMARKS = 20, 500
ROWS, ROWS_ON_DISK, ROWS_TO_SHARE, LIMIT = 1_000_000, 5_000_000, 4_000_000, "1GB"
BLOCK = 250_000


def model(**parameters):
    from lasn import LASNClassifier

    return LASNClassifier(LANDMARKS, random_state=0, **parameters)


def write_rows(n_rows: int, folder: str) -> tuple[str, str]:
    """Two .npy files, a block at a time: never are all rows in memory."""
    paths = str(Path(folder) / "X.npy"), str(Path(folder) / "y.npy")
    X = np.lib.format.open_memmap(paths[0], "w+", np.float32, (n_rows, FEATURES))
    y = np.lib.format.open_memmap(paths[1], "w+", np.int64, (n_rows,))
    for part, start in enumerate(range(0, n_rows, BLOCK)):
        size = min(BLOCK, n_rows - start)
        X[start : start + size], y[start : start + size], _ = block(part, size)
    return paths


def block(part: int, size: int):
    return data.generated(size, FEATURES, part=part)


def test_accuracy(fitted) -> float:
    X, y, _ = block(part=10**6, size=20_000)
    return 100.0 * fitted.score(X, y)


def answer(fitted, took: float, n_rows: int) -> dict:
    return {
        "n": n_rows,
        "fit_seconds": took,
        "rows_a_second": n_rows / took,
        "peak_mb": peak_memory() / 1e6,
        "accuracy": test_accuracy(fitted),
        "iterations": fitted.n_iter_,
        "passes": sum(record["passes"] for record in fitted.history_),
        "mb_moved": sum(record["bytes_moved"] for record in fitted.history_) / 1e6,
    }


def fit_in_memory(n_rows: int, threads: int | None) -> dict:
    parts = [block(part, BLOCK)[:2] for part in range(n_rows // BLOCK)]
    X, y = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    del parts
    with threadpool_limits(threads):
        model().fit(X[:20_000], y[:20_000])
        reset_peak_memory()
        return answer(*_fit(model(), X, y), n_rows=n_rows)


def fit_on_disk(n_rows: int) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        X, y = write_rows(n_rows, folder)
        some = block(0, 20_000)
        model().fit(*some[:2])
        reset_peak_memory()
        return answer(*_fit(model(memory_limit=LIMIT), X, y), n_rows=n_rows)


def fit_on_cluster(n_rows: int, workers: int) -> dict:
    import dask
    import dask.array as da
    from distributed import Client, LocalCluster, wait

    n_blocks = n_rows // BLOCK
    cluster = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None)
    with cluster, Client(cluster) as client:
        client.run(sys.path.insert, 0, str(Path(__file__).parent))
        parts = [dask.delayed(block)(part, BLOCK) for part in range(n_blocks)]
        X = da.concatenate(
            [da.from_delayed(part[0], (BLOCK, FEATURES), np.float32) for part in parts]
        ).persist()
        y = da.concatenate([da.from_delayed(part[1], (BLOCK,), np.int64) for part in parts])
        y = y.persist()
        wait([X, y])
        few = slice(None, None, n_rows // 20_000)  # of every chunk, so that all workers are warm
        model().fit(X[few], y[few])
        reset_peak_memory()
        return answer(*_fit(model(), X, y), n_rows=n_rows)


def _fit(estimator, X, y):
    _, took = timed(estimator.fit, X, y)
    return estimator, took


def constants() -> dict:
    """What one core does, for the cost model of ``docs/guide/dask.md``."""
    from lasn.kernels import Kernel
    from lasn.threads import one_thread, serial_products

    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 100), dtype=np.float32)
    found = {}
    with serial_products(), one_thread():
        for p, k in ((20, 500), (100, 4096)):
            columns = Kernel("rbf", 1.0 / p).against(np.array(X[:k, :p]), np.float32)
            K = columns.matrix(X[:, :p])
            _, took = min((timed(columns.matrix, X[:, :p], K) for _ in range(3)), key=_seconds_of)
            found[f"kernel values a second, p = {p}, k = {k}"] = K.size / took
        vector = rng.standard_normal(K.shape[1], dtype=np.float32)
        _, took = min((timed(np.matmul, K, vector) for _ in range(3)), key=_seconds_of)
        found["bytes of features read a second"] = K.nbytes / took
        _, took = min((timed(np.matmul, K.T, K) for _ in range(2)), key=_seconds_of)
        found["operations a second of a symmetric product"] = K.size * K.shape[1] / took
    return {"rates": found}


def _seconds_of(answer):
    return answer[1]


def answer_of(name: str, target: str, repeat: int, **arguments) -> dict:
    """The median over some runs, by time."""
    runs = []
    for _ in range(repeat):
        found = isolated(f"elsewhere:{target}", lifetime=1200, **arguments)
        if "fit_seconds" not in found:
            raise SystemExit(f"{name}: {found}")
        runs.append(found)
        say(f"{name}: {found['fit_seconds']:.1f} s")
    middle = median(run["fit_seconds"] for run in runs)
    chosen = min(runs, key=lambda run: abs(run["fit_seconds"] - middle))
    return {"rows": name, **chosen}


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--rows", type=int, default=ROWS)
    options.add_argument("--rows-on-disk", type=int, default=ROWS_ON_DISK)
    options.add_argument("--rows-to-share", type=int, default=ROWS_TO_SHARE)
    options.add_argument("--repeat", type=int, default=3)
    parts = ["constants", "disk", "dask"]
    options.add_argument("--only", nargs="+", choices=parts, default=parts)
    chosen = options.parse_args()
    print(machine())
    records, checks = [], []
    if "constants" in chosen.only:
        for what, rate in isolated("elsewhere:constants")["rates"].items():
            print(f"one core: {rate:.2g} {what}")

    def add(name: str, target: str, repeat: int = 1, **arguments) -> dict:
        records.append(answer_of(name, target, repeat, **arguments))
        return records[-1]

    if "disk" in chosen.only:
        here = add("in memory", "fit_in_memory", n_rows=chosen.rows, threads=None)
        disk = add(f"on disk, {LIMIT}", "fit_on_disk", n_rows=chosen.rows_on_disk)
        again = add("in memory, again", "fit_in_memory", n_rows=chosen.rows, threads=None)
        rate = 0.5 * (here["rows_a_second"] + again["rows_a_second"])
        share = disk["rows_a_second"] / rate
        checks.append(("rows a second on disk over those in memory", share, ">=", 0.6))
        checks.append((f"MB held on disk, of {LIMIT}", disk["peak_mb"], "<=", 1000.0))
    if "dask" in chosen.only:
        arguments = {"n_rows": chosen.rows, "repeat": chosen.repeat}
        one = add("in memory, one thread", "fit_in_memory", threads=1, **arguments)
        worker = add("on one worker", "fit_on_cluster", workers=1, **arguments)
        more = worker["fit_seconds"] / one["fit_seconds"]
        alone, both = (
            add(f"on {name}", "fit_on_cluster", n_rows=chosen.rows_to_share, workers=workers)
            for workers, name in ((1, "one worker"), (2, "two workers"))
        )
        faster = alone["fit_seconds"] / both["fit_seconds"]
        checks.append(("seconds of one worker over those in memory", more, "<=", 1.25))
        checks.append(("seconds of one worker over those of two", faster, ">=", 1.6))
    columns = {"rows": "rows", "n": ("n", whole), "fit s": ("fit_seconds", seconds)}
    columns |= {"rows/s": ("rows_a_second", whole), "peak MB": ("peak_mb", whole)}
    columns |= {"accuracy %": ("accuracy", number), "iterations": "iterations"}
    columns |= {"passes": ("passes", number), "MB moved": ("mb_moved", number)}
    record_table(f"k = {LANDMARKS}, {FEATURES} features", records, columns)
    write_csv("elsewhere", records)
    return verdicts(checks)


if __name__ == "__main__":
    sys.exit(main())

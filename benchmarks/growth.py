"""How time and memory grow, on generated rows (28 features), each size in its own process.

Rows:       seconds of a fit against n, at k = 500, and the exponent of the line through them.
Landmarks:  the same against k, at n = 50 000.
Memory:     the most that the process held (interpreter and data included) against
            ``memory_limit``, among others for 10^6 x 50 rows, k = 1000 and "2GB".

A small fit warms up each process. Seconds are medians over --repeat fits (one from 300 000 rows
on). The exit status is 1 where a target is missed: exponents 1.05 and 1.8, and every limit.
"""

import sys
from statistics import median

import numpy as np

import data
from measure import (
    isolated,
    machine,
    number,
    parser,
    record_table,
    say,
    seconds,
    timed_fit,
    verdicts,
    whole,
    write_csv,
)

ROWS = [10_000, 30_000, 100_000, 300_000, 1_000_000]
ROWS_K = 500
LANDMARKS = [250, 500, 1000, 2000, 4000]
LANDMARKS_N = 50_000
# rows, features, landmarks, memory_limit
LIMITS = [
    (100_000, 28, 1000, "500MB"),
    (100_000, 28, 2000, "1GB"),
    (1_000_000, 28, 500, "1GB"),
    (1_000_000, 50, 1000, "2GB"),
]
MANY_ROWS = 300_000


def fit(n: int, p: int, k: int, memory_limit: str | None, repeat: int) -> dict:
    """Fits of one size in this process."""
    from lasn import LASNClassifier
    from lasn.memory import parse_memory_limit

    X, y, _ = data.generated(n, p)
    X_test, y_test, _ = data.generated(10_000, p, part=1)
    LASNClassifier(n_landmarks=50, random_state=0).fit(X[:2000], y[:2000])
    records = []
    for seed in range(repeat):
        model = LASNClassifier(n_landmarks=k, memory_limit=memory_limit, random_state=seed)
        records.append(timed_fit(model, X, y))
    return {
        "n": n,
        "p": p,
        "k": k,
        "memory_limit": memory_limit or "default",
        "limit_mb": parse_memory_limit(memory_limit) / 1e6,
        "fit_seconds": median(record["fit_seconds"] for record in records),
        "peak_mb": max(record["peak_mb"] for record in records),
        "fit_mb": max(record["fit_mb"] for record in records),
        "iterations": model.n_iter_,
        "accuracy": 100.0 * float(np.mean(model.predict(X_test) == y_test)),
    }


def run(n: int, p: int, k: int, memory_limit, repeat: int, limit: float) -> dict:
    repeat = 1 if n >= MANY_ROWS else repeat
    record = isolated("growth:fit", limit, n=n, p=p, k=k, memory_limit=memory_limit, repeat=repeat)
    if record["status"] != "ok":
        raise SystemExit(f"n={n} k={k} memory_limit={memory_limit}: {record['reason']}")
    say(f"n={n} k={k}: {record['fit_seconds']:.3g} s, {record['peak_mb']:.0f} MB")
    return record


def exponent(sizes: list[int], took: list[float]) -> float:
    """Slope of log seconds against log size."""
    return float(np.polyfit(np.log(sizes), np.log(took), 1)[0])


def growth_table(title: str, key: str, records: list[dict]) -> float:
    sizes, took = [r[key] for r in records], [r["fit_seconds"] for r in records]
    for i in range(1, len(records)):
        records[i]["exponent"] = exponent(sizes[i - 1 : i + 1], took[i - 1 : i + 1])
    columns = {"n": "n", "k": "k", "fit s": ("fit_seconds", seconds)}
    columns |= {"exponent from the row above": ("exponent", number), "iterations": "iterations"}
    columns |= {"accuracy %": ("accuracy", number), "peak MB": ("peak_mb", whole)}
    record_table(title, records, columns | {"limit MB": ("limit_mb", whole)})
    return exponent(sizes, took)


def main() -> int:
    command = parser(__doc__)
    command.add_argument("--rows", nargs="+", type=int, help=f"n at k={ROWS_K}")
    command.add_argument("--landmarks", nargs="+", type=int, help=f"k at n={LANDMARKS_N}")
    command.add_argument("--only", choices=["rows", "landmarks", "memory"], help="one part only")
    command.add_argument("--repeat", type=int, default=3, help="fits a size (default: 3)")
    command.add_argument("--limit", type=float, default=1800.0, help="seconds a size may take")
    command.add_argument("--quick", action="store_true", help="small sizes: a smoke test")
    options = command.parse_args()
    rows = options.rows or ([2000, 8000, 20_000] if options.quick else ROWS)
    landmarks = options.landmarks or ([50, 100, 200] if options.quick else LANDMARKS)
    rows_k, landmarks_n = (100, 5000) if options.quick else (ROWS_K, LANDMARKS_N)
    limits = [(50_000, 28, 300, "300MB")] if options.quick else LIMITS
    print(machine())
    checks, everything = [], []
    if options.only in (None, "rows"):
        records = [run(n, 28, rows_k, None, options.repeat, options.limit) for n in rows]
        slope = growth_table("Seconds against rows", "n", records)
        checks.append((f"exponent in n at k={rows_k}", slope, "<=", 1.05))
        everything += records
    if options.only in (None, "landmarks"):
        records = [run(landmarks_n, 28, k, None, options.repeat, options.limit) for k in landmarks]
        slope = growth_table("Seconds against landmarks", "k", records)
        checks.append((f"exponent in k at n={landmarks_n}", slope, "<=", 1.8))
        everything += records
    if options.only in (None, "memory"):
        records = [run(*case, 1, options.limit) for case in limits]
        columns = {"n": "n", "p": "p", "k": "k", "memory_limit": "memory_limit"}
        columns |= {"peak MB": ("peak_mb", whole), "fit MB": ("fit_mb", whole)}
        columns |= {"fit s": ("fit_seconds", seconds), "accuracy %": ("accuracy", number)}
        record_table("Memory", records, columns)
        everything += records
    checks += [
        (f"peak MB, n={r['n']} k={r['k']}", r["peak_mb"], "<=", r["limit_mb"]) for r in everything
    ]
    write_csv(f"growth{'-quick' if options.quick else ''}", everything)
    return 0 if options.quick else verdicts(checks)


if __name__ == "__main__":
    sys.exit(main())

"""Fits and predictions against the number of threads, on generated rows (28 features).

Each number of threads (``OMP_NUM_THREADS``) has a process of its own, with a small fit to warm up.
Floor, fit and prediction take turns; the table has medians over --repeat and what a single thread
takes over them. The floor is that of floor.py: kernel values and one symmetric product, by whatever
library does them fastest with so many threads.
"""

import os
import sys
from statistics import median

import data
from floor import Floor
from measure import (
    cores,
    isolated,
    machine,
    number,
    parser,
    record_table,
    say,
    seconds,
    settle,
    timed,
    write_csv,
)

CASES = ["50000:500", "400000:500", "200000:1000"]
QUICK_CASES = ["5000:100"]
PARTS = ("floor", "fit", "predict")


def measure(n: int, k: int, repeat: int) -> dict:
    """Floor, fit and prediction, several times over, in this process."""
    from lasn import LASNClassifier

    X, y, _ = data.generated(n)
    floor = Floor(X, k, 1.0 / data.total_variance(X))
    LASNClassifier(n_landmarks=min(k, 100), random_state=0).fit(X[:2000], y[:2000])
    took: dict[str, list[float]] = {part: [] for part in PARTS}
    for seed in range(repeat):
        took["floor"].append(sum(floor.measure()))
        model = LASNClassifier(n_landmarks=k, random_state=seed)
        settle()
        took["fit"].append(timed(model.fit, X, y)[1])
        settle()
        took["predict"].append(timed(model.predict, X)[1])
    return {"n": n, "k": k} | {name: median(times) for name, times in took.items()}


def numbers_of_threads(most: int) -> list[int]:
    """1, 2, 4, ... and the most."""
    return [*(2**i for i in range(most.bit_length()) if 2**i < most), most]


def main() -> int:
    command = parser(__doc__)
    command.add_argument("--cases", nargs="+", help=f"ROWS:K (default: {' '.join(CASES)})")
    command.add_argument("--threads", nargs="+", type=int, help="default: 1, 2, 4, ... all cores")
    command.add_argument("--repeat", type=int, default=3, help="repetitions (default: 3)")
    command.add_argument("--limit", type=float, default=600.0, help="seconds a process may live")
    command.add_argument("--quick", action="store_true", help="small sizes: a smoke test")
    options = command.parse_args()
    print(machine())
    records = []
    for case in options.cases or (QUICK_CASES if options.quick else CASES):
        n, k = map(int, case.split(":"))
        alone: dict[str, float] = {}
        for threads in options.threads or numbers_of_threads(cores()):
            os.environ["OMP_NUM_THREADS"] = str(threads)
            record = isolated("threads:measure", options.limit, n=n, k=k, repeat=options.repeat)
            if record["status"] != "ok":
                raise SystemExit(f"{case} with {threads} threads: {record['reason']}")
            alone = alone or record
            speedups = {f"{part} speed-up": alone[part] / record[part] for part in PARTS}
            records.append({"threads": threads} | record | speedups)
            say(f"{case}, {threads} threads: fit {record['fit']:.3g} s")
    columns = {"n": "n", "k": "k", "threads": "threads"}
    for part in PARTS:
        columns |= {f"{part} s": (part, seconds), f"{part}: speed-up": (f"{part} speed-up", number)}
    record_table("Seconds against threads", records, columns)
    write_csv(f"threads{'-quick' if options.quick else ''}", records)
    return 0


if __name__ == "__main__":
    sys.exit(main())

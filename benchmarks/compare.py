"""LASN against its competitors: time, accuracy, memory, objective, on each data set.

Every fit runs in a fresh process, one at a time, killed when it takes over --limit seconds. Data
are loaded and converted, and a fit on a few hundred rows is made, before the clock starts. All
kernel methods get C = 10 and gamma = 1 / total variance; see benchmarks/peers for the rest.
"over floor" is our fit over what the hardware allows (benchmarks/floor.py), measured right before
and right after the fit, in processes of their own as well; not where --no-floor is given.

Two tables a set:
  all     fit and predict seconds, test accuracy, memory, objective; "ratio" is the competitor's
          fit over the fit of "lasn" at an accuracy no lower than the competitor's (within
          0.1 points), the cheapest such row among the k below; against methods without a kernel,
          of "lasn-smooth" as well;
  same k  Nystroem peers over "lasn" with as many landmarks, and how much higher their objective
          is, relative: where their landmarks differ, both are feasible for the exact problem.

A competitor that is not installed is listed as missing, one that was stopped as over the limit.
Rows go to benchmarks/results/compare-DATA.csv.
"""

import sys
from math import inf
from statistics import mean, median

import numpy as np

import data
import peers
from floor import Floor
from measure import (
    at_most,
    isolated,
    machine,
    number,
    parser,
    record_table,
    say,
    seconds,
    table,
    timed,
    timed_fit,
    whole,
    write_csv,
)

C = 10.0
TOLERATED_POINTS = 0.1
WARM_UP_ROWS = 400
PEER_KS = [200, 1000]
# The ks at which ours is tried beside those of the peers; None is the estimator's own choice.
OUR_KS = {
    "a9a": [None, 50, 100],
    "w8a": [None, 100, 400, 600, 900, 1200, 1500],
    "ijcnn1": [None, 100, 300, 450, 500, 600],
    "mushrooms": [None, 50, 100],
    "letter": [None, 500, 2000, 3000],
    "satimage": [None, 100, 500, 2000],
    "mnist": [None, 500, 2000, 3000, 4000],
    "news20": [None, 500, 2000],
    "madelon": [None, 100, 500],
}
OTHER_KS = [None, 100, 500, 2000]
DATA = [*OUR_KS, "generated-100000"]
QUICK = {"rows": 2000, "peer_ks": [100], "our_ks": [None, 50, 200]}


def contest(
    peer: str, name: str, k: int | None, seed: int, rows: int | None, limit: float | None
) -> dict:
    """One competitor on one data set, in this process."""
    entry = peers.every()[peer]
    X_train, y_train, X_test, y_test = data.load(name, rows)
    settings = {
        "C": C,
        "gamma": 1.0 / data.total_variance(X_train),
        "n_classes": int(y_train.max()) + 1,
        "seed": seed,
    }
    X_train, X_test = entry.convert(X_train), entry.convert(X_test)
    few = _some_of_each_class(y_train)
    small_k = None if k is None else min(k, 50)
    with at_most(limit):
        warm_up = entry.make(k=small_k, n_rows=len(few), **settings)
        warm_up.fit(X_train[few], y_train[few])
        warm_up.predict(X_test[:WARM_UP_ROWS])

    model = entry.make(k=k, n_rows=len(y_train), **settings)
    result = timed_fit(model, X_train, y_train, limit)
    predicted, predict_seconds = timed(model.predict, X_test)
    return result | {
        "predict_seconds": predict_seconds,
        "accuracy": 100.0 * float(np.mean(np.ravel(predicted) == y_test)),
        "landmarks": getattr(model, "n_landmarks_", k),
        "objective": _objective(entry, model, X_train, y_train, settings["n_classes"]),
    }


def describe(name: str, rows: int | None) -> dict:
    X_train, y_train, X_test, _ = data.load(name, rows)
    n_classes = int(y_train.max()) + 1
    n_rows, n_features = X_train.shape
    text = f"{n_rows} x {n_features}, {n_classes} classes, {X_test.shape[0]} test rows"
    if name.startswith("generated-"):
        text += f", Bayes accuracy {100 * data.generated(1)[2]:g} %"
    return {"text": text}


def _some_of_each_class(y) -> np.ndarray:
    classes = np.unique(y)
    share = -(-WARM_UP_ROWS // len(classes))
    return np.concatenate([np.flatnonzero(y == label)[:share] for label in classes])


def floor_of(peer: str, name: str, k: int, rows: int | None) -> dict:
    """Seconds of what a fit on these rows needs at least, in this process: no fit runs in it."""
    X = data.load(name, rows)[0]
    kernel, product = Floor(peers.every()[peer].convert(X), k, 1 / data.total_variance(X)).measure()
    return {"kernel": kernel, "product": product}


def _objective(entry, model, X, y, n_classes: int) -> float | None:
    """1/2 |w|^2 + 1/2 b^2 + C sum_i max(0, 1 - y_i f(x_i))^2, summed over one-vs-rest problems."""
    if entry.coefficients is None:
        return None
    W, b = entry.coefficients(model)
    value = 0.5 * float(np.sum(np.square(W, dtype=float)) + np.sum(np.square(b, dtype=float)))
    positive = [1] if n_classes == 2 else np.arange(n_classes)
    for start in range(0, len(y), 10_000):
        rows = slice(start, start + 10_000)
        scores = np.asarray(model.decision_function(X[rows]), dtype=float)
        signs = np.where(y[rows][:, None] == positive, 1.0, -1.0)
        slack = np.maximum(0.0, 1.0 - signs * scores.reshape(signs.shape))
        value += C * float(np.sum(slack * slack))
    return value


def entries(chosen: list, peer_ks: list, our_ks: list):
    """(peer, k) for every row of the table, ours first."""
    for peer in sorted(chosen, key=lambda peer: not peer.ours):
        ks = peer_ks if peer.uses_k and peer.version else [None]
        if peer.name == "lasn-smooth":
            ks = sorted({100, *peer_ks})
        elif peer.name == "lasn":
            ks = sorted({*peer_ks, *our_ks}, key=lambda k: k or 0)
        yield from ((peer, k) for k in ks)


def run(peer, name: str, k, repeat: int, limit: float, rows, with_floor: bool) -> dict:
    """One row of the table: medians of seconds and means of accuracy over seeds 0, 1, ..."""
    row = {"data": name, "peer": peer.name, "version": peer.version, "k": k, "limit": limit}
    if peer.version is None:
        return row | {"status": "missing", "reason": f"{peer.distribution} is not installed"}
    runs = []
    for seed in range(repeat):
        work = {"peer": peer.name, "name": name, "k": k, "seed": seed, "rows": rows}
        least = _floor(peer, name, k, rows) if with_floor else {}
        runs.append(isolated("compare:contest", 2.0 * limit + 600.0, limit=limit, **work))
        if runs[-1]["status"] == "time-out":
            runs[-1]["reason"] = f"over {limit:g} s"
        if runs[-1]["status"] != "ok":
            return row | runs[-1]
        if with_floor:
            after = _floor(peer, name, runs[-1]["landmarks"], rows)
            runs[-1]["floor_seconds"] = sum(
                min(after[part], least.get(part, inf)) for part in after
            )
    row |= runs[0] | {"repeats": repeat}
    notes = row.pop("warned")
    if k is None and peer.uses_k:
        row["k"] = row["landmarks"]
        notes.append("k by default")
    elif k != row["landmarks"]:
        notes.append(f"{row['landmarks']} distinct landmarks")
    row["note"] = ", ".join(notes)
    for key, summary in (
        ("fit_seconds", median),
        ("predict_seconds", median),
        ("accuracy", mean),
        ("peak_mb", max),
        ("fit_mb", max),
    ):
        row[key] = summary([one[key] for one in runs])
    if "floor_seconds" in row:
        row["floor_ratio"] = median(one["fit_seconds"] / one["floor_seconds"] for one in runs)
        row["floor_seconds"] = median(one["floor_seconds"] for one in runs)
    if row["objective"] is not None:
        row["objective"] = mean([one["objective"] for one in runs])
    return row


def _floor(peer, name: str, k: int | None, rows) -> dict:
    """The floor's parts by name; nothing where k is not known yet."""
    if k is None:
        return {}
    took = isolated("compare:floor_of", peer=peer.name, name=name, k=k, rows=rows)
    if took.pop("status") != "ok":
        raise SystemExit(f"floor, {name} k={k}: {took['reason']}")
    return took


def compare_at_equal_accuracy(rows: list[dict]) -> None:
    """Add to each row which of ours it is measured against, and the ratio."""
    kernel = {peer.name for peer in peers.every().values() if peer.kernel}
    done = [row for row in rows if row["status"] == "ok"]
    for row in rows:
        named = ["lasn"] if row["peer"] in kernel else ["lasn", "lasn-smooth"]
        ours = [our for our in done if our["peer"] in named]
        if row["peer"].startswith("lasn") or not ours:
            continue
        if row["status"] == "time-out":
            best = max(ours, key=lambda our: our["accuracy"])
            row["against_k"] = best["k"]
            row["ratio"] = row["limit"] / best["fit_seconds"]
        elif row["status"] == "ok":
            enough = [our for our in ours if our["accuracy"] >= row["accuracy"] - TOLERATED_POINTS]
            if enough:
                cheapest = min(enough, key=lambda our: our["fit_seconds"])
                smooth = cheapest["peer"] == "lasn-smooth"
                row["against_k"] = f"{cheapest['k']}, smooth" if smooth else cheapest["k"]
                row["ratio"] = row["fit_seconds"] / cheapest["fit_seconds"]


def print_all(name: str, rows: list[dict]) -> None:
    for row in rows:
        if row["status"] != "ok":
            row["note"] = f"{row['status']}: {row['reason']}"[:70]
        ratio = f"{row['ratio']:.1f}" if "ratio" in row else None
        if row["status"] == "time-out" and ratio:
            ratio = f"> {ratio}"
        elif row["status"] == "ok" and ratio is None and not row["peer"].startswith("lasn"):
            ratio = "not reached"
        row["shown_ratio"] = ratio
    columns = {"competitor": "peer", "version": "version", "k": "k"}
    columns |= {"fit s": ("fit_seconds", seconds), "predict s": ("predict_seconds", seconds)}
    columns |= {"accuracy %": ("accuracy", number), "objective": ("objective", "{:.6g}".format)}
    columns |= {"peak MB": ("peak_mb", whole), "fit MB": ("fit_mb", whole)}
    columns |= {"ratio": "shown_ratio", "ours: k": "against_k"}
    columns |= {"over floor": ("floor_ratio", number), "note": "note"}
    record_table(f"{name}: all", rows, columns)


def print_least_ratios(rows: list[dict]) -> None:
    """Where we stand worst, among kernel methods and among the others."""
    kernel = {peer.name for peer in peers.every().values() if peer.kernel}
    print()
    for kind, wanted in (("kernel methods", True), ("others", False)):
        done = [row for row in rows if "ratio" in row and row["status"] == "ok"]
        done = [row for row in done if (row["peer"] in kernel) == wanted]
        if done:
            least = min(done, key=lambda row: row["ratio"])
            at = f" k={least['k']}" if least["k"] else ""
            print(f"least ratio against {kind}: {least['ratio']:.1f} ({least['peer']}{at})")


def print_same_k(name: str, rows: list[dict]) -> None:
    done = [row for row in rows if row["status"] == "ok" and row["k"] is not None]
    ours = {row["k"]: row for row in done if row["peer"] == "lasn"}
    same_rows = {row["k"]: row for row in done if row["peer"] == "lasn-nystroem-rows"}
    lines = []
    for row in done:
        our = ours.get(row["k"])
        if our is None or row["peer"] == "lasn":
            continue
        line = {"peer": row["peer"], "k": row["k"], "fit": row["fit_seconds"]}
        line |= {"ours": our["fit_seconds"], "ratio": row["fit_seconds"] / our["fit_seconds"]}
        line |= {"points": row["accuracy"] - our["accuracy"], "objective": _excess(row, our)}
        if not row["peer"].startswith("lasn"):
            line["same"] = _excess(row, same_rows.get(row["k"]))
        lines.append(line)
    columns = {"competitor": "peer", "k": "k", "fit s": ("fit", seconds)}
    columns |= {"ours: fit s": ("ours", seconds), "ratio": ("ratio", "{:.1f}".format)}
    columns |= {"accuracy minus ours": ("points", "{:+.2f}".format)}
    columns |= {"objective over ours": ("objective", "{:+.1e}".format)}
    columns |= {"over ours on Nystroem's rows": ("same", "{:+.1e}".format)}
    if lines:
        record_table(f"{name}: at the same k", lines, columns)


def _excess(row: dict, reference: dict | None) -> float | None:
    """How much higher a row's objective is, relative."""
    if reference is None or row["objective"] is None:
        return None
    return row["objective"] / reference["objective"] - 1.0


def main() -> int:
    command = parser(__doc__)
    command.add_argument("--data", nargs="+", default=DATA, help=f"default: {' '.join(DATA)}")
    command.add_argument(
        "--peers", nargs="+", default=["*"], help='names or patterns, such as "nystroem-*"'
    )
    command.add_argument(
        "--limit", type=float, default=600.0, help="seconds a fit may take (default: 600)"
    )
    command.add_argument("--repeat", type=int, default=1, help="seeds a row (default: 1)")
    command.add_argument("--peer-k", nargs="+", type=int, help="landmarks of the Nystroem peers")
    command.add_argument("--our-k", nargs="+", type=int, help="further ks for ours")
    command.add_argument("--no-floor", action="store_true", help="do not measure the floor")
    command.add_argument("--quick", action="store_true", help="2000 rows, small k: a smoke test")
    command.add_argument("--list", action="store_true", help="name the competitors and stop")
    options = command.parse_args()
    chosen = peers.chosen(options.peers)
    if options.list:
        header = ["competitor", "version", "rows"]
        table("competitors", header, [[p.name, p.version or "missing", p.rows] for p in chosen])
        return 0
    print(machine())
    for name in options.data:
        few = QUICK["rows"] if options.quick else None
        shape = isolated("compare:describe", name=name, rows=few)  # parsed before anyone waits
        if shape["status"] != "ok":
            raise SystemExit(f"{name}: {shape['reason']}")
        print(f"\n## {name}: {shape['text']}")
        peer_ks = options.peer_k or (QUICK["peer_ks"] if options.quick else PEER_KS)
        our_ks = QUICK["our_ks"] if options.quick else OUR_KS.get(name, OTHER_KS)
        our_ks = options.our_k or our_ks
        rows = []
        for peer, k in entries(chosen, peer_ks, our_ks):
            with_floor = peer.name == "lasn" and not options.no_floor
            rows.append(run(peer, name, k, options.repeat, options.limit, few, with_floor))
            told = rows[-1].get("reason") or f"{rows[-1]['fit_seconds']:.3g} s"
            say(f"{name} {peer.name} k={k}: {rows[-1]['status']}, {told}")
        compare_at_equal_accuracy(rows)
        print_all(name, rows)
        print_least_ratios(rows)
        print_same_k(name, rows)
        write_csv(f"compare-{name}{'-quick' if options.quick else ''}", rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The exact solver on a GPU: seconds, proved gap, accuracy and memory; --quick is a smoke test.

Every fit runs in a fresh process, after one of a few thousand rows, which compiles the fused kernel
and starts CUDA's libraries. Rows are NumPy's float32, so copying them to the device counts. All
fits have C = 10 and gamma = 1 / total variance. With --cpu, the same fit by NumPy on all cores
stands beside that of the device. Target: a relative duality gap of 1e-4; the exit status is 1 where
it is missed. Other sets than those of --data keep their lines in the file of results.
"""

import sys

import data
from measure import (
    isolated,
    machine,
    number,
    parser,
    read_csv,
    record_table,
    say,
    seconds,
    timed,
    timed_fit,
    verdicts,
    whole,
    write_csv,
)

SETS = ["a9a", "w8a", "ijcnn1", "generated-200000", "generated-500000"]
WARM_UP_ROWS = 3000


def fit(name: str, device: str, limit: float, rows: int | None) -> dict:
    """One fit on one set, and a line for each of its iterations."""
    from lasn import LASNClassifier
    from lasn.gamma import resolve_gamma

    X, y, X_test, y_test = (
        part if part.ndim == 1 else data.as_rows(part) for part in data.load(name, rows)
    )
    settings = {"solver": "exact", "gamma": resolve_gamma("variance", X), "random_state": 0}
    warm_up = LASNClassifier(device=device, dtype="float32", tol=0.1, **settings)
    warm_up.fit(X[:WARM_UP_ROWS], y[:WARM_UP_ROWS])
    model = LASNClassifier(device=device, **settings)
    on_gpu = device.startswith("cuda")
    if on_gpu:
        import torch

        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
    result = timed_fit(model, X, y, limit)
    result |= {"device_gb": torch.cuda.max_memory_allocated(device) / 1e9 if on_gpu else None}
    accuracy, took = timed(model.score, X_test, y_test)
    last = model.history_[-1]
    return result | {
        "rows": X.shape[0],
        "support_vectors": model.n_landmarks_,
        "n_iter": model.n_iter_,
        "cg_steps": sum(record["cg_steps"] for record in model.history_),
        "relative_gap": last["relative_gap"],
        "dtype": str(model._dtype),
        "accuracy": 100.0 * accuracy,
        "predict_seconds": took,
        **{f"{stage}_seconds": took for stage, took in model.stage_seconds_.items()},
        "history": [
            f"{r['rows']:>8} {r['active_rows']:>8} {r['cg_steps']:>4} {r['step_length']:.2f} "
            f"{r['relative_gap']:.1e} {r['value']:.6g} {r['seconds']:.3f}"
            for r in model.history_
        ],
    }


def describe(device: str) -> str:
    if not device.startswith("cuda"):
        return f"device {device}"
    import torch

    gigabytes = torch.cuda.get_device_properties(device).total_memory / 1e9
    return f"torch {torch.__version__}, {torch.cuda.get_device_name(device)}, {gigabytes:.0f} GB"


def main() -> int:
    command = parser(__doc__)
    command.add_argument("--device", default="cuda")
    command.add_argument("--data", nargs="+", default=SETS, help="sets, or generated-N for N rows")
    command.add_argument("--cpu", nargs="*", default=[], help="those that the CPU fits, too")
    command.add_argument("--limit", type=float, default=600.0, help="seconds a fit may take")
    command.add_argument("--quick", action="store_true", help="3000 rows: a smoke test")
    options = command.parse_args()
    rows = WARM_UP_ROWS if options.quick else None
    print(f"{machine()}\n{describe(options.device)}")
    everything, checks = [], []
    for name in options.data:
        for device in [options.device] + ["cpu"] * (name in options.cpu):
            work = {"name": name, "device": device, "limit": options.limit, "rows": rows}
            record = {"data": name, "device": device} | isolated("exact_gpu:fit", **work)
            say(f"{name} on {device}: {record['status']} {record.get('reason', '')}")
            if "history" in record:
                print(f"\n{name} on {device}: U, active, CG steps, step, gap, value, seconds")
                print("\n".join(record.pop("history")), flush=True)
            gap = record.get("relative_gap", float("inf"))
            checks.append((f"{name} on {device}, relative gap", gap, "<=", 1e-4))
            everything.append(record)
    columns = {"data": "data", "device": "device", "rows": "rows"}
    columns |= {"support vectors": "support_vectors", "iterations": "n_iter", "dtype": "dtype"}
    columns |= {"fit s": ("fit_seconds", seconds), "nystroem s": ("nystroem_seconds", seconds)}
    columns |= {"relative gap": ("relative_gap", "{:.1e}".format)}
    columns |= {"accuracy %": ("accuracy", number), "predict s": ("predict_seconds", seconds)}
    columns |= {"device GB": ("device_gb", number), "host MB": ("peak_mb", whole)}
    record_table("The exact solver", everything, columns | {"note": "reason"})
    results = f"exact_gpu{'-quick' if rows else ''}"
    others = [one for one in read_csv(results) if one["data"] not in options.data]
    write_csv(results, others + everything)
    return 0 if options.quick else verdicts(checks)


if __name__ == "__main__":
    sys.exit(main())

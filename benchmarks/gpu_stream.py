"""Rows for which a GPU has no room, all in one call; --quick is a smoke test for any device.

A ballast tensor leaves --room GB of the GPU's memory to fits of more rows than that.

Copies:   from pinned memory to the GPU, the ceiling; through the buffers of ``torch_stream.py``.
Overlap:  one pass over all rows, K v and K^T u: its copies alone, its products alone (over rows
          that are there), both together.
Fits:     rows on the GPU; in the host's memory; in a file on disk that is mapped into memory.
          The first fit to the file reads it from disk: "other" has the look at all its values
          that comes first. Seconds by stage, bytes copied, peak of the GPU's memory, the
          objective against that of the rows on the GPU.
Shortage: another process takes what is left of the GPU's memory in the midst of a fit: it goes on
          with smaller blocks, says so, and ends with the same model.
"""

import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from time import perf_counter

import numpy as np
import torch

from gpu import N_FEATURES, describe, empty, fit, generated, say_error, timed
from lasn import torch_blocks, torch_rows
from lasn.callbacks import observing
from lasn.kernels import Kernel
from lasn.torch_stream import HostRows, _Way
from measure import machine, number, parser, record_table, seconds, verdicts

# Another process, which takes bytes of the GPU when it is told how many.
THIEF = """
import sys, torch
torch.zeros(1, device="cuda")
print("ready", flush=True)
for line in sys.stdin:
    taken = torch.empty(int(line), dtype=torch.uint8, device="cuda")
    print("taken", flush=True)
"""


def main() -> int:
    command = parser(__doc__)
    command.add_argument("--device", default="cuda")
    command.add_argument("--rows", type=int, default=45_000_000)
    command.add_argument("--landmarks", type=int, default=1024)
    command.add_argument("--room", type=float, default=4.0, help="GB of the GPU left to fits")
    command.add_argument("--folder", default=None, help="for the file of rows")
    command.add_argument("--details", help="file for tracebacks")
    command.add_argument("--quick", action="store_true", help="small sizes: a smoke test")
    options = command.parse_args()
    options.torch_device = torch.device("cpu" if options.device == "torch" else options.device)
    options.on_gpu = options.torch_device.type == "cuda"
    if options.quick:
        options.rows, options.landmarks, options.room = 60_000, 128, 0.2
    print(machine())
    print(f"torch {torch.__version__}, {describe(options.device)}")
    options.X, options.y = host_rows(options)
    print(f"{options.rows} rows, {options.X.nbytes / 1e9:.2f} GB; room for {options.room} GB")
    options.checks, n_missed = [], 0
    for part in (measure_copies, measure_overlap, measure_fits, survive_shortage):
        began = perf_counter()
        try:
            part(options)
        except Exception:
            say_error(options, part.__name__)
            n_missed += 1
        empty(options)
        print(f"({part.__name__}: {perf_counter() - began:.1f} s)", flush=True)
    if not options.quick:
        n_missed += verdicts(options.checks)
    return min(n_missed, 1)


def host_rows(options) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the generator of ``data.py``, in the host's memory."""
    X = np.empty((options.rows, N_FEATURES), dtype=np.float32)
    y = np.empty(options.rows, dtype=np.int64)
    for part, start in enumerate(range(0, options.rows, 5_000_000)):
        some = slice(start, min(start + 5_000_000, options.rows))
        rows, labels = generated(some.stop - some.start, options.torch_device, part)
        X[some], y[some] = rows.cpu().numpy(), labels.cpu().numpy()
    return X, y


class Ballast:
    """A tensor that leaves only some GB of the GPU free, as long as it is there."""

    def __init__(self, options):
        self.tensor = None
        if options.on_gpu:
            empty(options)
            free, _ = torch.cuda.mem_get_info()
            size = int(free - 1e9 * options.room)
            self.tensor = torch.empty(size, dtype=torch.uint8, device=options.torch_device)
        else:  # as if the CPU were full
            self.share, torch_rows.ROWS_SHARE = torch_rows.ROWS_SHARE, 1e-9

    def __enter__(self):
        return self.tensor.nbytes if self.tensor is not None else 0

    def __exit__(self, *error):
        if self.tensor is None:
            torch_rows.ROWS_SHARE = self.share
        self.tensor = None


def measure_copies(options) -> None:
    size = min(1 << 30, options.X.nbytes)
    pinned = torch.empty(size, dtype=torch.uint8, pin_memory=options.on_gpu)
    target = torch.empty(size, dtype=torch.uint8, device=options.torch_device)
    options.ceiling = size / timed(options, lambda: target.copy_(pinned, non_blocking=True))
    plain = torch.empty(size, dtype=torch.uint8).fill_(1)
    pageable = size / timed(options, lambda: target.copy_(plain))
    print(
        f"\ncopies to the device: {options.ceiling / 1e9:.1f} GB/s from pinned memory, "
        f"{pageable / 1e9:.1f} from any, as torch copies"
    )


class RowsThatAreThere:
    """What HostRows would bring, without a copy: the same rows for each slice."""

    def __init__(self, X: torch.Tensor, n_rows: int):
        self.X, self.shape, self.dtype = X, (n_rows, X.shape[1]), X.dtype

    def __getitem__(self, rows: slice) -> torch.Tensor:
        start, stop, _ = rows.indices(self.shape[0])
        return self.X[: stop - start]


def measure_overlap(options) -> None:
    """One pass, as those of a gradient: nothing is kept, and every row is copied."""
    device, kept = options.torch_device, torch_blocks._KEPT_OF_HOST
    X = torch.from_numpy(options.X)
    landmarks = X[: options.landmarks].to(device)
    columns = Kernel("rbf", gamma=0.2).against(landmarks, np.float32)
    v = np.random.default_rng(0).standard_normal((options.landmarks, 1))

    def read(block, v):
        K = block.matrix()
        return None, (K.T @ (K @ v.to(torch.float32)),)

    with Ballast(options):
        torch_blocks._KEPT_OF_HOST = 0.0
        try:
            budget = torch_blocks.device_memory(device, None)
            if options.quick:
                budget = 64 << 20
            host = HostRows(X, device)
            streaming = torch_blocks.TorchBlocks(host, columns, np.float32, budget, 1, device)
            size = streaming.slices[0].stop
            there = RowsThatAreThere(X[:size].to(device), len(X))
            resident = torch_blocks.TorchBlocks(there, columns, np.float32, budget, 1, device)

            def copy() -> None:
                for part in streaming.slices:
                    host[part]

            before = host.way.bytes_copied
            copy()
            copied = host.way.bytes_copied - before
            copies = timed(options, copy, repeat=3)
            products = timed(options, lambda: resident.run(read, shared=(v,)), repeat=3)
            both = timed(options, lambda: streaming.run(read, shared=(v,)), repeat=3)
        finally:
            torch_blocks._KEPT_OF_HOST = kept
    longer, rate = max(copies, products), copied / copies
    print(
        f"\na pass in {len(streaming.slices)} blocks: {copied / 1e9:.2f} GB copied; copies alone "
        f"{copies:.3f} s ({rate / 1e9:.1f} GB/s, {100 * rate / options.ceiling:.0f} % of pinned "
        f"copies), products alone {products:.3f} s, both {both:.3f} s, {both / longer:.2f} times "
        "the longer"
    )
    options.checks.append(
        ("a pass over the longer of copies and products", both / longer, "<=", 1.2)
    )
    options.checks.append(
        ("copies over those from pinned memory", copied / copies / options.ceiling, ">=", 0.6)
    )


def counted_fit(options, X, y, **settings) -> dict:
    """A fit, its stages, the bytes that it copied, and the peak of the GPU's memory."""
    copied = []
    copy = _Way._copy

    def counting(self, *arguments):
        out = copy(self, *arguments)
        copied.append(out[0].nbytes)
        return out

    _Way._copy = counting
    empty(options)
    held = torch.cuda.memory_allocated() if options.on_gpu else 0
    try:
        model, took, stages = fit(options, X, y, options.landmarks, tol=1e-4, **settings)
    finally:
        _Way._copy = copy
    peak = torch.cuda.max_memory_allocated() - held if options.on_gpu else 0
    return {
        "model": model,
        "fit": took,
        **stages,
        "other": took - sum(stages.values()),
        "products": sum(r["cg_steps"] for r in model.history_),
        "copied": sum(copied) / 1e9,
        "value": model.history_[-1]["value"],
        "peak": peak / 1e9,
    }


def measure_fits(options) -> None:
    limit = {"memory_limit": "50MB"} if options.quick else {}
    X, y = options.X, options.y
    fit(options, X[: options.rows // 50], y[: options.rows // 50], options.landmarks)
    records = [{"rows": "on the GPU", **counted_fit(options, X, y)}]
    landmarks = {"landmarks": records[0]["model"].landmarks_}
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "rows.npy"
        np.save(path, X)
        forget(path)
        in_file = np.load(path, mmap_mode="r")
        for name, rows in (("in memory", X), ("in a file", in_file), ("again", in_file)):
            with Ballast(options):
                records.append({"rows": name, **counted_fit(options, rows, y, **limit)})
        with Ballast(options):
            same = counted_fit(options, X, y, **limit, **landmarks)
        records.append({"rows": "in memory, the first's landmarks", **same})
        del in_file
    options.reference = same
    columns = {"rows": "rows", "fit s": ("fit", seconds)}
    columns |= {f"{name} s": (name, seconds) for name in ("landmarks", "map", "solve", "other")}
    columns |= {"CG products": "products", "GB copied": ("copied", number)}
    columns |= {"objective": ("value", lambda value: f"{value:.8g}"), "peak GB": ("peak", number)}
    record_table(f"Fits, k = {options.landmarks}, tol = 1e-4", records, columns)
    off = abs(same["value"] / records[0]["value"] - 1.0)
    sample = X[:1_000_000]
    agree = float(np.mean(same["model"].predict(sample) == records[0]["model"].predict(sample)))
    print(f"\nsame landmarks: objectives {off:.1e} apart, labels agree for {100 * agree:.3f} %")
    options.checks.append(("objective against that of rows on the GPU", off, "<=", 1e-4))
    options.checks.append(("labels as with rows on the GPU", agree, ">=", 0.999))
    if options.on_gpu:
        peak = max(record["peak"] for record in records[1:])
        options.checks.append(("GB that streaming fits took", peak, "<=", options.room))


def forget(path: Path) -> None:
    """Let the next reading of a file come from the disk, where the system can be told so."""
    if hasattr(os, "posix_fadvise"):
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class Strike:
    """An observer that lets the other process take all but a little after the first iteration."""

    def __init__(self, options, thief):
        self.options, self.thief, self.taken = options, thief, 0

    def stage(self, name: str) -> None:
        pass

    def iteration(self, n: int, record: dict, model) -> None:
        if self.taken:
            return
        torch.cuda.empty_cache()
        free, _ = torch.cuda.mem_get_info()
        self.taken = int(free - (100 << 20))
        self.thief.stdin.write(f"{self.taken}\n")
        self.thief.stdin.flush()
        self.thief.stdout.readline()


def survive_shortage(options) -> None:
    if not options.on_gpu:
        print("\nno GPU, no shortage: tests/test_device_memory.py has errors that say the same")
        return
    model = options.reference["model"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", THIEF], **pipes) as thief:
        try:
            thief.stdout.readline()
            with Ballast(options), warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                strike = Strike(options, thief)
                with observing(strike):
                    found = counted_fit(options, options.X, options.y, landmarks=model.landmarks_)
        finally:
            thief.kill()
    said = [str(w.message) for w in caught if "ran out of memory" in str(w.message)]
    off = abs(found["value"] / options.reference["value"] - 1.0)
    print(
        f"\nanother process took {strike.taken / 1e9:.2f} GB after the first iteration: fit "
        f"{found['fit']:.2f} s, objective {off:.1e} from the undisturbed one; it said:"
    )
    for text in said:
        print(f"  {text}")
    options.checks.append(("times that a shortage was told", len(said), ">=", 1))
    options.checks.append(("objective after a shortage", off, "<=", 1e-4))


if __name__ == "__main__":
    sys.exit(main())

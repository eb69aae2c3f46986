"""What every benchmark needs: fresh processes, memory, clocks, tables, files of results.

``isolated("module:function", lifetime, **arguments)`` runs a function of this folder in a process
of its own and returns the mapping that the function returned, with ``status`` added: "ok",
"missing" (an import failed), "time-out", "error" (the last three with ``reason``). The process
is killed after ``lifetime`` seconds, and earlier where the function sets a limit to a part of its
work by ``at_most``. Nothing runs beside it, unless ``side_by_side`` says so.

Files of results are in the folder ``results``, or in the one that ``LASN_BENCH_RESULTS`` names.
"""

import argparse
import csv
import hashlib
import importlib
import importlib.metadata
import json
import os
import platform
import resource
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from time import perf_counter, process_time, sleep

HERE = Path(__file__).resolve().parent
RESULTS = Path(os.environ.get("LASN_BENCH_RESULTS") or HERE / "results").resolve()


def isolated(target: str, lifetime: float | None = None, **arguments) -> dict:
    """Run ``module:function`` with these arguments (JSON values) in a fresh process."""
    with tempfile.TemporaryDirectory() as folder:
        answer, log = Path(folder) / "answer.json", Path(folder) / "log"
        command = [sys.executable, __file__, target, json.dumps(arguments), str(answer)]
        with open(log, "wb") as output:
            child = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, cwd=HERE, start_new_session=True
            )
            try:
                code = child.wait(lifetime)
            except subprocess.TimeoutExpired:
                return {"status": "time-out", "reason": f"process over {lifetime:g} s"}
            finally:
                if child.poll() is None:
                    os.killpg(child.pid, signal.SIGKILL)
                    child.wait()
        if answer.exists():
            return json.loads(answer.read_text())
        if code == -signal.SIGALRM:
            return {"status": "time-out", "reason": "over the limit"}
        said = log.read_text(errors="replace").strip().splitlines()
        how = f"signal {-code}" if code < 0 else f"exit status {code}"
        return {"status": "error", "reason": f"{how}: {said[-1] if said else 'no output'}"}


def side_by_side(tasks: Iterable[Callable[[], None]], jobs: int) -> None:
    """Call the tasks, each of which waits for a process of its own, so many at a time.

    What they time by the processor's clock on one thread each is then slowed by shared caches
    only, for everyone alike.
    """
    with ThreadPoolExecutor(jobs) as pool:
        for task in [pool.submit(task) for task in tasks]:
            task.result()


def _answer(target: str, arguments: dict, path: str) -> None:
    """The other side of ``isolated``."""
    module, function = target.split(":")
    try:
        result = getattr(importlib.import_module(module), function)(**arguments)
        result = {"status": "ok"} | result
    except ImportError as error:
        result = {"status": "missing", "reason": str(error)}
    except (Exception, MemoryError) as error:
        result = {"status": "error", "reason": f"{type(error).__name__}: {error}"}
    Path(path).write_text(json.dumps(result))


@contextmanager
def at_most(limit: float | None):
    """Let this process be killed if the work inside takes longer, in whatever code it is."""
    signal.setitimer(signal.ITIMER_REAL, limit or 0.0)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0.0)


def timed(function, *arguments):
    """The function's result and its seconds."""
    start = perf_counter()
    result = function(*arguments)
    return result, perf_counter() - start


def settle() -> None:
    """Let idle threads fall asleep, and cores wake up, before something is measured.

    Threads of BLAS and OpenMP look for more work for some 20 ms after they had some, on cores that
    whatever comes next would have for itself. Cores without work slow down, and a virtual machine's
    are lent to others; what comes next would pay for their return, 10 to 40 ms.
    """
    sleep(0.1)
    with ThreadPoolExecutor(cores()) as pool:
        list(pool.map(_keep_busy, [0.05] * cores()))


def _keep_busy(seconds: float) -> None:
    """Use one core; hashing lets others have Python's lock."""
    end, data = perf_counter() + seconds, bytes(1 << 16)
    while perf_counter() < end:
        hashlib.sha256(data)


def measured(function, *arguments):
    """The same; on one core the seconds of the processor, which other processes lengthen little."""
    start = process_time()
    result, took = timed(function, *arguments)
    return result, process_time() - start if cores() == 1 else took


def timed_fit(model, X, y, limit: float | None = None) -> dict:
    """Fit, and say how long it took, how much memory, and what it warned of.

    ``peak_mb`` is the most that the process held during the fit, data and interpreter included;
    ``fit_mb`` is that less what it held before.
    """
    settle()
    reset_peak_memory()
    before = resident_memory()
    with warnings.catch_warnings(record=True) as caught, at_most(limit):
        warnings.simplefilter("always")
        _, seconds = timed(model.fit, X, y)
    peak = peak_memory()
    return {
        "fit_seconds": seconds,
        "peak_mb": peak / 1e6,
        "fit_mb": max(0.0, peak - before) / 1e6,
        "warned": sorted({w.category.__name__ for w in caught if _tells(w)}),
    }


def _tells(warning) -> bool:
    """A warning about the fit, not about somebody's use of somebody's interface."""
    ignored = (DeprecationWarning, FutureWarning, PendingDeprecationWarning, ResourceWarning)
    return not issubclass(warning.category, ignored)


def peak_memory() -> int:
    """The most bytes that this process has held since ``reset_peak_memory``.

    On Linux from /proc: unlike ru_maxrss it does not begin with the parent's and can be reset.
    """
    peak = _proc_status("VmHWM")
    if peak is not None:
        return peak
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def resident_memory() -> int:
    """Bytes that this process holds now (its peak, where the system does not tell)."""
    now = _proc_status("VmRSS")
    return peak_memory() if now is None else now


def reset_peak_memory() -> None:
    with suppress(OSError):  # where this fails, the peak is that of the whole process so far
        Path("/proc/self/clear_refs").write_text("5")


def _proc_status(field: str) -> int | None:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(field)), None)


def cores() -> int:
    """How many threads a competitor may use: all, or what ``OMP_NUM_THREADS`` says."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(int(os.environ.get("OMP_NUM_THREADS") or usable), usable)


def version(distribution: str) -> str | None:
    """The installed version, None where it is missing."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def machine() -> str:
    """One line about where this runs."""
    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    except (OSError, StopIteration, ValueError):
        memory = float("nan")
    packages = ("lasn", "numpy", "scipy", "scikit-learn")
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    return (
        f"{model}, {cores()} threads, {memory:.0f} GB; {platform.system()}, "
        f"Python {platform.python_version()}, {versions}, {blas()}"
    )


def blas() -> str:
    """Whose matrix products NumPy has, and for which processor (``OPENBLAS_CORETYPE`` may say)."""
    import numpy  # noqa: F401  which loads its BLAS
    from threadpoolctl import threadpool_info

    found = [library for library in threadpool_info() if library["user_api"] == "blas"]
    names = {f"{one['internal_api']} for {one.get('architecture', '?')}" for one in found}
    return ", ".join(sorted(names)) or "BLAS unknown"


def record_table(title: str, records: list[dict], columns: dict) -> None:
    """A table of records; columns map a heading to a key, or to (key, format)."""
    pairs = [spec if isinstance(spec, tuple) else (spec, str) for spec in columns.values()]
    values = [[(record.get(key), form) for key, form in pairs] for record in records]
    table(
        title, list(columns), [[v if v is None else form(v) for v, form in row] for row in values]
    )


def table(title: str, header: list[str], rows: list[list]) -> None:
    """Print a Markdown table with aligned columns; None is a dash."""
    cells = [header] + [["–" if cell is None else str(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    # Text to the left, numbers to the right.
    columns = [[row[i] for row in cells[1:] if row[i] != "–"] for i in range(len(header))]
    right = [sum(map(_is_number, column)) > len(column) / 2 for column in columns]

    def line(row):
        aligned = [
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(row, widths, right, strict=True)
        ]
        return "| " + " | ".join(aligned) + " |"

    rule = ["-" * (width - 1) + (":" if right[i] else "-") for i, width in enumerate(widths)]
    print(f"\n### {title}\n")
    print("\n".join([line(cells[0]), line(rule), *map(line, cells[1:])]), flush=True)


def _is_number(text: str) -> bool:
    try:
        float(text.lstrip("<> "))
    except ValueError:
        return False
    return True


def number(value: float) -> str:
    return f"{value:.2f}"


def whole(value: float) -> str:
    return f"{value:.0f}"


def seconds(value: float) -> str:
    """Three figures."""
    return whole(value) if value >= 100 else f"{value:.3g}" if value >= 1e-3 else f"{value:.1e}"


def say(text: str) -> None:
    """Progress, beside the tables."""
    print(text, file=sys.stderr, flush=True)


def write_csv(name: str, records: list[dict]) -> None:
    """Write records (not all with the same keys) to ``NAME.csv`` in the folder of results."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    keys = list(dict.fromkeys(key for record in records for key in record))
    path = RESULTS / f"{name}.csv"
    partial = path.with_suffix(f".{os.getpid()}")
    with open(partial, "w", newline="") as file:
        writer = csv.DictWriter(file, keys)
        writer.writeheader()
        writer.writerows(records)
    partial.replace(path)
    say(f"wrote {os.path.relpath(path, HERE.parent)}")


def read_csv(name: str) -> list[dict]:
    """The records of ``results/NAME.csv``, numbers as numbers and without empty cells."""
    path = RESULTS / f"{name}.csv"
    if not path.exists():
        return []
    with open(path, newline="") as file:
        return [
            {key: _value(text) for key, text in record.items() if text != ""}
            for record in csv.DictReader(file)
        ]


def _value(text: str) -> int | float | str:
    try:
        return int(text)
    except ValueError:
        return float(text) if _is_number(text) else text


def parser(doc: str) -> argparse.ArgumentParser:
    """A command line whose help is the script's docstring."""
    return argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def verdicts(checks: list[tuple[str, float, str, float]]) -> int:
    """Print (what, measured, "<=" or ">=", target) lines; exit status 1 if one is missed."""
    missed = 0
    print()
    for what, measured, relation, target in checks:
        met = measured <= target if relation == "<=" else measured >= target
        missed += not met
        print(f"{'met   ' if met else 'MISSED'} {what}: {measured:.4g} {relation} {target:g}")
    return int(missed > 0)


if __name__ == "__main__":
    _answer(sys.argv[1], json.loads(sys.argv[2]), sys.argv[3])

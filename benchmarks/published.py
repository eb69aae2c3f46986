"""What README and documentation show of the results: tables from ``results/``, nothing typed.

A table is a header and rows of text, ready for Markdown. Seconds, accuracies and memory come from
the files that the scripts of this folder wrote; a file that is not there gives no table.
"""

import csv
import re
from dataclasses import dataclass
from functools import cache

from lasn.datasets import dataset
from measure import RESULTS, number, seconds, whole

# The sets of the first page, and how far below SVC's accuracy LASN's k may stay there.
FIRST_PAGE = ("a9a", "ijcnn1", "w8a")
TOLERATED_POINTS = 0.1

NAMES = {
    "svc": "scikit-learn `SVC`",
    "sklearnex-svc": "Intel's `SVC` (sklearnex)",
    "sklearnex-svc-float32": "Intel's `SVC` (sklearnex), float32",
    "nystroem-linearsvc-primal": "`Nystroem` + `LinearSVC(dual=False)`",
    "nystroem-linearsvc-dual": "`Nystroem` + `LinearSVC(dual=True)`",
    "nystroem-cyanure": "`Nystroem` + cyanure",
    "nystroem-snapml": "`Nystroem` + snapml",
    "nystroem-sgd": "`Nystroem` + `SGDClassifier`",
    "nystroem-l1": '`Nystroem` + `LinearSVC(loss="hinge")`',
    "nystroem-liblinear": "`Nystroem` + LIBLINEAR",
    "thundersvm": "ThunderSVM (CPU)",
    "falkon": "Falkon",
    "lightgbm": "LightGBM",
    "xgboost": "XGBoost",
    "hist-gradient-boosting": "`HistGradientBoostingClassifier`",
    "lasn": "**LASN**",
    "lasn-exact": '**LASN**, `solver="exact"`',
    "lasn-nystroem-rows": "LASN on `Nystroem`'s rows",
    "sklearnex": "Intel's `SVC` (sklearnex)",
}
FIRST_PAGE_PEERS = (
    ("svc", None),
    ("sklearnex-svc-float32", None),
    ("nystroem-linearsvc-primal", 1000),
    ("nystroem-cyanure", 1000),
    ("nystroem-cyanure", 200),
    ("lightgbm", None),
)
TREES = {"lightgbm", "xgboost", "hist-gradient-boosting"}


@dataclass(frozen=True)
class Published:
    """A table, with a mark for columns of numbers."""

    header: list[str]
    rows: list[list[str]]

    def markdown(self) -> str:
        numeric = [
            bool(self.rows) and all(_is_number(cell) for cell in column)
            for column in zip(*self.rows, strict=True)
        ]
        rule = ["---:" if right else "---" for right in numeric]
        return "\n".join(f"| {' | '.join(cells)} |" for cells in (self.header, rule, *self.rows))


def _is_number(text: str) -> bool:
    return bool(re.fullmatch(r"[-+<> 0-9.e%×–]+", text))


@cache
def records(name: str) -> tuple[dict, ...]:
    """The rows of ``results/NAME.csv``; none if that was not measured."""
    path = RESULTS / f"{name}.csv"
    if not path.exists():
        return ()
    with open(path, newline="") as file:
        return tuple(csv.DictReader(file))


def compared_sets() -> list[str]:
    """Data sets that competitors were measured on, those of the first page first."""
    found = {path.stem.removeprefix("compare-") for path in RESULTS.glob("compare-*.csv")}
    found = {name for name in found if not name.endswith("-quick")}
    return [name for name in FIRST_PAGE if name in found] + sorted(found - set(FIRST_PAGE))


def rows_of(name: str) -> str:
    """``"32 561 rows"`` for the training rows of a set of the LIBSVM site."""
    try:
        count = dataset(name).train.rows
    except ValueError:  # generated data has its size in its name
        return name
    return f"{count:,}".replace(",", " ") + " rows"


def entry(name: str, peer: str, k: int | None = None) -> dict | None:
    """A competitor's row, at k landmarks where it has any."""
    found = [row for row in records(f"compare-{name}") if row["peer"] == peer]
    found = [row for row in found if k is None or row["k"] == str(k)]
    return found[0] if found else None


def at_default(name: str) -> dict | None:
    """Ours with the k that it takes by itself."""
    ours = [row for row in records(f"compare-{name}") if row["peer"] == "lasn"]
    return next((row for row in ours if "k by default" in (row["note"] or "")), None)


def as_good_as_svc(name: str) -> dict | None:
    """Our cheapest row within ``TOLERATED_POINTS`` of SVC's accuracy; our best without any."""
    ours = [
        row for row in records(f"compare-{name}") if row["peer"] == "lasn" and row["status"] == "ok"
    ]
    svc = entry(name, "svc")
    if not ours:
        return None
    if svc is None or svc["status"] != "ok":
        return max(ours, key=lambda row: float(row["accuracy"]))
    wanted = float(svc["accuracy"]) - TOLERATED_POINTS
    enough = [row for row in ours if float(row["accuracy"]) >= wanted]
    if not enough:
        return max(ours, key=lambda row: float(row["accuracy"]))
    return min(enough, key=lambda row: float(row["fit_seconds"]))


def first_page() -> Published:
    """Seconds and accuracy of LASN and the competitors that people have, on three sets."""
    header = ["fit seconds, test accuracy", *(f"{name}, {rows_of(name)}" for name in FIRST_PAGE)]
    lines = [
        ["**LASN**, its default k", *(_cell(at_default(name), ours=True) for name in FIRST_PAGE)],
        [
            f"**LASN**, the k that reaches `SVC`'s accuracy (−{TOLERATED_POINTS:g})",
            *(_cell(as_good_as_svc(name), ours=True, k=True) for name in FIRST_PAGE),
        ],
    ]
    for peer, k in FIRST_PAGE_PEERS:
        title = NAMES[peer].replace("`Nystroem`", f"`Nystroem({k})`")
        title += " (trees)" if peer in TREES else ""
        lines.append([title, *(_cell(entry(name, peer, k)) for name in FIRST_PAGE)])
    return Published(header, lines)


def _cell(row: dict | None, ours: bool = False, k: bool = False) -> str:
    if row is None or row["status"] == "missing":
        return "–"
    if row["status"] == "time-out":
        return f"> {float(row['limit']):g} s"
    if row["status"] != "ok":
        return row["status"]
    took = f"{_brief(float(row['fit_seconds']))} s"
    took = f"**{took}**" if ours else took
    return f"{took}, {float(row['accuracy']):.2f} %" + (f", k = {row['k']}" if k else "")


def _brief(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def competitors(name: str) -> Published:
    """Everything that was measured on one set; "over ours" is at equal accuracy."""
    header = ["", "k", "fit s", "predict s", "accuracy %", "peak MB", "times ours", "ours: k"]
    lines = []
    for row in records(f"compare-{name}"):
        line = [NAMES.get(row["peer"], row["peer"]), row["k"] or "–"]
        if row["status"] == "ok":
            line += [seconds(float(row[key])) for key in ("fit_seconds", "predict_seconds")]
            line += [number(float(row["accuracy"])), whole(float(row["peak_mb"]))]
        else:
            shown = f"> {float(row['limit']):g}" if row["status"] == "time-out" else row["status"]
            line += [shown, "–", "–", "–"]
        lines.append([*line, row.get("shown_ratio") or "–", row.get("against_k") or "–"])
    return Published(header, lines)


def simple(name: str, columns: dict) -> Published | None:
    """A file's rows under other headings: ``{heading: key}`` or ``{heading: (key, format)}``."""
    lines = []
    for row in records(name):
        line = []
        for wanted in columns.values():
            key, form = wanted if isinstance(wanted, tuple) else (wanted, None)
            value = row.get(key) or ""
            if form is not None and value:
                value = form(float(value))
            line.append(NAMES.get(value, value) or "–")
        lines.append(line)
    return Published(list(columns), lines) if lines else None


def percent(value: float) -> str:
    return f"{100.0 * value:.2g} %"


def times(value: float) -> str:
    return f"{value:.1f}"


SIMPLE = {
    "exact": {
        "data": "data", "": "peer", "fit s": ("fit_seconds", seconds),
        "predict s": ("predict_seconds", seconds), "accuracy %": ("accuracy", number),
        "support vectors": "support_vectors", "Newton iterations": "n_iter",
        "relative gap": ("relative_gap", "{:.1e}".format), "peak MB": ("peak_mb", whole),
    },
    "floor": {
        "data": "data", "rows": "n", "k": "k", "floor s": ("floor", seconds),
        "fit s": ("fit", seconds), "fit / floor": ("ratio", times),
        "landmarks s": ("stage landmarks", seconds), "map s": ("stage map", seconds),
        "solve s": ("stage solve", seconds), "iterations": "iterations",
        "accuracy %": ("accuracy", number),
    },
    "threads": {
        "rows": "n", "k": "k", "threads": "threads",
        "floor s": ("floor", seconds), "floor: speed-up": ("floor speed-up", number),
        "fit s": ("fit", seconds), "fit: speed-up": ("fit speed-up", number),
        "predict s": ("predict", seconds), "predict: speed-up": ("predict speed-up", number),
    },
    "growth": {
        "rows": "n", "features": "p", "k": "k", "`memory_limit`": "memory_limit",
        "peak MB": ("peak_mb", whole), "fit s": ("fit_seconds", seconds),
        "accuracy %": ("accuracy", number),
    },
    "elsewhere": {
        "rows": "rows", "number": "n", "fit s": ("fit_seconds", seconds),
        "rows/s": ("rows_a_second", whole), "peak MB": ("peak_mb", whole),
        "accuracy %": ("accuracy", number), "passes": ("passes", number),
        "MB moved": ("mb_moved", number),
    },
    "accuracy": {
        "data": "data", "`landmarks`": "landmarks", "k": "k", "accuracy %": ("mean", number),
        "deviation": ("std", number), "fit s": ("fit_seconds", seconds), "target": "target",
    },
    "multiclass": {
        "data": "data", "rows": "n", "classes": "classes", "k": "k",
        "all classes s": ("all_seconds", seconds), "one class s": ("one_seconds", seconds),
        "ratio": ("ratio", times), "accuracy %": ("accuracy", number),
    },
    "news20": {
        "": "peer", "fit s": ("fit_seconds", seconds), "predict s": ("predict_seconds", seconds),
        "accuracy %": ("accuracy", number), "peak MB": ("peak_mb", whole), "landmarks": "landmarks",
    },
}  # fmt: skip


def gpu_machine() -> str:
    """The line that ``gpu.py`` prints of its GPU."""
    return _gpu_lines()[1] if _gpu_lines() else ""


def gpu_fits() -> Published | None:
    """The table "Fits" that ``gpu.py`` printed."""
    lines = _gpu_lines()
    if not any(line.startswith("### Fits") for line in lines):
        return None
    start = next(i for i, line in enumerate(lines) if line.startswith("### Fits")) + 2
    end = next(i for i in range(start, len(lines)) if not lines[i].startswith("|"))
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[start:end]]
    header, _, *rest = cells
    wanted = [
        header.index(name)
        for name in ("k", "fit s", "landmarks s", "solve s", "accuracy %", "peak GB")
    ]
    return Published([header[i] for i in wanted], [[row[i] for i in wanted] for row in rest])


@cache
def _gpu_lines() -> list[str]:
    found = sorted(RESULTS.glob("gpu-*.txt"))
    return found[0].read_text().splitlines() if found else []


def gpu_rows() -> str:
    """How many rows the fits on the GPU had."""
    title = next((line for line in _gpu_lines() if line.startswith("### Fits")), "")
    count = re.search(r"(\d+) rows", title)
    return f"{int(count[1]) / 1e6:g} million" if count else "–"


def facts() -> dict[str, str]:
    """Single numbers for sentences of the documentation, as ``{{ name }}``."""
    found = {"gpu_rows": gpu_rows(), "gpu_machine": gpu_machine()}
    fits = gpu_fits()
    for row in fits.rows if fits else []:
        found[f"gpu_seconds_{row[0]}"] = row[1]
    for name in FIRST_PAGE:
        for key, row in (
            ("default", at_default(name)),
            ("equal", as_good_as_svc(name)),
            ("svc", entry(name, "svc")),
            ("lightgbm", entry(name, "lightgbm")),
        ):
            if row is not None and row["status"] == "ok":
                found[f"{name}_{key}_seconds"] = _brief(float(row["fit_seconds"]))
                found[f"{name}_{key}_accuracy"] = number(float(row["accuracy"]))
                found[f"{name}_{key}_k"] = row["k"]
    for row in records("exact"):
        if row["status"] == "ok":
            key = f"exact_{row['data']}_{row['peer'].replace('-', '_')}"
            found[f"{key}_accuracy"] = number(float(row["accuracy"]))
            found[f"{key}_seconds"] = _brief(float(row["fit_seconds"]))
    return found

"""Cells: what is measured once, kept as one row of a CSV file and not measured again.

A cell belongs to an experiment and has a key, a mapping that is the arguments of the experiment's
``measure``. Its row holds the key, what ``measure`` returned, ``status`` ("ok" or "time-out"),
``reason``, ``wall_seconds`` and ``threads``. A row is appended in one write that is on the disk
before the next cell begins; a last line that an interrupt cut short is dropped.
"""

import csv
import io
import os
from dataclasses import dataclass, field
from pathlib import Path

from measure import cores, isolated, timed

COMMON = ("status", "reason", "wall_seconds", "threads")


@dataclass(frozen=True)
class Run:
    """What one command asks for: which sets, how many repetitions, how long a cell may take."""

    sets: tuple[str, ...]
    runs: int = 10
    budget: float = 20.0  # seconds: no further repetition begins after them
    limit: float = 240.0  # seconds: a cell is stopped then
    quick: bool = False


@dataclass(frozen=True)
class Cell:
    """One row to be. ``weight`` is a guess of its seconds, for the progress bar's estimate."""

    experiment: str
    key: dict
    weight: float = 1.0
    limits: dict = field(default_factory=dict)
    lifetime: float = 240.0

    @property
    def identity(self) -> tuple:
        return tuple(str(_short(value)) for value in self.key.values())

    def __str__(self) -> str:
        return f"{self.experiment} " + " ".join(f"{k}={v}" for k, v in self.key.items())


class Results:
    """The finished cells of one experiment: a CSV file that only grows."""

    def __init__(self, folder: Path, name: str, keys: tuple[str, ...]):
        self.path = folder / f"{name}.csv"
        self.keys = keys

    def rows(self) -> list[dict]:
        """All finished cells, values as text."""
        if not self.path.exists():
            return []
        text = self.path.read_text(encoding="utf-8")
        whole = text[: text.rfind("\n") + 1]
        return [row for row in csv.DictReader(io.StringIO(whole)) if None not in row.values()]

    def finished(self) -> set[tuple]:
        return {tuple(row[key] for key in self.keys) for row in self.rows()}

    def append(self, row: dict, fields: tuple[str, ...]) -> None:
        """One line more, whole or not at all."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        line = io.StringIO()
        writer = csv.DictWriter(line, fields, lineterminator="\n", extrasaction="ignore")
        self._mend()
        if not self.path.exists() or self.path.stat().st_size == 0:
            writer.writeheader()
        writer.writerow({key: _short(value) for key, value in row.items()})
        with open(self.path, "ab") as file:
            file.write(line.getvalue().encode())
            file.flush()
            os.fsync(file.fileno())

    def _mend(self) -> None:
        """Cut off a line without an end, the trace of an interrupted write."""
        if not self.path.exists():
            return
        with open(self.path, "rb+") as file:
            content = file.read()
            file.truncate(content.rfind(b"\n") + 1)


def write_machine(folder: Path, machine: str) -> None:
    """Note where the cells of this folder were measured last."""
    replace_text(folder / "machine.txt", machine + "\n")


def read_machine(folder: Path) -> str:
    path = folder / "machine.txt"
    return path.read_text(encoding="utf-8").strip() if path.exists() else "no machine yet"


def replace_text(path: Path, text: str) -> Path:
    """Write a file whole: the old one stays until the new one is on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    with open(partial, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    return path


def run_cell(cell: Cell) -> dict:
    """Measure a cell in a process of its own; its row."""
    target = f"paper.{cell.experiment}:measure"
    result, seconds = timed(lambda: isolated(target, cell.lifetime, **cell.key, **cell.limits))
    return {**cell.key, "reason": "", **result, "wall_seconds": seconds, "threads": cores()}


def _short(value):
    return f"{value:.6g}" if isinstance(value, float) else value

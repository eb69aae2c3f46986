"""Progress: one line on a terminal that says how far the work is; silence everywhere else."""

from __future__ import annotations

import sys
from time import perf_counter
from typing import Any

import numpy as np

_STAGES = {"search": 0, "landmarks": 0, "map": 1, "solve": 2}
_WIDTH = 24


class Bar:
    """A bar on standard error, drawn when it is wanted and a person is watching."""

    def __init__(self, wanted: bool = True, stream=None):
        self.stream = sys.stderr if stream is None else stream
        self.active = wanted and self.stream.isatty()
        self.start = perf_counter()
        self.width = 0

    def draw(self, share: float, text: str) -> None:
        if not self.active:
            return
        filled = round(share * _WIDTH)
        seconds = perf_counter() - self.start
        line = f"[{'#' * filled}{'.' * (_WIDTH - filled)}] {seconds:5.1f}s  {text}"
        self.stream.write("\r" + line.ljust(self.width))
        self.stream.flush()
        self.width = len(line)

    def close(self) -> None:
        """Wipe the line: the terminal is left as it was found."""
        if self.active and self.width:
            self.stream.write("\r" + " " * self.width + "\r")
            self.stream.flush()
            self.width = 0


def distance_left(record: dict[str, Any]) -> tuple[str, float]:
    """What an iteration reached, of the worst class, and its name.

    The relative gradient; of ``solver="exact"``, which has none, the relative duality gap.
    """
    if "relative_gap" in record:
        return "gap", float(np.max(record["relative_gap"]))
    return "|g|/|g0|", float(np.max(record["relative_gradient"]))


class ProgressBar(Bar):
    """The bar of a fit, drawn when ``verbose`` is positive.

    While Newton's method runs, the bar is the share of the way to the tolerance, on the scale on
    which it converges: the logarithm of the gradient norm. What is left is estimated from that
    share; rows/s counts every time that a row's features were read.
    """

    def __init__(self, verbose: int, tol: float, stream=None):
        super().__init__(verbose > 0, stream)
        self.verbose = verbose
        self.tol = tol
        self.stage_start = self.start
        self.rows_read = 0.0

    def stage(self, name: str) -> None:
        self.stage_start, self.rows_read = perf_counter(), 0.0
        self.draw(0.1 * _STAGES.get(name, 2), name)

    def note(self, text: str) -> None:
        """A line that stays."""
        if self.active:
            self.close()
            self.stream.write(text + "\n")

    def rows(self, stage: str, count: int, share: float | None) -> None:
        """So many rows have been read or predicted; ``share`` of all, if that is known."""
        text = f"{stage}  {count} rows{_pace(perf_counter() - self.start, count, share)}"
        self.draw(share or 0.0, text)

    def iteration(self, number: int, record: dict[str, Any]) -> None:
        if not self.active:
            return
        name, relative = distance_left(record)
        share = np.log(max(relative, self.tol)) / np.log(min(self.tol, 0.5))
        share = float(np.clip(share, 0.0, 1.0))
        self.rows_read += record.get("passes", 0.0) * record.get("rows", 0)
        text = (
            f"Newton {number}  {name} {relative:.1e}  active {int(np.max(record['active_rows']))}"
            f"{_pace(perf_counter() - self.stage_start, self.rows_read, share)}"
        )
        self.draw(0.2 + 0.8 * share, text)
        if self.verbose > 1:
            self.stream.write("\n")

    def candidate(self, number: int, evaluation) -> None:
        """A search evaluated another candidate: there is no knowing how many will follow."""
        text = (
            f"{number} tried  k {evaluation.n_landmarks}  gamma {evaluation.gamma:.3g}  "
            f"C {evaluation.C:.3g}  score {evaluation.score:.4f}"
        )
        self.draw((number % _WIDTH) / _WIDTH, text)
        if self.verbose > 1 and self.active:
            self.stream.write("\n")


def _pace(seconds: float, rows: float, share: float | None) -> str:
    """Rows a second, and the seconds that the rest takes where the share that is done is known."""
    seconds = max(seconds, 1e-9)
    text = f"  {rows / seconds:.0f} rows/s" if rows else ""
    return text + (f"  {seconds * (1.0 - share) / share:.0f}s left" if share else "")

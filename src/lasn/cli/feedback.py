"""What a person sees while a command works: a bar in a terminal, lines with --log, or nothing."""

from __future__ import annotations

import argparse
import sys
from time import perf_counter
from typing import Any

import numpy as np

from lasn.progress import ProgressBar

_SECONDS_BETWEEN_LINES = 5.0


def add_feedback_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--log",
        action="store_true",
        help="plain lines about the progress on standard error, in place of a bar; without it "
        "nothing is written where standard error is not a terminal",
    )


class Feedback:
    """Progress of one command on standard error."""

    def __init__(self, log: bool, tol: float = 1e-3):
        self.log = log
        self.tol = tol
        self.bar = ProgressBar(0 if log else 1, tol)
        self.since = self.last = perf_counter()
        self.count = 0

    def begin(self) -> None:
        """A stage begins."""
        self.bar.close()
        self.bar = ProgressBar(0 if self.log else 1, self.tol)
        self.since = self.last = perf_counter()
        self.count = 0

    def rows(self, stage: str, count: int, share: float | None) -> None:
        """So many rows of the stage are done."""
        self.bar.rows(stage, count, share)
        self.count = count
        if perf_counter() - self.last > _SECONDS_BETWEEN_LINES:
            self.last = perf_counter()
            done = "" if share is None else f", {100 * share:.0f} %"
            self.say(f"{stage}: {count} rows{done}")

    def end(self, stage: str) -> None:
        seconds = max(perf_counter() - self.since, 1e-9)
        self.bar.close()
        rate = self.count / seconds
        self.say(f"{stage}: {self.count} rows in {seconds:.2f} s, {rate:.0f} rows/s")

    def stage(self, name: str) -> None:
        """A stage of a fit begins."""
        self.bar.stage(name)
        self.say(f"fit: {name}")

    def iteration(self, number: int, record: dict[str, Any]) -> None:
        """A Newton iteration is done."""
        self.bar.iteration(number, record)
        name, symbol = "relative_gradient", "|g|/|g0|"
        if "relative_gap" in record:
            name, symbol = "relative_gap", "gap"
        relative = float(np.max(record[name]))
        active = int(np.max(record["active_rows"]))
        self.say(f"fit: Newton {number}, {symbol} {relative:.1e}, {active} active rows")

    def candidate(self, number: int, evaluation: Any) -> None:
        """A search has evaluated so many candidates, this one last."""
        self.bar.candidate(number, evaluation)
        self.say(
            f"search: candidate {number}, k {evaluation.n_landmarks}, gamma "
            f"{evaluation.gamma:.3g}, C {evaluation.C:.3g}: score {evaluation.score:.4f}"
        )

    def say(self, text: str) -> None:
        """A line of the log."""
        if self.log:
            print("lasn:", text, file=sys.stderr, flush=True)

    def notice(self, text: str) -> None:
        """A line for whoever watches, by a terminal or a log."""
        if self.log or self.bar.active:
            self.bar.close()
            print("lasn:", text, file=sys.stderr, flush=True)

    def close(self) -> None:
        self.bar.close()

"""The rules by which a number is judged against the paper's; the page prints them."""

from dataclasses import dataclass
from math import hypot, sqrt

POINTS = 0.3
PERCENT = 1.0
PAPER_RUNS = 10
RULES = {
    "accuracy": (
        f"Accuracy: “as printed” is within {POINTS:g} points, or one test row where that is more, "
        "of the paper's number, “higher” above that and “lower” below. “Lower, noise” is below by "
        "less than two standard errors of the difference of the means, taken from the deviations "
        "of both."
    ),
    "speed": (
        "Speed: seconds of another machine cannot be compared, ratios can. LA-SN is “faster” if "
        "its mean seconds are fewer than the other solver's, both with the objective within 1e-4 "
        "of its minimum. A solver that did not get there within the limit on a cell is slower by "
        "at least the ratio shown."
    ),
    "data": f"What depends on data alone: “as printed” is within {PERCENT:g} % of the number.",
}


@dataclass(frozen=True)
class Verdict:
    """A word, and whether it is what the paper says ("good"), not ("bad") or open ("open")."""

    word: str
    tone: str


NOT_RUN = Verdict("not run", "open")
NO_DATA = Verdict("no data", "open")


def accuracy(
    ours: float,
    printed: float,
    deviation: float = 0.0,
    printed_deviation: float = 0.0,
    runs: int = PAPER_RUNS,
    one_row: float = 0.0,
) -> Verdict:
    """Our mean accuracy of ``runs`` runs in % against the paper's; ``one_row`` of the test in %."""
    difference, near = ours - printed, max(POINTS, one_row + 1e-9)
    if difference > near:
        return Verdict("higher", "good")
    if difference >= -near:
        return Verdict("as printed", "good")
    noise = hypot(deviation / sqrt(runs), printed_deviation / sqrt(PAPER_RUNS))
    if -difference <= 2.0 * noise:
        return Verdict("lower, noise", "good")
    return Verdict("lower", "bad")


def relative(ours: float, printed: float) -> Verdict:
    """A number that depends on the data alone."""
    if abs(ours - printed) <= PERCENT / 100.0 * abs(printed):
        return Verdict("as printed", "good")
    return Verdict("differs", "bad")


def speed(ours: float | None, other: float | None, at_least: float | None = None) -> Verdict:
    """Seconds of LA-SN against another solver's.

    None stands for a solver that did not reach the objective; ``at_least`` says after how many
    seconds the other one was stopped.
    """
    if ours is None:
        return NOT_RUN
    if other is None:
        return Verdict("faster", "good") if at_least and at_least > ours else NOT_RUN
    return Verdict("faster", "good") if ours < other else Verdict("slower", "bad")

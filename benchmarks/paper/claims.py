"""What the paper's text says of its figures, as numbers that can be checked."""

from dataclasses import dataclass

import numpy as np

from paper import printed
from paper.verdicts import Verdict

_HOLDS, _FAILS = Verdict("holds", "good"), Verdict("does not hold", "bad")


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, the set it is tried on, what we measure of it, and the verdict."""

    text: str
    data_set: str
    measured: str
    verdict: Verdict


def of_landmark_sizes(rows: dict[str, list[dict]]) -> list[Claim]:
    """Claims about figures ld_k, nd_k, sd_k; rows by data set, with falling or rising k."""
    claims = []
    for name, cells in rows.items():
        k = np.array([float(cell["k"]) for cell in cells])
        if len(k) < 3:
            continue
        seconds = np.array([float(cell["seconds"]) for cell in cells])
        exponent = float(np.polyfit(np.log(k), np.log(seconds), 1)[0])
        claims.append(
            Claim(
                "training time grows linearly with k (here: with k to a power of at most 1.2)",
                name,
                f"time grows as k to the power {exponent:.2f}",
                _HOLDS if exponent <= 1.2 else _FAILS,
            )
        )
        accuracy = np.array([float(cell["cv_accuracy"]) for cell in cells])
        root = np.sqrt(0.8 * printed.training_rows(name))
        near = int(np.argmin(np.abs(np.log(k / root))))
        short = float(accuracy.max() - accuracy[near])
        claims.append(
            Claim(
                "k = √n is a good choice (here: CV accuracy within 1 point of the best k)",
                name,
                f"k = {k[near]:.0f} next to √n = {root:.0f}: {short:.2f} points below the best",
                _HOLDS if short <= 1.0 else _FAILS,
            )
        )
    return claims


def of_costs(rows: dict[str, list[dict]]) -> list[Claim]:
    """Claims about figures stable_c and nonstable_c."""
    claims = []
    for name, cells in rows.items():
        by_cost = {float(cell["C"]): cell for cell in cells}
        if not {10.0, 100.0} <= by_cost.keys():
            continue
        best = max(float(cell["cv_accuracy"]) for cell in cells)
        short = best - float(by_cost[10.0]["cv_accuracy"])
        claims.append(
            Claim(
                "accuracy is stable from C = 10 on (here: within 0.5 points of the best C)",
                name,
                f"CV accuracy at C = 10 is {short:.2f} points below the best",
                _HOLDS if short <= 0.5 else _FAILS,
            )
        )
        ratio = float(by_cost[100.0]["seconds"]) / float(by_cost[10.0]["seconds"])
        claims.append(
            Claim(
                "training time increases significantly from C = 10 to 100 (here: by 1.2 or more)",
                name,
                f"C = 100 takes {ratio:.2f} times as long",
                _HOLDS if ratio >= 1.2 else _FAILS,
            )
        )
    return claims

"""Figures stable_c and nonstable_c: accuracy and training time against C, from 1e-4 to 1e4.

k is Table 4's, at most 1000. The paper does not print which set is in which of its two figures;
they part sets whose training time grows steadily with C from those where it does not.
"""

from paper import printed
from paper.cells import Cell, Run
from paper.landmark_size import GROUPS
from paper.validation import RESULTS, validated

NAME = "cost_parameter"
KEYS = ("data_set", "C")
FIELDS = (*KEYS, "k", *RESULTS)
COSTS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1e3, 1e4)
MOST_LANDMARKS = 1000
RUNS = 3


def cells(run: Run) -> list[Cell]:
    found = []
    for name in run.sets:
        if name not in GROUPS:
            continue
        size = printed.training_rows(name) * landmarks(name)
        for C in COSTS[::4] if run.quick else COSTS:
            limits = {"runs": min(RUNS, run.runs), "budget": run.budget}
            key = {"data_set": name, "C": C}
            found.append(Cell(NAME, key, 3.0 + RUNS * size * 4e-8, limits, run.limit))
    return found


def measure(data_set: str, C: float, runs: int, budget: float) -> dict:
    k = landmarks(data_set)
    return {"k": k, **validated(data_set, k, C, runs, budget)}


def landmarks(name: str) -> int:
    return min(printed.landmarks(name), MOST_LANDMARKS)

"""Figures ld_k, nd_k and sd_k: accuracy and training time against k, C = 10.

The paper's sets of Table 1 in its groups (by features times rows: LD, MD, SD), and two that its
figures do not have, since few of its nine are small to fetch: w8a (MD) and mushrooms (SD).
"""

from paper import printed
from paper.cells import Cell, Run
from paper.validation import RESULTS, validated

NAME = "landmark_size"
KEYS = ("data_set", "k")
FIELDS = (*KEYS, *RESULTS)
SIZES = (50, 100, 200, 500, 1000)
ADDED = {"w8a": "MD", "mushrooms": "SD"}
GROUPS = {name: str(row["group"]) for name, row in printed.table(1).items()} | ADDED
RUNS = 3


def cells(run: Run) -> list[Cell]:
    found = []
    for name in run.sets:
        if name not in GROUPS:
            continue
        n = 0.8 * printed.training_rows(name)
        for k in SIZES[:3] if run.quick else SIZES:
            if k <= n:
                limits = {"runs": min(RUNS, run.runs), "budget": run.budget}
                guess = 3.0 + RUNS * n * k * 4e-8
                found.append(Cell(NAME, {"data_set": name, "k": k}, guess, limits, run.limit))
    return found


def measure(data_set: str, k: int, runs: int, budget: float) -> dict:
    return validated(data_set, k, 10.0, runs, budget)

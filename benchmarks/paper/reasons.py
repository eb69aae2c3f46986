"""Experiments that find why a number differs from the paper's: one change at a time.

Each variant trains LASN as in Table 4 but for what its name says.
"""

from paper import printed, rows
from paper.cells import COMMON, Cell, Run
from paper.repeat import repeated

NAME = "reasons"
KEYS = ("data_set", "variant")
FIELDS = (*KEYS, "k", "rows", "runs", "accuracy", "accuracy_std", *COMMON)
# data set, variant: what the variant changes is said in `measure`.
VARIANTS = [
    ("madelon", "323 rows"),
    ("w4a", "3618 rows"),
    ("w7a", "13961 rows"),
    ("w8a", "43735 rows"),
    ("a8a", "3318 rows"),
    ("w7a", "k = 1000"),
    ("w8a", "k = 1000"),
    ("mushrooms", "random split"),
    ("mushrooms", "100 seeds"),
]
# What they found, for the page.
FOUND: dict[str, str] = {}


def cells(run: Run) -> list[Cell]:
    if run.quick:
        return []
    found = []
    for name, variant in VARIANTS:
        if name in run.sets:
            key = {"data_set": name, "variant": variant}
            seeds = int(variant.split()[0]) if variant.endswith(" seeds") else run.runs
            limits = {"runs": seeds, "budget": run.budget}
            found.append(Cell(NAME, key, 20.0, limits, run.limit))
    return found


def measure(data_set: str, variant: str, runs: int, budget: float) -> dict:
    import numpy as np
    from sklearn.model_selection import train_test_split

    from lasn import LASNClassifier

    sample = rows.load(data_set)
    k = printed.landmarks(data_set)
    n_train = len(sample.y_train)
    if variant.startswith("k = "):
        k = int(variant.removeprefix("k = "))
    if variant.endswith(" rows"):
        n_train = int(variant.removesuffix(" rows"))

    def once(seed: int) -> dict[str, float]:
        X, y, X_test, y_test = sample
        if variant == "random split":
            X, y = np.vstack([X, X_test]), np.concatenate([y, y_test])
            X, X_test, y, y_test = train_test_split(X, y, train_size=0.6, random_state=seed)
        X, y = X[:n_train], y[:n_train]
        model = LASNClassifier(k, gamma="variance", landmarks="kmeans", random_state=seed)
        return {"accuracy": 100.0 * model.fit(X, y).score(X_test, y_test)}

    return {"k": k, "rows": n_train, **repeated(once, runs, budget)}

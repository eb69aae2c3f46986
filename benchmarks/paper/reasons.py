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
    ("a6a", "6414 rows"),
    ("a7a", "6414 rows"),
    ("a8a", "3318 rows"),
    ("w7a", "k = 1000"),
    ("w8a", "k = 1000"),
    ("mushrooms", "random split"),
    ("mushrooms", "100 seeds"),
]
# What they found, for the page.
FOUND = {
    "a6a, a7a, a8a (Table 4, ours higher)": (
        "The paper trained on fewer rows than the files have: its Table 2 counts 6414, 6414 and "
        "3318. With as many of the first rows ours are 84.56, 84.55 and 84.32 for its 84.40, "
        "84.54 and 84.22."
    ),
    "madelon (Table 4, ours higher)": (
        "The same: 323 of 2000 rows in Table 2. With the first 323 ours is 62.83, for 62.00; all "
        "its rows are landmarks then."
    ),
    "mushrooms (Table 4, noise)": (
        "One choice of landmarks differs from the next by three points, because the first 60 % of "
        "the file lack kinds of mushrooms that the rest has. 100 seeds give 95.59 (3.29) for the "
        "paper's 95.66 (2.81); with rows drawn at random it is 99.99."
    ),
    "w7a, w8a (Table 3, ours lower)": (
        "The paper's Table 3 must have had a larger k for these than Table 4, which prints 200: "
        "between w4a and w5a its seconds grow fifteen times while rows do not even triple. At "
        "k = 1000 ours are 98.51 and 98.78 for Table 3's 98.58 and 98.79; at k = 200 they are "
        "98.02 and 98.05 for Table 4's 98.04 and 98.11."
    ),
    "liver-disorders (Table 3, LA-TRON faster)": (
        "145 rows: all solvers end within 10 ms. LA-SN takes three Newton steps: 34 passes "
        "over one block of rows at about 0.1 ms each, most of it the interpreter's; a profile "
        "shows a seventh of the time in assembling and factoring the Hessian."
    ),
}


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

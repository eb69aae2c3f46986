"""Table 1's gamma: the total variance tr Cov(X) of the training rows.

The paper calls it "the average squared distance between data points"; over pairs that is twice as
much. Its rows are 80 % of the training rows, drawn at random.
"""

from sklearn.model_selection import train_test_split

from lasn.gamma import resolve_gamma
from paper import printed, rows
from paper.cells import COMMON, Cell, Run

NAME = "gamma"
KEYS = ("data_set",)
FIELDS = (*KEYS, "rows", "features", "gamma", *COMMON)


def cells(run: Run) -> list[Cell]:
    named = [name for name in run.sets if name in printed.table(1)]
    return [Cell(NAME, {"data_set": name}, 2.0, {}, run.limit) for name in named]


def measure(data_set: str) -> dict:
    sample = rows.load(data_set, "float64")
    X, _ = train_test_split(sample.X_train, train_size=0.8, random_state=0)
    gamma = 1.0 / resolve_gamma("variance", X)
    return {"rows": X.shape[0], "features": X.shape[1], "gamma": gamma}

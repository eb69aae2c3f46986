"""The numbers that the paper prints, transcribed from its LaTeX source.

One file a table in ``printed/``, one row a data set, under the paper's names:

    table1.csv   label tab:addlabel      n (80 % of the training rows), p, gamma, group
    table2.csv   label tab:datasets      n, p
    table3.csv   label tab:linearsolver  seconds for the reduced linear SVM, accuracy in %
    table4.csv   label tab:libsvm        seconds, accuracy in %, their deviations, k

The figures (ld_k, nd_k, sd_k, stable_c, nonstable_c) have no numbers in the source. What the text
says of them is in ``claims.py``.
"""

import csv
from functools import cache
from pathlib import Path

from lasn.datasets import Dataset, datasets, loading

FOLDER = Path(__file__).resolve().parent / "printed"


@cache
def table(number: int) -> dict[str, dict]:
    """The rows of Table 1, 2, 3 or 4 by the paper's name of the set; numbers are floats."""
    with open(FOLDER / f"table{number}.csv", newline="") as file:
        return {row.pop("set"): _numbers(row) for row in csv.DictReader(file)}


@cache
def sets() -> dict[str, Dataset]:
    """The paper's 28 data sets by its names, in the order of its tables."""
    by_name = {each.paper_name: each for each in datasets().values()}
    return {name: by_name[name] for name in table(4)}


def landmarks(name: str) -> int:
    """The k of Table 4."""
    return int(table(4)[name]["k"])


def training_rows(name: str) -> int:
    """How many rows the paper's split of the file leaves for training."""
    known = sets()[name]
    return known.train.rows if known.test else loading.training_rows(known.train.rows)


def test_rows(name: str) -> int:
    known = sets()[name]
    return known.test.rows if known.test else known.train.rows - training_rows(name)


def _numbers(row: dict[str, str]) -> dict:
    return {key: value if key == "group" else float(value) for key, value in row.items()}

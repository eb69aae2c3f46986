"""Rows of the paper's data sets, for those that are present.

A set is present if its files are in the folder ``LASN_DATA`` or in the cache of ``lasn.datasets``;
nothing is downloaded here. The test files of a1a to a8a and w1a to w7a hold exactly the rows of a9a
and w8a that are not in the training file, so a missing one is *rebuilt* from those.
"""

from collections import Counter
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

import data
from lasn import datasets
from paper import printed

# Any file of these families less a smaller one is the smaller one's test file.
_WHOLE = {"a": "a9a", "w": "w8a"}


class Rows(NamedTuple):
    """Dense rows where features are few, else CSR; labels are -1 and 1."""

    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    def few(self) -> "Rows":
        """Some hundred rows from all over the file, both classes among them: to warm up with."""
        return Rows(*(part[:: 1 + part.shape[0] // 400] for part in self))


def present() -> list[str]:
    """The paper's sets whose rows are here, the smallest first."""
    names = [name for name in printed.sets() if _is_present(name)]
    return sorted(names, key=printed.training_rows)


def missing() -> list[str]:
    return [name for name in printed.sets() if not _is_present(name)]


def is_rebuilt(name: str) -> bool:
    """Whether the test rows are those of the largest set of the family less the training rows."""
    test = printed.sets()[name].test
    return test is not None and datasets.find(test.name) is None


def load(name: str, dtype="float32") -> Rows:
    """Training and test rows, split as the paper splits them."""
    known = printed.sets()[name]
    if is_rebuilt(name):
        X, y = datasets.load(known.name, split=False)
        X_test, y_test = remainder(*datasets.load(_whole(name), split=False), X, y)
    else:
        X, X_test, y, y_test = datasets.load(known.name)
    positive = np.max(y)
    return Rows(
        data.as_rows(X, dtype), _signs(y, positive), data.as_rows(X_test, dtype),
        _signs(y_test, positive),
    )  # fmt: skip


def remainder(X, y, X_part, y_part) -> tuple[sp.csr_matrix, np.ndarray]:
    """The rows of (X, y) that are not in (X_part, y_part), each as often as it is left over."""
    taken = Counter(_row_keys(X_part, y_part))
    kept = []
    for i, key in enumerate(_row_keys(X, y)):
        if taken[key]:
            taken[key] -= 1
        else:
            kept.append(i)
    if taken.total():
        raise ValueError(f"{taken.total()} rows of the part are not in the whole")
    return X[kept], y[kept]


def _row_keys(X: sp.csr_matrix, y: np.ndarray):
    for label, start, end in zip(y, X.indptr, X.indptr[1:], strict=False):
        yield label, X.indices[start:end].tobytes(), X.data[start:end].tobytes()


def _is_present(name: str) -> bool:
    known = printed.sets()[name]
    if datasets.find(known.train.name) is None:
        return False
    return not is_rebuilt(name) or datasets.find(_whole(name) or "") is not None


def _whole(name: str) -> str | None:
    family = name[0] + name[-1]
    return _WHOLE[name[0]] if len(name) == 3 and family in ("aa", "wa") else None


def _signs(y: np.ndarray, positive: float) -> np.ndarray:
    return np.where(y == positive, 1.0, -1.0)

"""What a fit will cost, before it starts: memory to refuse what cannot fit, seconds to tell.

With n rows, p features, k landmarks and c problems (classes, or targets), a fit holds::

    data      8 n p bytes, or 12 for each value of a sparse matrix
    targets   8 n c bytes, about six times over: targets, scores, weights and their trials
    landmarks 8 k p bytes
    Hessians  8 k^2 bytes, ten times over

Features, 4 n k bytes, are kept only if there is room and made again otherwise, so they never make
a fit impossible. The time is a small multiple of that of one pass over kernel values and one
product F^T F, 2 n k p + n k^2 operations, at the speed of a product measured here and now.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

import numpy as np
import scipy.sparse as sp

from lasn.cli.errors import DataError
from lasn.memory import parse_memory_limit, physical_memory

_HESSIANS = 10
_TARGET_COPIES = 6
_PASSES = 5
# Reckoned for each kernel value beside its products: the exponential.
_EXPONENTIAL = 40


@dataclass
class Costs:
    """Bytes and seconds of a fit."""

    data: int
    model: int
    seconds: float

    @property
    def bytes(self) -> int:
        return self.data + self.model


def fit_costs(X, n_problems: int, n_landmarks: int) -> Costs:
    """What a fit to these rows takes (``n_landmarks`` 0: the linear kernel)."""
    n_rows, n_features = X.shape
    data = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes if sp.issparse(X) else X.nbytes
    per_row = X.nnz / max(n_rows, 1) if sp.issparse(X) else n_features
    k = n_landmarks or n_features
    model = 8 * (_TARGET_COPIES * n_rows * n_problems + k * n_features + _HESSIANS * (k + 1) ** 2)
    operations = n_rows * k * (2 * per_row + _EXPONENTIAL + k)
    return Costs(data, model, _PASSES * operations / _speed())


def refuse_what_cannot_fit(costs: Costs, limit, path: str, n_landmarks: int) -> None:
    """``DataError`` with a remedy if the fit needs more than ``limit``, or than the machine has."""
    room = physical_memory() if limit is None else parse_memory_limit(limit)
    if costs.bytes <= room:
        return
    if costs.data > room // 2:
        remedy = "Train on fewer rows, or on a machine with more memory."
    else:
        remedy = f"Give --n-landmarks less than {n_landmarks}, or fewer rows."
    if limit is not None:
        remedy = f"Raise --memory-limit, or: {remedy}"
    raise DataError(path, _needs("the fit", costs.bytes, room), remedy)


def refuse_what_cannot_be_read(n_bytes: int, share: float | None, limit, path: str) -> None:
    """``DataError`` as soon as it is clear that the rows will not fit."""
    expected = n_bytes / share if share else n_bytes
    room = physical_memory() if limit is None else parse_memory_limit(limit)
    if expected > room:
        raise DataError(
            path,
            _needs("holding the rows", int(expected), room),
            "Train on fewer rows" + (", or raise --memory-limit." if limit is not None else "."),
        )


def _needs(what: str, n_bytes: int, room: int) -> str:
    return f"{what} needs about {n_bytes / 1e9:.2g} GB, and there are {room / 1e9:.2g} GB."


def _speed() -> float:
    """Multiplications and additions a second, of a float32 product."""
    A = np.ones((512, 512), dtype=np.float32)
    A @ A
    start = perf_counter()
    for _ in range(4):
        A @ A
    return 4 * 2 * 512**3 / max(perf_counter() - start, 1e-9)

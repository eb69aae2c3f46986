"""Equal rows of equal targets, merged into one of their summed weight."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from lasn.arrays import like, to_numpy
from lasn.problem import Problem

# Rows that come from a device at a time.
_ROWS_AT_A_TIME = 1 << 16


def distinct(problem: Problem) -> Problem:
    """The same problem with equal rows of equal targets merged into one of their summed weight.

    Rows of weight zero are left out. The row that stays is the first.
    """
    first: dict[bytes, int] = {}
    owner = np.empty(problem.n_rows, dtype=int)
    targets = to_numpy(problem.targets)
    for row, values in enumerate(row_bytes(problem.X)):
        owner[row] = first.setdefault(values + targets[row].tobytes(), row)
    weight = np.bincount(owner, to_numpy(problem.sample_weight), problem.n_rows)
    kept = np.flatnonzero(weight > 0.0)
    if len(kept) == problem.n_rows:
        return problem
    merged = like(weight[kept], problem.sample_weight)
    return replace(problem.keeping(kept), sample_weight=merged)


def row_bytes(X) -> Iterator[bytes]:
    """For each row something that equal rows have in common, and no others."""
    if sp.issparse(getattr(X, "rows", None)):  # of a device that takes a few of them at a time
        X = X.rows
    if not sp.issparse(X):
        return (row.tobytes() for rows in _parts_here(X) for row in rows)
    X = sp.csr_matrix(X, copy=True)
    X.sum_duplicates()
    X.eliminate_zeros()
    ends = zip(X.indptr[:-1], X.indptr[1:], strict=True)
    return (X.indices[a:b].tobytes() + b"|" + X.data[a:b].tobytes() for a, b in ends)


def _parts_here(X) -> Iterator[np.ndarray]:
    """Dense rows in this process's memory, some after the others."""
    for start in range(0, X.shape[0], _ROWS_AT_A_TIME):
        part = slice(start, start + _ROWS_AT_A_TIME)
        yield to_numpy(X.on_host(part) if hasattr(X, "on_host") else X[part])

"""Equal rows of equal targets, merged into one of their summed weight."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from lasn.problem import Problem


def distinct(problem: Problem) -> Problem:
    """The same problem with equal rows of equal targets merged into one of their summed weight.

    Rows of weight zero are left out. The row that stays is the first.
    """
    first: dict[bytes, int] = {}
    owner = np.empty(problem.n_rows, dtype=int)
    for row, values in enumerate(row_bytes(problem.X)):
        owner[row] = first.setdefault(values + problem.targets[row].tobytes(), row)
    weight = np.bincount(owner, problem.sample_weight, problem.n_rows)
    kept = np.flatnonzero(weight > 0.0)
    if len(kept) == problem.n_rows:
        return problem
    return replace(problem.only(kept), X=problem.X[kept], sample_weight=weight[kept])


def row_bytes(X):
    """For each row something that equal rows have in common, and no others."""
    if not sp.issparse(X):
        return (row.tobytes() for row in X)
    X = sp.csr_matrix(X, copy=True)
    X.sum_duplicates()
    X.eliminate_zeros()
    ends = zip(X.indptr[:-1], X.indptr[1:], strict=True)
    return (X.indices[a:b].tobytes() + b"|" + X.data[a:b].tobytes() for a, b in ends)

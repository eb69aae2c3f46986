"""Equal rows of equal targets, merged into one of their summed weight: the same sums, less work.

Binary and categorical features make many of them: a fifth of the rows of a9a, a third of w8a's.
Rows with equal *keys* are next to each other once the keys are sorted, and are compared then::

    key_i = sum_j r_j bits(x_ij) mod 2^64        CSR, over the stored values, r_j random
    key_i = bits(<x_i, r>), bits(<x_i, s>)       arrays, r and s random
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from lasn.arrays import device_of, like, to_numpy
from lasn.problem import Problem
from lasn.threads import for_each_slice

# Rows that come from a device at a time.
_ROWS_AT_A_TIME = 1 << 16
# About so many rows tell whether it is worth looking at all of them.
_LOOKED_AT = 4096
# Values of an array that are multiplied, or compared, at a time.
_VALUES_AT_A_TIME = 1 << 18


def distinct(problem: Problem, worth: float = 0.0) -> Problem:
    """The same problem with equal rows of equal targets merged into one of their summed weight.

    The row that stays is the first. Where less than the share ``worth`` of the rows would go, all
    stay; a sample of them tells mostly. Rows of weight zero are left out if any row is.
    """
    X, targets = _canonical(problem.X), to_numpy(problem.targets)
    if device_of(X) is not None:
        owner = _owners_by_bytes(X, targets)
    else:
        step = X.shape[0] // _LOOKED_AT if worth > 0.0 else 0
        if step > 1 and _repeated_share(X[::step], targets[::step], step) < worth:
            return problem
        owner = _owners(X, targets)
    weight = np.bincount(owner, to_numpy(problem.sample_weight), problem.n_rows)
    kept = np.flatnonzero(weight > 0.0)
    if len(kept) == problem.n_rows or len(kept) > (1.0 - worth) * problem.n_rows:
        return problem
    merged = like(weight[kept], problem.sample_weight)
    # Sparse rows are copied; an array's are where they are wanted: it may be most of the memory.
    chosen = problem.only(kept) if worth and not sp.issparse(X) else problem.keeping(kept)
    return replace(chosen, sample_weight=merged)


def _owners(X, targets: np.ndarray) -> np.ndarray:
    """For each row the first one that is equal to it and has equal targets, shape (n,)."""
    keys = _keys(X, targets)
    order = np.argsort(keys)
    ranked = keys[order]
    alike = np.flatnonzero(ranked[1:] == ranked[:-1])
    one, other = order[alike], order[alike + 1]
    equal = (targets[one] == targets[other]).all(axis=1)
    alike = alike[equal]
    equal = _are_equal(X, one[equal], other[equal])
    begins = np.ones(len(keys), dtype=bool)
    begins[alike[equal] + 1] = False
    starts = np.flatnonzero(begins)
    first = np.minimum.reduceat(order, starts) if len(starts) else starts
    owner = np.empty_like(order)
    owner[order] = np.repeat(first, np.diff(starts, append=len(order)))
    return owner


def _repeated_share(X, targets: np.ndarray, step: int) -> float:
    """Which share of all rows repeats another, about, by every ``step``-th of them.

    Of a pair both must have been taken to be seen.
    """
    ranked = np.sort(_keys(X, targets))
    repeated = np.count_nonzero(ranked[1:] == ranked[:-1])
    return repeated * step / max(1, len(ranked))


def _keys(X, targets: np.ndarray) -> np.ndarray:
    """A whole number for each row and its targets, the same for equal ones."""
    n_rows, n_features = X.shape
    rng = np.random.RandomState(0)
    if sp.issparse(X):
        multipliers = rng.randint(1 << 62, size=n_features)
        keys, filled = np.zeros(n_rows, dtype=np.int64), np.flatnonzero(np.diff(X.indptr))
        terms = multipliers[X.indices] * _bits(X.data)
        keys[filled] = np.add.reduceat(terms, X.indptr[filled]) if len(filled) else 0
    else:
        directions = rng.standard_normal((n_features, 2)).astype(X.dtype)
        products = np.empty((n_rows, 2), dtype=X.dtype)

        def project(part: slice) -> None:
            np.matmul(X[part], directions, out=products[part])

        for_each_slice(n_rows, max(64, _VALUES_AT_A_TIME // max(1, n_features)), project)
        keys = _bits(products) @ rng.randint(1 << 62, size=2)
    return keys + _bits(targets) @ rng.randint(1 << 62, size=targets.shape[1])


def _bits(values: np.ndarray) -> np.ndarray:
    """Numbers as whole numbers, zero as zero, whose last digits differ where any do."""
    bits = np.ascontiguousarray(values).view(np.dtype(f"i{values.itemsize}")).astype(np.int64)
    return bits ^ (bits >> 23)


def _are_equal(X, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Whether the rows at the two positions are equal, for each pair."""
    if sp.issparse(X):
        return _are_equal_sparse(X, one, other)
    equal = np.empty(len(one), dtype=bool)

    def compare(part: slice) -> None:
        equal[part] = (X[one[part]] == X[other[part]]).all(axis=1)

    for_each_slice(len(one), max(64, _VALUES_AT_A_TIME // max(1, X.shape[1])), compare)
    return equal


def _are_equal_sparse(X, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The same of CSR rows."""
    sizes = np.diff(X.indptr)
    equal = sizes[one] == sizes[other]
    pairs = np.flatnonzero(equal & (sizes[one] > 0))
    if len(pairs) == 0:
        return equal
    size = sizes[one[pairs]]
    ends = np.cumsum(size)
    inside = np.arange(ends[-1]) - np.repeat(ends - size, size)
    here, there = (np.repeat(X.indptr[rows[pairs]], size) + inside for rows in (one, other))
    same = (X.indices[here] == X.indices[there]) & (X.data[here] == X.data[there])
    equal[pairs] = np.logical_and.reduceat(same, ends - size)
    return equal


def _owners_by_bytes(X, targets: np.ndarray) -> np.ndarray:
    """The same as ``_owners`` of rows on a device, which come here part by part."""
    first: dict[bytes, int] = {}
    return np.array(
        [
            first.setdefault(values + targets[row].tobytes(), row)
            for row, values in enumerate(row_bytes(X))
        ],
        dtype=int,
    )


def row_bytes(X) -> Iterator[bytes]:
    """For each row something that equal rows have in common, and no others."""
    if sp.issparse(getattr(X, "rows", None)):  # of a device that takes a few of them at a time
        X = X.rows
    if not sp.issparse(X):
        return (row.tobytes() for rows in _parts_here(X) for row in rows)
    X = _canonical(X)
    ends = zip(X.indptr[:-1], X.indptr[1:], strict=True)
    return (X.indices[a:b].tobytes() + b"|" + X.data[a:b].tobytes() for a, b in ends)


def _canonical(X):
    """CSR rows in the one way in which these values can be stored; others as they are."""
    if not sp.issparse(X) or (X.has_canonical_format and X.data.all()):
        return X
    X = sp.csr_matrix(X, copy=True)
    X.sum_duplicates()
    X.eliminate_zeros()
    return X


def _parts_here(X) -> Iterator[np.ndarray]:
    """Dense rows in this process's memory, some after the others."""
    for start in range(0, X.shape[0], _ROWS_AT_A_TIME):
        part = slice(start, start + _ROWS_AT_A_TIME)
        yield to_numpy(X.on_host(part) if hasattr(X, "on_host") else X[part])

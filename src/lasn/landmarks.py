"""Algorithm 2, step 1: landmarks.

============== ===========================================================================
method         landmarks
============== ===========================================================================
"kmeans"       centres of a short k-means run: the paper's choice
"class_kmeans" the same within each class (or bin of the target), in equal shares
"boundary"     half by "class_kmeans"; then a first, smaller fit finds the rows near the
               decision boundary (the active ones), and k-means per class over those gives
               the other half
"uniform"      rows drawn without replacement
============== ===========================================================================

k-means looks at no more than 20 000 rows and takes a few Lloyd steps, as in the paper. For "kmeans"
these are the first rows, as there (shuffle data that is sorted); for the others they are drawn at
random, in equal shares for each class, so that rare classes are seen. Fewer of them suffice for
few landmarks, and of many classes there may be more.

Sparse rows of high dimension get sparse landmarks: k-means runs on a random projection of
them, and the most central rows are taken instead of the centres.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_array

from lasn.arrays import bincount, is_tensor, like, namespace, nonzero, numpy_dtype, to_numpy
from lasn.caller import warn_caller
from lasn.kmeans import central_rows, first_rows, kmeans_centres, nearest_points
from lasn.threads import for_each_slice, n_threads

# k-means, and the fit on the way to the boundary, look at so many rows for each landmark. Of many
# classes, each with a boundary of its own, more are needed to see them all.
MIN_KMEANS_ROWS, MAX_KMEANS_ROWS = 8000, 20_000
_ROWS_PER_LANDMARK = 40
_ROWS_PER_CLASS, _MOST_OF_MANY_CLASSES = 4000, 60_000
_LLOYD_STEPS, _ROUGH_STEPS = 4, 3
# Within a class, this many rows for each centre place it well enough.
_ROWS_PER_CENTRE = 20
_FEWEST_ROWS = 3000
# Groups are a thread's work each where no thread has more than this many times its share, and where
# a step takes so many operations for each group: threads of little work wait for each other.
_EVEN = 1.25
_MUCH = 1e7
# Bins of targets are settled by about this many of them.
_MANY_TARGETS = 50_000
# A sample is drawn without a permutation of all rows where it is less than one of this many.
_FEW_OF = 20
# Centres of sparse data are dense: above this many features they are not made.
_MAX_CENTRE_FEATURES = 4096
_PROJECTED_FEATURES = 128


def count_landmarks(n_landmarks, n_rows: int) -> int:
    """k for n rows; ``"auto"`` is the paper's square root of n, at least 100."""
    if n_landmarks == "auto":
        return min(n_rows, max(100, int(np.ceil(np.sqrt(n_rows)))))
    if n_landmarks > n_rows:
        warn_caller(
            f"n_landmarks={n_landmarks} is more than the {n_rows} rows with a positive weight; "
            f"n_landmarks_ will be at most {n_rows}."
        )
        return n_rows
    return int(n_landmarks)


def rows_looked_at(k: int, n_groups: int) -> int:
    """From how many rows of so many groups k landmarks are chosen, at most."""
    most = max(MAX_KMEANS_ROWS, min(_ROWS_PER_CLASS * n_groups, _MOST_OF_MANY_CLASSES))
    return min(max(_ROWS_PER_LANDMARK * k, MIN_KMEANS_ROWS), most)


def check_landmarks(landmarks, X):
    """A user's own landmarks, in the type of X."""
    try:
        checked = check_array(
            to_numpy(landmarks),
            accept_sparse="csr",
            dtype=numpy_dtype(X.dtype),
            input_name="landmarks",
        )
    except ValueError as error:
        raise ValueError(f"landmarks must be an array of shape (k, n_features): {error}") from error
    if checked.shape[1] != X.shape[1]:
        raise ValueError(
            f"landmarks has {checked.shape[1]} features but X has {X.shape[1]}. "
            "Give landmarks of shape (k, n_features)."
        )
    return checked


def choose_landmarks(
    method: str,
    X,
    k: int,
    *,
    groups: np.ndarray | None = None,
    sample_weight: np.ndarray | None = None,
    rng: np.random.RandomState,
    active_rows: Callable[..., np.ndarray] | None = None,
):
    """k landmarks for the rows X: an array, or a CSR matrix for sparse rows of many features.

    Rows on a device stay there, but for those that k-means looks at.

    Parameters
    ----------
    method : one of the table above
    X : array or CSR matrix of shape (n, p)
    k : int
    groups : integer array of shape (n,), optional
        Class, or bin of the target, of each row. Without it all rows are one group.
    sample_weight : array of shape (n,), optional
    rng : RandomState
    active_rows : callable, for "boundary"
        ``active_rows(landmarks, rows, X)`` fits a model with these landmarks to the rows at these
        positions, of which X is a copy here, and returns the mask of those that are active in it.
    """
    n_rows = X.shape[0]
    if k >= n_rows:
        return distinct_rows(here(X[:n_rows]))
    weight = np.ones(n_rows) if sample_weight is None else sample_weight
    if groups is None:
        groups = np.zeros(n_rows, dtype=int)
    if method == "uniform":
        p = to_numpy(weight / weight.sum())
        return here(X[np.sort(rng.choice(n_rows, size=k, replace=False, p=p))])
    if method == "kmeans":
        sample = np.arange(min(n_rows, MAX_KMEANS_ROWS))
    else:
        sample = sample_by_group(groups, rows_looked_at(k, int(groups.max()) + 1), rng)
    rows, weight = here(X[sample]), to_numpy(weight[sample])
    find_active = None
    if active_rows is not None:
        find_active = partial(active_rows, rows=sample, X=rows)
    return landmarks_among(method, rows, k, to_numpy(groups[sample]), weight, rng, find_active)


def landmarks_among(
    method: str,
    X,
    k: int,
    groups: np.ndarray,
    weight: np.ndarray,
    rng: np.random.RandomState,
    active_rows: Callable[[Any], np.ndarray] | None = None,
):
    """k landmarks by k-means over these rows, all of which are looked at.

    For "boundary", ``active_rows(landmarks)`` is the mask of those that a fit leaves active.
    """
    everyone = np.arange(X.shape[0])
    if method == "kmeans":
        groups = np.zeros_like(everyone)
    if method != "boundary" or active_rows is None:
        return _kmeans_by_group(X, everyone, k, groups, weight, rng)
    first = _kmeans_by_group(X, everyone, (k + 1) // 2, groups, weight, rng)
    active = np.flatnonzero(active_rows(first))
    if len(active) == 0 or first.shape[0] >= k:  # nothing to improve, or no room for it
        return first
    second = _kmeans_by_group(X, active, k - first.shape[0], groups, weight, rng)
    return stack_rows(first, second)


def here(rows):
    """Rows as an array or CSR matrix in this process's memory."""
    return to_numpy(rows) if is_tensor(rows) else getattr(rows, "rows", rows)


def more_landmarks(method: str, X, landmarks, k: int, rows: np.ndarray, groups, sample_weight, rng):
    """k landmarks: those given, and more by the method, from the rows at these positions.

    For "boundary" those rows are the ones near it.
    """
    if k >= X.shape[0]:
        return distinct_rows(X)
    n_new = k - landmarks.shape[0]
    if method == "uniform":
        p = sample_weight[rows] / sample_weight[rows].sum()
        new = X[np.sort(rng.choice(rows, size=min(n_new, len(rows)), replace=False, p=p))]
        everything = stack_rows(landmarks, new)
        return X[nearest_places(X, everything)]
    if method == "kmeans":
        groups = np.zeros_like(groups)
    sample = rows[sample_by_group(groups[rows], MAX_KMEANS_ROWS, rng)]
    new = _kmeans_by_group(X, sample, n_new, groups, sample_weight, rng)
    return stack_rows(landmarks, new)


def nearest_places(X, landmarks, taken: np.ndarray | None = None) -> np.ndarray:
    """Positions of the rows of X that are nearest to the landmarks, shape (k,), none of them twice.

    Two landmarks with the same nearest row get that one and the next. No row at the positions
    ``taken`` is given to any, if others are enough.
    """
    free = np.ones(X.shape[0], dtype=bool)
    if taken is not None and len(taken) + landmarks.shape[0] <= len(free):
        free[taken] = False
    places = np.empty(landmarks.shape[0], dtype=int)
    again = np.arange(len(places))
    while len(again) > 0:
        left = np.flatnonzero(free)
        places[again] = left[nearest_points(X if free.all() else X[left], landmarks[again])]
        free[places] = False
        _, first = np.unique(places, return_index=True)
        again = np.setdiff1d(again, first)
    return places


def distinct_rows(X):
    """The rows of X without repetition, in an order that depends on their values only."""
    if not sp.issparse(X):
        return np.unique(X, axis=0)
    X = X.copy()
    X.sum_duplicates()
    X.eliminate_zeros()
    first: dict[bytes, int] = {}
    for row in range(X.shape[0]):
        part = slice(X.indptr[row], X.indptr[row + 1])
        key = X.indices[part].astype(np.int64).tobytes() + X.data[part].tobytes()
        first.setdefault(key, row)
    return X[[first[key] for key in sorted(first)]]


def target_bins(y: Any, n_bins: int = 4) -> Any:
    """Groups for a regression: bins of the (first) target with about equally many rows."""
    target = namespace(y).ravel(y[:, 0])
    edges = bin_edges(to_numpy(target[:: target_step(len(target))]), n_bins)
    return bin_of(target, edges)


def target_step(n_rows: int) -> int:
    """Every so many rows a target is looked at to find the bins."""
    return 1 + n_rows // _MANY_TARGETS


def bin_edges(targets: np.ndarray, n_bins: int = 4) -> np.ndarray:
    return np.quantile(targets, np.linspace(0.0, 1.0, n_bins + 1)[1:-1])


def bin_of(target: Any, edges: np.ndarray) -> Any:
    return namespace(target).searchsorted(like(edges, target), target, side="right")


def sample_by_group(groups, size: int, rng) -> np.ndarray:
    """At most ``size`` rows, in equal shares for each group, so that rare ones are seen."""
    ones = groups * 0 + 1
    counts = to_numpy(bincount(groups, ones, int(groups.max()) + 1)).astype(int)
    parts = [
        to_numpy(nonzero(groups == name)[ordinals])
        for name, ordinals in enumerate(ordinals_by_group(counts, size, rng))
    ]
    return np.sort(np.concatenate(parts))


def ordinals_by_group(counts: np.ndarray, size: int, rng) -> list[np.ndarray]:
    """At most ``size`` rows in equal shares for each group: which of its members, in order.

    The numbers of members are all it takes, so rows that live elsewhere give the same sample.
    """
    shares = _equal_shares(size, counts)
    return [some_of(count, share, rng) for count, share in zip(counts, shares, strict=True)]


def some_of(count: int, size: int, rng) -> np.ndarray:
    """At most ``size`` of the numbers 0, ..., count - 1, in order."""
    if count <= size:
        return np.arange(count)
    if count < _FEW_OF * size:
        return np.sort(rng.permutation(count)[:size])
    # So few of them that it is cheaper to draw until there are enough.
    chosen = np.empty(0, dtype=int)
    while len(chosen) < size:
        chosen = np.unique(np.append(chosen, rng.randint(count, size=size)))
    return np.sort(rng.permutation(chosen)[:size])


def scattered(count: int, size: int, rng) -> np.ndarray:
    """``size`` of the numbers 0, ..., count - 1, in order: one at random of each of equal parts.

    For large samples: the numbers need be neither shuffled nor sorted.
    """
    ends = np.arange(size + 1) * count // max(1, size)
    return ends[:-1] + (rng.random_sample(size) * np.diff(ends)).astype(int)


def _kmeans_by_group(X, rows: np.ndarray, k: int, groups, weight, rng):
    """k landmarks from the given rows, in equal shares for each group among them.

    Where k-means sees a projection of the rows, the most central of them are the landmarks.
    """
    labels = groups[rows]
    names, counts = np.unique(labels, return_counts=True)
    is_projected = sp.issparse(X) and X.shape[1] > _MAX_CENTRE_FEATURES
    points = _projected(X, rng) if is_projected else X.astype(np.float32, copy=False)
    drawn: list[tuple[np.ndarray, np.ndarray | None]] = []
    for name, share in zip(names, _equal_shares(k, counts), strict=True):
        members = rows[labels == name]
        if len(names) > 1:
            most = max(_FEWEST_ROWS, _ROWS_PER_CENTRE * share)
            members = members[some_of(len(members), most, rng)]
        if share > 0:
            some = share < len(members)
            drawn.append((members, first_rows(weight[members], share, rng) if some else None))
    parts: list[Any] = [None] * len(drawn)

    def find(one: slice) -> None:
        members, first = drawn[one.start]
        if first is None:  # every row is a landmark
            parts[one.start] = members if is_projected else distinct_rows(X[members])
            return
        seen = points[members]
        centres = kmeans_centres(seen, first, weight[members], _LLOYD_STEPS, _ROUGH_STEPS)
        if is_projected:
            parts[one.start] = members[central_rows(seen, centres)]
        else:
            parts[one.start] = centres.astype(X.dtype, copy=False)

    distances = [len(members) * (0 if first is None else len(first)) for members, first in drawn]
    is_even = n_threads() * max(distances) <= _EVEN * sum(distances)
    if is_even and points.shape[1] * sum(distances) >= _MUCH * len(parts):
        for_each_slice(len(parts), 1, find)
    else:  # all threads for one group after the other
        for index in range(len(parts)):
            find(slice(index, index + 1))
    return distinct_rows(X[np.concatenate(parts)]) if is_projected else stack_rows(*parts)


def _equal_shares(k: int, counts: np.ndarray) -> np.ndarray:
    """Split k equally among groups; what a small group cannot take goes to the others."""
    shares = np.zeros(len(counts), dtype=int)
    left = min(k, int(counts.sum()))
    while left:
        open_groups = np.flatnonzero(shares < counts)
        each, rest = divmod(left, len(open_groups))
        wanted = np.full(len(open_groups), each)
        # The remainder goes to the largest groups.
        wanted[np.argsort(-counts[open_groups], kind="stable")[:rest]] += 1
        given = np.minimum(wanted, counts[open_groups] - shares[open_groups])
        shares[open_groups] += given
        left -= int(given.sum())
    return shares


def _projected(X: sp.csr_matrix, rng) -> np.ndarray:
    """The rows in few dimensions: every feature is added to, or taken from, one of them.

    Distances are kept in expectation.
    """
    bucket = rng.randint(_PROJECTED_FEATURES, size=X.shape[1])
    sign = rng.choice(np.array([-1.0, 1.0], dtype=np.float32), size=X.shape[1])
    values = X.data.astype(np.float32, copy=False) * sign[X.indices]
    shape = (X.shape[0], _PROJECTED_FEATURES)
    # Several entries for one place are added up.
    return sp.csr_matrix((values, bucket[X.indices], X.indptr), shape=shape).toarray()


def stack_rows(*parts):
    """Rows below each other; sparse where all are."""
    if len(parts) == 1:
        return parts[0]
    if all(sp.issparse(part) for part in parts):
        return sp.vstack(parts).tocsr()
    return np.vstack([part.toarray() if sp.issparse(part) else part for part in parts])

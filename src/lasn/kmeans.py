"""A few steps of Lloyd's k-means, the same centres at every run and on any number of threads.

::

    label_i  = argmin_j |c_j|^2 - 2 <x_i, c_j>          over slices of rows, on all cores
    c_j      = sum_{label_i = j} s_i x_i / sum s_i      one sparse product, rows in order

scikit-learn's k-means adds up what its threads have summed in the order in which they finish. From
three threads on, two runs differ by rounding, a row between two centres goes to the other one, and
a few steps later so do landmarks: the same seed would give another model.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from lasn.kernels import row_norms_squared
from lasn.row_forms import fastest_form
from lasn.threads import even_slices, for_each_slice

# Slices of rows do not depend on the number of threads, and their scores stay in a core's cache.
_SCORES_A_SLICE = 1 << 18
# So many rows for each centre tell where it should go next; fewer do, of so many in all.
_ENOUGH_ROWS, _FEWER_ROWS, _MANY_ROWS = 30, 10, 2000
# Of so few, a product that multiplies with zeros too is the faster one.
_FEW_CENTRES = 16


def kmeans_centres(
    X: Any, first: np.ndarray, weight: np.ndarray, n_steps: int, n_rough: int = 0
) -> np.ndarray:
    """Centres after so many Lloyd steps from the rows at ``first``: float32, shape (k, p).

    Parameters
    ----------
    X : array or CSR matrix of shape (n, p), n >= k
    first : array of shape (k,)
        Positions of rows, see :func:`first_rows`.
    weight : array of shape (n,)
        Of the rows, zero or more.
    n_steps : int
    n_rough : int
        Of the steps, so many look at every other row, if that leaves enough for each centre.
    """
    k = len(first)
    points = fastest_form(X.astype(np.float32, copy=False), n_steps * k)
    # Distances lose no digits to a common offset; that of sparse rows is small.
    origin: Any = np.float32(0.0)
    if not sp.issparse(points):
        origin = points.mean(axis=0, dtype=np.float64).astype(np.float32)
        points = np.subtract(points, origin, out=None if points is X else points)
    squares = row_norms_squared(points)
    centres = _dense(points[first])
    enough = max(_FEWER_ROWS * k, min(_ENOUGH_ROWS * k, _MANY_ROWS))
    other = 2 if len(squares) >= 2 * enough else 1
    for stride, count in ((other, n_rough), (1, n_steps - n_rough)):
        some, share = points[::stride], weight[::stride]
        labels = np.full(len(share), -1)
        for _ in range(count):
            before = labels
            labels, scores = _nearest(some, centres)
            if np.array_equal(labels, before):
                break
            distances = squares[::stride] + scores
            centres = _means(some, share, _without_empty(labels, distances, k), centres)
    return (centres + origin).astype(np.float32)


def first_rows(weight: np.ndarray, k: int, rng) -> np.ndarray:
    """Positions of k rows drawn by their weight, none of them twice."""
    return rng.choice(len(weight), size=k, replace=False, p=weight / weight.sum())


def _nearest(points, centres: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The nearest centre of each row, and |c|^2 - 2 <x, c> of it."""
    n_rows = points.shape[0]
    labels, scores = np.empty(n_rows, dtype=int), np.empty(n_rows, dtype=np.float32)
    doubled = np.ascontiguousarray(-2.0 * centres.T)
    norms = row_norms_squared(centres).astype(np.float32)

    def look(part: slice) -> None:
        values = points[part] @ doubled
        values += norms
        labels[part] = values.argmin(axis=1)
        scores[part] = values[np.arange(len(values)), labels[part]]

    size = even_slices(n_rows, max(64, _SCORES_A_SLICE // len(centres)))
    for_each_slice(n_rows, size, look)
    return labels, scores


def central_rows(points: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Of the rows nearest to each centre, the position of the very nearest: k, none of them twice.

    A centre that is nearest to none gets a row far from all; if that one was another centre's only
    row, there is one less.
    """
    labels, scores = _nearest(points, centres)
    distances = row_norms_squared(points) + scores
    labels = _without_empty(labels, distances, len(centres))
    order = np.lexsort((distances, labels))
    _, first = np.unique(labels[order], return_index=True)
    return order[first]


def nearest_points(X: Any, centres: Any) -> np.ndarray:
    """The position of the row of X that is nearest to each centre, shape (k,)."""
    points, targets = X.astype(np.float32), _dense(centres.astype(np.float32))
    points = fastest_form(points, len(targets))
    sparse = sp.issparse(points)
    if not sparse:
        origin = points.mean(axis=0, dtype=np.float64)
        points, targets = (points - origin).astype(np.float32), targets - origin
    doubled = (-2.0 * targets).astype(np.float32)
    squares = row_norms_squared(points).astype(np.float32)
    n_rows = points.shape[0]
    size = even_slices(n_rows, max(64, _SCORES_A_SLICE // len(targets)))
    nearest = np.empty((-(-n_rows // size), len(targets)), dtype=int)
    scores = np.empty(nearest.shape, dtype=np.float32)

    def look(part: slice) -> None:
        values = (points[part] @ doubled.T).T if sparse else doubled @ points[part].T
        values += squares[part]
        place = values.argmin(axis=1)
        nearest[part.start // size] = part.start + place
        scores[part.start // size] = values[np.arange(len(place)), place]

    for_each_slice(n_rows, size, look)
    return nearest[scores.argmin(axis=0), np.arange(len(targets))]


def _without_empty(labels: np.ndarray, distances: np.ndarray, k: int) -> np.ndarray:
    """The labels, with the rows furthest from their centres given to centres that have none."""
    empty = np.flatnonzero(np.bincount(labels, minlength=k) == 0)
    if len(empty) == 0:
        return labels
    labels = labels.copy()
    labels[np.argsort(-distances, kind="stable")[: len(empty)]] = empty
    return labels


def _means(points, weight: np.ndarray, labels: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Weighted means of the rows of each label; a centre without weight stays where it was."""
    k, n_rows = len(centres), len(labels)
    totals = np.bincount(labels, weight, k)
    shares = (weight / np.where(totals > 0.0, totals, 1.0)[labels]).astype(np.float32)
    if k <= _FEW_CENTRES:
        members = np.zeros((k, n_rows), dtype=np.float32)
        members[labels, np.arange(n_rows)] = shares
    else:  # by columns: scipy's product then goes through the rows once, in their order
        members = sp.csc_matrix((shares, labels, np.arange(n_rows + 1)), shape=(k, n_rows))
    return np.where(totals[:, None] > 0.0, _dense(members @ points), centres)


def _dense(matrix) -> np.ndarray:
    return matrix.toarray() if sp.issparse(matrix) else np.asarray(matrix)

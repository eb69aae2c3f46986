"""One look at all rows that live elsewhere: are they valid, how many, which labels, how spread.

Each chunk is looked at where it is, and what comes back is small. Nothing but this look reads
labels, so that an error in row a million is found before any work is done.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from lasn.arrays import unique_inverse
from lasn.chunks import Chunk, Chunks
from lasn.gamma import column_moments

_ROWS_AT_A_TIME = 1 << 16
# Rows that show what rows are like: their type, and how many entries a sparse one has.
_EXAMPLES = 1000


@dataclass
class Moments:
    """Total weight, and weighted mean and variance of each column, shapes (p,)."""

    weight: float
    mean: np.ndarray
    variance: np.ndarray

    def __add__(self, other: Moments) -> Moments:
        weight = self.weight + other.weight
        if weight == 0.0:
            return self
        share = other.weight / weight
        apart = other.mean - self.mean
        variance = (1.0 - share) * self.variance + share * other.variance
        variance += share * (1.0 - share) * apart**2
        return Moments(weight, self.mean + share * apart, variance)


@dataclass
class ChunkSummary:
    """What a look at one chunk found."""

    n_rows: int
    moments: Moments
    examples: Any
    least_weight: float
    labels: np.ndarray  # the distinct ones, sorted; none for a regression
    weight_of_label: np.ndarray
    target_shape: tuple[int, ...]


@dataclass
class Survey:
    """What a look at all chunks found."""

    n_rows_of_chunk: np.ndarray
    moments: Moments
    examples: Any
    has_zero_weights: bool
    classes: np.ndarray  # none for a regression
    weight_of_class: np.ndarray
    target_shape: tuple[int, ...]  # without the axis of rows

    @property
    def n_features(self) -> int:
        return self.examples.shape[1]


def survey(chunks: Chunks, with_labels: bool) -> Survey:
    """Look at all rows once; a ValueError if something is wrong with them."""
    states, _ = chunks.run(look_at_chunk, shared=(with_labels,))
    found: list[ChunkSummary] = [one for one in chunks.collect(states) if one is not None]
    if not found:
        raise ValueError("Found array with 0 sample(s): there are no rows in X.")
    first = found[0]
    for one in found:
        if one.examples.shape[1] != first.examples.shape[1]:
            raise ValueError(
                f"Some rows of X have {first.examples.shape[1]} features and some have "
                f"{one.examples.shape[1]}; all must have the same."
            )
        if one.target_shape != first.target_shape:
            raise ValueError(
                f"Some rows of y have shape {first.target_shape} and some {one.target_shape}."
            )
    moments = first.moments
    for one in found[1:]:
        moments = moments + one.moments
    if moments.weight == 0.0:
        raise ValueError("sample_weight is zero for every row; at least one must be positive.")
    classes = np.unique(np.concatenate([one.labels for one in found]))
    totals = np.zeros(len(classes))
    for one in found:
        totals[np.searchsorted(classes, one.labels)] += one.weight_of_label
    counts = iter(found)
    sizes = [0 if one is None else next(counts).n_rows for one in chunks.collect(states)]
    return Survey(
        n_rows_of_chunk=np.array(sizes),
        moments=moments,
        examples=first.examples,
        has_zero_weights=min(one.least_weight for one in found) == 0.0,
        classes=classes,
        weight_of_class=totals,
        target_shape=first.target_shape,
    )


def look_at_chunk(chunk: Chunk, with_labels: bool) -> tuple[ChunkSummary | None, tuple]:
    """Check all rows of a chunk and sum them up; None if there are none."""
    n_rows = chunk.n_rows
    if len(chunk.y) != n_rows:
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: a chunk of X has "
            f"{n_rows} rows and that of y {len(chunk.y)}. Chunk both alike."
        )
    if n_rows == 0:
        return None, ()
    weight = chunk_weight(chunk)
    y = np.asarray(chunk.y[:])
    labels = weight_of_label = np.empty(0)
    if with_labels:
        labels, weight_of_label = _weigh_labels(y, weight)
    else:
        _check_finite("y", np.asarray(y, dtype=np.float64))
    summary = ChunkSummary(
        n_rows=n_rows,
        moments=_moments_of_chunk(chunk, weight),
        examples=chunk.X[:_EXAMPLES],
        least_weight=float(weight.min()),
        labels=labels,
        weight_of_label=weight_of_label,
        target_shape=y.shape[1:],
    )
    return summary, ()


def weighted_moments(chunks: Chunks, weight: list[Any]) -> Moments:
    """The moments of all rows under other weights, which are states."""
    states, _ = chunks.run(_weighted_moments, weight)
    first, *others = [one for one in chunks.collect(states) if one is not None]
    for one in others:
        first = first + one
    return first


def _weighted_moments(chunk: Chunk, weight: np.ndarray) -> tuple[Moments | None, tuple]:
    return (None if chunk.n_rows == 0 else _moments_of_chunk(chunk, weight)), ()


def _moments_of_chunk(chunk: Chunk, weight: np.ndarray) -> Moments:
    n_features = chunk.X.shape[1]
    moments = Moments(0.0, np.zeros(n_features), np.zeros(n_features))
    for start in range(0, chunk.n_rows, _ROWS_AT_A_TIME):
        rows = slice(start, min(start + _ROWS_AT_A_TIME, chunk.n_rows))
        moments = moments + _moments(chunk.X[rows], weight[rows])
    return moments


def chunk_weight(chunk: Chunk) -> np.ndarray:
    """The weights of the chunk's rows, shape (n,), checked."""
    from lasn.targets import check_sample_weight

    if chunk.sample_weight is None:
        return np.ones(chunk.n_rows)
    weight = np.asarray(chunk.sample_weight[:], dtype=np.float64)
    if weight.shape == (chunk.n_rows,) and not weight.any():
        return weight  # zero for all rows of a chunk is no error
    return check_sample_weight(weight, np.empty((chunk.n_rows, 1)))


def _moments(X: Any, weight: np.ndarray) -> Moments:
    if X.dtype.kind not in "fiub":
        raise ValueError(f"X has type {X.dtype}; every feature must be a number.")
    _check_finite("X", X.data if sp.issparse(X) else X)
    total = float(weight.sum())
    if total == 0.0:
        return Moments(0.0, np.zeros(X.shape[1]), np.zeros(X.shape[1]))
    return Moments(total, *column_moments(X, weight))


def _weigh_labels(y: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise ValueError(f"y should be a 1d array, got an array of shape {y.shape} instead.")
    if y.dtype.kind == "f":
        _check_finite("y", y)
    labels, codes = unique_inverse(y)
    return labels, np.bincount(codes, weight, len(labels))


def _check_finite(name: str, values: np.ndarray) -> None:
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        kind = "NaN" if np.isnan(values).any() else "infinity"
        raise ValueError(f"Input {name} contains {kind}; every value must be finite.")

"""Rows that are not arrays: found for a fit, and mapped over for predictions.

Files, folders and batches are in ``streams.py``, Dask's collections in ``cluster.py``.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import wraps
from typing import Any

import numpy as np

from lasn.chunks import Chunks
from lasn.row_files import FileRows
from lasn.streams import Batch, gather, local_chunks, open_arrays, open_stream

_ROWS_AT_A_TIME = 1 << 16


@dataclass
class FoundRows:
    """What a user gave to fit: arrays as they were given, or chunks where rows live elsewhere."""

    X: Any
    y: Any
    sample_weight: Any
    names: list[str] | None = None
    chunks: Chunks | None = None


def find_rows(X, y, sample_weight, memory_limit, device=None) -> FoundRows:
    """Open files, gather batches, or find the chunks of a Dask collection.

    Memory-mapped arrays stay arrays for a torch device, which streams them itself.
    """
    if is_dask(X):
        from lasn.cluster import find_chunks

        return find_chunks(X, y, sample_weight, memory_limit)
    stream = open_stream(X, y, sample_weight)
    names = None
    if stream is not None:
        gathered = gather(stream, memory_limit)
        X, y, sample_weight = gathered.X, gathered.y, gathered.sample_weight
        names = gathered.names
        if not gathered.on_disk:
            return FoundRows(X, y, sample_weight, names)
    else:
        X, y, sample_weight = open_arrays(X, y, sample_weight, memory_limit, device)
        if not isinstance(X, FileRows):
            return FoundRows(X, y, sample_weight)
    for name, values in (("y", y), ("sample_weight", sample_weight)):
        if values is not None and len(values) != X.shape[0]:
            raise ValueError(
                "Found input variables with inconsistent numbers of samples: X has "
                f"{X.shape[0]} rows and {name} has {len(values)}."
            )
    if y is None:
        raise ValueError("y is None; rows on disk need targets to be fitted to.")
    chunks = local_chunks(X, y, sample_weight, memory_limit)
    return FoundRows(None, None, None, names, chunks)


def is_dask(X: Any) -> bool:
    """Whether X is a Dask array or dataframe; Dask is not imported to find out."""
    return "dask" in sys.modules and hasattr(X, "__dask_graph__") and hasattr(X, "ndim")


def anywhere(method: Callable) -> Callable:
    """Let a method of rows take what :func:`find_rows` takes: predictions for all of it.

    Files and batches give an array; Dask's collections give a lazy one.
    """

    @wraps(method)
    def call(self, X):
        if type(X) is np.ndarray:
            return method(self, X)
        if is_dask(X):
            from lasn.cluster import map_rows

            return map_rows(self, method.__name__, X)
        batches = batches_of(X, self)
        if batches is None:
            return method(self, X)
        with warnings.catch_warnings():
            # Columns of a file were chosen by their names.
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            return np.concatenate([method(self, batch.X) for batch in batches])

    return call


def batches_of(X, estimator, y=None, sample_weight=None) -> Iterator[Batch] | None:
    """Batches of rows for a fitted estimator; None if X is an array or the like."""
    names = getattr(estimator, "feature_names_in_", None)
    stream = open_stream(X, y, sample_weight, features=None if names is None else list(names))
    if stream is not None:
        return stream.batches_for(estimator.n_features_in_)
    device = None if estimator.device == "cpu" else estimator.device
    rows, y, sample_weight = open_arrays(X, y, sample_weight, estimator.memory_limit, device)
    return None if rows is X else _slices(rows, y, sample_weight)


def _slices(X, y, sample_weight) -> Iterator[Batch]:
    for start in range(0, X.shape[0], _ROWS_AT_A_TIME):
        rows = slice(start, start + _ROWS_AT_A_TIME)
        yield Batch(X[rows], *(None if one is None else one[rows] for one in (y, sample_weight)))


@dataclass
class ScoreSums:
    """What accuracy and R^2 are made of, added up over batches of rows."""

    sums: np.ndarray  # of w, w [p = y]; or, one column a target, of w, w y, w y^2, w (y - p)^2

    @classmethod
    def of_labels(cls, y, predicted, weight) -> ScoreSums:
        weight = np.ones(len(y)) if weight is None else np.asarray(weight, dtype=np.float64)
        hits = np.asarray(y).reshape(len(y)) == predicted
        return cls(np.array([weight.sum(), weight @ hits]))

    @classmethod
    def of_targets(cls, y, predicted, weight) -> ScoreSums:
        y = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
        error = y - np.asarray(predicted, dtype=np.float64).reshape(len(y), -1)
        weight = np.ones(len(y)) if weight is None else np.asarray(weight, dtype=np.float64)
        rows = (np.ones_like(y), y, y * y, error * error)
        return cls(np.array([weight @ one for one in rows]))

    def __add__(self, other: ScoreSums) -> ScoreSums:
        return ScoreSums(self.sums + other.sums)

    def score(self) -> float:
        """Accuracy, or R^2 averaged over the targets."""
        if self.sums.ndim == 1:
            return float(self.sums[1] / self.sums[0])
        total, first, second, residual = self.sums
        spread = second - first**2 / total
        # scikit-learn's convention for a constant target.
        constant = np.where(residual == 0.0, 1.0, 0.0)
        r2 = 1.0 - np.divide(residual, spread, out=np.ones_like(spread), where=spread > 0.0)
        return float(np.mean(np.where(spread > 0.0, r2, constant)))


def score_elsewhere(estimator, X, y, sample_weight, sums: Callable[..., ScoreSums]) -> Any:
    """The score over files or batches, or a lazy one over Dask's; None if X is an array."""
    if is_dask(X):
        from lasn.cluster import score_rows

        return score_rows(estimator, X, y, sample_weight, sums)
    batches = batches_of(X, estimator, y, sample_weight)
    if batches is None:
        return None
    total: ScoreSums | None = None
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        for batch in batches:
            part = sums(batch.y, estimator.predict(batch.X), batch.sample_weight)
            total = part if total is None else total + part
    return total.score() if total is not None else float("nan")

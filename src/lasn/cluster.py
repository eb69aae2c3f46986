"""Rows on a Dask cluster: Dask's arrays and dataframes on the active ``distributed.Client``.

Workers hold the chunks, their features and all that has an entry for every row, as futures. A call
sends what is shared, a few arrays of the model's size, and its sums come back through a tree. What
a worker held when it died is computed again from where it came, by others.

Without a client, rows are brought here chunk by chunk (``streams.py``).
"""

from __future__ import annotations

import math
import pickle
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from lasn.blocks import add_sums
from lasn.chunks import Chunk, LazySums
from lasn.elsewhere import FoundRows, ScoreSums
from lasn.memory import parse_memory_limit, physical_memory
from lasn.streams import Stream, gather, local_chunks
from lasn.threads import one_thread, serial_products

# Sums are added in groups of this many, so that no worker and not the client gets all of them.
_BRANCHES = 8
# More chunks than this for each thread only cost messages: neighbours are joined.
_CHUNKS_A_THREAD = 2
# Values above this size are sent once, not with every call.
_SMALL = 100_000
# The part of a worker's memory that features may take; Dask begins to spill at 60 %.
_FEATURES_SHARE = 0.35


class DaskChunks:
    """Chunks that are futures; :class:`lasn.chunks.Chunks` on a cluster.

    Parameters
    ----------
    client : distributed.Client
    chunks : list of futures of Chunk
    """

    def __init__(self, client: Any, chunks: list[Any]):
        self.client, self.chunks = client, chunks
        self.n_chunks = len(chunks)
        self.bytes_moved = 0
        self._sent: dict[int, tuple[Any, Any]] = {}

    def run(self, function, *states, shared=()):
        shared = self._send(shared)
        self.bytes_moved += self.n_chunks * _pickled_size(shared)
        outcomes = [
            self._submit(_call, function, chunk, [state[index] for state in states], shared)
            for index, chunk in enumerate(self.chunks)
        ]
        return outcomes, LazySums(lambda: self._add_up(outcomes))

    def collect(self, states):
        return self._gather([self._submit(_state_of, state) for state in states])

    def share(self, value):
        if value is None:
            return None
        self.bytes_moved += _pickled_size(value)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sending large graph")
            # Not scattered: this the scheduler can send again when all who had it are gone.
            return self._submit(_same, value)

    def memory_for_features(self, limit, reserved):
        workers = _workers(self.client)
        sizes = [worker.get("memory_limit") or physical_memory() for worker in workers.values()]
        if limit is not None:
            sizes = [min(size, parse_memory_limit(limit)) for size in sizes]
        return int(sum(max(_FEATURES_SHARE * size - reserved, 0.05 * size) for size in sizes))

    def judge(self, n_bytes, tell):
        return None  # Dask spills what does not fit by itself

    def _submit(self, function: Callable, *arguments: Any) -> Any:
        return self.client.submit(function, *arguments, pure=False)

    def _send(self, value: Any) -> Any:
        """The value, with futures in the place of large arrays; one that comes again is reused."""
        if isinstance(value, tuple):
            return tuple(self._send(part) for part in value)
        if not isinstance(value, np.ndarray) or value.nbytes <= _SMALL:
            return value
        known = self._sent.get(id(value))
        if known is None or known[0] is not value:
            while len(self._sent) >= 2:
                self._sent.pop(next(iter(self._sent)))
            known = self._sent[id(value)] = (value, self.share(value))
        return known[1]

    def _add_up(self, outcomes: list[Any]) -> tuple[np.ndarray, ...]:
        parts = [self._submit(_sums_of, outcome) for outcome in outcomes]
        while len(parts) > 1:
            parts = [
                self._submit(_total, parts[start : start + _BRANCHES])
                for start in range(0, len(parts), _BRANCHES)
            ]
        (sums,) = self._gather(parts)
        self.bytes_moved += sum(part.nbytes for part in sums)
        return sums

    def _gather(self, futures: list[Any]) -> list[Any]:
        from distributed.scheduler import KilledWorker

        try:
            return self.client.gather(futures)
        except (KilledWorker, MemoryError) as error:
            raise MemoryError(self._out_of_memory()) from error

    def _out_of_memory(self) -> str:
        limits = [worker.get("memory_limit") or 0 for worker in _workers(self.client).values()]
        size = "" if not limits else f" of {max(limits) / 1e9:.2g} GB"
        return (
            f"Workers{size} were lost again and again while they worked on one of the "
            f"{self.n_chunks} chunks of X, most likely for want of memory. Give X smaller chunks "
            "(X.rechunk, or more partitions), the workers more memory, or set a lower memory_limit "
            "or n_landmarks."
        )


@dataclass
class _Outcome:
    """What a call left at its chunk."""

    state: Any
    sums: tuple

    def __sizeof__(self) -> int:
        from dask.sizeof import sizeof

        return int(sizeof(self.state)) + int(sizeof(self.sums))


# What workers run.


def _call(function: Callable, chunk: Chunk, states: list[Any], shared: tuple) -> _Outcome:
    states = [one.state if isinstance(one, _Outcome) else one for one in states]
    with serial_products(), one_thread():  # a worker's threads have a chunk each
        return _Outcome(*function(chunk, *states, *shared))


def _state_of(outcome: _Outcome) -> Any:
    return outcome.state


def _sums_of(outcome: _Outcome) -> tuple:
    return outcome.sums


def _total(parts: list[tuple]) -> tuple:
    total: list[np.ndarray] = []
    for sums in parts:
        add_sums(total, sums)
    return tuple(total)


def _same(value: Any) -> Any:
    return value


def _join(Xs: list[Any], ys: list[Any], weights: list[Any] | None) -> Chunk:
    """Neighbouring parts of the collections as one chunk of arrays."""
    rows = [_rows(X) for X in Xs]
    stack = (lambda parts: sp.vstack(parts, format="csr")) if sp.issparse(rows[0]) else np.vstack
    X = rows[0] if len(rows) == 1 else stack(rows)
    y = np.concatenate([np.asarray(part) for part in ys])
    weight = None
    if weights is not None:
        weight = np.concatenate([np.asarray(part) for part in weights])
    return Chunk(X, y, weight)


def _rows(part: Any) -> Any:
    """A chunk of a collection as an array or CSR matrix of floating point numbers."""
    if hasattr(part, "tocsr"):
        part = part.tocsr()
    elif hasattr(part, "to_numpy"):
        part = part.to_numpy()
    else:
        part = np.asarray(part)
    return part if part.dtype in (np.float32, np.float64) else part.astype(np.float64)


def _predict_part(part: Any, estimator: Any, method: str) -> Any:
    rows = part if hasattr(part, "columns") else _rows(part)
    with serial_products(), one_thread():
        return getattr(estimator, method)(rows)


def _score_part(part: Any, y: Any, weight: Any, estimator: Any, sums: Callable) -> ScoreSums:
    return sums(np.asarray(y), _predict_part(part, estimator, "predict"), weight)


def _final_score(parts: list[ScoreSums]) -> float:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total.score()


# What the client does.


def find_chunks(X: Any, y: Any, sample_weight: Any, memory_limit: Any) -> FoundRows:
    """The chunks of Dask's collections on the active client; brought here if there is none."""
    if y is None:
        raise ValueError("y is None; give a Dask array or series with the target of each row.")
    X_parts, y_parts, weight_parts = _aligned(X, y, sample_weight)
    names = _names(X)
    client = active_client()
    if client is None:
        stream = Stream(_computed(X_parts, y_parts, weight_parts))
        found = gather(stream, memory_limit)
        if not found.on_disk:
            return FoundRows(found.X, found.y, found.sample_weight, names)
        chunks: Any = local_chunks(found.X, found.y, found.sample_weight, memory_limit)
        return FoundRows(None, None, None, names, chunks)
    n_threads = sum(worker["nthreads"] for worker in _workers(client).values())
    size = math.ceil(len(X_parts) / max(1, _CHUNKS_A_THREAD * n_threads))
    parts = [X_parts, y_parts, *([] if weight_parts is None else [weight_parts])]
    futures = [client.compute(part) for part in parts]
    joined = []
    for start in range(0, len(X_parts), size):
        some = [part[start : start + size] for part in futures]
        weights = some[2] if len(some) == 3 else None
        joined.append(client.submit(_join, some[0], some[1], weights, pure=False))
    return FoundRows(None, None, None, names, DaskChunks(client, joined))


def map_rows(estimator: Any, method: str, X: Any) -> Any:
    """The method's values for all rows: a lazy Dask array with X's chunks."""
    import dask
    import dask.array as da

    parts = _delayed_rows(X)
    shared = dask.delayed(estimator, traverse=False)
    example = getattr(estimator, method)(_example(X, estimator))
    lengths: list[Any] = _lengths(X) or [math.nan] * len(parts)
    run = dask.delayed(_predict_part)
    blocks = [
        da.from_delayed(run(part, shared, method), (length, *example.shape[1:]), meta=example[:0])
        for part, length in zip(parts, lengths, strict=True)
    ]
    return da.concatenate(blocks, allow_unknown_chunksizes=True)


def score_rows(estimator: Any, X: Any, y: Any, sample_weight: Any, sums: Callable) -> Any:
    """The score as a lazy (delayed) number."""
    import dask

    X_parts, y_parts, weight_parts = _aligned(X, y, sample_weight)
    weights = [None] * len(X_parts) if weight_parts is None else weight_parts
    shared = dask.delayed(estimator, traverse=False)
    run = dask.delayed(_score_part)
    scores = [
        run(part, target, weight, shared, sums)
        for part, target, weight in zip(X_parts, y_parts, weights, strict=True)
    ]
    return dask.delayed(_final_score)(scores)


def active_client() -> Any:
    """The ``distributed.Client`` in use, None if there is none."""
    try:
        from distributed import get_client
    except ImportError:
        return None
    try:
        return get_client()
    except ValueError:
        return None


def _workers(client: Any) -> dict[str, Any]:
    try:
        return client.scheduler_info(n_workers=-1)["workers"]
    except TypeError:  # before 2025 there is no such argument
        return client.scheduler_info()["workers"]


def _aligned(X: Any, y: Any, sample_weight: Any) -> tuple[list, list, list | None]:
    """Delayed parts of all three with the same rows in each."""
    parts = _delayed_rows(X)
    return (
        parts,
        _parts_like(y, X, "y"),
        (None if sample_weight is None else _parts_like(sample_weight, X, "sample_weight")),
    )


def _delayed_rows(X: Any) -> list[Any]:
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got {X.ndim}D array instead, as X.")
    if hasattr(X, "rechunk") and X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    return list(np.ravel(X.to_delayed()))


def _parts_like(values: Any, X: Any, name: str) -> list[Any]:
    lengths = _lengths(X)
    if not hasattr(values, "__dask_graph__"):
        values = np.asarray(values)
        if lengths is None:
            raise ValueError(
                f"The chunks of X have unknown lengths, so {name} must be a Dask collection with "
                "the same partitions."
            )
        if len(values) != sum(lengths):
            raise ValueError(
                f"Found input variables with inconsistent numbers of samples: X has {sum(lengths)} "
                f"rows and {name} has {len(values)}."
            )
        return np.split(values, np.cumsum(lengths)[:-1])
    if values.ndim == 2 and hasattr(values, "rechunk") and values.numblocks[1] > 1:
        values = values.rechunk({1: -1})
    if lengths is not None and _lengths(values) not in (None, lengths):
        if len(values) != sum(lengths):
            raise ValueError(
                f"Found input variables with inconsistent numbers of samples: X has {sum(lengths)} "
                f"rows and {name} has {len(values)}."
            )
        values = values.rechunk({0: tuple(lengths)})
    parts = list(np.ravel(values.to_delayed()))
    if len(parts) != len(_delayed_rows(X)):
        raise ValueError(
            f"X has {len(_delayed_rows(X))} chunks and {name} has {len(parts)}; their rows cannot "
            "be told apart. Repartition both alike, or compute their chunk sizes."
        )
    return parts


def _lengths(values: Any) -> list[int] | None:
    """Rows of each chunk of an array; None where Dask does not know them."""
    chunks = getattr(values, "chunks", None)
    if chunks is None or any(math.isnan(length) for length in chunks[0]):
        return None
    return [int(length) for length in chunks[0]]


def _names(X: Any) -> list[str] | None:
    columns = getattr(X, "columns", None)
    if columns is None or not all(isinstance(name, str) for name in columns):
        return None
    return list(columns)


def _example(X: Any, estimator: Any) -> Any:
    """One row like those of X."""
    if hasattr(X, "columns"):
        import pandas as pd

        return pd.DataFrame(np.zeros((1, len(X.columns))), columns=list(X.columns))
    dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.float64
    return np.zeros((1, X.shape[1]), dtype)


def _computed(X_parts: list, y_parts: list, weight_parts: list | None) -> Iterator[tuple]:
    """The chunks one after the other, computed by Dask here."""
    import dask

    weights = [None] * len(X_parts) if weight_parts is None else weight_parts
    for X, y, weight in zip(X_parts, y_parts, weights, strict=True):
        rows, target, weight = dask.compute(X, y, weight)
        chunk = _join([rows], [target], None if weight is None else [weight])
        yield (chunk.X, chunk.y) if weight is None else (chunk.X, chunk.y, chunk.sample_weight)


def _pickled_size(value: Any) -> int:
    return len(pickle.dumps(_without_futures(value), protocol=5))


def _without_futures(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_without_futures(part) for part in value)
    return None if type(value).__name__ == "Future" else value

"""What a user may give for X beside arrays: files, folders, batches, memory-mapped arrays.

============================ ========================================= ========================
X                            y                                         sample_weight
============================ ========================================= ========================
a ``.npy`` file's path       a ``.npy`` file's path, or an array       the same
Parquet, Arrow, CSV, TSV     the name of the target's column           a column's name, or None
a folder of Parquet files    the name of the target's column           a column's name, or None
svmlight, ``.npz``           None: it is in the file                   None
an iterable of batches       None: batches are (X, y) or               None
                             (X, y, sample_weight)
``numpy.memmap``             an array                                  an array
============================ ========================================= ========================

A stream is gone through once. Rows that take up no more than a quarter of what ``memory_limit``
leaves are gathered in memory and are an array like any other; more of them go to a temporary file,
in binary, from which they are read as often as the fit needs them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from glob import escape, glob
from typing import Any

import numpy as np
import scipy.sparse as sp

from lasn.chunks import Chunk, LocalChunks
from lasn.memory import parse_memory_limit, resident_memory
from lasn.row_files import FileRows, RowFile, SparseFileRows, rows_of_mapped_array

# Rows up to this part of what is left of the memory limit are gathered in memory.
_SHARE_IN_MEMORY = 0.25
# The part that states of rows may take: predictions and the like.
_SHARE_OF_STATES = 0.2
# A chunk has about this many numbers: enough to keep all cores busy for a while.
_CHUNK_ROWS = 1 << 18
_CHUNK_BYTES = 256 << 20


@dataclass
class Batch:
    """Some rows; ``y`` and ``sample_weight`` may be None."""

    X: Any
    y: Any = None
    sample_weight: Any = None


@dataclass
class Gathered:
    """All rows of a stream, each part in memory or on disk."""

    X: Any
    y: Any
    sample_weight: Any
    names: list[str] | None

    @property
    def on_disk(self) -> bool:
        return isinstance(self.X, (FileRows, SparseFileRows))


class Stream:
    """Batches of rows, and the names of their columns if they have any."""

    names: list[str] | None = None
    is_svmlight = False

    def __init__(self, batches: Iterable[Any]):
        self.given = batches

    def batches(self) -> Iterator[Batch]:
        for given in self.given:
            if isinstance(given, tuple) and 1 <= len(given) <= 3:
                yield Batch(*(_plain(part) for part in given))
            elif isinstance(given, tuple):
                raise ValueError(
                    f"A batch has {len(given)} parts; give (X, y) or (X, y, sample_weight)."
                )
            else:
                yield Batch(_plain(given))

    def batches_for(self, n_features: int) -> Iterator[Batch]:
        """Batches for a model of so many features."""
        return self.batches()


class FileStream(Stream):
    """The rows of a table's file, or of all Parquet files in a folder, in the order of names."""

    def __init__(self, path: str, target: str | None, weight: str | None, features=None):
        self.paths = _files_of(path)
        self.target, self.weight = target, weight
        self.features = features
        self.svmlight: dict[str, Any] = {}
        with closing(self._open(self.paths[0])) as table:
            self.is_svmlight = table.own_target is not None and table.columns is None
            if table.columns is not None:
                self.names = self._choose(table, features)
        self.has_names = self.names is not None and table.named

    def _open(self, path: str) -> Any:
        from lasn.tables import open_table

        return open_table(path, **self.svmlight)

    def batches_for(self, n_features: int) -> Iterator[Batch]:
        if self.is_svmlight:
            self.svmlight = {"n_features": n_features, "index_base": 1}
        return self.batches()

    def _choose(self, table, features) -> list[str]:
        from lasn.tables import DataError

        kinds = {column.name: column.is_text for column in table.columns}
        for wanted in (self.target, self.weight):
            if wanted is not None and wanted not in kinds:
                listed = ", ".join(list(kinds)[:10]) + (", ..." if len(kinds) > 10 else "")
                raise DataError(
                    table.path, f"there is no column {wanted!r}.", f"The columns are {listed}."
                )
        left_out = {self.target, self.weight}
        chosen = features or [name for name in kinds if name not in left_out]
        for name in chosen:
            if name not in kinds:
                raise DataError(
                    table.path, f"there is no column {name!r}.", "The model was fitted to it."
                )
            if kinds[name]:
                raise DataError(
                    table.path,
                    "the values are text.",
                    "Encode them as numbers (lasn train does so), or leave the column out.",
                    column=name,
                )
        self.target_is_text = self.target is not None and kinds[self.target]
        return chosen

    def batches(self) -> Iterator[Batch]:
        from lasn.tables import Selection, in_order

        for path in self.paths:
            with closing(self._open(path)) as table:
                if self.names is None:
                    selection = Selection(target=table.own_target)
                    yield from (Batch(rows.X, rows.y) for rows in in_order(table, selection, _same))
                    continue
                names = tuple(self.names) + (() if self.weight is None else (self.weight,))
                target = self.target or table.own_target
                is_text = self.target is not None and self.target_is_text
                selection = Selection(names, target=target, target_is_text=is_text)
                for rows in in_order(table, selection, _same):
                    if self.weight is None:
                        yield Batch(rows.X, rows.y)
                    else:
                        yield Batch(rows.X[:, :-1], rows.y, rows.X[:, -1])


def open_stream(X, y=None, sample_weight=None, features=None) -> Stream | None:
    """The stream that X stands for; None if it is an array or the like.

    ``features`` are the names of the columns that a fitted model wants.
    """
    if isinstance(X, (str, os.PathLike)):
        path = os.fspath(X)
        if _is_npy(path):
            return None
        for name, value in (("y", y), ("sample_weight", sample_weight)):
            if value is not None and not isinstance(value, str):
                raise ValueError(
                    f"X is the file {path}; {name} must be the name of one of its columns, or None "
                    f"where the format has it. It is {type(value).__name__}."
                )
        return FileStream(path, y, sample_weight, features)
    if _is_batches(X):
        if y is not None or sample_weight is not None:
            raise ValueError(
                "X is an iterable of batches, which hold y and sample_weight themselves: give "
                "(X, y) or (X, y, sample_weight) tuples, and leave the arguments out."
            )
        return Stream(X)
    return None


def open_arrays(X, y, sample_weight, limit, device=None) -> tuple[Any, Any, Any]:
    """Arrays for the paths of ``.npy`` files; X as rows on disk where it is mapped and large.

    Everything else comes back as it is.
    """
    paths = [one for one in (X, y, sample_weight) if isinstance(one, (str, os.PathLike))]
    if isinstance(X, (str, os.PathLike)) and all(_is_npy(os.fspath(path)) for path in paths):
        X, y, sample_weight = (_load(one) for one in (X, y, sample_weight))
    if device is None and isinstance(X, np.memmap) and X.nbytes > _room_in_memory(limit):
        rows = rows_of_mapped_array(X)
        if rows is not None and X.dtype in (np.float32, np.float64):
            X = rows
    return X, y, sample_weight


def _room_in_memory(limit) -> int:
    return int(_SHARE_IN_MEMORY * max(0, parse_memory_limit(limit) - resident_memory()))


def _load(path: Any) -> Any:
    return np.load(path, mmap_mode="r") if isinstance(path, (str, os.PathLike)) else path


def gather(stream: Stream, limit) -> Gathered:
    """Go through a stream: its rows in memory, or on disk if they are many."""
    store = _Store(_room_in_memory(limit))
    for batch in stream.batches():
        store.add(batch)
    return store.gathered(stream)


def local_chunks(X, y, sample_weight, limit) -> LocalChunks:
    """Rows on disk as chunks; y and weights may be in memory."""
    row_bytes = X.dtype.itemsize * X.shape[1]
    if isinstance(X, SparseFileRows):
        row_bytes = 1 + (X.dtype.itemsize + 4) * X.nnz // max(1, X.shape[0])
    size = max(1, min(_CHUNK_ROWS, _CHUNK_BYTES // row_bytes))
    chunks = []
    for start in range(0, X.shape[0], size):
        rows = slice(start, min(start + size, X.shape[0]))
        weight = None if sample_weight is None else _part(sample_weight, rows)
        chunks.append(Chunk(X.part(rows), _part(y, rows), weight))
    return LocalChunks(chunks, int(_SHARE_OF_STATES * parse_memory_limit(limit)))


class _Store:
    """Rows as they come: in memory, and from a limit on in a file."""

    def __init__(self, limit: int):
        self.limit = limit
        self.held: list[Batch] = []
        self.n_rows = self.n_bytes = self.n_features = 0
        self.files: dict[str, RowFile] = {}
        self.counts: list[np.ndarray] = []  # non-zeros of each row, of sparse batches
        self.dtypes: dict[str, Any] = {}
        self.shapes: dict[str, tuple] = {}
        self.codes: dict[Any, int] = {}  # labels that are text, by number
        self.is_sparse = False

    def add(self, batch: Batch) -> None:
        X = batch.X
        if getattr(X, "ndim", 2) != 2:
            raise ValueError(f"Expected 2D array, got {X.ndim}D array instead, as X of a batch.")
        if batch.y is None:
            raise ValueError("A batch has no y; give (X, y) tuples, or the target's column.")
        if len(batch.y) != X.shape[0]:
            raise ValueError(
                "Found input variables with inconsistent numbers of samples: a batch has "
                f"{X.shape[0]} rows of X and {len(batch.y)} of y."
            )
        if self.n_rows and X.shape[1] != self.n_features and not sp.issparse(X):
            raise ValueError(
                f"A batch has {X.shape[1]} features; those before it have {self.n_features}."
            )
        self.n_features = max(self.n_features, X.shape[1])
        self.n_rows += X.shape[0]
        if sp.issparse(X):
            self.n_bytes += X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
        else:
            self.n_bytes += X.nbytes
        self.held.append(batch)
        if self.files or self.n_bytes > self.limit:
            for one in self.held:
                self._write(one)
            self.held = []

    def gathered(self, stream: Stream) -> Gathered:
        if self.n_rows == 0:
            raise ValueError("Found array with 0 sample(s): there are no rows in X.")
        names = stream.names if getattr(stream, "has_names", False) else None
        if not self.files:
            parts, self.held = self.held, []
            weight = None
            if parts[0].sample_weight is not None:
                weight = np.concatenate([one.sample_weight for one in parts])
            y = np.concatenate([one.y for one in parts])
            rows = [one.X for one in parts]
            del parts
            from lasn.tables.reading import stack_rows

            X = stack_rows(rows)
            if stream.is_svmlight and _counts_from_one(X):
                X = X[:, 1:]
            return Gathered(X, y, weight, names)
        return Gathered(self._rows(stream), self._column("y"), self._column("weight"), names)

    def _write(self, batch: Batch) -> None:
        X = batch.X
        if sp.issparse(X):
            self.is_sparse = True
            X = X.tocsr()
            self._append("values", X.data)
            self._append("indices", X.indices.astype(np.int32, copy=False))
            self.counts.append(np.diff(X.indptr))
        else:
            self._append("values", X)
        self._append_targets(np.asarray(batch.y))
        if batch.sample_weight is not None:
            self._append("weight", np.asarray(batch.sample_weight, dtype=np.float64))

    def _append_targets(self, y: np.ndarray) -> None:
        if y.dtype.kind in "OUS":
            names, numbers = np.unique(y.astype(str), return_inverse=True)
            codes = [self.codes.setdefault(name, len(self.codes)) for name in names.tolist()]
            y = np.array(codes)[numbers]
        else:
            self.dtypes["labels"] = np.result_type(self.dtypes.get("labels", y.dtype), y.dtype)
        self._append("y", y.astype(np.float64))

    def _append(self, name: str, values: np.ndarray) -> None:
        if name not in self.files:
            self.files[name] = RowFile()
            self.dtypes[name], self.shapes[name] = values.dtype, values.shape[1:]
        self.files[name].append(values.astype(self.dtypes[name], copy=False))

    def _file_rows(self, name: str, length: int) -> FileRows:
        return FileRows(self.files[name], 0, (length, *self.shapes[name]), self.dtypes[name])

    def _rows(self, stream: Stream) -> Any:
        if not self.is_sparse:
            return self._file_rows("values", self.n_rows)
        ends = np.concatenate([[0], np.cumsum(np.concatenate(self.counts), dtype=np.int64)])
        values = self._file_rows("values", int(ends[-1]))
        indices = self._file_rows("indices", int(ends[-1]))
        shift = int(stream.is_svmlight and _least(indices) > 0)
        return SparseFileRows(values, indices, ends, self.n_features - shift, shift)

    def _column(self, name: str) -> Any:
        if name not in self.files:
            return None
        rows = self._file_rows(name, self.n_rows)
        if name == "y" and self.codes:
            return StoredLabels(rows, np.array(list(self.codes)))
        return StoredLabels(rows, self.dtypes["labels"]) if name == "y" else rows


class StoredLabels:
    """Labels that are in a file as numbers: their type, or the texts that they stand for."""

    def __init__(self, rows: FileRows, meaning: Any):
        self.rows, self.meaning = rows, meaning
        self.shape = rows.shape

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, rows) -> np.ndarray:
        values = self.rows[rows]
        if isinstance(self.meaning, np.ndarray):
            return self.meaning[values.astype(np.int64)]
        return values.astype(self.meaning)

    def part(self, rows: slice) -> StoredLabels:
        return StoredLabels(self.rows.part(rows), self.meaning)


def _part(values: Any, rows: slice) -> Any:
    return values.part(rows) if hasattr(values, "part") else values[rows]


def _same(rows: Any) -> Any:
    return rows


def _plain(array: Any) -> Any:
    """What a batch holds, as an array or CSR matrix."""
    if sp.issparse(array):
        return array.tocsr()
    array = np.asarray(array)
    if array.ndim == 2 and array.dtype not in (np.float32, np.float64):
        return array.astype(np.float64)
    return array


def _counts_from_one(X: Any) -> bool:
    """Whether svmlight's indices, of which column j is the j-th, begin with 1."""
    return X.nnz == 0 or int(X.indices.min()) > 0


def _least(indices: FileRows) -> int:
    size = 1 << 22
    parts = (indices[start : start + size] for start in range(0, len(indices), size))
    return min((int(part.min()) for part in parts), default=1)


def _is_npy(path: str) -> bool:
    return path.lower().endswith(".npy")


def _is_batches(X: Any) -> bool:
    if isinstance(X, (list, tuple)):
        first = X[0] if len(X) else None
        return isinstance(first, tuple) and len(first) in (2, 3) and np.ndim(first[0]) == 2
    if sp.issparse(X) or hasattr(X, "shape") or hasattr(X, "__array__") or isinstance(X, dict):
        return False
    return isinstance(X, Iterable) and not hasattr(X, "__dataframe__")


def _files_of(path: str) -> list[str]:
    if not os.path.isdir(path):
        return [path]
    found = sorted(glob(os.path.join(escape(path), "**", "*.parquet"), recursive=True))
    if not found:
        from lasn.tables import DataError

        raise DataError(path, "this folder has no Parquet files.", "Name a folder of *.parquet.")
    return found

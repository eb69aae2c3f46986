"""NumPy's files: ``.npy`` (one matrix) and ``.npz`` (several arrays, or a SciPy sparse matrix).

An array in C order is read a few rows at a time, compressed or not, from a file or a pipe; one in
Fortran order, and a sparse matrix, are read whole.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import scipy

from lasn.tables.opening import ByteFile
from lasn.tables.rows import (
    MISSING_REMEDY,
    PIECE_BYTES,
    PIECE_ROWS,
    Column,
    DataError,
    Piece,
    Rows,
    Selection,
)

_REMEDY = "Save it again by numpy.save or numpy.savez."


class ArrayStream:
    """The rows of one array in NumPy's format, read from a stream."""

    def __init__(self, stream, path: str):
        self.stream = stream
        self.path = path
        header = np.lib.format
        try:
            version = header.read_magic(stream)
            read = (
                header.read_array_header_1_0 if version == (1, 0) else header.read_array_header_2_0
            )
            self.shape, fortran, self.dtype = read(stream)
        except ValueError as error:
            raise DataError(path, f"this is not a NumPy array: {error}.", _REMEDY) from error
        if self.dtype.hasobject:
            raise DataError(path, "the array holds Python objects.", "Save numbers or text.")
        self.row_bytes = self.dtype.itemsize * int(np.prod(self.shape[1:], dtype=np.int64))
        if fortran and len(self.shape) > 1:
            whole = np.frombuffer(self._read(self.shape[0] * self.row_bytes), self.dtype)
            turned = np.ascontiguousarray(whole.reshape(self.shape[::-1]).T)
            self.stream = io.BytesIO(turned.tobytes())

    def take(self, n_rows: int) -> np.ndarray:
        """The next rows."""
        block = self._read(n_rows * self.row_bytes)
        return np.frombuffer(block, self.dtype).reshape(n_rows, *self.shape[1:])

    def _read(self, size: int) -> bytes:
        parts = []
        while size > 0:
            part = self.stream.read(min(size, PIECE_BYTES))
            if not part:
                raise DataError(self.path, "the file ends inside an array.", _REMEDY)
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


class ArrayTable:
    """A matrix whose columns are called 1, 2, ...; in a ``.npz``, ``y`` may stand beside it."""

    named = False
    columns: list[Column] | None

    def __init__(self, file: ByteFile, kind: str):
        self.file = file
        self.path = file.path
        self.own_target: str | None = None
        self._y: ArrayStream | None = None
        self._sparse: Any = None
        self._done = 0
        self._n_rows: int = 0
        if kind == "npy":
            self._X = ArrayStream(file.stream, self.path)
        else:
            self._open_archive()
        if self._sparse is not None:
            self.columns, self._n_rows = None, self._sparse.shape[0]
            return
        if len(self._X.shape) != 2 or self._X.dtype.kind not in "buif":
            raise DataError(
                self.path,
                f"the array has shape {self._X.shape} and type {self._X.dtype}.",
                "Save a matrix of numbers, one row a sample.",
            )
        self._n_rows = self._X.shape[0]
        self.columns = [Column(str(j + 1)) for j in range(self._X.shape[1])]

    def _open_archive(self) -> None:
        try:
            archive = zipfile.ZipFile(self.file.seekable())
        except zipfile.BadZipFile as error:
            raise DataError(self.path, f"this is not a .npz file: {error}.", _REMEDY) from error
        names = [name.removesuffix(".npy") for name in archive.namelist()]

        def member(name: str) -> ArrayStream:
            return ArrayStream(archive.open(f"{name}.npy"), self.path)

        if {"indices", "indptr", "shape", "data"} <= set(names):
            self._sparse = scipy.sparse.csr_matrix(
                scipy.sparse.load_npz(archive.fp), dtype=np.float64
            )
            self._sparse.sort_indices()
        elif "X" in names or len(set(names) - {"y"}) == 1:
            self._X = member("X" if "X" in names else next(n for n in names if n != "y"))
        else:
            raise DataError(
                self.path,
                f"which of the arrays {', '.join(names)} holds the rows?",
                "Save them as numpy.savez(file, X=..., y=...).",
            )
        if "y" in names:
            self._y = member("y")
            self.own_target = "y"

    def pieces(self, selection: Selection) -> Iterator[Piece]:
        while self._done < self._n_rows:
            n_rows = min(PIECE_ROWS, self._n_rows - self._done)
            first_row = 1 + self._done
            if self._sparse is not None:
                X = self._sparse[self._done : self._done + n_rows]
            else:
                X = self._X.take(n_rows)
            y = self._y.take(n_rows) if self._y is not None else None
            self._done += n_rows
            yield partial(self._rows, X, y, first_row, selection)

    def share(self) -> float | None:
        return self._done / self._n_rows if self._n_rows else None

    def close(self) -> None:
        self.file.close()

    def _rows(self, X, y, first_row: int, selection: Selection) -> Rows:
        if selection.target is None:
            y = None
        elif selection.target != self.own_target:
            y = np.asarray(X[:, int(selection.target) - 1])
        elif y.ndim != 1:
            raise DataError(
                self.path, f"y has shape {y.shape[1:]} a row.", "Save one target a row."
            )
        if y is not None and y.dtype.kind in "SU":
            y = y.astype(str).astype(object)
        if self._sparse is None:
            X = self._dense(X, first_row, selection)
        return Rows(X, y)

    def _dense(self, X, first_row: int, selection: Selection) -> np.ndarray:
        assert self.columns is not None
        names = [column.name for column in self.columns]
        if selection.features is not None and list(selection.features) != names:
            X = X[:, [names.index(name) for name in selection.features]]
        if selection.categorical:
            return self._with_text(X, selection)
        X = np.ascontiguousarray(X, dtype=np.float64)
        bad = np.isinf(X) if selection.missing_allowed else ~np.isfinite(X)
        if bad.any():
            row, column = np.argwhere(bad)[0]
            raise DataError(
                self.path,
                "the value is missing." if np.isnan(X[row, column]) else "the value is infinite.",
                MISSING_REMEDY,
                row=first_row + int(row),
                column=(selection.features or names)[column],
            )
        return X

    def _with_text(self, X, selection: Selection) -> np.ndarray:
        """Categories that are numbers in the file become texts, whole ones without a point."""
        out = X.astype(object)
        for j, name in enumerate(selection.features or ()):
            if name in selection.categorical:
                out[:, j] = [f"{value:g}" for value in X[:, j].tolist()]
        return out

"""Rows on disk that look like arrays of rows: ``shape``, ``dtype`` and ``X[rows]``, nothing else.

Only the rows that are asked for are read, by the thread that asks, into memory of their own; the
rows behind them are requested from the disk meanwhile. Unlike memory-mapped arrays they leave no
pages behind that would count as this process's memory.
"""

from __future__ import annotations

import errno
import mmap
import os
import tempfile
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

_NO_ROOM = (
    "There is no room left in {} for rows that memory_limit keeps out of memory. Set the "
    "environment variable TMPDIR to a folder on a larger disk, or raise memory_limit"
)
# Chosen rows are read a window at a time, so that little is held at once.
_WINDOW_BYTES = 2 << 20
# Those between two chosen rows are read too where they are no more than so many bytes: a call and
# a jump cost more.
_GAP_BYTES = 16 << 10
# Without these (on Windows) a lock keeps threads from moving the file's position under each other.
_ANYWHERE = hasattr(os, "preadv") and hasattr(os, "pwrite")


class RowFile:
    """A file of numbers, read and written at any place by any thread.

    ``close()`` lets go of it; so does the end of this object.
    """

    def __init__(self, file: Any = None):
        # A temporary file has no name: nothing is left of it, however this process ends.
        self.file = tempfile.TemporaryFile(prefix="lasn-") if file is None else file  # noqa: SIM115
        self.size = 0 if file is None else os.fstat(file.fileno()).st_size
        self.lock = threading.Lock()
        self.close = weakref.finalize(self, self.file.close)

    def append(self, values: np.ndarray) -> int:
        """Write values at the end; where they begin."""
        start = self.size
        self.write(values, start)
        return start

    def write(self, values: np.ndarray, offset: int) -> None:
        view = _bytes_of(np.ascontiguousarray(values))
        self.size = max(self.size, offset + len(view))
        while len(view):
            try:
                written = self._write_some(view, offset)
            except OSError as error:
                if error.errno == errno.ENOSPC:
                    raise OSError(errno.ENOSPC, _NO_ROOM.format(tempfile.gettempdir())) from error
                raise
            view, offset = view[written:], offset + written

    def read(self, out: np.ndarray, offset: int) -> np.ndarray:
        """Fill ``out``, which is contiguous, from the file."""
        view = _bytes_of(out)
        while len(view):
            count = self._read_some(view, offset)
            if count == 0:
                raise OSError(f"The file of rows ends {len(view)} bytes too early.")
            view, offset = view[count:], offset + count
        return out

    def _write_some(self, view: memoryview, offset: int) -> int:
        if _ANYWHERE:
            return os.pwrite(self.file.fileno(), view, offset)
        with self.lock:
            self.file.seek(offset)
            return self.file.write(view)

    def _read_some(self, view: memoryview, offset: int) -> int:
        if _ANYWHERE:
            return os.preadv(self.file.fileno(), [view], offset)
        with self.lock:
            self.file.seek(offset)
            return self.file.readinto(view)

    def request(self, offset: int, size: int) -> None:
        """Let the disk fetch what will be wanted next."""
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self.file.fileno(), offset, size, os.POSIX_FADV_WILLNEED)

    def forget(self) -> None:
        """Let go of what the system holds of the file in memory, so that reading means the disk."""
        if hasattr(os, "posix_fadvise"):
            os.fdatasync(self.file.fileno())
            os.posix_fadvise(self.file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _bytes_of(array: np.ndarray) -> memoryview:
    return memoryview(array.data).cast("B") if array.size else memoryview(b"")


class FileRows:
    """Rows of a matrix, or the entries of a vector, that lie one after the other in a file.

    Parameters
    ----------
    file : RowFile
    offset : int
        Where the first row begins.
    shape : tuple
    dtype : dtype in the file
    """

    def __init__(self, file: RowFile, offset: int, shape: tuple[int, ...], dtype: Any):
        self.file, self.offset, self.shape, self.dtype = file, offset, shape, np.dtype(dtype)
        self.row_bytes = self.dtype.itemsize * int(np.prod(shape[1:], dtype=np.int64))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows) -> np.ndarray:
        if isinstance(rows, slice):
            start, stop, step = rows.indices(self.shape[0])
            return self._read(start, max(start, stop))[::step]
        rows = np.asarray(rows)
        if rows.dtype == bool:
            rows = np.flatnonzero(rows)
        if len(rows) == 0:
            return self._read(0, 0)
        out = np.empty((len(rows), *self.shape[1:]), self.dtype)
        for places, window in _windows(rows, self.row_bytes):
            if window is not None:
                some = rows[places] - window.start
                np.take(self._read(window.start, window.stop), some, axis=0, out=out[places])
                continue
            for place, row in enumerate(rows[places].tolist(), places.start):
                self.file.read(out[place : place + 1], self.offset + row * self.row_bytes)
        return out

    def part(self, rows: slice) -> FileRows:
        """Some of the rows, not read yet."""
        start, stop, _ = rows.indices(self.shape[0])
        offset = self.offset + start * self.row_bytes
        return FileRows(self.file, offset, (stop - start, *self.shape[1:]), self.dtype)

    def _read(self, start: int, stop: int) -> np.ndarray:
        out = np.empty((stop - start, *self.shape[1:]), self.dtype)
        place = self.offset + start * self.row_bytes
        self.file.read(out, place)
        self.file.request(place + out.nbytes, 2 * out.nbytes)
        return out


class SparseFileRows:
    """Rows of a CSR matrix in a file: values and indices there, the ends of rows in memory.

    Parameters
    ----------
    values, indices : FileRows of shape (nnz,)
    ends : array of shape (n + 1,)
        SciPy's indptr, which may begin with any number.
    n_features : int
    first : int
        The index that stands for the first feature.
    """

    def __init__(
        self,
        values: FileRows,
        indices: FileRows,
        ends: np.ndarray,
        n_features: int,
        first: int = 0,
    ):
        self.values, self.indices, self.ends, self.first = values, indices, ends, first
        self.shape = (len(ends) - 1, n_features)
        self.dtype = values.dtype

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def nnz(self) -> int:
        return int(self.ends[-1] - self.ends[0])

    def __getitem__(self, rows) -> Any:
        if isinstance(rows, slice):
            start, stop, step = rows.indices(self.shape[0])
            part = self._read(start, max(start, stop))
            return part if step == 1 else part[::step]
        rows = np.asarray(rows)
        if rows.dtype == bool:
            rows = np.flatnonzero(rows)
        if len(rows) == 0:
            return self._read(0, 0)
        entry_bytes = self.values.row_bytes + self.indices.row_bytes
        parts: list[Any] = []
        for places, window in _windows(rows, entry_bytes * self.nnz // self.shape[0]):
            if window is not None:
                parts.append(self._read(window.start, window.stop)[rows[places] - window.start])
            else:
                parts += [self._read(row, row + 1) for row in rows[places].tolist()]
        return parts[0] if len(parts) == 1 else sp.vstack(parts, format="csr")

    def part(self, rows: slice) -> SparseFileRows:
        """Some of the rows, not read yet."""
        start, stop, _ = rows.indices(self.shape[0])
        ends = self.ends[start : stop + 1]
        return SparseFileRows(self.values, self.indices, ends, self.shape[1], self.first)

    def _read(self, start: int, stop: int) -> Any:
        ends = self.ends[start : stop + 1]
        where = slice(int(ends[0]), int(ends[-1]))
        shape = (stop - start, self.shape[1])
        indices = self.indices[where] - self.first
        return sp.csr_matrix((self.values[where], indices, ends - ends[0]), shape=shape)


def _windows(rows: np.ndarray, row_bytes: int) -> Iterator[tuple[slice, slice | None]]:
    """Which of the chosen rows to read at once, and from where to where; None: one by one."""
    row_bytes = max(1, row_bytes)
    edges = np.flatnonzero(np.diff(rows // max(1, _WINDOW_BYTES // row_bytes))) + 1
    for begin, end in zip([0, *edges.tolist()], [*edges.tolist(), len(rows)], strict=True):
        some = rows[begin:end]
        first, last = int(some.min()), int(some.max()) + 1
        between = (last - first - len(some)) * row_bytes
        dense = between <= _GAP_BYTES * len(some)
        yield slice(begin, end), slice(first, last) if dense else None


def rows_of_mapped_array(X: np.memmap) -> FileRows | None:
    """The rows of a memory-mapped matrix, read from its file; None where that is not simple."""
    whole_rows = X.ndim == 2 and X.strides[1] == X.itemsize and X.strides[0] == X[:1].nbytes
    if not (whole_rows and X.filename and X.mode in ("r", "r+", "w+")):
        return None
    mapped: Any = X._mmap  # type: ignore[attr-defined]
    into_map = X.ctypes.data - np.frombuffer(mapped, np.uint8).ctypes.data
    begin = X.offset - X.offset % mmap.ALLOCATIONGRANULARITY
    file = open(X.filename, "rb", buffering=0)  # noqa: SIM115 - closed with the rows
    return FileRows(RowFile(file), begin + into_map, X.shape, X.dtype)

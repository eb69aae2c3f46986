"""Data files: svmlight text, plain or packed. Reading rows, and checking that a file is whole.

    <label> <feature>:<value> <feature>:<value> ...

Features count from 1 and rise along a row; a value that is not there is zero.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

import numpy as np
import scipy.sparse as sp

from lasn.datasets.folders import DatasetError
from lasn.datasets.registry import DataFile

_OPENERS: dict[str, Callable] = {".xz": lzma.open, ".bz2": bz2.open, ".gz": gzip.open}
_CHUNK_BYTES = 1 << 20


def read_rows(path: Path, n_features: int | None = None) -> tuple[sp.csr_matrix, np.ndarray]:
    r"""Rows and labels of one file.

    Parameters
    ----------
    path : Path
        Plain, or packed as its suffix says: .xz, .bz2 or .gz.
    n_features : int, default=None
        The width of X, at least the largest feature number of the file, which is the default.

    Returns
    -------
    X : CSR matrix of shape (n_rows, n_features)
    y : ndarray of shape (n_rows,)
        The labels as they are in the file, float64.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from lasn import datasets
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "tiny"
    ...     _ = path.write_text("+1 1:0.5\n-1 3:1\n")
    ...     X, y = datasets.read_rows(path)
    >>> X.toarray().tolist(), y.tolist()
    ([[0.5, 0.0, 0.0], [0.0, 0.0, 1.0]], [1.0, -1.0])
    """
    from sklearn.datasets import load_svmlight_file

    with _unpacking(path) as text:
        try:
            return load_svmlight_file(text, n_features=n_features, zero_based=False)
        except ValueError as error:
            raise DatasetError(f"{path} is not what it should be: {error}") from error


class Contents(NamedTuple):
    """What tells one file from another: the SHA-256 of its unpacked bytes, and its rows."""

    sha256: str
    rows: int


def contents(path: Path) -> Contents:
    """Read a file once, in constant memory."""
    digest, rows, last = hashlib.sha256(), 0, b"\n"
    with _unpacking(path) as text:
        while chunk := text.read(_CHUNK_BYTES):
            digest.update(chunk)
            rows += chunk.count(b"\n")
            last = chunk[-1:]
    return Contents(digest.hexdigest(), rows + (last != b"\n"))


def check(file: DataFile, path: Path) -> str:
    r"""Say how ``path`` was recognised as ``file``: its checksum, or, if none is known, its rows.

    Raises
    ------
    DatasetError
        If it is another file, or damaged.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from lasn import datasets
    >>> file = datasets.DataFile("tiny", "binary/tiny", 2, None, frozenset())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "tiny"
    ...     _ = path.write_text("+1 1:0.5\n-1 2:1\n")
    ...     print(datasets.check(file, path))
    2 rows; its SHA-256 is not known
    """
    found = contents(path)
    if found.sha256 == file.sha256:
        return "SHA-256 of the site's file"
    if found.sha256 in file.copies:
        return "SHA-256 of a known copy"
    if file.sha256 is not None:
        raise DatasetError(
            f"{path} has {found.rows} rows and SHA-256 {found.sha256} (unpacked), but {file.name} "
            f"has {file.rows} and {file.sha256}: it is damaged or another file"
        )
    check_rows(file, path, found.rows)
    return f"{file.rows} rows; its SHA-256 is not known"


def check_rows(file: DataFile, path: Path, n_rows: int) -> None:
    if n_rows != file.rows:
        raise DatasetError(
            f"{path} has {n_rows} rows, but {file.name} has {file.rows}: it is damaged or another "
            "file"
        )


@contextmanager
def _unpacking(path: Path):
    """The unpacked bytes of a file; a damaged archive is a ``DatasetError``."""
    packing = Path(path.name.removesuffix(".part")).suffix
    try:
        with _OPENERS.get(packing, open)(path, "rb") as text:
            yield cast(BinaryIO, text)
    except (EOFError, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise DatasetError(f"{path} cannot be unpacked ({error}): it is damaged") from error
    except OSError as error:
        if error.errno is None and not isinstance(error, DatasetError):  # bz2's way to complain
            raise DatasetError(f"{path} cannot be unpacked ({error}): it is damaged") from error
        raise

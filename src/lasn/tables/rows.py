"""What every reader of files gives: columns, blocks of rows, and errors that say where.

A table is read in *pieces*. A piece is a function without arguments that gives a block of rows:
getting the next piece reads bytes, one after another; calling it parses them, which any thread may
do. So memory holds a few pieces, never the file, and parsing overlaps with whatever uses the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from lasn.data_error import DataError as DataError

# Rows of a piece, where a format counts rows; text is cut into pieces of this many bytes.
PIECE_ROWS = 16384
PIECE_BYTES = 4 << 20
MISSING_REMEDY = "Fill it in, remove the row, or give --impute when training."


@dataclass(frozen=True)
class Column:
    """A column of a table: its name, and whether it holds text.

    Examples
    --------
    >>> from lasn.tables import Column
    >>> Column("colour", is_text=True)
    Column(name='colour', is_text=True)
    """

    name: str
    is_text: bool = False


@dataclass(frozen=True)
class Selection:
    """What to read of a table.

    ``features`` are names of columns in the order of the matrix; None where a format has no columns
    (svmlight, a sparse matrix). Those in ``categorical`` are read as text, whatever they hold.
    Missing values are NaN, or the empty text, if they are ``allowed``, else an error.

    Examples
    --------
    >>> from lasn.tables import Selection
    >>> Selection(("age", "colour"), categorical=frozenset({"colour"}), target="income").names
    ['age', 'colour', 'income']
    """

    features: tuple[str, ...] | None = None
    categorical: frozenset[str] = frozenset()
    target: str | None = None
    target_is_text: bool = False
    missing_allowed: bool = False

    @property
    def names(self) -> list[str]:
        """The columns to read: the features, then the target."""
        return [*(self.features or ()), *([] if self.target is None else [self.target])]

    def is_text(self, name: str) -> bool:
        return self.target_is_text if name == self.target else name in self.categorical


@dataclass
class Rows:
    """A block of rows.

    ``X`` has shape (n, p): float64; a CSR matrix; or, if some columns are text, an array of objects
    with floats and texts. ``y`` has shape (n,): numbers or texts, None if no target was asked for.

    Examples
    --------
    >>> import numpy as np
    >>> from lasn.tables import Rows
    >>> Rows(np.eye(2), np.array(["yes", "no"])).X.shape
    (2, 2)
    """

    X: Any
    y: np.ndarray | None

    def __len__(self) -> int:
        return self.X.shape[0]


Piece = Callable[[], Rows]


class Table(Protocol):
    r"""A file that can be read in pieces, once.

    Examples
    --------
    >>> import os, tempfile
    >>> from lasn.tables import open_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "rows.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("a,b,label\n1,2,0\n3,4,1\n")
    ...     table = open_table(path)
    ...     print([column.name for column in table.columns], table.named, table.own_target)
    ...     table.close()
    ['a', 'b', 'label'] True None
    """

    path: str
    columns: list[Column] | None  # None: the number of columns is not known before the end
    named: bool  # whether the names are the file's own, not just numbers
    own_target: str | None  # the target that the format itself has, such as svmlight's label

    def pieces(self, selection: Selection) -> Iterator[Piece]:
        """Read on, a piece at a time."""

    def share(self) -> float | None:
        """Which part of the file has been read, None if that cannot be known."""

    def close(self) -> None:
        """Let go of the file."""


def matrix_from_columns(columns: list[np.ndarray], n_rows: int) -> np.ndarray:
    """Columns side by side: float64 if all are numbers, else objects."""
    is_text = any(column.dtype == object for column in columns)
    X = np.empty((n_rows, len(columns)), dtype=object if is_text else np.float64)
    for j, column in enumerate(columns):
        X[:, j] = column
    return X


def rows_from_columns(columns: list[np.ndarray], n_rows: int, selection: Selection) -> Rows:
    """The columns of ``selection.names`` as a matrix and a target."""
    y = None if selection.target is None else columns[-1]
    n_features = len(columns) - (y is not None)
    return Rows(matrix_from_columns(columns[:n_features], n_rows), y)

"""Going through a table: pieces parsed ahead by threads, given in order; or all rows at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np
import scipy

from lasn.arrays import is_sparse
from lasn.tables.rows import DataError, Rows, Selection, Table
from lasn.threads import map_in_order

Result = TypeVar("Result")


def in_order(
    table: Table, selection: Selection, work: Callable[[Rows], Result]
) -> Iterator[Result]:
    r"""``work(rows)`` for each piece of the table, in order, parsed and worked on by threads.

    At most two pieces a thread are in memory.

    Examples
    --------
    >>> import os, tempfile
    >>> from lasn.tables import Selection, in_order, open_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "rows.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("a,b,label\n1,2,0\n3,4,1\n")
    ...     table = open_table(path)
    ...     sums = list(in_order(table, Selection(("a", "b")), lambda rows: rows.X.sum()))
    ...     table.close()
    >>> float(sum(sums))
    10.0
    """
    return map_in_order(lambda piece: work(piece()), table.pieces(selection))


def read_rows(
    table: Table,
    selection: Selection,
    progress: Callable[[int, int, float | None], None] | None = None,
) -> Rows:
    r"""All rows of the table.

    ``progress(rows, bytes, share)`` hears of each piece: how many rows have been read, how much
    memory they take, and which part of the file that was, as far as it is known.

    Examples
    --------
    >>> import os, tempfile
    >>> from lasn.tables import Selection, open_table, read_rows
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "rows.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("a,b,label\n1,2,0\n3,4,1\n")
    ...     table = open_table(path)
    ...     rows = read_rows(table, Selection(("a", "b"), target="label"))
    ...     table.close()
    >>> rows.X.tolist(), rows.y.tolist()
    ([[1.0, 2.0], [3.0, 4.0]], [0.0, 1.0])
    """
    parts: list[Rows] = []
    n_rows = n_bytes = 0
    for rows in map_in_order(lambda piece: piece(), table.pieces(selection)):
        parts.append(rows)
        n_rows += len(rows)
        n_bytes += _size(rows.X)
        if progress is not None:
            progress(n_rows, n_bytes, table.share())
    if n_rows == 0:
        raise DataError(table.path, "there are no rows.", "Name a file with rows.")
    y = None
    if parts[0].y is not None:
        y = np.concatenate([rows.y for rows in parts if rows.y is not None])
    return Rows(stack_rows([rows.X for rows in parts]), y)


def _size(X) -> int:
    """Bytes of a matrix; an object counts as a short text."""
    if is_sparse(X):
        return X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    return X.nbytes * (8 if X.dtype == object else 1)


def stack_rows(parts: list):
    """The blocks below each other; each is let go of when it has been copied."""
    if is_sparse(parts[0]):
        width = max(part.shape[1] for part in parts)
        for part in parts:
            part.resize((part.shape[0], width))
        return scipy.sparse.vstack(parts, format="csr")
    n_rows = sum(len(part) for part in parts)
    X = np.empty((n_rows, parts[0].shape[1]), dtype=parts[0].dtype)
    parts.reverse()
    filled = 0
    while parts:
        part = parts.pop()
        X[filled : filled + len(part)] = part
        filled += len(part)
    return X

"""Reading tables from files, in pieces: svmlight, CSV, TSV, Parquet, Arrow and NumPy.

:func:`open_table` finds out what a file holds; :func:`in_order` goes through its rows with a
bounded number of pieces in memory; :func:`read_rows` gathers them all.
"""

from __future__ import annotations

from lasn.tables.opening import FORMATS, ByteFile, resolve_format
from lasn.tables.reading import in_order, read_rows
from lasn.tables.rows import Column, DataError, Rows, Selection, Table

__all__ = [
    "FORMATS",
    "Column",
    "DataError",
    "Rows",
    "Selection",
    "Table",
    "in_order",
    "open_table",
    "read_rows",
]


def open_table(
    path: str,
    format: str | None = None,
    *,
    delimiter: str | None = None,
    header: bool = True,
    n_features: int | None = None,
    index_base: int = 0,
) -> Table:
    r"""Open a file, or standard input if ``path`` is ``-``.

    Parameters
    ----------
    path : str
        Text may be compressed by gzip, bzip2 or xz.
    format : str, optional
        One of ``FORMATS``; else the name says it.
    delimiter, header
        Of CSV and TSV files.
    n_features, index_base
        Of svmlight files, where they are known: how many features, and whether their indices begin
        at 0 or 1.

    Returns
    -------
    table : Table

    Examples
    --------
    >>> import os, tempfile
    >>> from lasn.tables import Selection, open_table, read_rows
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "rows.csv")
    >>> with open(path, "w") as file:
    ...     _ = file.write("a,b,kind\n1,2,x\n3,4,z\n")
    >>> table = open_table(path)
    >>> [(column.name, column.is_text) for column in table.columns]
    [('a', False), ('b', False), ('kind', True)]
    >>> rows = read_rows(table, Selection(("a", "b"), target="kind", target_is_text=True))
    >>> rows.X.tolist(), rows.y.tolist()
    ([[1.0, 2.0], [3.0, 4.0]], ['x', 'z'])
    >>> table.close()
    >>> folder.cleanup()
    """
    kind = resolve_format(path, format)
    file = ByteFile(path)
    try:
        if kind == "svmlight":
            from lasn.tables.svmlight import SvmlightTable

            return SvmlightTable(file, n_features, index_base)
        if kind in ("csv", "tsv"):
            from lasn.tables.delimited import DelimitedTable

            return DelimitedTable(file, delimiter or {"csv": ",", "tsv": "\t"}[kind], header)
        if kind in ("npy", "npz"):
            from lasn.tables.arrays import ArrayTable

            return ArrayTable(file, kind)
        from lasn.tables.columnar import ColumnarTable

        return ColumnarTable(file, kind)
    except BaseException:
        file.close()
        raise

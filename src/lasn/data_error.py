"""The error of files that are not as they should be."""

from __future__ import annotations


class DataError(ValueError):
    """What is wrong with a file, in one line: where, what, and what to do about it.

    Examples
    --------
    >>> from lasn.tables import DataError
    >>> print(DataError("a.csv", "'x' is not a number.", "Correct it.", line=7, column="age"))
    a.csv, line 7, column 'age': 'x' is not a number. Correct it.
    """

    def __init__(self, path, problem, remedy, *, line=None, row=None, column=None):
        where = [str(path)]
        where += [f"line {line}"] if line is not None else []
        where += [f"row {row}"] if row is not None else []
        where += [f"column {column!r}"] if column is not None else []
        super().__init__(" ".join(f"{', '.join(where)}: {problem} {remedy}".split()))

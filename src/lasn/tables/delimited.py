"""CSV and TSV: a line of column names, then one row a line.

A column is text (categories) if its first value is, and numbers if that is a number; text further
down in a column of numbers is an error. pyarrow parses blocks where it is installed. What it does
not take, and everything where it is missing, goes through Python's own ``csv``, which is several
times slower and knows the line of every value.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from functools import partial

import numpy as np

from lasn.tables.opening import ByteFile, line_blocks
from lasn.tables.rows import (
    MISSING_REMEDY,
    PIECE_BYTES,
    Column,
    DataError,
    Piece,
    Rows,
    Selection,
    rows_from_columns,
)

# How a missing value may be written.
_MISSING = ("", "NA", "N/A", "n/a", "na", "NaN", "nan", "NULL", "null", "None")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class DelimitedTable:
    """A CSV or TSV file.

    Parameters
    ----------
    delimiter : str
        What stands between values.
    header : bool
        Whether the first line holds names; otherwise columns are called 1, 2, ...
    """

    own_target: str | None = None

    def __init__(self, file: ByteFile, delimiter: str, header: bool):
        self.file = file
        self.path = file.path
        self.delimiter = delimiter
        self.named = header
        start = file.read(PIECE_BYTES)
        while start and not start.strip():
            start = file.read(PIECE_BYTES)
        if not start:
            raise DataError(self.path, "the file is empty.", "Name a file with rows.")
        if start.startswith(_BYTE_ORDER_MARK):
            start = start[len(_BYTE_ORDER_MARK) :]
        if b"\r" in start and b"\n" not in start:
            raise DataError(
                self.path,
                "its lines end with a carriage return alone.",
                "Convert the file, for example by tr '\\r' '\\n'.",
            )
        text = start[: start.rfind(b"\n") + 1] or start
        line, first_row = next((line, row) for line, row in self._values(text, 1) if row)
        names = [str(number + 1) for number in range(len(first_row))]
        self.n_skipped = 0
        if header:
            # Names may come after empty lines, and may take several lines.
            names, self.n_skipped = self._header(first_row), line
        self.start = _without_lines(start, self.n_skipped)
        values = self._values(_without_lines(text, self.n_skipped), 1 + self.n_skipped)
        is_text = _first_is_text((row for _, row in values), len(names))
        self.columns: list[Column] | None = [
            Column(name, one) for name, one in zip(names, is_text, strict=True)
        ]

    def pieces(self, selection: Selection) -> Iterator[Piece]:
        start, self.start = self.start, b""
        for block, first_line in line_blocks(self.file, start, 1 + self.n_skipped, quoted=True):
            yield partial(self._rows, block, first_line, selection)

    def share(self) -> float | None:
        return self.file.share()

    def close(self) -> None:
        self.file.close()

    def _header(self, names: list[str]) -> list[str]:
        names = [name.strip() for name in names]
        numbers = [name for name in names if _is_number(name)]
        if numbers:
            raise DataError(
                self.path,
                f"the first line holds the number {numbers[0]}, not names of columns.",
                "Give --no-header if there are no names.",
                line=1,
            )
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise DataError(
                self.path, f"two columns have the name {twice!r}.", "Rename one.", line=1
            )
        return names

    def _rows(self, block: bytes, first_line: int, selection: Selection) -> Rows:
        assert self.columns is not None
        try:
            columns = _parse_with_arrow(
                block, self.delimiter, [column.name for column in self.columns], selection
            )
        except (ImportError, ValueError):
            columns = self._parse(block, first_line, selection)
        return rows_from_columns(columns, len(columns[0]) if columns else 0, selection)

    def _parse(self, block: bytes, first_line: int, selection: Selection) -> list[np.ndarray]:
        """The selected columns by way of Python's ``csv``; every error names its line."""
        assert self.columns is not None
        positions = {column.name: j for j, column in enumerate(self.columns)}
        chosen = [(name, positions[name], selection.is_text(name)) for name in selection.names]
        values: list[list] = [[] for _ in chosen]
        for line, row in self._values(block, first_line):
            if not row:
                continue
            if len(row) != len(self.columns):
                raise DataError(
                    self.path,
                    f"{len(row)} values, where there are {len(self.columns)} columns.",
                    "Correct the line, or give --delimiter.",
                    line=line,
                )
            for (name, j, is_text), out in zip(chosen, values, strict=True):
                text = row[j].strip()
                allowed = selection.missing_allowed and name != selection.target
                if text in _MISSING:
                    if not allowed:
                        raise DataError(
                            self.path,
                            "the value is missing.",
                            MISSING_REMEDY if name != selection.target else "Fill it in.",
                            line=line,
                            column=name,
                        )
                    out.append("" if is_text else np.nan)
                elif is_text:
                    out.append(row[j])
                else:
                    out.append(self._number(text, line, name))
        return [
            _object_array(column) if is_text else np.array(column, dtype=np.float64)
            for column, (_, _, is_text) in zip(values, chosen, strict=True)
        ]

    def _number(self, text: str, line: int, name: str) -> float:
        if _is_number(text):
            number = float(text)
            if np.isfinite(number):
                return number
        raise DataError(
            self.path,
            f"{text[:40]!r} is not a finite number.",
            f"Correct it, or give --categorical {name!r}.",
            line=line,
            column=name,
        )

    def _values(self, block: bytes, first_line: int) -> Iterator[tuple[int, list[str]]]:
        """The last line and the values of each row."""
        try:
            text = block.decode()
        except UnicodeDecodeError as error:
            raise DataError(
                self.path,
                f"byte 0x{block[error.start]:02x} is not UTF-8.",
                f"Convert the file, for example by iconv -f {_likely_encoding(block)} -t utf-8.",
                line=first_line + block.count(b"\n", 0, error.start),
            ) from error
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=self.delimiter, strict=True)
        try:
            for row in reader:
                yield first_line + reader.line_num - 1, row
        except csv.Error as error:
            raise DataError(
                self.path,
                f"{error}.",
                "Check the quotes.",
                line=first_line + reader.line_num - 1,
            ) from error


def _likely_encoding(block: bytes) -> str:
    """Of text that is not UTF-8: every other byte of UTF-16 is zero where letters are Latin."""
    return "utf-16" if b"\0" in block else "latin1"


def _parse_with_arrow(
    block: bytes, delimiter: str, names: list[str], selection: Selection
) -> list[np.ndarray]:
    """The selected columns by way of pyarrow; ``ValueError`` if anything is out of the ordinary."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    chosen = selection.names
    table = arrow_csv.read_csv(
        pa.BufferReader(block),
        read_options=arrow_csv.ReadOptions(
            column_names=names, use_threads=False, block_size=max(1, len(block))
        ),
        parse_options=arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=b'"' in block),
        convert_options=arrow_csv.ConvertOptions(
            column_types={
                name: pa.string() if selection.is_text(name) else pa.float64() for name in chosen
            },
            include_columns=chosen,
            null_values=list(_MISSING),
            strings_can_be_null=True,
        ),
    )
    columns = []
    for name in chosen:
        column = table.column(name)
        if column.null_count:
            if name == selection.target or not selection.missing_allowed:
                raise ValueError
            if selection.is_text(name):
                column = column.fill_null("")
        values = _floats(column) if column.type == pa.float64() else column.to_numpy()
        if not selection.is_text(name) and np.isinf(values).any():
            raise ValueError
        columns.append(values)
    return columns


def _floats(column) -> np.ndarray:
    """A column of float64 as NumPy has it; pyarrow's own way imports pandas if that is there."""
    if column.null_count:
        return column.to_numpy()
    parts = [
        np.frombuffer(part.buffers()[1])[part.offset : part.offset + len(part)]
        for part in column.chunks
        if len(part)
    ]
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0), *parts])


def _first_is_text(rows: Iterable[list[str]], n_columns: int) -> list[bool]:
    """For each column whether the first value that is there is text."""
    is_text = [False] * n_columns
    undecided = set(range(n_columns))
    for row in rows:
        for j in [j for j in undecided if j < len(row) and row[j].strip() not in _MISSING]:
            is_text[j] = not _is_number(row[j])
            undecided.remove(j)
        if not undecided:
            break
    return is_text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def _object_array(values: list[str]) -> np.ndarray:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _without_lines(block: bytes, count: int) -> bytes:
    for _ in range(count):
        block = block.partition(b"\n")[2]
    return block

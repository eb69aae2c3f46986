"""Parquet and Arrow (Feather) files, by pyarrow."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from lasn.tables.opening import ByteFile
from lasn.tables.rows import (
    MISSING_REMEDY,
    PIECE_ROWS,
    Column,
    DataError,
    Piece,
    Rows,
    Selection,
    rows_from_columns,
)

_FORMATS = {"parquet": "a Parquet", "arrow": "an Arrow"}


class ColumnarTable:
    """A Parquet file, or an Arrow file or stream. Columns of text and dictionaries are categories.

    Arrow streams are read from a pipe as they come; the other two need to be read in any order, so
    that what comes through a pipe goes through a temporary file.
    """

    named = True
    own_target: str | None = None

    def __init__(self, file: ByteFile, kind: str):
        self.file = file
        self.path = file.path
        pa = import_pyarrow(self.path)
        self._done = self._n_rows = 0
        try:
            self._batches, schema = self._open(pa, kind)
        except pa.ArrowInvalid as error:
            raise DataError(
                self.path, f"this is not {_FORMATS[kind]} file: {error}.", "Check --format."
            ) from error
        self.columns: list[Column] | None = [
            Column(field.name, _is_text(pa, field.type)) for field in schema
        ]

    def _open(self, pa, kind: str) -> tuple[Any, Any]:
        """Batches of rows, of no more than a piece each, and the schema."""
        if kind == "parquet":
            from pyarrow import parquet

            parquet_file = parquet.ParquetFile(self.file.seekable())
            self._n_rows = parquet_file.metadata.num_rows
            read = partial(parquet_file.iter_batches, PIECE_ROWS)
            return lambda names: read(columns=names), parquet_file.schema_arrow
        start = self.file.raw.peek(6)
        if start.startswith(b"ARROW1"):
            reader = pa.ipc.open_file(self.file.seekable())
            batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
        else:
            reader = pa.ipc.open_stream(self.file.stream)
            batches = iter(reader)
        return lambda names: _small(batches, names), reader.schema

    def pieces(self, selection: Selection) -> Iterator[Piece]:
        batches = self._batches(selection.names)
        while True:
            try:
                batch = next(batches, None)
            except (OSError, ValueError) as error:
                raise DataError(
                    self.path,
                    f"the file cannot be read on after row {self._done}: {error}.",
                    "Make or fetch it again.",
                ) from error
            if batch is None:
                return
            first_row = 1 + self._done
            self._done += batch.num_rows
            yield partial(self._rows, batch, first_row, selection)

    def share(self) -> float | None:
        return self._done / self._n_rows if self._n_rows else None

    def close(self) -> None:
        self.file.close()

    def _rows(self, batch, first_row: int, selection: Selection) -> Rows:
        columns = [self._column(batch, name, first_row, selection) for name in selection.names]
        return rows_from_columns(columns, batch.num_rows, selection)

    def _column(self, batch, name: str, first_row: int, selection: Selection) -> np.ndarray:
        import pyarrow as pa

        column = batch.column(batch.schema.get_field_index(name))
        is_text = selection.is_text(name)
        try:
            column = column.cast(pa.string() if is_text else pa.float64())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise DataError(
                self.path,
                f"type {column.type} is not {'text' if is_text else 'numbers'}.",
                f"Convert the column, or give --ignore {name!r}.",
                column=name,
            ) from error
        allowed = selection.missing_allowed and name != selection.target
        if is_text:
            missing = column.is_null().to_numpy(zero_copy_only=False)
            values = column.fill_null("").to_numpy(zero_copy_only=False)
            bad = missing
        else:
            values = column.to_numpy(zero_copy_only=False)
            missing = np.isnan(values)
            bad = missing | np.isinf(values)
        bad = bad & ~missing if allowed else bad
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise DataError(
                self.path,
                "the value is missing." if missing[row] else "the value is infinite.",
                MISSING_REMEDY if name != selection.target else "Fill it in.",
                row=first_row + row,
                column=name,
            )
        return values


def import_pyarrow(path: str):
    """pyarrow, or an error that says how to install it."""
    try:
        import pyarrow
        import pyarrow.ipc
    except ImportError as error:
        raise DataError(
            path,
            "Parquet and Arrow files need pyarrow, which is not installed.",
            "Type: pip install 'lasn[files]'",
        ) from error
    return pyarrow


def _is_text(pa, kind) -> bool:
    types = pa.types
    if types.is_dictionary(kind):
        return _is_text(pa, kind.value_type)
    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)


def _small(batches, names: list[str]) -> Iterator:
    for batch in batches:
        chosen = batch.select(names)
        for start in range(0, batch.num_rows, PIECE_ROWS):
            yield chosen.slice(start, PIECE_ROWS)

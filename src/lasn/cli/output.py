"""Predictions to a file or standard output: lines, CSV, TSV or Parquet, in the rows' order."""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Iterable, Iterator

import numpy as np

from lasn.cli.errors import DataError, UsageError

OUTPUT_FORMATS = ("lines", "csv", "tsv", "parquet")
_SEPARATORS = {"lines": " ", "csv": ",", "tsv": "\t"}


def resolve_output_format(path: str | None, given: str | None) -> str:
    """The format that was given, else that of the name, else plain lines."""
    if given is not None:
        return given
    suffix = os.path.splitext(path or "")[1].lower().lstrip(".")
    return suffix if suffix in OUTPUT_FORMATS else "lines"


def check_output(path: str, *inputs: str) -> None:
    """Refuse before the work what could not be written after it, or would overwrite an input."""
    if path == "-":
        return
    if os.path.isdir(path):
        raise DataError(path, "this is a folder.", "Name a file in it.")
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise DataError(path, f"there is no folder {folder}.", "Make it first.")
    if not os.access(folder, os.W_OK):
        raise DataError(path, f"the folder {folder} is read-only.", "Choose another folder.")
    for name in inputs:
        if os.path.exists(path) and os.path.exists(name) and os.path.samefile(path, name):
            raise UsageError(f"{path} would overwrite what is read. Give another -o.")


def spell(values: np.ndarray, output_format: str) -> bytes:
    """One line a row; texts are quoted in CSV where they must be, numbers keep every bit."""
    separator = _SEPARATORS[output_format]
    if values.dtype.kind in "bi" and values.ndim == 1:
        return _spell_labels(values)
    if values.dtype.kind == "U":
        spelled = _quoted(values, separator) if output_format != "lines" else values.tolist()
    elif values.ndim == 1:
        spelled = map(repr, values.tolist())
    else:
        spelled = (separator.join(map(repr, row)) for row in values.tolist())
    text = "\n".join(spelled)
    return (text + "\n").encode() if len(values) else b""


def _spell_labels(values: np.ndarray) -> bytes:
    """Lines of few different numbers: each is spelled once."""
    known, positions = np.unique(values, return_inverse=True)
    lines = [f"{value!r}\n".encode() for value in known.tolist()]
    if len({len(line) for line in lines}) == 1:  # as wide as each other: NumPy copies them
        return np.array(lines)[positions].tobytes()
    return b"".join(map(lines.__getitem__, positions.tolist()))


def spell_header(names: list[str], output_format: str) -> bytes:
    if output_format == "lines":
        return b""
    separator = _SEPARATORS[output_format]
    return (separator.join(_quoted(np.array(names), separator)) + "\n").encode()


def parquet_chunks(blocks: Iterable[np.ndarray], names: list[str], path: str) -> Iterator[bytes]:
    """The bytes of a Parquet file, a row group a block."""
    from lasn.tables.columnar import import_pyarrow

    pa = import_pyarrow(path)
    from pyarrow import parquet

    sink = _Sink()
    writer = None
    for values in blocks:
        columns = [values] if values.ndim == 1 else list(values.T)
        batch = pa.table(dict(zip(names, map(pa.array, columns), strict=True)))
        writer = writer or parquet.ParquetWriter(sink, batch.schema)
        writer.write_table(batch)
        yield sink.take()
    if writer is not None:
        writer.close()
    yield sink.take()


def write_chunks(path: str, chunks: Iterable[bytes]) -> None:
    """To standard output as they come, or to a file that appears whole or not at all."""
    if path == "-":
        # Not sys.stdout.buffer, which may be unbuffered and then writes only as much as it likes.
        with open(sys.stdout.fileno(), "wb", closefd=False) as stream:
            stream.writelines(chunks)
        return
    from lasn.atomic import write_atomically

    write_atomically(path, chunks)


class _Sink(io.RawIOBase):
    """A file that gives its bytes to whoever asks for them."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data) -> int:
        self.parts.append(bytes(data))
        return len(self.parts[-1])

    def take(self) -> bytes:
        taken, self.parts = b"".join(self.parts), []
        return taken


def _quoted(values: np.ndarray, separator: str) -> list[str]:
    spelled = {}
    for text in np.unique(values).tolist():
        line = io.StringIO()
        csv.writer(line, delimiter=separator, lineterminator="").writerow([text])
        spelled[text] = line.getvalue()
    return [spelled[text] for text in values.tolist()]

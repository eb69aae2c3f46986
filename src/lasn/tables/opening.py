"""Opening files: which format, which compression, and bytes cut at the ends of lines."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from lasn.tables.rows import PIECE_BYTES, DataError

STANDARD_INPUT = "standard input"
FORMATS = ("svmlight", "csv", "tsv", "parquet", "arrow", "npy", "npz")
_SUFFIXES = {
    ".svm": "svmlight", ".svmlight": "svmlight", ".libsvm": "svmlight", ".csv": "csv",
    ".tsv": "tsv", ".tab": "tsv", ".parquet": "parquet", ".pq": "parquet", ".arrow": "arrow",
    ".feather": "arrow", ".ipc": "arrow", ".npy": "npy", ".npz": "npz",
}  # fmt: skip
_COMPRESSIONS: dict[bytes, Any] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
}
_COMPRESSED_SUFFIXES = (".gz", ".bz2", ".xz")
_MODEL_START = b'{"__metadata__":{"format":"lasn"'
_SVMLIGHT_LINE = re.compile(rb"\s*[-+0-9.eE,]+(\s+(qid|\d+):[-+0-9.eE]+)+\s*(#.*)?")


class ByteFile:
    """Bytes of a file or of standard input (``-``), decompressed if they are gzip, bzip2 or xz."""

    def __init__(self, path: str):
        self.path = STANDARD_INPUT if path == "-" else path
        self.raw: Any = _open(path)
        self.copy: Any = None
        self.size = None
        if path != "-" and os.path.isfile(path):
            self.size = os.path.getsize(path)
        start = self.raw.peek(6)
        if not start:
            self.raw.close()
            raise DataError(self.path, "the file is empty.", "Name a file with rows.")
        self.stream: Any = self.raw
        for magic, unpack in _COMPRESSIONS.items():
            if start.startswith(magic):
                self.stream = unpack(self.raw)

    def read(self, size: int = -1) -> bytes:
        """The next bytes, fewer than ``size`` only at the end."""
        try:
            return self.stream.read(size)
        except (EOFError, lzma.LZMAError, gzip.BadGzipFile, OSError) as error:
            raise DataError(
                self.path, f"the file cannot be read on: {error}.", "Make or fetch it again."
            ) from error

    def share(self) -> float | None:
        """Which part of the file's bytes has been read."""
        return None if not self.size else min(1.0, self.raw.tell() / self.size)

    def seekable(self):
        """The same bytes in a file that can be read in any order: a temporary copy if need be."""
        if self.stream is self.raw and self.size is not None:
            return self.raw
        self.copy = tempfile.TemporaryFile()  # noqa: SIM115 - closed with this file
        while block := self.read(PIECE_BYTES):
            self.copy.write(block)
        self.copy.seek(0)
        return self.copy

    def close(self) -> None:
        for stream in (self.copy, self.stream, self.raw):
            if stream is not None:
                stream.close()


def _open(path: str):
    if path == "-":
        return io.BufferedReader(io.FileIO(os.dup(sys.stdin.fileno())))
    try:
        return open(path, "rb")
    except FileNotFoundError:
        problem, remedy = "there is no such file.", "Check the name."
    except IsADirectoryError:
        problem, remedy = "this is a folder.", "Name one file."
    except OSError as error:
        problem, remedy = f"the file cannot be opened: {error.strerror}.", "Check its permissions."
    raise DataError(path, problem, remedy)


def resolve_format(path: str, given: str | None) -> str:
    """The format that was given, else that of the name, else svmlight if the file looks like it."""
    if given is not None:
        return given
    name = Path(path)
    if name.suffix.lower() in _COMPRESSED_SUFFIXES:
        name = name.with_suffix("")
    known = _SUFFIXES.get(name.suffix.lower())
    if known is not None:
        return known
    if path != "-":
        file = ByteFile(path)
        try:
            start = file.read(1 << 16)
        finally:
            file.close()
        # The files of the LIBSVM site have no suffix of their own: a9a, a9a.t, heart_scale.
        if _SVMLIGHT_LINE.fullmatch(start.partition(b"\n")[0]):
            return "svmlight"
        if start[8:].lstrip().startswith(_MODEL_START):
            raise DataError(path, "this is a model, not rows.", "Name a file with rows.")
    raise DataError(
        STANDARD_INPUT if path == "-" else path,
        "the name does not tell the format.",
        f"Give --format, one of {', '.join(FORMATS)}.",
    )


def line_blocks(
    file: ByteFile, rest: bytes = b"", first_line: int = 1, quoted: bool = False
) -> Iterator[tuple[bytes, int]]:
    """Blocks that end where a line ends, each with the number of its first line.

    ``rest`` has been read already. With ``quoted``, a line break inside double quotes ends no line.
    """
    while True:
        block = file.read(max(PIECE_BYTES - len(rest), PIECE_BYTES // 4))
        if not block:
            break
        rest += block
        cut = _last_line_end(rest, quoted)
        if cut:
            yield rest[:cut], first_line
            first_line += rest.count(b"\n", 0, cut)
            rest = rest[cut:]
    if rest:
        yield rest, first_line


def _last_line_end(block: bytes, quoted: bool) -> int:
    """The position after the last line break, 0 if there is none."""
    if not quoted or b'"' not in block:
        return block.rfind(b"\n") + 1
    values = np.frombuffer(block, np.uint8)
    # A doubled quote inside a quoted field changes the parity twice.
    ends = np.flatnonzero((values == 10) & (np.cumsum(values == 34) % 2 == 0))
    return int(ends[-1]) + 1 if len(ends) else 0

r"""svmlight (LIBSVM) text: ``label index:value index:value ...``, one row a line.

Comments (``#`` to the end of the line), ``qid:number`` and empty lines are skipped. Indices ascend
within a row. Whole blocks of bytes are parsed at once by NumPy:

1. where tokens begin and end, and which of them are the first of a line: the labels;
2. eight digits in three multiplications: of the eight bytes that end a number, as one 64-bit word,
   neighbours are combined to pairs, pairs to fours, fours to one number;
3. a decimal is its digits as a whole number, divided by a power of ten. Both are exact in float64
   up to 15 digits, so the quotient is correctly rounded. Other spellings (exponents, more digits)
   are left to Python's ``float``.

What this does not understand goes to a parser of single lines, which says what is wrong and where.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy.sparse as sp

from lasn.tables.opening import ByteFile, line_blocks
from lasn.tables.rows import Column, DataError, Piece, Rows, Selection

_COMMENT = re.compile(rb"#[^\n]*")
_QUERY = re.compile(rb"(?<=[ \t])qid:\d+(?=\s)")
_TABS = bytes.maketrans(b"\t\r\v\f", b"    ")
_LARGEST_INDEX = 2**31 - 1
_POWERS = 10.0 ** np.arange(23)
_DIGITS = 8
# _LAST_BYTES[m]: a word's last m bytes.
_LAST_BYTES = np.array(
    [(2**64 - 1) >> (64 - 8 * m) << (64 - 8 * m) if m else 0 for m in range(9)], dtype=np.uint64
)
# Arrays over this much text stay in a core's cache.
_CHUNK = 1 << 18


class SvmlightTable:
    """A svmlight file. Column j of a matrix is index ``j + index_base``.

    ``n_features`` is the width of every matrix; None makes each as wide as its largest index needs,
    with column 0 for index 0 whatever the base (see :func:`drop_column_zero`).
    """

    columns: list[Column] | None = None
    named = False
    own_target: str | None = "label"

    def __init__(self, file: ByteFile, n_features: int | None = None, index_base: int = 0):
        self.file = file
        self.path = file.path
        self.n_features = n_features
        self.index_base = index_base

    def pieces(self, selection: Selection) -> Iterator[Piece]:
        for block, first_line in line_blocks(self.file):
            yield partial(self._rows, block, first_line, selection.target is not None)

    def share(self) -> float | None:
        return self.file.share()

    def close(self) -> None:
        self.file.close()

    def _rows(self, block: bytes, first_line: int, labelled: bool) -> Rows:
        try:
            lines = parse(block)
            self._check(lines)
        except ValueError:
            lines = parse_lines(block, first_line, self.path)
            self._check(lines, first_line, block)
        indices = lines.indices - self.index_base
        width = self.n_features
        if width is None:
            width = int(indices.max(initial=-1)) + 1
        X = sp.csr_matrix((lines.values, indices, lines.indptr), (len(lines.labels), width))
        X.has_sorted_indices = True
        return Rows(X, lines.labels if labelled else None)

    def _check(self, lines: Lines, first_line: int | None = None, block: bytes = b"") -> None:
        """Indices ascend and are those of the model; without a first line, say no more than no."""
        inside = np.ones(len(lines.indices), dtype=bool)
        inside[lines.indptr[:-1][np.diff(lines.indptr) > 0]] = False
        bad = np.zeros(len(inside), dtype=bool)
        bad[1:] = inside[1:] & (np.diff(lines.indices) <= 0)
        bad |= lines.indices < self.index_base
        last = _LARGEST_INDEX
        if self.n_features is not None:
            last = self.n_features - 1 + self.index_base
        bad |= lines.indices > last
        if not bad.any():
            return
        if first_line is None:
            raise ValueError
        position = int(np.flatnonzero(bad)[0])
        row = int(np.searchsorted(lines.indptr, position, side="right")) - 1
        line = first_line + _lines_of_rows(block)[row]
        index = int(lines.indices[position])
        if index > last:
            problem = f"feature index {index} is beyond the model's last, {last}."
            remedy = "Predict rows with the model's features, or train with --n-features."
        elif index < self.index_base:
            problem = f"feature index {index} comes before the model's first, {self.index_base}."
            remedy = "Count features as in the training file."
        else:
            problem, remedy = f"feature index {index} does not ascend.", "Sort the row's indices."
        raise DataError(self.path, problem, remedy, line=line)


@dataclass
class Lines:
    """Rows as CSR arrays with the file's own indices, and labels."""

    labels: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    indptr: np.ndarray


def drop_column_zero(X):
    """The matrix without column 0 if that is empty, and the index base that this means: 1 or 0."""
    if X.shape[1] and X.nnz and X.indices.min() > 0:
        return sp.csr_matrix((X.data, X.indices - 1, X.indptr), (X.shape[0], X.shape[1] - 1)), 1
    return X, 0


def parse(block: bytes) -> Lines:
    """Parse whole lines at once; ``ValueError`` (without details) if some are not plain svmlight.

    Examples
    --------
    >>> from lasn.tables.svmlight import parse
    >>> lines = parse(b"+1 1:0.5 3:-2e1 # a comment" + bytes([10]) + b"-1 2:7")
    >>> lines.labels, lines.values
    (array([ 1., -1.]), array([  0.5, -20. ,   7. ]))
    >>> lines.indices, lines.indptr
    (array([1, 3, 2], dtype=int32), array([0, 2, 3]))
    """
    block = _plain(block)
    chunks = []
    begin = 0
    while begin < len(block):
        end = block.rfind(b"\n", begin, begin + _CHUNK) + 1 or block.index(b"\n", begin) + 1
        chunks.append(_parse_chunk(block[begin:end]))
        begin = end
    return _join(chunks)


def _parse_chunk(block: bytes) -> Lines:
    text = _Text(block)
    starts, ends = text.tokens()
    line_starts = np.concatenate([[0], np.flatnonzero(text.bytes == 10) + 1])
    firsts = np.searchsorted(starts, line_starts)
    # An empty line has the first token of the next one; after the last line there is none.
    firsts = firsts[:-1][np.diff(firsts) > 0]
    labels = text.decimals(starts[firsts], ends[firsts])
    is_pair = np.ones(len(starts), dtype=bool)
    is_pair[firsts] = False
    pairs = np.flatnonzero(is_pair)
    pair_starts, pair_ends = starts[pairs], ends[pairs]
    colons = np.flatnonzero(text.bytes == 58)
    if len(colons) != len(pair_starts):
        raise ValueError
    if ((colons <= pair_starts) | (colons >= pair_ends - 1)).any():
        raise ValueError
    indices = text.whole_numbers(pair_starts, colons)
    values = text.decimals(colons + 1, pair_ends)
    indptr = np.append(firsts - np.arange(len(firsts)), len(pair_starts))
    return Lines(labels, indices.astype(np.int32), values, indptr)


def _join(parts: list[Lines]) -> Lines:
    n_before = np.cumsum([0] + [len(part.indices) for part in parts[:-1]])
    indptr = [part.indptr[:-1] + n for part, n in zip(parts, n_before, strict=True)]
    n_values = n_before[-1] + len(parts[-1].indices)
    return Lines(
        np.concatenate([part.labels for part in parts]),
        np.concatenate([part.indices for part in parts]),
        np.concatenate([part.values for part in parts]),
        np.append(np.concatenate(indptr), n_values),
    )


def _plain(block: bytes) -> bytes:
    """The block without comments, query ids and tabs, ending with a line break."""
    if b"#" in block:
        block = _COMMENT.sub(b"", block)
    if b"qid:" in block:
        block = _QUERY.sub(b"", block)
    if b"\t" in block or b"\r" in block or b"\v" in block or b"\f" in block:
        block = block.translate(_TABS)
    return block if block.endswith(b"\n") else block + b"\n"


class _Text:
    """Bytes, and the numbers in them."""

    def __init__(self, block: bytes):
        self.block = block
        padded = b" " * _DIGITS + block
        self.bytes = np.frombuffer(padded, np.uint8, offset=_DIGITS)
        self.points = np.flatnonzero(self.bytes == 46)
        # words[i]: the eight bytes before byte i, the first in the lowest place.
        self.words = np.ndarray((len(block) + 1,), "<u8", padded, strides=(1,))

    def tokens(self) -> tuple[np.ndarray, np.ndarray]:
        """Where tokens begin and end: shapes (n,)."""
        space = np.ones(len(self.bytes) + 1, dtype=bool)
        np.less_equal(self.bytes, 32, out=space[1:])
        changes = np.flatnonzero(space[1:] != space[:-1])
        return changes[::2], changes[1::2]

    def whole_numbers(self, starts, ends) -> np.ndarray:
        """Numbers of 1 to 8 digits; ``ValueError`` for anything else."""
        lengths = ends - starts
        if not np.all((lengths > 0) & (lengths <= _DIGITS)):
            raise ValueError
        numbers, plain = self._digits(ends, lengths)
        if not plain.all():
            raise ValueError
        return numbers

    def decimals(self, starts, ends) -> np.ndarray:
        """Numbers with or without sign and fraction, correctly rounded; others by ``float``."""
        first = self.bytes[starts]
        negative = first == 45
        starts = starts + (negative | (first == 43))
        point = self._points(starts, ends)
        has_point = point < ends
        n_before = point - starts
        n_after = np.where(has_point, ends - point - 1, 0)
        numbers, plain = self._digits(point, np.minimum(n_before, _DIGITS))
        plain &= (n_before <= _DIGITS) & (n_before + n_after > 0) & (n_before + n_after <= 15)
        mantissa = numbers.astype(np.float64)
        if has_point.any():
            n_low = np.minimum(n_after, _DIGITS)
            low, low_plain = self._digits(ends, n_low)
            plain &= low_plain
            n_high = np.clip(n_after - n_low, 0, _DIGITS)
            fraction = low.astype(np.float64)
            if n_high.any():
                high, high_plain = self._digits(ends - n_low, n_high)
                plain &= high_plain
                fraction += high * _POWERS[n_low]
            powers = _POWERS[np.minimum(n_after, 22)]
            mantissa = (mantissa * powers + fraction) / powers
        np.negative(mantissa, out=mantissa, where=negative)
        odd = np.flatnonzero(~plain)
        if len(odd):
            if b"_" in self.block:
                raise ValueError
            signed = starts[odd] - (negative[odd] | (first[odd] == 43))
            spans = zip(signed.tolist(), ends[odd].tolist(), strict=True)
            mantissa[odd] = [float(self.block[start:end]) for start, end in spans]
            if not np.isfinite(mantissa[odd]).all():
                raise ValueError
        return mantissa

    def _points(self, starts, ends) -> np.ndarray:
        """Where the decimal point of each token is, its end if it has none."""
        points = self.points
        if len(points) == 0:
            return ends
        if len(points) == len(starts) and np.all((points >= starts) & (points < ends)):
            return points
        points = np.append(points, len(self.bytes))
        return np.minimum(points[np.searchsorted(points, starts)], ends)

    def _digits(self, ends, lengths) -> tuple[np.ndarray, np.ndarray]:
        """Numbers made of the ``lengths`` bytes before ``ends``, and which are digits only."""
        words = self.words[ends]
        words ^= np.uint64(0x3030303030303030)
        words &= _LAST_BYTES[lengths]  # what stands before the number counts as leading zeros
        high = np.uint64(0xF0F0F0F0F0F0F0F0)
        plain = ((words | (words + np.uint64(0x0606060606060606))) & high) == 0
        words = (words * np.uint64(10) + (words >> np.uint64(8))) & np.uint64(0x00FF00FF00FF00FF)
        words = (words * np.uint64(100) + (words >> np.uint64(16))) & np.uint64(0x0000FFFF0000FFFF)
        words = (words * np.uint64(10000) + (words >> np.uint64(32))) & np.uint64(0xFFFFFFFF)
        return words, plain


def parse_lines(block: bytes, first_line: int, path: str) -> Lines:
    """Parse line by line: slow, understands the same, and names the line that is wrong."""
    labels, indices, values, indptr = [], [], [], [0]
    for line, content in enumerate(_plain(block).split(b"\n"), first_line):
        tokens = content.split()
        if not tokens:
            continue
        if b"," in tokens[0]:
            given = tokens[0].decode(errors="replace")
            raise DataError(
                path, f"{given!r} are several labels.", "Give each row one label.", line=line
            )
        labels.append(_number(tokens[0], "label", line, path))
        for token in tokens[1:]:
            index, colon, value = token.partition(b":")
            if not (colon and index.isdigit() and int(index) <= _LARGEST_INDEX):
                raise DataError(
                    path,
                    f"{token.decode(errors='replace')!r} is not index:value.",
                    "Correct the line, or give the file's --format.",
                    line=line,
                )
            indices.append(int(index))
            values.append(_number(value, "value", line, path))
        indptr.append(len(indices))
    return Lines(
        np.array(labels, dtype=np.float64),
        np.array(indices, dtype=np.int32),
        np.array(values, dtype=np.float64),
        np.array(indptr),
    )


def _number(token: bytes, what: str, line: int, path: str) -> float:
    try:
        number = float(token.replace(b"_", b"?"))
    except ValueError:
        number = np.nan
    if not np.isfinite(number):
        given = token.decode(errors="replace")
        raise DataError(path, f"{what} {given!r} is not a number.", "Correct the line.", line=line)
    return number


def _lines_of_rows(block: bytes) -> list[int]:
    """For each row the number of its line, from 0."""
    return [line for line, content in enumerate(_plain(block).split(b"\n")) if content.strip()]

"""The safetensors format: named arrays and text in one file that holds no code.

::

    8 bytes   N, the length of the header: unsigned, little-endian
    N bytes   the header: JSON, padded with spaces to a multiple of 8
    the rest  the arrays' bytes: little-endian, row by row, one after the other without gaps

    {"__metadata__": {"key": "text", ...},
     "name": {"dtype": "F64", "shape": [2, 3], "data_offsets": [0, 48]}, ...}

``data_offsets`` count from the end of the header. Reading trusts nothing: a claim that the file's
size does not bear out is refused before memory is taken for it.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

# Headers above this are refused, as the reference implementation refuses them.
MAX_HEADER_BYTES = 100_000_000
_MAX_DIMENSIONS = 32
_MAX_SIZE = 1 << 62

_DTYPES: dict[str, np.dtype] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "I16": np.dtype("<i2"),
    "I8": np.dtype("i1"),
    "U64": np.dtype("<u8"),
    "U32": np.dtype("<u4"),
    "U16": np.dtype("<u2"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}
_CODES = {dtype: code for code, dtype in _DTYPES.items()}


class SafetensorsError(ValueError):
    """Bytes that are not a safetensors file, or arrays that cannot be written to one."""


@dataclass(frozen=True)
class TensorEntry:
    """Where an array lies in the data section, and what it is."""

    dtype: np.dtype
    shape: tuple[int, ...]
    begin: int
    end: int


@dataclass(frozen=True)
class Header:
    """Everything but the arrays' values; ``data_start`` is where these begin in the file."""

    metadata: dict[str, str]
    entries: dict[str, TensorEntry]
    data_start: int


def can_hold(dtype: np.dtype) -> bool:
    """Whether the format has this dtype."""
    return dtype.newbyteorder("<") in _CODES


def parse_json(text: str | bytes) -> Any:
    """Strict JSON: no NaN, no infinity, no key twice in one object."""
    try:
        return json.loads(
            text,
            object_pairs_hook=_unique_keys,
            parse_constant=_refuse_constant,
            parse_float=_finite_float,
        )
    except RecursionError:
        raise SafetensorsError("its JSON is nested too deeply") from None
    except UnicodeDecodeError:
        raise SafetensorsError("its JSON is not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise SafetensorsError(f"its JSON is broken at character {error.pos}") from None
    except SafetensorsError:
        raise
    except ValueError as error:  # a number with thousands of digits
        raise SafetensorsError(f"its JSON holds an unacceptable number ({error})") from None


def write_chunks(
    tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str]
) -> Iterator[bytes | memoryview]:
    """The file's bytes, piece by piece; no array is copied unless its layout asks for it."""
    # Wide numbers first: every array then begins at a multiple of its item's size.
    names = sorted(tensors, key=lambda name: (-tensors[name].itemsize, name))
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    offset = 0
    for name in names:
        array = tensors[name]
        if not can_hold(array.dtype):
            raise SafetensorsError(f"dtype {array.dtype} has no place in the format")
        header[name] = {
            "dtype": _CODES[array.dtype.newbyteorder("<")],
            "shape": list(array.shape),
            "data_offsets": [offset, offset + array.nbytes],
        }
        offset += array.nbytes
    text = json.dumps(header, separators=(",", ":"), allow_nan=False).encode("ascii")
    text += b" " * (-len(text) % 8)
    if len(text) > MAX_HEADER_BYTES:
        raise SafetensorsError(
            f"the header would take {len(text)} bytes; {MAX_HEADER_BYTES} are allowed"
        )
    yield len(text).to_bytes(8, "little")
    yield text
    for name in names:
        yield tensor_bytes(tensors[name])


def tensor_bytes(array: np.ndarray) -> memoryview:
    """The array's values as the format stores them."""
    plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return plain.reshape(-1).view(np.uint8).data


def read_header(stream: BinaryIO) -> Header:
    """Read and check the header of a seekable stream that stands at its beginning."""
    size = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    if size < 8:
        raise SafetensorsError(f"it has {size} bytes, too few for any header")
    length = int.from_bytes(_read_exactly(stream, 8), "little")
    if length > MAX_HEADER_BYTES or 8 + length > size:
        raise SafetensorsError(
            "it is of another format, or was cut off: it claims a header of "
            f"{length} bytes and is {size} bytes long itself"
        )
    parsed = parse_json(_read_exactly(stream, length))
    if not isinstance(parsed, dict):
        raise SafetensorsError("its header is not a JSON object")
    metadata = parsed.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise SafetensorsError("its __metadata__ is not a map from text to text")
    entries = {name: _entry(name, fields) for name, fields in parsed.items()}
    _check_tiling(entries, size - 8 - length)
    return Header(metadata, entries, 8 + length)


def read_tensor(stream: BinaryIO, header: Header, name: str) -> np.ndarray:
    """One array, in this machine's byte order, with memory of its own."""
    entry = header.entries[name]
    stream.seek(header.data_start + entry.begin)
    array = np.empty(entry.shape, dtype=entry.dtype)
    target = array.reshape(-1).view(np.uint8).data
    filled = 0
    while filled < len(target):
        count = stream.readinto(target[filled:])  # type: ignore[attr-defined]
        if not count:
            raise SafetensorsError(f"it ends within the array {name!r}")
        filled += count
    if entry.dtype.kind == "b" and array.view(np.uint8).max(initial=0) > 1:
        raise SafetensorsError(f"the array {name!r} has values that are neither true nor false")
    return array.astype(entry.dtype.newbyteorder("="), copy=False)


def _read_exactly(stream: BinaryIO, count: int) -> bytes:
    data = stream.read(count)
    if len(data) != count:
        raise SafetensorsError("it ends within its header")
    return data


def _entry(name: str, fields: Any) -> TensorEntry:
    if not isinstance(fields, dict) or set(fields) != {"dtype", "shape", "data_offsets"}:
        raise SafetensorsError(f"the entry of array {name!r} is not dtype, shape and data_offsets")
    code, shape, offsets = fields["dtype"], fields["shape"], fields["data_offsets"]
    if not isinstance(code, str) or code not in _DTYPES:
        raise SafetensorsError(f"the array {name!r} has an unknown dtype")
    if not _are_counts(shape) or len(shape) > _MAX_DIMENSIONS:
        raise SafetensorsError(f"the array {name!r} has an impossible shape")
    if not _are_counts(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise SafetensorsError(f"the array {name!r} has impossible data_offsets")
    dtype = _DTYPES[code]
    # NumPy refuses an empty array, too, whose other dimensions are beyond its reach.
    if math.prod(max(1, extent) for extent in shape) * dtype.itemsize > _MAX_SIZE:
        raise SafetensorsError(f"the array {name!r} has an impossible shape")
    if math.prod(shape) * dtype.itemsize != offsets[1] - offsets[0]:
        raise SafetensorsError(f"the shape and the data_offsets of array {name!r} disagree")
    return TensorEntry(dtype, tuple(shape), *offsets)


def _check_tiling(entries: dict[str, TensorEntry], available: int) -> None:
    """Arrays must lie one after the other and fill the data section."""
    reached = 0
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].begin, item[1].end)):
        if entry.begin != reached:
            problem = "overlaps another" if entry.begin < reached else "leaves a gap before it"
            raise SafetensorsError(f"the array {name!r} {problem}")
        reached = entry.end
    if reached != available:
        raise SafetensorsError(
            f"its arrays take {reached} bytes and {available} follow the header: it is cut short "
            "or something was added"
        )


def _are_counts(values: Any) -> bool:
    return isinstance(values, list) and all(
        type(value) is int and 0 <= value <= _MAX_SIZE for value in values
    )


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise SafetensorsError("its JSON has a key twice in one object")
    return found


def _refuse_constant(text: str) -> None:
    raise SafetensorsError(f"its JSON holds {text}, which is not a number")


def _finite_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise SafetensorsError(f"its JSON holds the number {text[:40]}, which is too large")
    return value

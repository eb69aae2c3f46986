"""The safetensors format: both ways between this package and the reference implementation."""

import io
import json

import numpy as np
import pytest
import safetensors.numpy

from lasn.safetensors import SafetensorsError, parse_json, read_header, read_tensor, write_chunks

TENSORS = {
    "wide": np.arange(6, dtype=np.float64).reshape(2, 3),
    "narrow": np.array([1.5, -2.5], dtype=np.float32),
    "half": np.array([0.5], dtype=np.float16),
    "whole": np.array([[-1], [2]], dtype=np.int64),
    "small": np.array([3, 4, 5], dtype=np.uint8),
    "flags": np.array([True, False]),
    "scalar": np.array(7, dtype=np.int32),
    "empty": np.empty((0, 4), dtype=np.float32),
}


def written(tensors=TENSORS, metadata=None):
    return b"".join(write_chunks(tensors, metadata or {}))


def read(data):
    stream = io.BytesIO(data)
    header = read_header(stream)
    return {name: read_tensor(stream, header, name) for name in header.entries}, header.metadata


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        np.testing.assert_array_equal(found[name], array)


def test_the_reference_implementation_reads_our_files(tmp_path):
    assert_same(safetensors.numpy.load(written()), TENSORS)
    path = tmp_path / "file.safetensors"
    path.write_bytes(written(metadata={"note": 'quotes " and ü'}))
    with safetensors.safe_open(path, framework="numpy") as file:
        assert file.metadata() == {"note": 'quotes " and ü'}


def test_we_read_files_of_the_reference_implementation():
    found, metadata = read(safetensors.numpy.save(TENSORS, {"note": "ü"}))
    assert_same(found, TENSORS)
    assert metadata == {"note": "ü"}


def test_other_layouts_and_byte_orders_are_written_as_values():
    tensors = {
        "columns": np.asfortranarray(TENSORS["wide"]),
        "every second": np.arange(10)[::2],
        "big-endian": np.arange(3, dtype=">i4"),
    }
    found, _ = read(written(tensors))
    for name, array in tensors.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].flags.writeable
        assert found[name].flags.aligned


def test_arrays_are_aligned_in_the_file():
    header = read_header(io.BytesIO(written()))
    for entry in header.entries.values():
        assert (header.data_start + entry.begin) % entry.dtype.itemsize == 0


@pytest.mark.parametrize("dtype", ["complex128", "datetime64[s]", "U3", "O"])
def test_dtypes_without_a_place_are_refused(dtype):
    with pytest.raises(SafetensorsError, match="no place"):
        written({"x": np.zeros(2, dtype=dtype)})


def with_header(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def entry(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


BROKEN = {
    "nothing": (b"", "too few"),
    "half a length": (b"\1\0\0", "too few"),
    "a length beyond the end": ((1 << 40).to_bytes(8, "little") + b"{}", "claims a header"),
    "the largest length": (b"\xff" * 8 + b"{}", "claims a header"),
    "no JSON": (with_header(b"{]"), "broken at character 1"),
    "no text": (with_header(b'{"\xff": 1}'), "not UTF-8"),
    "no object": (with_header([]), "not a JSON object"),
    "NaN": (with_header(b'{"a": NaN}'), "NaN"),
    "an infinite number": (with_header(b'{"a": 1e999}'), "too large"),
    "a very long number": (with_header(b'{"a": ' + b"9" * 5000 + b"}"), "unacceptable number"),
    "deep nesting": (with_header(b"[" * 200_000), "nested too deeply"),
    "a key twice": (with_header(b'{"a": 1, "a": 2}'), "key twice"),
    "numbers as metadata": (with_header({"__metadata__": {"a": 1}}), "text to text"),
    "a list as metadata": (with_header({"__metadata__": []}), "text to text"),
    "an unknown dtype": (with_header({"x": entry("F8")}, bytes(8)), "unknown dtype"),
    "a dtype that is a list": (with_header({"x": entry(["F32"])}, bytes(8)), "unknown dtype"),
    "a field too many": (with_header({"x": {**entry(), "more": 1}}, bytes(8)), "is not dtype"),
    "a field missing": (with_header({"x": {"dtype": "F32"}}, bytes(8)), "is not dtype"),
    "a negative extent": (with_header({"x": entry(shape=(-2,))}, bytes(8)), "shape"),
    "a fraction as extent": (with_header({"x": entry(shape=(2.0,))}, bytes(8)), "shape"),
    "a bool as extent": (with_header({"x": entry(shape=(True, 2))}, bytes(8)), "shape"),
    "a huge shape": (with_header({"x": entry(shape=(1 << 40, 1 << 40))}, bytes(8)), "shape"),
    "a huge empty shape": (
        with_header({"x": entry(shape=(0, 1 << 60, 1 << 60), offsets=(0, 0))}),
        "shape",
    ),
    "too many dimensions": (with_header({"x": entry(shape=(1,) * 65 + (2,))}, bytes(8)), "shape"),
    "a shape larger than its bytes": (with_header({"x": entry(shape=(3,))}, bytes(8)), "disagree"),
    "offsets beyond the end": (
        with_header({"x": entry(shape=(1 << 38,), offsets=(0, 1 << 40))}, bytes(8)),
        "cut short",
    ),
    "offsets in falling order": (with_header({"x": entry(offsets=(8, 0))}, bytes(8)), "offsets"),
    "an overlap": (
        with_header({"x": entry(), "y": entry(shape=(1,), offsets=(4, 8))}, bytes(8)),
        "overlaps",
    ),
    "a gap": (
        with_header({"x": entry(), "y": entry(shape=(1,), offsets=(12, 16))}, bytes(16)),
        "gap",
    ),
    "bytes cut off": (with_header({"x": entry()}, bytes(7)), "cut short"),
    "bytes added": (with_header({"x": entry()}, bytes(9)), "something was added"),
    "a bool of two": (with_header({"x": entry("BOOL", (1,), (0, 1))}, b"\2"), "neither true"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_files_are_refused_with_their_reason(case):
    data, reason = BROKEN[case]
    with pytest.raises(SafetensorsError, match=reason):
        read(data)


def test_strict_json_keeps_what_is_right():
    assert parse_json('{"a": [1, 2.5, null, true, "x"]}') == {"a": [1, 2.5, None, True, "x"]}

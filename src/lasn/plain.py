"""Values as plain data: JSON for what is small, named arrays for what is large. No code in either.

======================================== ======================================================
value                                    JSON
======================================== ======================================================
None, bool, int, finite float, str       itself; NumPy's scalars become Python's
list                                     a JSON array
other float                              {"float": "nan" | "inf" | "-inf"}
tuple                                    {"tuple": [...]}
dict                                     {"dict": [[key, value], ...]}
array of numbers or of bools             {"array": name, "order": "C" | "F"}
array of text                            {"text": [...], "shape": [...]}
array of objects                         {"objects": [...], "shape": [...]}
masked array of numbers                  {"masked": name, "mask": name}
CSR or CSC matrix or array               {"sparse": type, "shape": [n, p], "data": name,
                                         "indices": name, "indptr": name}
list of records (dicts with equal keys)  {"records": n, "columns": {key: {"array": ...}}}
dtype, type of a NumPy number            {"dtype": name}, {"type": name}
slice                                    {"slice": [start, stop, step]}
RandomState                              {"random_state": [position, has_gauss, gauss],
                                         "keys": name}
estimator                                {"class": ..., "parameters": ..., "attributes": ...}
======================================== ======================================================

Memory order is kept since sums of the same numbers in another order differ in their last bits.
"""

from __future__ import annotations

import math
from collections import UserList
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy

from lasn.arrays import is_sparse
from lasn.safetensors import can_hold

# Text arrays are as wide as their longest entry, whatever the others are: bounds what that takes.
_MAX_TEXT = 1 << 26
_MAX_FEATURES = 1 << 62
_DTYPE_NAMES = ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "bool",
                "uint64", "uint32", "uint16", "uint8", "object")  # fmt: skip
_SPARSE = ("csr_matrix", "csr_array", "csc_matrix", "csc_array")
_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_SCALARS = (type(None), bool, int, float, str)


class NotPlainError(TypeError):
    """A value that has no plain form."""


class NotDecodableError(ValueError):
    """JSON or arrays that no value was encoded to."""


class Encoder:
    """Turns values into JSON and collects their arrays in ``tensors``.

    ``encode_estimator(encoder, value, name)`` gives the JSON of an estimator, or None for a value
    that is not one.
    """

    def __init__(self, encode_estimator: Callable[[Encoder, Any, str], Any]):
        self.tensors: dict[str, np.ndarray] = {}
        self._names: dict[tuple[int, str], str] = {}
        self._encode_estimator = encode_estimator

    def encode(self, value: Any, name: str) -> Any:
        """The JSON of a value; ``name`` is how errors and arrays call it."""
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, float) and not math.isfinite(value):
            return {"float": str(value)}
        if isinstance(value, _SCALARS):
            return value
        if isinstance(value, np.ma.MaskedArray):
            return self._masked(value, name)
        if isinstance(value, np.ndarray):
            return self._array(value, name)
        if is_sparse(value):
            return self._sparse(value, name)
        if isinstance(value, UserList):  # columns in ColumnTransformers of older scikit-learns
            value = list(value.data)
        if isinstance(value, list):
            return self._records(value, name) if _are_records(value) else self._items(value, name)
        if type(value) is tuple:
            return {"tuple": self._items(value, name)}
        if isinstance(value, dict):
            pairs = enumerate(value.items())
            return {"dict": [self._items(pair, f"{name}.{position}") for position, pair in pairs]}
        if isinstance(value, np.dtype) and value.name in _DTYPE_NAMES:
            return {"dtype": value.name}
        if _is_number_type(value) and np.dtype(value).name in _DTYPE_NAMES:
            return {"type": np.dtype(value).name}
        if isinstance(value, slice):
            return {"slice": self._items((value.start, value.stop, value.step), name)}
        if isinstance(value, np.random.RandomState):
            return self._random_state(value, name)
        encoded = self._encode_estimator(self, value, name)
        if encoded is None:
            raise NotPlainError(f"{name} is of type {type(value).__name__}")
        return encoded

    def _items(self, values, name: str) -> list:
        return [self.encode(value, f"{name}.{index}") for index, value in enumerate(values)]

    def _tensor(self, array: np.ndarray, name: str, order: str = "C") -> str:
        if not can_hold(array.dtype):
            raise NotPlainError(f"{name} is an array of dtype {array.dtype}")
        # An array that several values share, as landmarks that were given are, is stored once.
        name = self._names.setdefault((id(array), order), name)
        self.tensors[name] = array.T if order == "F" else array
        return name

    def _array(self, array: np.ndarray, name: str) -> dict:
        if array.dtype.kind in "UO":
            kind = "text" if array.dtype.kind == "U" else "objects"
            values = array.ravel().tolist()
            if not all(isinstance(value, (*_SCALARS, np.generic)) for value in values):
                raise NotPlainError(f"{name} is an array of objects that are not scalars")
            if kind == "text" and array.size * max(map(len, values), default=0) > _MAX_TEXT:
                raise NotPlainError(f"{name} is an array of text that is too long")
            return {kind: self._items(values, name), "shape": list(array.shape)}
        by_columns = array.flags.f_contiguous and not array.flags.c_contiguous
        order = "F" if by_columns else "C"
        return {"array": self._tensor(array, name, order), "order": order}

    def _masked(self, array: np.ma.MaskedArray, name: str) -> dict:
        mask = np.ma.getmaskarray(array)
        return {
            "masked": self._tensor(np.ascontiguousarray(array.data), name),
            "mask": self._tensor(np.ascontiguousarray(mask), f"{name}.mask"),
        }

    def _sparse(self, matrix, name: str) -> dict:
        if type(matrix).__name__ not in _SPARSE:
            raise NotPlainError(f"{name} is a {type(matrix).__name__}, neither CSR nor CSC")
        arrays = {
            part: self._tensor(getattr(matrix, part), f"{name}.{part}")
            for part in ("data", "indices", "indptr")
        }
        return {"sparse": type(matrix).__name__, "shape": [*map(int, matrix.shape)], **arrays}

    def _records(self, records: list[dict], name: str) -> dict:
        columns = {
            key: self._array(np.array([record[key] for record in records]), f"{name}.{key}")
            for key in records[0]
        }
        return {"records": len(records), "columns": columns}

    def _random_state(self, state: np.random.RandomState, name: str) -> dict:
        state_tuple: Any = state.get_state(legacy=True)
        kind, keys, *rest = state_tuple
        if kind != "MT19937":
            raise NotPlainError(f"{name} is a RandomState of another generator, {kind}")
        return {"random_state": rest, "keys": self._tensor(keys, f"{name}.keys")}


class Decoder:
    """Turns JSON and arrays back into values, and trusts neither.

    ``decode_estimator(decoder, json)`` makes an estimator. After decoding, ``unused`` names the
    arrays that belong to no value.
    """

    def __init__(
        self,
        tensors: dict[str, np.ndarray],
        decode_estimator: Callable[[Decoder, dict], Any],
    ):
        self.unused = set(tensors)
        self._tensors = tensors
        self._decode_estimator = decode_estimator

    def decode(self, encoded: Any) -> Any:
        if isinstance(encoded, list):
            return [self.decode(item) for item in encoded]
        if not isinstance(encoded, dict):
            return encoded
        tag = next(iter(encoded), None)
        expect(tag in _DECODERS or tag == "class", f"a value is marked {str(tag)[:40]!r}")
        if tag == "class":
            return self._decode_estimator(self, encoded)
        fields, decode = _DECODERS[tag]
        expect(set(encoded) == fields, f"a value marked {tag!r} is not complete")
        return decode(self, encoded)

    def tensor(self, name: Any) -> np.ndarray:
        expect(isinstance(name, str) and name in self._tensors, "an array is missing")
        self.unused.discard(name)
        return self._tensors[name]

    def _float(self, encoded):
        text = encoded["float"]
        expect(isinstance(text, str) and text in _NOT_FINITE, "a float is not one")
        return _NOT_FINITE[text]

    def _tuple(self, encoded):
        return tuple(self._list(encoded["tuple"]))

    def _list(self, encoded) -> list:
        expect(isinstance(encoded, list), "a list is not one")
        return self.decode(encoded)

    def _dict(self, encoded):
        pairs = self._list(encoded["dict"])
        expect(
            all(isinstance(pair, list) and len(pair) == 2 for pair in pairs)
            and all(isinstance(key, (*_SCALARS, tuple)) for key, _ in pairs),
            "a dict is not one",
        )
        try:
            return dict(pairs)
        except TypeError:
            raise NotDecodableError("a dict has a key that cannot be one") from None

    def _array(self, encoded):
        array = self.tensor(encoded["array"])
        expect(encoded["order"] in ("C", "F"), "an array has no order")
        return array.T if encoded["order"] == "F" else array

    def _text(self, encoded):
        values = self._list(encoded["text"])
        expect(all(isinstance(value, str) for value in values), "an array of text is not one")
        expect(len(values) * max(map(len, values), default=0) <= _MAX_TEXT, "text is too long")
        return _shaped(np.array(values, dtype=np.str_), encoded["shape"])

    def _objects(self, encoded):
        values = self._list(encoded["objects"])
        expect(all(isinstance(v, _SCALARS) for v in values), "an array of objects is not one")
        array = np.empty(len(values), dtype=object)
        array[:] = values
        return _shaped(array, encoded["shape"])

    def _masked(self, encoded):
        values, mask = self.tensor(encoded["masked"]), self.tensor(encoded["mask"])
        expect(mask.dtype == bool and mask.shape == values.shape, "a mask is not one")
        return np.ma.MaskedArray(values, mask=mask)

    def _sparse(self, encoded):
        kind, shape = encoded["sparse"], encoded["shape"]
        expect(isinstance(kind, str) and kind in _SPARSE, "a sparse matrix is of no known type")
        expect(
            isinstance(shape, list) and len(shape) == 2 and all(map(_is_count, shape)),
            "a sparse matrix has no shape",
        )
        data, indices, indptr = (
            self.tensor(encoded[part]) for part in ("data", "indices", "indptr")
        )
        major, minor = shape if kind.startswith("csr") else shape[::-1]
        integers = indices.dtype.kind == "i" and indptr.dtype == indices.dtype
        expect(
            integers and data.ndim == indices.ndim == indptr.ndim == 1 and data.dtype.kind in "fiu",
            "a sparse matrix has arrays of the wrong kind",
        )
        expect(
            len(indptr) == major + 1
            and indptr[0] == 0
            and indptr[-1] == len(indices) == len(data)
            and not (indptr[1:] < indptr[:-1]).any()
            and indices.min(initial=0) >= 0
            and indices.max(initial=-1) < minor,
            "a sparse matrix has indices outside of itself",
        )
        return getattr(scipy.sparse, kind)((data, indices, indptr), shape=tuple(shape))

    def _records(self, encoded):
        count, columns = encoded["records"], encoded["columns"]
        expect(_is_count(count) and isinstance(columns, dict) and columns, "records are not ones")
        arrays = {key: self.decode(column) for key, column in columns.items()}
        expect(
            all(isinstance(a, np.ndarray) and a.ndim in (1, 2) and len(a) == count
                for a in arrays.values()),
            "records have columns of different lengths",
        )  # fmt: skip
        # A row of a two-dimensional column is an array of its own.
        rows = {key: list(a.copy()) if a.ndim == 2 else a.tolist() for key, a in arrays.items()}
        return [{key: rows[key][position] for key in rows} for position in range(count)]

    def _dtype(self, encoded):
        return np.dtype(_dtype_name(encoded["dtype"]))

    def _type(self, encoded):
        return np.dtype(_dtype_name(encoded["type"])).type

    def _slice(self, encoded):
        parts = self._list(encoded["slice"])
        expect(
            len(parts) == 3 and all(isinstance(part, (int, str, type(None))) for part in parts),
            "a slice is not one",
        )
        return slice(*parts)

    def _random_state(self, encoded):
        keys, rest = self.tensor(encoded["keys"]), encoded["random_state"]
        # NumPy itself would take a position outside of the keys, and read there.
        expect(
            keys.shape == (624,)
            and keys.dtype == np.uint32
            and isinstance(rest, list)
            and [type(part) for part in rest] == [int, int, float]
            and 0 <= rest[0] <= 624
            and rest[1] in (0, 1),
            "the state of a random_state is not one",
        )
        state = np.random.RandomState()
        state.set_state(("MT19937", keys, *rest))
        return state


def expect(condition: Any, problem: str) -> None:
    """Raise :class:`NotDecodableError` unless the condition holds."""
    if not condition:
        raise NotDecodableError(problem)


def _are_records(values: list) -> bool:
    """Whether a list is one of dicts with the same text keys, as ``history_`` is."""
    if not values or not all(isinstance(value, dict) and value for value in values):
        return False
    return all(
        isinstance(key, str) and value.keys() == values[0].keys()
        for value in values
        for key in value
    )


def _is_number_type(value: Any) -> bool:
    return isinstance(value, type) and (issubclass(value, np.generic) or value in (float, int))


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _MAX_FEATURES


def _dtype_name(name: Any) -> str:
    expect(isinstance(name, str) and name in _DTYPE_NAMES, "a dtype is not one")
    return name


def _shaped(array: np.ndarray, shape: Any) -> np.ndarray:
    expect(
        isinstance(shape, list)
        and len(shape) <= 8
        and all(map(_is_count, shape))
        and math.prod(shape) == array.size
        and math.prod(max(1, extent) for extent in shape) <= _MAX_FEATURES,
        "an array has an impossible shape",
    )
    return array.reshape(shape)


# What each mark stands for: the fields that go with it, and how they become a value.
_DECODERS: dict[Any, tuple[set[str], Callable[[Decoder, dict], Any]]] = {
    "float": ({"float"}, Decoder._float),
    "tuple": ({"tuple"}, Decoder._tuple),
    "dict": ({"dict"}, Decoder._dict),
    "array": ({"array", "order"}, Decoder._array),
    "text": ({"text", "shape"}, Decoder._text),
    "objects": ({"objects", "shape"}, Decoder._objects),
    "masked": ({"masked", "mask"}, Decoder._masked),
    "sparse": ({"sparse", "shape", "data", "indices", "indptr"}, Decoder._sparse),
    "records": ({"records", "columns"}, Decoder._records),
    "dtype": ({"dtype"}, Decoder._dtype),
    "type": ({"type"}, Decoder._type),
    "slice": ({"slice"}, Decoder._slice),
    "random_state": ({"random_state", "keys"}, Decoder._random_state),
}

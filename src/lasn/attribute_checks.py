"""What a fitted attribute must be: small predicates that the table of storable classes is made of.

A check gets a value and the sizes that are known, and says whether the value passes. Shapes are
written with letters: ``numbers("k", "p")`` has as many columns as every other ``"p"`` of the same
estimator. The first value with a new letter says what it stands for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lasn.arrays import is_sparse

Sizes = dict[str, int]
Check = Callable[[Any, Sizes], bool]


def _fits(shape: tuple[int, ...], letters: tuple[str, ...], sizes: Sizes) -> bool:
    """Whether a shape agrees with what its letters are; new letters are taken over."""
    return len(shape) == len(letters) and all(
        sizes.setdefault(letter, extent) == extent
        for letter, extent in zip(letters, shape, strict=True)
    )


def numbers(*letters: str, finite: bool = False) -> Check:
    """An array of floats of this shape; ``finite`` ones have neither NaN nor infinity."""

    def check(value, sizes):
        return (
            isinstance(value, np.ndarray)
            and value.dtype.kind == "f"
            and _fits(value.shape, letters, sizes)
            and (not finite or bool(np.isfinite(value).all()))
        )

    return check


def rows(*letters: str) -> Check:
    """Rows of finite floats, dense or CSR."""
    dense = numbers(*letters, finite=True)

    def check(value, sizes):
        if not is_sparse(value):
            return dense(value, sizes)
        return (
            value.format == "csr"
            and value.dtype.kind == "f"
            and _fits(value.shape, letters, sizes)
            and bool(np.isfinite(value.data).all())
        )

    return check


def labels(*letters: str) -> Check:
    """An array of numbers, bools or text of this shape."""

    def check(value, sizes):
        return (
            isinstance(value, np.ndarray)
            and value.dtype.kind in "biufUO"
            and _fits(value.shape, letters, sizes)
        )

    return check


def counts(*letters: str) -> Check:
    def check(value, sizes):
        return (
            isinstance(value, np.ndarray)
            and value.dtype.kind in "iuf"
            and _fits(value.shape, letters, sizes)
        )

    return check


def names(letter: str) -> Check:
    text = labels(letter)
    return lambda value, sizes: text(value, sizes) and all(isinstance(v, str) for v in value)


def either(*checks: Check) -> Check:
    return lambda value, sizes: any(check(value, sizes) for check in checks)


def list_of(check: Check, letter: str) -> Check:
    """A list of values that each pass; their own sizes are free."""

    def check_all(value, sizes):
        return (
            isinstance(value, list)
            and _fits((len(value),), (letter,), sizes)
            and all(check(item, {}) for item in value)
        )

    return check_all


def nothing(value, sizes) -> bool:
    return value is None


def count(value, sizes) -> bool:
    return type(value) is int and value >= 0


def number(value, sizes) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def finite_number(value, sizes) -> bool:
    return number(value, sizes) and bool(np.isfinite(value))


def positive_number(value, sizes) -> bool:
    return finite_number(value, sizes) and value > 0.0


def flag(value, sizes) -> bool:
    return isinstance(value, bool)


def feature_dtype(value, sizes) -> bool:
    return isinstance(value, np.dtype) and value.name in ("float32", "float64")


def any_dtype(value, sizes) -> bool:
    return isinstance(value, np.dtype)


def mapping(value, sizes) -> bool:
    return isinstance(value, dict)


def records(value, sizes) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def items(value, sizes) -> bool:
    return isinstance(value, list)

"""Parameters: one rule for each name that an estimator's constructor takes.

``__init__`` only stores (so that ``clone`` and ``set_params`` work); ``fit`` calls
:func:`check_parameters` first. Every message names the parameter, what was given and what is
accepted.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from numbers import Integral, Real
from typing import Any

import numpy as np

from lasn.devices import is_device_name
from lasn.kernels import KERNEL_NAMES, resolve_kernel_name
from lasn.losses import CLASSIFIER_LOSSES
from lasn.memory import parse_memory_limit

Rule = Callable[[str, Any], None]


def _reject(name: str, value: Any, accepted: str, error: type[Exception] = ValueError):
    raise error(f"{name}={value!r} is not accepted: {name} must be {accepted}.")


def _number(accepted: str, test: Callable[[float], bool], whole: bool = False) -> Rule:
    kind = Integral if whole else Real

    def rule(name, value):
        if not isinstance(value, kind) or isinstance(value, (bool, np.bool_)):
            _reject(name, value, accepted, TypeError)
        if not test(value):  # NaN fails every comparison
            _reject(name, value, accepted)

    return rule


def _either(words: tuple, otherwise: Rule | None = None, accepted: str = "") -> Rule:
    listed = ", ".join(repr(word) for word in words)

    def rule(name, value):
        if isinstance(value, str) or otherwise is None or value is None:
            if not any(value is word or (word == value and word is not None) for word in words):
                _reject(name, value, f"{listed}{' or ' + accepted if accepted else ''}")
            return
        try:
            otherwise(name, value)
        except (TypeError, ValueError) as error:
            _reject(name, value, f"{listed} or {accepted}", type(error))

    return rule


def landmarks_rule(*words: str) -> Rule:
    """The rule for ``landmarks``: one of these methods, or an array."""
    accepted = ", ".join(repr(word) for word in words) + ", or an array of shape (k, n_features)"

    def rule(name, value):
        if isinstance(value, str):
            if value not in words:
                _reject(name, value, accepted)
        elif value is None or (np.ndim(value) == 0 and not hasattr(value, "shape")):
            _reject(name, value, accepted, TypeError)

    return rule


def _kernel(name, value):
    if not isinstance(value, str) and not callable(value):
        listed = ", ".join(repr(word) for word in KERNEL_NAMES)
        _reject(name, value, f"{listed}, or a function k(X, L)", TypeError)
    resolve_kernel_name(value)


def _flag(name, value):
    if not isinstance(value, (bool, np.bool_)):
        _reject(name, value, "True or False", TypeError)


def _path(name, value):
    if value is not None and not isinstance(value, (str, os.PathLike)):
        _reject(name, value, "None or the path of a file", TypeError)


def _memory(name, value):
    parse_memory_limit(value)


def _device(name, value):
    if not is_device_name(value):
        _reject(name, value, "'cpu', 'cuda', 'cuda:N' (N the number of a GPU), 'mps' or 'torch'")


def _refine(name, value):
    accepted = "None, a whole number of landmarks, or a relative gap above 0 and below 1"
    if value is None:
        return
    if not isinstance(value, Real) or isinstance(value, (bool, np.bool_)):
        _reject(name, value, accepted, TypeError)
    if not (float(value) >= 1.0 if isinstance(value, Integral) else 0.0 < value < 1.0):
        _reject(name, value, accepted)


def _class_weight(name, value):
    accepted = "None, 'balanced' or a dict from class to a finite weight, zero or more"
    if isinstance(value, dict):
        if not all(isinstance(w, Real) and 0 <= float(w) < float("inf") for w in value.values()):
            _reject(name, value, accepted)
    elif value is not None and not (isinstance(value, str) and value == "balanced"):
        _reject(name, value, accepted)


def one_or_several(rule_of: str, none: bool = False) -> Rule:
    """The rule for one value, or a sequence of values, of another parameter."""

    def rule(name, value):
        if value is None and none:
            return
        single = isinstance(value, str) or np.ndim(value) == 0
        values = [value] if single else list(value)
        if not values:
            _reject(name, value, f"at least one value of {rule_of}")
        for one in values:
            _RULES[rule_of](name, one.item() if isinstance(one, np.generic) else one)

    return rule


_POSITIVE = _number("a positive finite number", lambda v: 0 < v < float("inf"))
_NOT_NEGATIVE = _number("a finite number, zero or more", lambda v: 0 <= v < float("inf"))
_COUNT = _number("a whole number, 1 or more", lambda v: v >= 1, whole=True)

_RULES: dict[str, Rule] = {
    "n_landmarks": _either(("auto",), _COUNT, "a whole number, 1 or more"),
    "C": _POSITIVE,
    "epsilon": _NOT_NEGATIVE,
    "kernel": _kernel,
    "gamma": _either(("variance", "scale", "auto"), _POSITIVE, "a positive finite number"),
    "degree": _number("a number, 1 or more", lambda v: 1 <= v < float("inf")),
    "coef0": _number("a finite number", lambda v: abs(v) < float("inf")),
    "loss": _either(tuple(CLASSIFIER_LOSSES)),
    "landmarks": landmarks_rule("boundary", "kmeans", "class_kmeans", "uniform"),
    "class_weight": _class_weight,
    "eigenvalue_cutoff": _either(("auto",), _NOT_NEGATIVE, "a finite number, zero or more"),
    "refine": _refine,
    "checkpoint": _path,
    "resume": _flag,
    "tol": _POSITIVE,
    "max_iter": _COUNT,
    "solver": _either(("auto", "newton", "newton-cg", "exact")),
    "memory_limit": _memory,
    "device": _device,
    "dtype": _either(("auto", "float32", "float64")),
    "warm_start": _flag,
    "landmark_margin": _NOT_NEGATIVE,
    "landmarks_per_fold": _flag,
    "one_standard_error": _flag,
    "calibration": _either((None, "sigmoid", "isotonic")),
    "time_budget": _either((None,), _POSITIVE, "a positive number of seconds"),
    "n_jobs": _either(
        (None,), _number("a whole number", lambda v: v != 0, whole=True), "a whole number, not 0"
    ),
    "verbose": _number("a whole number, 0 or more", lambda v: v >= 0, whole=True),
}
# These check themselves where they are used.
_UNCHECKED = {"random_state", "cv", "scoring"}


def check_parameters(estimator, **own_rules: Rule) -> None:
    """Raise ``ValueError`` or ``TypeError`` for the first parameter that is not acceptable.

    ``own_rules`` take the place of the rules above for this estimator.
    """
    rules = {**_RULES, **own_rules}
    for name in _names_of(estimator.__class__):
        if name not in _UNCHECKED:
            rules[name](name, getattr(estimator, name))


@cache
def _names_of(kind: type) -> list[str]:
    """The parameters of an estimator: reading a signature takes as long as checking them all."""
    return kind._get_param_names()  # type: ignore[attr-defined]

"""Which estimators a model file can hold: one table entry a class.

An entry names where the class lives and what each attribute that a fit sets must be, in the words
of :mod:`lasn.attribute_checks`. The letter ``p`` is ``n_features_in_`` from the start. To store
another class, add an entry.

A class that is not in the table is never imported, and an attribute that is not in its entry is
never set, whatever a file says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from lasn.attribute_checks import (
    Check,
    Sizes,
    any_dtype,
    count,
    counts,
    either,
    feature_dtype,
    finite_number,
    flag,
    items,
    labels,
    list_of,
    mapping,
    names,
    nothing,
    number,
    numbers,
    positive_number,
    records,
    rows,
)
from lasn.kernels import KERNEL_NAMES, resolve_kernel_name
from lasn.parameters import check_parameters, landmarks_rule
from lasn.plain import Decoder, Encoder, NotPlainError, expect

# Set by scikit-learn on estimators, but no part of a model: callbacks run code of the caller's.
_LEFT_OUT = {"_skl_callbacks", "_parent_callback_ctx", "_callback_fit_ctx"}


@dataclass(frozen=True)
class Entry:
    """How one class is stored: its module, its fitted attributes, and what must hold of them."""

    module: str
    attributes: dict[str, Check]
    optional: frozenset[str] = frozenset({"feature_names_in_"})
    consistent: Callable[[Any, Sizes], None] = lambda estimator, sizes: None

    def load_class(self, name: str) -> type:
        return getattr(import_module(self.module), name)


def _lasn_is_consistent(estimator, sizes: Sizes) -> None:
    check_parameters(estimator)
    _kernel_is_consistent(estimator, linear_without_landmarks=True, sizes=sizes)
    if estimator.mapping_ is None:
        expect(sizes["q"] == sizes["k"] == sizes["p"], "coef_ and n_features_in_ disagree")
    expect(estimator.n_iter_ == len(estimator.history_), "n_iter_ and history_ disagree")
    known = estimator._current_landmark_parameters().keys()
    expect(estimator._landmark_parameters.keys() == known, "its landmarks' parameters are wrong")


def _classifier_is_consistent(estimator, sizes: Sizes) -> None:
    _lasn_is_consistent(estimator, sizes)
    n_scores = 1 if sizes["c"] == 2 else sizes["c"]
    expect(sizes["c"] >= 2 and sizes["s"] == n_scores, "coef_ and classes_ disagree")
    expect(estimator._n_scores == n_scores, "the number of scores and classes_ disagree")


def _regressor_is_consistent(estimator, sizes: Sizes) -> None:
    _lasn_is_consistent(estimator, sizes)
    shapes = estimator.coef_.ndim, estimator.dual_coef_.ndim, np.ndim(estimator.intercept_)
    expect(shapes in ((1, 1, 0), (2, 2, 1)), "coef_, dual_coef_ and intercept_ disagree")
    expect(estimator._n_scores == sizes.get("s"), "the number of scores and coef_ disagree")


def _map_is_consistent(estimator, sizes: Sizes) -> None:
    check_parameters(estimator, landmarks=landmarks_rule("kmeans", "class_kmeans", "uniform"))
    _kernel_is_consistent(estimator, linear_without_landmarks=False, sizes=sizes)
    expect(estimator._n_features_out == sizes["q"], "mapping_ and the number of features disagree")


def _kernel_is_consistent(estimator, linear_without_landmarks: bool, sizes: Sizes) -> None:
    linear = resolve_kernel_name(estimator.kernel) == "linear" and linear_without_landmarks
    absent = (estimator.landmarks_ is None, estimator.mapping_ is None)
    expect(absent == (linear, linear), "the kernel and landmarks_ disagree")
    expect(estimator.n_landmarks_ == (0 if linear else sizes["k"]), "n_landmarks_ is wrong")


def _parameters_are_valid(estimator, sizes: Sizes) -> None:
    estimator._validate_params()


def _steps_are_estimators(pipeline, sizes: Sizes) -> None:
    expect(
        isinstance(pipeline.steps, list)
        and pipeline.steps
        and all(_is_named(step, 2) for step in pipeline.steps)
        and all(hasattr(step[1], "transform") for step in pipeline.steps[:-1]),
        "the steps of a pipeline are not estimators",
    )
    pipeline._validate_params()
    pipeline._validate_steps()


def _columns_are_consistent(transformer, sizes: Sizes) -> None:
    for given in (transformer.transformers, transformer.transformers_):
        expect(
            isinstance(given, list) and all(_is_named(part, 3) for part in given),
            "the parts of a ColumnTransformer are not estimators",
        )
    transformer._validate_params()


def _is_named(part: Any, length: int) -> bool:
    """Whether this is (name, estimator or word, ...)."""
    if not (isinstance(part, tuple) and len(part) == length and isinstance(part[0], str)):
        return False
    return part[1] in ("passthrough", "drop") if isinstance(part[1], str) else is_storable(part[1])


_SHARED = {"n_features_in_": count, "feature_names_in_": names("p")}
_KERNEL = {
    "landmarks_": either(nothing, rows("k", "p")),
    "n_landmarks_": count,
    "mapping_": either(nothing, numbers("k", "q", finite=True)),
    "gamma_": positive_number,
}
_LASN = {
    **_SHARED,
    **_KERNEL,
    "history_": records,
    "n_iter_": count,
    "_dtype": feature_dtype,
    "_n_features_trained": either(nothing, count),
    "_landmark_parameters": mapping,
}
_SCALER = {**_SHARED, "n_samples_seen_": either(number, counts("p"))}
_PER_FEATURE = either(nothing, numbers("p"))

STORABLE: dict[str, Entry] = {
    "LASNClassifier": Entry(
        "lasn.estimators",
        {
            **_LASN,
            "classes_": labels("c"),
            "coef_": numbers("s", "q", finite=True),
            "dual_coef_": numbers("s", "k", finite=True),
            "intercept_": numbers("s", finite=True),
            "_n_scores": count,
        },
        consistent=_classifier_is_consistent,
    ),
    "LASNRegressor": Entry(
        "lasn.estimators",
        {
            **_LASN,
            "coef_": either(numbers("s", "q", finite=True), numbers("q", finite=True)),
            "dual_coef_": either(numbers("s", "k", finite=True), numbers("k", finite=True)),
            "intercept_": either(finite_number, numbers("s", finite=True)),
            "_n_scores": either(nothing, count),
        },
        consistent=_regressor_is_consistent,
    ),
    "NystroemMap": Entry(
        "lasn.features",
        {**_SHARED, **_KERNEL, "_n_features_out": count},
        consistent=_map_is_consistent,
    ),
    "StandardScaler": Entry(
        "sklearn.preprocessing",
        {**_SCALER, "mean_": _PER_FEATURE, "var_": _PER_FEATURE, "scale_": _PER_FEATURE},
        consistent=_parameters_are_valid,
    ),
    "MinMaxScaler": Entry(
        "sklearn.preprocessing",
        {
            **_SCALER,
            "scale_": numbers("p"),
            "min_": numbers("p"),
            "data_min_": numbers("p"),
            "data_max_": numbers("p"),
            "data_range_": numbers("p"),
        },
        consistent=_parameters_are_valid,
    ),
    "MaxAbsScaler": Entry(
        "sklearn.preprocessing",
        {**_SCALER, "scale_": numbers("p"), "max_abs_": numbers("p")},
        consistent=_parameters_are_valid,
    ),
    "SimpleImputer": Entry(
        "sklearn.impute",
        {
            **_SHARED,
            "statistics_": labels("p"),
            "indicator_": nothing,
            "_fit_dtype": any_dtype,
            "_fill_dtype": any_dtype,
        },
        optional=frozenset({"feature_names_in_", "_fill_dtype"}),
        consistent=_parameters_are_valid,
    ),
    "OneHotEncoder": Entry(
        "sklearn.preprocessing",
        {
            **_SHARED,
            "categories_": list_of(labels("categories"), "p"),
            "drop_idx_": either(nothing, labels("p")),
            "_drop_idx_after_grouping": either(nothing, labels("p")),
            "_infrequent_enabled": flag,
            "_n_features_outs": list_of(count, "p"),
            "_infrequent_indices": list_of(either(nothing, counts("few")), "p"),
            "_default_to_infrequent_mappings": list_of(either(nothing, counts("all")), "p"),
        },
        optional=frozenset(
            {
                "feature_names_in_",
                "_infrequent_indices",
                "_default_to_infrequent_mappings",
            }
        ),
        consistent=_parameters_are_valid,
    ),
    "ColumnTransformer": Entry(
        "sklearn.compose",
        {
            **_SHARED,
            "transformers_": items,
            "_columns": items,
            "_transformer_to_input_indices": mapping,
            "_remainder": lambda value, sizes: isinstance(value, tuple),
            "sparse_output_": flag,
            "output_indices_": mapping,
            "_n_features": count,
        },
        optional=frozenset({"feature_names_in_", "_n_features"}),
        consistent=_columns_are_consistent,
    ),
    # What a ColumnTransformer puts where "passthrough" was asked for; it must have no function.
    "FunctionTransformer": Entry(
        "sklearn.preprocessing",
        _SHARED,
        optional=frozenset(_SHARED),
        consistent=_parameters_are_valid,
    ),
    "Pipeline": Entry("sklearn.pipeline", {}, consistent=_steps_are_estimators),
}
_OUTPUT = "_sklearn_output_config"  # what set_output asked for


def is_storable(value: Any) -> bool:
    """Whether the value is an instance of a class of the table, not of one that inherits."""
    entry = STORABLE.get(type(value).__name__)
    return entry is not None and type(value) is entry.load_class(type(value).__name__)


def encode_estimator(encoder: Encoder, estimator: Any, name: str) -> dict | None:
    """An estimator, fitted or not, as JSON and arrays; None if it is not one that is stored."""
    if not is_storable(estimator):
        return None
    entry = STORABLE[type(estimator).__name__]
    parameters = estimator.get_params(deep=False)
    prefix = f"{name}." if name else ""
    if callable(parameters.get("kernel")):
        listed = ", ".join(KERNEL_NAMES)
        raise NotPlainError(
            f"{prefix}kernel is a function of yours, and files hold no code; the kernels that can "
            f"be stored are {listed}"
        )
    attributes = {
        key: value
        for key, value in vars(estimator).items()
        if key not in parameters and key not in _LEFT_OUT
    }
    unknown = sorted(set(attributes) - set(entry.attributes) - {_OUTPUT})
    if unknown:
        raise NotPlainError(
            f"{prefix}{unknown[0]} is an attribute that {type(estimator).__name__} is not known to "
            "have"
        )
    return {
        "class": type(estimator).__name__,
        "parameters": {k: encoder.encode(v, prefix + k) for k, v in parameters.items()},
        # In the table's order: the same model gives the same bytes.
        "attributes": {
            key: encoder.encode(attributes[key], prefix + key)
            for key in (*entry.attributes, _OUTPUT)
            if key in attributes
        },
    }


def decode_estimator(decoder: Decoder, encoded: dict) -> Any:
    """The estimator again, after every attribute has passed its check."""
    expect(set(encoded) == {"class", "parameters", "attributes"}, "an estimator is not complete")
    name, parameters, attributes = (encoded[key] for key in ("class", "parameters", "attributes"))
    expect(isinstance(name, str) and name in STORABLE, f"it holds a {str(name)[:40]!r}")
    expect(isinstance(parameters, dict) and isinstance(attributes, dict), f"{name} is not complete")
    entry = STORABLE[name]
    parameters = {key: decoder.decode(value) for key, value in parameters.items()}
    attributes = {key: decoder.decode(value) for key, value in attributes.items()}
    known = entry.load_class(name)
    missing = sorted(set(parameters) - set(known._get_param_names()))  # type: ignore[attr-defined]
    expect(not missing, f"{name} has no parameter {str(missing)[:60]} in the installed version")
    estimator = known(**parameters)
    output = attributes.pop(_OUTPUT, None)
    expect(output is None or _is_text_map(output), f"the output of {name} is not known")
    if output is not None:
        setattr(estimator, _OUTPUT, output)
    if attributes or not entry.attributes:
        _set_attributes(estimator, entry, attributes)
    return estimator


def _set_attributes(estimator: Any, entry: Entry, attributes: dict[str, Any]) -> None:
    name = type(estimator).__name__
    unknown = sorted(set(attributes) - set(entry.attributes))
    expect(not unknown, f"{name} has no attribute {str(unknown)[:60]}")
    missing = sorted(set(entry.attributes) - set(attributes) - entry.optional)
    expect(not missing, f"{name} lacks {', '.join(missing)}")
    sizes: Sizes = {}
    if "n_features_in_" in attributes:
        expect(count(attributes["n_features_in_"], {}), f"n_features_in_ of {name} is no number")
        sizes["p"] = attributes["n_features_in_"]
    # In the table's order, so that a letter is met first where it is defined.
    for key, check in entry.attributes.items():
        if key in attributes:
            expect(check(attributes[key], sizes), f"{key} of {name} is not what it must be")
            setattr(estimator, key, attributes[key])
    entry.consistent(estimator, sizes)


def _is_text_map(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(part, str) for pair in value.items() for part in pair
    )


def is_fitted(estimator: Any) -> bool:
    """Whether an estimator and all that it is made of are fitted; words as "drop" need no fit."""
    if isinstance(estimator, str):
        return True
    try:
        check_is_fitted(estimator)
    except (NotFittedError, TypeError):
        return False
    parts = [*getattr(estimator, "steps", []), *getattr(estimator, "transformers_", [])]
    return all(is_fitted(part[1]) for part in parts)

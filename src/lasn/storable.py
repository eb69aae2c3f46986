"""Which estimators a model file can hold: one table entry a class.

An entry names where the class lives and what each attribute that a fit sets must be, in the words
of :mod:`lasn.attribute_checks`. The letter ``p`` is ``n_features_in_`` from the start. To store
another class, add an entry.

A class that is not in the table is never imported, and an attribute that is not in its entry is
never set, whatever a file says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from importlib import import_module
from typing import Any

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
from lasn.fit_checks import (
    classifier_is_consistent,
    corners_ascend,
    map_is_consistent,
    regressor_is_consistent,
    slope_is_positive,
    tuned_classifier_is_consistent,
    tuned_regressor_is_consistent,
)
from lasn.kernels import KERNEL_NAMES
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
_FIT = {
    **_SHARED,
    **_KERNEL,
    "history_": records,
    "n_iter_": count,
    "stage_seconds_": mapping,
    "_dtype": feature_dtype,
    "_n_features_trained": either(nothing, count),
}
_CLASSIFIER = {
    **_FIT,
    "classes_": labels("c"),
    "coef_": numbers("s", "q", finite=True),
    "dual_coef_": numbers("s", "k", finite=True),
    "intercept_": numbers("s", finite=True),
    "_n_scores": count,
}
_REGRESSOR = {
    **_FIT,
    "coef_": either(numbers("s", "q", finite=True), numbers("q", finite=True)),
    "dual_coef_": either(numbers("s", "k", finite=True), numbers("k", finite=True)),
    "intercept_": either(finite_number, numbers("s", finite=True)),
    "_n_scores": either(nothing, count),
}
_ONE_FIT = {"refine_curve_": records, "_landmark_parameters": mapping}
_SEARCH = {
    "cv_results_": mapping,
    "best_index_": count,
    "best_score_": finite_number,
    "best_params_": mapping,
    "C_": positive_number,
    "n_splits_": count,
    "landmark_curve_": records,
}
# A checkpoint of a fit has not yet the seconds of its stages, nor what rounds have cost.
_UNTIMED = frozenset({"feature_names_in_", "stage_seconds_", "refine_curve_"})
_SCALER = {**_SHARED, "n_samples_seen_": either(number, counts("p"))}
_PER_FEATURE = either(nothing, numbers("p"))

STORABLE: dict[str, Entry] = {
    "LASNClassifier": Entry(
        "lasn.estimators",
        {**_CLASSIFIER, **_ONE_FIT},
        optional=_UNTIMED,
        consistent=classifier_is_consistent,
    ),
    "LASNRegressor": Entry(
        "lasn.estimators",
        {**_REGRESSOR, **_ONE_FIT},
        optional=_UNTIMED,
        consistent=regressor_is_consistent,
    ),
    "LASNClassifierCV": Entry(
        "lasn.selection",
        {**_CLASSIFIER, **_SEARCH, "_calibration": lambda value, sizes: is_calibration(value)},
        optional=frozenset({"feature_names_in_", "_calibration"}),
        consistent=tuned_classifier_is_consistent,
    ),
    "LASNRegressorCV": Entry(
        "lasn.selection", {**_REGRESSOR, **_SEARCH}, consistent=tuned_regressor_is_consistent
    ),
    "SigmoidCalibration": Entry("lasn.calibration", {}, consistent=slope_is_positive),
    "IsotonicCalibration": Entry("lasn.calibration", {}, consistent=corners_ascend),
    "NystroemMap": Entry(
        "lasn.features",
        {**_SHARED, **_KERNEL, "_n_features_out": count},
        consistent=map_is_consistent,
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


def is_calibration(value: Any) -> bool:
    return is_storable(value) and STORABLE[type(value).__name__].module == "lasn.calibration"


def is_storable(value: Any) -> bool:
    """Whether the value is an instance of a class of the table, not of one that inherits."""
    entry = STORABLE.get(type(value).__name__)
    return entry is not None and type(value) is entry.load_class(type(value).__name__)


def encode_estimator(encoder: Encoder, estimator: Any, name: str) -> dict | None:
    """An estimator, fitted or not, as JSON and arrays; None if it is not one that is stored."""
    if not is_storable(estimator):
        return None
    entry = STORABLE[type(estimator).__name__]
    parameters = {key: getattr(estimator, key) for key in _parameter_names(type(estimator))}
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
    missing = sorted(set(parameters) - set(_parameter_names(known)))
    expect(not missing, f"{name} has no parameter {str(missing)[:60]} in the installed version")
    estimator = known(**parameters)
    output = attributes.pop(_OUTPUT, None)
    expect(output is None or _is_text_map(output), f"the output of {name} is not known")
    if output is not None:
        setattr(estimator, _OUTPUT, output)
    if attributes or not entry.attributes:
        _set_attributes(estimator, entry, attributes)
    return estimator


def _parameter_names(known: Any) -> list[str]:
    """What the constructor takes: of an estimator, or of a dataclass."""
    if hasattr(known, "_get_param_names"):
        return known._get_param_names()
    return [field.name for field in fields(known)]


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
    # Slow to import: who reads arrays alone does not wait for it.
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    if isinstance(estimator, str):
        return True
    try:
        check_is_fitted(estimator)
    except (NotFittedError, TypeError):
        return False
    parts = [*getattr(estimator, "steps", []), *getattr(estimator, "transformers_", [])]
    return all(is_fitted(part[1]) for part in parts)

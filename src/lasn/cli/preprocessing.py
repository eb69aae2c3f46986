"""Steps between a file's columns and the estimator: filling in, scaling, one-hot encoding.

They are scikit-learn's own, fitted on the training rows and stored in the model file, so a pipeline
that is loaded in Python predicts what the command line predicts.
"""

from __future__ import annotations

from typing import Any

from lasn.cli.errors import UsageError
from lasn.tables import Selection

SCALES = ("standard", "minmax", "maxabs", "none")
IMPUTATIONS = ("mean", "median", "most_frequent", "zero")


def preprocessing_steps(
    selection: Selection, scale: str, impute: str | None, sparse: bool
) -> list[tuple[str, Any]]:
    """Named transformers, not yet fitted; none if there is nothing to do."""
    if sparse and scale in ("standard", "minmax"):
        raise UsageError(
            f"--scale {scale} would turn the zeros of sparse rows into other numbers. "
            "Give --scale maxabs, or --dense if memory allows."
        )
    if sparse and impute is not None:
        raise UsageError("--impute has no meaning for sparse rows: what is not there is zero.")
    numbers = _steps_for_numbers(scale, impute)
    if not selection.categorical:
        return numbers
    return [("columns", _by_columns(selection, numbers))]


def _steps_for_numbers(scale: str, impute: str | None) -> list[tuple[str, Any]]:
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

    steps: list[tuple[str, Any]] = []
    if impute is not None:
        strategy = "constant" if impute == "zero" else impute
        imputer = SimpleImputer(strategy=strategy, fill_value=0.0, keep_empty_features=True)
        steps.append(("impute", imputer))
    scalers = {"standard": StandardScaler, "minmax": MinMaxScaler, "maxabs": MaxAbsScaler}
    if scale in scalers:
        steps.append(("scale", scalers[scale]()))
    return steps


def _by_columns(selection: Selection, numbers: list[tuple[str, Any]]):
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    names = selection.features or ()
    text = [j for j, name in enumerate(names) if name in selection.categorical]
    other = [j for j, name in enumerate(names) if name not in selection.categorical]
    # Beside text, numbers come as objects; a scaler that does nothing makes floats of them.
    numbers = numbers or [("float", StandardScaler(with_mean=False, with_std=False))]
    parts: list[tuple[str, Any, list[int]]] = []
    if other:
        parts.append(("numbers", Pipeline(numbers), other))
    # Categories that were not seen in training are zeros in every column.
    parts.append(("categories", OneHotEncoder(handle_unknown="ignore"), text))
    return ColumnTransformer(parts)

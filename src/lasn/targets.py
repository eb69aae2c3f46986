"""Rows, targets and weights as fits want them, NumPy's or torch's, or an error that says why."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.validation import validate_data

from lasn.arrays import is_tensor, like, namespace, to_numpy, wide
from lasn.devices import as_numpy, as_tensor, check_tensor, is_foreign


def validate_rows(estimator: Any, X: Any, device: Any, reset: bool) -> Any:
    """Rows as an array, a CSR matrix or, for a torch device, a tensor if they are foreign."""
    if device is not None and is_foreign(X):
        X = as_tensor(X)
        rows = check_tensor("X", X)
        validate_data(estimator, X, skip_check_array=True, reset=reset)
        return rows
    types = [np.float64, np.float32]
    return validate_data(estimator, as_numpy(X), accept_sparse="csr", dtype=types, reset=reset)


def check_targets(y, n_rows: int, multi_output: bool = False, y_numeric: bool = False):
    """Targets of rows that are tensors: a tensor, or an array of labels of any type."""
    if is_tensor(y):
        if y_numeric or y.is_floating_point():
            y = check_tensor("y", y, ndim=(1, 2) if multi_output else (1,))
    elif multi_output:
        y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
    else:
        y = column_or_1d(y)
    if y.ndim not in ((1, 2) if multi_output else (1,)) or y.shape[0] != n_rows:
        raise ValueError(
            f"y has shape {tuple(y.shape)} but X has {n_rows} rows; y must have shape ({n_rows},)"
            f"{f' or ({n_rows}, n_targets)' if multi_output else ''}."
        )
    return y


def check_sample_weight(sample_weight, X):
    """Weights of the rows, shape (n,), where the rows are."""
    n_rows = X.shape[0]
    if sample_weight is None:
        return wide(X[:, 0] * 0.0 + 1.0) if is_tensor(X) else np.ones(n_rows)
    try:
        weight = like(sample_weight, X, np.float64) if is_tensor(X) else None
        if weight is None:
            weight = np.array(to_numpy(sample_weight), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"sample_weight must be numbers: {error}.") from error
    if weight.ndim == 0:
        weight = weight + check_sample_weight(None, X) * 0.0
    if weight.ndim != 1:
        raise ValueError(
            f"Sample weights must be 1D array or scalar: sample_weight has shape {weight.shape}, "
            f"it must have shape ({n_rows},)."
        )
    if len(weight) != n_rows:
        raise ValueError(
            f"sample_weight.shape == {weight.shape}, expected {(n_rows,)}: one weight a row of X."
        )
    if not namespace(weight).isfinite(weight).all():
        raise ValueError("sample_weight contains NaN or infinity; every weight must be finite.")
    if (weight < 0).any():
        raise ValueError(
            f"sample_weight has negative values (the least is {weight.min():g}); every weight must "
            "be zero or more."
        )
    if not (weight > 0).any():
        raise ValueError("sample_weight is zero for every row; at least one must be positive.")
    return weight


def class_weights(class_weight, classes, totals: np.ndarray) -> np.ndarray:
    """The weight of each class; ``"balanced"`` looks at the ``totals`` of the rows' weights."""
    if class_weight == "balanced":
        present = totals > 0.0
        balanced = totals.sum() / (np.count_nonzero(present) * np.where(present, totals, 1.0))
        return np.where(present, balanced, 0.0)
    if isinstance(class_weight, dict):
        unknown = [label for label in class_weight if label not in classes]
        if unknown:
            raise ValueError(
                f"class_weight names {unknown[0]!r}, which is not a class of y. "
                f"The classes are {classes[:10].tolist()}{' ...' if len(classes) > 10 else ''}."
            )
    given = class_weight or {}
    return np.array([given.get(label, 1.0) for label in classes.tolist()], dtype=np.float64)

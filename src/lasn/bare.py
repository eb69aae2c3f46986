"""A model file as arrays: scores without scikit-learn, whose import outlasts most predictions.

Of a file that holds one of this package's estimators, alone or behind scalers, the arrays are
enough::

    StandardScaler  (x - mean) / scale        scores  K(x, L) beta + b
    MinMaxScaler    x * scale + min           labels  the class of the largest score
    MaxAbsScaler    x / scale

Any other file, and any whose values are not what they must be, is left to :func:`lasn.load`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from lasn.arrays import is_sparse
from lasn.attribute_checks import Sizes, finite_number
from lasn.kernels import KERNEL_NAMES, Kernel, resolve_kernel_name
from lasn.persist import errors_name, read_parts
from lasn.plain import Decoder
from lasn.prediction import prediction_columns, scores
from lasn.storable import STORABLE

_ESTIMATORS = ("LASNClassifier", "LASNClassifierCV", "LASNRegressor", "LASNRegressorCV")
# What scores are made of; classes_ are a classifier's.
_NEEDED = (
    "n_features_in_", "landmarks_", "gamma_", "classes_", "dual_coef_", "intercept_", "_dtype"
)  # fmt: skip


@dataclass
class _Record:
    """An estimator as its file has it."""

    name: str
    parameters: dict[str, Any]
    attributes: dict[str, Any]


class _NotBareError(Exception):
    """The file holds more than arrays can stand for."""


class BareModel:
    """Scores, labels and predictions of a model file, equal to those of the loaded model.

    Attributes
    ----------
    n_features_in_ : int
    feature_names_in_ : array of shape (p,), where the model knows them
    classes_ : array, of classifiers only
    intercept_ : float or array of shape (c,)
    """

    feature_names_in_: np.ndarray

    def __init__(self, estimator: _Record, scalings: list[Callable[[Any], Any]]):
        values = _checked(estimator)
        self.n_features_in_ = values["n_features_in_"]
        self.intercept_ = values["intercept_"]
        if "classes_" in values:
            self.classes_ = values["classes_"]
        self.landmarks_ = values["landmarks_"]
        self._scalings = scalings
        self._beta = np.atleast_2d(values["dual_coef_"]).T
        self._is_single = np.ndim(values["dual_coef_"]) == 1
        self._columns = None
        if self.landmarks_ is not None:
            kernel = _kernel(estimator.parameters, values["gamma_"])
            self._columns = prediction_columns(
                kernel, self.landmarks_, self._beta, values["_dtype"]
            )

    def decision_function(self, X) -> np.ndarray:
        """Scores, shape (m,) for two classes or one target, (m, c) for more."""
        for scale in self._scalings:
            X = scale(X)
        values = scores(X, self._columns, self._beta, self.intercept_)
        flat = values.shape[1] == 1 and (self._is_single or hasattr(self, "classes_"))
        return values[:, 0] if flat else values

    def predict(self, X) -> np.ndarray:
        """Labels of a classifier, numbers of a regressor."""
        values = self.decision_function(X)
        return self._labels(values) if hasattr(self, "classes_") else values

    def _labels(self, values: np.ndarray) -> np.ndarray:
        if values.ndim == 1:
            return self.classes_[(values > 0.0).astype(int)]
        return self.classes_[values.argmax(axis=1)]


def load_bare(path: str | os.PathLike) -> BareModel | None:
    """The arrays of a model file, ready to give scores; None if it takes more than them.

    Raises
    ------
    ModelFileError
        If the file is no model file, is damaged, or is of a later format.

    Examples
    --------
    >>> import os, tempfile
    >>> import lasn
    >>> from lasn.bare import load_bare
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = lasn.LASNClassifier(n_landmarks=20, random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "iris.lasn")
    ...     lasn.save(model, path)
    ...     bare = load_bare(path)
    >>> bool((bare.predict(X) == model.predict(X)).all())
    True
    """
    with open(path, "rb") as stream, errors_name(os.fspath(path)):
        document, tensors = read_parts(stream)
        try:
            whole = Decoder(tensors, _record).decode(document["estimator"])
            *steps, last = records = _steps(whole)
            model = BareModel(last, [_scaling(step) for step in steps])
            if "feature_names_in_" in records[0].attributes:
                model.feature_names_in_ = _names(records[0])
            return model
        except (_NotBareError, KeyError, TypeError, ValueError, AttributeError):
            return None


def _record(decoder: Decoder, encoded: dict) -> _Record:
    decoded = {
        part: {key: decoder.decode(value) for key, value in encoded[part].items()}
        for part in ("parameters", "attributes")
    }
    return _Record(encoded["class"], **decoded)


def _steps(whole: Any) -> list[_Record]:
    if whole.name != "Pipeline":
        return [whole]
    _require(not whole.attributes)
    steps = [step for _, step in whole.parameters["steps"]]
    _require(bool(steps) and all(isinstance(step, _Record) for step in steps))
    return steps


def _names(step: _Record) -> np.ndarray:
    names, sizes = step.attributes["feature_names_in_"], {"p": step.attributes["n_features_in_"]}
    _require(STORABLE[step.name].attributes["feature_names_in_"](names, sizes))
    return names


def _scaling(step: _Record) -> Callable[[Any], Any]:
    """A scaler's formula."""
    known = {"StandardScaler": _standard, "MinMaxScaler": _minmax, "MaxAbsScaler": _maxabs}
    _require(step.name in known and not step.parameters.get("clip"))
    entry, sizes = STORABLE[step.name], {"p": step.attributes["n_features_in_"]}
    for key, value in step.attributes.items():
        _require(key in entry.attributes and entry.attributes[key](value, sizes))
    return known[step.name](step)


def _standard(step: _Record) -> Callable[[Any], Any]:
    mean = step.attributes["mean_"] if step.parameters["with_mean"] else None
    scale = step.attributes["scale_"] if step.parameters["with_std"] else None

    def transform(X):
        X = X if mean is None else X - mean
        return X if scale is None else _divided(X, scale)

    return transform


def _minmax(step: _Record) -> Callable[[Any], Any]:
    scale, least = step.attributes["scale_"], step.attributes["min_"]
    return lambda X: X * scale + least


def _maxabs(step: _Record) -> Callable[[Any], Any]:
    return lambda X: _divided(X, step.attributes["scale_"])


def _divided(X, scale: np.ndarray):
    return scipy.sparse.csr_matrix(X.multiply(1.0 / scale)) if is_sparse(X) else X / scale


def _checked(estimator: _Record) -> dict[str, Any]:
    """The attributes that scores are made of, after the checks of every model file."""
    _require(estimator.name in _ESTIMATORS and estimator.parameters["device"] == "cpu")
    attributes, checks = estimator.attributes, STORABLE[estimator.name].attributes
    sizes: Sizes = {"p": attributes["n_features_in_"]}
    values = {key: attributes[key] for key in _NEEDED if key in checks}
    for key, value in values.items():
        _require(checks[key](value, sizes))
    n_scores = len(np.atleast_2d(values["dual_coef_"]))
    _require(n_scores == np.size(values["intercept_"]))
    _require("classes_" not in values or n_scores == _n_scores(len(values["classes_"])))
    _require(values["landmarks_"] is not None or sizes["k"] == sizes["p"])
    return values


def _n_scores(n_classes: int) -> int:
    return 1 if n_classes == 2 else n_classes


def _kernel(parameters: dict[str, Any], gamma: float) -> Kernel:
    name, degree, coef0 = (parameters[key] for key in ("kernel", "degree", "coef0"))
    _require(resolve_kernel_name(name) in KERNEL_NAMES and isinstance(name, str))
    _require(finite_number(degree, {}) and degree >= 1 and finite_number(coef0, {}))
    return Kernel(name, gamma=gamma, degree=degree, coef0=coef0)


def _require(condition: Any) -> None:
    if not condition:
        raise _NotBareError

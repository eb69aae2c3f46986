"""Model files: ``save``, ``load`` and ``describe``. No code is in them and none runs on loading.

A model file is a safetensors file (``lasn.safetensors``) with four texts beside its arrays::

    format    "lasn"
    version   of the format, a whole number; a file of a later one is refused
    model     JSON: the estimator (lasn.storable, lasn.plain), the versions that wrote it, a
              summary, the caller's metadata, and a SHA-256 of each array
    sha256    of the text above

so that any change of any byte that matters is noticed. The same model gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy as np
import scipy

from lasn.arrays import is_sparse
from lasn.atomic import write_atomically
from lasn.plain import Decoder, Encoder, NotDecodableError, NotPlainError, expect
from lasn.safetensors import (
    Header,
    SafetensorsError,
    parse_json,
    read_header,
    read_tensor,
    tensor_bytes,
    write_chunks,
)
from lasn.storable import STORABLE, decode_estimator, encode_estimator, is_fitted, is_storable

FORMAT_VERSION = 1
_DOCUMENT = {"estimator", "versions", "summary", "metadata", "arrays"}
# What values that no model has can provoke in constructors and checks.
_PROVOKED = (ValueError, TypeError, AttributeError, KeyError, OverflowError, RecursionError)


class ModelFileError(ValueError):
    """A model file that cannot be read, or a model that cannot be written to one.

    Examples
    --------
    >>> import os, tempfile
    >>> import lasn
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "empty.lasn")
    ...     open(path, "w").close()
    ...     try:
    ...         lasn.load(path)
    ...     except lasn.ModelFileError:
    ...         print("not a model")
    not a model
    """


class _LaterFormatError(NotDecodableError):
    """A file that a later LASN will be able to read."""


def save(model, path: str | os.PathLike, *, metadata: Mapping[str, Any] | None = None) -> None:
    """Write a fitted model to a file that holds no code.

    The file appears whole or not at all; an older file of that name stays until then.

    Parameters
    ----------
    model : LASNClassifier, LASNRegressor, NystroemMap, or Pipeline
        A pipeline may have StandardScaler, MinMaxScaler, MaxAbsScaler, SimpleImputer,
        OneHotEncoder and ColumnTransformer before them. A kernel that is a function cannot be
        saved. A ``random_state`` that is a RandomState is saved with its state. Callbacks are not
        saved.
    path : str or path
    metadata : mapping, optional
        Anything that JSON can hold, for :func:`lasn.persist.describe` to return; usually the data's
        :func:`lasn.persist.fingerprint` and metrics.

    Raises
    ------
    ModelFileError
        If the model has parts that a file cannot hold.
    sklearn.exceptions.NotFittedError
        If the model is not fitted.

    Examples
    --------
    >>> import os, tempfile
    >>> import lasn
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = lasn.LASNClassifier(n_landmarks=20, random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "iris.lasn")
    ...     lasn.save(model, path, metadata={"data": lasn.persist.fingerprint(X, y)})
    ...     copy = lasn.load(path)
    >>> bool((copy.decision_function(X) == model.decision_function(X)).all())
    True
    """
    write_atomically(path, file_chunks(model, metadata))


def load(path: str | os.PathLike):
    """Read a model that :func:`lasn.save` wrote.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    model : estimator
        Fitted; its scores are those of the saved model to the last bit.

    Raises
    ------
    ModelFileError
        If the file is not a model file, is damaged, or is of a later format.
    OSError
        If there is no such file or it cannot be opened.

    Examples
    --------
    >>> import os, tempfile
    >>> import lasn
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = lasn.LASNClassifier(n_landmarks=20, random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     lasn.save(model, os.path.join(folder, "iris.lasn"))
    ...     copy = lasn.load(os.path.join(folder, "iris.lasn"))
    >>> copy.n_landmarks_
    20
    """
    with open(path, "rb") as stream:
        return read_model(stream, os.fspath(path))


def describe(path: str | os.PathLike) -> dict[str, Any]:
    """What a model file says of its model, read from its header alone.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    description : dict
        ``format_version``; ``versions`` of the packages that wrote it; ``summary``: estimator,
        steps, parameters and, as far as the model has them, classes, n_features, feature_names,
        n_landmarks, gamma, n_iter, best_params, best_score, relative_gradient or
        relative_gap, seconds;
        ``metadata`` as given to :func:`lasn.save`; ``arrays``: dtype and shape by name;
        ``bytes``, the file's size.

    Examples
    --------
    >>> import os, tempfile
    >>> import lasn
    >>> from sklearn.datasets import load_iris
    >>> model = lasn.LASNClassifier(20, random_state=0).fit(*load_iris(return_X_y=True))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "iris.lasn")
    ...     lasn.save(model, path, metadata={"data": "iris"})
    ...     description = lasn.persist.describe(path)
    >>> description["summary"]["estimator"], description["summary"]["n_landmarks"]
    ('LASNClassifier', 20)
    >>> description["metadata"]
    {'data': 'iris'}
    """
    with open(path, "rb") as stream, errors_name(os.fspath(path)):
        header = read_header(stream)
        document = _document(header)
        return {
            "format_version": int(header.metadata["version"]),
            "versions": document["versions"],
            "summary": document["summary"],
            "metadata": document["metadata"],
            "arrays": {
                name: {"dtype": entry.dtype.name, "shape": entry.shape}
                for name, entry in header.entries.items()
            },
            "bytes": stream.seek(0, os.SEEK_END),
        }


def fingerprint(X, y=None) -> dict[str, Any]:
    """Shape and SHA-256 of rows and targets: equal for equal values in equal containers.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, p), or data frame
    y : array of shape (n,) or (n, n_targets), optional

    Returns
    -------
    fingerprint : dict
        ``rows``, ``features``, ``sha256``.

    Examples
    --------
    >>> import numpy as np
    >>> from lasn.persist import fingerprint
    >>> fingerprint(np.zeros((3, 2)))["rows"]
    3
    """
    digest = hashlib.sha256()
    parts = [X.data, X.indices, X.indptr] if is_sparse(X) else [np.asarray(X)]
    for part in parts if y is None else [*parts, np.asarray(y)]:
        digest.update(f"{part.dtype.kind} {part.shape}\n".encode())
        if part.dtype.kind in "biuf":
            digest.update(tensor_bytes(part))
        else:
            digest.update("\0".join(map(str, part.ravel())).encode("utf-8", "surrogatepass"))
    return {"rows": int(X.shape[0]), "features": int(X.shape[1]), "sha256": digest.hexdigest()}


def read_model(stream: BinaryIO, name: str):
    """The model in a seekable binary stream; errors call it ``name``."""
    with errors_name(name):
        document, tensors = read_parts(stream)
        return _decode(document["estimator"], tensors)


def read_parts(stream: BinaryIO) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The JSON and the arrays of a model file, once they are known to be unchanged."""
    header = read_header(stream)
    document = _document(header)
    digests = document["arrays"]
    expect(
        isinstance(digests, dict) and digests.keys() == header.entries.keys(),
        "its arrays are not those that its header lists",
    )
    tensors = {key: read_tensor(stream, header, key) for key in header.entries}
    for key, array in tensors.items():
        expect(_digest(array) == digests[key], f"the array {key!r} was changed")
    return document, tensors


def file_chunks(model, metadata: Mapping[str, Any] | None = None) -> list[bytes | memoryview]:
    """The bytes of a model's file, in pieces; arrays are not copied."""
    if not is_storable(model):
        raise ModelFileError(
            f"A {type(model).__name__} cannot be saved to a model file. The classes that can are "
            f"{', '.join(STORABLE)}; for others use joblib or pickle."
        )
    if not is_fitted(model):
        from sklearn.exceptions import NotFittedError

        raise NotFittedError(f"This {type(model).__name__} is not fitted: call fit before saving.")
    encoder = Encoder(encode_estimator)
    try:
        estimator = encoder.encode(model, "")
        # What could not be read again is better known now.
        _decode(estimator, encoder.tensors)
    except (NotPlainError, *_PROVOKED) as error:
        raise ModelFileError(
            f"This {type(model).__name__} cannot be saved to a model file: {error}. Change that "
            "with set_params, or use joblib or pickle."
        ) from error
    document = {
        "estimator": estimator,
        "versions": _versions(),
        "summary": _summary(model),
        "metadata": _checked_metadata(metadata),
        "arrays": {name: _digest(array) for name, array in encoder.tensors.items()},
    }
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    texts = {
        "format": "lasn",
        "version": str(FORMAT_VERSION),
        "sha256": hashlib.sha256(text.encode("ascii")).hexdigest(),
        "model": text,
    }
    try:
        return list(write_chunks(encoder.tensors, texts))
    except SafetensorsError as error:
        raise ModelFileError(f"This {type(model).__name__} cannot be saved: {error}.") from error


def _decode(estimator: Any, tensors: dict[str, np.ndarray]):
    decoder = Decoder(tensors, decode_estimator)
    model = decoder.decode(estimator)
    expect(is_storable(model) and is_fitted(model), "it holds no fitted estimator")
    expect(not decoder.unused, "it holds arrays that no estimator uses")
    return model


def _document(header: Header) -> dict[str, Any]:
    """The JSON of a header, once its format, version and digest are known to be right."""
    texts = header.metadata
    expect(texts.get("format") == "lasn", "it is a safetensors file without a LASN model")
    version = texts.get("version", "")
    expect(version.isascii() and version.isdigit() and len(version) < 10, "it has no version")
    expect(int(version) > 0, "it has no version")
    if int(version) > FORMAT_VERSION:
        raise _LaterFormatError(
            f"its format is version {version} and this LASN reads up to {FORMAT_VERSION}: it was "
            "written by a later LASN"
        )
    text = texts.get("model", "").encode("utf-8", "surrogatepass")
    expect(hashlib.sha256(text).hexdigest() == texts.get("sha256"), "its header was changed")
    document = parse_json(text)
    expect(isinstance(document, dict) and set(document) == _DOCUMENT, "its header is not complete")
    return document


@contextmanager
def errors_name(name: str) -> Iterator[None]:
    """Turn whatever a bad file provokes into one error that names it."""
    try:
        yield
    except (SafetensorsError, NotDecodableError, *_PROVOKED) as error:
        advice = "Save the model again, or copy the file again from where it is whole."
        if isinstance(error, _LaterFormatError):
            advice = "Upgrade with: pip install --upgrade lasn"
        raise ModelFileError(f"{name} cannot be read as a model: {error}. {advice}") from error


def _digest(array: np.ndarray) -> str:
    """SHA-256 of an array's dtype, shape and values."""
    digest = hashlib.sha256(f"{array.dtype.name} {array.shape}\n".encode())
    digest.update(tensor_bytes(array))
    return digest.hexdigest()


def _versions() -> dict[str, str]:
    import sklearn

    from lasn import __version__

    return {
        "lasn": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
    }


def _summary(model) -> dict[str, Any]:
    """What a person wants to know of a model before loading it, as JSON."""
    last = model.steps[-1][1] if hasattr(model, "steps") else model
    summary: dict[str, Any] = {
        "estimator": type(last).__name__,
        "steps": [type(step).__name__ for _, step in getattr(model, "steps", [])],
        "parameters": {k: _readable(v) for k, v in last.get_params(deep=False).items()},
    }
    first = model.steps[0][1] if hasattr(model, "steps") else model
    for key, source, attribute in (
        ("classes", last, "classes_"),
        ("n_features", first, "n_features_in_"),
        ("feature_names", first, "feature_names_in_"),
        ("n_landmarks", last, "n_landmarks_"),
        ("gamma", last, "gamma_"),
        ("n_iter", last, "n_iter_"),
        ("best_params", last, "best_params_"),
        ("best_score", last, "best_score_"),
    ):
        if hasattr(source, attribute):
            value = getattr(source, attribute)
            summary[key] = value.tolist() if isinstance(value, np.ndarray) else value
    if getattr(last, "history_", None):
        record = last.history_[-1]
        for key in ("relative_gradient", "relative_gap"):
            if key in record:
                summary[key] = float(np.max(record[key]))
        summary["seconds"] = float(record["seconds"])
    return summary


def _readable(value: Any) -> Any:
    """A parameter as JSON has it, or in words."""
    if isinstance(value, (type(None), bool, int, str)) or (
        isinstance(value, float) and np.isfinite(value)
    ):
        return value
    if hasattr(value, "shape"):
        return f"{type(value).__name__} of shape {value.shape}"
    if isinstance(value, (float, dict, list, tuple)):
        return repr(value)[:200]
    return type(value).__name__


def _checked_metadata(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    if metadata is not None and not isinstance(metadata, Mapping):
        raise TypeError(f"metadata must be a mapping or None, not a {type(metadata).__name__}.")
    try:
        return json.loads(json.dumps(dict(metadata or {}), allow_nan=False, default=_as_python))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(
            f"metadata must be what JSON can hold, with finite numbers and text as keys: {error}."
        ) from error


def _as_python(value: Any) -> Any:
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} is not")

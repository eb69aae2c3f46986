"""Fits that survive their process: the model of each iteration in a file, to go on from."""

from __future__ import annotations

import os
from copy import copy
from typing import Any

from lasn.model import Model


def write_checkpoint(estimator: Any, path: str | os.PathLike) -> None:
    """Write the estimator, as if its fit had ended here; the file appears whole or not at all."""
    from lasn.persist import save

    finished = copy(estimator)
    finished.checkpoint, finished.resume = None, False
    save(finished, path)


def read_checkpoint(estimator: Any, problem: Any) -> Model | None:
    """The model to go on from; None if there is no such file yet.

    It must be of the same kind of estimator with the same parameters of landmarks and kernel, for
    as many features and problems.
    """
    from lasn.persist import load

    path = estimator.checkpoint
    if not os.path.exists(path):
        return None
    before = load(path)
    if type(before) is not type(estimator):
        raise ValueError(
            f"checkpoint={os.fspath(path)!r} holds a {type(before).__name__}; this is a "
            f"{type(estimator).__name__}. Name another file, or remove that one."
        )
    known, now = before._landmark_parameters, estimator._current_landmark_parameters()
    for name, value in now.items():
        if isinstance(value, (str, int, float)) and known.get(name) != value:
            raise ValueError(
                f"checkpoint={os.fspath(path)!r} was written with {name}={known.get(name)!r}, and "
                f"this fit has {name}={value!r}. Use the same parameters, or remove that file."
            )
    model = before._fitted_model()
    if before.n_features_in_ != problem.n_features or model.W.shape[1] != problem.n_problems:
        raise ValueError(
            f"checkpoint={os.fspath(path)!r} is of {before.n_features_in_} features and "
            f"{model.W.shape[1]} problems; these rows have {problem.n_features} and "
            f"{problem.n_problems}. Name another file, or remove that one."
        )
    return model

"""Model files as the command line uses them: a pipeline, and what it was trained on."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field
from typing import Any

from lasn.arrays import is_sparse
from lasn.cli.errors import DataError
from lasn.cli.output import write_chunks


@dataclass
class DataNotes:
    """What a model file notes of the training file, so that other files are read alike.

    ``file`` is its name, without folders. ``features`` are names of columns, None for formats
    without columns. ``index_base`` is svmlight's first index. ``fingerprint`` is of rows and
    targets as they were read. ``seconds`` are those of reading and preprocessing.
    """

    file: str | None = None
    features: list[str] | None = None
    categorical: list[str] = field(default_factory=list)
    target: str | None = None
    named: bool = False
    sparse: bool = False
    index_base: int = 1
    missing_allowed: bool = False
    fingerprint: dict[str, Any] | None = None
    seconds: dict[str, float] | None = None


@dataclass
class FileModel:
    """A fitted pipeline (or a bare estimator) with its notes.

    ``metrics`` say how it does on rows that it was trained on; None if they were not measured.
    """

    pipeline: Any
    notes: DataNotes
    metrics: dict[str, float] | None = None

    @property
    def estimator(self):
        steps = getattr(self.pipeline, "steps", None)
        return self.pipeline if steps is None else steps[-1][1]

    @property
    def is_classifier(self) -> bool:
        return hasattr(self.estimator, "classes_")

    @property
    def n_features(self) -> int:
        return int(self.pipeline.n_features_in_)


def write_model(model: FileModel, path: str) -> None:
    """Write a model file, whole or not at all; ``-`` is standard output."""
    from lasn.persist import save

    metadata: dict[str, Any] = {"data": vars(model.notes)}
    if model.metrics is not None:
        metadata["metrics"] = {"training": model.metrics}
    if path != "-":
        save(model.pipeline, path, metadata=metadata)
        return
    with tempfile.TemporaryDirectory() as folder:
        name = os.path.join(folder, "model")
        save(model.pipeline, name, metadata=metadata)
        with open(name, "rb") as stream:
            write_chunks("-", [stream.read()])


def read_model(path: str, *, only_scores: bool = False) -> FileModel:
    """Read a model file; one that was saved from Python has no notes, and guesses stand in.

    With ``only_scores`` the pipeline may have no methods but those of decision values and labels,
    or numbers; it is there sooner, since it needs no scikit-learn.
    """
    pipeline, metadata = _read(path, only_scores)
    known = metadata.get("data")
    if isinstance(known, dict) and known.keys() <= vars(DataNotes()).keys():
        return FileModel(pipeline, DataNotes(**known))
    names = getattr(pipeline, "feature_names_in_", None)
    model = FileModel(pipeline, DataNotes())
    if names is not None:
        model.notes.features, model.notes.named = [str(name) for name in names], True
    model.notes.sparse = is_sparse(model.estimator.landmarks_)
    return model


def describe_model(path: str) -> dict[str, Any]:
    """What a model file says of itself."""
    from lasn.persist import ModelFileError, describe

    _must_be_file(path)
    try:
        return describe(path)
    except ModelFileError as error:
        raise _not_a_model(path, error) from error


def _read(path: str, only_scores: bool) -> tuple[Any, dict[str, Any]]:
    from lasn.bare import load_bare
    from lasn.persist import ModelFileError, load

    metadata = describe_model(path)["metadata"]
    try:
        return (load_bare(path) if only_scores else None) or load(path), metadata
    except ModelFileError as error:
        raise _not_a_model(path, error) from error


def _must_be_file(path: str) -> None:
    if not os.path.exists(path):
        raise DataError(path, "there is no such model file.", "Make one by lasn train.")
    if not os.path.isfile(path):
        raise DataError(path, "this is not a file.", "Name a model file.")


def _not_a_model(path: str, error: Exception) -> DataError:
    return DataError(path, str(error).removeprefix(f"{path} "), "")

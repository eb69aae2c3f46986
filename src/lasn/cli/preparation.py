"""From a file of labelled rows to what an estimator is fitted to: shared by all that learn."""

from __future__ import annotations

import argparse
import os
from contextlib import closing
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
import scipy.sparse as sp

from lasn.cli.errors import DataError, UsageError
from lasn.cli.estimator_flags import make_estimator
from lasn.cli.feedback import Feedback
from lasn.cli.inputs import add_input_flags, open_input, training_selection
from lasn.cli.models import DataNotes, FileModel
from lasn.cli.preprocessing import IMPUTATIONS, SCALES, preprocessing_steps
from lasn.tables import Rows, Selection, Table, read_rows
from lasn.tables.svmlight import SvmlightTable, drop_column_zero

# A target of whole numbers with no more different values than this is one of classes.
_MOST_CLASSES = 20
# Rows with more than this part of their values not zero are kept as a full matrix.
_DENSE = 1 / 3
# A column of text with more different values than this part of the rows is taken for a key.
_MOST_CATEGORIES = 1 / 2
FILE_HELP = """\
FILE is svmlight, CSV, TSV, Parquet, Arrow or NumPy, or - for standard input (with --format). In CSV
and Parquet a column of text is one-hot encoded: the first value of a CSV column says whether it is
text. A category that was not in the training file counts as none of them. A missing value is an
error unless --impute says what to do; a missing category is then a category of its own.
"""


@dataclass
class TrainingData:
    """Rows after the steps, targets, and what a model file notes of them.

    ``why`` says in words how the task was found.
    """

    X: Any
    y: np.ndarray
    steps: list[tuple[str, Any]]
    notes: DataNotes
    path: str
    task: str
    why: str

    def with_steps(self, fitted: Any) -> FileModel:
        """An estimator that was fitted to X, behind the steps that made X."""
        from sklearn.pipeline import Pipeline

        return FileModel(Pipeline([*self.steps, ("model", fitted)]), self.notes)


def add_certify_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--certify",
        action="store_true",
        help="add to the report what is proved of the distance to the exact kernel machine, as "
        "lasn.certify does; it takes the time of all pairs of rows at or within the margin",
    )


def add_training_flags(parser: argparse.ArgumentParser, tasks: list[str]) -> None:
    """The file, its columns, what to do with them, and where the model goes."""
    parser.add_argument("file", metavar="FILE", help="rows to learn from; - is standard input")
    parser.add_argument(
        "-o", "--output", metavar="MODEL", required=True, help="model file; - is standard output"
    )
    parser.add_argument(
        "--task",
        choices=tasks,
        help="default: classify if the target is text or whole numbers with at most "
        f"{_MOST_CLASSES} different values, else regress",
    )
    parser.add_argument(
        "--report",
        metavar="HTML",
        help="also write a report on the fit and the training rows, one file for any browser; "
        "lasn report makes one on other rows",
    )
    add_certify_flag(parser)
    add_input_flags(parser)
    group = parser.add_argument_group("columns")
    group.add_argument(
        "--categorical", metavar="COLUMNS", help="take these for categories; commas between them"
    )
    group.add_argument("--ignore", metavar="COLUMNS", help="leave these out; commas between them")
    group.add_argument(
        "--scale",
        choices=SCALES,
        help="standard: (x - mean) / deviation; minmax: to [0, 1]; maxabs: x / max |x|, which "
        "keeps zeros; default: none. Stored in the model",
    )
    group.add_argument(
        "--impute", choices=IMPUTATIONS, help="fill in missing values so; default: refuse them"
    )
    group.add_argument(
        "--n-features",
        metavar="COUNT",
        type=int,
        help="of svmlight rows, where other files have higher indices; default: the highest here",
    )
    group.add_argument(
        "--dense",
        action="store_true",
        help="keep svmlight rows as a full matrix; default: if a third of it is not zero",
    )


def prepare(
    arguments: argparse.Namespace, classes: dict[str, type], given: dict, feedback: Feedback
) -> TrainingData:
    """Read a file, find out what its target is, and fit the steps before the estimator."""
    _check_for_one_of(classes, [arguments.task] if arguments.task else list(classes), given)
    with closing(open_input(arguments)) as table:
        selection = training_selection(arguments, table)
        rows, seconds = read_labelled(table, selection, given, feedback)
    X, index_base = rows.X, DataNotes.index_base
    if isinstance(table, SvmlightTable):
        X, index_base = drop_column_zero(X)
        X = _widened(X, arguments.n_features, table.path)
    if X.shape[1] == 0:
        raise DataError(table.path, "the rows have no features.", "Give each row some index:value.")
    if sp.issparse(X) and (arguments.dense or X.nnz > _DENSE * np.prod(X.shape, dtype=float)):
        X = _full(X, given.get("memory_limit"), table.path)
    y = tidy_labels(rows.y)
    task, why = (arguments.task, "--task") if arguments.task else infer_task(y)
    make_estimator(classes, task, given)
    _check_target(y, task, table.path)
    _notice_keys(selection, X, feedback)
    sparse = sp.issparse(X)
    steps = preprocessing_steps(selection, arguments.scale or "none", arguments.impute, sparse)
    notes = DataNotes(
        file=os.path.basename(table.path),
        features=None if selection.features is None else list(selection.features),
        categorical=sorted(selection.categorical),
        target=selection.target,
        named=table.named,
        sparse=sparse,
        index_base=index_base,
        missing_allowed=selection.missing_allowed,
        fingerprint=fingerprint_of(X, y),
    )
    began = perf_counter()
    for _, step in steps:
        X = step.fit_transform(X)
    notes.seconds = {"reading": seconds}
    if steps:
        notes.seconds["preprocessing"] = perf_counter() - began
    return TrainingData(X, y, steps, notes, table.path, task, why)


def _notice_keys(selection: Selection, X, feedback: Feedback) -> None:
    """Say which columns of text look like keys: each of their values would be a feature."""
    for place, name in enumerate(selection.features or ()):
        if name in selection.categorical:
            n_values = len(set(X[:, place].tolist()))
            if n_values > _MOST_CATEGORIES * X.shape[0]:
                feedback.notice(
                    f"column {name!r} has {n_values} different values in {X.shape[0]} rows. "
                    f"If they are keys and no categories, give --ignore {name}."
                )


def read_labelled(
    table: Table, selection: Selection, given: dict, feedback: Feedback
) -> tuple[Rows, float]:
    """All rows, and the seconds that reading took; refused as soon as they cannot fit."""
    from lasn.cli.costs import refuse_what_cannot_be_read

    def progress(n_rows: int, n_bytes: int, share: float | None) -> None:
        feedback.rows("reading", n_rows, share)
        refuse_what_cannot_be_read(n_bytes, share, given.get("memory_limit"), table.path)

    began = perf_counter()
    feedback.begin()
    rows = read_rows(table, selection, progress)
    feedback.end("reading")
    return rows, perf_counter() - began


def infer_task(y: np.ndarray) -> tuple[str, str]:
    """Classify or regress, and why.

    Examples
    --------
    >>> import numpy as np
    >>> from lasn.cli.preparation import infer_task
    >>> infer_task(np.array([0, 1, 1]))
    ('classify', 'the target has 2 different whole numbers')
    >>> infer_task(np.array([0.5, 1.5]))
    ('regress', 'the target holds numbers with fractions')
    """
    if y.dtype.kind not in "iufb":
        return "classify", "the target is text"
    if y.dtype.kind == "f":
        return "regress", "the target holds numbers with fractions"
    count = len(np.unique(y))
    task = "classify" if count <= _MOST_CLASSES else "regress"
    return task, f"the target has {count} different whole numbers"


def tidy_labels(y: np.ndarray | None) -> np.ndarray:
    """Text as NumPy's own text, whole numbers as integers."""
    assert y is not None
    if y.dtype == object:
        return y.astype(str)
    if y.dtype.kind == "f" and np.all(np.abs(y) < 2**53) and np.all(y == np.floor(y)):
        return y.astype(np.int64)
    return y


def fingerprint_of(X, y) -> dict[str, Any]:
    from lasn.persist import fingerprint

    return fingerprint(X, y)


def _widened(X, n_features: int | None, path: str):
    if n_features is None:
        return X
    if n_features < X.shape[1]:
        raise DataError(
            path, f"there are {X.shape[1]} features.", f"--n-features {n_features} is too few."
        )
    return sp.csr_matrix((X.data, X.indices, X.indptr), (X.shape[0], n_features))


def _full(X, limit, path: str) -> np.ndarray:
    """A sparse matrix with its zeros, if they fit."""
    from lasn.cli.costs import refuse_what_cannot_be_read

    refuse_what_cannot_be_read(X.shape[0] * X.shape[1] * X.dtype.itemsize, None, limit, path)
    return X.toarray()


def _check_target(y: np.ndarray, task: str, path: str) -> None:
    if task == "regress" and y.dtype.kind not in "iufb":
        raise DataError(path, "the target is text.", "Give --task classify.")
    if task == "classify" and np.all(y == y[0]):
        raise DataError(
            path,
            f"a classifier needs at least two classes, and every row has the label {str(y[0])!r}.",
            "Add rows of another class, or name another --target.",
        )


def _check_for_one_of(classes: dict[str, type], tasks: list[str], given: dict) -> None:
    """Parameters that no task takes are known before the file is read."""
    errors = []
    for task in tasks:
        try:
            make_estimator(classes, task, given)
        except UsageError as error:
            errors.append(error)
    if len(errors) == len(tasks):
        raise errors[0]

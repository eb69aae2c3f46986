"""``lasn train``: from a file of rows to a model file."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import closing
from typing import Any

import numpy as np
import scipy.sparse as sp

from lasn.cli.errors import UsageError
from lasn.cli.estimator_flags import (
    add_estimator_flags,
    estimator_classes,
    given_parameters,
    make_estimator,
)
from lasn.cli.feedback import Feedback, add_feedback_flags
from lasn.cli.inputs import add_input_flags, open_input, prediction_selection, training_selection
from lasn.cli.models import DataNotes, FileModel, read_model, write_model
from lasn.cli.output import check_output
from lasn.cli.preprocessing import IMPUTATIONS, SCALES, preprocessing_steps
from lasn.tables import DataError, Rows, Selection, Table, read_rows
from lasn.tables.svmlight import SvmlightTable, drop_column_zero

# A target of whole numbers with no more different values than this is one of classes.
_MOST_CLASSES = 20
# Rows with more than this part of their values not zero are kept as a full matrix.
_DENSE = 1 / 3
# Seconds of a fit that are worth a word before it starts.
_LONG = 10.0
_DESCRIPTION = """\
Train a kernel SVM on a file and write a model file.

For each class against the rest (once for two classes) this minimises

    1/2 |w|^2 + C sum_i loss(y_i, <w, x~_i>)

over features x~ = [K(x, L) M, 1] made from k landmarks L, by a semismooth Newton method. A
regression minimises the same with the squared epsilon-insensitive loss.

FILE is svmlight, CSV, TSV, Parquet, Arrow or NumPy, or - for standard input (with --format). In CSV
and Parquet a column of text is one-hot encoded: the first value of a CSV column says whether it is
text. A category that was not in the training file counts as none of them. A missing value is an
error unless --impute says what to do; a missing category is then a category of its own.
"""
_EPILOG = """\
example:
  lasn train adult.csv --target income --scale standard --n-landmarks 500 -o adult.lasn
  lasn train a9a.xz --C 1 --checkpoint a9a.part -o a9a.lasn      # Ctrl-C ...
  lasn train a9a.xz --resume a9a.part -o a9a.lasn                # ... and on
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    parser.add_argument("file", metavar="FILE", help="rows to learn from; - is standard input")
    parser.add_argument(
        "-o", "--output", metavar="MODEL", required=True, help="model file; - is standard output"
    )
    parser.add_argument(
        "--task",
        choices=list(estimator_classes()),
        help="default: classify if the target is text or whole numbers with at most "
        f"{_MOST_CLASSES} different values, else regress",
    )
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
    group = parser.add_argument_group("interruption")
    group.add_argument(
        "--checkpoint",
        metavar="FILE",
        help="write the model so far, whole, after each Newton iteration; it stays when the fit "
        "is interrupted, and predicts like any other",
    )
    group.add_argument(
        "--resume",
        metavar="FILE",
        help="go on from a checkpoint of the same rows: same landmarks, so the same minimum, "
        "within --tol",
    )
    add_estimator_flags(parser)
    add_feedback_flags(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    given = given_parameters(arguments)
    check_output(arguments.output, arguments.file)
    if arguments.checkpoint is not None:
        check_output(arguments.checkpoint, arguments.file)
    feedback = Feedback(arguments.log, float(given.get("tol", 1e-3)))
    try:
        if arguments.resume is None:
            model, why = _train(arguments, given, feedback)
        else:
            model, why = _resume(arguments, given, feedback)
    finally:
        feedback.close()
    write_model(model, arguments.output)
    _print_summary(model, why, sys.stderr if arguments.output == "-" else sys.stdout)
    return 0


def _train(arguments: argparse.Namespace, given: dict, feedback: Feedback) -> tuple[FileModel, str]:
    tasks = [arguments.task] if arguments.task else list(estimator_classes())
    _check_for_one_of(tasks, given)
    with closing(open_input(arguments)) as table:
        selection = training_selection(arguments, table)
        rows = _read(table, selection, given, feedback)
    X, index_base = rows.X, DataNotes.index_base
    if isinstance(table, SvmlightTable):
        X, index_base = drop_column_zero(X)
        X = _widened(X, arguments.n_features, table.path)
    if sp.issparse(X) and (arguments.dense or X.nnz > _DENSE * np.prod(X.shape, dtype=float)):
        X = X.toarray()
    y = tidy_labels(rows.y)
    task, why = (arguments.task, "--task") if arguments.task else infer_task(y)
    estimator = make_estimator(task, given)
    if task == "regress" and y.dtype.kind not in "iufb":
        raise DataError(table.path, "the target is text.", "Give --task classify.")
    sparse = sp.issparse(X)
    steps = preprocessing_steps(selection, arguments.scale or "none", arguments.impute, sparse)
    notes = DataNotes(
        features=None if selection.features is None else list(selection.features),
        categorical=sorted(selection.categorical),
        target=selection.target,
        named=table.named,
        sparse=sparse,
        index_base=index_base,
        missing_allowed=selection.missing_allowed,
        fingerprint=_fingerprint(X, y),
    )
    for _, step in steps:
        X = step.fit_transform(X)
    return _fit(X, y, steps, estimator, notes, arguments, table.path, feedback), why


def _resume(arguments, given: dict, feedback: Feedback) -> tuple[FileModel, str]:
    """Go on from a checkpoint; its columns, steps and parameters hold."""
    for name in ("task", "scale", "impute", "categorical", "ignore", "target"):
        if getattr(arguments, name) is not None:
            raise UsageError(f"--{name} is settled by the checkpoint {arguments.resume}.")
    model = read_model(arguments.resume)
    notes, estimator = model.notes, model.estimator
    if notes.fingerprint is None:
        raise DataError(arguments.resume, "this is no checkpoint.", "Name one of lasn train.")
    before = estimator._current_landmark_parameters()
    for name, value in given.items():
        if name in before and value != before[name]:
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(f"{flag} was {before[name]!r} when {arguments.resume} was made.")
    task = next(task for task, kind in estimator_classes().items() if type(estimator) is kind)
    make_estimator(task, {**estimator.get_params(deep=False), **given})
    estimator.set_params(**given, warm_start=True)
    svmlight = {"n_features": model.n_features, "index_base": notes.index_base}
    with closing(open_input(arguments, **svmlight)) as table:
        rows = _read(table, prediction_selection(model, table, notes.target), given, feedback)
    X, y = rows.X, tidy_labels(rows.y)
    if sp.issparse(X) and not notes.sparse:
        X = X.toarray()
    if _fingerprint(X, y) != notes.fingerprint:
        raise DataError(
            table.path,
            f"these are not the rows that {arguments.resume} was made from.",
            "Resume with the same file, or train anew.",
        )
    steps = list(getattr(model.pipeline, "steps", []))[:-1]
    for _, step in steps:
        X = step.transform(X)
    model = _fit(X, y, steps, estimator, notes, arguments, table.path, feedback)
    model.estimator.warm_start = False
    return model, f"resumed from {arguments.resume}"


def _widened(X, n_features: int | None, path: str):
    if n_features is None:
        return X
    if n_features < X.shape[1]:
        raise DataError(
            path, f"there are {X.shape[1]} features.", f"--n-features {n_features} is too few."
        )
    return sp.csr_matrix((X.data, X.indices, X.indptr), (X.shape[0], n_features))


def _check_for_one_of(tasks: list[str], given: dict) -> None:
    """Parameters that no task takes are known before the file is read."""
    errors = []
    for task in tasks:
        try:
            make_estimator(task, given)
        except UsageError as error:
            errors.append(error)
    if len(errors) == len(tasks):
        raise errors[0]


def _read(table: Table, selection: Selection, given: dict, feedback: Feedback) -> Rows:
    from lasn.cli.costs import refuse_what_cannot_be_read

    def progress(n_rows: int, n_bytes: int, share: float | None) -> None:
        feedback.rows("reading", n_rows, share)
        refuse_what_cannot_be_read(n_bytes, share, given.get("memory_limit"), table.path)

    feedback.begin()
    rows = read_rows(table, selection, progress)
    feedback.end("reading")
    return rows


def _fit(
    X, y, steps: list, estimator, notes: DataNotes, arguments, path: str, feedback: Feedback
) -> FileModel:
    from lasn.callbacks import observing
    from lasn.cli.costs import fit_costs, refuse_what_cannot_fit
    from lasn.landmarks import count_landmarks

    k = 0
    if estimator.kernel != "linear":
        k = count_landmarks(estimator.n_landmarks, X.shape[0])
    n_classes = len(np.unique(y)) if type(estimator).__name__ == "LASNClassifier" else 1
    costs = fit_costs(X, n_classes if n_classes > 2 else 1, k)
    refuse_what_cannot_fit(costs, estimator.memory_limit, path, k)
    tell = feedback.notice if costs.seconds > _LONG else feedback.say
    tell(f"fit: about {costs.seconds:.1f} s and {costs.bytes / 1e9:.2g} GB")

    def with_steps(fitted) -> FileModel:
        from sklearn.pipeline import Pipeline

        return FileModel(Pipeline([*steps, ("model", fitted)]), notes)

    watcher = _Watcher(feedback, with_steps, arguments.checkpoint)
    feedback.begin()
    try:
        with observing(watcher):
            estimator.fit(X, y)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(watcher.last_words()) from None
    except ValueError as error:
        raise DataError(path, str(error), "") from error
    return with_steps(estimator)


class _Watcher:
    """Follows a fit: progress for a person, and a checkpoint for the next start."""

    def __init__(
        self, feedback: Feedback, with_steps: Callable[[Any], FileModel], checkpoint: str | None
    ):
        self.feedback = feedback
        self.with_steps = with_steps
        self.checkpoint = checkpoint
        self.written = 0

    def stage(self, name: str) -> None:
        self.feedback.stage(name)

    def candidate(self, number: int, evaluation: Any) -> None:
        self.feedback.candidate(number, evaluation)

    def iteration(self, number: int, record: dict[str, Any], model: Callable[[], Any]) -> None:
        self.feedback.iteration(number, record)
        if self.checkpoint is not None:
            write_model(self.with_steps(model()), self.checkpoint)
            self.written = number

    def last_words(self) -> str:
        if not self.written:
            return "interrupted; no model was written."
        return (
            f"interrupted; {self.checkpoint} holds Newton iteration {self.written}. "
            f"Go on with --resume {self.checkpoint}."
        )


def infer_task(y: np.ndarray) -> tuple[str, str]:
    """Classify or regress, and why.

    Examples
    --------
    >>> import numpy as np
    >>> from lasn.cli.train import infer_task
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


def _fingerprint(X, y) -> dict[str, Any]:
    from lasn.persist import fingerprint

    return fingerprint(X, y)


def _print_summary(model: FileModel, why: str, stream) -> None:
    estimator, notes = model.estimator, model.notes
    rows = (notes.fingerprint or {}).get("rows")
    record = estimator.history_[-1] if estimator.history_ else {}
    gradient = np.max(record.get("relative_gradient", 0.0))
    print(f"{type(estimator).__name__} ({why})", file=stream)
    print(
        f"{rows} rows, {model.n_features} columns, {estimator.n_features_in_} features, "
        f"{estimator.n_landmarks_} landmarks",
        file=stream,
    )
    print(f"{estimator.n_iter_} Newton iterations to |g|/|g0| = {gradient:.1e}", file=stream)

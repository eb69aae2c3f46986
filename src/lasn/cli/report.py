"""``lasn report``: a model, a file of labelled rows, and a page that says how well they agree."""

from __future__ import annotations

import argparse
import os
import warnings
from contextlib import closing
from typing import Any

import numpy as np
import scipy.sparse as sp

from lasn.cli.errors import DataError, UsageError
from lasn.cli.feedback import Feedback, add_feedback_flags
from lasn.cli.inputs import add_input_flags, label_column, open_input, prediction_selection
from lasn.cli.models import DataNotes, FileModel, describe_model, read_model
from lasn.cli.output import check_output, write_chunks
from lasn.cli.preparation import (
    TrainingData,
    add_certify_flag,
    fingerprint_of,
    read_labelled,
    tidy_labels,
)

_DESCRIPTION = """\
Write a report on a model and a file of labelled rows: one HTML file that needs no network.

It shows what was trained (data, columns, parameters, versions), the time of each stage, Newton's
convergence (|grad f| / |grad f(0)|, objective, active rows, CG steps), accuracy with the confusion
matrix, ROC and precision-recall curves or residuals, calibration where the model has probabilities,
the eigenvalues of the kernel among the landmarks and their cut, and the rows of which the model is
most and least certain. A tuned model adds its search, a refined one its rounds, and --certify what
is proved of the distance to the exact kernel machine.
"""
_EPILOG = """\
example:
  lasn report adult.lasn test.csv -o adult.html
  lasn report adult.lasn test.csv --target income -o adult.html
  lasn report adult.lasn train.csv --certify -o exact.html
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    parser.add_argument("model", metavar="MODEL", help="model file")
    parser.add_argument("file", metavar="FILE", help="labelled rows; - is standard input")
    parser.add_argument(
        "-o",
        "--output",
        metavar="HTML",
        required=True,
        help="the file to write; - is standard output",
    )
    add_certify_flag(parser)
    add_input_flags(parser)
    add_feedback_flags(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from lasn.report import certified
    from lasn.report.measures import predict_rows

    check_output(arguments.output, arguments.file, arguments.model)
    model = read_model(arguments.model)
    _check_one_target(model)
    feedback = Feedback(arguments.log)
    try:
        X, y, path = _read(arguments, model, feedback)
    finally:
        feedback.close()
    with warnings.catch_warnings():
        # Columns were put in the model's order, by their names.
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        predictions = predict_rows(model.pipeline, X, y, path)
        proof = certified(model.pipeline, X, predictions.truth) if arguments.certify else None
    known = model.notes.fingerprint
    is_training = None if known is None else fingerprint_of(X, y) == known
    versions = describe_model(arguments.model)["versions"]
    _write(arguments.output, model, predictions, proof, path, is_training, versions)
    return 0


def report_on_training(path: str, model: FileModel, data: TrainingData, certify: bool) -> None:
    """The report of ``--report``: on rows that are in memory already, after their steps."""
    from lasn.report import certified
    from lasn.report.measures import predict_rows

    predictions = predict_rows(model.estimator, data.X, data.y, data.path)
    proof = certified(model.estimator, data.X, predictions.truth) if certify else None
    _write(path, model, predictions, proof, data.path, True, {})


def _read(arguments: argparse.Namespace, model: FileModel, feedback: Feedback):
    """Rows as the pipeline takes them, labels, and the file's name."""
    notes = model.notes
    svmlight = {"n_features": model.n_features, "index_base": notes.index_base}
    with closing(open_input(arguments, **svmlight)) as table:
        target = label_column(arguments.target, notes.target, table)
        if target is None:
            raise DataError(
                table.path,
                "a report needs labels, and there is no column of them.",
                "Name it by --target.",
            )
        selection = prediction_selection(model, table, target)
        rows, _ = read_labelled(table, selection, {}, feedback)
    X, y = rows.X, tidy_labels(rows.y)
    if sp.issparse(X) and not notes.sparse:
        X = X.toarray()
    if not model.is_classifier and y.dtype.kind not in "iufb":
        raise DataError(table.path, "the target is text; the model predicts numbers.", "")
    return X, y, table.path


def _write(
    output: str,
    model: FileModel,
    predictions: Any,
    proof: Any,
    path: str,
    is_training: bool | None,
    versions: dict[str, str],
) -> None:
    from lasn.report import Subject, render

    notes, name = model.notes, os.path.basename(path)
    what = f" of “{notes.target}”" if notes.target else ""
    subject = Subject(
        title=f"{type(model.estimator).__name__}{what} on {name}",
        training=_training_facts(notes),
        rows=[("file", name)],
        seconds=notes.seconds or {},
        versions=versions,
        are_training_rows=is_training,
    )
    write_chunks(output, [render(model.pipeline, predictions, subject, proof).encode()])


def _training_facts(notes: DataNotes) -> list[tuple[str, Any]]:
    known = notes.fingerprint or {}
    facts = {
        "file": notes.file,
        "rows": known.get("rows"),
        "columns": known.get("features"),
        "target": notes.target,
        "names of columns": ", ".join(notes.features or []) or None,
        "categorical": ", ".join(notes.categorical) or None,
        "kept sparse": "yes" if notes.sparse else "no",
        "SHA-256": known.get("sha256"),
    }
    return [(name, value) for name, value in facts.items() if value is not None]


def _check_one_target(model: FileModel) -> None:
    if not model.is_classifier and np.ndim(model.estimator.intercept_):
        raise UsageError("lasn report is for models of one target.")

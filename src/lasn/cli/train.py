"""``lasn train``: from a file of rows to a model file."""

from __future__ import annotations

import argparse
import sys
from contextlib import closing

import scipy.sparse as sp

from lasn.cli.errors import DataError, UsageError
from lasn.cli.estimator_flags import (
    add_estimator_flags,
    estimator_classes,
    given_parameters,
    make_estimator,
)
from lasn.cli.feedback import Feedback, add_feedback_flags
from lasn.cli.fitting import check_outputs, finish, fit, print_summary
from lasn.cli.inputs import find_column, open_input, prediction_selection
from lasn.cli.models import FileModel, read_model
from lasn.cli.preparation import (
    FILE_HELP,
    TrainingData,
    add_training_flags,
    fingerprint_of,
    prepare,
    read_labelled,
    tidy_labels,
)

_DESCRIPTION = """\
Train a kernel SVM on a file and write a model file.

For each class against the rest (once for two classes) this minimises

    1/2 |w|^2 + C sum_i loss(y_i, <w, x~_i>)

over features x~ = [K(x, L) M, 1] made from k landmarks L, by a semismooth Newton method. A
regression minimises the same with the squared epsilon-insensitive loss.

"""
_EPILOG = """\
example:
  lasn train adult.csv --target income --scale standard --n-landmarks 500 -o adult.lasn
  lasn train a9a.xz --C 1 --checkpoint a9a.part -o a9a.lasn      # Ctrl-C ...
  lasn train a9a.xz --resume a9a.part -o a9a.lasn                # ... and on
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    classes = estimator_classes()
    parser.description, parser.epilog = f"{_DESCRIPTION}\n{FILE_HELP}", _EPILOG
    add_training_flags(parser, list(classes))
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
    add_estimator_flags(parser, classes)
    add_feedback_flags(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    given = given_parameters(arguments, estimator_classes())
    check_outputs(arguments, arguments.checkpoint)
    feedback = Feedback(arguments.log, float(given.get("tol", 1e-3)))
    try:
        if arguments.resume is None:
            model, data = _train(arguments, given, feedback)
        else:
            model, data = _resume(arguments, given, feedback)
    finally:
        feedback.close()
    finish(model, data, arguments)
    print_summary(model, data.why, sys.stderr if arguments.output == "-" else sys.stdout)
    return 0


def _train(arguments, given: dict, feedback: Feedback) -> tuple[FileModel, TrainingData]:
    classes = estimator_classes()
    data = prepare(arguments, classes, given, feedback)
    estimator = make_estimator(classes, data.task, given)
    return fit(estimator, data, feedback, arguments.checkpoint), data


def _resume(arguments, given: dict, feedback: Feedback) -> tuple[FileModel, TrainingData]:
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
    classes = estimator_classes()
    task = next((task for task, kind in classes.items() if type(estimator) is kind), None)
    if task is None:
        raise DataError(arguments.resume, "this is no checkpoint.", "Name one of lasn train.")
    make_estimator(classes, task, {**estimator.get_params(deep=False), **given})
    estimator.set_params(**given, warm_start=True)
    svmlight = {"n_features": model.n_features, "index_base": notes.index_base}
    with closing(open_input(arguments, **svmlight)) as table:
        selection = prediction_selection(model, table, find_column(table, str(notes.target)))
        rows, _ = read_labelled(table, selection, given, feedback)
    X, y = rows.X, tidy_labels(rows.y)
    if sp.issparse(X) and not notes.sparse:
        X = X.toarray()
    if fingerprint_of(X, y) != notes.fingerprint:
        raise DataError(
            table.path,
            f"these are not the rows that {arguments.resume} was made from.",
            "Resume with the same file, or train anew.",
        )
    steps = list(getattr(model.pipeline, "steps", []))[:-1]
    for _, step in steps:
        X = step.transform(X)
    why = f"resumed from {arguments.resume}"
    data = TrainingData(X, y, steps, notes, table.path, task, why)
    model = fit(estimator, data, feedback, arguments.checkpoint)
    model.estimator.warm_start = False
    return model, data

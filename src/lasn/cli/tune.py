"""``lasn tune``: C, gamma and the number of landmarks by cross-validation on a file."""

from __future__ import annotations

import argparse
import sys

from lasn.cli.estimator_flags import (
    add_estimator_flags,
    given_parameters,
    make_estimator,
    tuned_classes,
)
from lasn.cli.feedback import Feedback, add_feedback_flags
from lasn.cli.fitting import check_outputs, finish, fit, print_summary
from lasn.cli.preparation import FILE_HELP, add_training_flags, prepare

_DESCRIPTION = """\
Choose C, gamma and the number of landmarks k of a kernel SVM by cross-validation on a file, fit the
best to all rows, and write a model file.

Each candidate is fitted --cv times to all rows but one fold, and scored on that fold; its score is
the mean. All folds and all C share one feature matrix for each gamma and k, so the search costs a
few times one fit. A classifier gets probabilities from the scores of held-out rows (--calibration).

The table has one line a candidate, best first: the mean score, its standard error (the deviation of
the folds / the root of their number), C, gamma, k, and the seconds of its fits. A star marks the
candidate that was fitted to all rows. Scaling and encoding are learnt from all rows before.
"""
_EPILOG = """\
example:
  lasn tune adult.csv --target income --scale standard -o adult.lasn
  lasn tune a9a.xz --Cs 0.1,1,10 --gammas 0.01,variance --n-landmarks 200,500 -o a9a.lasn
  lasn tune a9a.xz --time-budget 60 --scoring balanced_accuracy --report a9a.html -o a9a.lasn
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    classes = tuned_classes()
    parser.description, parser.epilog = f"{_DESCRIPTION}\n{FILE_HELP}", _EPILOG
    add_training_flags(parser, list(classes))
    parser.add_argument(
        "--top",
        metavar="COUNT",
        type=int,
        default=20,
        help="lines of the table, 0 for all; default: %(default)s",
    )
    add_estimator_flags(parser, classes)
    add_feedback_flags(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    classes = tuned_classes()
    given = given_parameters(arguments, classes)
    check_outputs(arguments)
    feedback = Feedback(arguments.log, float(given.get("tol", 1e-3)))
    try:
        data = prepare(arguments, classes, given, feedback)
        model = fit(make_estimator(classes, data.task, given), data, feedback)
    finally:
        feedback.close()
    finish(model, data, arguments)
    stream = sys.stderr if arguments.output == "-" else sys.stdout
    print_results(model.estimator, arguments.top, stream)
    print_summary(model, data.why, stream)
    return 0


def print_results(estimator, top: int, stream) -> None:
    """The candidates of a search, best first."""
    from lasn.diagnostics import ranked_candidates

    rows = ranked_candidates(estimator)
    shown = rows[:top] if top > 0 else rows
    lines = [
        ["", "score", "+-", "C", "gamma", "landmarks", "seconds"],
        *(
            [
                "*" if one["chosen"] else "",
                f"{one['score']:.4f}",
                f"{one['standard_error']:.4f}",
                f"{one['C']:.4g}",
                f"{one['gamma']:.4g}",
                str(one["n_landmarks"]),
                f"{one['seconds']:.2f}",
            ]
            for one in shown
        ),
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        print("  ".join(cells).rstrip(), file=stream)
    if len(shown) < len(rows):
        print(f"... and {len(rows) - len(shown)} more (--top 0 shows all)", file=stream)

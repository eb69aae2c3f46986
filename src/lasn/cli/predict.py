"""``lasn predict``: a model, a file of rows, and predictions in their order."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from lasn.arrays import is_sparse
from lasn.cli.errors import UsageError
from lasn.cli.feedback import Feedback, add_feedback_flags
from lasn.cli.inputs import (
    add_input_flags,
    find_column,
    label_column,
    open_input,
    prediction_selection,
)
from lasn.cli.models import FileModel, read_model
from lasn.cli.output import (
    OUTPUT_FORMATS,
    check_output,
    parquet_chunks,
    resolve_output_format,
    spell,
    spell_header,
    write_chunks,
)
from lasn.tables import DataError, Rows, Selection, Table, in_order

_KINDS = ("labels", "decision", "probabilities")
_DESCRIPTION = """\
Predict the rows of a file: f(x) = sum_j beta_j k(x, l_j) + b over the model's landmarks l_j.

FILE is read in pieces, so that any size fits in memory. Where both have names, columns are taken
by name, and columns that the model does not know are passed over; otherwise by position. Output is
CSV, TSV or Parquet if -o ends so, else plain lines.
"""
_EPILOG = """\
example:
  lasn predict adult.lasn new.csv -o predictions.csv
  lasn predict adult.lasn test.csv --target income --evaluate
  xzcat a9a.t.xz | lasn predict a9a.lasn - --format svmlight --output-kind decision | head
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    parser.add_argument("model", metavar="MODEL", help="model file")
    parser.add_argument("file", metavar="FILE", help="rows to predict; - is standard input")
    parser.add_argument(
        "-o", "--output", metavar="OUT", help="predictions; default and -: standard output"
    )
    parser.add_argument(
        "--output-kind",
        choices=_KINDS,
        default="labels",
        help="labels (of a regression: numbers); decision: f(x), positive for the second class, or "
        "one column a class; probabilities: of each class, for models of lasn tune and of --loss "
        "log_loss; default: labels",
    )
    parser.add_argument(
        "--output-format", choices=OUTPUT_FORMATS, help="default: by the name of OUT, else lines"
    )
    parser.add_argument(
        "--evaluate",
        action="store_true",
        help="compare with the target: accuracy, balanced accuracy, F1 and AUC, or R^2 and MAE; "
        "without -o no predictions are written",
    )
    add_input_flags(parser)
    add_feedback_flags(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    output = arguments.output or (None if arguments.evaluate else "-")
    if output is not None:
        check_output(output, arguments.file, arguments.model)
    only_scores = arguments.output_kind != "probabilities" and not arguments.evaluate
    model = read_model(arguments.model, only_scores=only_scores)
    _check_kind(model, arguments.output_kind)
    notes = model.notes
    table = open_input(arguments, n_features=model.n_features, index_base=notes.index_base)
    feedback = Feedback(arguments.log)
    evaluation = _evaluation(model, table.path) if arguments.evaluate else None
    try:
        selection = prediction_selection(model, table, _target(arguments, model, table))
        job = _Prediction(model, selection, arguments.output_kind, evaluation)
        output_format = resolve_output_format(output, arguments.output_format)
        with warnings.catch_warnings():
            # Columns were put in the model's order, by their names.
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            if output is None:
                for _ in job.blocks(table, feedback):
                    pass
            elif output_format == "parquet":
                blocks = job.blocks(table, feedback)
                write_chunks(output, parquet_chunks(blocks, job.names, output))
            else:
                write_chunks(output, job.text(table, feedback, output_format))
    finally:
        feedback.close()
        table.close()
    if evaluation is not None:
        for name, value in evaluation.metrics().items():
            stream = sys.stderr if output == "-" else sys.stdout
            print(f"{name} {value:.6g}", file=stream)
    return 0


@dataclass
class _Prediction:
    """What to compute of each block of rows."""

    model: FileModel
    selection: Selection
    kind: str
    evaluation: Any

    @property
    def names(self) -> list[str]:
        """Of the columns of the output."""
        if self.kind == "labels" or not self.model.is_classifier:
            coef = np.ndim(getattr(self.model.estimator, "intercept_", 0.0))
            if self.model.is_classifier or coef == 0:
                return ["prediction"]
            count = len(self.model.estimator.intercept_)
            return [f"prediction_{j + 1}" for j in range(count)]
        classes = self.model.estimator.classes_.tolist()
        if self.kind == "decision":
            return ["decision"] if len(classes) == 2 else [f"decision_{c}" for c in classes]
        return [f"probability_{c}" for c in classes]

    def text(self, table: Table, feedback: Feedback, output_format: str) -> Iterator[bytes]:
        yield spell_header(self.names, output_format)
        # Spelled by the threads that predict.
        yield from self.blocks(table, feedback, lambda values: spell(values, output_format))

    def blocks(self, table: Table, feedback: Feedback, finish=lambda values: values) -> Iterator:
        """``finish(predictions)`` of each block, in order."""

        def work(rows: Rows):
            values, evaluated = self._predict(rows)
            return len(rows), finish(values), evaluated

        feedback.begin()
        n_rows = 0
        for count, result, evaluated in in_order(table, self.selection, work):
            if evaluated is not None:
                self.evaluation.add(*evaluated)
            n_rows += count
            feedback.rows("predicting", n_rows, table.share())
            yield result
        if n_rows == 0:
            raise DataError(table.path, "there are no rows.", "Name a file with rows.")
        feedback.end("predicting")

    def _predict(self, rows: Rows):
        X, pipeline = rows.X, self.model.pipeline
        if is_sparse(X) and not self.model.notes.sparse:
            X = X.toarray()
        if not self.model.is_classifier:
            values = pipeline.predict(X)
            return values, None if self.evaluation is None else (rows.y, values, None)
        scores, estimator = pipeline.decision_function(X), self.model.estimator
        values = scores
        if self.kind != "decision":
            make = estimator._labels if self.kind == "labels" else estimator._probabilities
            values = make(scores)
        if self.evaluation is None:
            return values, None
        labels = values if self.kind == "labels" else estimator._labels(scores)
        return values, (rows.y, labels, scores)


def _evaluation(model: FileModel, path: str):
    from lasn.evaluation import ClassEvaluation, NumberEvaluation

    if model.is_classifier:
        return ClassEvaluation(model.estimator.classes_, path)
    if np.ndim(model.estimator.intercept_):
        raise UsageError("--evaluate is for models of one target.")
    return NumberEvaluation()


def _target(arguments: argparse.Namespace, model: FileModel, table: Table) -> str | None:
    """The column of labels, which --evaluate needs and nothing else reads."""
    if not arguments.evaluate:
        return None if arguments.target is None else find_column(table, arguments.target)
    target = label_column(arguments.target, model.notes.target, table)
    if target is not None:
        return target
    raise DataError(
        table.path,
        "--evaluate needs labels, and there is no column of them.",
        "Name it by --target, or leave --evaluate out.",
    )


def _check_kind(model: FileModel, kind: str) -> None:
    if kind != "labels" and not model.is_classifier:
        raise UsageError(f"--output-kind {kind} is for classifiers; this model is a regression.")
    if kind == "probabilities" and not hasattr(model.estimator, "predict_proba"):
        raise UsageError(
            "--output-kind probabilities needs a model of lasn tune, or one trained with --loss "
            f"log_loss; this one has {model.estimator.loss}."
        )

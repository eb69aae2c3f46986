"""Fitting as the command line does it: costs first, progress meanwhile, checkpoints, a model."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from lasn.cli.errors import DataError, UsageError
from lasn.cli.feedback import Feedback
from lasn.cli.models import FileModel, write_model
from lasn.cli.output import check_output
from lasn.cli.preparation import TrainingData
from lasn.progress import distance_left

# Seconds of a fit that are worth a word before it starts.
_LONG = 10.0
# Rows that are enough to say how well a model knows what it was trained on.
_MEASURED_ROWS = 20_000


def check_outputs(arguments: argparse.Namespace, *others: str | None) -> None:
    """Refuse before the fit what could not be written after it."""
    if arguments.certify and arguments.report is None:
        raise UsageError("--certify is for a report: name one by --report.")
    outputs = [path for path in (arguments.output, arguments.report, *others) if path is not None]
    for position, path in enumerate(outputs):
        check_output(path, arguments.file)
        if path in outputs[:position]:
            raise UsageError(f"{path} would be written twice. Give each output a name of its own.")


def finish(model: FileModel, data: TrainingData, arguments: argparse.Namespace) -> None:
    """Write the model, and the report if one was asked for."""
    model.metrics = _training_metrics(model.estimator, data)
    write_model(model, arguments.output)
    if arguments.report is not None:
        from lasn.cli.report import report_on_training

        report_on_training(arguments.report, model, data, arguments.certify)


def _training_metrics(estimator, data: TrainingData) -> dict[str, float]:
    """How the model does on rows that it was trained on, at most so many."""
    from lasn.evaluation import ClassEvaluation, NumberEvaluation

    every = slice(None, None, -(-len(data.y) // _MEASURED_ROWS))
    X, y = data.X[every], data.y[every]
    evaluation: Any
    if hasattr(estimator, "classes_"):
        evaluation = ClassEvaluation(estimator.classes_, data.path)
        scores = estimator.decision_function(X)
        evaluation.add(y, estimator._labels(scores), scores)
    else:
        evaluation = NumberEvaluation()
        evaluation.add(y, estimator.predict(X))
    measured = {name: one for name, one in evaluation.metrics().items() if np.isfinite(one)}
    return {name: one if name == "rows" else round(one, 6) for name, one in measured.items()}


def fit(
    estimator, data: TrainingData, feedback: Feedback, checkpoint: str | None = None
) -> FileModel:
    """Fit, and put the steps before the fitted estimator."""
    from lasn.callbacks import observing

    _announce_costs(estimator, data, feedback)
    watcher = _Watcher(feedback, data.with_steps, checkpoint)
    feedback.begin()
    try:
        with observing(watcher):
            estimator.fit(data.X, data.y)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(watcher.last_words()) from None
    except ValueError as error:
        raise DataError(data.path, str(error), "") from error
    return data.with_steps(estimator)


def _announce_costs(estimator, data: TrainingData, feedback: Feedback) -> None:
    """Refuse what cannot fit; say how long one fit takes, of the largest model that was asked."""
    from lasn.cli.costs import fit_costs, refuse_what_cannot_fit
    from lasn.landmarks import count_landmarks

    k = 0
    if estimator.kernel != "linear":
        sizes = estimator.n_landmarks
        sizes = sizes if isinstance(sizes, list) else [sizes]
        k = max(count_landmarks(size, data.X.shape[0]) for size in sizes)
    n_classes = len(np.unique(data.y)) if data.task == "classify" else 1
    costs = fit_costs(data.X, n_classes if n_classes > 2 else 1, k)
    refuse_what_cannot_fit(costs, estimator.memory_limit, data.path, k)
    tell = feedback.notice if costs.seconds > _LONG else feedback.say
    tell(f"fit: about {costs.seconds:.1f} s and {costs.bytes / 1e9:.2g} GB")


class _Watcher:
    """Follows a fit: progress for a person, and a checkpoint for the next start."""

    def __init__(
        self, feedback: Feedback, with_steps: Callable[[Any], FileModel], checkpoint: str | None
    ):
        self.feedback = feedback
        self.with_steps = with_steps
        self.checkpoint = checkpoint
        self.begun = self.written = 0  # iterations of checkpoints
        self.seen = self._version()

    def stage(self, name: str) -> None:
        self.feedback.stage(name)

    def candidate(self, number: int, evaluation: Any) -> None:
        self.feedback.candidate(number, evaluation)

    def iteration(self, number: int, record: dict[str, Any], model: Callable[[], Any]) -> None:
        self.feedback.iteration(number, record)
        if self.checkpoint is not None:
            self.begun = number
            write_model(self.with_steps(model()), self.checkpoint)
            self.written, self.seen = number, self._version()

    def _version(self) -> tuple[int, int] | None:
        """What tells one checkpoint from the next; None where there is none."""
        if self.checkpoint is None or not os.path.exists(self.checkpoint):
            return None
        state = os.stat(self.checkpoint)
        return state.st_ino, state.st_mtime_ns

    def last_words(self) -> str:
        if self._version() != self.seen:  # interrupted when the file had just got its name
            self.written = self.begun
        if not self.written:
            return "interrupted; no model was written."
        return (
            f"interrupted; {self.checkpoint} holds Newton iteration {self.written}. "
            f"Go on with --resume {self.checkpoint}."
        )


def print_summary(model: FileModel, why: str, stream) -> None:
    """What was fitted, in three lines."""
    estimator, notes = model.estimator, model.notes
    rows = (notes.fingerprint or {}).get("rows")
    print(f"{type(estimator).__name__} ({why})", file=stream)
    print(
        f"{rows} rows, {model.n_features} columns, {estimator.n_features_in_} features, "
        f"{estimator.n_landmarks_} landmarks",
        file=stream,
    )
    reached = ""
    if estimator.history_:
        measure, relative = distance_left(estimator.history_[-1])
        reached = f" to {measure} = {relative:.1e}"
    noun = "iteration" if estimator.n_iter_ == 1 else "iterations"
    print(f"{estimator.n_iter_} Newton {noun}{reached}", file=stream)
    if getattr(estimator, "refine_curve_", []):
        last = estimator.refine_curve_[-1]
        print(
            f"{len(estimator.refine_curve_) - 1} rounds of refinement to a gap of "
            f"{100.0 * last['relative_exact_gap']:.2g} % to the exact machine",
            file=stream,
        )

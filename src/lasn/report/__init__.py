"""A report on a fitted model and labelled rows: one HTML file that needs nothing else.

============== ==========================================================
charts.py      charts as inline SVG
page.py        the parts of a page: tables, figures, style
measures.py    what the model makes of the rows, as numbers
sections.py    from numbers to parts
exactness.py   the same for certificates and refinement
============== ==========================================================
"""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

import numpy as np

from lasn import diagnostics
from lasn.certificate import Certificate
from lasn.evaluation import ClassEvaluation, NumberEvaluation
from lasn.report import exactness, sections
from lasn.report.measures import Predictions, predict_rows
from lasn.report.page import document, paragraph, tiles

__all__ = ["Subject", "html_report", "render", "write_report"]
_MOST_NAMES = 40


@dataclass
class Subject:
    """What a report says of its model and rows beside what they tell themselves.

    ``training`` and ``rows`` are facts about the training file and about the rows of the report.
    ``seconds`` are of stages before the fit. ``are_training_rows`` is None where that is not known.

    Examples
    --------
    >>> from lasn.report import Subject
    >>> Subject("Iris", rows=[("file", "iris.csv")], are_training_rows=True).title
    'Iris'
    """

    title: str
    training: list[tuple[str, Any]] = field(default_factory=list)
    rows: list[tuple[str, Any]] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    are_training_rows: bool | None = None


def write_report(
    model, X, y, path: str | os.PathLike, *, title: str | None = None, certify: bool = False
) -> None:
    """Write a report on a fitted model and labelled rows.

    Parameters
    ----------
    model : fitted classifier or regressor of this package, or a pipeline that ends in one
    X : rows, as ``model.predict`` takes them
    y : array of shape (n,)
        Their labels or targets.
    path : str or path
        The file appears whole or not at all.
    title : str, optional
    certify : bool, default=False
        Add what :func:`lasn.certify` proves; the rows should be those of training.

    Examples
    --------
    >>> import os, tempfile
    >>> from sklearn.datasets import load_iris
    >>> from lasn import LASNClassifier
    >>> from lasn.report import write_report
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LASNClassifier(n_landmarks=20, random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(model, X, y, os.path.join(folder, "iris.html"))
    """
    from lasn.atomic import write_atomically

    write_atomically(path, [html_report(model, X, y, title=title, certify=certify).encode()])


def html_report(model, X, y, *, title: str | None = None, certify: bool = False) -> str:
    """The report of :func:`lasn.report.write_report` as text.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from lasn import LASNClassifier
    >>> from lasn.report import html_report
    >>> X, y = load_iris(return_X_y=True)
    >>> text = html_report(LASNClassifier(20, random_state=0).fit(X, y), X, y, title="Iris")
    >>> text.startswith("<!DOCTYPE html>"), "Iris" in text
    (True, True)
    """
    subject = Subject(title or f"{type(diagnostics.last_step(model)).__name__} on {len(y)} rows")
    predictions = predict_rows(model, X, y)
    return render(model, predictions, subject, certified(model, X, y) if certify else None)


def certified(model, X, y) -> Certificate:
    """The certificate of a model, or of the last step of a pipeline."""
    from lasn.certificate import certify

    for _, step in getattr(model, "steps", [])[:-1]:
        X = step.transform(X)
    return certify(diagnostics.last_step(model), X, y, verbose=0)


def render(
    model, predictions: Predictions, subject: Subject, certificate: Certificate | None = None
) -> str:
    """A report on predictions that are there already.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from lasn import LASNClassifier
    >>> from lasn.report import Subject, render
    >>> from lasn.report.measures import Predictions
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LASNClassifier(20, random_state=0).fit(X, y)
    >>> found = Predictions(y, model.predict(X), model.decision_function(X))
    >>> "Confusion matrix" in render(model, found, Subject("Iris"))
    True
    """
    estimator = diagnostics.last_step(model)
    if hasattr(estimator, "classes_"):
        numbers, parts = _of_classes(estimator, predictions)
    else:
        numbers, parts = _of_numbers(predictions)
    found = [("model", "Model and data", _facts(model, estimator, predictions, subject))]
    if hasattr(estimator, "cv_results_"):
        curve = diagnostics.landmark_curve(estimator)
        candidates = diagnostics.ranked_candidates(estimator)
        found.append(("search", "Search", sections.search(candidates, curve)))
    seconds = {**subject.seconds, **getattr(estimator, "stage_seconds_", {})}
    if seconds:
        found.append(("time", "Time of each stage", sections.stages(seconds)))
    convergence = diagnostics.convergence(estimator)
    found.append(("convergence", "Convergence", sections.convergence(convergence)))
    if getattr(estimator, "refine_curve_", []):
        rounds = diagnostics.refine_curve(estimator)
        found.append(("refine", "Refinement", exactness.refinement(rounds)))
    if certificate is not None:
        shown = exactness.certificate(certificate, subject.are_training_rows)
        found.append(("certificate", "Certificate", shown))
    found += parts[:-1]
    if estimator.mapping_ is not None:
        spectrum = diagnostics.spectrum(estimator)
        found.append(("spectrum", "Landmarks", sections.spectrum(spectrum)))
    found.append(parts[-1])
    tile = [*numbers, ("rows", f"{len(predictions.truth):,}".replace(",", " "))]
    tile += [
        ("landmarks", str(estimator.n_landmarks_)),
        ("Newton iterations", str(estimator.n_iter_)),
    ]
    intro = _intro(subject) + tiles(tile)
    return document(subject.title, intro, found, _footer(subject))


def _of_classes(estimator, predictions: Predictions):
    classes = estimator.classes_
    assert predictions.decision is not None
    evaluation = ClassEvaluation(classes, predictions.path)
    evaluation.add(predictions.truth, predictions.predicted, predictions.decision)
    parts = [("accuracy", "Accuracy", sections.accuracy(evaluation, predictions, classes))]
    if predictions.probabilities is not None:
        shown = sections.calibration(predictions, classes)
        parts.append(("calibration", "Calibration", shown))
    parts.append(("rows", "Rows", sections.certain_rows(predictions)))
    return sections.class_summary(evaluation)[:1], parts


def _of_numbers(predictions: Predictions):
    evaluation = NumberEvaluation()
    evaluation.add(predictions.truth, predictions.predicted)
    metrics = evaluation.metrics()
    parts = [
        ("residuals", "Residuals", sections.residuals(predictions, metrics)),
        ("rows", "Rows", sections.extreme_residuals(predictions)),
    ]
    return [("R²", f"{metrics['r2']:.4f}")], parts


def _intro(subject: Subject) -> str:
    if subject.are_training_rows:
        return paragraph(
            "Measured on the rows that the model was trained on: expect less on new ones. "
            "Make a report on other rows by lasn report.",
            "note",
        )
    if subject.are_training_rows is False:
        return paragraph("Measured on other rows than those that the model was trained on.", "soft")
    return ""


def _facts(model, estimator, predictions: Predictions, subject: Subject) -> str:
    steps = [type(step).__name__ for _, step in getattr(model, "steps", [])[:-1]]
    kind = [
        ("estimator", type(estimator).__name__),
        ("steps before it", ", ".join(steps) or "none"),
        ("features", estimator.n_features_in_),
        ("landmarks", estimator.n_landmarks_),
        ("gamma", float(estimator.gamma_)),
    ]
    if hasattr(estimator, "best_params_"):
        kind.append(("C", float(estimator.C_)))
        kind.append(("mean held-out score", float(estimator.best_score_)))
    if hasattr(estimator, "classes_"):
        kind.append(("classes", _listed(estimator.classes_)))
    defaults = type(estimator)().get_params(deep=False)
    given = sorted(estimator.get_params(deep=False).items())
    rows = [*subject.rows, ("rows", len(predictions.truth))]
    cards = {"Model": kind, "Training data": subject.training, "Rows of this report": rows}
    return sections.facts(
        cards,
        [(name, _brief(value)) for name, value in given if not _same(value, defaults[name])],
        [(name, _brief(value)) for name, value in given if _same(value, defaults[name])],
    )


def _footer(subject: Subject) -> str:
    from lasn import __version__

    now = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    text = f"Made by LASN {__version__} on Python {platform.python_version()}, {now}."
    if subject.versions:
        listed = ", ".join(f"{name} {version}" for name, version in subject.versions.items())
        text += f" The model was written by {listed}."
    return paragraph(text)


def _brief(value: Any) -> str:
    if hasattr(value, "shape"):
        return f"{type(value).__name__} of shape {value.shape}"
    return value if isinstance(value, str) else repr(value)[:80]


def _same(value: Any, default: Any) -> bool:
    return not hasattr(value, "shape") and value == default


def _listed(values: np.ndarray) -> str:
    names = [str(value) for value in values[:_MOST_NAMES]]
    return ", ".join(names) + (f", ... ({len(values)})" if len(values) > _MOST_NAMES else "")

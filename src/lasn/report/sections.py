"""The sections of a report: each takes a model or its predictions and gives HTML."""

from __future__ import annotations

from typing import Any

import numpy as np

from lasn.diagnostics import Convergence, LandmarkCurve, Spectrum
from lasn.evaluation import ClassEvaluation
from lasn.report import measures
from lasn.report.charts import Axis, Bars, Chart, Dots, Line, Rule, Whiskers, number
from lasn.report.measures import Curve, Predictions
from lasn.report.page import bars, entries, figure, matrix, paragraph, table, tiles

# More classes than these are hard to see at once.
_MOST_IN_MATRIX = 30
_MOST_IN_HALF = 6
_MOST_CURVES = 8
_MOST_DOTS = 1500
_MOST_ON_LINE = 60
_ROWS_SHOWN = 10
_CANDIDATES_SHOWN = 30
_ZERO_TO_ONE = (0.0, 1.0)
_CRITERIA = {
    "relative gradient": "|∇f| / |∇f(0)|",
    "relative gap": "Objective less the dual value, over the objective",
}


def stages(seconds: dict[str, float]) -> str:
    return bars("Seconds of each stage", ("stage", "seconds"), seconds)


def convergence(found: Convergence) -> str:
    """Four charts of Newton's method."""
    steps = found.iterations.tolist()
    quantities = (
        ("gradient", found.criterion.capitalize(), found.relative_gradient,
         f"{_CRITERIA[found.criterion]}, of the worst class; the fit stops below "
         f"{number(found.tol)}."),
        ("objective", "Objective", found.objective,
         "½|w|² plus the weighted losses, the sum over classes."),
        ("active", "Active rows", found.active_rows,
         "Rows that the Hessian is made of, the mean over classes."),
        ("cg", "CG steps", found.cg_steps,
         "Conjugate gradient steps of each iteration; none where the Hessian is factored."),
    )  # fmt: skip
    charts = []
    for name, title, values, description in quantities:
        log = name == "gradient"
        marks: list[Any] = [Line(steps, values.tolist())]
        if log:
            marks.append(Rule(y=found.tol, text="tolerance"))
        chart = Chart(
            f"chart-{name}",
            title,
            description,
            Axis("Newton iteration", whole=True),
            Axis(title.lower(), log=log, whole=name in ("active", "cg")),
            marks,
        )
        rows = list(
            zip(steps, values.tolist(), found.rows.astype(int).tolist(), found.seconds.tolist(),
                strict=True)
        )  # fmt: skip
        columns = ("iteration", title.lower(), "rows taking part", "seconds so far")
        charts.append(figure(chart, columns, rows))
    return f'<div class="grid2">{"".join(charts)}</div>'


def search(candidates: list[dict[str, Any]], curve: LandmarkCurve) -> str:
    """The candidates of a search, best first, and the curve over the number of landmarks."""
    columns = ("", "score", "±", "C", "gamma", "landmarks", "seconds")
    rows = [
        ("chosen" if one["chosen"] else "", one["score"], one["standard_error"], one["C"],
         one["gamma"], one["n_landmarks"], one["seconds"])
        for one in candidates[:_CANDIDATES_SHOWN]
    ]  # fmt: skip
    text = f"{len(candidates)} candidates were tried"
    text += f"; the best {_CANDIDATES_SHOWN} are shown." if len(candidates) > len(rows) else "."
    x, y, error = (a.tolist() for a in (curve.n_landmarks, curve.score, curve.standard_error))
    low = (curve.score - curve.standard_error).tolist()
    high = (curve.score + curve.standard_error).tolist()
    chart = Chart(
        "chart-landmarks",
        "Score and number of landmarks",
        "Best held-out score for each number of landmarks, with its standard error.",
        Axis("landmarks", whole=True),
        Axis("held-out score"),
        [Whiskers(x, low, high), Line(x, y), Rule(x=float(curve.chosen), text="chosen")],
    )
    shown = figure(
        chart, ("landmarks", "score", "standard error"), list(zip(x, y, error, strict=True))
    )
    return (
        paragraph(text)
        + f'<div class="grid2">{shown}<div class="card">{table("Candidates", columns, rows)}</div>'
        + "</div>"
    )


def spectrum(found: Spectrum) -> str:
    """Eigenvalues of K_ll and the cut."""
    values = found.eigenvalues
    order = np.arange(1, len(values) + 1)
    what = (
        "was added to all of them: smaller ones are damped, none is dropped"
        if found.is_shift
        else f"is the cut: {found.n_features} of {len(values)} directions are kept"
    )
    positive = values > 0.0
    few = np.count_nonzero(positive) <= _MOST_ON_LINE
    marks: list[Any] = [Line(order[positive].tolist(), values[positive].tolist(), dots=bool(few))]
    if found.cut > 0.0:
        marks.append(Rule(y=found.cut, text="shift" if found.is_shift else "cut"))
    chart = Chart(
        "chart-spectrum",
        "Landmark spectrum",
        f"Eigenvalues of the kernel among the landmarks, largest first. The dashed line {what}.",
        Axis("direction", whole=True),
        Axis("eigenvalue", log=True),
        marks,
    )
    rows = list(zip(order.tolist(), values.tolist(), strict=True))
    return f'<div class="grid2">{figure(chart, ("direction", "eigenvalue"), rows)}</div>'


def class_summary(evaluation: ClassEvaluation) -> list[tuple[str, str]]:
    metrics = evaluation.metrics()
    return [
        ("accuracy", f"{100 * metrics['accuracy']:.2f} %"),
        ("balanced accuracy", f"{100 * metrics['balanced_accuracy']:.2f} %"),
        ("F1", f"{metrics['f1']:.4f}"),
        ("AUC", number(round(metrics["auc"], 4))),
    ]


def accuracy(evaluation: ClassEvaluation, predictions: Predictions, classes: np.ndarray) -> str:
    """Metrics, the confusion matrix, the margins, ROC and precision-recall curves."""
    labels = [str(label) for label in classes]
    counts = evaluation.counts
    if len(labels) <= _MOST_IN_MATRIX:
        confusion = matrix("Confusion matrix", labels, counts.tolist())
    else:
        confusion = _most_confused(labels, counts)
    roc, recall = measures.curves(predictions, classes)
    wide = " wide" if len(labels) > _MOST_IN_HALF else ""
    parts = [
        f'<div class="card{wide}" id="confusion"><h3>Confusion matrix</h3>'
        f"{paragraph('Rows are true classes, columns predicted ones.', 'soft')}{confusion}</div>",
        _margins(predictions, classes),
        _curves("chart-roc", "ROC", "false positive rate", "true positive rate", roc, True),
        _curves("chart-pr", "Precision and recall", "recall", "precision", recall, False),
    ]
    return tiles(class_summary(evaluation)) + f'<div class="grid2">{"".join(parts)}</div>'


def _most_confused(labels: list[str], counts: np.ndarray) -> str:
    wrong = counts.copy()
    np.fill_diagonal(wrong, 0)
    order = np.argsort(-wrong, axis=None, kind="stable")[:_MOST_IN_MATRIX]
    pairs = [np.unravel_index(place, wrong.shape) for place in order]
    rows = [(labels[i], labels[j], int(wrong[i, j])) for i, j in pairs if wrong[i, j] > 0]
    note = paragraph(f"Of {len(labels)} classes, the pairs that are confused most.", "soft")
    return note + table("Confusions", ("true", "predicted", "rows"), rows)


def _margins(predictions: Predictions, classes: np.ndarray) -> str:
    edges, counts = measures.histogram(measures.margins(predictions, classes))
    chart = Chart(
        "chart-margins",
        "Margins",
        "Decision value of the true class against the best other; below 0 a row is misclassified.",
        Axis("margin"),
        Axis("rows", whole=True),
        [Bars(edges, counts), Rule(x=0.0)],
    )
    rows = list(zip(edges[:-1], edges[1:], [int(c) for c in counts], strict=True))
    return figure(chart, ("from", "to", "rows"), rows)


def _curves(name: str, title: str, x: str, y: str, found: list[Curve], diagonal: bool) -> str:
    """Curves of the classes; where those are many, of the worst."""
    shown = sorted(found, key=lambda curve: curve.area)[:_MOST_CURVES]
    shown = sorted(shown, key=lambda curve: curve.name)
    what = "Area under the curve" if diagonal else "Average precision"
    areas = ", ".join(f"{curve.name}: {curve.area:.4f}" for curve in shown)
    more = f", the {len(shown)} worst of {len(found)} classes" if len(found) > len(shown) else ""
    marks: list[Any] = [
        Line(curve.x.tolist(), curve.y.tolist(), series, dots=False)
        for series, curve in enumerate(shown, start=1)
    ]
    chart = Chart(
        name,
        title,
        f"{what}{more}: {areas or 'no class has both hits and misses'}.",
        Axis(x, limits=_ZERO_TO_ONE),
        Axis(y, limits=_ZERO_TO_ONE),
        marks + ([Rule()] if diagonal else []),
    )
    rows = [
        (curve.name, across, up)
        for curve in shown
        for across, up in zip(curve.x.tolist(), curve.y.tolist(), strict=True)
    ]
    legend = [curve.name for curve in shown] if len(shown) > 1 else []
    return figure(chart, ("class", x, y), rows, legend)


def calibration(predictions: Predictions, classes: np.ndarray) -> str:
    """How often probabilities come true."""
    bins = measures.reliability(predictions, classes)
    metrics = measures.log_loss_and_brier(predictions, classes)
    of = f"“{classes[1]}”" if len(classes) == 2 else "the predicted class"
    stated, shares = ([one[key] for one in bins] for key in ("probability", "share"))
    low = [max(one["share"] - one["standard_error"], 0.0) for one in bins]
    high = [min(one["share"] + one["standard_error"], 1.0) for one in bins]
    chart = Chart(
        "chart-calibration",
        "Calibration",
        f"Probability of {of}, and how often it was right, with its standard error; on the dashed "
        "line they agree.",
        Axis("probability", limits=_ZERO_TO_ONE),
        Axis("share that came true", limits=_ZERO_TO_ONE),
        [Rule(), Whiskers(stated, low, high), Line(stated, shares)],
    )
    rows = [(one["probability"], one["share"], one["standard_error"], one["rows"]) for one in bins]
    columns = ("probability", "share that came true", "standard error", "rows")
    numbers = tiles([(name, f"{value:.4f}") for name, value in metrics.items()])
    return numbers + f'<div class="grid2">{figure(chart, columns, rows)}</div>'


def residuals(predictions: Predictions, metrics: dict[str, float]) -> str:
    """R^2 and MAE, predictions against the truth, and the distribution of errors."""
    truth, predicted = predictions.truth, predictions.predicted
    every = slice(None, None, 1 + len(truth) // _MOST_DOTS)
    note = "" if every.step == 1 else f" One row of {every.step} is drawn."
    x, y = truth[every].tolist(), predicted[every].tolist()
    fit = Chart(
        "chart-fit",
        "Predicted and true",
        f"On the dashed line predictions are right.{note}",
        Axis("true"),
        Axis("predicted"),
        [Dots(x, y), Rule()],
    )
    edges, counts = measures.histogram(truth - predicted)
    errors = Chart(
        "chart-residuals",
        "Residuals",
        "True less predicted.",
        Axis("residual"),
        Axis("rows", whole=True),
        [Bars(edges, counts), Rule(x=0.0)],
    )
    bins = list(zip(edges[:-1], edges[1:], [int(c) for c in counts], strict=True))
    shown = tiles([("R²", f"{metrics['r2']:.4f}"), ("mean absolute error", number(metrics["mae"]))])
    pairs = list(zip(x, y, strict=True))
    return (
        shown
        + f'<div class="grid2">{figure(fit, ("true", "predicted"), pairs)}'
        + f"{figure(errors, ('from', 'to', 'rows'), bins)}</div>"
    )


def certain_rows(predictions: Predictions) -> str:
    """The rows that a classifier is most and least sure of, and its surest mistakes."""
    sure = measures.certainty(predictions)
    wrong = np.flatnonzero(predictions.truth != predictions.predicted)
    mistakes = wrong[measures.extreme_rows(sure[wrong], _ROWS_SHOWN, largest=True)]
    lists = (
        ("Most certain rows", measures.extreme_rows(sure, _ROWS_SHOWN, largest=True)),
        ("Least certain rows", measures.extreme_rows(sure, _ROWS_SHOWN, largest=False)),
        ("Most certain mistakes", mistakes),
    )

    def line(row: int) -> tuple:
        cells = (int(row) + 1, predictions.truth[row], predictions.predicted[row], float(sure[row]))
        if predictions.probabilities is None:
            return cells
        return (*cells, float(predictions.probabilities[row].max()))

    columns = ["row", "true", "predicted", "certainty"]
    columns += [] if predictions.probabilities is None else ["probability"]
    cards = "".join(_row_card(name, columns, [line(row) for row in rows]) for name, rows in lists)
    text = "Certainty is |f|, or the largest decision value less the second. Rows count from 1."
    return paragraph(text, "soft") + f'<div class="grid2">{cards}</div>'


def extreme_residuals(predictions: Predictions) -> str:
    """The rows that a regression predicts worst and best."""
    errors = predictions.truth - predictions.predicted
    lists = (
        ("Largest residuals", measures.extreme_rows(np.abs(errors), _ROWS_SHOWN, largest=True)),
        ("Smallest residuals", measures.extreme_rows(np.abs(errors), _ROWS_SHOWN, largest=False)),
    )
    columns = ["row", "true", "predicted", "residual"]
    cards = "".join(
        _row_card(
            name,
            columns,
            [
                (int(row) + 1, float(predictions.truth[row]), float(predictions.predicted[row]),
                 float(errors[row]))
                for row in rows
            ],
        )
        for name, rows in lists
    )  # fmt: skip
    return paragraph("Rows count from 1.", "soft") + f'<div class="grid2">{cards}</div>'


def _row_card(name: str, columns: list[str], rows: list[tuple]) -> str:
    inside = table(name, columns, rows) if rows else paragraph("There are none.", "soft")
    return f'<div class="card"><h3>{name}</h3>{inside}</div>'


def facts(cards: dict[str, list[tuple[str, Any]]], parameters: list[tuple], defaults) -> str:
    """Cards of names and values; parameters that nobody set are folded away."""
    inside = "".join(entries(name, pairs) for name, pairs in cards.items() if pairs)
    inside += entries("Parameters that were set", parameters, "All other parameters", defaults)
    return f'<div class="grid2">{inside}</div>'

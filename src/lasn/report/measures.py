"""What a model makes of labelled rows, as numbers that a report shows.

Classes, with decision values f: the confusion matrix; ROC and precision-recall curves of the second
class, or of each class against the rest; the margin of a row, f of its own class less the largest
of the others (two classes: y f with y = +-1), negative where the row is misclassified; and, where
there are probabilities, how often those of a size come true. Numbers: residuals y - f.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

# Points of a curve that the eye can tell apart.
_POINTS = 200
_BINS = 10


@dataclass
class Predictions:
    """Rows with labels, and what a model says of them; ``path`` names their file in errors.

    ``truth`` and ``predicted`` have shape (n,). Of a classifier, ``decision`` has shape (n,) or
    (n, c) and ``probabilities``, if it has any, (n, c).
    """

    truth: np.ndarray
    predicted: np.ndarray
    decision: np.ndarray | None = None
    probabilities: np.ndarray | None = None
    path: str = "the data"


@dataclass
class Curve:
    """Points (x, y) of a curve, and the area below it."""

    name: str
    x: np.ndarray
    y: np.ndarray
    area: float


def predict_rows(estimator, X, y, path: str = "the data") -> Predictions:
    """Predict labelled rows, decision values once.

    Parameters
    ----------
    estimator : fitted estimator of this package, or a pipeline that ends in one
    X : rows
    y : array of shape (n,)
    path : str
        What errors call the rows.
    """
    last = estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator
    if not hasattr(last, "classes_"):
        return Predictions(np.asarray(y, dtype=np.float64), estimator.predict(X), path=path)
    decision = estimator.decision_function(X)
    probabilities = last._probabilities(decision) if hasattr(last, "predict_proba") else None
    truth = np.asarray(y)
    truth = truth.astype(str) if last.classes_.dtype.kind == "U" else truth
    return Predictions(truth, last._labels(decision), decision, probabilities, path)


def scores_by_class(decision: np.ndarray) -> np.ndarray:
    """Decision values with one column a class, shape (n, c): of two classes (-f, f)."""
    return np.column_stack([-decision, decision]) if decision.ndim == 1 else decision


def margins(predictions: Predictions, classes: np.ndarray) -> np.ndarray:
    """f of the true class less the largest of the others; half of that for two classes."""
    assert predictions.decision is not None
    scores = scores_by_class(predictions.decision)
    rows = np.arange(len(scores))
    codes = np.searchsorted(classes, predictions.truth)
    own = scores[rows, codes]
    others = scores.copy()
    others[rows, codes] = -np.inf
    gap = own - others.max(axis=1)
    return gap / 2.0 if predictions.decision.ndim == 1 else gap


def certainty(predictions: Predictions) -> np.ndarray:
    """How sure each prediction is: |f|, or the largest decision value less the second."""
    assert predictions.decision is not None
    if predictions.decision.ndim == 1:
        return np.abs(predictions.decision)
    ordered = np.sort(predictions.decision, axis=1)
    return ordered[:, -1] - ordered[:, -2]


def curves(predictions: Predictions, classes: np.ndarray) -> tuple[list[Curve], list[Curve]]:
    """ROC and precision-recall curves: of the second of two classes, or of each against the rest.

    Classes of which there are no rows, or no others, have no curve.
    """
    from sklearn.metrics import auc, average_precision_score, precision_recall_curve, roc_curve

    assert predictions.decision is not None
    scores = scores_by_class(predictions.decision)
    chosen = [1] if len(classes) == 2 else range(len(classes))
    roc, recall = [], []
    for code in chosen:
        hits = predictions.truth == classes[code]
        if not 0 < np.count_nonzero(hits) < len(hits):
            continue
        name = str(classes[code])
        false, true, _ = roc_curve(hits, scores[:, code])
        roc.append(Curve(name, *_thinned(false, true), float(auc(false, true))))
        precision, found, _ = precision_recall_curve(hits, scores[:, code])
        area = float(average_precision_score(hits, scores[:, code]))
        recall.append(Curve(name, *_thinned(found[::-1], precision[::-1]), area))
    return roc, recall


def reliability(predictions: Predictions, classes: np.ndarray) -> list[dict[str, float]]:
    """For rows with probabilities of about the same size: how often they come true.

    The probability is that of the second of two classes, or of the predicted one of several.
    One record a bin: its mean ``probability``, the ``share`` that came true, the ``standard_error``
    of that, and its ``rows``.
    """
    assert predictions.probabilities is not None
    if len(classes) == 2:
        stated = predictions.probabilities[:, 1]
        hits = predictions.truth == classes[1]
    else:
        stated = predictions.probabilities.max(axis=1)
        hits = predictions.truth == predictions.predicted
    bins = np.minimum((stated * _BINS).astype(int), _BINS - 1)
    return [_reliability_of(stated[bins == one], hits[bins == one]) for one in np.unique(bins)]


def _reliability_of(stated: np.ndarray, hits: np.ndarray) -> dict[str, float]:
    # One hit and one miss more, so that few rows that agree do not look certain.
    smooth = (hits.sum() + 1.0) / (len(hits) + 2.0)
    return {
        "probability": float(stated.mean()),
        "share": float(hits.mean()),
        "standard_error": float(np.sqrt(smooth * (1.0 - smooth) / (len(hits) + 2.0))),
        "rows": len(hits),
    }


def log_loss_and_brier(predictions: Predictions, classes: np.ndarray) -> dict[str, float]:
    """Mean -log p of what came true, and mean squared distance of p from it."""
    assert predictions.probabilities is not None
    hits = predictions.truth[:, None] == classes
    likelihood = np.clip(predictions.probabilities[hits], 1e-15, 1.0)
    squares = np.sum((predictions.probabilities - hits) ** 2, axis=1)
    return {"log loss": float(-np.mean(np.log(likelihood))), "Brier score": float(squares.mean())}


def histogram(values: np.ndarray, n_bins: int = 30) -> tuple[list[float], list[float]]:
    """Edges and counts; the outermost 1 % on either side are counted in the last bins."""
    low, high = (float(end) for end in np.quantile(values, [0.005, 0.995]))
    low, high = (low, high) if high > low else (low - 0.5, high + 0.5)
    counts, edges = np.histogram(np.clip(values, low, high), bins=n_bins, range=(low, high))
    return edges.tolist(), counts.astype(float).tolist()


def extreme_rows(order_by: np.ndarray, count: int, largest: bool) -> np.ndarray:
    """Positions of the rows with the largest or smallest values, ties in the rows' order."""
    order = np.argsort(-order_by if largest else order_by, kind="stable")
    return order[:count]


def _thinned(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """As many points as can be told apart, ends among them."""
    if len(x) <= _POINTS:
        return x, y
    # Equal steps along the curve, which may run along either axis.
    way: Any = np.cumsum(np.abs(np.diff(x, prepend=x[0])) + np.abs(np.diff(y, prepend=y[0])))
    kept = np.unique(np.searchsorted(way, np.linspace(0.0, way[-1], _POINTS)).clip(0, len(x) - 1))
    kept = np.union1d(kept, [0, len(x) - 1])
    return x[kept], y[kept]

"""How good predictions are, from blocks of rows.

Classes: with the confusion matrix N (truth by prediction)::

    accuracy            sum_c N_cc / sum N
    balanced accuracy   mean over true classes of N_cc / sum_j N_cj
    F1                  2 N_cc / (sum_j N_cj + sum_j N_jc) of classes_[1]; of several, the mean
    AUC                 of decision values; of several classes, the mean of each against the rest

Numbers: R^2 = 1 - sum (y - f)^2 / sum (y - mean y)^2 and MAE = mean |y - f|.

All take constant memory except the AUC, which keeps one float32 a row and class.
"""

from __future__ import annotations

import numpy as np

from lasn.data_error import DataError


class ClassEvaluation:
    """Counts of true and predicted classes, and scores."""

    def __init__(self, classes: np.ndarray, path: str):
        self.classes = classes
        self.path = path
        self.counts = np.zeros((len(classes), len(classes)), dtype=np.int64)
        self.codes: list[np.ndarray] = []
        self.scores: list[np.ndarray] = []
        self.n_rows = 0

    def add(self, truth: np.ndarray, predicted: np.ndarray, scores: np.ndarray) -> None:
        """Rows with their true labels, predicted labels and decision values."""
        codes = self._codes(truth)
        np.add.at(self.counts, (codes, self._codes(predicted)), 1)
        self.codes.append(codes.astype(np.int32))
        self.scores.append(scores.astype(np.float32))
        self.n_rows += len(truth)

    def metrics(self) -> dict[str, float]:
        right = np.diag(self.counts)
        true, predicted = self.counts.sum(axis=1), self.counts.sum(axis=0)
        present = true > 0
        f1 = 2.0 * right / np.maximum(true + predicted, 1)
        two = len(self.classes) == 2
        return {
            "rows": self.n_rows,
            "accuracy": right.sum() / true.sum(),
            "balanced_accuracy": float(np.mean(right[present] / true[present])),
            "f1": f1[1] if two else float(np.mean(f1[(true + predicted) > 0])),
            "auc": self._auc(),
        }

    def _auc(self) -> float:
        """NaN if only one class is there."""
        from sklearn.metrics import roc_auc_score

        codes, scores = np.concatenate(self.codes), np.concatenate(self.scores)
        if scores.ndim == 1:
            columns = {1: scores}
        else:
            columns = {c: scores[:, c] for c in range(scores.shape[1])}
        areas = [
            roc_auc_score(codes == c, column)
            for c, column in columns.items()
            if 0 < np.count_nonzero(codes == c) < len(codes)
        ]
        return float(np.mean(areas)) if areas else float("nan")

    def _codes(self, labels: np.ndarray) -> np.ndarray:
        """Positions in ``classes``."""
        labels = labels.astype(str) if self.classes.dtype.kind == "U" else labels
        codes = np.minimum(np.searchsorted(self.classes, labels), len(self.classes) - 1)
        unknown = self.classes[codes] != labels
        if unknown.any():
            known = ", ".join(map(str, self.classes[:10]))
            raise DataError(
                self.path,
                f"the label {labels[unknown][0]} is no class of the model.",
                f"Its classes are {known}.",
            )
        return codes


class NumberEvaluation:
    """Sums of errors; sums of squares about the mean are merged block by block."""

    def __init__(self) -> None:
        self.n_rows = 0
        self.mean = self.spread = self.squares = self.absolute = 0.0

    def add(self, truth: np.ndarray, predicted: np.ndarray, scores: object = None) -> None:
        errors = truth - predicted
        self.squares += float(np.sum(errors**2))
        self.absolute += float(np.sum(np.abs(errors)))
        count, mean = len(truth), float(np.mean(truth))
        total = self.n_rows + count
        self.spread += float(np.sum((truth - mean) ** 2))
        self.spread += (mean - self.mean) ** 2 * self.n_rows * count / total
        self.mean += (mean - self.mean) * count / total
        self.n_rows = total

    def metrics(self) -> dict[str, float]:
        r2 = 1.0 - self.squares / self.spread if self.spread > 0.0 else float("nan")
        return {"rows": self.n_rows, "r2": r2, "mae": self.absolute / self.n_rows}

"""The main job in one command: ``python -m lasn.demo``.

Trains a kernel SVM on data that ships with scikit-learn, shows Newton's iterations, and does
the same with ``sklearn.svm.SVC`` on the same split.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np
from sklearn.datasets import load_digits, make_classification
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

from lasn import LASNClassifier

_COLUMNS = "  iteration        value  |g|/|g(0)|  active rows  seconds"


def main() -> None:
    """Run the demonstration and print what happened."""
    X, y = load_digits(return_X_y=True)
    _compare("Handwritten digits (ships with scikit-learn)", X, y, n_landmarks=300)
    X, y = make_classification(
        n_samples=40_000,
        n_features=10,
        n_informative=6,
        n_clusters_per_class=8,
        class_sep=1.5,
        flip_y=0.02,
        random_state=0,
    )
    _compare("Two classes, 40 000 rows (make_classification)", X, y, n_landmarks=600)


def _compare(title: str, X, y, n_landmarks: int) -> None:
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.25, random_state=0)
    print(f"\n{title}: {len(X_train)} training rows, {len(X_test)} test rows")
    model = LASNClassifier(n_landmarks=n_landmarks, random_state=0)
    ours = _evaluate(model, X_train, X_test, y_train, y_test)
    print(f"\n  LASNClassifier, {model.n_landmarks_} landmarks, {model.n_iter_} Newton iterations")
    print(_COLUMNS)
    for number, record in enumerate(model.history_, start=1):
        worst = np.max(record["relative_gradient"])
        active = int(np.max(record["active_rows"]))
        value = float(np.sum(record["value"]))
        print(f"  {number:9d} {value:12.1f}  {worst:10.1e}  {active:11d}  {record['seconds']:7.2f}")
    # The same kernel; SVC's C weighs the L1 loss.
    theirs = _evaluate(SVC(C=10.0, gamma=model.gamma_), X_train, X_test, y_train, y_test)
    print("\n                    fit        predict    test accuracy")
    for name, (fit, predict, accuracy) in (("LASNClassifier", ours), ("sklearn SVC", theirs)):
        print(f"  {name:15s} {fit:7.2f} s  {predict:9.3f} s        {100 * accuracy:6.2f} %")
    if ours[0] <= theirs[0]:
        print(f"  LASN fits {theirs[0] / ours[0]:.1f} times faster")
    else:
        print(f"  SVC fits {ours[0] / theirs[0]:.1f} times faster: small data is its home")


def _evaluate(model, X_train, X_test, y_train, y_test) -> tuple[float, float, float]:
    """Seconds to fit, seconds to predict, test accuracy."""
    start = perf_counter()
    model.fit(X_train, y_train)
    fitted = perf_counter()
    labels = model.predict(X_test)
    return fitted - start, perf_counter() - fitted, float(np.mean(labels == y_test))


if __name__ == "__main__":
    main()

"""What the two experiments on parameters share: LASN on 80 % of the training rows, drawn at random.

"CV accuracy" is the paper's name for the accuracy on the other 20 %.
"""

from sklearn.model_selection import train_test_split

from measure import timed
from paper import rows
from paper.cells import COMMON
from paper.repeat import repeated

RESULTS = (
    "runs", "seconds", "seconds_std", "cv_accuracy", "cv_accuracy_std", "test_accuracy",
    "test_accuracy_std", *COMMON,
)  # fmt: skip


def validated(data_set: str, k: int, C: float, runs: int, budget: float) -> dict:
    """Means over random splits: seconds of ``fit``, accuracy on held-out and on test rows, in %."""
    from lasn import LASNClassifier

    sample = rows.load(data_set)

    def once(seed: int) -> dict[str, float]:
        X, X_held, y, y_held = train_test_split(
            sample.X_train, sample.y_train, test_size=0.2, random_state=seed
        )
        model = LASNClassifier(k, C=C, gamma="variance", landmarks="kmeans", random_state=seed)
        _, seconds = timed(model.fit, X, y)
        return {
            "seconds": seconds,
            "cv_accuracy": 100.0 * model.score(X_held, y_held),
            "test_accuracy": 100.0 * model.score(sample.X_test, sample.y_test),
        }

    once(runs)  # what a first call loads is not timed
    return repeated(once, runs, budget)

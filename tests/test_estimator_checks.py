"""scikit-learn's own checks, with no expected failure, over every public estimator."""

from places import every_place
from sklearn.utils.estimator_checks import parametrize_with_checks

from lasn import LASNClassifier, LASNRegressor, NystroemMap

pytestmark = every_place


@parametrize_with_checks(
    [
        LASNClassifier(),
        LASNClassifier(loss="log_loss", tol=1e-9),
        LASNClassifier(kernel="linear", C=1.0),
        LASNClassifier(landmarks="kmeans", solver="newton-cg", tol=1e-10),
        LASNClassifier(kernel="laplacian", landmarks="uniform", class_weight="balanced"),
        LASNRegressor(),
        LASNRegressor(kernel="linear", epsilon=0.0),
        LASNRegressor(landmarks="kmeans", solver="newton-cg", tol=1e-10),
        LASNRegressor(kernel="polynomial", degree=2, landmarks="uniform"),
        NystroemMap(),
        NystroemMap(kernel="polynomial", landmarks="uniform"),
    ]
)
def test_scikit_learn_check(estimator, check):
    check(estimator)

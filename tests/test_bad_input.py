"""Wrong input: an error that says what was given, what is needed, and where."""

import numpy as np
import pytest
import scipy.sparse as sp
from places import every_place
from sklearn.exceptions import NotFittedError

from lasn import LASNClassifier, LASNRegressor, NystroemMap

pytestmark = every_place

ESTIMATORS = [LASNClassifier, LASNRegressor, NystroemMap]
NUMBER_OR_RULE = ["'variance', 'scale', 'auto'", "positive"]
NOT_AN_AMOUNT = ["positive number of bytes", '"2GB"']

# Parameter, value, error, and what the message must say is accepted. Every estimator that has
# the parameter is asked.
PARAMETERS = [
    ("n_landmarks", 0, ValueError, ["'auto'", "1 or more"]),
    ("n_landmarks", -5, ValueError, ["'auto'", "1 or more"]),
    ("n_landmarks", 1.5, TypeError, ["'auto'", "whole number"]),
    ("n_landmarks", True, TypeError, ["'auto'", "whole number"]),
    ("n_landmarks", None, (TypeError, ValueError), ["'auto'", "whole number"]),
    ("n_landmarks", "many", ValueError, ["'auto'", "whole number"]),
    ("C", 0, ValueError, ["positive"]),
    ("C", -1.0, ValueError, ["positive"]),
    ("C", np.inf, ValueError, ["finite"]),
    ("C", np.nan, ValueError, ["finite"]),
    ("C", "1", TypeError, ["positive"]),
    ("C", None, TypeError, ["positive"]),
    ("C", [1.0, 2.0], TypeError, ["positive"]),
    (
        "kernel",
        "gaussian",
        ValueError,
        ["rbf", "polynomial", "tanh", "laplacian", "linear", "k(X, L)"],
    ),
    ("kernel", 3, TypeError, ["rbf", "k(X, L)"]),
    ("kernel", None, TypeError, ["rbf", "k(X, L)"]),
    ("gamma", "x", ValueError, NUMBER_OR_RULE),
    ("gamma", -1, ValueError, NUMBER_OR_RULE),
    ("gamma", 0, ValueError, NUMBER_OR_RULE),
    ("gamma", None, (TypeError, ValueError), NUMBER_OR_RULE),
    ("gamma", np.nan, ValueError, NUMBER_OR_RULE),
    ("gamma", [1], TypeError, NUMBER_OR_RULE),
    ("degree", 0, ValueError, ["1 or more"]),
    ("degree", "3", TypeError, ["1 or more"]),
    ("coef0", np.inf, ValueError, ["finite"]),
    ("coef0", "1", TypeError, ["finite"]),
    ("loss", "hinge", ValueError, ["'squared_hinge', 'log_loss'"]),
    ("loss", None, ValueError, ["'squared_hinge', 'log_loss'"]),
    ("landmarks", "grid", ValueError, ["'kmeans'", "'uniform'", "array of shape (k, n_features)"]),
    ("landmarks", None, TypeError, ["'kmeans'", "'uniform'", "array of shape (k, n_features)"]),
    ("landmarks", 7, TypeError, ["'kmeans'", "'uniform'", "array of shape (k, n_features)"]),
    ("class_weight", "heavy", ValueError, ["'balanced'", "dict"]),
    ("class_weight", [1, 2], ValueError, ["'balanced'", "dict"]),
    ("class_weight", {1: -1.0}, ValueError, ["zero or more"]),
    ("class_weight", {1: np.nan}, ValueError, ["finite"]),
    ("class_weight", {1: "a"}, (TypeError, ValueError), ["zero or more"]),
    ("tol", 0, ValueError, ["positive"]),
    ("tol", -1.0, ValueError, ["positive"]),
    ("tol", "small", TypeError, ["positive"]),
    ("max_iter", 0, ValueError, ["1 or more"]),
    ("max_iter", 2.5, TypeError, ["whole number"]),
    ("epsilon", -0.1, ValueError, ["zero or more"]),
    ("epsilon", None, TypeError, ["zero or more"]),
    ("solver", "sgd", ValueError, ["'auto', 'newton', 'newton-cg'"]),
    ("memory_limit", "much", ValueError, NOT_AN_AMOUNT),
    ("memory_limit", -1, ValueError, NOT_AN_AMOUNT),
    ("memory_limit", [1], (TypeError, ValueError), NOT_AN_AMOUNT),
    ("device", "tpu", ValueError, ["'cpu'"]),
    ("dtype", "float16", ValueError, ["'auto', 'float32', 'float64'"]),
    ("dtype", np.float32, (TypeError, ValueError), ["'auto', 'float32', 'float64'"]),
    ("warm_start", "yes", TypeError, ["True or False"]),
    ("verbose", -1, ValueError, ["0 or more"]),
    ("verbose", "loud", TypeError, ["0 or more"]),
    ("eigenvalue_cutoff", -1, ValueError, ["'auto'", "zero or more"]),
    ("eigenvalue_cutoff", "low", ValueError, ["'auto'", "zero or more"]),
]


@pytest.mark.parametrize(("name", "value", "error", "accepted"), PARAMETERS)
def test_wrong_parameter_names_itself_its_value_and_what_is_accepted(
    binary, name, value, error, accepted
):
    estimators = [estimator for estimator in ESTIMATORS if name in estimator().get_params()]
    assert estimators
    for estimator in estimators:
        with pytest.raises(error) as caught:
            estimator(**{name: value}).fit(*binary)
        message = str(caught.value)
        assert message.startswith(f"{name}={value!r}")
        assert all(text in message for text in accepted), message


def with_entry(X, value):
    """X with one wrong entry."""
    X = X.astype(object) if isinstance(value, str) else X.copy()
    X[3, 1] = value
    return X


def classify(X, y, sample_weight=None, **parameters):
    LASNClassifier(**parameters).fit(X, y, sample_weight=sample_weight)


def regress(X, y):
    LASNRegressor().fit(X, y)


def predict(X, y, rows):
    LASNClassifier(5, random_state=0).fit(X, y).predict(rows)


# What is wrong, what is done, and fragments of the message.
DATA = [
    ("NaN in X", lambda X, y: classify(with_entry(X, np.nan), y), ["X", "NaN"]),
    (
        "NaN in sparse X",
        lambda X, y: regress(sp.csr_matrix(with_entry(X, np.nan)), y),
        ["X", "NaN"],
    ),
    ("NaN for the map", lambda X, y: NystroemMap().fit(with_entry(X, np.nan)), ["X", "NaN"]),
    ("infinity in X", lambda X, y: classify(with_entry(X, np.inf), y), ["X", "infinity"]),
    ("text in X", lambda X, y: classify(with_entry(X, "a"), y), ["could not convert", "'a'"]),
    ("complex X", lambda X, y: classify(X + 1j, y), ["Complex"]),
    ("1D X", lambda X, y: classify(X[:, 0], y), ["2D array", "Reshape"]),
    ("3D X", lambda X, y: classify(X[None], y), ["dim 3"]),
    ("no rows", lambda X, y: classify(X[:0], y[:0]), ["0 sample(s)", "minimum of 1"]),
    ("no features", lambda X, y: classify(X[:, :0], y), ["0 feature(s)", "minimum of 1"]),
    ("no labels", lambda X, y: classify(X, None), ["requires y", "None"]),
    ("fewer labels", lambda X, y: classify(X, y[:-1]), ["inconsistent", "[200, 199]"]),
    ("2D labels", lambda X, y: classify(X, np.column_stack([y, y])), ["1d array", "(200, 2)"]),
    ("NaN in labels", lambda X, y: classify(X, np.where(y, np.nan, 0.0)), ["y", "NaN"]),
    ("continuous labels", lambda X, y: classify(X, X[:, 0]), ["continuous", "classifier"]),
    ("one class", lambda X, y: classify(X, 0 * y), ["at least two classes", "y has 1 class"]),
    ("one row", lambda X, y: classify(X[:1], y[:1]), ["at least two classes", "y has 1 class"]),
    (
        "one class with weight",
        lambda X, y: classify(X, y, sample_weight=1.0 * y),
        ["at least two classes", "1 with a positive sample_weight"],
    ),
    ("NaN in targets", lambda X, y: regress(X, np.where(y, np.nan, 0.0)), ["y", "NaN"]),
    ("infinity in targets", lambda X, y: regress(X, np.where(y, np.inf, 0.0)), ["y", "infinity"]),
    ("text as targets", lambda X, y: regress(X, np.array(["a", "b"])[y]), ["could not convert"]),
    ("3D targets", lambda X, y: regress(X, np.ones((200, 2, 2))), ["dim 3"]),
    (
        "negative weight",
        lambda X, y: classify(X, y, y - 0.5),
        ["sample_weight", "negative", "-0.5", "zero or more"],
    ),
    (
        "weights all zero",
        lambda X, y: classify(X, y, 0 * y),
        ["sample_weight", "zero for every row", "positive"],
    ),
    (
        "NaN weight",
        lambda X, y: classify(X, y, np.where(y, np.nan, 1.0)),
        ["sample_weight", "NaN", "finite"],
    ),
    (
        "infinite weight",
        lambda X, y: classify(X, y, np.where(y, np.inf, 1.0)),
        ["sample_weight", "infinity", "finite"],
    ),
    ("few weights", lambda X, y: classify(X, y, np.ones(7)), ["sample_weight", "(7,)", "(200,)"]),
    (
        "2D weights",
        lambda X, y: classify(X, y, np.ones((200, 1))),
        ["sample_weight", "(200, 1)", "(200,)"],
    ),
    (
        "text as weights",
        lambda X, y: classify(X, y, ["a"] * 200),
        ["sample_weight", "'a'", "numbers"],
    ),
    (
        "weight of an unknown class",
        lambda X, y: classify(X, y, class_weight={7: 1.0}),
        ["class_weight names 7", "classes are [0, 1]"],
    ),
    (
        "landmarks too narrow",
        lambda X, y: classify(X, y, landmarks=X[:9, :2]),
        ["landmarks has 2 features", "X has 5", "(k, n_features)"],
    ),
    ("1D landmarks", lambda X, y: classify(X, y, landmarks=X[0]), ["landmarks", "2D"]),
    ("no landmarks", lambda X, y: classify(X, y, landmarks=X[:0]), ["landmarks", "minimum of 1"]),
    ("landmarks with NaN", lambda X, y: classify(X, y, landmarks=np.nan * X), ["landmarks", "NaN"]),
    ("landmarks of text", lambda X, y: classify(X, y, landmarks=[["a"] * 5]), ["landmarks", "'a'"]),
    (
        "landmarks that need a fit",
        lambda X, y: NystroemMap(landmarks="boundary").fit(X, y),
        ["landmarks='boundary'", "'kmeans', 'class_kmeans', 'uniform'"],
    ),
    ("random_state of text", lambda X, y: classify(X, y, random_state="a"), ["'a'", "seed"]),
    (
        "every eigenvalue cut",
        lambda X, y: classify(X, y, eigenvalue_cutoff=1e9),
        ["No eigenvalue", "1e+09", "kernel"],
    ),
    (
        "kernel function of wrong shape",
        lambda X, y: classify(X, y, kernel=lambda X, L: X),
        ["kernel function returned an array of shape", "must return shape"],
    ),
    (
        "kernel function that gives NaN",
        lambda X, y: classify(X, y, kernel=lambda X, L: np.nan * X @ L.T),
        ["kernel function", "NaN"],
    ),
    (
        "more features at predict",
        lambda X, y: predict(X, y, np.column_stack([X, X])),
        ["10 features", "expecting 5 features"],
    ),
    (
        "fewer features at predict",
        lambda X, y: predict(X, y, X[:, :3]),
        ["3 features", "expecting 5 features"],
    ),
    ("NaN at predict", lambda X, y: predict(X, y, with_entry(X, np.nan)), ["X", "NaN"]),
    ("1D at predict", lambda X, y: predict(X, y, X[0]), ["2D array", "Reshape"]),
    ("no rows at predict", lambda X, y: predict(X, y, X[:0]), ["0 sample(s)", "minimum of 1"]),
    ("unknown parameter", lambda X, y: LASNClassifier().set_params(k=5), ["'k'", "n_landmarks"]),
]


@pytest.mark.parametrize(
    ("act", "fragments"), [pytest.param(*case[1:], id=case[0]) for case in DATA]
)
def test_wrong_data_is_named(binary, act, fragments):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the fragments are the match
        act(*binary)
    message = str(caught.value)
    assert all(text in message for text in fragments), message


@pytest.mark.parametrize(
    ("estimator", "method"),
    [
        (LASNClassifier(), "predict"),
        (LASNClassifier(), "decision_function"),
        (LASNClassifier(loss="log_loss"), "predict_proba"),
        (LASNClassifier(loss="log_loss"), "predict_log_proba"),
        (LASNRegressor(), "predict"),
        (NystroemMap(), "transform"),
    ],
)
def test_unfitted_use_is_told_to_fit(binary, estimator, method):
    with pytest.raises(NotFittedError, match=rf"{type(estimator).__name__}.* not fitted.*'fit'"):
        getattr(estimator, method)(binary[0])


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_every_parameter_is_checked_before_the_data_is_touched(estimator):
    """An object that is no number, no text, no array and no function suits no parameter."""
    for name in set(estimator().get_params()) - {"random_state"}:
        with pytest.raises((TypeError, ValueError), match=rf"^{name}="):
            estimator(**{name: object()}).fit(None, None)


def test_a_failed_fit_leaves_the_parameters_alone(binary):
    model = LASNClassifier(C=-1.0)
    with pytest.raises(ValueError, match=r"C=-1\.0"):
        model.fit(*binary)
    assert model.C == -1.0
    assert not hasattr(model, "coef_")

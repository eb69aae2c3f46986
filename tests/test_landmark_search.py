"""One C and one gamma: every number of landmarks is a whole fit, and its folds cost little more."""

from itertools import pairwise

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.model_selection import StratifiedKFold

import lasn.landmark_search
import lasn.search
import lasn.selection
from lasn import LASNClassifier, LASNClassifierCV, LASNRegressorCV
from lasn.cross_validation import Evaluation, Fold
from lasn.kernels import Kernel
from lasn.landmark_search import LandmarkSearch, whole_then_folds
from lasn.losses import SquaredHinge
from lasn.newton import NewtonOptions
from lasn.problem import Problem
from lasn.shared_features import SharedFeatures


def chequered_board(n_rows=1500, fields=7):
    """So many fields a side: a few landmarks are not enough."""
    X = np.random.RandomState(0).uniform(size=(n_rows, 2))
    return X, (np.floor(fields * X).sum(axis=1) % 2).astype(int)


def halves(n_rows=1500):
    """One straight boundary: more landmarks gain nothing."""
    X = np.random.RandomState(0).normal(size=(n_rows, 2))
    return X, (X[:, 0] > 0.0).astype(int)


def search(X, y, **options):
    defaults = {"Cs": [10.0], "gammas": [100.0], "random_state": 0}
    return LASNClassifierCV(**(defaults | options)).fit(X, y)


@pytest.fixture
def many_rows(monkeypatch):
    """Small sets are searched as larger ones are: twice the landmarks each time."""
    monkeypatch.setattr(lasn.search, "_FEW_ROWS", 0)


@pytest.fixture
def fits(monkeypatch):
    """The numbers of columns that were solved together, in their order."""
    columns = []
    for name in ("minimize", "minimize_with_bill"):
        solve = getattr(lasn.landmark_search, name)

        def counted(objective, *given, solve=solve):
            columns.append(objective.n_problems)
            return solve(objective, *given)

        monkeypatch.setattr(lasn.landmark_search, name, counted)
    return columns


def problem_of(X, y, C=5.0):
    targets = np.where(y[:, None] == np.unique(y), 1.0, -1.0)
    targets = targets[:, 1:] if targets.shape[1] == 2 else targets
    weight = np.random.RandomState(1).uniform(0.5, 2.0, size=len(y))
    weight[::20] = 0.0
    return Problem(X, targets, weight, y, C, SquaredHinge())


@pytest.mark.parametrize("n_classes", [2, 3])
def test_whole_and_folds_are_those_of_a_plain_loop(n_classes):
    X, y = make_classification(
        300, 5, n_informative=4, n_redundant=0, n_classes=n_classes, flip_y=0.1, random_state=0
    )
    problem, landmarks = problem_of(X, y), X[1::10]
    folds = [Fold(*rows) for rows in StratifiedKFold(3).split(X, y)]
    kernel = Kernel("rbf", gamma=0.3)
    shared = SharedFeatures(X, kernel, landmarks, np.dtype(float), "auto", None, n_gammas=1)
    features = shared.at(0.3, 3 * problem.n_problems)
    whole, held_out = whole_then_folds(problem, folds, features, NewtonOptions(tol=1e-7), None)
    alone = LASNClassifier(landmarks=landmarks, C=5.0, gamma=0.3, tol=1e-7)
    alone.fit(X, y, problem.sample_weight)
    function = shared.function(whole.W)
    scores = kernel(X, landmarks) @ function.beta + function.bias
    np.testing.assert_allclose(np.squeeze(scores), alone.decision_function(X), atol=1e-3)
    for fold, scores in zip(folds, held_out, strict=True):
        alone.fit(X[fold.train], y[fold.train], problem.sample_weight[fold.train])
        np.testing.assert_allclose(
            np.squeeze(scores), alone.decision_function(X[fold.test]), atol=1e-3
        )


def test_folds_take_no_more_steps_than_all_rows_did(many_rows, monkeypatch):
    steps = []
    minimize = lasn.landmark_search.minimize
    monkeypatch.setattr(
        lasn.landmark_search,
        "minimize",
        lambda *given: (steps.append(minimize(*given)), steps[-1])[1],
    )
    X, y = chequered_board()
    model = search(X, y)
    by_itself = LASNClassifier(landmarks=model.landmarks_, C=10.0, gamma=100.0).fit(X, y)
    assert all(one.n_iter <= by_itself.n_iter_ for one in steps)


def test_each_number_of_landmarks_is_one_fit_and_one_of_all_folds(many_rows, fits, monkeypatch):
    """And one feature matrix: the best is not fitted again, unless rows stood for its landmarks."""
    made = []
    make = SharedFeatures._make
    monkeypatch.setattr(
        SharedFeatures, "_make", lambda self, *given: (made.append(self), make(self, *given))[1]
    )
    monkeypatch.setattr(lasn.selection, "train", lambda *_, **__: pytest.fail("fitted again"))
    X, y = chequered_board()
    model = search(X, y, landmarks="kmeans")
    n_levels = len(model.landmark_curve_)
    assert n_levels >= 3
    assert fits == [1, 5] * n_levels
    assert len(made) == n_levels
    assert model.history_[-1]["relative_gradient"] <= model.tol


def test_the_model_has_centres_where_rows_stood_for_them_in_folds(many_rows, monkeypatch):
    """The mean of rows of one class would tell folds which class those that they hold out have."""
    in_folds = []
    make = SharedFeatures._make
    monkeypatch.setattr(
        SharedFeatures,
        "_make",
        lambda self, *given: (in_folds.append(self.landmarks), make(self, *given))[1],
    )
    X, y = chequered_board()
    model = search(X, y, one_standard_error=True)
    rows = {tuple(row) for row in X}
    assert all(tuple(row) in rows for landmarks in in_folds for row in landmarks)
    assert any(len(landmarks) == model.n_landmarks_ for landmarks in in_folds)
    assert sum(tuple(row) in rows for row in model.landmarks_) < model.n_landmarks_ / 2


def test_the_best_is_the_fit_with_its_landmarks(many_rows):
    X, y = chequered_board()
    model = search(X, y, tol=1e-6)
    alone = LASNClassifier(landmarks=model.landmarks_, C=10.0, gamma=100.0, tol=1e-6).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), alone.decision_function(X), atol=1e-3)
    assert set(model.history_[0]) == set(alone.history_[0])
    assert model.n_landmarks_ == model.best_params_["n_landmarks"]


def test_landmarks_grow_while_the_next_are_expected_to_gain_the_margin(many_rows):
    model = search(*chequered_board())
    sizes = [record["n_landmarks"] for record in model.landmark_curve_]
    gains = np.diff([record["score"] for record in model.landmark_curve_])
    assert all(after > 1.7 * before for before, after in pairwise(sizes))
    assert (gains[:-1] >= 2.5e-3).all()
    assert gains[-1] < 9e-3 or sizes[-1] == 1500


@pytest.mark.parametrize(
    ("sizes", "gained", "following"),
    [
        ([100], np.inf, 200),  # nothing to compare with
        ([100, 200], 0.0024, None),  # 0.4 of it is expected next
        ([100, 200], 0.0026, 400),
        ([100, 200], 0.0063, 800),  # and 0.4 of that afterwards
        ([100, 200, 800], 0.0087, None),  # 0.4 / 1.4 of it was the last doubling's
        ([100, 200, 800], 0.0088, 1600),
        ([100, 200, 400], 0.1, 800),  # four times as many are dear
        ([100, 200, 800, 1600], 0.1, 1700),  # all rows
    ],
)
def test_landmarks_grow_fourfold_where_two_doublings_are_expected_to_pay(sizes, gained, following):
    search = object.__new__(LandmarkSearch)
    search.sizes, search.margin, search.ends_exact, search.folds = sizes, 1e-3, False, [0] * 200
    search.problem = problem_of(*halves(1700))
    assert search._goes_on(len(sizes) - 1, gained) == (following is not None)
    if following is not None:
        assert search._following(sizes[-1], gained) == following


def test_landmarks_that_gain_nothing_are_tried_once(many_rows, fits):
    model = search(*halves(), gammas=[0.5])
    assert len(model.landmark_curve_) == 2
    assert fits == [1, 5] * 2


def test_a_larger_margin_ends_sooner(many_rows):
    levels = [len(search(*chequered_board(), landmark_margin=m).landmark_curve_) for m in (0, 0.2)]
    assert levels[0] > levels[1]


def test_the_exact_machine_follows_where_it_pays():
    X, y = chequered_board(900, fields=9)
    model = search(X, y, tol=1e-6)
    assert [record["n_landmarks"] for record in model.landmark_curve_][1:] == [len(X)]
    assert model.mapping_ is None
    exact = LASNClassifier(C=10.0, gamma=100.0, solver="exact", tol=1e-6, random_state=0)
    np.testing.assert_allclose(
        model.decision_function(X), exact.fit(X, y).decision_function(X), atol=0.01
    )


def test_a_rough_first_number_of_landmarks_is_fitted_again():
    X, _ = halves(600)
    y = np.random.RandomState(1).randint(2, size=len(X))
    model = search(X, y, one_standard_error=True, gammas=[0.5])
    assert model.n_landmarks_ <= 100
    assert model.history_[-1]["relative_gradient"] <= model.tol


def test_few_rows_all_become_landmarks_where_it_may_not_follow():
    X, y = chequered_board(600)
    model = search(X, y, loss="log_loss")
    assert [record["n_landmarks"] for record in model.landmark_curve_][1:] == [len(X)]
    assert model.mapping_ is not None


@pytest.mark.parametrize("n_classes", [2, 8])
def test_only_the_exact_machine_is_tried_on_a_sample(many_rows, monkeypatch, n_classes):
    monkeypatch.setattr(lasn.search, "_MANY_SCORES", 600)
    monkeypatch.setattr(lasn.search, "_FEWEST_ROWS", 500)
    X, _ = halves(1200)
    y = (np.floor(6 * X[:, 0]) + np.floor(6 * X[:, 1])).astype(int) % n_classes
    rows = search(X, y, gammas=[10.0]).cv_results_["n_resources"]
    assert set(rows) == ({1200} if n_classes == 2 else {250, 1200})


def test_features_are_as_wide_as_the_tolerance_needs(many_rows):
    X, y = halves(6000)
    assert search(X, y, gammas=[0.5]).landmarks_.shape[0] <= 200
    fitted = [search(X, y, gammas=[0.5], landmarks="kmeans", tol=tol) for tol in (1e-3, 1e-5)]
    widths = [model.history_[0]["precision"] for model in fitted]
    assert widths == ["float32", "float64"]


def test_it_is_for_one_candidate_with_landmarks_for_all_folds(many_rows, fits):
    X, y = chequered_board(300)
    for options in (
        {"Cs": [1.0, 10.0]},
        {"gammas": [50.0, 100.0]},
        {"n_landmarks": 40},
        {"landmarks_per_fold": True},
        {"kernel": "linear"},
    ):
        search(X, y, loss="log_loss", **options)
    assert fits == []


def test_regression(many_rows, fits):
    X, _ = chequered_board(500)
    y = np.sin(20.0 * X[:, 0]) + X[:, 1]
    model = LASNRegressorCV(Cs=[10.0], gammas=[20.0], cv=3, random_state=0).fit(X, y)
    assert fits == [1, 3] * len(model.landmark_curve_)
    assert model.best_score_ > 0.9
    assert model.score(X, y) > model.best_score_ - 0.05


def test_a_time_budget_ends_it_with_a_model(many_rows):
    X, y = chequered_board()
    model = search(X, y, time_budget=1e-9)
    assert len(model.landmark_curve_) == 1
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


def test_a_time_budget_may_end_within_the_sample(many_rows, monkeypatch):
    """Before the exact machine was tried on it."""
    monkeypatch.setattr(lasn.search, "_MANY_SCORES", 600)
    monkeypatch.setattr(lasn.search, "_FEWEST_ROWS", 500)
    X, _ = halves(1200)
    y = (np.floor(6 * X[:, 0]) + np.floor(6 * X[:, 1])).astype(int) % 8
    model = search(X, y, gammas=[10.0], time_budget=1e-9)
    assert list(model.cv_results_["n_resources"]) == [250, 1200]
    assert model.mapping_ is not None


def chosen_of(*candidates):
    """What is the best of three folds' scores at rising numbers of landmarks, of 10 rows."""
    tried = LandmarkSearch.__new__(LandmarkSearch)
    tried.problem = problem_of(*halves(10))
    tried.evaluations = [
        Evaluation(k, 1.0, 1.0, np.array(scores), 0.0, 0.0, level, 10, [], k == 10)
        for level, (k, scores) in enumerate(candidates)
    ]
    return tried.best.n_landmarks


def test_chance_does_not_speak_against_the_exact_machine():
    """Its score may be lower by less than two standard errors of the difference."""
    few = 5, [0.9, 0.8, 0.9]
    assert chosen_of(few, (10, [0.95, 0.7, 0.9])) == 10
    assert chosen_of(few, (10, [0.7, 0.6, 0.6])) == 5
    assert chosen_of(few, (10, [0.9, 0.8, 0.91])) == 10


def test_chance_does_not_speak_against_more_landmarks():
    """Nor does an equal score; a lower one does from one standard error on."""
    few = 2, [0.9, 0.8, 0.9]
    assert chosen_of(few, (4, [0.9, 0.8, 0.9])) == 4
    assert chosen_of(few, (4, [0.94, 0.75, 0.9])) == 4
    assert chosen_of(few, (4, [0.9, 0.75, 0.85])) == 2
    assert chosen_of(few, (4, [0.94, 0.75, 0.9]), (8, [0.7, 0.6, 0.6])) == 4
    assert chosen_of(few, (4, [0.7, 0.6, 0.6]), (8, [0.9, 0.8, 0.91])) == 8

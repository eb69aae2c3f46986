"""The exact machine at the end of a search: its folds are those of a plain loop, and it is kept."""

from dataclasses import replace

import numpy as np
import pytest
from places import every_place
from sklearn.datasets import make_classification
from sklearn.model_selection import StratifiedKFold

import lasn
import lasn.search
from lasn import LASNClassifier, LASNClassifierCV
from lasn.arrays import to_numpy
from lasn.cross_validation import Fold
from lasn.exact import ExactSolver
from lasn.exact_folds import exact_folds, exact_pays
from lasn.kernels import Kernel
from lasn.losses import SquaredHinge
from lasn.model import Model
from lasn.newton import NewtonOptions
from lasn.problem import Problem

pytestmark = every_place

CS, GAMMAS = [1.0, 10.0], [30.0, 120.0, 480.0]


def coloured_board(n_rows=900, fields=12, n_colours=4):
    """Each field of a board has one of a few colours: a few landmarks are not enough."""
    rng = np.random.RandomState(0)
    X = rng.uniform(size=(n_rows, 2))
    colours = rng.randint(n_colours, size=(fields, fields))
    return X, colours[tuple(np.floor(fields * X).astype(int).T)]


@pytest.fixture
def many_classes(monkeypatch):
    """Small sets are searched as larger ones are."""
    monkeypatch.setattr(lasn.search, "_FEW_ROWS", 0)


@pytest.fixture
def a_sample_first(monkeypatch, many_classes):
    monkeypatch.setattr(lasn.search, "_MANY_SCORES", 600)
    monkeypatch.setattr(lasn.search, "_FEWEST_ROWS", 500)


def search(X, y, **options):
    defaults = {"Cs": CS, "gammas": GAMMAS, "cv": 3, "random_state": 0}
    return LASNClassifierCV(**(defaults | options)).fit(X, y)


def test_what_is_known_of_columns_that_rest_is_what_would_be_measured(place, monkeypatch):
    """Only those that a step moved are measured again, and all of them where rows were taken in."""
    measured = []
    measure, step = ExactSolver._measured, ExactSolver._step

    def counted(self, columns, **options):
        measured.append(len(columns))
        return measure(self, columns, **options)

    def checked(self, *given, **options):
        moved = step(self, *given, **options)
        value, gap, wrong = self._value_and_gap()
        everyone = np.arange(len(value))
        for known, true in zip((value, gap, wrong), measure(self, everyone), strict=True):
            np.testing.assert_allclose(known, true, rtol=1e-6, atol=1e-6 * value.max())
        return moved

    monkeypatch.setattr(ExactSolver, "_measured", counted)
    monkeypatch.setattr(ExactSolver, "_step", checked)
    X, y = coloured_board(400, fields=5)
    targets = np.where(y[:, None] == np.arange(4), 1.0, -1.0)
    options = {"newton": NewtonOptions(), "dtype": "float64", "memory_limit": None}
    exact_folds(
        Problem(place.rows(X), targets, np.ones(len(X)), y, 10.0, SquaredHinge()),
        [Fold(*rows) for rows in StratifiedKFold(5).split(X, y)],
        kernel=Kernel("rbf", gamma=30.0),
        start=Model(Kernel("rbf", gamma=30.0), place.rows(X[:5]), None, np.zeros((6, 4)), float),
        rng=np.random.RandomState(0),
        **options,
    )
    assert any(0 < count < 20 for count in measured[measured.index(20) :])


@pytest.mark.parametrize("n_classes", [2, 3])
def test_held_out_scores_are_those_of_a_plain_loop(n_classes, place):
    X, y = make_classification(
        240, 5, n_informative=4, n_redundant=0, n_classes=n_classes, flip_y=0.1, random_state=0
    )
    weight = np.random.RandomState(1).uniform(0.5, 2.0, size=len(y))
    weight[::20] = 0.0
    targets = np.where(y[:, None] == np.arange(n_classes), 1.0, -1.0)
    targets = targets[:, 1:] if n_classes == 2 else targets
    problem = Problem(place.rows(X), targets, weight, y, 5.0, SquaredHinge())
    folds = [Fold(*rows) for rows in StratifiedKFold(3).split(X, y)]
    alone = LASNClassifier(C=5.0, gamma=0.3, solver="exact", tol=1e-6, random_state=0)
    start = alone.fit(X[::4], y[::4])._fitted_model()
    whole, held_out = exact_folds(
        problem,
        folds,
        kernel=start.kernel,
        start=start,
        newton=NewtonOptions(tol=1e-6),
        dtype="float64",
        memory_limit=None,
        rng=np.random.RandomState(0),
    )
    alone.fit(X, y, weight)
    expected = alone.decision_function(X)
    found = to_numpy(whole.scores(place.rows(X)))
    np.testing.assert_allclose(np.squeeze(found), expected, atol=1e-3)
    for fold, scores in zip(folds, held_out, strict=True):
        alone.fit(X[fold.train], y[fold.train], weight[fold.train])
        expected = alone.decision_function(X[fold.test])
        np.testing.assert_allclose(np.squeeze(scores), expected, atol=1e-3)


def test_many_classes_end_with_the_exact_machine(many_classes):
    X, y = coloured_board()
    model = search(X, y, tol=1e-6)
    assert model.best_params_["n_landmarks"] == len(X)
    assert [record["n_landmarks"] for record in model.landmark_curve_][1:] == [len(X)]
    assert model.mapping_ is None
    assert model.n_landmarks_ <= len(X)
    C, gamma = model.best_params_["C"], model.best_params_["gamma"]
    exact = LASNClassifier(C=C, gamma=gamma, solver="exact", tol=1e-6, random_state=0)
    np.testing.assert_allclose(
        model.decision_function(X), exact.fit(X, y).decision_function(X), atol=0.01
    )
    folds = StratifiedKFold(3).split(X, y)
    scores = [exact.fit(X[train], y[train]).score(X[test], y[test]) for train, test in folds]
    assert model.best_score_ == pytest.approx(np.mean(scores), abs=0.005)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


def test_a_sample_tells_which_exact_machine_to_fit_to_all_rows(a_sample_first):
    X, y = coloured_board(1500)
    model = search(X, y)
    results = model.cv_results_
    exact = results["param_n_landmarks"] == results["n_resources"]
    assert set(results["n_resources"]) == {500, 1500}
    assert set(results["n_resources"][exact]) == {500, 1500}
    assert results["n_resources"][model.best_index_] == 1500
    assert exact[model.best_index_]


def test_a_short_time_ends_with_landmarks(a_sample_first):
    X, y = coloured_board(1500)
    model = search(X, y, time_budget=1e-9)
    assert model.cv_results_["n_resources"][model.best_index_] == 1500
    assert model.best_params_["n_landmarks"] < len(X)


@pytest.mark.parametrize(
    "options",
    [
        {"n_landmarks": 60},
        {"landmarks": coloured_board()[0][::10]},
        {"loss": "log_loss"},
        {"solver": "newton"},
        {"kernel": "linear"},
    ],
)
def test_it_is_not_for_every_search(many_classes, monkeypatch, options):
    def called(*given, **options):
        raise AssertionError("the exact machine was fitted")

    monkeypatch.setattr("lasn.search.exact_folds", called)
    X, y = coloured_board()
    options = {"Cs": [10.0], "gammas": [120.0]} | options
    assert search(X, y, **options).best_params_["n_landmarks"] <= len(X)


@pytest.mark.parametrize("options", [{"landmarks_per_fold": True}, {"one_standard_error": True}])
def test_it_takes_part_in_other_searches(many_classes, options):
    X, y = coloured_board()
    assert len(X) in search(X, y, **options).cv_results_["param_n_landmarks"]


def test_it_can_be_saved(many_classes, tmp_path):
    X, y = coloured_board()
    model = search(X, y, Cs=[10.0], gammas=[120.0])
    assert model.mapping_ is None
    lasn.save(model, tmp_path / "model.lasn")
    loaded = lasn.load(tmp_path / "model.lasn")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert loaded.best_params_ == model.best_params_


def test_it_pays_where_columns_are_many_and_memory_is_there():
    n_rows = 8000
    targets = np.ones((n_rows, 30))
    problem = Problem(targets[:, :1], targets, targets[:, 0], targets[:, 0], 1.0, SquaredHinge())
    assert exact_pays(problem, 3, None)
    assert not exact_pays(problem, 3, "1MB")
    assert not exact_pays(replace(problem, targets=targets[:, :1]), 3, None)

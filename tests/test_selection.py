"""LASNClassifierCV and LASNRegressorCV: the search shares work, leaks nothing, and is honest."""

import warnings
from itertools import pairwise
from time import perf_counter

import numpy as np
import pytest
from places import every_place
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification, make_friedman1
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold, TimeSeriesSplit
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import threadpool_limits

import lasn.search
from lasn import LASNClassifier, LASNClassifierCV, LASNRegressor, LASNRegressorCV
from lasn.cross_validation import Evaluation, Fold
from lasn.gamma import resolve_gamma
from lasn.kernels import KernelColumns
from lasn.search import Search
from lasn.threads import n_threads

pytestmark = every_place

CS, GAMMAS = [0.1, 1.0, 10.0], [0.05, 0.2]


@pytest.fixture(scope="module")
def rows():
    X, y = make_classification(
        300, 6, n_informative=4, n_redundant=0, n_classes=3, flip_y=0.1, random_state=0
    )
    return X, y


def chequered_board(n_rows, fields=7):
    """So many fields a side: a few landmarks are not enough."""
    X = np.random.RandomState(0).uniform(size=(n_rows, 2))
    return X, (np.floor(fields * X).sum(axis=1) % 2).astype(int)


def search(X, y, **options):
    """A fitted search over a small grid."""
    defaults = {"Cs": CS, "gammas": GAMMAS, "n_landmarks": 30, "cv": 3, "random_state": 0}
    return LASNClassifierCV(**(defaults | options)).fit(X, y)


@parametrize_with_checks(
    [
        LASNClassifierCV(Cs=[1.0, 10.0], n_landmarks=20, cv=3, random_state=0),
        LASNRegressorCV(Cs=[1.0, 10.0], n_landmarks=20, cv=3, random_state=0),
    ],
    expected_failed_checks=lambda estimator: {
        # As for every search in scikit-learn: a repeated row may be in two folds.
        f"check_sample_weight_equivalence_on_{kind}_data": "splitters count rows, not weights"
        for kind in ("dense", "sparse")
    },
    xfail_strict=True,
)
def test_scikit_learn_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="n_landmarks=20 is more than")
        warnings.filterwarnings("ignore", message="The least populated class")
        check(estimator)


@pytest.mark.parametrize("loss", ["squared_hinge", "log_loss"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_held_out_scores_are_those_of_a_plain_loop(rows, loss, n_classes):
    """Sharing leaks nothing: every candidate equals fits to the training rows alone."""
    X, y = rows
    y = np.minimum(y, n_classes - 1)
    landmarks = X[::10]
    folds = list(StratifiedKFold(3).split(X, y))
    seen = {}
    evaluate = Search._forget_held_out
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            Search,
            "_forget_held_out",
            lambda self: (
                seen.update(
                    {(self.evaluations[-1].gamma, self.evaluations[-1].C):
                     list(self.evaluations[-1].held_out)}
                ),
                evaluate(self),
            ),
        )  # fmt: skip
        search(X, y, landmarks=landmarks, loss=loss, tol=1e-7)
    assert len(seen) == len(CS) * len(GAMMAS)
    for (gamma, C), held_out in seen.items():
        for (train, test), scores in zip(folds, held_out, strict=True):
            alone = LASNClassifier(landmarks=landmarks, gamma=gamma, C=C, loss=loss, tol=1e-7)
            expected = alone.fit(X[train], y[train]).decision_function(X[test])
            np.testing.assert_allclose(np.squeeze(scores), expected, atol=1e-3)


def test_regression_is_a_plain_loop_too():
    X, y = make_friedman1(200, 5, noise=0.5, random_state=0)
    y = (y - y.mean()) / y.std()
    model = LASNRegressorCV(
        Cs=[1.0, 10.0], gammas=[0.1], n_landmarks=40, landmarks=X[:40], tol=1e-8
    ).fit(X, y)
    for index, C in enumerate([1.0, 10.0]):
        scores = [
            LASNRegressor(landmarks=X[:40], gamma=0.1, C=C, tol=1e-8)
            .fit(X[train], y[train])
            .score(X[test], y[test])
            for train, test in KFold(5).split(X)
        ]
        ours = [model.cv_results_[f"split{fold}_test_score"][index] for fold in range(5)]
        np.testing.assert_allclose(ours, scores, atol=1e-3)


def test_folds_and_Cs_add_no_kernel_values_and_no_features(rows, monkeypatch):
    X, y = rows
    counts = []

    def work(**options):
        made = []
        original = lasn.search.SharedFeatures.__init__
        monkeypatch.setattr(
            lasn.search.SharedFeatures,
            "__init__",
            lambda self, *args: (original(self, *args), made.append(self))[0],
        )
        search(X, y, **options)
        monkeypatch.undo()
        return sum(one.work.rows_computed for one in made), sum(one.products for one in made)

    counts = [work(), work(cv=10), work(Cs=np.logspace(-2, 2, 9)), work(cv=5, Cs=[1.0])]
    # One set of exponents for both gammas; one feature matrix for each.
    assert counts == [(len(X), len(GAMMAS) * len(X))] * 4


def test_a_whole_search_costs_four_fits_for_each_gamma(monkeypatch):
    """Counted in kernel values and in multiplications of K M, with k growing along the way."""
    X, y = chequered_board(1000, fields=10)
    work = {"kernel": 0, "product": 0}
    fill, make = lasn.search.SharedFeatures._fill_exponents, lasn.search.SharedFeatures._make

    def counted_fill(self, landmarks, out):
        work["kernel"] += out.size
        fill(self, landmarks, out)

    def counted_make(self, *given):
        work["product"] += self.X.shape[0] * self.landmarks.shape[0] ** 2
        return make(self, *given)

    monkeypatch.setattr(lasn.search.SharedFeatures, "_fill_exponents", counted_fill)
    monkeypatch.setattr(lasn.search.SharedFeatures, "_make", counted_make)
    monkeypatch.setattr(lasn.search, "_FEW_ROWS", 0)  # twice the landmarks each time
    model = LASNClassifierCV(Cs=[10.0, 100.0], gammas=[100.0, 200.0, 400.0], cv=3, random_state=0)
    k = model.fit(X, y).n_landmarks_
    assert len(model.landmark_curve_) >= 3
    n_gammas = len(set(model.cv_results_["param_gamma"]))
    assert work["kernel"] <= 4 * n_gammas * len(X) * k
    assert work["product"] <= 4 * n_gammas * len(X) * k**2


@pytest.mark.parametrize("method", ["boundary", "class_kmeans", "kmeans", "uniform"])
def test_landmarks_grow_from_those_before(monkeypatch, method):
    """From a sample of the rows on, every set of landmarks begins with the last one."""
    monkeypatch.setattr(lasn.search, "_MANY_SCORES", 600)
    monkeypatch.setattr(lasn.search, "_FEWEST_ROWS", 500)
    monkeypatch.setattr(lasn.search, "_FEW_ROWS", 0)
    sets = []
    choose = Search._choose_landmarks

    def choose_and_note(self, size):
        choose(self, size)
        sets.append(self.features[0].landmarks)

    monkeypatch.setattr(Search, "_choose_landmarks", choose_and_note)
    X, y = chequered_board(1500)
    LASNClassifierCV(Cs=[10.0], gammas=[50.0, 200.0], cv=3, landmarks=method, random_state=0).fit(
        X, y
    )
    assert len(sets) >= 3
    for before, after in pairwise(sets):
        assert len(after) > len(before)
        np.testing.assert_array_equal(after[: len(before)], before)


def test_exponents_give_the_kernel_of_every_gamma(rows):
    X, _ = rows
    for name in ("rbf", "laplacian"):
        kernel = lasn.search.Kernel(name, gamma=0.1)
        features = lasn.search.SharedFeatures(
            X, kernel, X[:20], np.dtype(float), "auto", None, n_gammas=2
        )
        for gamma in (0.1, 0.7):
            F = features.at(gamma, 1).blocks.blocks[0].matrix()
            K = lasn.search.Kernel(name, gamma=gamma)(X, X[:20])
            np.testing.assert_allclose(F @ F[:20].T, K, atol=1e-8)
        features.grow(np.vstack([X[:20], X[50:60]]), np.dtype(float))
        F = features.at(0.7, 1).blocks.blocks[0].matrix()
        K = lasn.search.Kernel(name, gamma=0.7)(X, X[50:60])
        np.testing.assert_allclose(F @ F[50:60].T, K, atol=1e-8)


def test_results_have_the_layout_of_grid_search(rows):
    X, y = rows
    model = search(X, y)
    results = model.cv_results_
    n_candidates = len(CS) * len(GAMMAS)
    assert len(results["params"]) == n_candidates
    for name in ("mean_test_score", "std_test_score", "rank_test_score", "mean_fit_time",
                 "param_C", "param_gamma", "param_n_landmarks", "split2_test_score"):  # fmt: skip
        assert len(results[name]) == n_candidates
    assert results["rank_test_score"][model.best_index_] == 1
    assert model.best_params_ == results["params"][model.best_index_]
    assert model.best_score_ == results["mean_test_score"].max()
    assert model.n_splits_ == 3


def test_the_best_is_refitted_on_all_rows(rows):
    X, y = rows
    model = search(X, y, landmarks=X[:30], tol=1e-8)
    C, gamma = model.best_params_["C"], model.best_params_["gamma"]
    best = LASNClassifier(landmarks=X[:30], C=C, gamma=gamma, tol=1e-8).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), best.decision_function(X), atol=1e-6)


@pytest.mark.parametrize(
    "cv", [StratifiedKFold(4, shuffle=True, random_state=1), TimeSeriesSplit(3), KFold(2)]
)
def test_splitters(rows, cv):
    X, y = rows
    assert search(X, y, cv=cv).n_splits_ == cv.get_n_splits()


def test_groups_are_kept_together(rows):
    X, y = rows
    groups = np.arange(len(X)) // 30
    options = {"Cs": [1.0], "gammas": [0.1], "n_landmarks": 20, "cv": GroupKFold(5)}
    model = LASNClassifierCV(random_state=0, **options).fit(X, y, groups=groups)
    assert model.n_splits_ == 5
    with pytest.raises(ValueError, match="groups"):
        LASNClassifierCV(**options).fit(X, y)


@pytest.mark.parametrize("scoring", ["f1_macro", "roc_auc_ovr", make_scorer(accuracy_score)])
def test_scorers(rows, scoring):
    X, y = rows
    model = search(X, y, scoring=scoring, loss="log_loss")
    assert 0.5 < model.best_score_ <= 1.0


def test_a_function_as_scorer_sees_the_rows(rows):
    X, y = rows
    seen = []

    def scoring(estimator, X, y):
        seen.append(X.shape)
        return accuracy_score(y, estimator.predict(X))

    assert search(X, y, scoring=scoring).best_score_ == search(X, y).best_score_
    assert seen[0] == (100, 6)


def test_weights_count_in_fit_and_score(rows):
    X, y = rows
    wrong = np.r_[X, X[:60]], np.r_[y, (y[:60] + 1) % 3]
    weight = np.r_[np.ones(len(y)), np.zeros(60)]
    cv = [(np.r_[:200, 300:340], np.r_[200:300, 340:360]), (np.r_[100:360], np.r_[:100])]
    plain = [(np.r_[:200], np.r_[200:300]), (np.r_[100:300], np.r_[:100])]
    options = {"Cs": CS, "gammas": [0.1], "n_landmarks": 30, "landmarks": X[:30]}
    weighted = LASNClassifierCV(cv=cv, **options).fit(*wrong, sample_weight=weight)
    expected = LASNClassifierCV(cv=plain, **options).fit(X, y)
    np.testing.assert_allclose(
        weighted.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"], atol=1e-12
    )


def test_one_standard_error_prefers_simple_models(rows):
    X, y = rows
    best = search(X, y, n_landmarks=[10, 40, 120])
    simple = search(X, y, n_landmarks=[10, 40, 120], one_standard_error=True)
    results, index = best.cv_results_, best.best_index_
    allowed = results["std_test_score"][index] / np.sqrt(3)
    assert best.best_score_ - simple.best_score_ <= allowed
    assert simple.n_landmarks_ <= best.n_landmarks_


def test_landmarks_grow_while_they_help(monkeypatch):
    monkeypatch.setattr(lasn.search, "_FEW_ROWS", 0)
    X, y = chequered_board(1500, fields=10)
    model = LASNClassifierCV(Cs=[10.0, 100.0], gammas=[100.0, 400.0], random_state=0).fit(X, y)
    sizes = [record["n_landmarks"] for record in model.landmark_curve_]
    assert 90 <= sizes[0] <= 100  # the rows nearest to centres, each once
    assert sizes[1] > 1.7 * sizes[0]
    gains = np.diff([record["score"] for record in model.landmark_curve_])
    assert (gains[:-1] >= 1e-3).all()
    assert gains[-1] < 1e-3 or sizes[-1] == len(X)


def test_few_rows_all_become_landmarks():
    X, y = chequered_board(400)
    model = LASNClassifierCV(Cs=[10.0, 100.0], gammas=[50.0, 200.0], random_state=0).fit(X, y)
    sizes = [record["n_landmarks"] for record in model.landmark_curve_]
    assert len(sizes) == 2
    assert sizes[1] == len(X)


def test_a_large_grid_is_tried_on_a_sample_first(monkeypatch):
    monkeypatch.setattr(lasn.search, "_MANY_SCORES", 600)
    monkeypatch.setattr(lasn.search, "_FEWEST_ROWS", 200)
    X, y = make_classification(1000, 5, n_informative=4, n_redundant=0, random_state=0)
    model = LASNClassifierCV(Cs=CS, gammas=GAMMAS, cv=3, random_state=0).fit(X, y)
    rows = model.cv_results_["n_resources"]
    assert set(rows) == {200, 1000}
    assert (rows[: len(CS) * len(GAMMAS)] == 200).all()
    assert rows[model.best_index_] == 1000


def test_a_short_time_is_enough_to_try_something_on_all_rows(monkeypatch):
    """The sample that a large grid begins with is no place to calibrate probabilities."""
    monkeypatch.setattr(lasn.search, "_MANY_SCORES", 600)
    monkeypatch.setattr(lasn.search, "_FEWEST_ROWS", 200)
    X, y = make_classification(1000, 5, n_informative=4, n_redundant=0, random_state=0)
    model = LASNClassifierCV(Cs=CS, gammas=GAMMAS, cv=3, random_state=0, time_budget=1e-9)
    model.fit(X, y)
    assert model.cv_results_["n_resources"][model.best_index_] == 1000
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


def test_the_users_limit_on_threads_is_kept(rows):
    X, y = rows
    seen = []

    def scoring(estimator, X, y):
        seen.append(n_threads())
        return 1.0

    with threadpool_limits(1, "blas"):
        search(X, y, scoring=scoring)
    assert set(seen) == {1}


def test_one_weight_for_all_rows_changes_no_score(rows):
    X, y = rows
    options = {"Cs": [1.0], "gammas": [0.1], "landmarks": X[:30], "cv": 3}
    weighted = LASNClassifierCV(**options).fit(X, y, sample_weight=1.0)
    assert weighted.best_score_ == LASNClassifierCV(**options).fit(X, y).best_score_


def test_the_search_widens_at_an_edge(rows):
    X, _ = rows
    flipped = np.random.RandomState(0).uniform(size=len(X)) < 0.4
    y = (X[:, 0] > 0) ^ flipped
    model = LASNClassifierCV(n_landmarks=30, random_state=0).fit(X, y)
    assert set(model.cv_results_["param_C"]) > {1.0, 10.0, 100.0}
    gammas = model.cv_results_["param_gamma"]
    assert np.isclose(gammas, resolve_gamma("variance", X)).any()
    given = LASNClassifierCV(Cs=[1.0, 10.0], n_landmarks=30, random_state=0).fit(X, y)
    assert set(given.cv_results_["param_C"]) == {1.0, 10.0}


def test_a_time_budget_ends_the_search_with_a_model(rows):
    X, y = rows
    model = search(X, y, n_landmarks="auto", time_budget=1e-9)
    assert len(model.cv_results_["params"]) == len(CS)
    assert model.score(X, y) > 0.5
    began = perf_counter()
    search(X, y, gammas=np.logspace(-3, 1, 400), time_budget=0.5)
    assert perf_counter() - began < 20.0


def test_strict_landmarks_come_from_training_rows_only(rows, monkeypatch):
    X, y = rows
    used = []
    original = KernelColumns.__init__
    monkeypatch.setattr(
        KernelColumns,
        "__init__",
        lambda self, kernel, landmarks, dtype: (
            used.append(landmarks), original(self, kernel, landmarks, dtype))[1],
    )  # fmt: skip
    cv = [(np.arange(100, 300), np.arange(100))]
    LASNClassifierCV(
        Cs=[1.0], gammas=[0.1], n_landmarks=20, landmarks="uniform", cv=cv, random_state=0,
        landmarks_per_fold=True,
    ).fit(X, y)  # fmt: skip
    held_out = {row.tobytes() for row in X[:100]}
    first_fit = used[0]
    assert not held_out & {row.tobytes() for row in first_fit}


@pytest.mark.parametrize("calibration", ["sigmoid", "isotonic"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_agree_with_predictions(rows, calibration, n_classes):
    X, y = rows
    y = np.minimum(y, n_classes - 1)
    model = search(X, y, calibration=calibration)
    probabilities = model.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert (model.classes_[probabilities.argmax(axis=1)] == model.predict(X)).all()
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), probabilities)
    # Better than saying how frequent the classes are.
    likelihood = np.log(probabilities[np.arange(len(y)), y] + 1e-12).mean()
    shares = np.bincount(y) / len(y)
    assert likelihood > (shares * np.log(shares)).sum()


def test_probabilities_are_calibrated_on_new_rows():
    X, y = make_classification(4000, 6, n_informative=4, n_redundant=0, flip_y=0.3, random_state=0)
    model = LASNClassifierCV(Cs=[1.0], gammas=["variance"], n_landmarks=60, random_state=0)
    model.fit(X[:2000], y[:2000])
    p = model.predict_proba(X[2000:])[:, 1]
    for low, high in ((0.0, 0.3), (0.3, 0.7), (0.7, 1.0)):
        inside = (p >= low) & (p <= high)
        if inside.sum() > 100:
            assert abs(y[2000:][inside].mean() - p[inside].mean()) < 0.08


def test_without_calibration_there_are_no_probabilities(rows):
    X, y = rows
    model = search(X, y, calibration=None)
    with pytest.raises(AttributeError, match="predict_proba") as raised:
        model.predict_proba  # noqa: B018
    assert 'calibration="sigmoid"' in str(raised.value.__cause__)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"Cs": []}, "Cs=.*at least one value"),
        ({"Cs": [1.0, -1.0]}, "Cs=-1.0"),
        ({"gammas": ["wide"]}, "gammas='wide'"),
        ({"n_landmarks": [10, 0]}, "n_landmarks=0"),
        ({"calibration": "platt"}, "calibration='platt'"),
        ({"time_budget": 0.0}, "time_budget=0.0"),
        ({"n_jobs": 0}, "n_jobs=0"),
        ({"scoring": lambda *_: np.nan}, "gave nan on a fold of 100 rows"),
    ],
)
def test_bad_parameters_are_named(rows, options, message):
    with pytest.raises(ValueError, match=message):
        search(*rows, **options)


def test_kernels_without_gamma_search_C_alone():
    X, y = load_iris(return_X_y=True)
    model = LASNClassifierCV(kernel="linear", random_state=0).fit(X, y)
    assert model.landmarks_ is None
    assert len(set(model.cv_results_["param_gamma"])) == 1
    assert model.best_score_ > 0.9


def test_clones_and_names(rows):
    X, y = rows
    names = np.array(["no", "perhaps", "yes"])
    model = clone(LASNClassifierCV(Cs=CS, gammas=GAMMAS, n_landmarks=30, cv=3, random_state=0))
    model.fit(X, names[y])
    assert set(model.predict(X)) <= set(names)


def test_a_fold_among_some_rows():
    fold = Fold(np.array([0, 2, 4, 6]), np.array([1, 3, 5]))
    part = fold.among(np.array([1, 2, 3, 6]))
    np.testing.assert_array_equal(part.train, [1, 3])
    np.testing.assert_array_equal(part.test, [0, 2])


def test_equal_scores_go_to_the_simplest():
    def evaluation(k, C):
        return Evaluation(k, 0.1, C, np.array([0.9, 0.9]), 0.0, 0.0, 0, 100, [])

    same = [evaluation(200, 1.0), evaluation(100, 10.0), evaluation(100, 1.0)]
    assert lasn.search.best_of(same) is same[2]

"""Labels in, fitted attributes out: what LASNClassifier and LASNRegressor promise."""

import pickle

import numpy as np
import pytest
from places import every_place
from reference import certificate
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import lasn.starts
from lasn import LASNClassifier, LASNRegressor
from lasn.kernels import Kernel
from lasn.losses import SquaredHinge

pytestmark = every_place

RECORD = {
    "value",
    "gradient_norm",
    "relative_gradient",
    "active_rows",
    "cg_steps",
    "step_length",
    "seconds",
}


@pytest.mark.parametrize(
    "names",
    [
        ["no", "yes"],
        [False, True],
        [-7, 3],
        [1.0, 2.0],
        np.array(["b", "a"], dtype=object),
        np.array([2**40, 5]),
    ],
)
def test_labels_of_any_type_come_back(binary, names):
    X, y = binary
    names = np.asarray(names)
    model = LASNClassifier(20, random_state=0).fit(X, names[y])
    np.testing.assert_array_equal(model.classes_, np.sort(names))
    assert model.classes_.dtype == model.predict(X).dtype == names.dtype
    assert set(model.predict(X)) == set(names)
    assert model.score(X, names[y]) > 0.85


def test_several_classes_of_strings(three_classes):
    X, y = three_classes
    names = np.array(["zero", "one", "two"])
    model = LASNClassifier(20, random_state=0).fit(X, names[y])
    assert list(model.classes_) == ["one", "two", "zero"]
    assert model.score(X, names[y]) > 0.98


def test_score_is_positive_for_the_second_class(binary):
    X, y = binary
    model = LASNClassifier(20, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), (model.decision_function(X) > 0).astype(int))


def test_shapes_for_two_classes(binary):
    X, y = binary
    model = LASNClassifier(20, random_state=0).fit(X, y)
    q = model.mapping_.shape[1]
    assert model.decision_function(X).shape == (200,)
    assert model.coef_.shape == (1, q)
    assert model.dual_coef_.shape == (1, 20)
    assert model.intercept_.shape == (1,)
    assert model.landmarks_.shape == (20, 5)
    assert (model.n_landmarks_, model.n_features_in_) == (20, 5)


def test_shapes_for_three_classes(three_classes):
    X, y = three_classes
    model = LASNClassifier(20, random_state=0).fit(X, y)
    assert model.decision_function(X).shape == (200, 3)
    assert model.coef_.shape == (3, model.mapping_.shape[1])
    assert model.dual_coef_.shape == (3, 20)
    assert model.intercept_.shape == (3,)
    np.testing.assert_array_equal(model.predict(X), model.decision_function(X).argmax(axis=1))


def test_linear_kernel_has_no_landmarks(binary):
    X, y = binary
    model = LASNClassifier(kernel="linear").fit(X, y)
    assert model.landmarks_ is None
    assert model.mapping_ is None
    assert model.n_landmarks_ == 0
    np.testing.assert_array_equal(model.dual_coef_, model.coef_)
    np.testing.assert_allclose(
        model.decision_function(X), X @ model.coef_[0] + model.intercept_[0], rtol=1e-12
    )


def test_regression_shapes_follow_the_target(regression):
    X, y = regression
    one = LASNRegressor(20, random_state=0).fit(X, y)
    assert one.predict(X).shape == (200,)
    assert one.dual_coef_.shape == (20,)
    assert isinstance(one.intercept_, float)
    column = LASNRegressor(20, random_state=0).fit(X, y[:, None])
    assert column.predict(X).shape == (200, 1)
    assert column.dual_coef_.shape == (1, 20)
    np.testing.assert_array_equal(column.predict(X)[:, 0], one.predict(X))


@pytest.mark.parametrize("solver", ["newton", "newton-cg"])
def test_several_targets_are_separate_regressions(regression, solver):
    X, y = regression
    Y = np.column_stack([y, -y, X[:, 0] ** 2])
    single = LASNRegressor(landmarks=X[:20], solver=solver, tol=1e-9)
    together = clone(single).fit(X, Y)
    assert together.predict(X).shape == (200, 3)
    apart = MultiOutputRegressor(single).fit(X, Y)
    np.testing.assert_allclose(together.predict(X), apart.predict(X), atol=1e-6)


def test_targets_within_the_tube_cost_nothing(regression):
    X, y = regression
    model = LASNRegressor(20, epsilon=100.0, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), 0.0)


@pytest.mark.parametrize("landmarks", ["boundary", "kmeans", "class_kmeans", "uniform"])
def test_every_way_to_choose_landmarks_learns(three_classes, regression, landmarks):
    X, y = three_classes
    assert LASNClassifier(30, landmarks=landmarks, random_state=0).fit(X, y).score(X, y) > 0.98
    X, y = regression
    assert LASNRegressor(30, landmarks=landmarks, random_state=0).fit(X, y).score(X, y) > 0.8


def test_own_landmarks_are_used_as_given(binary):
    X, y = binary
    model = LASNClassifier(n_landmarks=3, landmarks=X[5:17]).fit(X, y)
    np.testing.assert_array_equal(model.landmarks_, X[5:17])
    assert model.n_landmarks_ == 12


def test_automatic_number_of_landmarks_is_at_least_100(binary):
    X, y = binary
    assert LASNClassifier(random_state=0).fit(X, y).n_landmarks_ == 100
    assert LASNClassifier(random_state=0).fit(X[:60], y[:60]).n_landmarks_ == 60


def test_more_landmarks_than_rows_get_a_warning_and_all_rows(binary):
    X, y = binary
    with pytest.warns(UserWarning, match="n_landmarks=500 is more than the 200 rows"):
        model = LASNClassifier(500).fit(X, y)
    assert model.n_landmarks_ == 200


def test_gamma_is_reported(binary):
    X, y = binary
    model = LASNClassifier(20, random_state=0).fit(X, y)
    assert model.gamma_ == pytest.approx(1.0 / X.var(axis=0).sum())
    assert LASNClassifier(20, gamma=0.25, random_state=0).fit(X, y).gamma_ == 0.25


@pytest.mark.parametrize("solver", ["newton", "newton-cg", "auto"])
def test_history_records_every_iteration(binary, solver):
    X, y = binary
    model = LASNClassifier(20, solver=solver, tol=1e-6, random_state=0).fit(X, y)
    history = model.history_
    assert len(history) == model.n_iter_ > 1
    assert all(set(record) >= RECORD for record in history)
    assert all(isinstance(record["value"], float) for record in history)
    values = [record["value"] for record in history]
    assert np.all(np.diff(values) <= 1e-12 * values[0])
    assert np.all(np.diff([record["seconds"] for record in history]) >= 0)
    assert all(0 < record["step_length"] < 10 for record in history)
    assert all(0 < record["active_rows"] <= 200 for record in history)
    assert history[-1]["relative_gradient"] <= 1e-6 < history[-2]["relative_gradient"]


def test_history_of_several_classes_has_an_entry_a_class(three_classes):
    X, y = three_classes
    model = LASNClassifier(20, tol=1e-6, random_state=0).fit(X, y)
    last = model.history_[-1]
    for name in RECORD - {"seconds"}:
        assert np.shape(last[name]) == (3,)
    assert np.all(last["relative_gradient"] <= 1e-6)
    values = np.array([record["value"] for record in model.history_])
    assert np.all(np.diff(values, axis=0) <= 1e-12 * values[0])


def test_history_tells_the_truth(binary):
    X, y = binary
    model = LASNClassifier(20, C=2.0, tol=1e-2, random_state=0).fit(X, y)
    truth = certificate(
        Kernel("rbf", gamma=model.gamma_)(X, model.landmarks_) @ model.mapping_,
        np.where(y == 1, 1.0, -1.0)[:, None],
        model.coef_,
        model.intercept_,
        2.0,
        SquaredHinge(),
    )
    for name, expected in vars(truth).items():
        assert model.history_[-1][name] == pytest.approx(expected[0], rel=1e-6)


def test_cg_steps_are_counted_and_none_with_a_factored_hessian(binary):
    X, y = binary
    direct = LASNClassifier(20, solver="newton", random_state=0).fit(X, y)
    iterative = LASNClassifier(20, solver="newton-cg", random_state=0).fit(X, y)
    assert all(record["cg_steps"] == 0 for record in direct.history_)
    assert all(record["cg_steps"] > 0 for record in iterative.history_)
    np.testing.assert_allclose(
        iterative.decision_function(X), direct.decision_function(X), atol=0.05
    )


@pytest.mark.parametrize("estimator", [LASNClassifier, LASNRegressor])
def test_too_few_iterations_warn_with_a_remedy(binary, estimator):
    X, y = binary
    with pytest.warns(ConvergenceWarning, match=r"max_iter=1 .*Raise max_iter") as caught:
        model = estimator(20, max_iter=1, tol=1e-12, random_state=0).fit(X, y)
    assert len(caught) == 1
    assert model.n_iter_ == 1


def test_unreachable_tolerance_ends_with_a_warning(binary):
    X, y = binary
    with pytest.warns(ConvergenceWarning, match=r"no further progress in float32.*Raise tol"):
        model = LASNClassifier(20, tol=1e-30, dtype="float32", random_state=0).fit(X, y)
    assert model.history_[-1]["relative_gradient"] < 1e-4
    assert model.score(X, y) > 0.85


@pytest.mark.parametrize("landmarks", ["boundary", "kmeans", "class_kmeans", "uniform"])
def test_same_seed_gives_the_same_model(binary, landmarks):
    X, y = binary

    def scores(seed):
        return LASNClassifier(20, landmarks=landmarks, random_state=seed).fit(X, y).dual_coef_

    np.testing.assert_array_equal(scores(0), scores(0))
    np.testing.assert_array_equal(scores(0), scores(np.random.RandomState(0)))
    assert not np.allclose(scores(0), scores(1))


def test_number_of_threads_changes_rounding_only(three_classes):
    X, y = three_classes
    scores = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            model = LASNClassifier(30, tol=1e-9, random_state=0).fit(X, y)
            scores.append(model.decision_function(X))
    np.testing.assert_allclose(scores[1], scores[0], atol=1e-6)


@pytest.mark.parametrize("k", [200, 1500])
def test_a_sample_saves_steps_over_all_rows(rng, monkeypatch, k):
    """With several classes, from some landmarks on; and the minimum is the same."""
    X = rng.normal(size=(2000, 3))
    y = np.digitize(np.sum(X**2, axis=1) + 0.3 * rng.normal(size=2000), [1.5, 2.5, 4.0])
    model = LASNClassifier(k, C=100.0, gamma=0.5, tol=1e-6, random_state=0)
    scores, steps = [], []
    for least in (lasn.starts._ENOUGH, len(X) + 1):
        monkeypatch.setattr(lasn.starts, "_ENOUGH", least)
        model.set_params(landmarks=X[:k])
        scores.append(model.fit(X, y).decision_function(X))
        steps.append(sum(1 + np.sum(record["cg_steps"]) for record in model.history_))
    assert steps[0] < steps[1]
    np.testing.assert_allclose(scores[0], scores[1], atol=0.01)


def test_small_memory_recomputes_and_gives_the_same_model(rng):
    X = rng.normal(size=(8000, 3))
    y = np.sum(X**2, axis=1) + 2.0 * rng.normal(size=8000) > 2.4
    computed = []

    def counted(rows, landmarks):
        computed.append(len(rows))
        return Kernel("rbf", gamma=0.3)(rows, landmarks)

    models, rows = [], []
    for limit in (None, "60MB"):
        computed.clear()
        model = LASNClassifier(
            kernel=counted,
            landmarks=X[:600],
            dtype="float64",
            tol=1e-10,
            memory_limit=limit,
            random_state=0,
        )
        models.append(model.fit(X, y))
        rows.append(sum(computed))
    assert rows[1] > 2 * rows[0] >= 2 * len(X)
    np.testing.assert_allclose(
        models[1].decision_function(X[:500]), models[0].decision_function(X[:500]), atol=1e-6
    )


@pytest.mark.parametrize("data", ["binary", "three_classes"])
def test_probabilities_sum_to_one_and_agree_with_predict(request, data):
    X, y = request.getfixturevalue(data)
    model = LASNClassifier(20, loss="log_loss", random_state=0).fit(X, y)
    probabilities = model.predict_proba(X)
    assert probabilities.shape == (200, len(model.classes_))
    assert np.all(probabilities >= 0)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(model.classes_[probabilities.argmax(axis=1)], model.predict(X))
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), probabilities, rtol=1e-9)


def test_probabilities_of_two_classes_are_the_logistic_function(binary):
    X, y = binary
    model = LASNClassifier(20, loss="log_loss", random_state=0).fit(X, y)
    odds = np.exp(model.decision_function(X))
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], odds / (1.0 + odds), rtol=1e-9)


@pytest.mark.parametrize("data", ["binary", "three_classes"])
def test_log_probabilities_are_finite_where_a_class_is_impossible(request, data):
    X, y = request.getfixturevalue(data)
    model = LASNClassifier(kernel="linear", C=1e3, loss="log_loss").fit(X, y)
    assert np.isfinite(model.predict_log_proba(1e4 * X)).all()


def test_probabilities_are_calibrated_on_average(binary):
    X, y = binary
    model = LASNClassifier(10, C=1.0, loss="log_loss", random_state=0).fit(X, y)
    assert model.predict_proba(X)[:, 1].mean() == pytest.approx(y.mean(), abs=0.02)


@pytest.mark.parametrize("method", ["predict_proba", "predict_log_proba"])
def test_squared_hinge_has_no_probabilities(binary, method):
    model = LASNClassifier(20, random_state=0).fit(*binary)
    assert not hasattr(model, method)
    with pytest.raises(AttributeError) as caught:
        getattr(model, method)
    text = f"{caught.value} {caught.value.__cause__}"
    assert 'loss="log_loss"' in text
    assert "loss='squared_hinge'" in text


@pytest.mark.parametrize("estimator", [LASNClassifier, LASNRegressor])
def test_warm_start_takes_fewer_iterations_and_keeps_landmarks(binary, estimator):
    X, y = binary
    model = estimator(20, C=10.0, warm_start=True, tol=1e-8, random_state=0).fit(X, y)
    landmarks = model.landmarks_
    model.set_params(C=10.5).fit(X, y)
    np.testing.assert_array_equal(model.landmarks_, landmarks)
    cold = estimator(landmarks=landmarks, C=10.5, tol=1e-8).fit(X, y)
    assert 0 < model.n_iter_ < cold.n_iter_
    np.testing.assert_allclose(model.predict(X), cold.predict(X), atol=1e-5)


def test_warm_start_at_the_solution_has_nothing_to_do(binary):
    X, y = binary
    model = LASNClassifier(20, warm_start=True, random_state=0).fit(X, y)
    before = model.decision_function(X)
    assert model.fit(X, y).n_iter_ == 0
    assert model.history_ == []
    np.testing.assert_array_equal(model.decision_function(X), before)


@pytest.mark.parametrize(
    "change",
    [{"n_landmarks": 10}, {"landmarks": "uniform"}, {"gamma": 0.5}, {"kernel": "laplacian"}],
)
def test_warm_start_with_other_parameters_starts_afresh(binary, change):
    X, y = binary
    model = LASNClassifier(20, warm_start=True, random_state=0).fit(X, y)
    changed = clone(model).set_params(**change).fit(X, y)
    model.set_params(**change).fit(X, y)
    np.testing.assert_array_equal(model.landmarks_, changed.landmarks_)
    np.testing.assert_array_equal(model.dual_coef_, changed.dual_coef_)


def test_warm_start_with_other_classes_or_features_starts_afresh(binary, three_classes):
    model = LASNClassifier(20, warm_start=True, random_state=0).fit(*binary)
    fresh = clone(model).fit(*three_classes)
    model.fit(*three_classes)
    np.testing.assert_array_equal(model.dual_coef_, fresh.dual_coef_)


def test_without_warm_start_a_second_fit_forgets_the_first(binary, three_classes):
    model = LASNClassifier(20, random_state=0)
    expected = clone(model).fit(*three_classes).dual_coef_
    np.testing.assert_array_equal(model.fit(*binary).fit(*three_classes).dual_coef_, expected)


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_pickle_keeps_predictions(binary, kernel):
    X, y = binary
    model = LASNClassifier(20, kernel=kernel, random_state=0).fit(X, y)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.decision_function(X), model.decision_function(X))


def test_clone_is_unfitted_and_has_the_parameters(binary):
    X, y = binary
    model = LASNClassifier(20, C=3.0, landmarks=X[:20]).fit(X, y)
    copy = clone(model)
    assert not hasattr(copy, "coef_")
    assert copy.C == 3.0
    np.testing.assert_array_equal(copy.landmarks, X[:20])


def test_grid_search_and_cross_validation(binary):
    X, y = binary
    pipeline = make_pipeline(StandardScaler(), LASNClassifier(20, random_state=0))
    grid = {"lasnclassifier__C": [0.1, 10.0], "lasnclassifier__gamma": [0.1, "variance"]}
    search = GridSearchCV(pipeline, grid, cv=3).fit(X, y)
    assert search.best_score_ > 0.8
    scores = cross_val_score(LASNRegressor(20, random_state=0), X, X[:, 0], cv=3)
    assert np.all(scores > 0.8)

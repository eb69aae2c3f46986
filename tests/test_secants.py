"""Directions by secants: the BFGS formula, what it does without, and where it is taken."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lasn import LASNClassifier
from lasn.blocks import MemoryBlocks
from lasn.conjugate_gradients import conjugate_gradients
from lasn.secants import _MEMORY, Secants

Q, ONE = 7, np.array([0])
A_LOT = 1000


@pytest.fixture
def quadratic(rng):
    """V and P, symmetric and positive definite, shape (Q, Q)."""
    A, B = rng.normal(size=(2, Q, Q))
    V = A @ A.T + np.eye(Q)
    return V, V + 0.3 * (B @ B.T)


def by_solving(P):
    return lambda R: np.linalg.solve(P, R)


def dense_direction(P, steps, changes, gradient):
    """-H g, where H is the BFGS update of a multiple of P^-1 by one pair s, y after the other."""
    last = steps[-1], changes[-1]
    z = np.linalg.solve(P, last[1])
    H = np.linalg.inv(P) * (last[0] @ last[1]) / (last[1] @ z)
    for s, y in zip(steps, changes, strict=True):
        left = np.eye(len(s)) - np.outer(s, y) / (s @ y)
        H = left @ H @ left.T + np.outer(s, s) / (s @ y)
    return -H @ gradient


def test_the_first_direction_is_the_preconditioners(quadratic, rng):
    _, P = quadratic
    gradient = rng.normal(size=(Q, 2))
    D, _ = Secants(A_LOT).direction(np.zeros((Q, 2)), gradient, np.arange(2), by_solving(P))
    assert_allclose(D, -np.linalg.solve(P, gradient))


@pytest.mark.parametrize("n_steps", [1, 3, _MEMORY, _MEMORY + 4])
def test_it_is_the_bfgs_update_by_the_last_few_steps(quadratic, rng, n_steps):
    V, P = quadratic
    secants = Secants(A_LOT)
    points = rng.normal(size=(n_steps + 1, Q))
    for w in points:
        gradient = V @ w
        D, left = secants.direction(w[:, None], gradient[:, None], ONE, by_solving(P))
    steps = np.diff(points, axis=0)[-_MEMORY:]
    assert_allclose(D[:, 0], dense_direction(P, steps, steps @ V, gradient))
    assert D[:, 0] @ gradient < 0.0 < left[0]


def test_it_knows_what_the_last_step_did(quadratic, rng):
    """H y = s, whatever the steps before were."""
    V, P = quadratic
    secants = Secants(A_LOT)
    for w in rng.normal(size=(4, Q)):
        secants.direction(w[:, None], V @ w[:, None], ONE, by_solving(P))
    # From a point without gradient to one whose gradient is y.
    for w in (np.zeros(Q), s := rng.normal(size=Q)):
        D, _ = secants.direction(w[:, None], V @ w[:, None], ONE, by_solving(P))
    assert_allclose(D[:, 0], -s)


def test_on_a_quadratic_it_goes_as_far_as_conjugate_gradients(quadratic, rng):
    V, P = quadratic
    b = rng.normal(size=(Q, 1))
    secants, w = Secants(A_LOT), np.zeros((Q, 1))
    for n_steps in range(1, _MEMORY + 1):
        gradient = V @ w - b
        D, _ = secants.direction(w, gradient, ONE, by_solving(P))
        w = w - D * (D.T @ gradient) / (D.T @ V @ D)
        exact = conjugate_gradients(
            lambda D, columns: V @ D, b, np.zeros(1), n_steps, lambda R, columns: by_solving(P)(R)
        )
        assert_allclose(w, exact.X, rtol=1e-6)


def test_columns_are_problems_of_their_own_and_may_leave(quadratic, rng):
    V, P = quadratic
    path = rng.normal(size=(6, Q, 3))
    together, alone = Secants(A_LOT), Secants(A_LOT)
    for i, W in enumerate(path):
        columns = np.arange(3) if i < 3 else np.array([0, 2])
        D, left = together.direction(W[:, columns], V @ W[:, columns], columns, by_solving(P))
        last, last_left = alone.direction(W[:, [2]], V @ W[:, [2]], np.array([2]), by_solving(P))
    assert_allclose(D[:, [1]], last)
    assert_allclose(left[1:], last_left)


def test_a_step_of_no_length_teaches_nothing(quadratic, rng):
    V, P = quadratic
    w = rng.normal(size=(Q, 1))
    secants = Secants(A_LOT)
    first, _ = secants.direction(w, V @ w, ONE, by_solving(P))
    again, _ = secants.direction(w, V @ w, ONE, by_solving(P))
    assert_allclose(again, first)


def test_it_stops_where_it_leads_nowhere_or_was_asked_often_enough(quadratic, rng):
    V, P = quadratic
    w = rng.normal(size=(Q, 1))
    slow, often = Secants(A_LOT), Secants(3)
    for length in np.linspace(1.0, 0.9, 10):
        slow.direction(length * w, length * (V @ w), ONE, by_solving(P))
        often.direction(length * w, length * (V @ w), ONE, by_solving(P))
    assert not slow.lead_on
    slow.forget()
    assert slow.lead_on, "another preconditioner may do better"
    often.forget()
    assert not often.lead_on


def noisy_rows(flipped, n_classes=2):
    """Rows of so many classes; a share has the label of any class. Most are active all the time."""
    rng = np.random.RandomState(0)
    X = rng.normal(size=(12_000, 4))
    angle = np.arctan2(np.sin(2.0 * X[:, 0]), X[:, 1]) / (2.0 * np.pi) % 1.0
    any_class = rng.randint(n_classes, size=len(X))
    y = np.where(rng.uniform(size=len(X)) < flipped, any_class, (n_classes * angle).astype(int))
    return X, y


@pytest.fixture
def directions(monkeypatch):
    """Columns that each direction by secants was found for."""
    asked = []
    direction = Secants.direction

    def noted(self, W, gradient, columns, precondition):
        asked.append(len(columns))
        return direction(self, W, gradient, columns, precondition)

    monkeypatch.setattr(Secants, "direction", noted)
    return asked


@pytest.mark.parametrize(("flipped", "taken"), [(0.4, True), (0.0, False)])
def test_a_fit_takes_them_where_most_rows_are_active(directions, flipped, taken):
    X, y = noisy_rows(flipped)
    options = {"landmarks": X[:300], "gamma": 0.5, "random_state": 0}
    model = LASNClassifier(**options, dtype="float32", tol=1e-4).fit(X, y)
    assert bool(directions) == taken
    if taken:
        # After the first, which makes the preconditioner, a step is one pass over the rows, or two
        # where it was longer or shorter than the direction.
        steps = model.history_[1 : len(directions)]
        assert [one["cg_steps"] for one in steps] == [0] * len(steps)
        assert {one["passes"] for one in steps} <= {1.0, 2.0}
    exact = LASNClassifier(**options, dtype="float64", tol=1e-6, solver="newton").fit(X, y)
    assert model.history_[-1]["relative_gradient"] <= 1e-4
    assert model.history_[-1]["value"] <= exact.history_[-1]["value"] * (1.0 + 1e-4)


def test_classes_take_them_together(directions):
    X, y = noisy_rows(0.6, n_classes=5)
    options = {"landmarks": X[:300], "gamma": 0.5, "random_state": 0}
    model = LASNClassifier(**options, dtype="float32").fit(X, y)
    assert directions
    assert max(directions) == 5
    exact = LASNClassifier(**options, dtype="float64", tol=1e-6, solver="newton").fit(X, y)
    assert np.all(model.history_[-1]["relative_gradient"] <= 1e-3)
    np.testing.assert_array_less(
        model.history_[-1]["value"], exact.history_[-1]["value"] * (1.0 + 1e-3)
    )


def test_classes_that_settle_one_after_the_other_take_them_to_the_end(directions):
    X, y = noisy_rows(0.6, n_classes=5)
    options = {"landmarks": X[:300], "gamma": 0.5, "random_state": 0}
    model = LASNClassifier(**options, dtype="float32").fit(X, y)
    assert min(directions) < max(directions)  # some classes were done before the others
    assert model.n_iter_ == 1 + len(directions)
    assert not np.any([one["cg_steps"] for one in model.history_])


def test_near_the_minimum_newtons_own_directions_take_over(directions):
    X, y = noisy_rows(0.4)
    options = {"landmarks": X[:300], "gamma": 0.5, "random_state": 0, "dtype": "float64"}
    LASNClassifier(**options, tol=1e-4).fit(X, y)
    few = len(directions)
    model = LASNClassifier(**options, tol=1e-9).fit(X, y)
    assert len(directions) - few <= few + 2
    assert model.history_[-1]["relative_gradient"] <= 1e-9


def test_rows_that_are_not_kept_are_not_read_for_them(directions, monkeypatch):
    X, y = noisy_rows(0.4)
    options = {"landmarks": X[:300], "gamma": 0.5, "random_state": 0, "dtype": "float32"}
    monkeypatch.setattr("lasn.memory._SMALLEST_BUDGET", len(X) * 300 * 4 // 3)
    LASNClassifier(**options, memory_limit="1MB").fit(X, y)
    assert not directions


def test_a_source_says_whether_all_its_rows_are_at_hand():
    X = np.random.RandomState(0).normal(size=(5000, 30)).astype("float32")
    whole = MemoryBlocks(X, None, "float32", budget=1 << 30)
    assert whole.costs.at_hand
    part = MemoryBlocks(X, None, "float32", budget=1000)
    assert not part.costs.at_hand

"""Lloyd's k-means: scikit-learn's centres, and the same ones at every run."""

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from shell import environment
from sklearn.cluster import KMeans

import lasn.kmeans
from lasn.kmeans import central_rows, first_rows, kmeans_centres, nearest_points
from lasn.landmarks import nearest_places

FIT_AGAIN_AND_AGAIN = """
import numpy as np
from lasn import LASNClassifier, blocks, threads

def sixteen():  # on a machine with fewer cores, BLAS would not admit to as many
    return 1 if getattr(threads._here, "is_worker", False) else 16

threads.n_threads = blocks.n_threads = sixteen
X = np.random.RandomState(0).normal(size=(20_000, 6)).astype(np.float32)
y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] > 0
models = [LASNClassifier(400, random_state=0).fit(X, y) for _ in range(5)]
for model in models[1:]:
    np.testing.assert_array_equal(model.landmarks_, models[0].landmarks_)
    np.testing.assert_array_equal(model.coef_, models[0].coef_)
"""


def test_the_same_seed_gives_the_same_model_on_many_threads():
    """Sums whose order depends on which thread is first would differ within five fits."""
    done = subprocess.run(
        [sys.executable, "-c", FIT_AGAIN_AND_AGAIN],
        capture_output=True,
        text=True,
        env={**environment(), "OMP_NUM_THREADS": "16"},
    )
    assert done.returncode == 0, done.stderr


def centres_of(X, k, weight, n_steps, rng):
    return kmeans_centres(X, first_rows(weight, k, rng), weight, n_steps)


def test_the_number_of_threads_changes_no_centre(rng, monkeypatch):
    X = rng.normal(size=(3000, 5))
    centres = []
    for threads in (1, 2, 7):
        monkeypatch.setattr("lasn.threads.n_threads", lambda threads=threads: threads)
        centres.append(centres_of(X, 300, np.ones(3000), 5, np.random.RandomState(0)))
    np.testing.assert_array_equal(centres[1], centres[2])
    # One thread leaves products to the threads of BLAS.
    np.testing.assert_allclose(centres[0], centres[1], atol=1e-5)


@pytest.mark.parametrize(
    ("container", "offset"), [(np.asarray, 0.0), (np.asarray, 1000.0), (sp.csr_matrix, 0.0)]
)
def test_centres_are_scikit_learns(rng, container, offset):
    X = 10.0 * rng.randint(8, size=(500, 1)) + rng.normal(size=(500, 3)) + offset
    weight = rng.randint(1, 4, size=500).astype(float)
    reference = KMeans(8, init="random", n_init=1, max_iter=100, tol=0.0, random_state=1)
    expected = reference.fit(X, sample_weight=weight).cluster_centers_
    found = centres_of(container(X), 8, weight, 100, np.random.RandomState(1))
    np.testing.assert_allclose(found, expected, rtol=1e-4)


@pytest.mark.parametrize(
    ("n_rows", "many", "step"), [(240, 2000, 2), (238, 2000, 1), (238, 100, 2)]
)
def test_rough_steps_look_at_every_other_row_if_those_are_enough(
    rng, n_rows, many, step, monkeypatch
):
    monkeypatch.setattr(lasn.kmeans, "_MANY_ROWS", many)
    X = rng.normal(size=(n_rows, 3)).astype(np.float32)
    first, weight = np.array([2, 4, 100, 200]), rng.uniform(0.5, 2.0, size=n_rows)
    rough = kmeans_centres(X[::step], first // step, weight[::step], 2)
    np.testing.assert_allclose(kmeans_centres(X, first, weight, 2, 2), rough, atol=1e-5)
    fine = kmeans_centres(np.vstack([rough, X]), np.arange(4), np.append(np.zeros(4), weight), 1)
    np.testing.assert_allclose(kmeans_centres(X, first, weight, 3, 2), fine, atol=1e-5)


def test_centres_without_rows_move_to_rows_that_are_far_from_theirs(rng):
    X = np.vstack([np.repeat([[0.0, 0.0]], 50, axis=0), [[7.0, 0.0], [0.0, 9.0]]])
    weight = np.concatenate([np.ones(50), [1e-9, 1e-9]])  # so that all are drawn from the origin
    centres = centres_of(X, 3, weight, 3, rng)
    np.testing.assert_allclose(
        centres[np.lexsort(centres.T)], [[0.0, 0.0], [7.0, 0.0], [0.0, 9.0]], atol=1e-6
    )


def test_rows_without_weight_move_no_centre(rng):
    X = rng.normal(size=(40, 2))
    weight = 1.0 * (np.arange(40) < 20)
    centres = centres_of(X, 1, weight, 5, rng)
    np.testing.assert_allclose(centres[0], X[:20].mean(axis=0), atol=1e-6)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_nearest_points_are_those_of_all_distances(form, rng, monkeypatch):
    monkeypatch.setattr(lasn.kmeans, "_SCORES_A_SLICE", 1000)
    X, centres = 5.0 + rng.normal(size=(500, 3)), 5.0 + rng.normal(size=(40, 3))
    expected = ((X[:, None] - centres) ** 2).sum(axis=2).argmin(axis=0)
    np.testing.assert_array_equal(nearest_points(form(X), form(centres)), expected)


def test_central_rows_are_the_nearest_of_their_own_and_none_comes_twice(rng):
    X = rng.normal(size=(60, 3)).astype(np.float32)
    centres = np.vstack([X[:5] + 0.01, 100.0 + np.zeros((1, 3))]).astype(np.float32)
    places = central_rows(X, centres)
    np.testing.assert_array_equal(places[:5], np.arange(5))
    distances = ((X[:, None] - centres) ** 2).sum(axis=2).min(axis=1)
    assert places[5] == distances.argmax()  # nothing is near the last centre
    again = central_rows(X, np.vstack([centres, centres[:1]]))
    assert len(set(again)) == 7
    # The last of three centres has one row, which the second gets.
    few = np.array([[0.0], [0.1], [9.0]], dtype=np.float32)
    places = central_rows(few, np.array([[0.0], [50.0], [8.0]], dtype=np.float32))
    np.testing.assert_array_equal(places, [0, 2])


def test_no_row_stands_for_two_landmarks_or_is_taken_twice(rng):
    X = rng.normal(size=(50, 2))
    landmarks = np.repeat(X[:10], 2, axis=0)
    places = nearest_places(X, landmarks, taken=np.arange(5))
    assert len(set(places)) == len(landmarks)
    assert places.min() >= 5
    assert set(range(5, 10)) <= set(places)

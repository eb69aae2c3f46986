"""Landmarks: how many, from which rows, in which form."""

import numpy as np
import pytest
import scipy.sparse as sp
from forms import SPARSE_FORMS
from threadpoolctl import threadpool_limits

from lasn import landmarks as landmarks_module
from lasn.arrays import to_numpy
from lasn.landmarks import (
    check_landmarks,
    choose_landmarks,
    count_landmarks,
    distinct_rows,
    scattered,
    target_bins,
)

METHODS = ["kmeans", "class_kmeans", "boundary", "uniform"]


@pytest.fixture
def choose(place):
    """``choose_landmarks`` of rows, groups and weights that are in the place."""

    def choose(method, X, k, groups=None, sample_weight=None, **options):
        groups, sample_weight = (
            None if one is None else place.array(one) for one in (groups, sample_weight)
        )
        return choose_landmarks(
            method, place.rows(X), k, groups=groups, sample_weight=sample_weight, **options
        )

    return choose


def blobs(counts, rng, distance=100.0):
    """Groups of rows so far apart that every landmark shows the group it came from."""
    groups = np.repeat(np.arange(len(counts)), counts)
    return rng.normal(size=(len(groups), 2)) + distance * groups[:, None], groups


def group_of(landmarks, distance=100.0):
    return np.rint(landmarks.mean(axis=1) / distance).astype(int)


def all_active(landmarks, rows, X):
    return np.ones(len(rows), dtype=bool)


@pytest.mark.parametrize(
    ("n_rows", "k"), [(50, 50), (100, 100), (5000, 100), (10_000, 100), (40_001, 201)]
)
def test_automatic_count_is_the_root_of_n_and_at_least_100(n_rows, k):
    assert count_landmarks("auto", n_rows) == k


def test_more_landmarks_than_rows_are_refused_with_a_warning():
    assert count_landmarks(7, 10) == 7
    assert count_landmarks(10, 10) == 10
    with pytest.warns(UserWarning, match=r"n_landmarks=11 is more than the 10 rows"):
        assert count_landmarks(11, 10) == 10


@pytest.mark.parametrize("k", [1, 2, 7, 50])
@pytest.mark.parametrize("method", METHODS)
def test_as_many_landmarks_as_asked_for(choose, method, k, rng):
    X, groups = blobs([60, 40], rng)
    chosen = choose(method, X, k, groups=groups, rng=rng, active_rows=all_active)
    assert chosen.shape == (k, 2)
    assert np.isfinite(chosen).all()


@pytest.mark.parametrize("method", METHODS)
def test_same_seed_gives_the_same_landmarks(choose, method, rng):
    X, groups = blobs([60, 40], rng)

    def seeded(seed):
        rng = np.random.RandomState(seed)
        return choose(method, X, 10, groups=groups, rng=rng, active_rows=all_active)

    np.testing.assert_array_equal(seeded(0), seeded(0))
    assert not np.array_equal(seeded(0), seeded(1))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("k", [9, 10, 100])
def test_all_rows_come_once_in_an_order_of_their_values(choose, method, k, rng):
    X = rng.normal(size=(7, 3))[[0, 1, 2, 3, 4, 5, 6, 0, 1]]
    chosen = choose(method, X, k, rng=rng)
    shuffled = choose(method, X[rng.permutation(9)], k, rng=rng)
    assert chosen.shape == (7, 3)
    np.testing.assert_array_equal(chosen, np.unique(X, axis=0))
    np.testing.assert_array_equal(chosen, shuffled)


@pytest.mark.parametrize("form", SPARSE_FORMS)
def test_distinct_sparse_rows_are_the_distinct_dense_rows(form, rng):
    dense = rng.randint(0, 2, size=(40, 4)).astype(float)
    rows = SPARSE_FORMS[form](dense).tocsr()
    chosen = distinct_rows(rows)
    assert sp.issparse(chosen)
    np.testing.assert_array_equal(np.unique(chosen.toarray(), axis=0), np.unique(dense, axis=0))
    assert len(np.unique(chosen.toarray(), axis=0)) == chosen.shape[0]
    again = distinct_rows(rows[rng.permutation(40)])
    np.testing.assert_array_equal(again.toarray(), chosen.toarray())


def test_kmeans_ignores_groups_and_weights_nothing_twice(choose, rng):
    X, groups = blobs([60, 40], rng)
    seeds = np.random.RandomState(0), np.random.RandomState(0)
    with_groups = choose("kmeans", X, 10, groups=groups, rng=seeds[0])
    without = choose("kmeans", X, 10, rng=seeds[1])
    np.testing.assert_array_equal(with_groups, without)


def test_kmeans_centres_are_means_of_their_rows(choose, rng):
    X, groups = blobs([60, 40], rng)
    chosen = choose("class_kmeans", X, 2, groups=groups, rng=rng)
    means = [X[groups == group].mean(axis=0) for group in (0, 1)]
    np.testing.assert_allclose(chosen, means, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("counts", [[500, 500], [900, 60], [200] * 5])
def test_groups_side_by_side_or_one_after_the_other_are_the_same(counts, rng, monkeypatch):
    X, groups = blobs(counts, rng)
    chosen = []
    for even in (0.0, 1e9):
        monkeypatch.setattr(landmarks_module, "_EVEN", even)
        monkeypatch.setattr(landmarks_module, "_MUCH", 0)
        with threadpool_limits(2):
            seed = np.random.RandomState(0)
            chosen.append(choose_landmarks("class_kmeans", X, 40, groups=groups, rng=seed))
    np.testing.assert_array_equal(chosen[0], chosen[1])


@pytest.mark.parametrize(
    ("counts", "k", "shares"),
    [
        ([500, 500], 10, [5, 5]),
        ([900, 100], 10, [5, 5]),
        ([900, 3], 10, [7, 3]),
        ([900, 3, 2], 11, [6, 3, 2]),
        ([300, 200, 100], 10, [4, 3, 3]),
        ([100, 200, 300, 400], 2, [0, 0, 1, 1]),
    ],
)
def test_classes_get_equal_shares_and_small_ones_all_their_rows(choose, counts, k, shares, rng):
    X, groups = blobs(counts, rng)
    chosen = choose("class_kmeans", X, k, groups=groups, rng=rng)
    np.testing.assert_array_equal(np.bincount(group_of(chosen), minlength=len(counts)), shares)


def test_weights_move_the_centres(choose, rng):
    X, groups = blobs([50, 50], rng)
    weight = np.where(groups == 0, 1.0, 1e6)
    chosen = choose("kmeans", X, 1, sample_weight=weight, rng=rng)
    np.testing.assert_allclose(chosen[0], X[groups == 1].mean(axis=0), rtol=1e-3)


def test_uniform_takes_rows_and_follows_weights(choose, rng):
    X, groups = blobs([50, 50], rng)
    chosen = choose("uniform", X, 20, sample_weight=1.0 * (groups == 1), rng=rng)
    rows = {tuple(row) for row in X[groups == 1]}
    assert len({tuple(row) for row in chosen} & rows) == 20


@pytest.mark.parametrize("k", [4, 5])
def test_boundary_takes_its_second_half_from_active_rows(choose, k, rng):
    X, groups = whole, _ = blobs([100, 100], rng)
    near = np.abs(X - 100.0 * groups[:, None]).max(axis=1) < 0.3
    calls = []

    def active_rows(first, rows, X):
        calls.append((first, rows))
        np.testing.assert_array_equal(X, whole[rows])
        return near[rows]

    chosen = choose("boundary", X, k, groups=groups, rng=rng, active_rows=active_rows)
    ((first, rows),) = calls
    np.testing.assert_array_equal(rows, np.arange(200))
    assert len(first) == (k + 1) // 2
    np.testing.assert_array_equal(chosen[: len(first)], first)
    second = chosen[len(first) :]
    assert len(second) == k // 2
    assert np.all(np.abs(second - 100.0 * group_of(second)[:, None]) < 0.3)


def test_boundary_with_few_active_rows_takes_them_all(choose, rng):
    X, groups = blobs([100, 100], rng)
    few = [3, 150, 160]

    def active_rows(first, rows, X):
        return np.isin(rows, few)

    chosen = choose("boundary", X, 20, groups=groups, rng=rng, active_rows=active_rows)
    assert chosen.shape == (13, 2)
    assert {tuple(row) for row in chosen[10:]} == {tuple(X[row]) for row in few}


def test_boundary_without_active_rows_keeps_its_first_half(choose, rng):
    X, groups = blobs([100, 100], rng)
    chosen = choose(
        "boundary",
        X,
        20,
        groups=groups,
        rng=rng,
        active_rows=lambda first, rows, X: np.zeros(len(rows), dtype=bool),
    )
    assert chosen.shape == (10, 2)


@pytest.mark.parametrize("method", METHODS)
def test_equal_rows_do_no_harm(choose, method, rng):
    X = np.repeat(rng.normal(size=(3, 2)), 40, axis=0)
    chosen = choose(method, X, 10, groups=np.arange(120) % 2, rng=rng, active_rows=all_active)
    assert 1 <= len(chosen) <= 10
    assert np.all(chosen >= X.min(axis=0) - 1e-6)
    assert np.all(chosen <= X.max(axis=0) + 1e-6)


@pytest.mark.parametrize(("n_groups", "n_rows"), [(2, 50), (4, 60), (6, 80)])
def test_kmeans_looks_at_a_bounded_number_of_rows_of_every_part(
    choose, rng, monkeypatch, n_groups, n_rows
):
    monkeypatch.setattr(landmarks_module, "MAX_KMEANS_ROWS", 50)
    monkeypatch.setattr(landmarks_module, "_ROWS_PER_CLASS", 15)
    monkeypatch.setattr(landmarks_module, "_MOST_OF_MANY_CLASSES", 80)
    X, groups = blobs([500] * n_groups, rng)
    seen = []

    def active_rows(first, rows, X):
        seen.append(rows)
        return np.ones(len(rows), dtype=bool)

    choose("boundary", X, 10, groups=groups, rng=rng, active_rows=active_rows)
    (rows,) = seen
    assert len(rows) == len(np.unique(rows)) == n_rows
    assert set(groups[rows]) == set(range(n_groups))


@pytest.mark.parametrize("method", METHODS)
def test_wide_sparse_rows_give_landmarks_that_are_rows(choose, method, rng):
    X = sp.random(200, 50_000, density=1e-3, format="csr", random_state=rng)
    chosen = choose(method, X, 20, groups=np.arange(200) % 2, rng=rng, active_rows=all_active)
    assert sp.issparse(chosen)
    assert chosen.format == "csr"
    assert 17 <= chosen.shape[0] <= 20
    products = (chosen @ X.T).toarray().max(axis=1)
    norms = chosen.multiply(chosen).sum(axis=1)
    np.testing.assert_allclose(products, np.ravel(norms), rtol=1e-12)


def test_wide_sparse_rows_find_the_clusters(choose, rng):
    centres = sp.random(4, 50_000, density=1e-2, format="csr", random_state=rng)
    noise = sp.random(200, 50_000, density=1e-5, format="csr", random_state=rng)
    X = (centres[np.arange(200) % 4] + noise).tocsr()
    found = set()
    for seed in range(3):
        chosen = choose("kmeans", X, 12, rng=np.random.RandomState(seed))
        found |= set(np.argmax((chosen @ centres.T).toarray(), axis=1))
    assert found == {0, 1, 2, 3}


def test_narrow_sparse_rows_give_the_centres_of_dense_rows(choose, three_classes):
    X, y = three_classes
    seeds = np.random.RandomState(0), np.random.RandomState(0)
    dense = choose("class_kmeans", X, 12, groups=y, rng=seeds[0])
    sparse = choose("class_kmeans", sp.csr_matrix(X), 12, groups=y, rng=seeds[1])
    np.testing.assert_allclose(np.asarray(sparse), dense, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("method", METHODS)
def test_landmarks_keep_the_dtype(choose, method, dtype, rng):
    X = rng.normal(size=(100, 2)).astype(dtype)
    chosen = choose(method, X, 10, groups=np.arange(100) % 2, rng=rng, active_rows=all_active)
    assert chosen.dtype == dtype


def test_own_landmarks_are_taken_in_the_dtype_of_the_rows(place, binary):
    X, _ = binary
    checked = check_landmarks(X[:5].tolist(), place.rows(X.astype(np.float32)))
    assert checked.dtype == np.float32
    np.testing.assert_allclose(checked, X[:5], rtol=1e-6)


def test_own_landmarks_of_another_width_are_an_error(place, binary):
    X, _ = binary
    with pytest.raises(ValueError, match=r"landmarks has 4 features but X has 5"):
        check_landmarks(place.array(X[:5, :4]), place.rows(X))


def test_target_bins_hold_about_equally_many_rows(place, rng):
    targets = place.array(np.column_stack([rng.normal(size=400), np.zeros(400)]))
    bins = to_numpy(target_bins(targets))
    np.testing.assert_array_equal(np.bincount(bins), [100, 100, 100, 100])


def test_constant_target_is_one_bin(place):
    assert len(np.unique(to_numpy(target_bins(place.array(np.ones((10, 1))))))) == 1


@pytest.mark.parametrize(
    ("count", "size"), [(10, 10), (10, 3), (1000, 999), (7, 0), (10**7, 10**5)]
)
def test_scattered_numbers_are_distinct_and_everywhere(count, size):
    chosen = scattered(count, size, np.random.RandomState(0))
    assert len(chosen) == size
    assert np.all(np.diff(chosen) > 0)
    if size:
        assert chosen[0] >= 0
        assert chosen[-1] < count
        assert np.max(np.diff(chosen), initial=0) <= 2 * -(-count // size)


def test_every_number_may_be_scattered():
    rng = np.random.RandomState(0)
    seen = np.bincount(np.concatenate([scattered(10, 4, rng) for _ in range(500)]), minlength=10)
    assert seen.min() > 100

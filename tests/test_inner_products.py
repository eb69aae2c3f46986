"""F F^T of active rows, from one step to the next."""

import numpy as np
import pytest

from lasn.inner_products import KeptInnerProducts


def assert_lower_parts_agree(kept, column, rows, F):
    S, order = kept.of(column, rows, F[rows])
    expected = F[rows[order]] @ F[rows[order]].T
    np.testing.assert_allclose(np.tril(S), np.tril(expected), atol=1e-10)
    np.testing.assert_array_equal(np.sort(order), np.arange(len(rows)))
    assert S.flags.c_contiguous


@pytest.mark.parametrize("room", [0, 70 * 70, 10**6])
def test_any_change_of_rows_gives_the_products_of_those_that_are_there(room, rng):
    F = rng.normal(size=(100, 7))
    kept = KeptInnerProducts(room)
    everyone = np.arange(100)
    steps = [
        everyone[:60],
        everyone[:60],  # none has changed
        everyone[10:50],  # some have left
        everyone[5:70],  # some have come
        np.delete(everyone[:80], [0, 20, 79]),  # both
        everyone[95:],  # hardly any has stayed
        everyone[:0],
        everyone[:30],
    ]
    for rows in steps:
        kept.expect(np.array([0, 3]), np.array([len(rows)] * 2))
        for column in (0, 3):
            assert_lower_parts_agree(kept, column, rows, F)


def test_products_of_rows_that_stay_are_not_made_again(rng):
    F = rng.normal(size=(50, 4))
    kept = KeptInnerProducts(10**6)
    kept.expect(np.array([0]), np.array([40]))
    kept.of(0, np.arange(40), F[:40])
    blind = np.where(np.arange(50)[:, None] < 40, np.nan, F)
    rows = np.arange(40)
    S, _ = kept.of(0, rows, blind[rows])
    np.testing.assert_allclose(S, F[:40] @ F[:40].T)


def test_no_more_is_kept_than_there_is_room_for(rng):
    F = rng.normal(size=(50, 4))
    kept = KeptInnerProducts(room=2 * 30 * 30)
    everyone = np.arange(5)
    kept.expect(everyone, np.full(5, 30))
    for column in everyone:
        kept.of(column, np.arange(30), F[:30])
    assert set(kept._kept) == {0, 1}
    kept.expect(everyone, np.array([50, 30, 30, 30, 30]))  # the first has grown too large
    assert set(kept._kept) == {1}
    for column in everyone:
        n_rows = 50 if column == 0 else 30
        kept.of(column, np.arange(n_rows), F[:n_rows])
    assert set(kept._kept) == {1, 2}


def test_which_column_is_first_changes_nothing(rng):
    F = rng.normal(size=(60, 4)).astype(np.float32)
    columns, sizes = np.arange(4), np.array([40, 30, 40, 50])
    found = []
    for order in (columns, columns[::-1]):
        kept = KeptInnerProducts(room=60 * 60)
        for shift in (0, 2, 4):
            kept.expect(columns, sizes)
            products = {}
            for column in order:
                rows = np.arange(shift, shift + sizes[column])
                products[column] = np.tril(kept.of(column, rows, F[rows])[0])
        found.append(products)
    for column in columns:
        np.testing.assert_array_equal(found[0][column], found[1][column])

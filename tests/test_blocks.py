"""Rows in memory: what is kept, what is computed again, and that it makes no difference."""

import numpy as np
import pytest

from lasn.blocks import MemoryBlocks
from lasn.kernels import Kernel


@pytest.fixture
def rows():
    return np.random.RandomState(0).normal(size=(100, 3))


@pytest.fixture
def columns(rows):
    return Kernel("rbf", gamma=0.5).against(rows[:8])


@pytest.fixture(autouse=True)
def blocks_of_ten_rows(monkeypatch):
    monkeypatch.setattr("lasn.blocks._BLOCK_BYTES", 10 * 8 * 8)


def _read(block):
    return None, (block.matrix().sum(axis=0),)


def test_sums_over_blocks_are_sums_over_rows(rows, columns):
    blocks = MemoryBlocks(rows, columns, np.float64, 1 << 30)
    assert [block.n_rows for block in blocks.blocks] == [10] * 10
    _, (total,) = blocks.run(_read)
    np.testing.assert_allclose(total, columns.matrix(rows).sum(axis=0))


def test_states_come_back_in_order_and_go_in_again(rows, columns):
    blocks = MemoryBlocks(rows, columns, np.float64, 1 << 30)
    numbers = blocks.split(np.arange(100.0))
    states, _ = blocks.run(lambda block, part: (part + 1.0, ()), numbers)
    np.testing.assert_array_equal(np.concatenate(states), np.arange(100) + 1.0)


def test_features_that_fit_are_kept_from_the_second_reading_on(rows, columns):
    blocks = MemoryBlocks(rows, columns, np.float64, 1 << 30)
    for _ in range(5):
        blocks.run(_read)
    assert blocks.work.rows_read == 500
    assert blocks.work.rows_computed == 200


def test_features_that_are_dear_are_computed_once(rows):
    columns = Kernel("laplacian", gamma=0.5).against(rows[:8])
    blocks = MemoryBlocks(rows, columns, np.float64, 1 << 30)
    for _ in range(3):
        blocks.run(_read)
    assert blocks.work.rows_computed == 100


def test_features_that_do_not_fit_are_computed_again(rows, columns):
    half = 100 * 8 * 8 // 2
    blocks = MemoryBlocks(rows, columns, np.float64, half)
    for _ in range(3):
        _, (total,) = blocks.run(_read)
    kept = 10 * sum(block.kept is not None for block in blocks.blocks)
    assert 0 < kept < 100
    assert blocks.work.rows_computed == 2 * kept + 3 * (100 - kept)
    np.testing.assert_allclose(total, columns.matrix(rows).sum(axis=0))


@pytest.mark.parametrize("budget", [1, 3000, 1 << 30])
def test_kept_features_and_copies_stay_within_the_budget(rows, columns, budget):
    blocks = MemoryBlocks(rows, columns, np.float64, budget)
    blocks.run(_read)
    kept = sum(block.kept.nbytes for block in blocks.blocks if block.kept is not None)
    spare = sum(block.spare_bytes for block in blocks.blocks)
    assert kept + spare <= budget


def test_chosen_rows_are_those_rows(rows, columns):
    for budget in (1, 1 << 30):
        blocks = MemoryBlocks(rows, columns, np.float64, budget)
        chosen = np.array([1, 5, 7])
        np.testing.assert_allclose(
            blocks.blocks[2].matrix(chosen), columns.matrix(rows[20:30][chosen])
        )


def test_linear_features_are_the_rows_themselves(rows):
    blocks = MemoryBlocks(rows, None, np.float64, 1 << 30)
    assert blocks.n_columns == 3
    np.testing.assert_array_equal(blocks.blocks[0].matrix(), rows[: blocks.blocks[0].n_rows])

"""Rows in memory: what is kept, what is computed again, and that it makes no difference."""

import gc
import weakref
from threading import get_ident

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from lasn.blocks import ChosenRows, MemoryBlocks, Workspace
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
    monkeypatch.setattr("lasn.blocks._ROWS_PER_COLUMN", 0)


def _read(block):
    return None, (block.matrix().sum(axis=0),)


def test_sums_over_blocks_are_sums_over_rows(rows, columns):
    blocks = MemoryBlocks(rows, columns, np.float64, 1 << 30)
    assert [block.n_rows for block in blocks.blocks] == [10] * 10
    _, (total,) = blocks.run(_read)
    np.testing.assert_allclose(total, columns.matrix(rows).sum(axis=0))


def test_little_work_is_done_in_this_thread_with_the_same_sums(rows, columns, monkeypatch):
    blocks = MemoryBlocks(rows, columns, np.float64, 1 << 30)
    with threadpool_limits(2, user_api="blas"):
        _, (expected,) = blocks.run(_read)
        threads = []
        _, (total,) = blocks.run(
            lambda block: (threads.append(get_ident()), _read(block)[1]), n_read=100
        )
        assert set(threads) == {get_ident()}
        monkeypatch.setattr("lasn.blocks._LITTLE", 100 * 8 * 8)
        blocks.run(lambda block: (threads.append(get_ident()), ()), n_read=101)
    np.testing.assert_array_equal(total, expected)
    assert len(set(threads)) > 1


def test_states_come_back_in_order_and_go_in_again(rows, columns):
    blocks = MemoryBlocks(rows, columns, np.float64, 1 << 30)
    numbers = blocks.split(np.arange(100.0))
    states, _ = blocks.run(lambda block, part: (part + 1.0, ()), numbers)
    np.testing.assert_array_equal(np.concatenate(states), np.arange(100) + 1.0)


def test_features_read_once_are_kept_from_the_second_reading_on(rows, columns):
    blocks = MemoryBlocks(rows, columns, np.float64, 1 << 30, once=True)
    for _ in range(5):
        blocks.run(_read)
    assert blocks.work.rows_read == 500
    assert blocks.work.rows_computed == 200


@pytest.mark.parametrize(("kernel", "once"), [("rbf", False), ("laplacian", True)])
def test_features_that_are_dear_or_read_often_are_computed_once(rows, kernel, once):
    columns = Kernel(kernel, gamma=0.5).against(rows[:8])
    blocks = MemoryBlocks(rows, columns, np.float64, 1 << 30, once=once)
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
    assert blocks.work.rows_computed == kept + 3 * (100 - kept)
    np.testing.assert_allclose(total, columns.matrix(rows).sum(axis=0))


@pytest.mark.parametrize("budget", [1, 3000, 1 << 30])
def test_kept_features_and_copies_stay_within_the_budget(rows, columns, budget):
    blocks = MemoryBlocks(rows, columns, np.float64, budget)
    blocks.run(_read)
    kept = sum(block.kept.nbytes for block in blocks.blocks if block.kept is not None)
    spare = sum(block.spare_bytes for block in blocks.blocks)
    assert kept + spare <= budget


def test_features_go_with_their_source(rows, columns):
    blocks = MemoryBlocks(rows, columns, np.float64, 1 << 30)
    blocks.run(_read)
    features = weakref.ref(blocks.blocks[0].kept)
    gc.disable()
    try:
        del blocks
        assert features() is None
    finally:
        gc.enable()


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


def test_memory_is_handed_on():
    workspace = Workspace()
    first = workspace.take(10, 3, np.dtype(np.float64))
    other = workspace.take(10, 3, np.dtype(np.float64))
    assert not np.shares_memory(first, other)
    workspace.take_back()
    smaller = workspace.take(5, 3, np.dtype(np.float32))
    assert np.shares_memory(smaller, first) or np.shares_memory(smaller, other)


def test_chosen_rows_of_chosen_rows(rows):
    chosen = ChosenRows(ChosenRows(rows, np.array([5, 6, 7, 8])), np.array([1, 3]))
    assert chosen.shape == (2, 3)
    np.testing.assert_array_equal(chosen[:2], rows[[6, 8]])


def test_threads_change_nothing_but_rounding(rows, columns):
    totals = []
    for threads in (1, 2, 3):
        with threadpool_limits(threads, user_api="blas"):
            blocks = MemoryBlocks(rows, columns, np.float64, 1 << 30)
            states, (total,) = blocks.run(
                lambda block: (block.matrix().copy(), (block.matrix().sum(axis=0),))
            )
            totals.append(total)
            np.testing.assert_allclose(np.vstack(states), columns.matrix(rows))
    np.testing.assert_allclose(totals[1:], [totals[0]] * 2, rtol=1e-13)


def test_an_error_in_a_thread_is_raised(rows, columns):
    def fail(block):
        raise ZeroDivisionError("in a block")

    with pytest.raises(ZeroDivisionError, match="in a block"):
        MemoryBlocks(rows, columns, np.float64, 1 << 30).run(fail)


@pytest.mark.parametrize("n_rows", [1 << 10, 1 << 20])
def test_room_is_there_and_can_be_written_to(n_rows):
    """Large pieces come from the system, small ones from NumPy."""
    room = Workspace().take(n_rows, 4, np.dtype(np.float32))
    room[:] = 1.0
    assert room.shape == (n_rows, 4)
    assert room.sum() == 4 * n_rows


def test_more_room_than_there_is_is_a_memory_error():
    with pytest.raises(MemoryError):
        Workspace().take(1 << 44, 1 << 10, np.dtype(np.float32))

"""How work is split over threads."""

import threading

import numpy as np
import pytest
import scipy.sparse as sp

from lasn import blocks, kernels, threads
from lasn.arrays import times, transposed_times
from lasn.blocks import MemoryBlocks
from lasn.kernels import Kernel


@pytest.mark.parametrize("n_rows", [1, 7, 100, 101, 199, 200, 201, 1999])
def test_slices_are_even_and_of_an_even_number(n_rows):
    size = threads.even_slices(n_rows, 100)
    starts = range(0, n_rows, size)
    assert size <= 100
    assert len(starts) == 1 or len(starts) % 2 == 0
    assert size - (n_rows - starts[-1]) < len(starts)


@pytest.mark.parametrize(("n_threads", "expected"), [(1, 1), (2, 1), (4, 2), (8, 2), (16, 4)])
def test_many_threads_have_longer_pieces_of_work(n_threads, expected, monkeypatch):
    monkeypatch.setattr(threads, "n_threads", lambda: n_threads)
    assert threads.stretch() == expected
    with threads.serial_products():
        assert threads.stretch() == expected


def test_little_work_has_few_threads(monkeypatch):
    monkeypatch.setattr(threads._serial, "depth", 1)
    monkeypatch.setattr(threads._serial, "threads_outside", 16)
    for n_values, expected in [(1, 4), (1 << 24, 4), (1 << 25, 8), (1 << 40, 16)]:
        with threads.threads_for(n_values):
            assert threads.n_threads() == expected
            with threads.threads_for(1 << 40):
                assert threads.n_threads() == expected
            with threads.threads_for(1):
                assert threads.n_threads() == 4
    assert threads.n_threads() == 16
    monkeypatch.setattr(threads._serial, "threads_outside", 2)
    with threads.threads_for(1):
        assert threads.n_threads() == 2


@pytest.mark.parametrize("n_threads", [1, 2, 4, 16])
def test_every_thread_has_as_many_blocks_and_they_share_the_budget(n_threads, monkeypatch, rng):
    for module in (blocks, kernels):
        monkeypatch.setattr(module, "n_threads", lambda: n_threads)
        monkeypatch.setattr(module, "stretch", lambda: int(n_threads**0.5))
    X = rng.normal(size=(200_000, 2)).astype(np.float32)
    columns = Kernel("rbf", gamma=0.5).against(X[:500], np.float32)
    for budget in (1 << 30, 64 << 20):
        source = MemoryBlocks(X, columns, np.float32, budget)
        assert len(source.slices) % n_threads == 0
        block = 2000 * (source.slices[0].stop - source.slices[0].start)
        assert block <= (4 << 20) * int(n_threads**0.5)
        assert block <= budget / (8 * int(n_threads**0.5))


def test_the_first_job_is_the_callers_and_all_have_ended_when_one_fails():
    ended = []

    def fail():
        assert threading.current_thread() is threading.main_thread()
        raise ValueError("the first")

    def work():
        assert threading.current_thread() is not threading.main_thread()
        ended.append(threads.n_threads())

    with pytest.raises(ValueError, match="the first"):
        threads.run_in_threads([fail, work, work])
    assert ended == [1, 1]
    assert threads.run_in_threads([lambda: 1, lambda: 2, lambda: 3]) == [1, 2, 3]


def test_products_of_any_kind_of_matrix(rng):
    A, B = rng.normal(size=(30, 20)), rng.normal(size=(20, 1))
    for matrix in (A, sp.csr_matrix(A), np.asfortranarray(A)):
        np.testing.assert_allclose(times(matrix, B), A @ B)
        np.testing.assert_allclose(transposed_times(matrix, A[:, :3]), A.T @ A[:, :3])
        np.testing.assert_allclose(transposed_times(matrix, A[:, 0]), A.T @ A[:, 0])
    np.testing.assert_allclose(times(A.T, A[:, 0]), A.T @ A[:, 0])

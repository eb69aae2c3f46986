"""Threads that work together have cores of their own, for as long as they do."""

import os
import threading
from time import sleep

import numpy as np
import pytest

from lasn import cores, threads
from lasn.kernels import Kernel

pytestmark = pytest.mark.skipif(
    cores._find_core() is None or len(os.sched_getaffinity(0)) < 2,
    reason="needs Linux and two cores",
)


def run_on():
    return os.sched_getaffinity(0)


def test_cores_are_dealt_out():
    assert cores.deal({0, 1, 2, 5}, 2, 2) == [{2, 1}, {0, 5}]
    assert cores.deal({0, 1, 2, 5}, 5, 4) == [{5}, {0}, {1}, {2}]
    assert cores.deal({0, 1}, 0, 3) == [{0, 1}] * 3
    assert cores.deal({0, 1}, 7, 2) == [{0, 1}] * 2  # the thread was moved on meanwhile


def test_threads_are_kept_apart_while_they_work_together():
    usable = run_on()
    threads.run_in_threads([run_on, run_on])  # the helper may have to be started first
    mine, other = threads.run_in_threads([run_on, run_on])
    assert mine
    assert other
    assert not mine & other
    assert mine | other == usable
    assert run_on() == usable


def test_a_new_helper_does_not_keep_the_core_that_it_was_started_on(monkeypatch):
    monkeypatch.setattr(threads, "_helpers", {})
    _, other = threads.run_in_threads([run_on, run_on])
    assert other == run_on()


def test_the_callers_cores_are_given_back_after_an_error():
    usable = run_on()

    def fail():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        threads.run_in_threads([fail, run_on])
    assert run_on() == usable


def test_a_thread_that_may_use_fewer_cores_is_not_given_more():
    usable, found = run_on(), []

    def work():
        os.sched_setaffinity(0, {min(usable)})
        found.extend(threads.run_in_threads([run_on, run_on]))
        found.append(run_on())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found[0] == found[2] == {min(usable)}


def test_somebody_elses_code_has_all_cores():
    def inside():
        share = run_on()
        with cores.all_cores():
            everything, inherited = run_on(), []
            thread = threading.Thread(target=lambda: inherited.append(run_on()))
            thread.start()
            thread.join()
        return everything, inherited[0], run_on() == share

    usable = run_on()
    threads.run_in_threads([run_on, run_on])
    assert threads.run_in_threads([inside, inside]) == [(usable, usable, True)] * 2
    with cores.all_cores():
        assert run_on() == usable


def test_a_kernel_function_has_all_cores(rng, monkeypatch):
    X, seen = rng.normal(size=(40_000, 2)), []

    def kernel(A, B):
        seen.append((threading.get_ident(), run_on()))
        sleep(0.01)  # the other thread has its turn
        return A @ B.T

    usable = run_on()
    monkeypatch.setattr(threads, "n_threads", lambda: 2)
    Kernel(kernel).against(X[:50], np.float64).matrix(X)
    assert len({thread for thread, _ in seen}) == 2
    assert all(one == usable for _, one in seen)
    assert run_on() == usable

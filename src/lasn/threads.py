"""Threads: all cores for whole blocks of work, and one pool of them at a time.

NumPy's matrix products use every core by themselves; its elementwise functions use one, and a fit
alternates between the two many times a second. So work is split by rows over Python threads (NumPy
lets go of the interpreter inside its functions), each with its products held to one thread: blocks
stay in a core's cache from kernel value to sum, and no two pools of threads compete for the cores.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from math import isqrt
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

from lasn.cores import SharedCores

# So many always pay, and one more for so many feature values each.
_FEW_THREADS = 4
_VALUES_A_THREAD = 1 << 22

Item = TypeVar("Item")
Result = TypeVar("Result")


@lru_cache(maxsize=1)
def _blas() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


def n_threads() -> int:
    """How many threads work may use here: as many as a matrix product would use.

    ``OMP_NUM_THREADS`` and the like count, and so does being in one of those threads already.
    """
    if getattr(_here, "is_worker", False):
        return 1
    most = getattr(_here, "most", sys.maxsize)
    if _serial.depth:
        return min(most, _serial.threads_outside)
    counts = [library["num_threads"] for library in _blas().info()]
    return max(1, min(most, min(counts, default=1), _usable_cores()))


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def stretch() -> int:
    """How many times as much work a piece should be as for two threads: the root of their number.

    Between two functions of NumPy a thread needs Python's lock. Two threads seldom meet there; many
    would queue for it most of the time, each asleep until it is woken.
    """
    if _serial.depth and getattr(_here, "is_worker", False):
        return isqrt(_serial.threads_outside)
    return isqrt(n_threads())


class _SerialProducts:
    """How many callers hold the matrix products to one thread, and what to put back after."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.depth = 0
        self.threads_outside = 1
        self.limiter: Any = None


_serial = _SerialProducts()
_here = threading.local()
_helpers: dict[int, _Helpers] = {}


@contextmanager
def serial_products() -> Iterator[None]:
    """Hold matrix products to one thread; safe when several Python threads ask at once."""
    with _serial.lock:
        if _serial.depth == 0:
            _serial.threads_outside = n_threads()
            _serial.limiter = _blas().limit(limits=1)
        _serial.depth += 1
    try:
        yield
    finally:
        with _serial.lock:
            _serial.depth -= 1
            if _serial.depth == 0:
                _serial.limiter.restore_original_limits()


@contextmanager
def threads_for(n_values: int) -> Iterator[None]:
    """Let work on so many feature values, which is started here, use as many threads as pay.

    With less to do between two functions of NumPy, threads mostly wait for Python's lock.
    """
    before = getattr(_here, "most", sys.maxsize)
    _here.most = min(before, max(_FEW_THREADS, n_values // _VALUES_A_THREAD))
    try:
        yield
    finally:
        _here.most = before


@contextmanager
def one_thread() -> Iterator[None]:
    """Let work that is started here stay in this thread: a device is its own crowd."""
    before = getattr(_here, "is_worker", False)
    _here.is_worker = True
    try:
        yield
    finally:
        _here.is_worker = before


def run_in_threads(jobs: Sequence[Callable[[], Result]]) -> list[Result]:
    """The results of the jobs, in order; a job each thread, if there are several.

    The first job is the caller's own: a thread less has to be woken. The first error is raised,
    after all jobs have ended.
    """
    if len(jobs) <= 1:
        return [job() for job in jobs]
    helpers = _helpers_for(len(jobs) - 1)
    with serial_products(), helpers.cores.apart():
        others: list[Future[Result]] = [helpers.start(job) for job in jobs[1:]]
        try:
            with one_thread():
                first = jobs[0]()
        finally:
            for future in others:
                future.exception()
        return [first, *(future.result() for future in others)]


def map_in_order(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """``work(item)`` for each item, in order, on all cores.

    Items are drawn one after another, by the caller's thread, and only two a thread are under way:
    a stream of any length is mapped in bounded memory. The first error ends it.
    """
    count = n_threads()
    if count == 1:
        yield from map(work, items)
        return
    pool = ThreadPoolExecutor(count, "lasn", initializer=_mark_worker)
    waiting: deque[Future[Result]] = deque()
    try:
        with serial_products():
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) == 2 * count:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def for_each_slice(n_rows: int, rows_per_slice: int, work: Callable[[slice], None]) -> None:
    """Call ``work`` on slices that cover ``range(n_rows)``, on all cores when there are several.

    Slices write to disjoint places, so their order changes nothing.
    """
    starts = iter(range(0, n_rows, rows_per_slice))
    lock = threading.Lock()

    def work_on_some() -> None:
        while True:
            with lock:
                start = next(starts, None)
            if start is None:
                return
            work(slice(start, min(start + rows_per_slice, n_rows)))

    n_slices = -(-n_rows // rows_per_slice)
    threads = 1 if n_slices <= 1 else min(n_threads(), n_slices)
    run_in_threads([work_on_some] * threads)


def even_slices(n_rows: int, most: int) -> int:
    """Rows of slices that are all as large, with at most so many rows: an even number of them.

    Else two threads would wait for each other where there are few slices.
    """
    n_slices = 1 if n_rows <= most else 2 * -(-n_rows // (2 * most))
    return max(1, -(-n_rows // n_slices))


class _Helpers:
    """Threads that stay: starting them costs more than many a sum over blocks."""

    def __init__(self, size: int):
        self.cores = SharedCores()
        self.pool = ThreadPoolExecutor(size, "lasn", initializer=self._join)

    def start(self, job: Callable[[], Result]) -> Future[Result]:
        return self.pool.submit(self.cores.lent, job)

    def _join(self) -> None:
        _mark_worker()
        self.cores.join()


def _helpers_for(size: int) -> _Helpers:
    if size not in _helpers:
        _helpers[size] = _Helpers(size)
    return _helpers[size]


def _mark_worker() -> None:
    _here.is_worker = True


if hasattr(os, "register_at_fork"):
    # Threads do not survive a fork; the child starts its own.
    os.register_at_fork(after_in_child=_helpers.clear)

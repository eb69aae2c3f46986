"""Threads: all cores for elementwise work, one pool of them at a time.

NumPy's matrix products use every core already; its exponentials use one. Work that mixes the two
(kernel blocks) is sliced by rows over Python threads instead, each slice small enough to stay
in cache, with the products inside a slice held to one thread.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache

from threadpoolctl import ThreadpoolController


@lru_cache(maxsize=1)
def _blas() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


def n_threads() -> int:
    """How many threads a matrix product would use now (``OMP_NUM_THREADS`` and such count)."""
    if _serial.depth:
        return _serial.threads_outside
    counts = [library["num_threads"] for library in _blas().info()]
    return max(1, min(min(counts, default=1), _usable_cores()))


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _SerialProducts:
    """How many callers hold the matrix products to one thread, and what to put back after."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.depth = 0
        self.threads_outside = 1
        self.limiter = None


_serial = _SerialProducts()


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
            if _serial.depth == 0 and _serial.limiter is not None:
                _serial.limiter.restore_original_limits()


def for_each_slice(n_rows: int, rows_per_slice: int, work: Callable[[slice], None]) -> None:
    """Call ``work`` on slices that cover ``range(n_rows)``, on all cores when there are several.

    Slices write to disjoint places, so their order changes nothing. An error in one is
    raised here after the running ones have ended.
    """
    slices = [
        slice(start, min(start + rows_per_slice, n_rows))
        for start in range(0, n_rows, rows_per_slice)
    ]
    threads = min(n_threads(), len(slices))
    if threads <= 1:
        for rows in slices:
            work(rows)
        return
    with serial_products(), ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(work, rows) for rows in slices]
        try:
            for future in futures:
                future.result()
        except BaseException:
            for future in futures:
                future.cancel()
            raise

"""Which cores threads run on: those that work together share out the cores between them.

Linux often wakes a thread on the core of the one that woke it; in virtual machines it was seen to
do so where another core had nothing to do. The two then take turns for some milliseconds, longer
than most sums over blocks take, and do so again whenever one of them has waited for Python's lock.
So for as long as threads work together (``threads.py``), each has cores of its own. What they were
told is taken back from the caller's thread afterwards; the others are nobody else's.

Elsewhere (macOS, Windows) threads run where the system puts them.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

_here = threading.local()


class SharedCores:
    """The cores of a thread and of the helpers that it has work done by.

    ``helpers`` are the system's numbers of their threads, ``usable`` the cores that all of them may
    use, and ``told`` those, and the caller's core, when the helpers were last told their shares.
    """

    def __init__(self) -> None:
        self.helpers: list[int] = []
        self.usable: set[int] = set()
        self.told: tuple[set[int], int] | None = None

    def join(self) -> None:
        """Be one of the helpers, from now on. Before that, a thread has its starter's cores."""
        _run_on(self.usable)
        self.helpers.append(threading.get_native_id())
        self.told = None

    def lent(self, job: Callable[[], Any]) -> Any:
        """Do a helper's job."""
        _here.usable = self.usable
        return job()

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Keep the caller's thread and its helpers off each other's cores."""
        find_core = _find_core()
        if find_core is None:
            yield
            return
        usable, core = os.sched_getaffinity(0), find_core()
        shares = deal(usable, core, 1 + len(self.helpers))
        if self.told != (usable, core):
            self.usable, self.told = usable, (usable, core)
            for helper, share in zip(self.helpers, shares[1:], strict=False):
                _run_on(share, helper)
        _here.usable = usable
        try:
            _run_on(shares[0])
            yield
        finally:
            _here.usable = None
            _run_on(usable)


def deal(cores: set[int], first: int, n_shares: int) -> list[set[int]]:
    """The cores in so many shares, with ``first`` in the first; all for each if they are few."""
    if first not in cores or len(cores) < n_shares:
        return [cores] * n_shares
    order = [first, *sorted(cores - {first})]
    return [set(order[start::n_shares]) for start in range(n_shares)]


@contextmanager
def all_cores() -> Iterator[None]:
    """Let somebody else's code run on all cores, as threads that it starts would keep its share."""
    usable = getattr(_here, "usable", None)
    if not usable:
        yield
        return
    share = os.sched_getaffinity(0)
    _run_on(usable)
    try:
        yield
    finally:
        _run_on(share)


def _run_on(cores: set[int], thread: int = 0) -> None:
    """Have a thread, this one by default, run on these cores, if they are there."""
    if cores:
        with suppress(OSError):  # cores may have been taken from this process, or the thread ended
            os.sched_setaffinity(thread, cores)


@cache
def _find_core() -> Callable[[], int] | None:
    """The C library's ``sched_getcpu``: which core this thread is on. None elsewhere than on Linux.

    It is called with Python's lock held, as letting go of that takes longer.
    """
    if not hasattr(os, "sched_setaffinity"):
        return None
    return getattr(ctypes.PyDLL(None), "sched_getcpu", None)

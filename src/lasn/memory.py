"""Memory: what ``memory_limit`` means, how much of it is left, and what to do when it runs out."""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from numbers import Real
from typing import Any, Protocol, TypeVar

import numpy as np

from lasn.caller import warn_caller

_UNITS = {"": 1, "b": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY_UNITS = {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
# Rows are worked on in blocks of about this size however much memory there is.
_SMALLEST_BUDGET = 32 << 20
# Fewer rows at a time would not save a device whose memory is full.
_FEWEST_ROWS = 1024
# Values of rows that are on a device, or on their way to one: far less than its memory.
VALUES_AT_A_TIME = 1 << 24
# Linux's MADV_POPULATE_WRITE.
_POPULATE_WRITE = 23

Result = TypeVar("Result")


def parse_memory_limit(limit) -> int:
    """Bytes meant by ``limit``: a number, text such as ``"2GB"`` or ``"500 MiB"``, or None.

    None is half of the machine's memory.

    Examples
    --------
    >>> from lasn.memory import parse_memory_limit
    >>> parse_memory_limit("2GB"), parse_memory_limit("0.5 MiB"), parse_memory_limit(1e9)
    (2000000000, 524288, 1000000000)
    """
    if limit is None:
        return physical_memory() // 2
    size = None
    if isinstance(limit, str):
        match = re.fullmatch(r"\s*([0-9.]+(?:e[0-9]+)?)\s*([kmgt]?i?)b?\s*", limit.lower())
        factor = match and {**_UNITS, **_BINARY_UNITS}.get(match[2])
        if match and factor:
            try:
                size = float(match[1]) * factor
            except ValueError:
                size = None
    elif isinstance(limit, Real) and not isinstance(limit, (bool, np.bool_)):
        size = float(limit)
    if size is None or not 0 < size < float("inf"):
        raise ValueError(
            f"memory_limit={limit!r} is not an amount of memory. Give a positive number of bytes, "
            'text such as "2GB" or "500MB", or None for half of this machine\'s memory.'
        )
    return int(size)


def physical_memory() -> int:
    """Bytes of memory in this machine (4 GB where the system does not say)."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 4 * 10**9


def resident_memory() -> int:
    """Bytes that this process holds now, or the most that it has held where only that is known."""
    try:
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        pass
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def working_memory(limit, reserved: int = 0) -> int:
    """Bytes that may still be taken under ``memory_limit``, which counts the whole process.

    Data that is already loaded and the interpreter itself count towards the limit, and so do
    ``reserved`` bytes that are needed for other things. What is left is never taken to be less than
    one small block of rows.
    """
    return max(parse_memory_limit(limit) - resident_memory() - reserved, _SMALLEST_BUDGET)


class Plan(Protocol):
    """How work goes about a device's memory."""

    def can_shrink(self) -> bool:
        """Whether there is a way to take less of it."""

    def shrink(self) -> str:
        """Take less of it from now on; the words say how: "going on with ..."."""


def with_less_memory(work: Callable[[], Result], plan: Plan) -> Result:
    """What ``work()`` returns, which follows the plan.

    Each time that a device runs out of memory, the plan takes less of it, a warning says so, and
    the work begins again. Without torch there is no device, and such an error is somebody else's,
    a kernel function's for instance.
    """
    while True:
        try:
            return work()
        except Exception as error:
            torch = sys.modules.get("torch")
            if torch is None or not (is_out_of_memory(error) and plan.can_shrink()):
                raise
        # Here the error is gone, and with it all that it held.
        torch.cuda.empty_cache()
        warn_caller(
            f"The device ran out of memory; going on with {plan.shrink()}. Set memory_limit to "
            "leave more of it to others from the start."
        )


def is_out_of_memory(error: Exception) -> bool:
    """Whether a device's memory is full, in the words of torch or of a library that it calls."""
    if type(error).__name__ == "OutOfMemoryError":
        return True
    words = ("out of memory", "ALLOC_FAILED")
    return isinstance(error, RuntimeError) and any(word in str(error) for word in words)


@dataclass
class RowsAtATime:
    """The plan to work on some rows after the others: fewer of them at a time."""

    size: int

    def can_shrink(self) -> bool:
        return self.size > _FEWEST_ROWS

    def shrink(self) -> str:
        self.size = max(self.size // 4, _FEWEST_ROWS)
        return f"{self.size} rows at a time"


@dataclass
class OrOnTheCpu:
    """The plan to make something on the device, or else on the CPU."""

    what: str
    device: Any
    gave_up: bool = False

    def can_shrink(self) -> bool:
        return not self.gave_up

    def shrink(self) -> str:
        self.device, self.gave_up = "cpu", True
        return f"{self.what} made on the CPU"


def for_each_part(n_rows: int, size: int, work: Callable[[slice], None]) -> None:
    """``work(rows)`` for slices of so many rows, in order; shorter ones once memory ran out."""
    plan = RowsAtATime(size)
    start = 0

    def next_part() -> int:
        stop = min(start + plan.size, n_rows)
        work(slice(start, stop))
        return stop

    while start < n_rows:
        start = with_less_memory(next_part, plan)


def ready_pages(array: np.ndarray) -> None:
    """Have the system ready the memory of an array that is about to be written to, all at once.

    Else it does so page by page, each when it is first touched, and that takes twice as long. Where
    it cannot (Linux can, from 5.14 on), nothing happens.
    """
    advise = _advise()
    if advise is not None:
        first = -(-array.ctypes.data // mmap.PAGESIZE) * mmap.PAGESIZE
        size = array.ctypes.data + array.nbytes - first
        if size >= mmap.PAGESIZE:
            advise(first, size - size % mmap.PAGESIZE, _POPULATE_WRITE)


@cache
def _advise() -> Callable[[int, int, int], int] | None:
    """The system's ``madvise``, which waits without Python's lock."""
    if sys.platform != "linux":
        return None
    advise = getattr(ctypes.CDLL(None), "madvise", None)
    if advise is not None:
        advise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    return advise

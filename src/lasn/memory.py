"""Memory: what ``memory_limit`` means, and how much of it is left."""

from __future__ import annotations

import os
import re
import sys
from numbers import Real

import numpy as np

from lasn.caller import warn_caller

_UNITS = {"": 1, "b": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY_UNITS = {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
# Rows are worked on in blocks of about this size however much memory there is.
_SMALLEST_BUDGET = 32 << 20


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


def is_out_of_memory(error: Exception) -> bool:
    """Whether it is torch's word for a device whose memory is full."""
    return type(error).__name__ == "OutOfMemoryError"


def warn_out_of_memory(remedy: str) -> None:
    """Say that a device ran out of memory, and how the work goes on."""
    warn_caller(
        f"The device ran out of memory; going on with {remedy}. Set memory_limit to leave more of "
        "it to others from the start."
    )

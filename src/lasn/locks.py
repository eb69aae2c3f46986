"""Locks on open files: they end with their process, however that ends.

Where the system or the file system has no such locks (Windows, some network folders), nothing is
locked: :func:`take` then says that it did not get the lock.
"""

from __future__ import annotations

import os

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]


def take(handle: int, *, wait: bool) -> bool:
    """Whether this process now holds the lock of an open file; with ``wait``, as soon as it can.

    Closing the handle, and all that were duplicated from it, gives the lock back.

    Examples
    --------
    >>> import tempfile
    >>> from lasn import locks
    >>> with tempfile.NamedTemporaryFile() as mine, open(mine.name) as other:
    ...     locks.take(mine.fileno(), wait=False), locks.take(other.fileno(), wait=False)
    (True, False)
    """
    if fcntl is None:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return False
    return True


def is_file_at(handle: int, path: str | os.PathLike) -> bool:
    """Whether an open file is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False

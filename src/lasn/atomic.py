"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable
from contextlib import suppress
from secrets import token_hex


def write_atomically(path: str | os.PathLike, chunks: Iterable[bytes | memoryview]) -> None:
    """Write a file so that nobody ever sees half of it.

    The bytes go to a temporary file in the same folder, then to the disk, and only then take the
    name. Whatever happens before leaves the old file as it was and no temporary one (a killed
    process leaves that). A symbolic link keeps pointing where it did; an existing file keeps its
    permissions. A device or a pipe has nothing to protect and is written to as it is.

    Parameters
    ----------
    path : str or path
    chunks : iterable of bytes-like objects

    Examples
    --------
    >>> import os, tempfile
    >>> from lasn.atomic import write_atomically
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_atomically(os.path.join(folder, "greeting"), [b"hello ", b"world"])
    ...     os.listdir(folder)
    ['greeting']
    """
    target = os.path.realpath(os.fspath(path))
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        mode = None
    try:
        if mode is None or stat.S_ISREG(mode):
            _replace(target, chunks, keep_mode=mode is not None)
        else:
            with open(target, "wb") as stream:
                stream.writelines(chunks)
    except OSError as error:
        # The name that the caller gave says more than the temporary one.
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error


def _replace(target: str, chunks: Iterable[bytes | memoryview], keep_mode: bool) -> None:
    folder, name = os.path.split(target)
    temporary = os.path.join(folder, f".{name[:100]}.{token_hex(6)}.tmp")
    try:
        with open(temporary, "xb") as stream:
            stream.writelines(chunks)
            stream.flush()
            os.fsync(stream.fileno())
        if keep_mode:
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise
    if hasattr(os, "O_DIRECTORY"):  # where a folder can be synced, the new name is
        with suppress(OSError):
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

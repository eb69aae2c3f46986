"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterable
from contextlib import suppress
from secrets import token_hex
from typing import BinaryIO

from lasn import locks

_SUFFIX = ".tmp"
_TOKEN_BYTES = 6


def write_atomically(path: str | os.PathLike, chunks: Iterable[bytes | memoryview]) -> None:
    """Write a file so that nobody ever sees half of it.

    The bytes go to a temporary file in the same folder, then to the disk, and only then take the
    name. Whatever happens before leaves the old file as it was and no temporary one; that of a
    killed process goes when the same name is written again. A symbolic link keeps pointing where it
    did; an existing file keeps its permissions. A device or a pipe has nothing to protect and is
    written to as it is.

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
    _remove_abandoned(folder, name)
    temporary, stream, lock = _new_temporary(folder, name)
    try:
        with stream:
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
    finally:
        os.close(lock)
    if hasattr(os, "O_DIRECTORY"):  # where a folder can be synced, the new name is
        with suppress(OSError):
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)


def _new_temporary(folder: str, name: str) -> tuple[str, BinaryIO, int]:
    """A new file, its stream, and a handle that keeps it locked after the stream is closed."""
    while True:
        path = os.path.join(folder, f"{_prefix(name)}{token_hex(_TOKEN_BYTES)}{_SUFFIX}")
        stream = open(path, "xb")  # noqa: SIM115 - the caller closes it
        lock = _second_handle(stream)
        if not locks.take(lock, wait=True) or locks.is_file_at(lock, path):
            return path, stream, lock
        # Somebody took it for abandoned before it was locked.
        stream.close()
        os.close(lock)


def _second_handle(stream: BinaryIO) -> int:
    # An open file has no other name on Windows, where there are no locks either.
    return os.open(os.devnull, os.O_RDONLY) if os.name == "nt" else os.dup(stream.fileno())


def _remove_abandoned(folder: str, name: str) -> None:
    """Remove temporary files of processes that were killed: nobody holds their lock."""
    ours = re.compile(re.escape(_prefix(name)) + f"[0-9a-f]{{{2 * _TOKEN_BYTES}}}" + _SUFFIX)
    with suppress(OSError):
        for entry in os.listdir(folder or os.curdir):
            if ours.fullmatch(entry):
                _remove_if_free(os.path.join(folder, entry))


def _remove_if_free(path: str) -> None:
    with suppress(OSError), open(path, "rb") as stream:
        if locks.take(stream.fileno(), wait=False):
            os.unlink(path)


def _prefix(name: str) -> str:
    return f".{name[:100]}."

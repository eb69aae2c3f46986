"""Downloading a data file: resumed where it broke off, checked, and only then given its name.

    a9a.part  grows while bytes arrive, and stays if the connection or the user breaks off
    a9a       the whole, checked file: the .part file renamed

To resume, the next request asks for the bytes after the .part file's end (HTTP Range). The .part
file bears the time of change that the server told for the original. Sent back as ``If-Range``, it
makes the server begin anew if the original has changed since. A second process that wants the same
file waits until the first has it or gives up.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from email.utils import formatdate, parsedate_to_datetime
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from typing import BinaryIO
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from lasn import locks
from lasn.datasets.folders import DatasetError, cache_folder, find
from lasn.datasets.reading import check
from lasn.datasets.registry import DataFile, dataset
from lasn.progress import Bar

SITE = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/"
_ATTEMPTS = 3
_SILENCE_SECONDS = 30.0
_CHUNK_BYTES = 1 << 16
_UNTOLD = 0.0  # the time of change of a .part file whose server does not tell the original's


def fetch(name: str, base: str | None = None) -> tuple[Path, ...]:
    """Make sure that all files of a data set are on this machine; return their paths.

    Parameters
    ----------
    name : str
        One of ``lasn data list``, or the paper's name for it.
    base : str, default=None
        The address below which the site's folders ``binary``, ``multiclass`` and ``regression``
        lie; by default ``LASN_MIRROR`` or, without that, the LIBSVM site.

    Returns
    -------
    tuple of Path
        The training file and, where there is one, the test file.

    Examples
    --------
    >>> from lasn import datasets
    >>> datasets.fetch("mushrooms")  # doctest: +SKIP
    (PosixPath('/home/me/.cache/lasn/datasets/mushrooms'),)
    """
    return tuple(fetch_file(file, base) for file in dataset(name).files)


def fetch_file(file: DataFile, base: str | None = None) -> Path:
    """Where a file is; it is downloaded into the cache if it is neither there nor in LASN_DATA.

    Examples
    --------
    >>> import os, tempfile
    >>> from unittest.mock import patch
    >>> from lasn import datasets
    >>> file = datasets.dataset("heart").train
    >>> with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, LASN_DATA=folder):
    ...     open(os.path.join(folder, file.name), "w").close()
    ...     print(datasets.fetch_file(file).name)
    heart
    """
    present = find(file.name)
    return present if present is not None else download(file, cache_folder(), base)


def address_of(file: DataFile, base: str | None = None) -> str:
    root = base or os.environ.get("LASN_MIRROR") or SITE
    return f"{root.rstrip('/')}/{file.address}"


def download(file: DataFile, folder: Path, base: str | None = None) -> Path:
    """Download one file into a folder, resuming what an earlier attempt left there."""
    address, path = address_of(file, base), folder / file.packed_name
    partial = path.with_name(path.name + ".part")
    folder.mkdir(parents=True, exist_ok=True)
    with _held(partial):
        if path.exists():  # another process was faster
            return path
        bar = Bar()
        try:
            _receive_all(address, partial, bar)
        except _Unavailable as error:
            raise DatasetError(
                f"{address} {error}. Get {file.packed_name} in another way and place it, packed or "
                f"not, in the folder that LASN_DATA names or in {folder}"
            ) from error
        finally:
            bar.close()
        try:
            check(file, partial)
        except DatasetError as error:
            partial.unlink()
            raise DatasetError(f"what {address} sends is not kept: {error}") from error
        os.replace(partial, path)
    return path


@contextmanager
def _held(partial: Path) -> Iterator[None]:
    """Have the .part file for this process alone; whoever comes second waits for the first.

    An empty file does not stay.
    """
    while True:
        stream = open(partial, "ab")  # noqa: SIM115 - closed below
        if not locks.take(stream.fileno(), wait=True) or locks.is_file_at(stream.fileno(), partial):
            break
        stream.close()  # the one before has renamed or removed it
    try:
        yield
    finally:
        with suppress(OSError):
            if locks.is_file_at(stream.fileno(), partial) and partial.stat().st_size == 0:
                partial.unlink()
        stream.close()


class _Unavailable(Exception):
    """The server cannot be reached or does not give the file."""


class _Incomplete(Exception):
    """The connection ended before the file did."""


def _receive_all(address: str, partial: Path, bar: Bar) -> None:
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return _receive(address, partial, bar)
        except _Incomplete as error:
            if attempt == _ATTEMPTS:
                raise DatasetError(
                    f"{address} broke off {_ATTEMPTS} times, at last {error}; what arrived is kept "
                    "and the next attempt resumes there"
                ) from error


def _receive(address: str, partial: Path, bar: Bar) -> None:
    """Append to ``partial`` the bytes that it lacks."""
    size = partial.stat().st_size if partial.exists() else 0
    response = _request(address, partial, size)
    if response is None:
        return
    with response:
        # 206 is the rest that was asked for. 200 is the whole: no Range here, or a new original.
        resumed = response.status == 206
        if resumed and not response.headers.get("Content-Range", "").startswith(f"bytes {size}-"):
            raise _Unavailable("sends other bytes than it was asked for")
        with open(partial, "ab" if resumed else "wb") as out:
            try:
                _copy(response, out, bar, partial.name.removesuffix(".part"))
            finally:
                out.flush()
                os.fsync(out.fileno())
                changed = _time_of_change(response.headers)
                os.utime(partial, (changed, changed))


def _request(address: str, partial: Path, size: int):
    """The server's response to a request for all after ``size`` bytes; None if that is nothing."""
    request = Request(address, headers={"User-Agent": "lasn", "Accept-Encoding": "identity"})
    if size:
        request.add_header("Range", f"bytes={size}-")
        changed = partial.stat().st_mtime
        if changed != _UNTOLD:
            request.add_header("If-Range", formatdate(changed, usegmt=True))
    try:
        return urlopen(request, timeout=_SILENCE_SECONDS)
    except HTTPError as error:
        error.close()
        if error.code == 416 and size:  # there are no bytes after those that we have
            if error.headers.get("Content-Range") == f"bytes */{size}":
                return None
            os.truncate(partial, 0)
            raise _Incomplete("because the file is shorter than what was kept of it") from error
        raise _Unavailable(f"answers {error.code} {error.reason}") from error
    except (OSError, HTTPException) as error:
        raise _Unavailable(f"cannot be reached ({getattr(error, 'reason', error)})") from error


def _copy(response, out: BinaryIO, bar: Bar, name: str) -> None:
    received = out.tell()
    length = response.headers.get("Content-Length")
    total = received + int(length) if length is not None else None
    while True:
        try:
            chunk = response.read1(_CHUNK_BYTES)  # what is there, not all of it: slow lines
        except (HTTPException, ConnectionError, TimeoutError) as error:
            raise _Incomplete(
                f"after {received} bytes: {str(error) or type(error).__name__}"
            ) from error
        if not chunk:
            break
        out.write(chunk)
        received += len(chunk)
        of_total = f" of {_size(total)}" if total else ""
        bar.draw(received / total if total else 0.0, f"{name}  {_size(received)}{of_total}")
    if total is not None and received < total:
        raise _Incomplete(f"after {received} of {total} bytes")


def _time_of_change(headers: HTTPMessage) -> float:
    told = headers.get("Last-Modified")
    try:
        return parsedate_to_datetime(told).timestamp() if told else _UNTOLD
    except ValueError:
        return _UNTOLD


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:.1f} MB" if n_bytes >= 1e6 else f"{n_bytes / 1e3:.0f} kB"

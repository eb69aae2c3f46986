"""Where data files are: the folder ``LASN_DATA``, then the cache.

A file may be plain or packed: ``a9a``, ``a9a.xz``, ``a9a.bz2`` and ``a9a.gz`` are all a9a.
Downloads go into the cache: ``datasets`` in the folder ``LASN_CACHE`` or, where that is not set, in
the user's cache folder of the platform. Nothing is ever written into ``LASN_DATA``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from lasn.datasets.registry import PACKED


class DatasetError(OSError):
    r"""A data file that is not there, cannot be had, or is not what it should be.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from lasn import datasets
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "heart"
    ...     _ = path.write_text("+1 1:0.5\n")
    ...     try:
    ...         datasets.check(datasets.dataset("heart").train, path)
    ...     except datasets.DatasetError:
    ...         print("another file")
    another file
    """


def cache_folder() -> Path:
    """The folder of downloaded files; it need not exist yet.

    Examples
    --------
    >>> import os
    >>> from unittest.mock import patch
    >>> from lasn import datasets
    >>> with patch.dict(os.environ, LASN_CACHE="here"):
    ...     print(datasets.cache_folder().as_posix())
    here/datasets
    """
    named = os.environ.get("LASN_CACHE")
    if named:
        return Path(named).expanduser() / "datasets"
    home = Path.home()
    if sys.platform == "win32":
        root = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    elif sys.platform == "darwin":
        root = home / "Library" / "Caches"
    else:
        root = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    return root / "lasn" / "datasets"


def data_folder() -> Path | None:
    """The folder ``LASN_DATA``, or None where that is not set."""
    named = os.environ.get("LASN_DATA")
    if not named:
        return None
    folder = Path(named).expanduser()
    if not folder.is_dir():
        raise DatasetError(f"LASN_DATA is {named!r}, which is not a folder; correct or unset it")
    return folder


def find(name: str) -> Path | None:
    r"""The file of that (unpacked) name in ``LASN_DATA`` or the cache, or None.

    Any svmlight file may lie in ``LASN_DATA``, not only those of the registry.

    Examples
    --------
    >>> import os, tempfile
    >>> from unittest.mock import patch
    >>> from lasn import datasets
    >>> with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, LASN_DATA=folder):
    ...     with open(os.path.join(folder, "mine"), "w") as file:
    ...         _ = file.write("+1 1:0.5\n")
    ...     print(datasets.find("mine").name, datasets.find("none of mine"))
    mine None
    """
    for folder in (data_folder(), cache_folder()):
        if folder is None:
            continue
        for suffix in ("", *PACKED):
            path = folder / (name + suffix)
            if path.is_file():
                return path
    return None

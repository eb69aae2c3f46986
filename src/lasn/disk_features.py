"""Features that memory has no room for: on disk where reading them is cheaper than computing them.

What is cheaper is measured once, on the first block: its kernel values are written, forgotten by
the system's cache, and read back.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Callable
from time import perf_counter

import numpy as np

from lasn.row_files import RowFile

# A block is written once and read a few times.
_READINGS = 4
# The part of the free disk that features may take.
_DISK_SHARE = 0.5


class Judge:
    """Decides, from one block, whether features go to disk; all sources of a fit share it.

    Parameters
    ----------
    n_bytes : int
        Of all features that would go there.
    tell : callable
        Hears in one sentence what was decided, and why.
    """

    def __init__(self, n_bytes: int, tell: Callable[[str], None] = lambda text: None):
        self.n_bytes, self.tell = n_bytes, tell
        self.worth: bool | None = None
        self.lock = threading.Lock()

    def look(self, features: np.ndarray, compute_seconds: float) -> bool:
        """Whether to write features like these, which took so long to compute."""
        with self.lock:
            if self.worth is None:
                self.worth = self._measure(features, compute_seconds)
            return self.worth

    def _measure(self, features: np.ndarray, compute_seconds: float) -> bool:
        free = shutil.disk_usage(tempfile.gettempdir()).free
        if self.n_bytes > _DISK_SHARE * free:
            self.tell(
                f"features are computed again when needed: {self.n_bytes / 1e9:.1f} GB of them do "
                f"not fit on the disk ({free / 1e9:.1f} GB free in {tempfile.gettempdir()})"
            )
            return False
        file = RowFile()
        try:
            began = perf_counter()
            file.append(features)
            file.forget()
            written = perf_counter()
            file.read(np.empty_like(features), 0)
            write, read = written - began, perf_counter() - written
        finally:
            file.close()
        worth = read + write / _READINGS < compute_seconds
        rate = features.nbytes / 1e6
        self.tell(
            f"features are {'kept on disk' if worth else 'computed again when needed'}: reading "
            f"runs at {rate / read:.0f} MB/s, computing at {rate / compute_seconds:.0f} MB/s"
        )
        return worth


class DiskFeatures:
    """The blocks of one source that went to disk, in a temporary file without a name."""

    def __init__(self, judge: Judge):
        self.judge = judge
        self.file: RowFile | None = None
        self.places: dict[int, int] = {}
        self.lock = threading.Lock()

    def fill(
        self, room: np.ndarray, rows: slice, compute: Callable[[np.ndarray], np.ndarray]
    ) -> np.ndarray:
        """Fill the room with the features of these rows: from disk, or computed."""
        place = self.places.get(rows.start)
        if place is not None:
            assert self.file is not None
            return self.file.read(room, place)
        if self.judge.worth is False:
            return compute(room)
        began = perf_counter()
        features = compute(room)
        if self.judge.look(features, perf_counter() - began):
            with self.lock:
                if self.file is None:
                    self.file = RowFile()
                self.places[rows.start] = self.file.append(features)
        return features

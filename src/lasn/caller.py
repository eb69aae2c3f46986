"""Warnings that point at the user's line, however deep in the package they arise."""

from __future__ import annotations

import sys
import warnings

# contextlib's frames stand between where a context manager decorates a function of this package.
_INSIDE = ("lasn", "sklearn", "contextlib")


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn as if the first frame outside this package and scikit-learn had done it."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] not in _INSIDE:
            break
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)

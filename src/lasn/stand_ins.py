"""Landmarks that tell folds nothing about the rows that they hold out.

The mean of rows of one class tells their class, that of held-out rows among them too: with a few
rows to a landmark, held-out scores would be too good. So in the folds of a search rows stand for
such centres, each for the one that it is nearest to. A row is a point of the input space and no
more. The model that is fitted in the end has the centres, which serve better.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lasn.landmarks import MAX_KMEANS_ROWS, nearest_places, sample_by_group, stack_rows

# Among so many rows for each landmark, at least, there is one near to it.
_ROWS_PER_LANDMARK = 4


@dataclass(frozen=True)
class Landmarks:
    """Landmarks as a model has them, and the rows that stand for them in folds.

    ``places`` are positions of rows of the search, shape (k,); None: the centres themselves do.
    """

    centres: Any
    places: np.ndarray | None = None

    def in_folds(self, X: Any) -> Any:
        return self.centres if self.places is None else X[self.places]

    def among(self, rows: np.ndarray) -> Landmarks:
        """The same, where its places are positions among these rows."""
        return self if self.places is None else replace(self, places=rows[self.places])

    def followed_by(self, more: Landmarks) -> Landmarks:
        centres = stack_rows(self.centres, more.centres)
        if self.places is None or more.places is None:
            return Landmarks(centres)
        return Landmarks(centres, np.append(self.places, more.places))


def with_stand_ins(
    centres: Any, X: Any, groups: np.ndarray, taken: np.ndarray | None, rng: np.random.RandomState
) -> Landmarks:
    """The centres with rows of X, whose groups are given, that are not ``taken`` yet."""
    many = max(MAX_KMEANS_ROWS, _ROWS_PER_LANDMARK * centres.shape[0])
    some = sample_by_group(groups, many, rng)
    taken = None if taken is None else np.flatnonzero(np.isin(some, taken))
    return Landmarks(centres, some[nearest_places(X[some], centres, taken)])

"""Inner products F F^T of active rows, kept from one Newton step to the next.

Few rows of a class against the rest come and go between two steps, so most inner products of its
active rows are known::

    [ S_old          .             ]   rows that stay, in the order that they had,
    [ F_new F_old^T  F_new F_new^T ]   and then new ones

Only lower triangles are made, kept and read; above them is anything.
"""

from __future__ import annotations

import threading

import numpy as np

# Where fewer of the rows stay, one product for all of them takes no longer.
_WORTH_KEEPING = 0.3


class KeptInnerProducts:
    """F F^T over the active rows of each column, kept as far as ``room`` values reach.

    Whose are kept is said ahead (:meth:`expect`): columns are worked on side by side, and which of
    them is first must not change what the others find, down to the last digit.
    """

    def __init__(self, room: int):
        self.room = room
        self._kept: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self._expected: set[int] = set()
        self._lock = threading.Lock()

    def expect(self, columns: np.ndarray, n_rows: np.ndarray) -> None:
        """These columns come next, with so many active rows each; those of few rows are kept."""
        order = np.argsort(n_rows, kind="stable")
        fits = np.cumsum(n_rows[order].astype(float) ** 2) <= self.room
        self._expected = set(columns[order][fits].tolist())
        self._kept = {one: kept for one, kept in self._kept.items() if one in self._expected}

    def of(self, column: int, rows: np.ndarray, F: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """S, shape (m, m), over the rows at these ascending positions, F of shape (m, q).

        They have an order of their own in it: S[i, j] is <F[order[i]], F[order[j]]>, j <= i.
        """
        known, S_known = self._kept.get(column, (rows[:0], np.empty((0, 0))))
        stay = np.flatnonzero(np.isin(known, rows))
        if len(stay) <= _WORTH_KEEPING * len(rows):
            S, order = F @ F.T, np.arange(len(rows))
        else:
            old = np.searchsorted(rows, known[stay])
            new = np.setdiff1d(np.arange(len(rows)), old)
            order = np.concatenate([old, new])
            S = S_known.take(stay, axis=0).take(stay, axis=1)
            if len(new):
                S_old, S = S, np.zeros((len(rows), len(rows)), dtype=F.dtype)
                S[: len(old), : len(old)] = S_old
                S[len(old) :] = (F[new] @ F.T)[:, order]
        self._keep(column, rows[order], S)
        return S, order

    def _keep(self, column: int, rows: np.ndarray, S: np.ndarray) -> None:
        if column in self._expected:
            with self._lock:
                self._kept[column] = rows, S

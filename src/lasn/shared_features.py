"""Features that all candidates of a search share: distances once, F once for each gamma.

::

    E = log K / gamma   (n, k)    the exponents, for kernels that are exponentials (rbf, laplacian)
    F = exp(gamma E) M  (n, q)    eq. (fkn) for one gamma
    F F^T               (n, n)    where rows are few

On a device kernel values are computed again instead, by the fused products of ``torch_kernels.py``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from lasn.arrays import to_numpy
from lasn.blocks import BlockSource, MemoryBlocks, Work
from lasn.devices import resolve_device
from lasn.features import mapping_among, mapping_and_features
from lasn.kernels import Kernel
from lasn.mapping import TimesMapping
from lasn.memory import working_memory
from lasn.threads import for_each_slice

# A device that has not even this part of its free memory to give is not helped by smaller blocks.
_LEAST_SHARE = 1e-3
# F F^T is made up to this many rows, where features and problems, times the values of C, are at
# least one for so many rows: each problem would otherwise multiply its active rows again at every
# step.
_FEW_ROWS = 16_384
_ROWS_A_FEATURE = 8
_ROWS_A_PROBLEM = 375
_USUAL_COSTS = 4
# Up to so many problems with one C are solved with K and M apart: F costs more than it saves them.
_FEW_PROBLEMS = 10
# Rows of which fewer than this part are distinct are not worth a path of their own.
_ALMOST_ALL = 0.5


@dataclass(frozen=True)
class GammaFeatures:
    """What all folds and C share for one gamma.

    ``mapping`` is what the blocks lack to be F, shape (k, q); None: nothing. ``inner`` is F F^T,
    shape (n, n), of which the lower triangle is filled, where it was worth making.
    """

    blocks: BlockSource
    mapping: Any = None
    inner: np.ndarray | None = None


class SharedFeatures:
    """F for any gamma over one set of landmarks, shape (n, q); ``work`` counts what was computed.

    Without the memory for it, kernel values are computed again when they are needed. Features are
    a plan for a device whose memory runs out: less of what is free there, and then the CPU.
    """

    def __init__(
        self,
        X,
        kernel: Kernel,
        landmarks,
        dtype,
        cutoff,
        memory_limit,
        n_gammas: int,
        device: Any = None,
    ):
        self.X, self.kernel, self.landmarks, self.device = X, kernel, landmarks, device
        self.dtype, self.cutoff, self.memory_limit = dtype, cutoff, memory_limit
        self.n_gammas = n_gammas
        self.share_of_device = 1.0
        self._placed: Any = None
        self.work = Work()
        self.products = 0
        self.exponents: np.ndarray | None = None
        self.mapping: np.ndarray | None = None
        self._landmark_of_row = _landmark_of_row(X, landmarks, device)
        self._features: np.ndarray | None = None
        self._last: tuple[float, GammaFeatures] | None = None

    def grow(self, landmarks, dtype: np.dtype) -> None:
        """Take more landmarks; those before come first among them."""
        known = self.landmarks.shape[0]
        before, self.exponents = self.exponents, None
        grown = landmarks.shape[0] > known and _same(landmarks[:known], self.landmarks)
        self.landmarks, self._features, self._last = landmarks, None, None
        self._landmark_of_row = _landmark_of_row(self.X, landmarks, self.device)
        self.dtype = dtype
        if before is not None and grown and self._shares_exponents():
            self.exponents = self._room()
            self.exponents[:, :known] = before
            self._fill_exponents(landmarks[known:], self.exponents[:, known:])

    def at(self, gamma: float, n_problems: int, n_costs: int = _USUAL_COSTS) -> GammaFeatures:
        """The features for a gamma; those of the last one are still there.

        So many problems will be solved with them, each for about so many values of C.
        """
        if self._last is None or self._last[0] != gamma:
            self._last = None  # its memory is used again
            self._last = gamma, self._make(gamma, n_problems, n_costs)
        return self._last[1]

    def _make(self, gamma: float, n_problems: int, n_costs: int) -> GammaFeatures:
        if self.device is not None:
            return self._on_device(gamma, n_problems)
        if self.landmarks is None:
            return GammaFeatures(MemoryBlocks(self.X, None, self.dtype, self._budget()))
        kernel = replace(self.kernel, gamma=gamma)
        if self._landmark_of_row is not None and self._fits(matrices=4):
            return self._of_landmarks(kernel, self._landmark_of_row, n_problems, n_costs)
        mapping = mapping_among(kernel, self.landmarks, cutoff=self.cutoff, dtype=self.dtype)
        self.mapping = mapping
        columns = kernel.against(self.landmarks, self.dtype)
        with_inner = self._inner_pays(mapping.shape[1], n_problems, n_costs)
        forms_F = with_inner or n_costs > 1 or n_problems > _FEW_PROBLEMS
        if not (forms_F and self._fits(matrices=2)):
            blocks = MemoryBlocks(self.X, columns, self.dtype, self._budget())
            return GammaFeatures(blocks, mapping)
        if self._shares_exponents() and self.exponents is None:
            self.exponents = self._room()
            self._fill_exponents(self.landmarks, self.exponents)
        F = self._features if self._features is not None else self._room()
        self._features = F
        n_variables = mapping.shape[1]
        to_features = TimesMapping(mapping)

        def fill(rows: slice) -> None:
            if self.exponents is None:
                values = columns.matrix(self.X[rows])
            else:
                values = np.exp(self.exponents[rows] * self.dtype.type(gamma / self.kernel.gamma))
            to_features(values, out=F[rows, :n_variables])

        n_rows = self.X.shape[0]
        for_each_slice(n_rows, columns.rows_per_slice(self.X), fill)
        self.products += n_rows
        if self.exponents is None:
            self.work.rows_computed += n_rows
        F = F[:, :n_variables]
        blocks = MemoryBlocks(F, None, self.dtype, self._budget())
        return GammaFeatures(blocks, inner=self._inner(F) if with_inner else None)

    def _of_landmarks(
        self, kernel: Kernel, place: np.ndarray, n_problems: int, n_costs: int
    ) -> GammaFeatures:
        """Where row i is landmark ``place[i]``: features and inner products are those of K_ll."""
        K_ll = kernel(self.landmarks, self.landmarks)
        options = {"cutoff": self.cutoff, "dtype": self.dtype}
        self.mapping, features = mapping_and_features(K_ll, **options)
        F = np.take(features, place, axis=0)
        self.work.rows_computed += len(place)
        self.products += len(place)
        inner = None
        if self._inner_pays(F.shape[1], n_problems, n_costs):
            inner = K_ll[np.ix_(place, place)].astype(self.dtype, copy=False)
        blocks = MemoryBlocks(F, None, self.dtype, self._budget())
        return GammaFeatures(blocks, inner=inner)

    def _inner_pays(self, n_variables: int, n_problems: int, n_costs: int) -> bool:
        """Whether F F^T is worth making, and there is room for it."""
        n_rows = self.X.shape[0]
        fits = n_rows**2 * self.dtype.itemsize <= self._budget() // 2
        enough = n_costs * min(_ROWS_A_FEATURE * n_variables, _ROWS_A_PROBLEM * n_problems)
        return fits and n_rows <= min(_FEW_ROWS, enough)

    def _inner(self, F: np.ndarray) -> np.ndarray:
        """F F^T, its lower triangle."""
        n_rows = len(F)
        inner = np.zeros((n_rows, n_rows), dtype=self.dtype)

        def fill(rows: slice) -> None:
            np.matmul(F[rows], F[: rows.stop].T, out=inner[rows, : rows.stop])

        for_each_slice(n_rows, 512, fill)
        return inner

    def _on_device(self, gamma: float, n_problems: int) -> GammaFeatures:
        """Kernel values there are all but free: they are computed again rather than shared."""
        from lasn.torch_blocks import TorchBlocks, device_memory
        from lasn.torch_rows import place_landmarks, place_rows

        budget = int(self.share_of_device * device_memory(self.device, self.memory_limit))
        if self._placed is None:
            self._placed = place_rows(self.X, self.device, budget)
        X = self._placed
        if self.landmarks is None:
            blocks = TorchBlocks(X, None, self.dtype, budget, n_problems, self.device)
            return GammaFeatures(blocks)
        kernel = replace(self.kernel, gamma=gamma)
        landmarks = place_landmarks(self.landmarks, self.device)
        mapping = mapping_among(kernel, landmarks, cutoff=self.cutoff, dtype=self.dtype)
        self.mapping = to_numpy(mapping)
        columns: Any = kernel.against(landmarks, self.dtype)
        blocks = TorchBlocks(X, columns, self.dtype, budget, n_problems, self.device)
        return GammaFeatures(blocks, mapping)

    def can_shrink(self) -> bool:
        return self.device is not None and self.share_of_device > 0.0

    def shrink(self) -> str:
        """Take half as much of the device's memory from now on, and none of it in the end."""
        self._placed = self._last = None
        if self.share_of_device > _LEAST_SHARE:
            self.share_of_device /= 2.0
            return f"{100.0 * self.share_of_device:.3g} % of what is free there"
        self.device, self.share_of_device = resolve_device("torch"), 0.0
        return "the CPU"

    def function(self, W: np.ndarray) -> Function:
        """The functions of the last gamma whose coefficients are W."""
        beta = W[:-1] if self.mapping is None else self.mapping @ W[:-1]
        return Function(self.landmarks, beta, W[-1:])

    def coefficients(self, function: Function, gamma: float) -> np.ndarray:
        """W of the nearest functions that these features have: M^T K(L, L') beta'."""
        if self.mapping is None:
            return np.vstack([function.beta, function.bias])
        kernel = replace(self.kernel, gamma=gamma)
        values = kernel(self.landmarks, function.landmarks) @ function.beta
        return np.vstack([self.mapping.T @ values, function.bias])

    def _fill_exponents(self, landmarks, out: np.ndarray) -> None:
        self.kernel.against(landmarks, self.dtype).exponents(self.X, out)
        self.work.rows_computed += self.X.shape[0]

    def _shares_exponents(self) -> bool:
        exponential = self.kernel.against(self.landmarks, self.dtype).exponential
        return exponential and self.n_gammas > 1 and self._fits(matrices=3)

    def _room(self) -> np.ndarray:
        return np.empty((self.X.shape[0], self.landmarks.shape[0]), dtype=self.dtype)

    def _fits(self, matrices: int) -> bool:
        held = sum(array.nbytes for array in (self.exponents, self._features) if array is not None)
        size = self.X.shape[0] * self.landmarks.shape[0] * self.dtype.itemsize
        return matrices * size <= self._budget() + held

    def _budget(self) -> int:
        return working_memory(self.memory_limit)


@dataclass(frozen=True)
class Function:
    """K(., L) beta + bias, one for each column: shapes (k, p), (k, c) and (1, c)."""

    landmarks: Any
    beta: np.ndarray
    bias: np.ndarray


def _landmark_of_row(X: Any, landmarks: Any, device: Any) -> np.ndarray | None:
    """Which landmark each row is, where the landmarks are all the rows of an array."""
    if device is not None or landmarks is None or sp.issparse(X) or sp.issparse(landmarks):
        return None
    if len(landmarks) < _ALMOST_ALL * len(X):  # saves the sorting, as a rule
        return None
    rows, place = np.unique(X, axis=0, return_inverse=True)
    return place.reshape(-1) if np.array_equal(rows, landmarks) else None


def _same(one: Any, other: Any) -> bool:
    difference = one != other
    return not (difference.nnz if hasattr(difference, "nnz") else np.any(difference))

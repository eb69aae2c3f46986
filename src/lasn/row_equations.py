"""Newton's equations over active rows, (K^_II + diag(1 / v_I)) x = b_I, one system a problem.

By a Cholesky factor where active rows are few, in the type of the kernel values and refined as far
as is needed, and by conjugate gradients otherwise, preconditioned with a Nystroem map:
K~^_II + diag(1 / v) is inverted by Woodbury's identity. Rows are scaled by the roots of v, so that
the gap sum v r^2 / 2 that residuals r leave is a norm::

    (I + v^(1/2) K^ v^(1/2)) u = v^(1/2) b,        x = v^(1/2) u

Vectors are NumPy's; the kernel, the map and the factors may be on a torch device.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lasn.arrays import like, taken, to_numpy
from lasn.conjugate_gradients import conjugate_gradients
from lasn.factors import factorize
from lasn.gram import Gram
from lasn.memory import with_less_memory
from lasn.threads import for_each_slice
from lasn.woodbury import MapFeatures, product_with, shifted_square, transposed_product

# Up to this many active rows a Cholesky factor costs less than conjugate gradients would; with many
# columns, whose products do not wait for memory, up to fewer. Costs are in operations of a float32
# matrix product: those of a factor are dearer.
_DIRECT = 3000
_MANY_COLUMNS = 8
_FACTOR_COST = 3.0
# Corrections that a factor in float32 may take before one in float64 is made.
_REFINEMENTS = 3
_MAX_CG_STEPS = 500
_EXPECTED_STEPS = 40
# Landmarks of the preconditioner: one for so many active rows, within limits; those of a GPU are
# wider, as it multiplies matrices so much faster than it reads them.
_ROWS_PER_LANDMARK = 10
_FEWEST_LANDMARKS, _MOST_LANDMARKS, _MOST_OF_A_GPU = 200, 1000, 4000


def map_size(n_rows: int, room: int, device: Any = None) -> int:
    """Landmarks of the preconditioner for so many rows, where there is room for so many."""
    on_gpu = device is not None and device.type == "cuda"
    most = _MOST_OF_A_GPU if on_gpu else _MOST_LANDMARKS
    return min(most, n_rows // _ROWS_PER_LANDMARK + 1, max(room, 50))


class RowEquations:
    """The systems over the rows U of a ``Gram``, which may grow. Arrays have shape (m, c)."""

    def __init__(self, gram: Gram, most_landmarks: int, rng):
        self.gram, self.most_landmarks, self.rng = gram, most_landmarks, rng
        self.features: MapFeatures | None = None
        self.expected_steps = _EXPECTED_STEPS

    def square_by_nystroem(self, V: np.ndarray) -> np.ndarray | None:
        """V^T K~^ V for each column, shape (c,); None while there is no map."""
        features = self.features
        if features is None:
            return None
        V = V.astype(self.gram.dtype)
        pulled = with_less_memory(lambda: transposed_product(features.of(self.gram), V), self.gram)
        return np.sum(pulled * pulled, axis=0)

    def solve(self, b, v, guess, target) -> tuple[np.ndarray, np.ndarray]:
        """(K^_II + diag(1 / v_I)) x = b_I for each column, x = 0 elsewhere; and the steps taken.

        ``target`` is the gap that residuals may leave.
        """
        return with_less_memory(lambda: self._solve(b, v, guess, target), self.gram)

    def _solve(self, b, v, guess, target) -> tuple[np.ndarray, np.ndarray]:
        x, steps = np.zeros_like(b), np.zeros(b.shape[1], dtype=int)
        few = np.flatnonzero(np.count_nonzero(v, axis=0) <= self._most_direct(v))

        def solve_one(part: slice) -> None:
            c = few[part.start]
            rows = np.flatnonzero(v[:, c])
            x[rows, c] = self._by_factor(rows, np.sqrt(v[rows, c]), b[rows, c], target[c])

        for_each_slice(len(few), 1, solve_one)
        many = np.setdiff1d(np.arange(b.shape[1]), few)
        if len(many):
            found = self._by_nystroem(b[:, many], v[:, many], guess[:, many], target[many])
            x[:, many], steps[many] = found
            self.expected_steps = max(_EXPECTED_STEPS, int(steps.max()))
        return x, steps

    def _most_direct(self, v: np.ndarray) -> float:
        """Active rows of a column up to which a factor costs less than conjugate gradients."""
        if v.shape[1] < _MANY_COLUMNS:
            return _DIRECT
        n_rows = int(np.count_nonzero(v.any(axis=1)))
        products = 2.0 * self.expected_steps * n_rows**2
        preparing = n_rows * map_size(n_rows, self.most_landmarks) ** 2
        return min(_DIRECT, (3.0 / _FACTOR_COST * (products + preparing)) ** (1.0 / 3.0))

    def _by_factor(self, rows, scale, b, target: float) -> np.ndarray:
        b = scale * b
        A = self._matrix(rows, scale, self.gram.dtype)
        factor = factorize(A)
        u = factor.solve(b)
        for _ in range(_REFINEMENTS):
            residual = b - to_numpy(A @ like(u, A))
            if 0.5 * residual @ residual <= target:
                return scale * u
            u += factor.solve(residual)
        return scale * factorize(self._matrix(rows, scale, np.dtype(np.float64))).solve(b)

    def _matrix(self, rows, scale, dtype: np.dtype) -> Any:
        """I + v^(1/2) K^ v^(1/2) over these rows, where the kernel is."""
        A = self.gram.part(rows, dtype)
        scale = like(scale, A)
        A += 1.0
        A *= scale[:, None]
        A *= scale
        A.reshape(-1)[:: len(rows) + 1] += 1.0
        return A

    def _by_nystroem(self, b, v, guess, target) -> tuple[np.ndarray, np.ndarray]:
        """All columns at once, over the rows that are active in any of them."""
        union = v.any(axis=1)
        gram = self.gram.only(union) if np.mean(union) < self.gram.worth_copying else self.gram
        union = union if gram is not self.gram else np.ones_like(union)
        scale = np.sqrt(v[union])

        def product(P, columns):
            V = scale[:, columns] * P
            return scale[:, columns] * (gram.product(V) + V.sum(axis=0)) + P

        b, guess = b[union], guess[union]
        first = np.divide(guess, scale, out=np.zeros_like(scale), where=scale > 0.0)
        R = scale * b - product(first, np.arange(b.shape[1]))
        size = np.maximum(np.linalg.norm(R, axis=0), np.finfo(float).tiny)
        forcing = np.sqrt(2.0 * target) / size
        inverse = self._nystroem_inverse(v, union)
        change, steps, _ = conjugate_gradients(product, R, forcing, _MAX_CG_STEPS, inverse)
        x = np.zeros_like(v)
        x[union] = scale * (first + change)
        return x, steps

    def solve_by_nystroem(self, v, R) -> np.ndarray:
        """(K~^ + diag(1 / v))^-1 r over the rows with v > 0."""

        def solve() -> np.ndarray:
            inverse = self._nystroem_inverse(v, np.ones(len(v), dtype=bool))
            return np.sqrt(v) * inverse(np.sqrt(v) * R, np.arange(R.shape[1]))

        return with_less_memory(solve, self.gram)

    def _nystroem_inverse(self, v: np.ndarray, rows: np.ndarray):
        """(I + v^(1/2) K~^ v^(1/2))^-1 over some rows of U, for ``conjugate_gradients``.

        With A = v^(1/2) [F, 1] it is I - A (I + A^T A)^-1 A^T. The landmarks of F are some of the
        active rows, the heavy ones first.
        """
        dtype = self.gram.dtype
        if self.features is None:
            weight = v.sum(axis=1)
            n_active = int(np.count_nonzero(weight))
            most = max(self.most_landmarks, _FEWEST_LANDMARKS)
            size = max(n_active // _ROWS_PER_LANDMARK, _FEWEST_LANDMARKS)
            size = min(size, n_active, most)
            chosen = self.rng.choice(len(v), size=size, replace=False, p=weight / weight.sum())
            self.features = MapFeatures(
                self.gram.kernel, self.gram.X[self.gram.rows[chosen]], dtype
            )
        F = self.features.of(self.gram)
        F = F if rows.all() else taken(F, np.flatnonzero(rows))
        scale = np.sqrt(v[rows]).astype(dtype)
        factors = [factorize(shifted_square(F, one)) for one in scale.T]

        def apply(R, columns):
            some = scale[:, columns]
            pulled = transposed_product(F, some * R.astype(dtype))
            for index, column in enumerate(columns):
                pulled[:, index] = factors[column].solve(pulled[:, index])
            return R - some * product_with(F, pulled.astype(dtype))

        return apply

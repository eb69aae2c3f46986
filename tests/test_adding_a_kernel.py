"""How to add a kernel with a name: docs/contributing.md shows this file."""

import numpy as np
from sklearn.base import clone

from lasn import LASNClassifier, kernels
from lasn.kernels import KernelColumns, row_norms_squared


class RationalQuadraticColumns(KernelColumns):
    """1 / (1 + gamma |x - l|^2), by one product with the landmarks."""

    def __init__(self, kernel, landmarks, dtype):
        super().__init__(kernel, landmarks, dtype)
        self.transposed = landmarks.T.astype(dtype)
        self.squares = row_norms_squared(landmarks).astype(dtype)

    def _fill(self, rows, out):
        np.matmul(rows.astype(self.dtype, copy=False), self.transposed, out=out)
        out *= -2.0
        out += row_norms_squared(rows).astype(self.dtype)[:, None]
        out += self.squares
        np.reciprocal(1.0 + self.kernel.gamma * np.maximum(out, 0.0), out=out)


def test_a_new_kernel_has_a_name(monkeypatch, binary):
    monkeypatch.setattr(kernels, "KERNEL_NAMES", (*kernels.KERNEL_NAMES, "rational"))
    monkeypatch.setitem(kernels._COLUMNS, "rational", RationalQuadraticColumns)
    X, y = binary
    named = LASNClassifier(50, kernel="rational", gamma=0.5, random_state=0).fit(X, y)

    def function(X, L):
        squares = ((X[:, None, :] - L[None, :, :]) ** 2).sum(axis=2)
        return 1.0 / (1.0 + 0.5 * squares)

    as_function = clone(named).set_params(kernel=function).fit(X, y)
    np.testing.assert_allclose(
        named.decision_function(X), as_function.decision_function(X), atol=1e-6
    )

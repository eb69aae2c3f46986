"""Kernels on torch's devices: the table of ``kernels.py`` for tensors.

A kernel whose landmarks are tensors works in two steps: ``prepare(rows)`` does what depends on the
rows alone, ``values(prepared)`` gives their kernel values, shape (rows, k).

For the rbf kernel, prepared rows and landmarks are moved by the landmarks' mean m, scaled and made
longer, so that their inner product is the exponent, base 2::

    s = sqrt(2 gamma log2(e)),   x' = s (x - m),   l' = s (l - m)
    [x', -|x'|^2 / 2, 1] . [l', 1, -|l'|^2 / 2] = -gamma |x - l|^2 log2(e)

:class:`ImplicitKernel` stands for such a kernel matrix: its products with few columns are computed
by a fused kernel on CUDA (``triton_rbf.py``), otherwise by plain torch, some rows at a time.

Products are float32 or float64 throughout: TF32 is only for what merely steers the solver.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import torch

from lasn.arrays import float32_products, numpy_dtype, torch_dtype, widest_dtype
from lasn.memory import for_each_part
from lasn.torch_rows import SparseRows

# The fused kernel keeps this many features of a row, and this many columns, in registers.
_MOST_FUSED_FEATURES = 126
_MOST_FUSED_COLUMNS = 32
# By so much an exponent may be off, and its kernel value, relative, to be computed more than once.
_LITTLE_ROUNDING = 1e-2
# Kernel values held at a time where they are not kept.
_PART_BYTES = {"cuda": 1 << 30, "mps": 1 << 28, "cpu": 1 << 24}
# Up to this many products a kernel value is cheap to compute again.
_CHEAP_PRODUCTS = 400


@lru_cache(maxsize=1)
def has_triton() -> bool:
    """Whether Triton can be imported."""
    try:
        import triton  # noqa: F401
    except ImportError:
        return False
    return True


def rows_at_a_time(n_columns: int, device: torch.device, itemsize: int = 4) -> int:
    """How many rows of that many values are worked on at once."""
    return max(256, _PART_BYTES.get(device.type, 1 << 26) // (itemsize * max(1, n_columns)))


class TorchColumns:
    """A kernel whose landmarks, a tensor or :class:`SparseRows`, are fixed."""

    products_only = True

    def __init__(self, kernel, landmarks, dtype):
        self.kernel = kernel
        self.landmarks = landmarks
        self.device = landmarks.device
        self.torch_dtype = torch_dtype(dtype)
        if self.torch_dtype == torch.float64:
            self.torch_dtype = widest_dtype(self.device)
        self.dtype = numpy_dtype(self.torch_dtype)
        self.n_columns = landmarks.shape[0]

    @property
    def is_implicit(self) -> bool:
        """Whether products are faster without the matrix than with one that is kept."""
        return False

    def prepare(self, rows):
        return rows.to(self.torch_dtype)

    def values(self, prepared) -> torch.Tensor:
        raise TypeError(f"{type(self).__name__} does not say what its values are")

    def matrix(self, X) -> torch.Tensor:
        """Kernel values of all rows of ``X``, shape (n, k)."""
        with float32_products():
            return self.values(self.prepare(X[: X.shape[0]]))

    def times(self, X, coef) -> torch.Tensor:
        """``K(X, L) @ coef`` for coef of shape (k, c), without holding K: shape (n, c)."""
        n_rows = X.shape[0]
        coef = torch.as_tensor(coef).to(self.device, self.torch_dtype)
        out = torch.empty((n_rows, coef.shape[1]), dtype=self.torch_dtype, device=self.device)
        size = rows_at_a_time(self.n_columns, self.device, self.dtype.itemsize)
        if self.is_implicit:
            size = rows_at_a_time(4 * X.shape[1], self.device)

        def fill(rows: slice) -> None:
            out[rows] = self._product(X[rows], coef)

        with float32_products():
            for_each_part(n_rows, size, fill)
        return out

    def _product(self, rows, coef: torch.Tensor) -> torch.Tensor:
        return self.operator(self.prepare(rows)) @ coef

    def operator(self, prepared):
        """The kernel matrix of prepared rows: a tensor, or something with its products."""
        return self.values(prepared)

    def is_cheap(self, X, kept: bool = True) -> bool:
        """Whether computing a value again costs no more than a few readings of it from memory."""
        here = not isinstance(X[:1], SparseRows)
        return here and self.products_only and X.shape[1] <= _CHEAP_PRODUCTS


class _LinearColumns(TorchColumns):
    def __init__(self, kernel, landmarks, dtype):
        super().__init__(kernel, landmarks, dtype)
        self.transposed = landmarks.to(self.torch_dtype).to_dense().T

    def values(self, prepared):
        return prepared @ self.transposed


class _PolynomialColumns(_LinearColumns):
    def values(self, prepared):
        out = super().values(prepared)
        kernel = self.kernel
        out.mul_(kernel.gamma).add_(kernel.coef0).pow_(kernel.degree)
        if not bool(torch.isfinite(out.sum())):
            raise ValueError(
                f"The polynomial kernel with gamma={kernel.gamma:.4g}, degree={kernel.degree} and "
                f"coef0={kernel.coef0} overflows on this data in {self.dtype}. Scale the features "
                "(StandardScaler, MinMaxScaler), or choose a smaller gamma or degree."
            )
        return out


class _TanhColumns(_LinearColumns):
    def values(self, prepared):
        out = super().values(prepared)
        return out.mul_(self.kernel.gamma).add_(self.kernel.coef0).tanh_()


class _RbfColumns(TorchColumns):
    """exp(-gamma |x - l|^2) by one product and one exponential per value."""

    def __init__(self, kernel, landmarks, dtype):
        super().__init__(kernel, landmarks, dtype)
        self.scale = math.sqrt(2.0 * kernel.gamma * math.log2(math.e))
        self.sparse = isinstance(landmarks, SparseRows) and not landmarks.is_narrow
        if self.sparse:
            self.transposed = landmarks.to(self.torch_dtype).to_dense().T
            self.squares = landmarks.squares().to(self.torch_dtype)
            return
        landmarks = landmarks.to_dense()
        # Float32 can tell this mean exactly, so rows and landmarks are moved by the same.
        self.origin = landmarks.mean(dim=0).to(torch.float32)
        lengthened = self._lengthened(landmarks)
        n_features = landmarks.shape[1]
        self.prepared = lengthened.clone()
        self.prepared[:, n_features] = lengthened[:, n_features + 1]
        self.prepared[:, n_features + 1] = lengthened[:, n_features]
        largest = -float(lengthened[:, n_features].min())
        self.rounding = largest * torch.finfo(self.torch_dtype).eps

    @property
    def is_implicit(self):
        # Fused products with K and with K^T round exponents each in its own way; where that shows,
        # the one would not be the other's transpose.
        if self.sparse or self.rounding > _LITTLE_ROUNDING:
            return False
        fits = self.landmarks.shape[1] <= _MOST_FUSED_FEATURES
        fused = self.device.type == "cuda" and has_triton()
        return fused and fits and self.torch_dtype == torch.float32

    def prepare(self, rows):
        if isinstance(rows, SparseRows):
            if not rows.is_narrow:
                return rows.to(self.torch_dtype)
            rows = rows.to_dense()
        return rows.to(self.torch_dtype) if self.sparse else self._lengthened(rows)

    def _lengthened(self, rows: torch.Tensor) -> torch.Tensor:
        """[x', -|x'|^2 / 2, 1, 0, ...], to a power of two, at least 16, that suits all tiles."""
        n_rows, n_features = rows.shape
        width = max(16, 1 << (n_features + 1).bit_length())
        out = torch.zeros((n_rows, width), dtype=self.torch_dtype, device=self.device)
        out[:, :n_features] = (rows - self.origin.to(rows.dtype)) * self.scale
        out[:, n_features] = -0.5 * (out[:, :n_features] ** 2).sum(dim=1)
        out[:, n_features + 1] = 1.0
        return out

    def values(self, prepared):
        if self.sparse or isinstance(prepared, SparseRows):
            return self._sparse_values(prepared)
        return (prepared @ self.prepared.T).clamp_(max=0.0).exp2_()

    def _sparse_values(self, rows):
        if not self.sparse:
            raise TypeError("wide sparse rows need landmarks of the same kind")
        squares = (rows.squares() if isinstance(rows, SparseRows) else (rows**2).sum(dim=1))[
            :, None
        ]
        distances = squares.to(self.torch_dtype) + self.squares - 2.0 * (rows @ self.transposed)
        return distances.clamp_(min=0.0).mul_(-self.kernel.gamma).exp_()

    def operator(self, prepared):
        if self.is_implicit and not isinstance(prepared, SparseRows):
            return ImplicitKernel(prepared, self.prepared)
        return self.values(prepared)


class _LaplacianColumns(TorchColumns):
    products_only = False

    def values(self, prepared):
        landmarks = self.landmarks.to(self.torch_dtype).to_dense()
        distances = torch.cdist(prepared.to_dense(), landmarks, p=1.0)
        return distances.mul_(-self.kernel.gamma).exp_()


class _CallableColumns(TorchColumns):
    products_only = False

    def prepare(self, rows):
        return rows

    def values(self, prepared):
        function: Any = self.kernel.name
        rows, landmarks = prepared.to_dense(), self.landmarks.to_dense()
        values = torch.as_tensor(function(rows, landmarks)).to(self.device, self.torch_dtype)
        if values.shape != (rows.shape[0], self.n_columns):
            raise ValueError(
                f"The kernel function returned an array of shape {tuple(values.shape)} for "
                f"{rows.shape[0]} rows and {self.n_columns} landmarks; it must return shape "
                f"{(rows.shape[0], self.n_columns)}, one column for each landmark."
            )
        if not bool(torch.isfinite(values.sum())):
            raise ValueError(
                "The kernel function returned NaN or infinity for finite rows; it must return "
                "finite numbers."
            )
        return values


COLUMNS: dict[str, type[TorchColumns]] = {
    "rbf": _RbfColumns,
    "polynomial": _PolynomialColumns,
    "tanh": _TanhColumns,
    "laplacian": _LaplacianColumns,
    "linear": _LinearColumns,
}


def torch_columns(kernel, name, landmarks, dtype) -> TorchColumns:
    """The columns of a kernel under its resolved name, or of a function."""
    columns = _CallableColumns if callable(name) else COLUMNS[name]
    with float32_products():
        return columns(kernel, landmarks, dtype)


class ImplicitKernel:
    """exp2(A B^T) by its products, for prepared rows A, (n, d), and landmarks B, (k, d).

    ``K @ V``, ``K.T @ U`` and ``K[rows]`` are what they would be for the matrix, which is never
    held whole.
    """

    def __init__(self, A: torch.Tensor, B: torch.Tensor):
        self.A, self.B = A, B
        self.shape = (A.shape[0], B.shape[0])
        self.dtype = A.dtype

    def __getitem__(self, rows) -> ImplicitKernel:
        return ImplicitKernel(self.A[rows], self.B)

    @property
    def T(self) -> ImplicitKernel:
        return ImplicitKernel(self.B, self.A)

    def __matmul__(self, V: torch.Tensor) -> torch.Tensor:
        flat = V.ndim == 1
        V = (V[:, None] if flat else V).to(self.dtype)
        out = kernel_product(self.A, self.B, V)
        return out[:, 0] if flat else out


def kernel_product(A: torch.Tensor, B: torch.Tensor, V: torch.Tensor) -> torch.Tensor:
    """exp2(min(A B^T, 0)) V for prepared A and B: fused where that is possible."""
    fused = A.device.type == "cuda" and A.dtype == torch.float32 and has_triton()
    if fused and V.shape[1] <= _MOST_FUSED_COLUMNS:
        from lasn.triton_rbf import fused_product

        product = fused_product(A, B, V)
        if product is not None:
            return product
    return plain_product(A, B, V)


def plain_product(A: torch.Tensor, B: torch.Tensor, V: torch.Tensor) -> torch.Tensor:
    """The same in plain torch, in float64 where B, the longer, is summed in parts."""
    if len(A) >= len(B):
        size = rows_at_a_time(len(B), A.device, A.element_size())
        parts = [
            (A[i : i + size] @ B.T).clamp_(max=0.0).exp2_() @ V for i in range(0, len(A), size)
        ]
        return torch.cat(parts) if parts else A.new_zeros((0, V.shape[1]))
    size = rows_at_a_time(len(A), A.device, A.element_size())
    total = torch.zeros((len(A), V.shape[1]), dtype=torch.float64, device=A.device)
    for i in range(0, len(B), size):
        total += (A @ B[i : i + size].T).clamp_(max=0.0).exp2_() @ V[i : i + size]
    return total

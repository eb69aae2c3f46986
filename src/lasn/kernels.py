"""Kernels: blocks of rows against landmarks.

========== ==================================== =======================================
name       kernel(x, l)                         notes
========== ==================================== =======================================
rbf        exp(-gamma * |x - l|^2)              positive definite
polynomial (gamma * <x, l> + coef0) ** degree   "poly" is accepted too
tanh       tanh(gamma * <x, l> + coef0)         not positive semidefinite: the negative
                                                part of its spectrum is dropped;
                                                "sigmoid" is accepted too
laplacian  exp(-gamma * |x - l|_1)              positive definite
linear     <x, l>                               no landmarks: the rows are the features
callable   function(X, L) -> (n, k)             the function gets rows as they came
========== ==================================== =======================================

A kernel is used in two steps: ``kernel.against(landmarks, dtype)`` does once what depends
on the landmarks alone, and the object that it returns fills blocks of rows.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy

from lasn.arrays import device_of, is_sparse, to_numpy, wide
from lasn.cores import all_cores
from lasn.mapping import TimesMapping
from lasn.memory import VALUES_AT_A_TIME, for_each_part
from lasn.row_forms import add_product, fastest_form, product_cost, unpacked, write_product
from lasn.threads import for_each_slice, n_threads, stretch

KERNEL_NAMES = ("rbf", "polynomial", "tanh", "laplacian", "linear")
_SYNONYMS = {"poly": "polynomial", "sigmoid": "tanh"}

# A block that one thread works on should stay in its cache: 2 MiB of kernel values.
_CACHE_BYTES = 2 << 20
# Of sparse landmarks, an array of so many bytes stays in the cache that cores share.
_COMPACT_BYTES = 8 << 20
# Few enough numbers that their memory is used again and not asked of the system anew.
_VALUES_AT_HAND = 1 << 16
# Of stored values, one costs as much in a sum of distances as this many of an array.
_STORED_DISTANCE = 30.0
# A sum over landmarks in float32 is one over groups of this many, if it has few columns.
_GROUP = 64
_GROUPED_COLUMNS = 32
# Up to this many products a kernel value is cheap to compute again; and where values cannot all be
# kept, so that many are computed again anyway.
_CHEAP_PRODUCTS, _CHEAP_IF_NOT_KEPT = 100, 400


@dataclass(frozen=True)
class Kernel:
    """A kernel with its parameters settled (``gamma`` is a number here).

    Examples
    --------
    >>> import numpy as np
    >>> from lasn.kernels import Kernel
    >>> X = np.array([[0.0, 0.0], [3.0, 4.0]])
    >>> Kernel("rbf", gamma=0.1)(X, X).round(3)
    array([[1.   , 0.082],
           [0.082, 1.   ]])
    """

    name: str | Callable[[Any, Any], Any]
    gamma: float = 1.0
    degree: float = 3
    coef0: float = 1.0

    def __call__(self, X, landmarks, dtype=np.float64) -> Any:
        """The kernel matrix of shape (n_rows, n_landmarks)."""
        return self.against(landmarks, dtype).matrix(X)

    def against(self, landmarks, dtype=np.float64) -> Any:
        """The kernel as a function of rows only: its columns belong to ``landmarks``.

        Landmarks on a torch device give columns that work there.
        """
        name = resolve_kernel_name(self.name)
        if device_of(landmarks) is not None:
            from lasn.torch_kernels import torch_columns

            return torch_columns(self, name, landmarks, dtype)
        columns = _CallableColumns if callable(name) else _COLUMNS[name]
        return columns(self, landmarks, np.dtype(dtype))

    @property
    def is_positive_semidefinite(self) -> bool:
        """Whether every kernel matrix is; of a function this is taken on trust."""
        if resolve_kernel_name(self.name) == "polynomial":
            return self.coef0 >= 0.0 and float(self.degree).is_integer()
        return resolve_kernel_name(self.name) != "tanh"

    def diagonal(self, X) -> np.ndarray:
        """k(x, x) of each row, shape (n,), in float64."""
        name = resolve_kernel_name(self.name)
        if name in ("rbf", "laplacian"):
            return np.ones(X.shape[0])
        if callable(name):
            blocks = (X[start : start + 64] for start in range(0, X.shape[0], 64))
            return np.concatenate([np.diag(to_numpy(self(rows, rows))) for rows in blocks])
        if device_of(X) is None:
            squares = row_norms_squared(X.astype(np.float64, copy=False))
        else:
            squares = _norms_squared_on_a_device(X)
        if name == "linear":
            return squares
        product = self.gamma * squares + self.coef0
        return product**self.degree if name == "polynomial" else np.tanh(product)

    def rounding(self, X, landmarks) -> float:
        """A bound on the error of any float64 value of k(X, L), to first order in the precision.

        An inner product of p terms is off by at most (p + 2) u |x| |l|; what a kernel makes of it
        stretches that by its slope. A function is trusted to a few units in the last place.
        """
        name = resolve_kernel_name(self.name)
        unit = np.finfo(np.float64).eps
        if callable(name):
            largest = max(np.max(np.abs(self.diagonal(rows))) for rows in (X, landmarks))
            return 16.0 * unit * float(largest)
        unit *= X.shape[1] + 8.0
        if name == "laplacian":  # the relative error of |x - l| times its largest t exp(-t)
            return unit
        squares = (
            row_norms_squared(rows.astype(np.float64, copy=False)) for rows in (X, landmarks)
        )
        square = max(float(np.max(values)) for values in squares)
        if name == "rbf":
            return unit * (1.0 + 4.0 * self.gamma * square)
        if name == "linear":
            return unit * square
        size = self.gamma * square + abs(self.coef0)
        return unit * (self.degree * size**self.degree if name == "polynomial" else 1.0 + size)


def resolve_kernel_name(kernel):
    """The kernel's name as this package writes it; a ``ValueError`` if it has none."""
    if callable(kernel):
        return kernel
    name = _SYNONYMS.get(kernel, kernel) if isinstance(kernel, str) else kernel
    if name not in KERNEL_NAMES:
        raise ValueError(
            f"kernel={kernel!r} is unknown. Give one of {', '.join(KERNEL_NAMES)}, "
            "or a function k(X, L) that returns an array of shape (len(X), len(L))."
        )
    return name


def is_of_products(kernel) -> bool:
    """Whether values are a function of inner products with landmarks."""
    return resolve_kernel_name(kernel) in ("rbf", "polynomial", "tanh")


class KernelColumns:
    """A kernel whose landmarks are fixed: fills (rows, k) blocks.

    Subclasses say what ``_fill(rows, out)`` or ``_fill_exponents`` does with a block that stays
    in one thread's cache; slicing over threads and sparse rows live here.
    """

    # Values are a function of inner products, so a matrix product makes them, of arrays or CSR.
    products_only = True
    # Values are exp(gamma e), and :meth:`exponents` gives gamma e.
    exponential = False
    # Float32 values are summed up in float64 only, by :meth:`times`.
    exact_sums = False

    def __init__(self, kernel: Kernel, landmarks, dtype: np.dtype):
        self.kernel = kernel
        self.landmarks = landmarks
        self.dtype = dtype
        self.n_columns = landmarks.shape[0]

    def matrix(self, X, out: np.ndarray | None = None) -> np.ndarray:
        """Kernel values of all rows of ``X``, shape (n, k), on all cores."""
        n_rows = X.shape[0]
        if out is None:
            out = np.empty((n_rows, self.n_columns), dtype=self.dtype)
        for_each_slice(n_rows, self.rows_per_slice(X), lambda rows: self.fill(X[rows], out[rows]))
        return out

    def exponents(self, X, out: np.ndarray) -> np.ndarray:
        """The logarithms of the kernel values, which are proportional to gamma: shape (n, k)."""
        for_each_slice(
            X.shape[0],
            self.rows_per_slice(X),
            lambda rows: self._fill_exponents(self._formed(X[rows]), out[rows]),
        )
        return out

    def times(self, X, coef: np.ndarray) -> np.ndarray:
        """``K(X, L) @ coef`` for coef of shape (k, c), without holding K: shape (n, c).

        Few columns are sums whose terms may cancel: float32 sums up groups of landmarks only,
        float64 the groups.
        """
        out = np.empty((X.shape[0], coef.shape[1]), dtype=self.dtype)
        add_up = self._sums(coef)
        size = max(1, min(self.rows_per_slice(X), X.shape[0]))
        scratch = threading.local()

        def multiply(rows):
            if not hasattr(scratch, "values"):
                scratch.values = np.empty((size, self.n_columns), dtype=self.dtype)
            values = scratch.values[: rows.stop - rows.start]
            self.fill(X[rows], values)
            add_up(values, out=out[rows])

        for_each_slice(X.shape[0], size, multiply)
        return out

    def with_exact_sums(self) -> KernelColumns:
        """The same values; :meth:`times` takes a tenth longer and rounds no sum to float32."""
        exact = copy.copy(self)
        exact.exact_sums = True
        return exact

    def _sums(self, coef: np.ndarray) -> Callable[..., Any]:
        """The function (values, out) that writes values @ coef to ``out``."""
        if self.exact_sums and self.dtype != np.float64:
            return partial(_exact_product, coef=np.ascontiguousarray(coef, dtype=np.float64))
        coef = np.ascontiguousarray(coef, dtype=self.dtype)
        if self.dtype != np.float64 and coef.shape[1] <= _GROUPED_COLUMNS:
            return partial(_grouped_product, coef=coef)
        return TimesMapping(coef)

    def is_cheap(self, X, kept: bool = True) -> bool:
        """Whether computing a value again costs no more than a few readings of it from memory.

        Where values are not ``kept``, reading them means computing them.
        """
        most = _CHEAP_PRODUCTS if kept else _CHEAP_IF_NOT_KEPT
        return self.products_only and product_cost(X[:1000], self.n_columns) <= most

    def rows_per_slice(self, X) -> int:
        """How many rows stay in a core's cache with their kernel values; more for many threads."""
        values = self.n_columns + (0 if is_sparse(X) else X.shape[1])
        rows = max(64, _CACHE_BYTES // (self.dtype.itemsize * max(1, values)))
        if X.shape[0] <= rows:
            return rows
        return max(rows, min(rows * stretch(), X.shape[0] // (2 * n_threads())))

    def fill(self, rows, out: np.ndarray) -> None:
        """Write the kernel of a small block of rows into ``out``."""
        self._fill(self._formed(rows), out)

    def _formed(self, rows):
        return fastest_form(rows, self.n_columns) if self.products_only else rows

    def _fill(self, rows, out: np.ndarray) -> None:
        self._fill_exponents(rows, out)
        np.exp(out, out=out)

    def _fill_exponents(self, rows, out: np.ndarray) -> None:
        raise TypeError(f"{type(self).__name__} is no exponential of anything")


def _grouped_product(values: np.ndarray, out: np.ndarray, coef: np.ndarray) -> None:
    """values @ coef, shape (n, c), summed in float64 over groups of columns of ``values``."""
    n_rows, k = values.shape
    whole = k - k % _GROUP
    groups = values[:, :whole].reshape(n_rows, -1, _GROUP).transpose(1, 0, 2)
    sums = groups @ coef[:whole].reshape(-1, _GROUP, coef.shape[1])
    out[...] = sums.sum(axis=0, dtype=np.float64) + values[:, whole:] @ coef[whole:]


def _exact_product(values: np.ndarray, out: np.ndarray, coef: np.ndarray) -> None:
    """values @ coef, shape (n, c), in float64; some rows at a time, so that they stay in cache."""
    n_rows, k = values.shape
    size = max(1, _VALUES_AT_HAND // k)
    doubled = np.empty((min(size, n_rows), k))
    for start in range(0, n_rows, size):
        some = values[start : start + size]
        np.copyto(doubled[: len(some)], some)
        out[start : start + size] = np.dot(doubled[: len(some)], coef)


def row_norms_squared(X) -> np.ndarray:
    """|x_i|^2 for each row, shape (n,), dense or sparse."""
    if not is_sparse(X):
        return np.einsum("ij,ij->i", X, X)
    X = X.tocsr()
    out, filled = np.zeros(X.shape[0]), np.flatnonzero(np.diff(X.indptr))
    out[filled] = np.add.reduceat(np.square(X.data, dtype=np.float64), X.indptr[filled])
    return out


def _norms_squared_on_a_device(X) -> np.ndarray:
    """The same of rows on a torch device, or on their way to it, some at a time."""
    out = np.empty(X.shape[0])

    def fill(part: slice) -> None:
        rows = X[part]
        squares = rows.squares() if hasattr(rows, "squares") else (wide(rows) ** 2).sum(axis=1)
        out[part] = to_numpy(squares)

    for_each_part(X.shape[0], max(1, VALUES_AT_A_TIME // X.shape[1]), fill)
    return out


class _InnerProducts:
    """factor * rows @ landmarks.T for every mix of dense and sparse.

    Sparse landmarks that have few features between them, p' say, are an array as well: ``compact``,
    shape (p' + 1, k), with a last row of zeros that stands for all other features. ``places``,
    shape (p,), says which row is whose.
    """

    def __init__(self, landmarks, dtype: np.dtype):
        self.dtype = dtype
        self.transposed: Any
        self.places: np.ndarray | None = None
        if not is_sparse(landmarks):
            self.transposed = np.ascontiguousarray(landmarks.T, dtype=dtype)
            return
        self.transposed = landmarks.T.tocsr().astype(dtype)
        used = np.flatnonzero(np.diff(self.transposed.indptr))
        shape = (len(used) + 1, landmarks.shape[0])
        if shape[0] * shape[1] * dtype.itemsize <= _COMPACT_BYTES:
            self.places = np.full(landmarks.shape[1], len(used), dtype=np.int32)
            self.places[used] = np.arange(len(used))
            self.compact = np.zeros(shape, dtype=dtype)
            self.compact[:-1] = self.transposed[used].toarray()

    def __call__(self, rows, out: np.ndarray, factor: float = 1.0) -> None:
        rows = rows.astype(self.dtype, copy=False)
        if self.are_written(rows):
            write_product(rows * self.dtype.type(factor), self.transposed, out)
        elif is_sparse(rows) or is_sparse(self.transposed):
            out[...] = 0.0
            self.add(rows, out, factor)
        else:
            np.matmul(rows, self.transposed, out=out)
            if factor != 1.0:
                out *= factor

    def are_written(self, rows) -> bool:
        """Whether products with these rows are faster to write than to add to what is there."""
        return self.places is None and is_sparse(rows) and is_sparse(self.transposed)

    def add(self, rows, out: np.ndarray, factor: float) -> None:
        """Add the products to ``out``; the rows are sparse, or the landmarks are."""
        rows = rows.astype(self.dtype, copy=False) * self.dtype.type(factor)
        if self.places is None or not is_sparse(rows):
            add_product(rows, self.transposed, out)
            return
        parts = rows.data, self.places[rows.indices], rows.indptr.astype(np.int32, copy=False)
        compact = scipy.sparse.csr_matrix(parts, shape=(rows.shape[0], len(self.compact)))
        add_product(compact, self.compact, out)


class _LinearColumns(KernelColumns):
    def __init__(self, kernel, landmarks, dtype):
        super().__init__(kernel, landmarks, dtype)
        self.products = _InnerProducts(landmarks, dtype)

    def _fill(self, rows, out):
        self.products(rows, out)


class _PolynomialColumns(_LinearColumns):
    def _fill(self, rows, out):
        self.products(rows, out, self.kernel.gamma)
        out += self.kernel.coef0
        with np.errstate(over="ignore", invalid="ignore"):
            np.power(out, self.dtype.type(self.kernel.degree), out=out)
        if not np.isfinite(out.sum()):
            kernel = self.kernel
            raise ValueError(
                f"The polynomial kernel with gamma={kernel.gamma:.4g}, degree={kernel.degree} and "
                f"coef0={kernel.coef0} overflows on this data in {self.dtype}. Scale the features "
                "(StandardScaler, MinMaxScaler), or choose a smaller gamma or degree."
            )


class _TanhColumns(_LinearColumns):
    def _fill(self, rows, out):
        self.products(rows, out, self.kernel.gamma)
        out += self.kernel.coef0
        np.tanh(out, out=out)


class _RbfColumns(KernelColumns):
    """exp(-gamma |x - l|^2) by one product and one exponential per value.

    Dense: [x, |x|^2, 1] . [2 gamma l, -gamma, -gamma |l|^2] is the exponent itself. Rows are
    first moved by the landmarks' mean, which changes no distance and keeps the squares small,
    so that float32 loses no digits to data far from the origin.
    """

    exponential = True

    def __init__(self, kernel, landmarks, dtype):
        super().__init__(kernel, landmarks, dtype)
        gamma = kernel.gamma
        self.products: _InnerProducts | None = None  # made when the first sparse block comes
        if is_sparse(landmarks):
            self.origin = None
            self.squares = row_norms_squared(landmarks)
            return
        centred = np.asarray(landmarks, dtype=np.float64)
        # Any point near the landmarks will do, so also one that is as exact as they are: rows of
        # their type are moved by it in that type.
        self.origin = centred.mean(axis=0).astype(landmarks.dtype)
        centred = centred - self.origin
        self.squares = row_norms_squared(landmarks.astype(np.float64))
        exponent = np.empty((landmarks.shape[1] + 2, landmarks.shape[0]), dtype=dtype)
        exponent[:-2] = 2.0 * gamma * centred.T
        exponent[-2] = -gamma
        exponent[-1] = -gamma * row_norms_squared(centred)
        self.exponent = exponent

    def _fill_exponents(self, rows, out):
        if is_sparse(rows) or self.origin is None:
            self._fill_sparse(rows, out)
        else:
            extended = np.empty((rows.shape[0], rows.shape[1] + 2), dtype=self.dtype)
            np.subtract(rows, self.origin, out=extended[:, :-2], casting="same_kind")
            extended[:, -2] = row_norms_squared(extended[:, :-2])
            extended[:, -1] = 1.0
            np.matmul(extended, self.exponent, out=out)
            self._not_positive(out, extended[:, -2].max())

    def _fill_sparse(self, rows, out):
        if self.products is None:
            self.products = _InnerProducts(self.landmarks, self.dtype)
        gamma = self.kernel.gamma
        squares = row_norms_squared(rows)
        ours, theirs = ((-gamma * part).astype(self.dtype) for part in (squares, self.squares))
        if self.products.are_written(rows):
            self.products(rows, out, 2.0 * gamma)
            out += ours[:, None]
            out += theirs
        else:
            np.add(ours[:, None], theirs, out=out)
            self.products.add(rows, out, 2.0 * gamma)
        self._not_positive(out, max(squares.max(), self.squares.max()))

    def _not_positive(self, exponents, largest):
        """They are differences of terms as large as gamma ``largest``: rounding may show."""
        if self.kernel.gamma * largest * np.finfo(self.dtype).eps > 1e-6:
            np.minimum(exponents, 0.0, out=exponents)


class _LaplacianColumns(KernelColumns):
    products_only = False
    exponential = True

    def _formed(self, rows):
        return unpacked(rows, _STORED_DISTANCE) if is_sparse(rows) else rows

    def _fill_exponents(self, rows, out):
        from scipy.spatial.distance import cdist  # slow to import, and for this kernel alone
        from sklearn.metrics.pairwise import manhattan_distances

        if is_sparse(rows) or is_sparse(self.landmarks):
            with all_cores():
                distances = manhattan_distances(
                    _short_indices(rows), _short_indices(self.landmarks)
                )
        else:
            distances = cdist(rows, self.landmarks, "cityblock")
        np.multiply(distances, -self.kernel.gamma, out=out, casting="same_kind")


def _short_indices(rows):
    """CSR with the 32-bit indices that compiled code asks for."""
    rows = scipy.sparse.csr_matrix(rows)
    indices, indptr = rows.indices.astype(np.int32), rows.indptr.astype(np.int32)
    return scipy.sparse.csr_matrix((rows.data, indices, indptr), shape=rows.shape)


class _CallableColumns(KernelColumns):
    products_only = False

    def _fill(self, rows, out):
        function: Any = self.kernel.name
        with all_cores():
            values = function(rows, self.landmarks)
        if is_sparse(values):
            values = values.toarray()
        values = np.asarray(values)
        if values.shape != out.shape:
            raise ValueError(
                f"The kernel function returned an array of shape {values.shape} for "
                f"{rows.shape[0]} rows and {self.n_columns} landmarks; it must return shape "
                f"{out.shape}, one column for each landmark."
            )
        if not np.isfinite(values.sum()):
            raise ValueError(
                "The kernel function returned NaN or infinity for finite rows; it must return "
                "finite numbers."
            )
        out[...] = values


_COLUMNS: dict[str, type[KernelColumns]] = {
    "rbf": _RbfColumns,
    "polynomial": _PolynomialColumns,
    "tanh": _TanhColumns,
    "laplacian": _LaplacianColumns,
    "linear": _LinearColumns,
}

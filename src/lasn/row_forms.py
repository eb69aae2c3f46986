"""Rows as an array or as CSR, whichever multiplies faster with k dense columns.

A dense product does more arithmetic in the same time, a sparse one does without the zeros. With s
values a row that are not zero, each of the k results of a row costs p multiplications in a dense
product; in a sparse one, in the same unit, about ``8 s + 25``, and ``55 p / k`` to find them in an
array. Blocks and samples of rows change their form on the way into a product; an array of mostly
zeros that will be multiplied again and again changes as a whole, and takes a quarter of its memory
at most.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import scipy

from lasn.arrays import is_sparse
from lasn.threads import for_each_slice, stretch

# Multiplications of a dense product in the time of one with a stored value; of what else a sparse
# product does for each of its results; and of looking whether a value of an array is zero.
_STORED, _RESULT, _LOOK = 8.0, 25.0, 55.0
# Blocks that take more than this are not unpacked.
_UNPACKED_BYTES = 8 << 20
# Fewer features than this are multiplied before zeros are found; so are few rows.
_FEW_FEATURES, _FEW_ROWS = 100, 64
# So many rows tell how many zeros there are, of a block and of a whole matrix.
_LOOKED_AT, _LOOKED_AT_IN_ALL = 32, 512
# Values of an array that are looked at at a time.
_VALUES_AT_A_TIME = 1 << 19


def fastest_form(rows: Any, k: int) -> Any:
    """A block of rows, shape (m, p), in the form that a product with (p, k) values takes least."""
    if is_sparse(rows):
        return unpacked(rows, _STORED, _RESULT)
    return _packed(rows) if _sparse_cost(rows, k) < rows.shape[1] else rows


def packed(X: np.ndarray) -> Any:
    """An array whose rows would be multiplied as CSR, as that; any other as it is."""
    n_rows, n_features = X.shape
    if n_features < _FEW_FEATURES or n_rows < _FEW_ROWS:
        return X
    some = X[:: 1 + n_rows // _LOOKED_AT_IN_ALL]
    if _STORED * np.count_nonzero(some) / len(some) + _RESULT >= n_features:
        return X
    size = max(_FEW_ROWS, _VALUES_AT_A_TIME // n_features)
    parts: list[Any] = [None] * -(-n_rows // size)

    def pack(part: slice) -> None:
        parts[part.start // size] = _packed(X[part])

    for_each_slice(n_rows, size, pack)
    return scipy.sparse.vstack(parts, format="csr")


def add_product(rows: Any, columns: Any, out: np.ndarray) -> None:
    """Add ``rows @ columns`` to ``out``, shape (m, k), C-contiguous; rows are CSR, or columns are.

    SciPy's product always comes in new memory, and to touch that for the first time takes longer
    than the product. What it calls itself adds to memory that is there.
    """
    add = None if is_sparse(columns) else getattr(_sparsetools(), "csr_matvecs", None)
    if add is None or rows.dtype != out.dtype or columns.dtype != out.dtype:
        product = rows @ columns
        out += product.toarray() if is_sparse(product) else product
    else:
        values = columns.reshape(-1), out.reshape(-1)
        add(*rows.shape, out.shape[1], rows.indptr, rows.indices, rows.data, *values)


def write_product(rows: Any, columns: Any, out: np.ndarray) -> None:
    """Write ``rows @ columns``, both CSR and of one dtype, to ``out``, shape (m, k), of that dtype.

    SciPy makes a sparse result first, which takes four times as long as what scikit-learn has for
    this since 1.8. That keeps Python's lock, though, for which many threads would queue.
    """
    write = _scikit_learns_product()
    if write is None or stretch() > 1:
        (rows @ columns).toarray(out=out)
    else:
        write(rows, columns, out=out)


def _scikit_learns_product() -> Any:
    """CSR times CSR into an array, where scikit-learn has it and has been imported.

    Models that predict without scikit-learn (``lasn.bare``) must not wait for it.
    """
    return getattr(sys.modules.get("sklearn.utils.sparsefuncs"), "sparse_matmul_to_dense", None)


def _sparsetools() -> Any:
    """SciPy's own compiled products, if they are where they have been for many years."""
    return getattr(scipy.sparse, "_sparsetools", None)


def product_cost(rows: Any, k: int) -> float:
    """What each result of that product costs, in multiplications of a dense one."""
    return min(_sparse_cost(rows, k), rows.shape[1])


def unpacked(rows: Any, stored_cost: float, result_cost: float = 0.0) -> Any:
    """CSR rows as an array, where that is small and all its values cost less than stored ones do.

    Costs are those of a stored value and of a result, in units of a value of the array.
    """
    n_rows, n_features = rows.shape
    stored = rows.nnz / max(1, n_rows)
    fits = n_rows * n_features * rows.dtype.itemsize <= _UNPACKED_BYTES
    return rows.toarray() if fits and n_features <= stored_cost * stored + result_cost else rows


def _sparse_cost(rows: Any, k: int) -> float:
    """Of a sparse product, and of the way to it; infinite where it is not worth a look."""
    n_rows, n_features = rows.shape
    if is_sparse(rows):
        return _STORED * rows.nnz / max(1, n_rows) + _RESULT
    if n_features < _FEW_FEATURES or n_rows < _FEW_ROWS:
        return np.inf
    some = rows[:: n_rows // _LOOKED_AT]
    return _STORED * np.count_nonzero(some) / len(some) + _RESULT + _LOOK * n_features / k


def _packed(rows: np.ndarray) -> Any:
    """An array as CSR; scipy's own way takes several times as long."""
    n_rows, n_features = rows.shape
    stored = rows != 0.0
    values, places = rows.reshape(-1), np.flatnonzero(stored)
    starts = np.zeros(n_rows + 1, dtype=np.int32)
    np.cumsum(np.count_nonzero(stored, axis=1), out=starts[1:])
    columns = (places % n_features).astype(np.int32)
    return scipy.sparse.csr_matrix((values[places], columns, starts), shape=rows.shape)

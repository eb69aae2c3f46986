"""The same rows in every container that users bring them in."""

import numpy as np
import pytest
import scipy.sparse as sp


def with_long_indices(X):
    """CSR with 64-bit indices."""
    X = sp.csr_matrix(X)
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


def with_explicit_zeros(X):
    """CSR that stores zeros and has its columns in falling order."""
    X = np.asarray(X)
    n, p = X.shape
    indices = np.tile(np.arange(p)[::-1], n)
    return sp.csr_matrix((X[:, ::-1].ravel(), indices, np.arange(0, n * p + 1, p)), shape=(n, p))


SPARSE_FORMS = {
    "csr_matrix": sp.csr_matrix,
    "csr_array": sp.csr_array,
    "csc_matrix": sp.csc_matrix,
    "csc_array": sp.csc_array,
    "64-bit indices": with_long_indices,
    "explicit zeros": with_explicit_zeros,
}
DENSE_FORMS = {
    "list": lambda X: X.tolist(),
    "fortran order": np.asfortranarray,
    "every second column": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
}
FORMS = SPARSE_FORMS | DENSE_FORMS


def data_frame(library, X, names):
    """The columns of X under the given names, as a frame of "pandas" or "polars"."""
    columns = {name: X[:, position] for position, name in enumerate(names)}
    return pytest.importorskip(library).DataFrame(columns)

"""The few array operations that NumPy and torch spell differently, chosen by the array's type.

The solver's formulas are written once, for NumPy arrays and for torch tensors on any device. What
both spell alike (arithmetic, ``.sum(axis=0)``, indexing) is used as it is; functions of one name
are taken from ``namespace(x)``; the rest is here. torch is an optional dependency: a tensor can
only come from a torch that is imported already, so nothing here imports it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from lasn.memory import OrOnTheCpu, with_less_memory

# Up to this many groups are summed one after the other on a device.
_FEW_GROUPS = 64
# Products with so many columns, at most, are made the other way round.
_FEW_COLUMNS = 64


def is_tensor(array: Any) -> bool:
    """Whether the array is torch's."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def is_sparse(array: Any) -> bool:
    """Whether the array is SciPy's; ``scipy.sparse``, slow to import, is not imported to tell."""
    sparse = sys.modules.get("scipy.sparse")
    return sparse is not None and sparse.issparse(array)


def device_of(rows: Any) -> Any:
    """torch's device, of tensors and of rows on their way to it; None of NumPy's and SciPy's."""
    return None if isinstance(rows, np.ndarray) else getattr(rows, "device", None)


def namespace(array: Any) -> Any:
    """The module that has ``sqrt``, ``where``, ``sign``, ``isfinite`` ... for this array."""
    return sys.modules["torch"] if is_tensor(array) else np


def to_numpy(array: Any) -> Any:
    """A tensor as a NumPy array in this process's memory; anything else as it is."""
    return array.detach().cpu().numpy() if is_tensor(array) else array


def like(array: Any, other: Any, dtype: Any = None) -> Any:
    """An array or tensor in the place where ``other`` is, and of its dtype if none is given."""
    if is_tensor(other):
        dtype = other.dtype if dtype is None else torch_dtype(dtype)
        if not is_tensor(array):  # torch takes no array that is read-only or read backwards
            array = np.array(array)
        return sys.modules["torch"].as_tensor(array).to(other.device, dtype)
    return np.asarray(to_numpy(array)).astype(other.dtype if dtype is None else dtype, copy=False)


def taken(array: Any, positions: np.ndarray) -> Any:
    """The rows of an array, or of a tensor, at positions that NumPy holds."""
    return array[like(positions, array, np.int64) if is_tensor(array) else positions]


def torch_dtype(dtype: Any) -> Any:
    """torch's name for a NumPy dtype; its own names stay."""
    torch = sys.modules["torch"]
    return dtype if isinstance(dtype, torch.dtype) else getattr(torch, np.dtype(dtype).name)


def numpy_dtype(dtype: Any) -> np.dtype:
    """NumPy's name for torch's dtype; its own names stay."""
    return np.dtype(str(dtype).removeprefix("torch.")) if not isinstance(dtype, np.dtype) else dtype


def times(A: Any, B: Any) -> Any:
    """A B, for threads side by side: arrays, tensors or a sparse A.

    NumPy's ``@`` keeps Python's lock where the result has few values (up to 500), however many it
    has to read for them. ``dot`` never does. Of few columns B^T A^T is made, which BLAS does
    faster; they come in one piece each (``by_columns``).
    """
    if not isinstance(A, np.ndarray):
        return A @ B
    if isinstance(B, np.ndarray) and B.ndim == 2 and 1 < B.shape[1] <= _FEW_COLUMNS:
        return B.T.dot(A.T).T
    return A.dot(B)


def transposed_times(A: Any, B: Any) -> Any:
    """A^T B, for threads side by side; of few columns B^T A is made, which BLAS does faster."""
    if isinstance(A, np.ndarray) and B.ndim == 2:
        return B.T.dot(A).T
    return times(A.T, B)


def by_columns(array: Any) -> Any:
    """The array with its columns in one piece each, as ``times`` gives them; a tensor as it is."""
    return np.asfortranarray(array) if isinstance(array, np.ndarray) else array


def cast(array: Any, dtype: Any) -> Any:
    """The array in another dtype; itself where it has that one."""
    if is_tensor(array):
        return array.to(torch_dtype(dtype))
    return array.astype(dtype, copy=False)


def wide(array: Any) -> Any:
    """The array in the dtype that sums are made in: float64, where the device has it."""
    if is_tensor(array):
        return array.to(widest_dtype(array.device))
    return np.asarray(array, dtype=np.float64)


def widest_dtype(device: Any) -> Any:
    """float64, or float32 on devices of type "mps", which have no other."""
    torch = sys.modules["torch"]
    return torch.float32 if device.type == "mps" else torch.float64


@contextmanager
def float32_products(precision: str = "highest") -> Iterator[None]:
    """torch's float32 products in full ("highest") or in TF32 ("high"), whatever is set outside."""
    torch = sys.modules["torch"]
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def nonzero(mask: Any) -> Any:
    """Positions at which a mask of shape (n,) is true."""
    return mask.nonzero().squeeze(1) if is_tensor(mask) else np.flatnonzero(mask)


def positive_part(array: Any) -> Any:
    """max(0, x), elementwise."""
    return array.clamp(min=0.0) if is_tensor(array) else np.maximum(array, 0.0)


def softplus(array: Any) -> Any:
    """log(1 + exp(x)), elementwise, without overflow."""
    if is_tensor(array):
        return array.new_zeros(()).logaddexp(array)
    return np.logaddexp(0.0, array)


def sigmoid(array: Any) -> Any:
    """1 / (1 + exp(-x)), elementwise."""
    if is_tensor(array):
        return array.sigmoid()
    from scipy.special import expit  # slow to import, and not for predictions

    return expit(array)


def bincount(groups: Any, weights: Any, size: int) -> Any:
    """The sum of the weights of each group 0, 1, ..., size - 1."""
    if is_tensor(groups) and size <= _FEW_GROUPS:
        # A GPU would add them one by one, in any order: slow, and never twice the same.
        weights = wide(weights)
        return namespace(groups).stack([(weights * (groups == g)).sum() for g in range(size)])
    if is_tensor(groups):
        return groups.bincount(wide(weights), minlength=size)
    return np.bincount(groups, weights, size)


def unique_inverse(labels: Any) -> tuple[np.ndarray, Any]:
    """The distinct labels, sorted, as a NumPy array, and each label's position among them."""
    if is_tensor(labels):
        plan = OrOnTheCpu("the list of classes", labels.device)
        classes, positions = with_less_memory(
            lambda: labels.to(plan.device).unique(return_inverse=True), plan
        )
        return to_numpy(classes), positions.to(labels.device)
    classes = np.unique(labels)  # which sorts nothing where it can do without
    return classes, np.searchsorted(classes, labels)


def concatenate(parts: Sequence[Any]) -> Any:
    """The parts under each other."""
    return namespace(parts[0]).concatenate(list(parts))

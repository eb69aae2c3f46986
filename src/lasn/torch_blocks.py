"""Row blocks on a torch device: the sums of ``blocks.py`` on a GPU, or on the CPU by torch.

How rows of the feature matrix are read depends on the kernel and on the memory that is free:

- rbf on CUDA: the kernel matrix is never held; fused products compute it as they go
  (``triton_rbf.py``). Only the rows themselves, prepared for that, are kept.
- otherwise kernel values are computed block by block and kept as far as the budget reaches.

Rows that are not on the device (``torch_stream.py``) come block by block, the next one copied while
this one is worked on. What tasks keep of each row (predictions, say) stays on the device where
there is room for it, else in pinned memory of the host.

Sums over rows of one block are float32 products; blocks, and parts of them, are added in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import torch

from lasn.arrays import float32_products, is_tensor, torch_dtype, wide, widest_dtype
from lasn.blocks import ChosenRows, Work
from lasn.costs import Costs
from lasn.memory import parse_memory_limit, working_memory
from lasn.torch_kernels import TorchColumns, rows_at_a_time
from lasn.torch_rows import SparseRows, shared_tensor
from lasn.torch_stream import HostRows

# One operation of a product with a vector, in operations of a float32 matrix product; fused
# products compute every kernel value twice, kept ones are read twice. Solves are products with an
# inverse. Float64 is slow on most devices.
_COSTS = {"cuda": Costs(product=25.0, solve=25.0, factor=10.0), "cpu": Costs()}
# Numbers of float64 that tasks hold for each row and problem, and their block at most.
_STATES = 24
_MOST_ROWS = 1 << 24
# Numbers of float64 that a solve keeps for each row and problem: predictions, their changes, the
# weights of a Hessian, and the next of each while they are made.
_KEPT_STATES = 6
# Parts of the budget: for kept states; of the rest, for kept rows or features, and for the work on
# one block. Blocks that come from the host are longer: each costs a few switches of threads.
_STATES_SHARE = 0.4
_KEPT, _KEPT_OF_HOST = 0.5, 0.35
_WORK, _WORK_OF_HOST = 0.125, 0.25


def device_memory(device: torch.device, limit: Any, reserved: int = 0) -> int:
    """Bytes that a fit may still take: of the GPU's memory, or of the host's."""
    if device.type != "cuda":
        return working_memory(limit, reserved)
    free, _ = torch.cuda.mem_get_info(device)
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    available = int(0.95 * (free + unused))
    if limit is not None:
        available = min(available, parse_memory_limit(limit) - torch.cuda.memory_allocated(device))
    return max(available - reserved, 32 << 20)


class TorchBlocks:
    """Rows on a device; a :class:`lasn.blocks.BlockSource`.

    Parameters
    ----------
    X : tensor on the device, HostRows, SparseRows, or ChosenRows of them, shape (n, p)
    columns : TorchColumns or None
        The kernel against the landmarks; None when the rows of X are the features (linear kernel).
    dtype : NumPy's dtype of the features
    budget : int
        Bytes that may be taken on the device.
    n_problems : int
        Columns of targets and predictions.
    """

    def __init__(
        self,
        X: Any,
        columns: TorchColumns | None,
        dtype: Any,
        budget: int,
        n_problems: int,
        device: torch.device,
    ):
        if columns is None:
            _check_linear(X)
        self.X, self.columns, self.device = X, columns, device
        self.n_rows = X.shape[0]
        self.n_columns = X.shape[1] if columns is None else columns.n_columns
        self.dtype = np.dtype(dtype)
        self.work = Work()
        self.has_room_to_map = False  # a GPU maps rows faster than it would find them
        self.costs = _COSTS.get(device.type, _COSTS["cuda"])
        self.is_implicit = columns is not None and columns.is_implicit
        itemsize = self.dtype.itemsize
        states = 8 * _STATES * n_problems
        kept_states = 8 * _KEPT_STATES * n_problems * self.n_rows
        self.states_stay = kept_states <= _STATES_SHARE * budget
        if self.states_stay:
            budget -= kept_states
        streams = isinstance(X, HostRows)
        work = max(int((_WORK_OF_HOST if streams else _WORK) * budget), 1 << 20)
        if self.is_implicit:
            row_bytes = 2 * itemsize * (2 * X.shape[1] + 2)
            kept_bytes = 2 * itemsize * columns.prepared.shape[1]  # type: ignore[union-attr]
            size = min(_MOST_ROWS, work // (row_bytes + states))
        else:
            row_bytes = kept_bytes = itemsize * max(1, self.n_columns)
            wanted = rows_at_a_time(self.n_columns, device, itemsize)
            size = min(max(wanted, 2 * self.n_columns), work // (row_bytes + states))
        size = max(1, min(size, self.n_rows))
        self.row_bytes = row_bytes
        self.rows_a_part = max(256, min(rows_at_a_time(3 * self.n_columns, device), size))
        starts = range(0, self.n_rows, size)
        self.slices = [slice(start, min(start + size, self.n_rows)) for start in starts]
        # All blocks whose features fit; the copies of active ones count as well.
        n_kept = int((_KEPT_OF_HOST if streams else _KEPT) * budget) // (kept_bytes * size)
        self.blocks = [
            _TorchBlock(self, rows, keep=index < n_kept) for index, rows in enumerate(self.slices)
        ]

    def split(self, rows: Any) -> list[torch.Tensor]:
        tensor = shared_tensor(rows).to(self.device)
        if tensor.is_floating_point():
            tensor = wide(tensor)
        return [tensor[part] for part in self.slices]

    def collect(self, states: list[Any]) -> list[Any]:
        return [_moved(state, self._bring) for state in states]

    def place(self, value: Any) -> Any:
        """What tasks share, on the device."""
        if not isinstance(value, np.ndarray):
            return value
        tensor = shared_tensor(value)
        if tensor.dtype == torch.float64:
            tensor = tensor.to(widest_dtype(self.device))
        return tensor.to(self.device)

    def run(self, task, *states, shared=(), n_read=None):
        shared = tuple(self.place(value) for value in shared)
        results: list[Any] = []
        total: list[torch.Tensor] = []
        with torch.no_grad(), float32_products():
            for index, block in enumerate(self.blocks):
                inputs = (_moved(state[index], self._bring) for state in states)
                state, sums = task(block, *inputs, *shared)
                results.append(state if self.states_stay else _moved(state, self._put_away))
                parts = [wide(torch.as_tensor(part, device=self.device)) for part in sums]
                total = [a + b for a, b in zip(total, parts, strict=True)] if total else parts
        if not self.states_stay and self.device.type == "cuda":
            torch.cuda.current_stream(self.device).synchronize()  # what was put away is there
        return results, tuple(total)

    def _bring(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(self.device, non_blocking=True)

    def _put_away(self, tensor: torch.Tensor) -> torch.Tensor:
        """A copy in the host's memory, pinned where that makes copies faster."""
        pinned = self.device.type == "cuda"
        away = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=pinned)
        return away.copy_(tensor, non_blocking=pinned)


def _moved(state: Any, move: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """A state (a tensor, a dataclass or a tuple of them) with its tensors in another place."""
    if is_tensor(state):
        return move(state)
    if isinstance(state, tuple):
        return tuple(_moved(part, move) for part in state)
    if is_dataclass(state) and not isinstance(state, type):
        parts = {field.name: _moved(getattr(state, field.name), move) for field in fields(state)}
        return replace(state, **parts)
    return state


class _TorchBlock:
    """Features of some rows; a :class:`lasn.blocks.Block`."""

    def __init__(self, source: TorchBlocks, rows: slice, keep: bool):
        self.source, self.rows, self.keep = source, rows, keep
        self.n_rows = rows.stop - rows.start
        self.n_columns, self.dtype = source.n_columns, torch_dtype(source.dtype)
        self.row_bytes, self.spare_bytes = source.row_bytes, 0
        if not keep and isinstance(source.X, HostRows):
            self.worth_copying = 0.0  # the whole block comes in one piece, and ahead of time
        else:
            # Rows that fused products need are short.
            self.worth_copying = 0.9 if source.is_implicit else 0.5
        self.kept: Any = None  # kernel values, or the rows prepared for fused products

    @property
    def is_kept(self) -> bool:
        return self.kept is not None

    def count(self, n_rows: int) -> None:
        self.source.work.rows_read += n_rows

    def matrix(self, rows: Any = None) -> Any:
        self.count(self.n_rows if rows is None else len(rows))
        if self.kept is None and (rows is None or self.keep):
            features = self._features(None)
            if not self.keep:
                return self._read(features)
            self.kept = features
        if self.kept is None:
            return self._read(self._features(rows))
        return self._read(self.kept if rows is None else self.kept[rows])

    def gather(self, rows: torch.Tensor) -> Any:
        return self.matrix(rows) if self.source.is_implicit and self.keep else None

    def parts(self, rows: torch.Tensor) -> list[torch.Tensor]:
        return list(rows.split(self.source.rows_a_part)) if len(rows) else []

    def gram(self, F: torch.Tensor, steers: bool) -> torch.Tensor:
        """F^T F, by the TF32 units of a GPU where it steers."""
        if steers and F.dtype == torch.float32 and F.device.type == "cuda":
            return wide(gram_of_parts(F))
        return wide(F.T @ F)

    def _features(self, rows: Any) -> Any:
        """Kernel values, or prepared rows, at the given positions of the block."""
        source = self.source
        X = self._rows(rows)
        if source.columns is None:
            return X.to(self.dtype).to_dense()
        self.source.work.rows_computed += X.shape[0]
        prepared = source.columns.prepare(X)
        return prepared if source.is_implicit else source.columns.values(prepared)

    def _rows(self, rows: Any) -> Any:
        if rows is None:
            return self.source.X[self.rows]
        return self.source.X[rows + self.rows.start]

    def _read(self, features: Any) -> Any:
        columns = self.source.columns
        if columns is None or not self.source.is_implicit:
            return features
        return columns.operator(features)


def gram_of_parts(F: torch.Tensor) -> torch.Tensor:
    """F^T F for float32 F = high + low by two TF32 products, low^T low left out.

    ``high`` has the 11 digits that TF32 keeps, so only ``low`` is rounded: what is lost is about
    the 2^21-th part, against the 2^11-th of one TF32 product, which leaves a Hessian far from
    positive definite.
    """
    high = (F.view(torch.int32) & ~0x1FFF).view(torch.float32)
    with float32_products("high"):
        cross = high.T @ (F - high)
        return (high.T @ high).add_(cross).add_(cross.T)


def _check_linear(X: Any) -> None:
    """Rows of the linear kernel are dense on a device."""
    rows = X.X if isinstance(X, ChosenRows) else X
    if isinstance(rows, SparseRows) and not rows.is_narrow:
        raise ValueError(
            f"The linear kernel on sparse rows of {rows.shape[1]} features needs "
            'device="cpu": a torch device would have to unpack them.'
        )

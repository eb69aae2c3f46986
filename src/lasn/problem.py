"""What is to be fitted: rows with targets, weights and groups, in memory or on a torch device.

Training asks a problem for few things: rows to choose landmarks from, a *pool* of rows to start
from, the problem on the rows that matter, and the objective over blocks of its rows. Rows that are
neither here nor on a device give the same answers in ``chunked_problem.py``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lasn.arrays import bincount, is_sparse, is_tensor, like, nonzero, to_numpy, widest_dtype
from lasn.blocks import BlockSource, ChosenRows, MemoryBlocks, Workspace, chosen_rows
from lasn.devices import Place
from lasn.gamma import resolve_gamma
from lasn.landmarks import check_landmarks, choose_landmarks, scattered
from lasn.losses import Loss
from lasn.memory import working_memory
from lasn.model import Model
from lasn.objective import RegularizedLoss
from lasn.row_forms import packed
from lasn.threads import n_threads

# Kernel values that take no more bytes than this are kept: a look at all rows costs little then.
_EASY_TO_KEEP = 128 << 20
# For reading rows of which next to none are kept, for two threads: they are read in blocks that are
# the larger, the more threads there are.
_A_FEW_BLOCKS = 64 << 20
# A device that has not even this much memory left cannot be helped by smaller blocks.
_LEAST_BUDGET = 64 << 20


@dataclass
class Problem:
    """Rows, and what to fit to them.

    ``targets`` has shape (n, c): +-1 for each class, or real targets. ``groups``, shape (n,), are
    classes or bins of the target, for choosing landmarks. All are NumPy's, or all are on one of
    torch's devices. ``was_array`` says that X was one before it was packed, and so landmarks will
    be.
    """

    X: Any
    targets: Any
    sample_weight: Any
    groups: Any
    C: float
    loss: Loss
    was_array: bool = False

    @property
    def n_rows(self) -> int:
        return self.X.shape[0]

    @property
    def n_features(self) -> int:
        return self.X.shape[1]

    @property
    def n_problems(self) -> int:
        return self.targets.shape[1]

    @property
    def bytes_moved(self) -> int:
        """Between here and the rows; they are at hand."""
        return 0

    @property
    def device(self) -> Any:
        """torch's device; None for NumPy."""
        return self.targets.device if is_tensor(self.targets) else None

    def place(self, rows: Any) -> Any:
        """Landmarks where the rows are."""
        if rows is None:
            return rows
        return Place(self.device).landmarks(rows)

    def on(self, place: Place, memory_limit: Any) -> Problem:
        """The problem on one of torch's devices; as it is where the place has none."""
        device = place.device
        if device is None:
            return self
        from lasn.torch_rows import shared_tensor

        dtype = widest_dtype(device)
        return replace(
            self,
            X=place.rows(self.X, memory_limit),
            targets=shared_tensor(self.targets).to(device, dtype),
            sample_weight=shared_tensor(self.sample_weight).to(device, dtype),
            groups=shared_tensor(self.groups).to(device),
        )

    def sample(self, rows: Any) -> Problem:
        """The problem on some of the rows, weighted so that each group counts as in the whole."""
        size = int(self.groups.max()) + 1
        totals = to_numpy(bincount(self.groups, self.sample_weight, size))
        return self.only(rows).weighing(totals)

    def drawn(self, size: int, rng) -> Problem:
        """The problem on so many random rows, weighted like any sample."""
        return self.sample(scattered(self.n_rows, size, rng))

    def weighing(self, totals: np.ndarray) -> Problem:
        """The same rows with weights that sum up to the given totals of the groups."""
        groups, weight, size = self.groups, self.sample_weight, len(totals)
        part = to_numpy(bincount(groups, weight, size))
        scale = np.divide(totals, part, out=np.zeros(size), where=part > 0.0)
        return replace(self, sample_weight=weight * like(scale, weight)[groups])

    def only(self, rows: Any) -> Problem:
        """The problem on some of the rows, as if there were no others.

        Their positions may come from anywhere; they are kept where the problem is.
        """
        rows = like(rows, self.groups, np.int64)
        return replace(
            self,
            X=chosen_rows(self.X, rows),
            targets=self.targets[rows],
            sample_weight=self.sample_weight[rows],
            groups=self.groups[rows],
        )

    def without_zero_weights(self) -> Problem:
        """Rows of weight zero are absent: they may not become landmarks either."""
        present = self.sample_weight > 0.0
        if present.all():
            return self
        return self.keeping(nonzero(present))

    def keeping(self, rows: Any) -> Problem:
        """The same as ``only``, for good: rows that are here are copied once rather than often."""
        chosen = self.only(rows)
        if isinstance(chosen.X, ChosenRows):
            return replace(chosen, X=self.X[rows])
        return chosen

    def packed(self) -> Problem:
        """The same with an array of mostly zeros as CSR, for kernels of inner products."""
        if not isinstance(self.X, np.ndarray):
            return self
        X = packed(self.X)
        return self if X is self.X else replace(self, X=X, was_array=True)

    def gamma(self, gamma: Any) -> float:
        """The number that the parameter ``gamma`` stands for."""
        return resolve_gamma(gamma, self.X, self.sample_weight)

    def landmarks(self, method: str, k: int, rng, active_rows) -> Any:
        """Step 1: k landmarks; ``active_rows(landmarks, sample, rows)`` fits a sample of rows."""

        def look(first, rows, X):
            sample = self.sample(rows)
            if self.device is None:  # they have just been copied
                sample = replace(sample, X=X)
            return active_rows(first, sample, rows)

        chosen = choose_landmarks(
            method,
            self.X,
            k,
            groups=self.groups,
            sample_weight=self.sample_weight,
            rng=rng,
            active_rows=look,
        )
        return chosen.toarray() if self.was_array and is_sparse(chosen) else chosen

    def own_landmarks(self, landmarks: Any) -> Any:
        """A user's own landmarks, checked, where the rows are."""
        return self.place(check_landmarks(landmarks, self.X))

    def pool(self, rng) -> Problem:
        """Rows to start from: all of them are at hand."""
        return self

    def near(self, model: Model, margin: float, scores: Any = None) -> Problem:
        """The problem on the rows that are active, or nearer to it than the margin.

        The model's scores may be known.
        """
        scores = model.scores(self.X) if scores is None else scores
        rests = self.loss.rests(self.targets, scores, margin)
        return self.only(nonzero(~rests.all(axis=1)))

    def is_cheap(self, model: Model, memory: Memory) -> bool:
        """Whether computing kernel values again costs little, against keeping them."""
        if model.landmarks is None:
            return False
        if self.device is None and memory.keeps_easily(self.n_rows, model):
            return False
        return model.columns.is_cheap(self.X, memory.keeps(self.n_rows, model))

    def free_memory(self, limit: Any, reserved: int) -> int:
        """Bytes that may still be taken, where the rows are."""
        return free_memory(self.device, limit, reserved)

    def objective(self, model: Model, memory: Memory, once: bool) -> RegularizedLoss:
        """Step 4: the reduced problem over blocks of rows; ``once``: they will be read once."""
        columns = model.columns
        if self.device is None:
            blocks: BlockSource = MemoryBlocks(
                self.X, columns, model.dtype, memory.budget, memory.workspace, once
            )
        else:
            from lasn.torch_blocks import TorchBlocks

            blocks = TorchBlocks(
                self.X, columns, model.dtype, memory.budget, self.n_problems, self.device
            )
        costs = self.C * self.sample_weight
        return RegularizedLoss(blocks, model.mapping, self.loss, self.targets, costs)


@dataclass
class Memory:
    """How many bytes of features may be kept, and where; and what a fit inside this one is told.

    A plan for a device whose memory runs out: smaller blocks.
    """

    budget: int
    workspace: Workspace
    limits: dict[str, Any]
    device: Any = None

    def keeps(self, n_rows: int, model: Model) -> bool:
        """Whether there is room for the kernel values of so many rows."""
        return _size(n_rows, model) <= self.budget

    def keeps_easily(self, n_rows: int, model: Model) -> bool:
        """Whether they are so few that it would not pay to do without."""
        return _size(n_rows, model) <= min(self.budget, _EASY_TO_KEEP)

    def set_aside(self) -> Memory:
        """A little of it, for rows of which next to none are kept: room for a few blocks."""
        few = min(self.budget // 8, _A_FEW_BLOCKS * max(1, n_threads() // 2))
        self.budget -= few
        return replace(self, budget=few, workspace=Workspace())

    def can_shrink(self) -> bool:
        return self.device is not None and self.budget > _LEAST_BUDGET

    def shrink(self) -> str:
        """Half of the budget, or what others have left of it."""
        self.budget //= 2
        if self.device is not None and self.device.type == "cuda":
            free = free_memory(self.device, self.limits["memory_limit"], 0)
            self.budget = max(min(self.budget, free), _LEAST_BUDGET // 2)
        return f"blocks of {self.budget / 1e9:.2f} GB in all"


def _size(n_rows: int, model: Model) -> int:
    """Bytes of the kernel values of so many rows."""
    return n_rows * model.landmarks.shape[0] * model.dtype.itemsize


def free_memory(device: Any, limit: Any, reserved: int) -> int:
    """Bytes that may still be taken, on the device or, where it is None, here."""
    if device is None:
        return working_memory(limit, reserved)
    from lasn.torch_blocks import device_memory

    return device_memory(device, limit, reserved)

"""The places where the suite runs: NumPy, torch on the CPU, and a CUDA GPU where there is one.

A file of tests that hold wherever a fit happens says ``pytestmark = every_place``. Each of them
then runs once in each place, with the same assertions: what estimators call ``device="cpu"``, their
default, is that place. Tests of what estimators are made of ask for the fixture ``place`` and put
their arrays there.

What cannot leave the CPU is in ``CPU_ONLY``, with the reason.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from devices import tensors_are_no_arrays, torch_device

from lasn import features, machine, selection
from lasn.blocks import MemoryBlocks
from lasn.devices import resolve_device

PLACES = ["numpy", "torch", "cuda"]

_WIDE_LINEAR = "the linear kernel on sparse rows of many features is the CPU's, and says so"
_COUNTED = "it looks at what NumPy's kernels and blocks are asked for"
_MEASURED = "it measures NumPy's memory"
_MASKED = "a device reads whole blocks of what it keeps, with weight 0 for rows that rest"

# Beginnings of tests' names, file and parameters included.
CPU_ONLY = {
    "test_objective::test_a_hessian_product_reads_active_rows_only[torch-1073741824]": _MASKED,
    "test_objective::test_a_hessian_product_reads_active_rows_only[cuda-1073741824]": _MASKED,
    "test_containers::test_wide_sparse_rows_are_never_densified[torch-linear]": _WIDE_LINEAR,
    "test_containers::test_wide_sparse_rows_are_never_densified[cuda-linear]": _WIDE_LINEAR,
    "test_certificate::test_it_is_silent_and_keeps_to_its_memory": _MEASURED,
    "test_selection::test_folds_and_Cs_add_no_kernel_values_and_no_features": _COUNTED,
    "test_selection::test_strict_landmarks_come_from_training_rows_only": _COUNTED,
}

__all__ = ["every_place", "place", "tensors_are_no_arrays"]
every_place = pytest.mark.usefixtures("place")


@dataclass(frozen=True)
class Place:
    """Where arrays are: ``device`` is torch's, or None for NumPy."""

    name: str
    device: Any

    def array(self, values):
        """NumPy's array, or a tensor on the device."""
        if self.device is None:
            return values
        import torch

        return torch.as_tensor(np.array(values)).to(self.device)

    def rows(self, X):
        """Rows in the form in which blocks and kernels take them here."""
        if self.device is None:
            return X
        from lasn.torch_rows import place_rows

        return place_rows(X, self.device, memory=1 << 40) if sp.issparse(X) else self.array(X)

    def blocks(self, X, columns, dtype, budget, n_problems=1):
        """A source of blocks of rows that are here."""
        if self.device is None:
            return MemoryBlocks(X, columns, dtype, budget)
        from lasn.torch_blocks import TorchBlocks

        return TorchBlocks(X, columns, dtype, budget, n_problems, self.device)


@pytest.fixture(params=PLACES)
def place(request, monkeypatch):
    """One place after the other; inside, ``device="cpu"`` is that place."""
    name = request.param
    if name == "numpy":
        return Place(name, None)
    test = f"{request.path.stem}::{request.node.name}"
    for beginning, reason in CPU_ONLY.items():
        if test.startswith(beginning):
            pytest.skip(f"CPU only: {reason}")
    torch_device(name)
    request.getfixturevalue("tensors_are_no_arrays")
    here = Place(name, resolve_device(name))

    def resolve(device):
        return here.device if device == "cpu" else resolve_device(device)

    for module in (features, machine, selection):
        monkeypatch.setattr(module, "resolve_device", resolve)
    return here

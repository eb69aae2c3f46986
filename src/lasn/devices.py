"""``device``: where a fit happens, and arrays that come from, and go back to, other libraries.

========== ===================================================================
device     computes with
========== ===================================================================
"cpu"      NumPy, all cores
"cuda"     torch, the current CUDA GPU ("cuda:1": the second one)
"mps"      torch, the GPU of Apple's processors
"torch"    torch on the CPU
========== ===================================================================

Rows may be NumPy's, SciPy's or torch's, or of any library with DLPack and the array API (CuPy,
JAX). What is predicted comes back as the rows came, on the device where they are.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from lasn.arrays import is_tensor, to_numpy
from lasn.memory import for_each_part

# A check of all values at once would take a quarter of their memory again.
_VALUES_AT_ONCE = 1 << 28
_TORCH_DEVICES = r"torch|mps|cuda(:\d+)?"


def is_device_name(name: Any) -> bool:
    """Whether the text is one of the table above."""
    return isinstance(name, str) and re.fullmatch(f"cpu|{_TORCH_DEVICES}", name) is not None


def resolve_device(name: str) -> Any:
    """torch's device for a name of the table above; None for "cpu", which is NumPy's."""
    if name == "cpu":
        return None
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            f"device={name!r} needs torch, which is not installed. Install it with "
            "pip install 'lasn[gpu]', or use device=\"cpu\"."
        ) from error
    if name == "torch":
        return torch.device("cpu")
    device = torch.device(name)
    if device.type == "mps":
        if not torch.backends.mps.is_available():
            raise ValueError(f'device={name!r}, but torch sees no such GPU. Use device="cpu".')
        return torch.device("mps", 0)
    n_gpus = torch.cuda.device_count()
    if not torch.cuda.is_available() or (device.index or 0) >= n_gpus:
        raise ValueError(
            f"device={name!r}, but torch {torch.__version__} sees {n_gpus} CUDA GPUs. Use "
            'device="cpu", or install a torch that was built for this machine\'s CUDA driver.'
        )
    index = torch.cuda.current_device() if device.index is None else device.index
    return torch.device("cuda", index)


class Place:
    """Where work on rows happens, a plan for a device whose memory runs out.

    Rows are taken to the device where they fit. If memory runs out, they stay outside, in the
    host's memory, and come block by block. If it runs out again, torch works on the CPU.
    """

    def __init__(self, device: Any):
        self.device = device
        self._takes_rows = device is not None
        self._is_last = False

    def rows(self, X: Any, memory_limit: Any) -> Any:
        """Rows in the form in which they are worked on here; as they are where that is NumPy."""
        if self.device is None:
            return X
        from lasn.torch_blocks import device_memory
        from lasn.torch_rows import place_rows

        memory = device_memory(self.device, memory_limit) if self._takes_rows else 0
        rows = place_rows(X, self.device, memory)
        was_inside = is_tensor(X) and X.device.type != "cpu"
        self._takes_rows = is_tensor(rows) and not was_inside
        return rows

    def landmarks(self, landmarks: Any) -> Any:
        """The same for landmarks, which are few."""
        if self.device is None:
            return landmarks
        from lasn.torch_rows import place_landmarks

        return place_landmarks(landmarks, self.device)

    def can_shrink(self) -> bool:
        return self.device is not None and not self._is_last

    def shrink(self) -> str:
        if self._takes_rows:
            self._takes_rows = False
            return "rows that stay in the host's memory"
        self.device = resolve_device("torch")
        self._takes_rows = self._is_last = True
        return "the CPU"


def is_foreign(array: Any) -> bool:
    """Whether an array is another library's: torch's, or one with DLPack and the array API."""
    if is_tensor(array):
        return True
    speaks = hasattr(array, "__dlpack__") and hasattr(array, "__array_namespace__")
    return speaks and not isinstance(array, (np.ndarray, np.generic))


def as_tensor(array: Any) -> Any:
    """A foreign array as a tensor, sharing its memory; anything else as it is."""
    if is_tensor(array):
        return array.detach()
    if not is_foreign(array):
        return array
    import torch

    return torch.from_dlpack(array)


def as_host_tensor(array: Any) -> Any:
    """A foreign array as a tensor in the host's memory; anything else as it is."""
    return as_tensor(array).cpu() if is_foreign(array) else array


def as_numpy(array: Any) -> Any:
    """A foreign array in this process's memory, as NumPy's; anything else as it is."""
    if not is_foreign(array):
        return array
    if is_tensor(array):
        return to_numpy(array)
    try:
        return np.from_dlpack(array)
    except (BufferError, RuntimeError, TypeError):  # it is on a GPU
        return to_numpy(as_tensor(array))


def give_back(values: Any, X: Any) -> Any:
    """Values in the library, and on the device, that X came from.

    Labels that are text stay NumPy's: no other library has them.
    """
    if not is_foreign(X) or (isinstance(values, np.ndarray) and values.dtype.kind not in "biuf"):
        return to_numpy(values)
    if is_tensor(X):
        import torch

        return torch.as_tensor(values).to(X.device)
    if is_tensor(values):
        values = values.to(as_tensor(X).device)
    return X.__array_namespace__().from_dlpack(values)


def check_tensor(name: str, tensor: Any, ndim: tuple[int, ...] = (2,)) -> Any:
    """A tensor of finite floating point numbers, or an error that says what is wrong with it."""
    import torch

    if tensor.ndim not in ndim:
        expected = " or ".join(f"{d}D" for d in ndim)
        raise ValueError(
            f"Expected {expected} array, got {tensor.ndim}D array instead: {name} has shape "
            f"{tuple(tensor.shape)}."
        )
    if min(tensor.shape) == 0:
        raise ValueError(
            f"Found array with 0 sample(s) or features: {name} has shape {tuple(tensor.shape)}."
        )
    if tensor.is_complex():
        raise ValueError(f"Complex data not supported: {name} is {tensor.dtype}.")
    if tensor.dtype in (torch.float16, torch.bfloat16):
        tensor = tensor.to(torch.float32)
    elif not tensor.is_floating_point():
        tensor = tensor.to(torch.float32 if tensor.device.type == "mps" else torch.float64)

    def check_part(rows: slice) -> None:
        if not bool(torch.isfinite(tensor[rows]).all()):
            raise ValueError(f"Input {name} contains NaN or infinity; every value must be finite.")

    size = max(1, _VALUES_AT_ONCE // max(1, tensor[0].numel()))
    for_each_part(tensor.shape[0], size, check_part)
    return tensor

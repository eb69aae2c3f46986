"""The places where fits are tested: torch on the CPU, and a CUDA GPU where there is one."""

import pytest


def torch_device(name):
    """torch, with the device that an estimator calls ``name``; the test is skipped without it."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if name == "cuda" and not torch.cuda.is_available():
        pytest.skip("torch sees no CUDA GPU")
    return torch, torch.device("cpu" if name == "torch" else name)


@pytest.fixture
def tensors_are_no_arrays(monkeypatch):
    """Let torch be as strict on the CPU as on a GPU: NumPy may not take a tensor for an array."""
    torch = pytest.importorskip("torch", reason="torch is not installed")

    def refuse(tensor, *arguments, **options):
        raise TypeError("can't convert a device's tensor to numpy: bring it here first")

    monkeypatch.setattr(torch.Tensor, "__array__", refuse)


every_device = pytest.mark.parametrize("device", ["torch", "cuda"])

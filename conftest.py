"""Doctests are collected from every module; those of optional dependencies only where these are."""

from importlib.util import find_spec

_NEEDS = {"torch_blocks": "torch", "torch_kernels": "torch", "torch_rows": "torch"}
_NEEDS |= {"triton_rbf": "triton", "displays": "matplotlib"}

collect_ignore = [f"src/lasn/{name}.py" for name, needed in _NEEDS.items() if not find_spec(needed)]

"""Doctests are collected from every module; those of optional dependencies only where these are."""

from importlib.util import find_spec

_NEEDS = {f"torch_{name}": "torch" for name in ("blocks", "gram", "kernels", "rows", "stream")}
_NEEDS |= {"triton_rbf": "triton", "displays": "matplotlib"}

collect_ignore = [f"src/lasn/{name}.py" for name, needed in _NEEDS.items() if not find_spec(needed)]

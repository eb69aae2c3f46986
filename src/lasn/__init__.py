"""LASN: kernel support vector machines at the speed of dense linear algebra."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lasn.certificate import certify
    from lasn.displays import ConvergenceDisplay, LandmarkCurveDisplay, SpectrumDisplay
    from lasn.estimators import LASNClassifier, LASNRegressor
    from lasn.features import NystroemMap
    from lasn.onnx_export import to_onnx
    from lasn.persist import ModelFileError, load, save
    from lasn.selection import LASNClassifierCV, LASNRegressorCV

__all__ = [
    "ConvergenceDisplay",
    "LASNClassifier",
    "LASNClassifierCV",
    "LASNRegressor",
    "LASNRegressorCV",
    "LandmarkCurveDisplay",
    "ModelFileError",
    "NystroemMap",
    "RefineCurveDisplay",
    "SpectrumDisplay",
    "__version__",
    "certify",
    "load",
    "save",
    "to_onnx",
]
__version__ = "0.1.0"

# Imported when first asked for: nobody waits for what is not used.
_MODULES = {"datasets", "onnx_export", "persist", "report", "tables"}
_LAZY = {
    "ConvergenceDisplay": "displays",
    "LASNClassifier": "estimators",
    "LASNClassifierCV": "selection",
    "LASNRegressor": "estimators",
    "LASNRegressorCV": "selection",
    "LandmarkCurveDisplay": "displays",
    "ModelFileError": "persist",
    "NystroemMap": "features",
    "RefineCurveDisplay": "displays",
    "SpectrumDisplay": "displays",
    "certify": "certificate",
    "load": "persist",
    "save": "persist",
    "to_onnx": "onnx_export",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"lasn.{name}")
    if name in _LAZY:
        return getattr(import_module(f"lasn.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'lasn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *_MODULES})

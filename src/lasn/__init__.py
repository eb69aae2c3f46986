"""LASN: kernel support vector machines at the speed of dense linear algebra."""

from lasn.certificate import certify
from lasn.estimators import LASNClassifier, LASNRegressor
from lasn.features import NystroemMap

__all__ = ["LASNClassifier", "LASNRegressor", "NystroemMap", "__version__", "certify"]
__version__ = "0.1.0"

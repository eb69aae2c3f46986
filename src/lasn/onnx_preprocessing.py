"""ONNX forms of preprocessing that skl2onnx has in float32 only, or where it would not be exact."""

from __future__ import annotations

import numpy as np
from skl2onnx.common._registration import get_converter, get_shape_calculator
from skl2onnx.common.data_types import StringTensorType
from skl2onnx.operator_converters.common import concatenate_variables
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder

from lasn.onnx_graph import Graph


def _imputer_shapes(operator) -> None:
    first = operator.inputs[0]
    n_columns = len(operator.raw_operator.statistics_)
    operator.outputs[0].set_type(type(first.type)([first.get_first_dimension(), n_columns]))


def _convert_imputer(scope, operator, container) -> None:
    """Where a value is missing (NaN, or text that is empty), the column's statistic."""
    imputer = operator.raw_operator
    rows = concatenate_variables(scope, operator.inputs, container)
    graph = Graph(scope, container)
    text = isinstance(operator.inputs[0].type, StringTensorType)
    missing = imputer.missing_values
    if imputer.add_indicator or not (missing is None or missing != missing):
        raise NotImplementedError("a SimpleImputer of other values than NaN, or with an indicator")
    if text:
        is_missing = graph("Equal", rows, graph.text([""]))
        statistics = graph.text(imputer.statistics_)
    else:
        if np.isnan(imputer.statistics_).any():
            raise NotImplementedError("a SimpleImputer that was fitted to a column without values")
        is_missing = graph("IsNaN", rows)
        statistics = graph.constant(imputer.statistics_)
    graph("Where", is_missing, statistics, rows, output=operator.outputs[0].full_name)


def _convert_encoder(scope, operator, container) -> None:
    """As skl2onnx does it, unless missing values are a category: a graph has no value for them."""
    for known in operator.raw_operator.categories_:
        if any(value is None or value != value for value in known):
            raise NotImplementedError(
                "a OneHotEncoder with a category for missing values; put a SimpleImputer before it"
            )
    get_converter("SklearnOneHotEncoder")(scope, operator, container)


CONVERTERS = {SimpleImputer: _convert_imputer, OneHotEncoder: _convert_encoder}
SHAPE_CALCULATORS = {
    SimpleImputer: _imputer_shapes,
    OneHotEncoder: get_shape_calculator("SklearnOneHotEncoder"),
}

"""ONNX: a trained model as a graph that other runtimes compute.

``to_onnx`` converts an estimator of this package, or a pipeline that ends in one;
``register_converters`` teaches skl2onnx to convert them wherever they stand.

Outputs are named after what they equal:

=================  =====================================================================
label              ``predict`` of a classifier, shape (N,)
probabilities      ``predict_proba``, shape (N, n_classes), of classifiers that have it
scores             ``decision_function``, shape (N,) for two classes, (N, n_classes) for more
variable           ``predict`` of a regressor, shape (N, n_targets); ``transform`` of a map
=================  =====================================================================

They are equal to 1e-4, or to 1e-4 of the largest score if that is above 1; so are labels, except of
rows whose two best scores are no further apart than that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from lasn.estimators import LASNClassifier, LASNRegressor
from lasn.features import NystroemMap
from lasn.selection import LASNClassifierCV, LASNRegressorCV

_INSTALL = "pip install 'lasn[onnx]'"


def to_onnx(
    model,
    *,
    dtype: str = "float32",
    target_opset: int | None = None,
    column_names: Sequence[str] | None = None,
):
    """Convert a fitted model to an ONNX graph.

    Rows may come in float32 or float64; the graph computes in float64 either way, so that data
    far from zero keeps its digits.

    Parameters
    ----------
    model : estimator of this package, or Pipeline that ends in one
        A pipeline that begins with a ColumnTransformer that was fitted on a data frame, or to
        columns of text, gets one input a column, of shape (N, 1) and under the column's name; text
        columns take strings, in which the empty string stands for a missing one. Any other model
        gets the input ``X`` of shape (N, n_features).
    dtype : {"float32", "float64"}, default="float32"
        Of the inputs that are numbers, and of the outputs but the label. Rows are those of
        ``predict`` in float64 after rounding to this.
    target_opset : int, optional
        Of the ONNX operators; the latest that skl2onnx knows by default.
    column_names : sequence of str, optional
        Names of the inputs where there is one a column and the model does not know its name;
        x0, x1, ... by default.

    Returns
    -------
    onnx_model : onnx.ModelProto
        ``onnx_model.SerializeToString()`` is what a file holds.

    Raises
    ------
    ImportError
        If onnx or skl2onnx is missing.
    ValueError
        If the model has a part that has no ONNX form, as kernels that are functions have none, or
        landmarks that are too large when dense.

    Examples
    --------
    >>> import lasn
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = lasn.LASNClassifier(n_landmarks=20, random_state=0).fit(X, y)
    >>> graph = lasn.to_onnx(model).graph
    >>> [output.name for output in graph.output]
    ['label', 'scores']
    """
    if dtype not in ("float32", "float64"):
        raise ValueError(f"dtype={dtype!r} is not accepted: dtype must be 'float32' or 'float64'.")
    check_is_fitted(model)
    register_converters()
    from skl2onnx import convert_sklearn
    from skl2onnx.common.exceptions import MissingConverter, MissingShapeCalculator

    from lasn.onnx_preprocessing import CONVERTERS, SHAPE_CALCULATORS

    try:
        converted = convert_sklearn(
            model,
            name=type(model).__name__,
            initial_types=list(_inputs(model, column_names)),
            target_opset=target_opset,
            custom_conversion_functions=CONVERTERS,
            custom_shape_calculators=SHAPE_CALCULATORS,
        )
    except (MissingConverter, MissingShapeCalculator, NotImplementedError, RuntimeError) as error:
        raise ValueError(
            f"This {type(model).__name__} has a part without an ONNX form: {error}"
        ) from error
    _drop_unused_inputs(converted.graph)
    if dtype == "float32":
        _put_float32_at_the_ends(converted.graph)
    return converted


def register_converters() -> None:
    """Teach skl2onnx to convert classifiers, regressors (also the tuned ones) and NystroemMap.

    Call it before ``skl2onnx.to_onnx`` or ``skl2onnx.convert_sklearn``. A second call changes
    nothing. ZipMap is not supported: probabilities are an array.

    Examples
    --------
    >>> from lasn.onnx_export import register_converters
    >>> register_converters()
    """
    try:
        import onnx  # noqa: F401
        from skl2onnx import update_registered_converter
    except ImportError as error:
        raise ImportError(f"ONNX export needs onnx and skl2onnx: {_INSTALL}") from error
    for classifier in (LASNClassifier, LASNClassifierCV):
        update_registered_converter(
            classifier,
            f"Lasn{classifier.__name__}",
            _classifier_shapes,
            _convert_classifier,
            parser=_parse_classifier,
            options={"zipmap": [False], "nocl": [True, False]},
        )
    for regressor in (LASNRegressor, LASNRegressorCV):
        update_registered_converter(
            regressor, f"Lasn{regressor.__name__}", _regressor_shapes, _convert_regressor
        )
    update_registered_converter(NystroemMap, "LasnNystroemMap", _map_shapes, _convert_map)


def _parse_classifier(scope, model, inputs, custom_parsers=None):
    """Declare what the classifier gives: a label, probabilities if it has them, scores."""
    from skl2onnx.common.data_types import Int64TensorType, guess_tensor_type

    operator = scope.declare_local_operator(f"Lasn{type(model).__name__}", model)
    operator.inputs = inputs
    operator.outputs.append(scope.declare_local_variable("label", Int64TensorType()))
    for name in _score_outputs(model):
        kind = guess_tensor_type(inputs[0].type)
        operator.outputs.append(scope.declare_local_variable(name, kind))
    return operator.outputs


def _classifier_shapes(operator) -> None:
    from skl2onnx.common import data_types

    from lasn.onnx_graph import label_kind

    classes = operator.raw_operator.classes_
    kinds = {
        str: data_types.StringTensorType,
        np.bool_: data_types.BooleanTensorType,
        np.int64: data_types.Int64TensorType,
        np.float64: data_types.DoubleTensorType,
    }
    n_rows = operator.inputs[0].get_first_dimension()
    label, *others = operator.outputs
    label.set_type(kinds[label_kind(classes)]([n_rows]))
    for output, what in zip(others, _score_outputs(operator.raw_operator), strict=False):
        wide = what == "probabilities" or len(classes) > 2
        output.set_type(_float_type(operator)([n_rows, len(classes)] if wide else [n_rows]))


def _regressor_shapes(operator) -> None:
    n_targets = np.atleast_1d(operator.raw_operator.intercept_).shape[0]
    n_rows = operator.inputs[0].get_first_dimension()
    operator.outputs[0].set_type(_float_type(operator)([n_rows, n_targets]))


def _map_shapes(operator) -> None:
    n_rows = operator.inputs[0].get_first_dimension()
    n_features = operator.raw_operator.mapping_.shape[1]
    operator.outputs[0].set_type(_float_type(operator)([n_rows, n_features]))


def _convert_classifier(scope, operator, container) -> None:
    from lasn import onnx_graph

    graph, rows, float_type = _begin(scope, operator, container)
    estimator = operator.raw_operator
    scores = onnx_graph.scores(graph, rows, estimator)
    label, *others = (output.full_name for output in operator.outputs)
    onnx_graph.labels(graph, scores, estimator.classes_, label)
    n_classes = len(estimator.classes_)
    for output, what in zip(others, _score_outputs(estimator), strict=False):
        if what == "probabilities":
            values = onnx_graph.probabilities(graph, scores, estimator)
        elif n_classes == 2:
            values = graph("Reshape", scores, graph.constant([-1], np.int64))
        else:
            values = scores
        graph.cast(values, float_type, output)


def _convert_regressor(scope, operator, container) -> None:
    from lasn import onnx_graph

    graph, rows, float_type = _begin(scope, operator, container)
    values = onnx_graph.scores(graph, rows, operator.raw_operator)
    graph.cast(values, float_type, operator.outputs[0].full_name)


def _convert_map(scope, operator, container) -> None:
    from lasn import onnx_graph

    graph, rows, float_type = _begin(scope, operator, container)
    values = onnx_graph.kernel_values(graph, rows, operator.raw_operator)
    features = graph("MatMul", values, graph.constant(operator.raw_operator.mapping_))
    graph.cast(features, float_type, operator.outputs[0].full_name)


def _score_outputs(estimator) -> list[str]:
    """What follows the label; others that embed the classifier take only the first of them."""
    return ["probabilities", "scores"] if hasattr(estimator, "predict_proba") else ["scores"]


def _begin(scope, operator, container):
    """A graph to add to, the rows in float64, and the type of the outputs."""
    from onnx import TensorProto

    from lasn.onnx_graph import Graph

    if callable(operator.raw_operator.kernel):
        raise ValueError(
            f"The kernel of this {type(operator.raw_operator).__name__} is a function of yours, "
            "which has no ONNX form. Fit with one of the kernels that have a name."
        )
    graph = Graph(scope, container)
    parts = [graph.cast(part.full_name, TensorProto.DOUBLE) for part in operator.inputs]
    rows = parts[0] if len(parts) == 1 else graph("Concat", *parts, axis=1)
    return graph, rows, TensorProto.DOUBLE if _is_double(operator) else TensorProto.FLOAT


def _is_double(operator) -> bool:
    from skl2onnx.common.data_types import DoubleTensorType

    return isinstance(operator.inputs[0].type, DoubleTensorType)


def _float_type(operator):
    """Outputs are float64 for float64 rows, float32 for all others."""
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

    return DoubleTensorType if _is_double(operator) else FloatTensorType


def _inputs(model, column_names: Sequence[str] | None) -> Iterator[tuple[str, Any]]:
    """Names and types of the inputs: columns one by one where they have names or text, else X."""
    from skl2onnx.common.data_types import DoubleTensorType, StringTensorType

    first = model.steps[0][1] if hasattr(model, "steps") else model
    text = set(_text_columns(first)) if hasattr(first, "transformers_") else set()
    if not (text or (hasattr(first, "transformers_") and hasattr(first, "feature_names_in_"))):
        yield "X", DoubleTensorType([None, first.n_features_in_])
        return
    unknown = column_names or [f"x{position}" for position in range(first.n_features_in_)]
    for position, name in enumerate(getattr(first, "feature_names_in_", unknown)):
        yield str(name), (StringTensorType if position in text else DoubleTensorType)([None, 1])


def _text_columns(columns) -> Iterator[int]:
    """Positions of the columns whose first transformer was fitted to text."""
    positions = columns._transformer_to_input_indices
    for name, transformer, _ in columns.transformers_:
        first = transformer.steps[0][1] if hasattr(transformer, "steps") else transformer
        if hasattr(first, "categories_"):
            kinds = [known.dtype.kind for known in first.categories_]
        elif hasattr(first, "statistics_"):
            kinds = [first.statistics_.dtype.kind] * len(positions[name])
        else:
            continue
        for position, kind in zip(positions[name], kinds, strict=True):
            if kind in "OU":
                yield position


def _drop_unused_inputs(graph) -> None:
    """Columns that a ColumnTransformer drops need not be sent."""
    used = {name for node in graph.node for name in node.input}
    kept = [value for value in graph.input if value.name in used]
    del graph.input[:]
    graph.input.extend(kept)


def _put_float32_at_the_ends(graph) -> None:
    """Take and give float32 where the graph takes and gives float64; labels stay as they are."""
    from onnx import TensorProto, helper

    inner: dict[str, str] = {}
    before: list[Any] = []
    after: list[Any] = []
    for values, nodes, incoming in ((graph.input, before, True), (graph.output, after, False)):
        for value in values:
            kind = value.type.tensor_type
            if kind.elem_type != TensorProto.DOUBLE or value.name == "label":
                continue
            kind.elem_type = TensorProto.FLOAT
            inner[value.name] = f"{value.name}_float64"
            ends = [value.name, inner[value.name]]
            source, target = ends if incoming else ends[::-1]
            to = TensorProto.DOUBLE if incoming else TensorProto.FLOAT
            nodes.append(helper.make_node("Cast", [source], [target], name=f"end_{target}", to=to))
    for node in graph.node:
        for names in (node.input, node.output):
            names[:] = [inner.get(name, name) for name in names]
    whole = [*before, *graph.node, *after]
    del graph.node[:]
    graph.node.extend(whole)

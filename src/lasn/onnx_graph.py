"""The decision function as ONNX operators, in float64 whatever comes in and goes out.

With centred rows x and landmarks l (moved by the landmarks' mean), for N rows::

    rbf         Exp(Min(0, x (2 gamma L^T) - gamma |x|^2 - gamma |l|^2))
    polynomial  Pow(x (gamma L^T) + coef0, degree)          not centred
    tanh        Tanh(x (gamma L^T) + coef0)                 not centred
    laplacian   Exp(-gamma D), D = sum over features j of |x_j - l_j|, a Scan that holds N x k
    scores      K beta + b

A graph holds N x k float64 values at its widest: send rows in batches of some thousands. Its
scores are those of ``decision_function`` to 1e-4, or to 1e-4 of the largest score if that is above
1: where features are float32, predictions are rounded as far as :mod:`lasn.prediction` allows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from onnx import TensorProto, helper, numpy_helper

from lasn.calibration import TILT, SigmoidCalibration
from lasn.kernels import resolve_kernel_name

# Landmarks are dense in a graph, and a serialised graph must stay under 2 GB.
MAX_LANDMARK_BYTES = 1 << 29


class Graph:
    """Adds operators and constants to what skl2onnx converts."""

    def __init__(self, scope, container):
        self.scope = scope
        self.container = container

    def constant(self, value, dtype=np.float64) -> str:
        name = self.scope.get_unique_variable_name("lasn_constant")
        tensor = numpy_helper.from_array(np.ascontiguousarray(value, dtype=dtype), name)
        self.container.add_initializer(name, tensor.data_type, list(tensor.dims), tensor)
        return name

    def text(self, values) -> str:
        name = self.scope.get_unique_variable_name("lasn_labels")
        encoded = [str(value).encode() for value in values]
        self.container.add_initializer(name, TensorProto.STRING, [len(encoded)], encoded)
        return name

    def __call__(self, operator: str, *inputs: str, output: str | None = None, **attributes) -> str:
        """Add one operator; the name of its result."""
        name = output or self.scope.get_unique_variable_name(f"lasn_{operator.lower()}")
        unique = self.scope.get_unique_operator_name(operator)
        self.container.add_node(operator, list(inputs), [name], name=unique, **attributes)
        return name

    def cast(self, value: str, to: int, output: str | None = None) -> str:
        return self("Cast", value, to=to, output=output)


def kernel_values(graph: Graph, rows: str, estimator: Any) -> str:
    """K(rows, landmarks) of a fitted estimator, (N, k); ``rows`` are float64."""
    landmarks = _dense_landmarks(estimator)
    gamma = estimator.gamma_
    name = resolve_kernel_name(estimator.kernel)
    if name == "rbf":
        return _rbf(graph, rows, landmarks, gamma)
    if name == "laplacian":
        distances = _manhattan_distances(graph, rows, landmarks)
        return graph("Exp", graph("Mul", distances, graph.constant([-gamma])))
    if name == "linear":
        return graph("MatMul", rows, graph.constant(landmarks.T))
    products = graph("MatMul", rows, graph.constant(gamma * landmarks.T))
    shifted = graph("Add", products, graph.constant([estimator.coef0]))
    if name == "tanh":
        return graph("Tanh", shifted)
    return graph("Pow", shifted, graph.constant([estimator.degree]))


def scores(graph: Graph, rows: str, estimator: Any) -> str:
    """K beta + b, shape (N, number of scores); X beta + b for the linear kernel."""
    values = rows if estimator.landmarks_ is None else kernel_values(graph, rows, estimator)
    beta = np.atleast_2d(estimator.dual_coef_).T
    product = graph("MatMul", values, graph.constant(beta))
    return graph("Add", product, graph.constant(np.atleast_1d(estimator.intercept_)))


def labels(graph: Graph, scores: str, classes: np.ndarray, output: str) -> None:
    """The class of the largest score, shape (N,)."""
    if len(classes) == 2:
        positive = graph("Greater", scores, graph.constant([0.0]))
        chosen = graph("Reshape", positive, graph.constant([-1], np.int64))
        chosen = graph.cast(chosen, TensorProto.INT64)
    else:
        chosen = graph("ArgMax", scores, axis=1, keepdims=0)
    kind = label_kind(classes)
    if kind is str:
        known = graph.text(classes)
    else:
        known = graph.constant(classes.astype(kind), kind)
    graph("Gather", known, chosen, output=output)


def probabilities(graph: Graph, scores: str, estimator: Any) -> str:
    """Class probabilities, shape (N, n_classes), of a classifier that has them."""
    two = len(estimator.classes_) == 2
    if estimator.loss == "log_loss":
        return _two_from_log_odds(graph, scores) if two else _several_from_log_odds(graph, scores)
    calibration = estimator._calibration
    if isinstance(calibration, SigmoidCalibration):
        scaled = graph("Mul", scores, graph.constant([calibration.slope]))
        return _two_from_log_odds(graph, scaled) if two else graph("Softmax", scaled, axis=1)
    g = _interpolated(graph, scores, calibration)
    return _two_from_steps(graph, scores, g) if two else _several_from_steps(graph, scores, g)


def _two_from_log_odds(graph: Graph, scores: str) -> str:
    """Softmax over (-z/2, z/2)."""
    halves = graph("MatMul", scores, graph.constant([[-0.5, 0.5]]))
    return graph("Softmax", halves, axis=1)


def _several_from_log_odds(graph: Graph, scores: str) -> str:
    """Softmax over log sigmoid(z), which is sigmoid(z) divided by its sum."""
    size = graph("Exp", graph("Neg", graph("Abs", scores)))
    log_sigmoid = graph(
        "Sub",
        graph("Min", scores, graph.constant([0.0])),
        graph("Log", graph("Add", size, graph.constant([1.0]))),
    )
    return graph("Softmax", log_sigmoid, axis=1)


def _interpolated(graph: Graph, scores: str, calibration: Any) -> str:
    """g(z), linear between corners (s_j, v_j): v_0 + sum_j (v_j+1 - v_j) clip((z - s_j) / h_j).

    Clipped to [0, 1], with h_j = s_j+1 - s_j: N x c x (corners - 1) values at its widest.
    """
    corners, values = calibration.scores, calibration.values
    if len(corners) == 1:
        return graph("Add", graph("Mul", scores, graph.constant([0.0])), graph.constant(values))
    each = graph("Unsqueeze", scores, graph.constant([-1], np.int64))
    way = graph("Sub", each, graph.constant(corners[:-1]))
    way = graph("Div", way, graph.constant(np.diff(corners)))
    way = graph("Max", graph("Min", way, graph.constant([1.0])), graph.constant([0.0]))
    rises = graph("MatMul", way, graph.constant(np.diff(values)))
    return graph("Add", rises, graph.constant(values[:1]))


def _two_from_steps(graph: Graph, scores: str, g: str) -> str:
    """(1 - p, p), where p is g(z) kept on z's side of 1/2."""
    half = graph.constant([0.5])
    above = graph("Max", g, graph.constant([0.5 + TILT]))
    positive = graph("Greater", scores, graph.constant([0.0]))
    chosen = graph("Where", positive, above, graph("Min", g, half))
    return graph("Concat", graph("Sub", graph.constant([1.0]), chosen), chosen, axis=1)


def _several_from_steps(graph: Graph, scores: str, g: str) -> str:
    """g(z), tilted to keep the scores' order, divided by its sum."""
    order = graph("Add", graph("Sigmoid", scores), graph.constant([1.0]))
    tilted = graph("Add", g, graph("Mul", order, graph.constant([TILT])))
    total = graph("ReduceSum", tilted, graph.constant([1], np.int64), keepdims=1)
    return graph("Div", tilted, total)


def label_kind(classes: np.ndarray) -> type:
    """What a label is in a graph: str, bool, int64 or float64."""
    if classes.dtype.kind == "U" or all(isinstance(value, str) for value in classes):
        return str
    for letters, kind in (("b", np.bool_), ("iu", np.int64), ("f", np.float64)):
        if np.asarray(classes.tolist()).dtype.kind in letters:
            return kind
    raise ValueError(
        f"Labels such as {classes[0]!r} ({type(classes[0]).__name__}) have no ONNX type. Fit with "
        "whole numbers, floats, bools or text as labels."
    )


def _rbf(graph: Graph, rows: str, landmarks: np.ndarray, gamma: float) -> str:
    # Moving all by the same vector changes no distance and keeps the squares small.
    origin = landmarks.mean(axis=0)
    centred = landmarks - origin
    moved = graph("Sub", rows, graph.constant(origin))
    ones = graph.constant(np.full((landmarks.shape[1], 1), gamma))
    squares = graph("MatMul", graph("Mul", moved, moved), ones)
    products = graph("MatMul", moved, graph.constant(2.0 * gamma * centred.T))
    exponent = graph("Sub", products, squares)
    own = graph.constant(gamma * np.einsum("ij,ij->i", centred, centred))
    exponent = graph("Min", graph("Sub", exponent, own), graph.constant([0.0]))
    return graph("Exp", exponent)


def _manhattan_distances(graph: Graph, rows: str, landmarks: np.ndarray) -> str:
    """|x - l|_1 by one step a feature, so that no (N, k, p) block arises."""
    zero = numpy_helper.from_array(np.zeros(1))
    n_rows = graph("Gather", graph("Shape", rows), graph.constant([0], np.int64))
    shape = graph("Concat", n_rows, graph.constant([len(landmarks)], np.int64), axis=0)
    start = graph("ConstantOfShape", shape, value=zero)
    columns = graph("Transpose", rows, perm=[1, 0])
    total = graph.scope.get_unique_variable_name("lasn_distances")
    graph.container.add_node(
        "Scan",
        [start, columns, graph.constant(landmarks.T)],
        [total],
        name=graph.scope.get_unique_operator_name("Scan"),
        num_scan_inputs=2,
        body=_add_distances_of_one_feature(),
    )
    return total


def _add_distances_of_one_feature():
    def value(name: str, shape: list):
        return helper.make_tensor_value_info(name, TensorProto.DOUBLE, shape)

    nodes = [
        helper.make_node("Reshape", ["row_values", "column_shape"], ["column"]),
        helper.make_node("Sub", ["column", "landmark_values"], ["difference"]),
        helper.make_node("Abs", ["difference"], ["distance"]),
        helper.make_node("Add", ["before", "distance"], ["after"]),
    ]
    return helper.make_graph(
        nodes,
        "add_distances_of_one_feature",
        [value("before", ["N", "k"]), value("row_values", ["N"]), value("landmark_values", ["k"])],
        [value("after", ["N", "k"])],
        [numpy_helper.from_array(np.array([-1, 1], dtype=np.int64), "column_shape")],
    )


def _dense_landmarks(estimator: Any) -> np.ndarray:
    landmarks = estimator.landmarks_
    n_bytes = 8 * landmarks.shape[0] * landmarks.shape[1]
    if n_bytes > MAX_LANDMARK_BYTES:
        raise ValueError(
            f"{landmarks.shape[0]} landmarks of {landmarks.shape[1]} features would take "
            f"{n_bytes / 2**20:.0f} MiB in an ONNX graph, where they are dense; "
            f"{MAX_LANDMARK_BYTES >> 20} MiB are allowed. Fit with fewer landmarks or features, "
            "or with the linear kernel, which has no landmarks."
        )
    dense = landmarks.toarray() if sp.issparse(landmarks) else landmarks
    return np.asarray(dense, dtype=np.float64)

"""``lasn export``: write a model in a form that other software computes."""

from __future__ import annotations

import argparse

from lasn.cli.errors import DataError
from lasn.cli.models import read_model
from lasn.cli.output import check_output, write_chunks

_DESCRIPTION = """\
Write a model as an ONNX graph, for onnxruntime and other software.

The graph's input is X, shape (rows, features), or, for models that were trained on columns of text
among others, one input a column under its name, shape (rows, 1). Its outputs are label and scores
(and probabilities, where the model has them) for a classifier, variable for a regressor. It
computes f(x) = sum_j beta_j k(x, l_j) + b over the model's landmarks l_j in float64.
"""
_EPILOG = """\
example:
  lasn export income.lasn --onnx income.onnx
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    parser.add_argument("model", metavar="MODEL", help="a model file that lasn train wrote")
    parser.add_argument(
        "--onnx", metavar="OUT", required=True, help="the file to write; - is standard output"
    )
    parser.add_argument(
        "--dtype",
        choices=["float32", "float64"],
        default="float32",
        help="of the graph's numeric inputs and outputs (default: %(default)s)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from lasn.onnx_export import to_onnx

    check_output(arguments.onnx, arguments.model)
    model = read_model(arguments.model)
    try:
        graph = to_onnx(model.pipeline, dtype=arguments.dtype, column_names=model.notes.features)
    except ValueError as error:
        raise DataError(arguments.model, str(error), "") from error
    write_chunks(arguments.onnx, [graph.SerializeToString()])
    return 0

"""``lasn export``: write a model in a form that other software computes."""

from __future__ import annotations

import argparse
import sys

_EXAMPLE = """\
The graph's inputs are X, shape (rows, features), or one input a column for models that were
trained on named columns of several kinds. Its outputs are label and scores (and probabilities,
with the logistic loss) for a classifier, variable for a regressor. It computes in float64.

example:
  lasn export income.lasn --onnx income.onnx
"""


def add_command(commands) -> None:
    parser = commands.add_parser(
        "export",
        help="write a model as an ONNX graph",
        description="Write a model as an ONNX graph, for onnxruntime and other software.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", metavar="MODEL", help="a model file that lasn train wrote")
    parser.add_argument("--onnx", metavar="OUT", required=True, help="the file to write")
    parser.add_argument(
        "--dtype",
        choices=["float32", "float64"],
        default="float32",
        help="of the graph's numeric inputs and outputs (default: %(default)s)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from lasn.atomic import write_atomically
    from lasn.onnx_export import to_onnx
    from lasn.persist import load

    try:
        graph = to_onnx(load(arguments.model), dtype=arguments.dtype)
        write_atomically(arguments.onnx, [graph.SerializeToString()])
    except OSError as error:
        print(f"lasn export: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    except (ValueError, ImportError) as error:  # ModelFileError is a ValueError
        print(f"lasn export: {error}", file=sys.stderr)
        return 1
    return 0

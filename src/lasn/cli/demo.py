"""``lasn demo``: train on data that ships with scikit-learn and compare with SVC."""

from __future__ import annotations

import argparse

_DESCRIPTION = """\
Train on data that ships with scikit-learn, show Newton's iterations, and compare seconds and test
accuracy with sklearn.svm.SVC of the same kernel, k(x, l) = exp(-gamma |x - l|^2). No file is
written.
"""
_EPILOG = """\
example:
  lasn demo
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from lasn.demo import main

    main()
    return 0

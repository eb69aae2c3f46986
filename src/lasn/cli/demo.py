"""``lasn demo``: train on data that ships with scikit-learn and compare with SVC."""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from lasn.demo import main

    main()
    return 0

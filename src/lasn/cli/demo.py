"""``lasn demo``: train on data that ships with scikit-learn and compare with SVC."""

from __future__ import annotations

import argparse


def add_command(commands) -> None:
    parser = commands.add_parser("demo", help="train on bundled data and compare with SVC")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from lasn.demo import main

    main()
    return 0

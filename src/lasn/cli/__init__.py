"""The ``lasn`` command: one module per subcommand, no maths.

A subcommand's module has ``add_command(commands)``, which adds its parser and sets ``run`` as its
default: a function of the parsed arguments that returns an exit code.

Exit codes: 0 done, 1 bad data, 2 bad usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from lasn import __version__
from lasn.cli import data, demo, export

_COMMANDS = (data, demo, export)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code."""
    arguments = _parser().parse_args(argv)
    try:
        return arguments.run(arguments)
    except KeyboardInterrupt:
        print("lasn: interrupted", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lasn",
        description="Kernel support vector machines at the speed of dense linear algebra.",
    )
    parser.add_argument("--version", action="version", version=f"lasn {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in _COMMANDS:
        command.add_command(commands)
    return parser

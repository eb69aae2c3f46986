"""The ``lasn`` command: one module per subcommand, no maths.

A subcommand's module has ``add_command(commands)``, which adds its parser and sets ``run`` as its
default: a function of the parsed arguments that returns an exit code.

Exit codes: 0 done, 1 bad data, 2 bad usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence

from lasn import __version__
from lasn.cli import data, demo, export, info, predict, train
from lasn.cli.errors import UsageError
from lasn.tables.rows import DataError

_COMMANDS = (train, predict, info, export, data, demo)
_EPILOG = """\
Exit codes: 0 done, 1 bad data, 2 bad usage, 130 interrupted.

example:
  lasn train adult.csv --target income --scale standard -o adult.lasn
  lasn predict adult.lasn new.csv -o predictions.csv
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code."""
    arguments = _parser().parse_args(argv)
    warnings.showwarning = _one_line
    try:
        code = arguments.run(arguments)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt as interrupt:
        return _fail(str(interrupt) or "interrupted.", 130)
    except UsageError as error:
        return _fail(f"{error} See lasn {arguments.command} --help.", 2)
    except DataError as error:
        return _fail(error, 1)
    except BrokenPipeError:
        # What is still in the buffer must not be tried again when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _fail("standard output: its reader closed it; give -o FILE to keep all rows.", 1)
    except OSError as error:
        name = error.filename or "standard output"
        return _fail(f"{name}: {error.strerror}. Check the folder, its permissions and space.", 1)
    except MemoryError:
        return _fail("there is not enough memory. Lower --n-landmarks, or use fewer rows.", 1)


def _fail(message: object, code: int) -> int:
    print("lasn:", " ".join(str(message).split()), file=sys.stderr)
    return code


def _one_line(message, category, filename, lineno, file=None, line=None) -> None:
    print("lasn: warning:", " ".join(str(message).split()), file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lasn",
        description="Kernel support vector machines at the speed of dense linear algebra.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"lasn {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", dest="command", required=True)
    for command in _COMMANDS:
        command.add_command(commands)
    return parser

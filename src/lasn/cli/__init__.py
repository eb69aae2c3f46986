"""The ``lasn`` command: one module per subcommand, no maths.

A subcommand's module has ``add_arguments(parser)``, which completes its parser and sets ``run`` as
its default: a function of the parsed arguments that returns an exit code. Only the module of the
command that was typed is imported.

Exit codes: 0 done, 1 bad data, 2 bad usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

from lasn import __version__
from lasn.cli.errors import DataError, UsageError

_COMMANDS = {
    "train": "train a model on a file",
    "tune": "choose C, gamma and the number of landmarks on a file",
    "predict": "predict the rows of a file",
    "info": "show what a model file holds",
    "report": "write a report on a model and rows as one HTML file",
    "export": "write a model as an ONNX graph",
    "data": "list, fetch, verify and find data sets",
    "demo": "train on bundled data and compare with SVC",
}
_EXIT_CODES = "Exit codes: 0 done, 1 bad data, 2 bad usage, 130 interrupted."
_EPILOG = f"""\
example:
  lasn train adult.csv --target income --scale standard -o adult.lasn
  lasn predict adult.lasn new.csv -o predictions.csv

{_EXIT_CODES}
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    if not words:  # whoever types no command wants to know which there are
        _parser(words).print_help(sys.stderr)
        return 2
    arguments = _parser(words).parse_args(words)
    told = _Warnings()
    warnings.showwarning = told.hear
    try:
        code = arguments.run(arguments)
        sys.stdout.flush()
        told.print()
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
    except ImportError as error:  # of a package that only some commands need
        return _fail(error, 2)
    except OSError as error:
        name = error.filename or "standard output"
        return _fail(f"{name}: {error.strerror}. Check the folder, its permissions and space.", 1)
    except MemoryError:
        return _fail("there is not enough memory. Lower --n-landmarks, or use fewer rows.", 1)


def _fail(message: object, code: int) -> int:
    print("lasn:", " ".join(str(message).split()), file=sys.stderr)
    return code


class _Warnings:
    """What was warned of: each once, when the work is done; an error says enough by itself."""

    def __init__(self) -> None:
        self.lines: dict[str, None] = {}

    def hear(self, message, category, filename, lineno, file=None, line=None) -> None:
        self.lines[" ".join(str(message).split())] = None

    def print(self) -> None:
        for line in self.lines:
            print("lasn: warning:", line, file=sys.stderr)


class _Parser(argparse.ArgumentParser):
    """A parser whose complaints are one line, like all others."""

    def error(self, message: str) -> NoReturn:
        self.exit(_fail(f"{message}. See {self.prog} --help.", 2))


def _parser(words: list[str]) -> argparse.ArgumentParser:
    """The parser of all commands, complete for the one that the words name."""
    parser = _Parser(
        prog="lasn",
        description="Kernel support vector machines at the speed of dense linear algebra.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"lasn {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", dest="command", required=True)
    chosen = next((word for word in words if not word.startswith("-")), None)
    for name, purpose in _COMMANDS.items():
        command = commands.add_parser(
            name, help=purpose, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        if name == chosen:
            import_module(f"lasn.cli.{name}").add_arguments(command)
            command.epilog = f"{command.epilog}\n{_EXIT_CODES}"
    return parser

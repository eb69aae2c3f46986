"""``lasn data``: list, fetch, verify and find the data sets of the LIBSVM site."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

_NUMERIC = {"rows", "its rows", "test rows", "features", "classes"}

_ABOUT = """\
Data sets of the LIBSVM site: the 28 of the paper, and the usual others.

A file is looked for in the folder LASN_DATA, then in the cache, plain or packed (.xz, .bz2, .gz).
What is in neither is downloaded into the cache. In Python: lasn.datasets.load("a9a").

environment:
  LASN_DATA    a folder with files of the site under their own names; only read
  LASN_CACHE   the cache folder, in place of the platform's; files are in its folder "datasets"
  LASN_MIRROR  an address in place of the LIBSVM site's, with the same folders below it
"""
_EPILOG = """\
example:
  lasn data list --paper
  lasn data fetch a9a
  lasn data path a9a

lasn data ACTION --help says more.
"""

_LIST = """\
Print name, rows, test rows, features, classes and whether the files are on this machine.

Test rows "40 %" means that the site has no test file: the first 60 % of the rows are for training,
as in the paper. Classes "real" is a regression. --paper adds the paper's names and row counts, and
how those come about.

example:
  $ lasn data list --paper
"""

_FETCH = """\
Download data sets into the cache, unless they are in LASN_DATA or the cache already.

A download that broke off is resumed where it stopped. A file gets its name only when it is whole
and its checksum (unpacked SHA-256, where it is known; else the number of rows) is right.

example:
  $ lasn data fetch a9a mushrooms
  a9a        /home/me/.cache/lasn/datasets/a9a
  a9a.t      /home/me/.cache/lasn/datasets/a9a.t
  mushrooms  /home/me/.cache/lasn/datasets/mushrooms
"""

_VERIFY = """\
Check the files that are on this machine, all of them or those of some data sets.

Where the SHA-256 of the unpacked file is known it has to be right; else the number of rows. The
exit code is 1 if a file is bad, or if a data set that was named is not there.

example:
  $ lasn data verify a9a
  ok   /home/me/.cache/lasn/datasets/a9a: SHA-256 of the site's file
  ok   /home/me/.cache/lasn/datasets/a9a.t: SHA-256 of the site's file
"""

_PATH = """\
Print where the files of a data set are: the training file, then the test file if there is one.

Nothing is downloaded; the exit code is 1 if a file is not there.

example:
  $ lasn data path mushrooms
  /home/me/.cache/lasn/datasets/mushrooms
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = _ABOUT, _EPILOG
    actions = parser.add_subparsers(metavar="ACTION", required=True)

    listing = _described(actions, "list", "the data sets and which are here", _LIST)
    listing.add_argument("--paper", action="store_true", help="only the paper's, with its names")
    listing.set_defaults(run=_reporting_errors, action=_list)

    fetching = _described(actions, "fetch", "download data sets", _FETCH)
    fetching.add_argument("names", nargs="+", metavar="NAME", help="a name of lasn data list")
    fetching.add_argument("--base", metavar="URL", help="a mirror, in place of the LIBSVM site")
    fetching.set_defaults(run=_reporting_errors, action=_fetch)

    verifying = _described(actions, "verify", "check files", _VERIFY)
    verifying.add_argument("names", nargs="*", metavar="NAME", help="default: all that are here")
    verifying.set_defaults(run=_reporting_errors, action=_verify)

    finding = _described(actions, "path", "where a data set's files are", _PATH)
    finding.add_argument("name", metavar="NAME", help="a name of lasn data list")
    finding.set_defaults(run=_reporting_errors, action=_path)


def _described(commands, name: str, summary: str, description: str) -> argparse.ArgumentParser:
    return commands.add_parser(
        name,
        help=summary,
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _reporting_errors(arguments: argparse.Namespace) -> int:
    from lasn.datasets import DatasetError

    try:
        return arguments.action(arguments)
    except ValueError as error:  # a name or an address that cannot be
        print(f"lasn data: {error}", file=sys.stderr)
        return 2
    except DatasetError as error:
        print(f"lasn data: {error}", file=sys.stderr)
        return 1


def _list(arguments: argparse.Namespace) -> int:
    from lasn.datasets import datasets

    shown = [s for s in datasets().values() if s.paper_name is not None or not arguments.paper]
    columns: list[tuple[str, Sequence]] = [
        ("name", [s.name for s in shown]),
        ("rows", [s.train.rows for s in shown]),
        ("test rows", ["40 %" if s.test is None else s.test.rows for s in shown]),
        ("features", [s.features for s in shown]),
        ("classes", ["real" if s.classes is None else s.classes for s in shown]),
        ("present", [_presence(s) for s in shown]),
    ]
    if arguments.paper:
        columns.insert(1, ("in the paper", [s.paper_name for s in shown]))
        columns.insert(2, ("its rows", [s.paper_rows for s in shown]))
    _print_table(columns)
    if arguments.paper:
        print()
        for s in shown:
            if s.note:
                print(f"{s.name}: {s.note}")
    return 0


def _fetch(arguments: argparse.Namespace) -> int:
    from lasn.datasets import dataset, fetch

    wanted = [dataset(name) for name in arguments.names]  # a wrong name stops before any download
    width = max(len(file.name) for s in wanted for file in s.files)
    for s in wanted:
        for file, path in zip(s.files, fetch(s.name, arguments.base), strict=True):
            print(f"{file.name:<{width}}  {path}", flush=True)
    return 0


def _verify(arguments: argparse.Namespace) -> int:
    from lasn.datasets import DatasetError, check, dataset, datasets, find

    wanted = [dataset(name) for name in arguments.names] or datasets().values()
    code = 0
    for file in (file for s in wanted for file in s.files):
        path = find(file.name)
        if path is None and not arguments.names:
            continue
        try:
            if path is None:
                raise DatasetError(f"{file.name} is not on this machine")
            print(f"ok   {path}: {check(file, path)}", flush=True)
        except DatasetError as error:
            print(f"bad  {error}", flush=True)
            code = 1
    return code


def _path(arguments: argparse.Namespace) -> int:
    from lasn.datasets import DatasetError, dataset, find

    for file in dataset(arguments.name).files:
        path = find(file.name)
        if path is None:
            raise DatasetError(
                f"{file.name} is not on this machine; "
                f"`lasn data fetch {arguments.name}` downloads it"
            )
        print(path)
    return 0


def _presence(dataset) -> str:
    from lasn.datasets import find

    here = [file.name for file in dataset.files if find(file.name) is not None]
    if len(here) == len(dataset.files):
        return "yes"
    if not here:
        return "-"
    return "only train" if here == [dataset.train.name] else "only test"


def _print_table(columns: Sequence[tuple[str, Sequence]]) -> None:
    """Text to the left, numbers to the right."""
    cells = [[title, *map(str, values)] for title, values in columns]
    widths = [max(map(len, column)) for column in cells]
    numeric = [title in _NUMERIC for title, _ in columns]
    for row in zip(*cells, strict=True):
        aligned = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        )
        print("  ".join(aligned).rstrip())

"""Which data sets there are: a table of the LIBSVM site's files, and their checksums.

``sets.csv`` has one row a data set::

    name          the training file's name, unpacked: a9a, letter.scale, rcv1_train.binary
    address       of the training file below the site, packed as it is there: binary/ijcnn1.bz2
    test_address  of the official test file; empty where the site has none
    rows          of the training file, or of all there is
    test_rows     of the official test file
    features      the largest feature number in either file: the width of X
    classes       how many; empty for regression
    paper_name    what the paper calls the set; empty where it does not use it
    paper_rows    how many training rows the paper's Table 2 counts
    note          how that number comes about, where it is not ``rows``, and what else to know

``checksums.csv`` has the SHA-256 of files *unpacked*, so that one number checks the plain file, its
.bz2, .gz and .xz. ``of`` says of what: "site", as published by others for the file of the site, or
"copy", computed from a copy elsewhere that may differ from the site's in the printing of numbers.

The paper's Table 1 counts 80 % of the training rows, rounded down: the rest validates.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from pathlib import PurePosixPath
from types import MappingProxyType

PACKED = (".xz", ".bz2", ".gz")


@dataclass(frozen=True)
class DataFile:
    """One file of the site.

    Attributes
    ----------
    name : str
        The file's name, unpacked.
    address : str
        Where it is below the site, with the suffix of its packing.
    rows : int
    sha256 : str or None
        Of the unpacked file of the site, where it is known.
    copies : frozenset of str
        The same of known copies with other bytes but the same rows.

    Examples
    --------
    >>> from lasn import datasets
    >>> file = datasets.dataset("a9a").train
    >>> file.name, file.address, file.rows
    ('a9a', 'binary/a9a', 32561)
    """

    name: str
    address: str
    rows: int
    sha256: str | None
    copies: frozenset[str]

    @property
    def packed_name(self) -> str:
        return PurePosixPath(self.address).name


@dataclass(frozen=True)
class Dataset:
    """One data set of the LIBSVM site.

    Attributes
    ----------
    name : str
        The name of its training file, unpacked.
    train : DataFile
    test : DataFile or None
        The official test file, where there is one.
    features : int
        The largest feature number of either file: the width of X.
    classes : int or None
        How many; None for regression.
    paper_name : str or None
        What the paper calls it; None where the paper does not use it.
    paper_rows : int or None
        How many training rows the paper's Table 2 counts.
    note : str
        How that number comes about, where it differs from the training file's, and what else to
        know.

    Examples
    --------
    >>> from lasn import datasets
    >>> a9a = datasets.dataset("a9a")
    >>> a9a.features, a9a.classes, a9a.train.rows, a9a.test.rows
    (123, 2, 32561, 16281)
    """

    name: str
    train: DataFile
    test: DataFile | None
    features: int
    classes: int | None
    paper_name: str | None
    paper_rows: int | None
    note: str

    @property
    def files(self) -> tuple[DataFile, ...]:
        return (self.train,) if self.test is None else (self.train, self.test)


def dataset(name: str) -> Dataset:
    """The data set of a name, the LIBSVM site's or the paper's.

    Examples
    --------
    >>> from lasn.datasets import dataset
    >>> ijcnn = dataset("ijcnn")  # the paper's name
    >>> ijcnn.name, ijcnn.train.rows, ijcnn.test.rows, ijcnn.features
    ('ijcnn1', 49990, 91701, 22)
    """
    known = datasets()
    if name in known:
        return known[name]
    for each in known.values():
        if each.paper_name == name:
            return each
    close = [each for each in known if each.startswith(name)] or get_close_matches(name, known)
    meant = f"did you mean {' or '.join(close)}? " if close else ""
    raise ValueError(f"no data set {name!r}; {meant}`lasn data list` names the {len(known)} known")


@cache
def datasets() -> Mapping[str, Dataset]:
    """All data sets by name, those of the paper first.

    Examples
    --------
    >>> from lasn.datasets import datasets
    >>> sum(each.paper_name is not None for each in datasets().values())
    28
    """
    site, copies = _checksums()

    def file(address: str, rows: str) -> DataFile:
        name = unpacked(PurePosixPath(address).name)
        return DataFile(
            name, address, int(rows), site.get(name), frozenset(copies.get(name, set()))
        )

    return MappingProxyType(
        {
            row["name"]: Dataset(
                name=row["name"],
                train=file(row["address"], row["rows"]),
                test=file(row["test_address"], row["test_rows"]) if row["test_address"] else None,
                features=int(row["features"]),
                classes=int(row["classes"]) if row["classes"] else None,
                paper_name=row["paper_name"] or None,
                paper_rows=int(row["paper_rows"]) if row["paper_rows"] else None,
                note=row["note"],
            )
            for row in _table("sets.csv")
        }
    )


def unpacked(file_name: str) -> str:
    """A file's name without the suffix of its packing."""
    for suffix in PACKED:
        file_name = file_name.removesuffix(suffix)
    return file_name


def _checksums() -> tuple[dict[str, str], dict[str, set[str]]]:
    site: dict[str, str] = {}
    copies: dict[str, set[str]] = {}
    for row in _table("checksums.csv"):
        if row["of"] == "site":
            site[row["file"]] = row["sha256"]
        else:
            copies.setdefault(row["file"], set()).add(row["sha256"])
    return site, copies


def _table(name: str) -> Iterator[dict[str, str]]:
    text = (files("lasn.datasets") / name).read_text(encoding="utf-8")
    return csv.DictReader(text.splitlines())

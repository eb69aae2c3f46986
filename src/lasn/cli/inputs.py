"""Flags about the file to read, and which of its columns are what."""

from __future__ import annotations

import argparse

from lasn.cli.errors import UsageError
from lasn.cli.models import FileModel
from lasn.tables import FORMATS, Column, DataError, Selection, Table, open_table


def add_input_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the file")
    group.add_argument(
        "--format",
        choices=FORMATS,
        help="format of FILE; default: by its name. svmlight, csv and tsv may be compressed by "
        "gzip, bzip2 or xz",
    )
    group.add_argument(
        "--delimiter", metavar="CHARACTER", help="between values of a CSV file; default: comma"
    )
    group.add_argument(
        "--no-header",
        action="store_true",
        help="a CSV file without names of columns: they are called 1, 2, ...",
    )
    group.add_argument(
        "--target",
        metavar="COLUMN",
        help="name or number (1 is the first, -1 the last) of the column to predict; svmlight has "
        "its label, a .npz file its array y",
    )


def open_input(arguments: argparse.Namespace, **svmlight) -> Table:
    delimiter = arguments.delimiter
    if delimiter is not None:
        delimiter = "\t" if delimiter in ("\\t", "tab") else delimiter
        if len(delimiter.encode()) != 1:
            raise UsageError(f"--delimiter {delimiter!r} is not one character.")
    return open_table(
        arguments.file,
        arguments.format,
        delimiter=delimiter,
        header=not arguments.no_header,
        **svmlight,
    )


def find_column(table: Table, wanted: str) -> str:
    """The name of the column with this name or number."""
    if table.own_target is not None and wanted == table.own_target:
        return wanted
    if table.columns is None:
        raise DataError(
            table.path,
            f"there is no column {wanted!r}: the format has none.",
            f"The target is {table.own_target!r}; leave --target out."
            if table.own_target
            else "Use a format with labels.",
        )
    names = [column.name for column in table.columns]
    if wanted in names:
        return wanted
    try:
        number = int(wanted)
    except ValueError:
        number = 0
    if number > 0 and number <= len(names):
        return names[number - 1]
    if number < 0 and -number <= len(names):
        return names[number]
    listed = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
    remedy = _other_delimiter(names) or f"The columns are {listed}."
    raise DataError(table.path, f"there is no column {wanted!r}.", remedy, line=None)


def _other_delimiter(names: list[str]) -> str | None:
    """What to do about a file that seems to be one column, because commas do not separate it."""
    found = [sign for sign in (",", ";", "\t", "|") if len(names) == 1 and sign in names[0]]
    if not found:
        return None
    sign = "tab" if found[0] == "\t" else found[0]
    return f"Its only column is {names[0]!r}: give --delimiter '{sign}'."


def label_column(wanted: str | None, noted: str | None, table: Table) -> str | None:
    """The column of labels: the one that is wanted, the format's own, or the training file's."""
    if wanted is not None:
        return find_column(table, wanted)
    if table.own_target is not None:
        return table.own_target
    return noted if noted in [column.name for column in table.columns or []] else None


def training_selection(arguments: argparse.Namespace, table: Table) -> Selection:
    """Every column but the target, and those to ignore, is a feature."""
    if arguments.target is None:
        if table.own_target is None:
            raise UsageError(
                f"--target is needed: which column of {table.path} is to be predicted?"
            )
        target = table.own_target
    else:
        target = find_column(table, arguments.target)
    missing = arguments.impute is not None
    if table.columns is None:
        return Selection(target=target, missing_allowed=missing)
    ignored = {find_column(table, name) for name in _listed(arguments.ignore)}
    categorical = {find_column(table, name) for name in _listed(arguments.categorical)}
    features = [c for c in table.columns if c.name != target and c.name not in ignored]
    if not features:
        raise DataError(table.path, "no column is left to learn from.", "Ignore fewer.")
    return Selection(
        features=tuple(column.name for column in features),
        categorical=frozenset(c.name for c in features if c.is_text or c.name in categorical),
        target=target,
        target_is_text=_is_text(table, target) or target in categorical,
        missing_allowed=missing,
    )


def prediction_selection(model: FileModel, table: Table, target: str | None) -> Selection:
    """The model's features, by name where both have names, else by position."""
    notes = model.notes
    is_text = model.is_classifier and model.estimator.classes_.dtype.kind not in "iufb"
    if table.columns is None:
        return Selection(target=target, missing_allowed=notes.missing_allowed)
    names = [column.name for column in table.columns if column.name != target]
    if notes.named and table.named:
        lost = [name for name in notes.features or [] if name not in names]
        if lost:
            raise DataError(
                table.path,
                f"there is no column {lost[0]!r}, which the model needs.",
                _other_delimiter(names)
                or "Give the file the model's columns, as lasn info lists them.",
            )
        names = list(notes.features or [])
    elif len(names) != model.n_features:
        raise DataError(
            table.path,
            f"{len(names)} columns of features, where the model has {model.n_features}.",
            "Give the columns that the model was trained on, and --target if one is a label.",
        )
    known = notes.features or names
    categorical = {name for name, old in zip(names, known, strict=True) if old in notes.categorical}
    return Selection(
        features=tuple(names),
        categorical=frozenset(categorical),
        target=target,
        target_is_text=is_text,
        missing_allowed=notes.missing_allowed,
    )


def _is_text(table: Table, name: str) -> bool:
    columns: list[Column] = table.columns or []
    return any(column.is_text for column in columns if column.name == name)


def _listed(text: str | None) -> list[str]:
    return [] if text is None else [name.strip() for name in text.split(",")]

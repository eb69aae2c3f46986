"""Finished cells, as the page and its figures read them: numbers for what reads as one."""

from pathlib import Path
from typing import Any

from paper.cells import Results

Row = dict[str, Any]


def rows(folder: Path, experiment) -> list[Row]:
    """The finished cells of an experiment; what is empty is None."""
    results = Results(folder, experiment.NAME, experiment.KEYS)
    return [{key: _value(text) for key, text in row.items()} for row in results.rows()]


def by_key(folder: Path, experiment) -> dict[tuple, Row]:
    return {tuple(row[key] for key in experiment.KEYS): row for row in rows(folder, experiment)}


def by_set(folder: Path, experiment) -> dict[str, list[Row]]:
    """Those that ended well, by data set, in the order of the rest of the key."""
    found: dict[str, list[Row]] = {}
    for row in rows(folder, experiment):
        if row["status"] == "ok":
            found.setdefault(row["data_set"], []).append(row)
    inner = experiment.KEYS[1]
    return {name: sorted(cells, key=lambda cell: cell[inner]) for name, cells in found.items()}


def _value(text: str):
    if text == "":
        return None
    try:
        return float(text)
    except ValueError:
        return text

"""``lasn info``: what a model file says of its model."""

from __future__ import annotations

import argparse
import json
from typing import Any

from lasn.cli.models import describe_model

_DESCRIPTION = """\
Show what a model file holds: estimator, steps, parameters, classes, landmarks, the training file's
columns and fingerprint, metrics on (at most 20 000 of) its rows, and the versions of the packages
that wrote it. Only the header is read.
"""
_EPILOG = """\
example:
  lasn info adult.lasn
  lasn info adult.lasn --json
"""
_MOST_SHOWN = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    parser.add_argument("model", metavar="MODEL", help="model file")
    parser.add_argument("--json", action="store_true", help="everything, as JSON; default: a list")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    description = describe_model(arguments.model)
    if arguments.json:
        print(json.dumps(description, indent=2))
        return 0
    summary = description["summary"]
    data = description["metadata"].get("data") or {}
    metrics = description["metadata"].get("metrics") or {}
    _show(
        {
            "file": f"{arguments.model}, {description['bytes']} bytes",
            **{key: value for key, value in summary.items() if key != "parameters"},
            **{f"--{key.replace('_', '-')}": v for key, v in summary["parameters"].items()},
            **{f"data {key}": value for key, value in data.items()},
            **{f"metrics on {key}": value for key, value in metrics.items()},
            "written by": ", ".join(f"{k} {v}" for k, v in description["versions"].items()),
        }
    )
    return 0


def _show(entries: dict[str, Any]) -> None:
    width = max(map(len, entries))
    for name, value in entries.items():
        print(f"{name:{width}}  {_brief(value)}")


def _brief(value: Any) -> str:
    if isinstance(value, list):
        more = f", ... ({len(value)})" if len(value) > _MOST_SHOWN else ""
        return ", ".join(map(str, value[:_MOST_SHOWN])) + more
    if isinstance(value, dict):
        return ", ".join(f"{key} {_brief(one)}" for key, one in value.items())
    return str(value)

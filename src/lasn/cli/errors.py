"""Errors of the command line, each one line on standard error."""

from __future__ import annotations

from lasn.data_error import DataError as DataError  # exit code 1


class UsageError(Exception):
    """The command was typed wrongly: exit code 2."""

"""Errors of the command line, each one line on standard error."""

from __future__ import annotations


class UsageError(Exception):
    """The command was typed wrongly: exit code 2."""

"""Code blocks of Markdown pages, and how each kind is run."""

import doctest
import os
import re
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from shell import environment

# Listings that are no program, and what Sphinx makes something of.
NOT_RUN = {"text", "markdown"}
DIRECTIVE = re.compile(r"\{[\w-]+\}")
_FENCE = re.compile(
    r"^(?P<fence>`{3,})(?P<kind>[^\n`]*)\n(?P<body>.*?)^(?P=fence)\s*$", re.M | re.S
)
# A command, which goes on in the next line after a backslash, and what it prints.
_COMMAND = re.compile(r"((?:[^\n]*\\\n)*[^\n]*)\n?(.*)", re.S)
_CHECKER = doctest.OutputChecker()
_LENIENT = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class CodeBlock:
    """A fenced block: what it is written in, its text and the line it starts on."""

    kind: str
    body: str
    line: int


def code_blocks(page: Path) -> list[CodeBlock]:
    """All fenced blocks of a page, in order."""
    text = page.read_text()
    return [
        CodeBlock(found["kind"].strip(), found["body"], text.count("\n", 0, found.start()) + 1)
        for found in _FENCE.finditer(text)
    ]


def run_doctest(block: CodeBlock, page: Path, names: dict) -> None:
    """Run the examples of a ``pycon`` block; ``...`` stands for any output."""
    test = doctest.DocTestParser().get_doctest(block.body, names, page.name, str(page), block.line)
    test.globs = names
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=_LENIENT | doctest.IGNORE_EXCEPTION_DETAIL)
    runner.run(test, out=report.append, clear_globs=False)
    assert runner.tries > 0, f"{page.name}:{block.line} has no example"
    assert runner.failures == 0, "".join(report)


def run_python(block: CodeBlock, page: Path, names: dict) -> None:
    """Run a ``python`` block as a program."""
    if "__main__" in block.body:  # it starts processes that import it again
        Path("program.py").write_text(block.body)
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "program.py"],
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == 0, f"{page.name}:{block.line}: {done.stderr}"
        return
    code = "\n" * block.line + block.body
    exec(compile(code, str(page), "exec"), names)


def run_shell(commands: str, folder: Path) -> str:
    """Run lines of a shell in a folder, with a ``lasn`` that is the one under test; its output."""
    lasn = folder / ".bin" / "lasn"
    if not lasn.exists():
        lasn.parent.mkdir()
        lasn.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m lasn "$@"\n')
        lasn.chmod(lasn.stat().st_mode | stat.S_IXUSR)
    path = f"{lasn.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-e", "-c", commands],
        cwd=folder,
        env={**environment(), "PATH": path},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, f"{commands}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def run_console(block: CodeBlock, page: Path, folder: Path) -> None:
    """Run the lines after ``$``, and compare what follows them; ``...`` stands for any output."""
    for part in re.split(r"^\$ ", block.body, flags=re.M)[1:]:
        command, wanted = _COMMAND.match(part).groups()
        printed = run_shell(command, folder)
        if wanted.strip():
            where = f"{page.name}:{block.line}: {command}\n{printed}"
            assert _CHECKER.check_output(wanted, printed, _LENIENT), where

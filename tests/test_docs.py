"""The worked examples of the documentation run."""

import doctest
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parent.parent / "docs"


@pytest.mark.parametrize("page", ["how_exact.md"])
def test_examples_of_a_page(page):
    outcome = doctest.testfile(str(DOCS / page), module_relative=False)
    assert outcome.attempted > 0
    assert outcome.failed == 0

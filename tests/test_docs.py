"""The documentation tells the truth: its code runs and its numbers are measured."""

import re
from importlib import import_module
from pathlib import Path

import pytest
from markdown_blocks import (
    DIRECTIVE,
    NOT_RUN,
    code_blocks,
    run_console,
    run_doctest,
    run_python,
    run_shell,
)
from shell import MIXED_HEADER, mixed_rows, write_csv
from sklearn.datasets import dump_svmlight_file

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("*.md"), *DOCS.glob("guide/*.md")])
# What pages speak of as the reader's own files.
TABLES = ("adult.csv", "test.csv", "new.csv")
SPARSE_FILES = ("train.svm", "test.svm")


@pytest.fixture
def reader(tmp_path, monkeypatch, binary):
    """A folder with the files that a reader of the pages has."""
    monkeypatch.chdir(tmp_path)
    for seed, name in enumerate(TABLES):
        write_csv(name, [*MIXED_HEADER[:-1], "income"], mixed_rows(150, seed=seed))
    for name in SPARSE_FILES:
        dump_svmlight_file(*binary, name)
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_every_code_block_runs(page, reader):
    names: dict = {"__name__": "__main__"}
    for block in code_blocks(page):
        if block.kind == "pycon":
            run_doctest(block, page, names)
        elif block.kind == "python":
            run_python(_on_this_machine(block), page, names)
        elif block.kind == "sh":
            run_shell(block.body, reader)
        elif block.kind == "console":
            run_console(block, page, reader)
        else:
            known = block.kind in NOT_RUN or DIRECTIVE.match(block.kind)
            assert known, f"{page.name}:{block.line}: {block.kind!r} is not run by anything"


def _on_this_machine(block):
    """A block for a GPU, on torch's CPU where there is none."""
    if 'device="cuda"' not in block.body:
        return block
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        return block
    return type(block)(block.kind, block.body.replace('"cuda"', '"torch"'), block.line)


# What no test can do: fetch packages, run make within make, measure, start a cluster's machines.
_DONE_ELSEWHERE = re.compile(
    r"make (?P<target>\w+) |python3 -m venv |\. \.venv/bin/activate|pip install |"
    r"python (?P<script>benchmarks/\S+)|dask (?:scheduler|worker) "
)


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=lambda page: page.name)
def test_no_program_hides_in_a_listing(page):
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), flags=re.M))
    for block in code_blocks(page):
        for line in block.body.splitlines() if block.kind == "text" else ():
            found = _DONE_ELSEWHERE.match(line)
            assert found, f"{page.name}:{block.line}: {line!r} should be run by a test"
            assert found["target"] is None or found["target"] in targets, line
            assert found["script"] is None or (ROOT / found["script"]).is_file(), line


def test_there_are_pages_and_blocks():
    kinds = {block.kind for page in PAGES for block in code_blocks(page)}
    assert {"pycon", "python", "sh", "console"} <= kinds
    assert len(PAGES) > 15


def test_a_console_block_that_lies_is_noticed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```console\n$ echo yes\nno\n```\n")
    with pytest.raises(AssertionError, match="echo yes"):
        run_console(code_blocks(page)[0], page, tmp_path)


@pytest.mark.parametrize("module", ["lasn", "lasn.datasets", "lasn.report", "lasn.tables"])
def test_the_reference_lists_every_public_name(module):
    prefix = module.removeprefix("lasn").lstrip(".")
    names = {f"{prefix}.{name}".lstrip(".") for name in import_module(module).__all__}
    assert names - {"__version__"} <= _listed()


def _listed() -> set[str]:
    """The names in the reference."""
    text = (DOCS / "reference.md").read_text()
    return set(re.findall(r"^(?:   |\.\. data:: )([\w.]+)$", text, flags=re.M))


def test_everything_in_the_reference_has_an_example_that_runs():
    """But for what takes data of the site, which tests do not download."""
    for name in _listed():
        module, _, attribute = f"lasn.{name}".rpartition(".")
        thing = getattr(import_module(module), attribute)
        if callable(thing):
            assert ">>>" in thing.__doc__, name
            assert "+SKIP" not in thing.__doc__ or name in ("datasets.load", "datasets.fetch"), name


def test_readme_shows_what_was_measured():
    from readme_table import wanted

    for path, text in wanted().items():
        assert path.read_text() == text, "run: python benchmarks/readme_table.py"


def test_the_commands_of_readme_run(reader):
    for block in code_blocks(ROOT / "README.md"):
        if block.kind == "sh":
            run_shell(block.body, reader)


def test_pages_type_no_seconds_of_benchmarks():
    """Benchmark numbers are read from the results: a page with " 0.51 s" typed would drift."""
    for page in PAGES:
        prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
        assert not re.search(r"\b\d+\.\d+ s\b", prose), page.name


@pytest.mark.parametrize(
    "script", sorted((ROOT / "examples").glob("plot_*.py")), ids=lambda p: p.stem
)
def test_examples_are_gallery_scripts(script):
    """Sphinx runs them; here only what it would not complain about."""
    text = script.read_text()
    title = re.match(r'"""\n(.+)\n=+\n', text)
    assert title, "needs a title"
    assert "suptitle(" in text, "the picture's title is its alternative text"
    compile(text, str(script), "exec")

"""The check of the built site notices what it is there for."""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parent.parent / "docs" / "check_site.py"
GOOD = """<a href="b.html#there">b</a><a href="#here">up</a><h1 id="here">A</h1>
<img src="p.png" alt="two words"><svg aria-label="a curve"></svg><svg aria-hidden="true"></svg>
<a href="https://example.org/">elsewhere</a>"""


@pytest.fixture(scope="module")
def check():
    spec = importlib.util.spec_from_file_location("check_site", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.check


@pytest.fixture
def site(tmp_path):
    (tmp_path / "a.html").write_text(GOOD)
    (tmp_path / "b.html").write_text('<h1 id="there">B</h1>')
    (tmp_path / "p.png").write_bytes(b"")
    return tmp_path


def test_a_good_site_passes(check, site):
    assert check(site) == []


@pytest.mark.parametrize(
    ("html", "complaint"),
    [
        ('<a href="c.html">c</a>', "c.html leads nowhere"),
        ('<a href="b.html#nowhere">b</a>', "b.html#nowhere has no such place"),
        ('<a href="#nowhere">b</a>', "#nowhere has no such place"),
        ('<img src="p.png">', "p.png has no alternative text"),
        ('<img src="p.png" alt="plot">', "p.png has no alternative text"),
        ("<svg></svg>", "neither aria-label nor aria-hidden"),
        ('<script src="https://example.org/x.js"></script>', "fetches https://example.org/x.js"),
        ('<link rel="stylesheet" href="//example.org/x.css">', "fetches //example.org/x.css"),
    ],
)
def test_what_is_wrong_is_named(check, site, html, complaint):
    (site / "a.html").write_text(html)
    (told,) = check(site)
    assert told.startswith("a.html: ")
    assert complaint in told


def test_a_folder_without_pages_is_no_site(check, tmp_path):
    (told,) = check(tmp_path)
    assert "make docs" in told

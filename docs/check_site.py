"""Check a built site: every link inside it resolves, every picture has words, nothing is fetched.

    python docs/check_site.py docs/build/html

Prints one line for each thing that is wrong; the exit status is 1 if there is any.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Elements that make a browser fetch something, and where they say what.
_FETCHED = {"script": "src", "img": "src", "link": "href", "source": "src", "iframe": "src"}
_NOT_FETCHED_LINKS = {"canonical", "next", "prev", "search", "index", "author", "help", "copyright"}


class Page(HTMLParser):
    """What a page links to, fetches, names and draws."""

    def __init__(self, path: Path):
        super().__init__()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.anchors: set[str] = set()
        self.wrong: list[str] = []
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, given: list[tuple[str, str | None]]) -> None:
        has = {name: value or "" for name, value in given}
        self.anchors |= {has[name] for name in ("id", "name") if name in has}
        if tag == "a" and "href" in has:
            self.links.append(has["href"])
        rel = set(has.get("rel", "").split())
        if tag in _FETCHED and has.get(_FETCHED[tag]) and not rel & _NOT_FETCHED_LINKS:
            self.fetched.append(has[_FETCHED[tag]])
        if tag == "img" and not _says_something(has.get("alt", "")):
            self.wrong.append(f"picture {has.get('src')} has no alternative text")
        if tag == "svg" and "aria-hidden" not in has and not has.get("aria-label"):
            self.wrong.append("a drawing has neither aria-label nor aria-hidden")


def _says_something(text: str) -> bool:
    """Words, and not the name of a file or script."""
    return len(text.split()) >= 2


def check(site: Path) -> list[str]:
    """What is wrong, one line each."""
    found = [path for path in sorted(site.rglob("*.html")) if "_static" not in path.parts]
    pages = {path.resolve(): Page(path) for path in found}
    if not pages:
        return [f"{site} has no pages: make docs"]
    wrong = []
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        wrong += [f"{name}: {text}" for text in page.wrong]
        wrong += [f"{name}: fetches {one}" for one in page.fetched if urlsplit(one).netloc]
        for link in {*page.links, *page.fetched}:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            fragment = unquote(parts.fragment)
            if not target.is_file():
                wrong.append(f"{name}: {link} leads nowhere")
            elif fragment and target in pages and fragment not in pages[target].anchors:
                wrong.append(f"{name}: {link} has no such place")
    return wrong


def main() -> int:
    site = Path(sys.argv[1])
    wrong = check(site)
    print("\n".join(wrong) if wrong else f"{site}: links resolve, pictures have words")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

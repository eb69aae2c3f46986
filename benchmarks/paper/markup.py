"""HTML by small functions: tables, sections, and the style of the page."""

import re
from html import escape

from paper.verdicts import Verdict

STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --paper: #ffffff;
  --line: #d8dee6; --band: #f4f6f9; --good: #14713d; --bad: #b3261e; --open: #6b7280; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ee; --paper: #14181e;
  --line: #333c48; --band: #1c222a; --good: #5fcf8e; --bad: #ff8a80; --open: #9aa6b5; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 1240px; color: var(--ink);
  background: var(--paper); font: 16px/1.5 system-ui, "DejaVu Sans", sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .5rem; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 .5rem; border-top: 1px solid var(--line);
  padding-top: 1rem; }
h3 { font-size: 1rem; margin: 1.5rem 0 .25rem; }
p, dd { max-width: 72ch; } dt { font-weight: 600; } dd { margin: 0 0 .75rem; }
code { font-size: .9em; overflow-wrap: anywhere; }
nav { display: flex; flex-wrap: wrap; gap: .25rem 1rem; } a { color: inherit; }
.scroll { overflow-x: auto; margin: .75rem 0; border: 1px solid var(--line); border-radius: 6px; }
table { border-collapse: collapse; font-size: .8rem; width: 100%;
  font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .5rem; text-align: right; white-space: nowrap; }
th { background: var(--band); text-align: right; vertical-align: bottom; font-weight: 600; }
th:first-child, td:first-child { text-align: left; position: sticky; left: 0;
  background: var(--paper); }
th:first-child { background: var(--band); }
tbody tr + tr td { border-top: 1px solid var(--line); }
td.text { text-align: left; white-space: normal; min-width: 14rem; }
.good { color: var(--good); } .bad { color: var(--bad); font-weight: 600; }
.open { color: var(--open); }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(320px, 100%), 1fr));
  gap: 1rem; }
figure { margin: 0; } figure svg { width: 100%; height: auto; display: block; }
.tally { display: flex; flex-wrap: wrap; gap: .5rem 2rem; padding: 0; list-style: none; }
.tally b { font-size: 1.4rem; display: block; }
"""


class Html(str):
    """Text that is HTML already; any other text is escaped."""


class Words(str):
    """A cell of words: to the left, and wrapped."""


def table(header: list[str], rows: list[list]) -> Html:
    """A table that scrolls sideways where it is too wide; None is a dash."""
    if not rows:
        return paragraph("Not run yet.")
    head = "".join(f"<th>{_cell(name)}</th>" for name in header)
    body = "".join(f"<tr>{''.join(map(_data, row))}</tr>" for row in rows)
    return Html(
        f"<div class='scroll'><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def section(identity: str, title: str, *parts: str) -> Html:
    content = "".join(part if isinstance(part, Html) else paragraph(part) for part in parts)
    return Html(f"<section><h2 id='{identity}'>{escape(title)}</h2>{content}</section>")


def paragraph(text: str) -> Html:
    """Plain text; what stands between backquotes is code."""
    marked = re.sub("`(.*?)`", r"<code>\1</code>", escape(text))
    return Html(f"<p>{marked}</p>")


def definitions(texts: dict[str, str]) -> Html:
    items = (f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in texts.items())
    return Html(f"<dl>{''.join(items)}</dl>")


def figures(drawings: list[str]) -> Html:
    return Html(
        "<div class='plots'>" + "".join(f"<figure>{d}</figure>" for d in drawings) + "</div>"
    )


def document(title: str, content: list[str]) -> str:
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>"
        f"<body>{''.join(content)}</body></html>\n"
    )


def _data(value) -> str:
    if isinstance(value, Verdict):
        return f"<td class='{value.tone}'>{escape(value.word)}</td>"
    kind = " class='text'" if isinstance(value, Words) else ""
    return f"<td{kind}>{_cell(value)}</td>"


def _cell(value) -> str:
    if value is None:
        return "–"
    return value if isinstance(value, Html) else escape(str(value))

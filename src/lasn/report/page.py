"""The parts that a report is made of, as HTML: no script, no address, everything in one file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

from lasn.report.charts import Chart, number

STYLE = """
:root { color-scheme: light dark;
  --paper: #fcfcfb; --card: #ffffff; --text: #16161a; --soft: #55555e; --line: #e2e1dc;
  --s1: #2a78d6; --s2: #d9581f; --s3: #148f63; --s4: #b27a00; --s5: #c94f80; --s6: #4a3aa7;
  --s7: #4f7d12; --s8: #d03b3b; }
@media (prefers-color-scheme: dark) { :root {
  --paper: #17171a; --card: #1f1f23; --text: #f2f2f4; --soft: #b6b6bf; --line: #37373d;
  --s1: #5598e7; --s2: #ec7a4a; --s3: #2fb587; --s4: #d8a02c; --s5: #e27ba3; --s6: #a297ee;
  --s7: #8dba4a; --s8: #ee7f7f; } }
@media print { :root { color-scheme: light;
  --paper: #ffffff; --card: #ffffff; --text: #000000; --soft: #444444; --line: #cccccc;
  --s1: #2a78d6; --s2: #d9581f; --s3: #148f63; --s4: #b27a00; --s5: #c94f80; --s6: #4a3aa7;
  --s7: #4f7d12; --s8: #d03b3b; } }
* { box-sizing: border-box; }
html { scroll-behavior: smooth; }
@media (prefers-reduced-motion: reduce) { html { scroll-behavior: auto; } }
body { margin: 0; background: var(--paper); color: var(--text);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
.wrap { max-width: 1080px; margin: 0 auto; padding: 0 20px 48px; }
header h1 { font-size: 1.6rem; line-height: 1.25; margin: 28px 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 40px 0 8px; padding-top: 8px; border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 0; }
p { margin: 4px 0 12px; max-width: 72ch; } .soft, figcaption p { color: var(--soft); }
figcaption p { font-size: 0.9rem; margin: 2px 0 8px; }
a { color: var(--s1); } :focus-visible { outline: 2px solid var(--s1); outline-offset: 2px; }
.skip { position: absolute; left: -999px; } .skip:focus { left: 8px; top: 8px; }
nav ul { display: flex; flex-wrap: wrap; gap: 4px 16px; padding: 0; margin: 12px 0; }
nav li { list-style: none; }
.note { border-left: 4px solid var(--s4); padding: 6px 12px; background: var(--card); }
.tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(150px, 1fr)); gap: 12px;
  padding: 0; margin: 16px 0; }
.tiles div { background: var(--card); border: 1px solid var(--line); border-radius: 8px;
  padding: 10px 14px; }
.tiles dt { color: var(--soft); font-size: 0.85rem; } .tiles dd { margin: 0; font-size: 1.35rem; }
.grid2 { display: grid; gap: 16px;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 420px), 1fr)); align-items: start; }
.wide { grid-column: 1 / -1; }
figure, .card { margin: 0; background: var(--card); border: 1px solid var(--line);
  border-radius: 8px; padding: 14px 16px; min-width: 0; }
svg { display: block; width: 100%; height: auto; }
svg text { font-size: 12.5px; fill: var(--soft); font-variant-numeric: tabular-nums; }
svg .label { fill: var(--text); }
.grid { stroke: var(--line); } .axis { stroke: var(--soft); }
.rule { stroke: var(--soft); stroke-dasharray: 5 4; }
.line { fill: none; stroke-width: 2; stroke: currentColor; stroke-linejoin: round; }
.dot, .bar { fill: currentColor; } .faint { fill-opacity: 0.45; } .bar { fill-opacity: 0.85; }
.s1 { color: var(--s1); } .s2 { color: var(--s2); } .s3 { color: var(--s3); }
.s4 { color: var(--s4); } .s5 { color: var(--s5); } .s6 { color: var(--s6); }
.s7 { color: var(--s7); } .s8 { color: var(--s8); }
.legend { display: flex; flex-wrap: wrap; gap: 2px 14px; padding: 0; margin: 0 0 6px;
  font-size: 0.85rem; }
.legend li { list-style: none; }
.legend li::before { content: ""; display: inline-block; width: 14px; height: 3px;
  margin-right: 6px; vertical-align: middle; background: currentColor; }
.legend span { color: var(--text); }
.scroll { overflow: auto; max-height: 480px; }
table { border-collapse: collapse; font-size: 0.9rem; width: 100%; }
th, td { text-align: left; padding: 4px 5px; border-bottom: 1px solid var(--line);
  vertical-align: top; }
.entries td, .entries th { overflow-wrap: anywhere; } .entries th { width: 40%; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
thead th { color: var(--soft); font-weight: 600; white-space: nowrap; }
tbody th { font-weight: 400; color: var(--soft); }
.matrix { width: auto; } .matrix th, .matrix td { padding: 5px 8px; white-space: nowrap; }
.matrix td { background: color-mix(in srgb, var(--s1) calc(var(--share) * 55%), transparent); }
.matrix td.off { background: color-mix(in srgb, var(--s2) calc(var(--share) * 55%), transparent); }
.time { display: block; height: 12px; min-width: 2px; border-radius: 0 4px 4px 0;
  background: var(--s1); margin-top: 5px; } .time-cell { width: 55%; }
details { margin-top: 8px; } summary { cursor: pointer; font-size: 0.9rem; color: var(--s1); }
@media (max-width: 480px) { .wrap { padding: 0 12px 32px; } table { font-size: 0.82rem; }
  th, td { padding: 4px 3px; } svg text { font-size: 15px; } }
footer { margin-top: 48px; color: var(--soft); font-size: 0.85rem; }
@media print { nav, .skip, details:not([open]) { display: none; } table { font-size: 0.7rem; }
  .wrap { max-width: none; padding: 0; } th, td { padding: 3px; }
  .scroll { max-height: none; overflow: visible; } .grid2 { grid-template-columns: 1fr 1fr; }
  figure, .card, tr { break-inside: avoid; } h2, h3 { break-after: avoid; } }
"""


def document(title: str, intro: str, sections: Sequence[tuple[str, str, str]], footer: str) -> str:
    """A page: ``sections`` are (id, heading, HTML)."""
    links = "".join(
        f'<li><a href="#{id}">{escape(heading)}</a></li>' for id, heading, _ in sections
    )
    body = "".join(
        f'<section id="{id}" aria-labelledby="{id}-heading">'
        f'<h2 id="{id}-heading">{escape(heading)}</h2>{html}</section>'
        for id, heading, html in sections
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>"
        '<body><a class="skip" href="#main">Skip to the report</a><div class="wrap">'
        f"<header><h1>{escape(title)}</h1>{intro}</header>"
        f'<nav aria-label="Sections"><ul>{links}</ul></nav>'
        f'<main id="main">{body}</main><footer>{footer}</footer></div></body></html>\n'
    )


def paragraph(text: str, kind: str = "") -> str:
    return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


def tiles(entries: Sequence[tuple[str, str]]) -> str:
    """Large numbers with small names."""
    inside = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in entries
    )
    return f'<dl class="tiles">{inside}</dl>'


def figure(
    chart: Chart, columns: Sequence[str], rows: Sequence[Sequence[Any]], legend: Sequence[str] = ()
) -> str:
    """A chart with its heading, its legend and a table of its numbers."""
    names = "".join(
        f'<li class="s{index}"><span>{escape(name)}</span></li>'
        for index, name in enumerate(legend, start=1)
    )
    return (
        f'<figure id="{chart.name}"><figcaption><h3>{escape(chart.title)}</h3>'
        f"<p>{escape(chart.description)}</p></figcaption>"
        f"{f'<ul class=legend>{names}</ul>' if names else ''}{chart.svg()}"
        f"<details><summary>Numbers of “{escape(chart.title)}”</summary>"
        f"{table(chart.title, columns, rows)}</details></figure>"
    )


def table(name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table that scrolls, also by keyboard, where it is too large; numbers are to the right."""
    numeric = [
        bool(rows) and all(isinstance(row[j], (int, float)) for row in rows)
        for j in range(len(columns))
    ]
    head = "".join(
        f'<th scope="col"{_right(right)}>{escape(column)}</th>'
        for column, right in zip(columns, numeric, strict=True)
    )
    texts = [_aligned(column) for column in zip(*rows, strict=True)]
    body = "".join(
        "<tr>" + "".join(_cell(v, right) for v, right in zip(row, numeric, strict=True)) + "</tr>"
        for row in zip(*texts, strict=True)
    )
    return scrolling(name, f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")


def entries(name: str, pairs: Sequence[tuple[str, Any]], folded: str = "", rest=()) -> str:
    """A card of names and values, one a line; ``rest`` is folded away under a name of its own."""
    more = ""
    if rest:
        more = f"<details><summary>{escape(folded)}</summary>{_entry_table(rest)}</details>"
    return f'<div class="card"><h3>{escape(name)}</h3>{_entry_table(pairs)}{more}</div>'


def _entry_table(pairs: Sequence[tuple[str, Any]]) -> str:
    body = "".join(
        f'<tr><th scope="row">{escape(key)}</th>{_cell(value, False)}</tr>' for key, value in pairs
    )
    return f'<table class="entries"><tbody>{body}</tbody></table>'


def scrolling(name: str, html: str) -> str:
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(name)}">{html}</div>'
    )


def bars(name: str, columns: tuple[str, str], values: dict[str, float]) -> str:
    """Names, numbers and their bars."""
    largest = max(values.values(), default=0.0) or 1.0
    body = "".join(
        f'<tr><th scope="row">{escape(key)}</th><td class="n">{number(value)}</td>'
        f'<td class="time-cell"><span class="time" style="width:{100 * value / largest:.1f}%">'
        "</span></td></tr>"
        for key, value in values.items()
    )
    return (
        f'<div class="card"><table aria-label="{escape(name)}"><thead><tr>'
        f'<th scope="col">{escape(columns[0])}</th><th scope="col" class="n">{escape(columns[1])}'
        f"</th><td></td></tr></thead><tbody>{body}</tbody></table></div>"
    )


def matrix(name: str, labels: Sequence[str], counts: Sequence[Sequence[int]]) -> str:
    """A confusion matrix, true classes down and predicted ones across, shaded by share of a row."""
    head = "".join(f'<th scope="col" class="n">{escape(label)}</th>' for label in labels)
    body = ""
    for position, (label, row) in enumerate(zip(labels, counts, strict=True)):
        total = max(sum(row), 1)
        cells = "".join(
            f'<td class="n{"" if j == position else " off"}" style="--share:{value / total:.3f}" '
            f'title="{100 * value / total:.1f} % of {escape(label)}">{value}</td>'
            for j, value in enumerate(row)
        )
        body += f'<tr><th scope="row">{escape(label)}</th>{cells}</tr>'
    return scrolling(
        name,
        '<table class="matrix"><thead><tr><th scope="col">true \\ predicted</th>'
        f"{head}</tr></thead><tbody>{body}</tbody></table>",
    )


def _right(numeric: bool) -> str:
    return ' class="n"' if numeric else ""


def _aligned(column: Sequence[Any]) -> Sequence[Any]:
    """Numbers of like size with the same decimals, four digits of the largest."""
    if not all(isinstance(value, float) and math.isfinite(value) for value in column):
        return column
    sizes = [abs(value) for value in column if value]
    if not sizes or all(value == round(value) for value in column):
        return column
    if max(sizes) >= 1e6 or min(sizes) < 1e-3 * max(sizes) or max(sizes) < 1e-3:
        return column
    decimals = min(max(3 - math.floor(math.log10(max(sizes))), 0), 6)
    return [f"{value:.{decimals}f}" for value in column]


def _cell(value: Any, right: bool) -> str:
    text = number(value) if isinstance(value, float) else str(value)
    return f"<td{_right(right)}>{escape(text)}</td>"

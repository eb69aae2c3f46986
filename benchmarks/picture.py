"""The picture of the first page: seconds of a fit against test accuracy, one panel a data set.

It is written by hand as SVG, so that the same results give the same bytes. Colours are CSS classes:
the file that README shows carries its own style for light and dark, the documentation has the
theme's.
"""

import math
from html import escape

import published

WIDTH, HEIGHT = 330, 270
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 12, 34, 42
_SECONDS = (0.02, 200.0)

# Group of competitors: name in the legend, CSS class, shape.
_GROUPS = {
    "lasn": ("LASN, several k", "ours", "circle"),
    "svc": ("scikit-learn SVC", "svc", "square"),
    "sklearnex-svc-float32": ("Intel's SVC, float32", "intel", "square"),
    "nystroem-linearsvc-primal": ("Nystroem + LinearSVC", "linear", "triangle"),
    "nystroem-cyanure": ("Nystroem + cyanure", "cyanure", "triangle"),
    "lightgbm": ("LightGBM (trees)", "trees", "diamond"),
}

STYLE = """
.panel { font: 12px system-ui, sans-serif; }
.panel text { fill: #4b5563; } .panel .title { fill: #1f2933; font-weight: 600; font-size: 13px; }
.panel .grid { stroke: #e1e5ea; } .panel .path { fill: none; stroke: #0072B2; stroke-width: 2; }
.panel .ours { fill: #0072B2; } .panel .svc { fill: #D55E00; } .panel .intel { fill: #CC79A7; }
.panel .linear { fill: #009E73; } .panel .cyanure { fill: #B07800; }
.panel .trees { fill: #6b7280; }
@media (prefers-color-scheme: dark) {
.panel text { fill: #b6c0cc; } .panel .title { fill: #eef1f5; } .panel .grid { stroke: #38414d; }
.panel .path { stroke: #56B4E9; } .panel .ours { fill: #56B4E9; } .panel .svc { fill: #F0803C; }
.panel .intel { fill: #E3A3C7; } .panel .linear { fill: #2CC79B; }
.panel .cyanure { fill: #E6B84A; }
.panel .trees { fill: #9aa4b2; } }
"""


def picture(names=published.FIRST_PAGE) -> str:
    """The panels side by side with a legend below: a whole SVG file."""
    width, height = WIDTH * len(names), HEIGHT + 34
    body = "".join(
        f'<g transform="translate({WIDTH * place} 0)">{_panel(name)}</g>'
        for place, name in enumerate(names)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(description(names))}"><style>{STYLE}</style>'
        f'<g class="panel">{body}{_legend(width, HEIGHT + 20)}</g></svg>\n'
    )


def panel(name: str) -> str:
    """One panel as an ``svg`` element for a page that has a style for it."""
    return (
        f'<svg class="panel" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(description([name]))}">{_panel(name)}</svg>'
    )


def legend() -> str:
    """The legend as HTML, for the panels of a page."""
    items = "".join(
        f'<span><svg class="panel" viewBox="0 0 14 14" width="14" height="14" aria-hidden="true">'
        f"{_mark(shape, 7, 7, kind)}</svg>{escape(text)}</span>"
        for text, kind, shape in _GROUPS.values()
    )
    return f'<p class="panel-legend">{items}</p>'


def description(names) -> str:
    """The picture in words."""
    told = []
    for name in names:
        ours, svc = published.as_good_as_svc(name), published.entry(name, "svc")
        if ours is None:
            continue
        text = (
            f"On {name} LASN takes {float(ours['fit_seconds']):.2g} seconds for "
            f"{float(ours['accuracy']):.2f} % with {ours['k']} landmarks"
        )
        if svc is not None and svc["status"] == "ok":
            text += (
                f", scikit-learn's SVC {float(svc['fit_seconds']):.2g} seconds for "
                f"{float(svc['accuracy']):.2f} %"
            )
        told.append(text + ".")
    return " ".join(["Seconds of a fit against test accuracy.", *told])


def _panel(name: str) -> str:
    series = {peer: _points(name, peer) for peer in _GROUPS}
    accuracies = [accuracy for points in series.values() for _, accuracy, _ in points]
    low, high, ticks = _accuracy_axis(accuracies)

    def across(value: float) -> float:
        share = math.log(value / _SECONDS[0]) / math.log(_SECONDS[1] / _SECONDS[0])
        return _LEFT + share * (WIDTH - _LEFT - _RIGHT)

    def up(value: float) -> float:
        share = (value - low) / (high - low)
        return HEIGHT - _BOTTOM - share * (HEIGHT - _BOTTOM - _TOP)

    parts = [f'<text class="title" x="{_LEFT}" y="18">{name}, {published.rows_of(name)}</text>']
    corner = f'x="{WIDTH - _RIGHT}" y="18" text-anchor="end"'
    parts.append(f"<text {corner}>test accuracy ↑</text>")
    for tick in ticks:
        y = up(tick)
        parts.append(
            f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        )
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{tick:g} %</text>')
    for tick in (0.1, 1, 10, 100):
        x = across(tick)
        parts.append(
            f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{HEIGHT - _BOTTOM}"/>'
        )
        parts.append(
            f'<text x="{x:.1f}" y="{HEIGHT - _BOTTOM + 17}" text-anchor="middle">{tick:g} s</text>'
        )
    middle = (_LEFT + WIDTH - _RIGHT) / 2
    parts.append(
        f'<text x="{middle:.1f}" y="{HEIGHT - 6}" text-anchor="middle">seconds of a fit</text>'
    )
    for peer, points in reversed(series.items()):
        text, kind, shape = _GROUPS[peer]
        if peer == "lasn":
            line = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y, _ in points)
            parts.append(f'<polyline class="path" points="{line}"/>')
        for x, y, k in points:
            label = f"{text.split(',')[0]}{f', k = {k}' if k else ''}: {x:.3g} s, {y:.2f} %"
            parts.append(_mark(shape, across(x), up(y), kind, label))
    return "".join(parts)


def _points(name: str, peer: str) -> list[tuple[float, float, str]]:
    """(seconds, accuracy, k), by seconds; time-outs are not points."""
    rows = [row for row in published.records(f"compare-{name}") if row["peer"] == peer]
    rows = [row for row in rows if row["status"] == "ok"]
    rows.sort(key=lambda row: float(row["fit_seconds"]))
    return [(float(row["fit_seconds"]), float(row["accuracy"]), row["k"]) for row in rows]


def _accuracy_axis(values: list[float]) -> tuple[float, float, list[float]]:
    """Limits around the values, and ticks at round numbers between them."""
    step = next(
        step for step in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20) if (max(values) - min(values)) / step <= 5
    )
    low, high = min(values) - 0.4 * step, max(values) + 0.4 * step
    first, last = math.ceil(low / step), math.floor(high / step)
    return low, high, [round(tick * step, 6) for tick in range(first, last + 1)]


def _mark(shape: str, x: float, y: float, kind: str, label: str = "") -> str:
    title = f"<title>{escape(label)}</title>" if label else ""
    if shape == "circle":
        return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="4.2">{title}</circle>'
    corners = {
        "square": [(-4, -4), (4, -4), (4, 4), (-4, 4)],
        "triangle": [(0, -5), (5, 4), (-5, 4)],
        "diamond": [(0, -5.5), (5.5, 0), (0, 5.5), (-5.5, 0)],
    }[shape]
    points = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in corners)
    return f'<polygon class="{kind}" points="{points}">{title}</polygon>'


def _legend(width: int, y: int) -> str:
    """Entries in one line, as wide as their texts."""
    widths = [32 + 6.8 * len(text) for text, _, _ in _GROUPS.values()]
    x = (width - sum(widths)) / 2
    parts = []
    for (text, kind, shape), wide in zip(_GROUPS.values(), widths, strict=True):
        parts.append(_mark(shape, x + 6, y - 4, kind))
        parts.append(f'<text x="{x + 16:.1f}" y="{y}">{escape(text)}</text>')
        x += wide
    return "".join(parts)

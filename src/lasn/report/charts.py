"""Small charts as inline SVG: text in, text out; colours come from the page's CSS variables.

A chart is a list of marks over two axes. It scales with the page's width, prints, and follows light
and dark. For those who do not see it, it has a title and a description; points with a ``title``
tell their numbers when pointed at.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

WIDTH, HEIGHT = 440, 270
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 14, 14, 44
_DECADES_APART = 6


@dataclass(frozen=True)
class Line:
    """Points joined by a line, with dots if there are few; ``series`` picks the colour, 1 to 8."""

    x: Sequence[float]
    y: Sequence[float]
    series: int = 1
    dots: bool = True


@dataclass(frozen=True)
class Dots:
    """Points alone."""

    x: Sequence[float]
    y: Sequence[float]
    series: int = 1


@dataclass(frozen=True)
class Bars:
    """Bars from zero, between edges: one more edge than heights."""

    edges: Sequence[float]
    heights: Sequence[float]
    series: int = 1


@dataclass(frozen=True)
class Whiskers:
    """Vertical lines from low to high, such as standard errors."""

    x: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    series: int = 1


@dataclass(frozen=True)
class Rule:
    """A dashed line: level at ``y``, upright at ``x``, or from corner to corner for both None."""

    y: float | None = None
    x: float | None = None
    text: str = ""


Mark = Line | Dots | Bars | Whiskers | Rule


@dataclass(frozen=True)
class Axis:
    """A label and a scale. Limits are those of the marks unless they are given."""

    label: str
    log: bool = False
    whole: bool = False
    limits: tuple[float, float] | None = None


@dataclass
class Chart:
    """Marks over two axes; ``name`` makes its parts' ids unique in a page."""

    name: str
    title: str
    description: str
    x: Axis
    y: Axis
    marks: list[Mark] = field(default_factory=list)

    def svg(self) -> str:
        """The chart as an ``svg`` element."""
        across = _Scale(self.x, _values(self.marks, "x", self.x.log), _LEFT, WIDTH - _RIGHT)
        up = _Scale(self.y, _values(self.marks, "y", self.y.log), HEIGHT - _BOTTOM, _TOP)
        body = [*_grid(across, up), *(_draw(mark, across, up) for mark in self.marks)]
        return (
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
            f'aria-labelledby="{self.name}-title {self.name}-description">'
            f'<title id="{self.name}-title">{escape(self.title)}</title>'
            f'<desc id="{self.name}-description">{escape(self.description)}</desc>'
            f"{''.join(body)}{_labels(self.x.label, self.y.label)}</svg>"
        )


class _Scale:
    """From values to places on the paper."""

    def __init__(self, axis: Axis, values: list[float], start: float, end: float):
        self.axis, self.start, self.end = axis, start, end
        if axis.limits is not None:
            self.low, self.high = axis.limits
        elif axis.log:
            self.low, self.high = _whole_decades(values or [0.1, 1.0])
        else:
            ends = linear_ticks(min(values), max(values), axis.whole) if values else [0.0, 1.0]
            self.low, self.high = ends[0], ends[-1]

    def __call__(self, value: float) -> float:
        low, high, value = (self._linear(v) for v in (self.low, self.high, value))
        share = (value - low) / (high - low) if high > low else 0.5
        return round(self.start + min(max(share, -0.02), 1.02) * (self.end - self.start), 1)

    def _linear(self, value: float) -> float:
        return math.log10(max(value, 1e-300)) if self.axis.log else float(value)

    def ticks(self) -> list[float]:
        if not self.axis.log:
            inside = linear_ticks(self.low, self.high, self.axis.whole)
            return [tick for tick in inside if self.low <= tick <= self.high * (1 + 1e-12)]
        first, last = round(math.log10(self.low)), round(math.log10(self.high))
        step = max(1, math.ceil((last - first) / _DECADES_APART))
        return [10.0**power for power in range(first, last + 1, step)]


def linear_ticks(low: float, high: float, whole: bool = False) -> list[float]:
    """Round numbers, four to eight of them, from at most low to at least high.

    Examples
    --------
    >>> from lasn.report.charts import linear_ticks
    >>> linear_ticks(0.0, 0.93)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    >>> linear_ticks(1, 3, whole=True)
    [1.0, 2.0, 3.0]
    """
    if high <= low:
        pad = abs(low) * 0.05 or 1.0
        low, high = (max(low - 1.0, 0.0), high + 1.0) if whole else (low - pad, high + pad)
    rough = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    step = max(1.0, round(step)) if whole else step
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [float(f"{index * step:.12g}") for index in range(first, last + 1)]


def number(value: float, digits: int = 4) -> str:
    """A number as short as it can be read, or with more digits where those tell less than wanted.

    Examples
    --------
    >>> from lasn.report.charts import number
    >>> [number(value) for value in (0.0, 0.25, 1234567.0, 1e-7, 1500.0)]
    ['0', '0.25', '1.23e6', '1e-7', '1500']
    """
    if not math.isfinite(value):
        return "none" if math.isnan(value) else ("∞" if value > 0 else "-∞")
    if value == 0.0:
        return "0"
    if 1e-3 <= abs(value) < 1e6:
        return f"{value:.0f}" if value == round(value) else f"{value:.{digits}g}"
    mantissa, _, power = f"{value:.{digits - 2}e}".partition("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(power)}"


def tick_labels(ticks: list[float]) -> list[str]:
    """Ticks as text, with as many digits as tell them apart.

    Examples
    --------
    >>> from lasn.report.charts import tick_labels
    >>> tick_labels([1216.8, 1217.0, 1217.2])
    ['1216.8', '1217', '1217.2']
    """
    labels = [number(tick) for tick in ticks]
    digits = 4
    while len(set(labels)) < len(set(ticks)):
        digits += 1
        labels = [number(tick, digits) for tick in ticks]
    return labels


def _labelled(ticks: list[float]) -> zip[tuple[float, str]]:
    return zip(ticks, tick_labels(ticks), strict=True)


def _values(marks: list[Mark], way: str, log: bool) -> list[float]:
    """All values of the marks along one axis that can be drawn on it."""
    found: list[float] = []
    for mark in marks:
        if isinstance(mark, Bars):
            found += mark.edges if way == "x" else [0.0, *mark.heights]
        elif isinstance(mark, Whiskers):
            found += mark.x if way == "x" else [*mark.low, *mark.high]
        elif isinstance(mark, Rule):
            level = mark.x if way == "x" else mark.y
            found += [] if level is None else [level]
        else:
            found += getattr(mark, way)
    return [float(v) for v in found if math.isfinite(v) and (v > 0.0 or not log)]


def _whole_decades(values: list[float]) -> tuple[float, float]:
    first, last = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return 10.0**first, 10.0 ** max(last, first + 1)


def _grid(across: _Scale, up: _Scale) -> list[str]:
    parts = []
    for tick, label in _labelled(up.ticks()):
        y = up(tick)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text x="{_LEFT - 7}" y="{y + 4}" text-anchor="end">{label}</text>')
    for tick, label in _labelled(across.ticks()):
        x, y = across(tick), HEIGHT - _BOTTOM
        parts.append(f'<line class="axis" x1="{x}" x2="{x}" y1="{y}" y2="{y + 4}"/>')
        parts.append(f'<text x="{x}" y="{y + 18}" text-anchor="middle">{label}</text>')
    y = HEIGHT - _BOTTOM
    parts.append(f'<line class="axis" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y}" y2="{y}"/>')
    return parts


def _labels(across: str, up: str) -> str:
    middle = (HEIGHT - _BOTTOM + _TOP) / 2
    return (
        f'<text class="label" x="{(WIDTH + _LEFT - _RIGHT) / 2}" y="{HEIGHT - 6}" '
        f'text-anchor="middle">{escape(across)}</text>'
        f'<text class="label" transform="translate(13 {middle}) rotate(-90)" '
        f'text-anchor="middle">{escape(up)}</text>'
    )


def _draw(mark: Mark, across: _Scale, up: _Scale) -> str:
    if isinstance(mark, Rule):
        return _draw_rule(mark, across, up)
    if isinstance(mark, Bars):
        return _draw_bars(mark, across, up)
    if isinstance(mark, Whiskers):
        ends = zip(mark.x, mark.low, mark.high, strict=True)
        path = "".join(f"M{across(x)} {up(low)}V{up(high)}" for x, low, high in ends)
        return f'<path class="line s{mark.series}" d="{path}"/>'
    drawable = [(x, y) for x, y in zip(mark.x, mark.y, strict=True) if y > 0.0 or not up.axis.log]
    line = ""
    if isinstance(mark, Line) and drawable:
        points = " ".join(f"{across(x)},{up(y)}" for x, y in drawable)
        line = f'<polyline class="line s{mark.series}" points="{points}"/>'
        if not mark.dots:
            return line
    radius = 3.5 if isinstance(mark, Line) else 2.2
    kind = "dot" if isinstance(mark, Line) else "dot faint"
    dots = "".join(
        f'<circle class="{kind} s{mark.series}" cx="{across(x)}" cy="{up(y)}" r="{radius}">'
        f"<title>{number(x)}: {number(y)}</title></circle>"
        for x, y in drawable
    )
    return line + dots


def _draw_bars(mark: Bars, across: _Scale, up: _Scale) -> str:
    parts = []
    floor = up(max(0.0, up.low))
    for left, right, height in zip(mark.edges[:-1], mark.edges[1:], mark.heights, strict=True):
        x, width, top = across(left), across(right) - across(left), up(height)
        parts.append(
            f'<rect class="bar s{mark.series}" x="{x + 0.5:.1f}" y="{min(top, floor)}" '
            f'width="{max(width - 1.0, 0.5):.1f}" height="{abs(floor - top):.1f}">'
            f"<title>{number(left)} to {number(right)}: {number(height)}</title></rect>"
        )
    return "".join(parts)


def _draw_rule(rule: Rule, across: _Scale, up: _Scale) -> str:
    left, right = float(_LEFT), float(WIDTH - _RIGHT)
    bottom, top = float(HEIGHT - _BOTTOM), float(_TOP)
    text = ""
    if rule.y is not None:
        bottom = top = up(rule.y)
        text = f'<text x="{right}" y="{top - 5}" text-anchor="end">{escape(rule.text)}</text>'
    elif rule.x is not None:
        left = right = across(rule.x)
        beyond = left > WIDTH / 2  # there may be no room to the right
        place, anchor = (left - 5, "end") if beyond else (left + 5, "start")
        text = f'<text x="{place}" y="{top + 10}" text-anchor="{anchor}">{escape(rule.text)}</text>'
    else:
        left, right = across(max(across.low, up.low)), across(min(across.high, up.high))
        bottom, top = up(max(across.low, up.low)), up(min(across.high, up.high))
    line = f'<line class="rule" x1="{left}" y1="{bottom}" x2="{right}" y2="{top}"/>'
    return line + (text if rule.text else "")

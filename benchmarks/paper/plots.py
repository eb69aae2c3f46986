"""Plots as SVG that stands in the page and takes its colours from it, by matplotlib."""

import io
import re
from dataclasses import dataclass, field

import numpy as np

# Matplotlib writes colours as numbers; this one is replaced by the page's own.
_INK = "#010203"
_COLOURS = ("#3d85c6", "#d9822b", "#2f9e6e", "#c2417c", "#8b6cd9", "#8a8f98")


@dataclass
class Curve:
    """Points of one line; colour is its number in the palette."""

    label: str
    x: list[float]
    y: list[float]
    colour: int = 0
    dashed: bool = False


@dataclass
class Plot:
    """One pair of axes with a unit on each, and its curves."""

    title: str
    x_label: str
    y_label: str
    curves: list[Curve] = field(default_factory=list)
    log_x: bool = True
    log_y: bool = False


def require_matplotlib() -> None:
    """Fail before hours of measuring, not after."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise SystemExit(
            "the page has plots, and they need matplotlib: pip install 'lasn[plot]'"
        ) from error


def svg(plot: Plot) -> str:
    """The plot as one ``<svg>`` element."""
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    values = [y for curve in plot.curves for y in curve.y]
    style = {
        "svg.fonttype": "none",  # text stays text: any browser has the glyphs
        "svg.hashsalt": plot.title,
        "font.size": 9,
        **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor"), _INK),
        **dict.fromkeys(("xtick.color", "ytick.color"), _INK),
    }
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(4.4, 3.3), layout="constrained")
        axes = figure.subplots()
        for curve in plot.curves:
            axes.plot(
                curve.x,
                curve.y,
                label=curve.label,
                color=_COLOURS[curve.colour % len(_COLOURS)],
                linestyle="--" if curve.dashed else "-",
                marker="o",
                markersize=3.5,
                linewidth=1.6,
            )
        axes.set(title=plot.title, xlabel=plot.x_label, ylabel=plot.y_label)
        plain = FuncFormatter(lambda value, _: f"{value:g}")
        if plot.log_x:
            ticks = sorted({x for curve in plot.curves for x in curve.x})
            axes.set_xscale("log")
            axes.set_xticks(ticks[:: 1 + len(ticks) // 7])
            axes.xaxis.set_major_formatter(plain)
            axes.xaxis.set_minor_formatter(NullFormatter())
        if plot.log_y:
            low, high = np.nanmin(values), np.nanmax(values)
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(plain)
            # Powers of ten alone are too few labels where the curves span less than two of them.
            axes.yaxis.set_minor_locator(LogLocator(subs=(2.0, 5.0)))
            axes.yaxis.set_minor_formatter(plain if high < 100.0 * low else NullFormatter())
        axes.grid(alpha=0.25, color=_INK)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=8)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    drawing = buffer.getvalue()
    drawing = drawing[drawing.index("<svg") :].replace(_INK, "currentColor")
    drawing = re.sub(r"<metadata>.*?</metadata>", "", drawing, flags=re.S)
    return drawing.replace("<svg ", f'<svg role="img" aria-label="{plot.title}" ', 1)

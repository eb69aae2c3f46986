"""One look for the pictures of all examples.

Colours are those of Okabe and Ito, which people with any kind of colour vision can tell apart. The
paper is white in light pages and in dark ones, so that text has its contrast in both.
"""

from cycler import cycler

_INK = "#1f2933"
_FAINT = "#d5dae1"
_COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#6b7280"]

_STYLE = {
    "axes.prop_cycle": cycler(color=_COLOURS),
    "axes.axisbelow": True,
    "axes.edgecolor": "#8a94a3",
    "axes.grid": True,
    "axes.labelcolor": _INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": _INK,
    "axes.titlesize": "medium",
    "figure.constrained_layout.use": True,
    "figure.dpi": 100,
    "figure.facecolor": "white",
    "figure.figsize": (8.0, 4.2),
    "figure.titlesize": "large",
    "figure.titleweight": "bold",
    "font.size": 11.0,
    "grid.color": _FAINT,
    "grid.linewidth": 0.7,
    "image.cmap": "cividis",
    "legend.frameon": False,
    "lines.linewidth": 2.0,
    "lines.markersize": 6.0,
    "text.color": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
}


def apply_style(gallery_conf: dict, example: str) -> None:
    """Set matplotlib to the style; sphinx-gallery calls this before each example."""
    import matplotlib as mpl

    mpl.rcdefaults()
    mpl.use("agg")
    mpl.rcParams.update(_STYLE)

"""The page's figures, from finished cells: which curves stand in which plot."""

from paper import landmark_size
from paper.plots import Curve, Plot, svg

_WAYS = {"best": "best rank k", "kmeans": "k-means", "uniform": "uniform"}


def landmark_sizes(found: dict[str, list[dict]]) -> list[str]:
    """Two plots a group: accuracy and training time against k."""
    drawings = []
    for group, title in (("LD", "large"), ("MD", "medium"), ("SD", "small")):
        names = [name for name in found if landmark_size.GROUPS[name] == group]
        if names:
            part = {name: found[name] for name in names}
            drawings += _pair(part, "k", f"{title} sets ({group})", "landmarks k")
    return drawings


def costs(found: dict[str, list[dict]]) -> list[str]:
    """Two plots: accuracy and training time against C."""
    return _pair(found, "C", "all sets", "cost parameter C") if found else []


def approximation(found: dict[str, list[dict]]) -> list[str]:
    """One plot a set and norm: the error against k for three ways."""
    drawings = []
    for name, cells in found.items():
        for norm in ("frobenius", "spectral"):
            curves = [
                Curve(text, _column(cells, "k"), _column(cells, f"{way}_{norm}"), i)
                for i, (way, text) in enumerate(_WAYS.items())
            ]
            title = f"{name}: {norm.capitalize()} norm"
            drawings.append(
                svg(
                    Plot(
                        title,
                        "landmarks or rank k",
                        "relative error |K − K~| / |K|",
                        curves,
                        log_y=True,
                    )
                )
            )
    return drawings


def theorem_2(found: dict[str, list[dict]]) -> list[str]:
    """One plot a set: |w - w~| and the bounds on it."""
    sides = {
        "distance": "|w − w~|",
        "proved_bound": "bound, proof mended",
        "printed_bound": "bound, printed",
    }
    drawings = []
    for name, cells in found.items():
        curves = [
            Curve(text, _column(cells, "k"), _column(cells, side), i)
            for i, (side, text) in enumerate(sides.items())
        ]
        plot = Plot(
            f"{name}: Theorem 2", "landmarks k", "distance of weights, no unit", curves, log_y=True
        )
        drawings.append(svg(plot))
    return drawings


def _pair(found: dict[str, list[dict]], inner: str, title: str, label: str) -> list[str]:
    accuracy, seconds = [], []
    for i, (name, cells) in enumerate(found.items()):
        x = _column(cells, inner)
        accuracy.append(Curve(f"{name}, test", x, _column(cells, "test_accuracy"), i))
        accuracy.append(Curve(f"{name}, CV", x, _column(cells, "cv_accuracy"), i, dashed=True))
        seconds.append(Curve(name, x, _column(cells, "seconds"), i))
    return [
        svg(Plot(f"Accuracy, {title}", label, "accuracy, %", accuracy)),
        svg(Plot(f"Training time, {title}", label, "training time, s", seconds, log_y=True)),
    ]


def _column(cells: list[dict], name: str) -> list[float]:
    return [cell[name] for cell in cells]

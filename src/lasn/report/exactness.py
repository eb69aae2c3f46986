"""The sections of a report that say how far a model is from the exact kernel machine."""

from __future__ import annotations

import numpy as np

from lasn.certificate import Certificate
from lasn.diagnostics import RefineCurve
from lasn.report.charts import Axis, Chart, Line, number
from lasn.report.page import figure, paragraph, table, tiles

_INTRO = (
    "The exact machine is the best function of the same kernel, C and loss, with every row as a "
    "landmark. What follows is proved from these rows, not estimated. A model may be far from the "
    "exact machine and predict as well, or better: choose on rows that were held out."
)
_OTHER_ROWS = (
    "These are not the rows that the model was trained on, so this is about the exact machine of "
    "these rows, and the model is no answer to that: make the certificate on the training rows."
)


def certificate(found: Certificate, are_training_rows: bool | None) -> str:
    """The bounds of a certificate, each with what it means."""
    shown = paragraph(_INTRO)
    if are_training_rows is False:
        shown = paragraph(_OTHER_ROWS, "note") + shown
    rows = [
        ("objective of this model", number(found.upper_bound), "½|f|² plus the weighted losses"),
        ("best with these landmarks", f"at least {number(found.lower_bound)}",
         f"the fit could gain {_percent(found.relative_gap)} at most by going on"),
    ]  # fmt: skip
    headline = [("gap with these landmarks", _percent(found.relative_gap))]
    if not np.isfinite(found.exact_lower_bound):
        text = "This kernel is not positive semidefinite, so there is no exact machine."
        return shown + paragraph(text) + tiles(headline) + _table(rows)
    headline.append(("gap to the exact machine", _percent(found.relative_exact_gap)))
    rows += [
        ("best of the exact machine", f"at least {number(found.exact_lower_bound)}",
         f"the model's objective is {_percent(found.relative_exact_gap)} above it at most"),
        ("scores", f"within {number(found.score_distance)}",
         "no score of the exact machine on these rows is further from the model's"),
    ]  # fmt: skip
    if found.agreement_share is not None and found.guaranteed_share is not None:
        headline.append(("labels shared, at least", _percent(found.agreement_share)))
        rows += [
            ("labels", f"at least {_percent(found.agreement_share)}",
             "of these rows have the label that the exact machine gives them"),
            ("labels known by row", _percent(found.guaranteed_share),
             "of these rows can be named for which that is certain"),
        ]  # fmt: skip
    if found.kernel_error is not None:
        error = found.kernel_error
        kind = "computed" if error.confidence == 1.0 else f"estimated from {error.rows} rows"
        rows.append(
            ("error of the kernel matrix", number(error.frobenius), f"Frobenius norm, {kind}")
        )
    return shown + tiles(headline) + _table(rows)


def refinement(curve: RefineCurve) -> str:
    """Both bounds on the exact optimum against the number of landmarks."""
    x = curve.n_landmarks.tolist()
    chart = Chart(
        "chart-refine",
        "Rounds of refinement",
        "The exact optimum is between the two lines: above the model's objective it is not.",
        Axis("landmarks", whole=True),
        Axis("objective"),
        [Line(x, curve.upper_bound.tolist(), 1), Line(x, curve.exact_lower_bound.tolist(), 2)],
    )
    columns = ("landmarks", "objective", "lower bound", "relative gap", "training score", "seconds")
    rows = list(
        zip(
            x,
            curve.upper_bound.tolist(),
            curve.exact_lower_bound.tolist(),
            curve.relative_exact_gap.tolist(),
            curve.training_score.tolist(),
            curve.seconds.tolist(),
            strict=True,
        )
    )
    legend = ("the model", "lower bound on the exact machine")
    return f'<div class="grid2">{figure(chart, columns, rows, legend)}</div>'


def _table(rows: list[tuple[str, str, str]]) -> str:
    shown = table("Certificate", ("what", "value", "in words"), rows)
    return f'<div class="card wide" id="certificate-bounds">{shown}</div>'


def _percent(share: float) -> str:
    return f"{100.0 * share:.3g} %"

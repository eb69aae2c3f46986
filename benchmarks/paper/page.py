"""The page: our number, the paper's, the difference and a verdict, cell by cell, and the figures.

``write(folder)`` reads the CSV files of a folder of results and writes ``page.html`` into it: one
file, nothing from outside. What has not been run is shown as not run.
"""

from collections import Counter
from pathlib import Path

from measure import seconds as short
from paper import (
    claims,
    cost_parameter,
    errors,
    figures,
    finished,
    gamma,
    landmark_size,
    markup,
    printed,
    reasons,
    rows,
    table3,
    table4,
    texts,
    verdicts,
)
from paper.cells import read_machine, replace_text
from paper.finished import by_key, by_set
from paper.markup import Html, Words

_PEERS = ("LA-DCD", "LA-TRON")


def write(folder: Path) -> Path:
    """Write ``page.html`` from the results in the folder."""
    return replace_text(folder / "page.html", render(folder))


def render(folder: Path) -> str:
    linear, whole = by_key(folder, table3), by_key(folder, table4)
    sizes, costs = by_set(folder, landmark_size), by_set(folder, cost_parameter)
    sections = [
        _accuracy(whole),
        _libsvm(whole),
        _speed(linear),
        _linear_accuracy(linear),
        _figures("figures-k", "Figures ld_k, nd_k and sd_k: how many landmarks", landmark_size,
                 figures.landmark_sizes(sizes), claims.of_landmark_sizes(sizes)),
        _figures("figures-c", "Figures stable_c and nonstable_c: the cost C", cost_parameter,
                 figures.costs(costs), claims.of_costs(costs)),
        _errors(by_set(folder, errors)),
        _gamma(by_key(folder, gamma)),
        _reasons(folder),
    ]  # fmt: skip
    head = _head(folder, whole, linear)
    return markup.document("The paper's experiments, again", [head, *sections])


def _head(folder: Path, whole: dict, linear: dict) -> Html:
    tally = Counter(verdict.word for verdict in _table4_verdicts(whole) if verdict.tone != "open")
    faster = Counter(
        _solver_verdict(linear, name, peer)[1].word for name in _shown(linear) for peer in _PEERS
    )
    items = [(count, f"Table 4 accuracies {word}") for word, count in tally.items()]
    items += [
        (count, f"Table 3 comparisons: LA-SN {word}")
        for word, count in faster.items()
        if word != verdicts.NOT_RUN.word
    ]
    listed = "".join(f"<li><b>{count}</b> {text}</li>" for count, text in items)
    absent = ", ".join(name for name in rows.missing() if (name, "lasn") not in whole)
    left_out = markup.paragraph(f"Data sets that are not here: {absent}.") if absent else ""
    links = {
        "table-4": "Table 4", "libsvm": "LIBSVM", "table-3": "Table 3", "figures-k": "k",
        "figures-c": "C", "errors": "errors", "reasons": "reasons",
    }  # fmt: skip
    nav = "".join(f"<a href='#{target}'>{text}</a>" for target, text in links.items())
    return Html(
        f"<h1>{texts.TITLE}</h1><nav>{nav}</nav><ul class='tally'>{listed}</ul>"
        + markup.paragraph(f"Measured on: {read_machine(folder)}.")
        + left_out
        + markup.paragraph(texts.SETTINGS)
        + "".join(markup.paragraph(rule) for rule in verdicts.RULES.values())
    )


def _accuracy(whole: dict) -> Html:
    table = []
    for name, verdict in zip(printed.sets(), _table4_verdicts(whole), strict=True):
        paper, other = printed.table(4)[name], printed.table(3)[name]
        ours = whole.get((name, "lasn"))
        row = [_label(name), printed.landmarks(name)]
        if ours is None:
            row += [None, None, None]
        else:
            row += [int(ours["runs"]), _with_deviation(ours), short(ours["seconds"])]
        row += [f"{paper['lasn_accuracy']:.2f} ({paper['lasn_accuracy_std']:.2f})"]
        row += [_difference(ours, paper["lasn_accuracy"]), verdict]
        row += [f"{other['sn_accuracy']:.2f}", _difference(ours, other["sn_accuracy"])]
        table.append([*row, short(paper["lasn_seconds"])])
    header = [
        "set", "k", "runs", "accuracy % (std)", "fit s", "Table 4 prints %", "difference",
        "verdict", "Table 3 prints %", "difference", "paper's s",
    ]  # fmt: skip
    return markup.section(
        "table-4",
        "Table 4: accuracy and time of LASN",
        texts.TABLE_4,
        markup.table(header, table),
    )


def _libsvm(whole: dict) -> Html:
    table = []
    for name in printed.sets():
        found = [whole.get((name, method)) for method in ("svc", "exact", "exact-1", "lasn")]
        if not any(found):
            continue
        svc, exact, exact_1, lasn = found
        paper = printed.table(4)[name]["libsvm_accuracy"]
        verdict = _verdict(name, exact_1, paper) if exact_1 else None
        ratio = svc["seconds"] / lasn["seconds"] if _ok(svc) and _ok(lasn) else None
        table.append(
            [
                _label(name), _seconds(svc), _percent(svc), ratio and f"{ratio:.1f}",
                _seconds(exact), _percent(exact), f"{paper:.2f}", _percent(exact_1),
                _difference(exact_1, paper), verdict,
            ]
        )  # fmt: skip
    header = [
        "set", "SVC, L1 loss: s", "accuracy %", "SVC s / LASN s", "exact L2 loss: s", "accuracy %",
        "Table 4 prints %", "exact, gamma = 1: %", "difference", "verdict",
    ]  # fmt: skip
    return markup.section(
        "libsvm",
        "Table 4: LIBSVM",
        texts.LIBSVM,
        markup.table(header, table),
    )


def _speed(linear: dict) -> Html:
    table = []
    for name in _shown(linear):
        paper = printed.table(3)[name]
        ours = linear.get((name, "LA-SN", "equal"))
        row = [_label(name), printed.landmarks(name), _seconds(ours), _excess(ours), _runs(ours)]
        for peer, column in zip(_PEERS, ("dcd", "tron"), strict=True):
            other = linear.get((name, peer, "equal"))
            ratio, verdict = _solver_verdict(linear, name, peer)
            printed_ratio = paper[f"{column}_seconds"] / paper["sn_seconds"]
            row += [_seconds(other), _excess(other), _runs(other)]
            row += [ratio, f"{printed_ratio:.1f}", verdict]
        table.append(row)
    header = ["set", "k", "LA-SN s", "excess", "runs"]
    for peer in _PEERS:
        header += [f"{peer} s", "excess", "runs", "ratio", "paper's", "verdict"]
    default = []
    for name in _shown(linear):
        cells = [linear.get((name, solver, "default")) for solver in table3.LADDERS]
        shown = [f(cell) for cell in cells for f in (_seconds, _excess, _runs)]
        del shown[-2]  # the hinge loss has another objective
        default.append([_label(name), *shown])
    default_header = ["set"]
    for solver in table3.LADDERS:
        default_header += [f"{solver} s", "excess", "runs"]
    del default_header[-2]
    return markup.section(
        "table-3",
        "Table 3: three solvers for the reduced linear SVM, seconds",
        texts.TABLE_3_EQUAL,
        markup.table(header, table),
        texts.TABLE_3_DEFAULT,
        markup.table(default_header, default),
    )


def _linear_accuracy(linear: dict) -> Html:
    columns = {"LA-SN": "sn", "LA-DCD": "dcd", "LA-TRON": "tron"}
    table = []
    for name in _shown(linear):
        row = [_label(name)]
        for solver, column in columns.items():
            ours, paper = linear.get((name, solver, "default")), printed.table(3)[name]
            value = paper[f"{column}_accuracy"]
            row += [
                _percent(ours),
                f"{value:.2f}",
                _difference(ours, value),
                _verdict(name, ours, value),
            ]
        table.append([*row, _percent(linear.get((name, "LA-L1", "default")))])
    header = ["set"]
    for solver in columns:
        header += [f"{solver} %", "paper's", "difference", "verdict"]
    return markup.section(
        "table-3-accuracy",
        "Table 3: accuracy",
        texts.TABLE_3_ACCURACY,
        markup.table([*header, "LA-L1 %"], table),
    )


def _figures(identity, title, experiment, drawings, found) -> Html:
    text = " ".join(experiment.__doc__.split("\n\n", 1)[-1].split())
    listed = [[c.data_set, Words(c.text), Words(c.measured), c.verdict] for c in found]
    return markup.section(
        identity,
        title,
        text,
        markup.figures(drawings),
        texts.CLAIMS,
        markup.table(["set", "the paper says", "measured", "verdict"], listed),
    )


def _errors(found: dict) -> Html:
    return markup.section(
        "errors",
        "Section 4: errors of the approximation",
        texts.ERRORS,
        markup.figures(figures.approximation(found) + figures.theorem_2(found)),
    )


def _gamma(found: dict) -> Html:
    table = []
    for name, paper in printed.table(1).items():
        ours = found.get((name,))
        row = [name, f"{paper['n']:.0f}", ours and f"{ours['rows']:.0f}", f"{paper['p']:.0f}"]
        row += [ours and f"{ours['features']:.0f}", f"{paper['gamma']:.6g}"]
        table.append([*row, ours and f"{ours['gamma']:.6g}", _gamma_verdict(ours, paper["gamma"])])
    header = ["set", "paper's n", "n", "paper's p", "p", "paper's gamma", "tr Cov(X)", "verdict"]
    return markup.section("table-1", "Table 1: gamma", texts.TABLE_1, markup.table(header, table))


def _gamma_verdict(ours, paper: float) -> verdicts.Verdict:
    return verdicts.relative(ours["gamma"], paper) if _ok(ours) else verdicts.NOT_RUN


def _reasons(folder: Path) -> Html:
    table = []
    for row in finished.rows(folder, reasons):
        paper = printed.table(4)[row["data_set"]]["lasn_accuracy"]
        other = printed.table(3)[row["data_set"]]["sn_accuracy"]
        table.append(
            [
                row["data_set"], row["variant"], int(row["k"]), int(row["rows"]), int(row["runs"]),
                _with_deviation(row), f"{paper:.2f}", f"{other:.2f}",
            ]
        )  # fmt: skip
    header = [
        "set",
        "changed",
        "k",
        "training rows",
        "runs",
        "accuracy % (std)",
        "Table 4 %",
        "Table 3 %",
    ]
    return markup.section(
        "reasons",
        "Where numbers differ, and why",
        markup.definitions(reasons.FOUND),
        texts.EXPERIMENTS,
        markup.table(header, table),
    )


def _shown(linear: dict) -> list[str]:
    """Sets that are here or were, when they were measured."""
    measured = {key[0] for key in linear}
    return [name for name in printed.sets() if name in measured or name in rows.present()]


def _table4_verdicts(whole: dict) -> list[verdicts.Verdict]:
    return [
        _verdict(
            name,
            whole.get((name, "lasn")),
            printed.table(4)[name]["lasn_accuracy"],
            printed.table(4)[name]["lasn_accuracy_std"],
        )
        for name in printed.sets()
    ]


def _verdict(name: str, ours, paper: float, deviation: float = 0.0) -> verdicts.Verdict:
    if not _ok(ours):
        return verdicts.NOT_RUN if name in rows.present() else verdicts.NO_DATA
    return verdicts.accuracy(
        ours["accuracy"],
        paper,
        ours["accuracy_std"],
        deviation,
        runs=int(ours["runs"]),
        one_row=100.0 / printed.test_rows(name),
    )


def _solver_verdict(linear: dict, name: str, peer: str) -> tuple[str | None, verdicts.Verdict]:
    """The ratio of seconds, and the verdict, for objectives that are as near to the minimum."""
    ours, other = linear.get((name, "LA-SN", "equal")), linear.get((name, peer, "equal"))
    if not _reached(ours) or other is None:
        return None, verdicts.NOT_RUN
    spent = other["wall_seconds"] if other["status"] == "time-out" else other["seconds"]
    verdict = verdicts.speed(ours["seconds"], other["seconds"] if _reached(other) else None, spent)
    sign = "" if _reached(other) else "> "
    return f"{sign}{spent / ours['seconds']:.1f}", verdict


def _reached(cell) -> bool:
    return _ok(cell) and cell["excess"] <= table3.GOAL


def _ok(cell) -> bool:
    return cell is not None and cell["status"] == "ok"


def _label(name: str) -> str:
    return f"{name} *" if name in rows.present() and rows.is_rebuilt(name) else name


def _seconds(cell) -> str | None:
    if cell is not None and cell["status"] == "time-out":
        return f"> {short(cell['wall_seconds'])}"
    return short(cell["seconds"]) if cell else None


def _percent(cell) -> str | None:
    return f"{cell['accuracy']:.2f}" if _ok(cell) else None


def _with_deviation(cell) -> str | None:
    return f"{cell['accuracy']:.2f} ({cell['accuracy_std']:.2f})" if _ok(cell) else None


def _difference(cell, paper: float) -> str | None:
    return f"{cell['accuracy'] - paper:+.2f}".replace("-", "−") if _ok(cell) else None


def _excess(cell) -> str | None:
    if not _ok(cell) or cell["excess"] is None:
        return None
    return f"{cell['excess']:.0e}"


def _runs(cell) -> int | None:
    return int(cell["runs"]) if _ok(cell) else None

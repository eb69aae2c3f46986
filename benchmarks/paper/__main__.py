"""Run the paper's experiments on the data that is present, and write the page.

Finished cells are in ``results/*.csv`` and are not run again: interrupt and repeat the command as
you like, or run it in pieces:

    python -m paper --only table3 --sets a1a a2a
    python -m paper --only table4 --sets ijcnn
    python -m paper --page           # only the page, from the results that are there

in ``benchmarks/``. ``--quick`` is a smoke test on the smallest sets within three minutes, with
results and page of its own in ``results/quick``. Timings need an idle machine, and
``OMP_NUM_THREADS=1`` gives every solver one thread: LIBLINEAR and LIBSVM cannot use more.
"""

import importlib
import sys
from pathlib import Path
from time import perf_counter

from lasn.progress import Bar
from measure import machine, parser, say
from paper import landmark_size, page, printed, rows
from paper.cells import Cell, Results, Run, run_cell, write_machine
from paper.plots import require_matplotlib

EXPERIMENTS = ("table4", "table3", "landmark_size", "cost_parameter", "errors", "reasons", "gamma")
RESULTS = Path(__file__).resolve().parent / "results"


def main() -> int:
    command = parser(__doc__)
    command.add_argument("--only", nargs="+", choices=EXPERIMENTS, default=EXPERIMENTS)
    command.add_argument("--sets", nargs="+", metavar="SET", help="the paper's names; default: all")
    command.add_argument("--runs", type=int, default=10, help="repetitions (default: 10)")
    command.add_argument(
        "--budget", type=float, default=20.0, help="seconds for the repetitions of a cell"
    )
    command.add_argument("--limit", type=float, default=240.0, help="most seconds of a cell")
    command.add_argument("--minutes", type=float, help="begin no cell after so many")
    command.add_argument("--quick", action="store_true")
    command.add_argument("--page", action="store_true", help="only write the page")
    command.add_argument("--list", action="store_true", help="only say which cells are left")
    options = command.parse_args()
    folder = RESULTS / "quick" if options.quick else RESULTS
    todo = [] if options.page else _unfinished(options, folder)
    if options.list:
        print("\n".join(map(str, todo)))
        return 0
    require_matplotlib()
    if todo:
        write_machine(folder, machine())
    failed = _run_all(todo, folder, 60.0 * (options.minutes or float("inf")))
    say(f"wrote {page.write(folder)}")
    for cell, reason in failed:
        say(f"FAILED {cell}: {reason}")
    return int(bool(failed))


def _unfinished(options, folder: Path) -> list[Cell]:
    run = _request(options)
    todo = []
    for name in options.only:
        experiment = importlib.import_module(f"paper.{name}")
        finished = Results(folder, name, experiment.KEYS).finished()
        todo += [cell for cell in experiment.cells(run) if cell.identity not in finished]
    return todo


def _request(options) -> Run:
    present, wanted = rows.present(), options.sets
    unknown = sorted(set(wanted or ()) - set(printed.sets()))
    if unknown:
        names = ", ".join(printed.sets())
        raise SystemExit(f"the paper has no data set {unknown[0]!r}; it has {names}")
    if rows.missing():
        say(
            f"not here, so left out: {', '.join(rows.missing())}. `lasn data fetch NAME` downloads "
            "a set; LASN_DATA names a folder with files"
        )
    chosen = [name for name in present if not wanted or name in wanted]
    if not options.quick:
        return Run(tuple(chosen), options.runs, options.budget, options.limit)
    if not wanted:  # the smallest, and the smallest of the figures
        figures = [name for name in chosen[1:] if name in landmark_size.GROUPS]
        chosen = chosen[:1] + figures[:1]
    return Run(tuple(chosen), runs=2, budget=2.0, limit=30.0, quick=True)


def _run_all(todo: list[Cell], folder: Path, most_seconds: float) -> list[tuple[Cell, str]]:
    """Run the cells in order; those that failed, with what they said. They are not recorded."""
    bar, began = Bar(), perf_counter()
    total, done = sum(cell.weight for cell in todo), 0.0
    failed = []
    for number, cell in enumerate(todo, 1):
        if perf_counter() - began > most_seconds:
            say(f"{len(todo) - number + 1} cells are left; the same command goes on with them")
            break
        left = _estimate(perf_counter() - began, done, total)
        bar.draw(done / total, f"{number}/{len(todo)}  {left}  {cell}"[:100])
        row = run_cell(cell)
        done += cell.weight
        if row["status"] in ("ok", "time-out"):
            experiment = importlib.import_module(f"paper.{cell.experiment}")
            results = Results(folder, cell.experiment, experiment.KEYS)
            results.append(row, experiment.FIELDS)
        else:
            failed.append((cell, row["reason"]))
        if not bar.active:
            say(f"{number}/{len(todo)} {cell}: {row['status']}, {row['wall_seconds']:.1f} s")
    bar.close()
    return failed


def _estimate(spent: float, done: float, total: float) -> str:
    """How long the rest will take, from the guesses of the cells and how they turned out."""
    pace = spent / done if done else 1.0
    minutes = pace * (total - done) / 60.0
    return f"about {minutes:.0f} min left" if minutes >= 1.0 else "under a minute left"


if __name__ == "__main__":
    sys.exit(main())

"""Repetitions: as many seeds as asked for, or fewer where time is short."""

from collections.abc import Callable
from statistics import mean, stdev
from time import perf_counter


def repeated(once: Callable[[int], dict[str, float]], runs: int, budget: float) -> dict:
    """``once(seed)`` for seeds 0, 1, ...: the mean of each number, and deviations as ``*_std``.

    No repetition begins that would, at the pace so far, end after ``budget`` seconds; one always
    runs. ``runs`` in the result says how many did.
    """
    began = perf_counter()
    records: list[dict[str, float]] = []
    while len(records) < runs:
        records.append(once(len(records)))
        spent = perf_counter() - began
        if spent * (1.0 + 1.0 / len(records)) > budget:
            break
    result: dict[str, float] = {"runs": len(records)}
    for name in records[0]:
        values = [record[name] for record in records]
        result[name] = mean(values)
        result[f"{name}_std"] = stdev(values) if len(values) > 1 else 0.0
    return result

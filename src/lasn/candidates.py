"""Which C and gamma a search tries, in which order.

Every function here is a generator of (gamma, ascending list of C). It looks at what was found of
the candidates that it gave before, so the next must be asked for after those were tried:
``found()`` are the evaluations of this number of landmarks so far.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace

from lasn.cross_validation import Evaluation, best_of

Candidates = Iterator[tuple[float, list[float]]]
Found = Callable[[], list[Evaluation]]

# Where the search may widen: steps of C and gamma, and how far they lead.
_STEP_OF_C, _STEP_OF_GAMMA = 10.0, 4.0
_RANGE_OF_C = (1e-3, 1e5)
_RANGE_OF_GAMMA = 4.0**4
# A gamma whose best is so many standard errors below the best of all is passed by nobody.
_FAR = 4.0


@dataclass
class Grid:
    """What to try, ascending. ``widens``: whether to go on where the best is at an edge."""

    Cs: list[float]
    gammas: list[float]
    widens: bool

    def __post_init__(self) -> None:
        self.Cs, self.gammas = sorted(self.Cs), sorted(self.gammas)

    @property
    def middle_C(self) -> float:
        return self.Cs[len(self.Cs) // 2]

    def around(self, C: float, below: int, above: int) -> list[float]:
        """So many values next to C, and C itself."""
        place = self.Cs.index(C)
        return self.Cs[max(0, place - below) : place + above + 1]


def whole_grid(grid: Grid) -> Candidates:
    """Every C with every gamma."""
    for gamma in list(grid.gammas):
        yield gamma, list(grid.Cs)


def outwards(grid: Grid, found: Found) -> Candidates:
    """From the middle gamma, with every C, to both ends, as long as it is not clearly worse.

    Of two in the middle it is the smoother one: few landmarks can follow it better.
    """
    gammas = list(grid.gammas)
    middle = (len(gammas) - 1) // 2
    yield gammas[middle], list(grid.Cs)
    for step in (1, -1):
        place = middle + step
        while 0 <= place < len(gammas):
            best, last = best_of(found()), best_at(gammas[place - step], found)
            if _clearly_worse(last, best):
                break
            yield from _path(grid, gammas[place], grid.around(last.C, 1, 1), found)
            place += step


def uphill(grid: Grid, start: Evaluation, before: list[Evaluation], found: Found) -> Candidates:
    """From the best of fewer landmarks to its neighbours, and further where those are better.

    With more landmarks, which hold the model back less, a smaller C may do, and costs less. So may
    a larger gamma, which is tried before a larger C, with the C that was best for it ``before``.
    """
    Cs = yield from _downwards(grid, start.gamma, start.C, found)
    yield from _climb(grid, start.gamma, 1, found, before)
    if best_of(found()).gamma == start.gamma:
        yield from _extend(grid, start.gamma, Cs, found)
        yield from _climb(grid, start.gamma, -1, found)


def onwards(
    grid: Grid,
    start: Evaluation,
    margin: float,
    found: Found,
    rivals: list[Evaluation] | None = None,
) -> Candidates:
    """The best of fewer landmarks, and larger gammas while those are better.

    More landmarks can follow a kernel that is less smooth. Where they do not gain the margin, that
    a less smooth one scores higher is chance more often than not, and none is tried; but the best
    smoother one among the ``rivals`` is, if fewer landmarks could not tell it from the start.
    """
    yield start.gamma, [start.C]
    if best_of(found()).score >= start.score + margin:
        yield from _climb(grid, start.gamma, 1, found)
        return
    smoother = [one for one in rivals or [] if one.gamma < start.gamma]
    if smoother and best_of(smoother).score >= start.score - start.standard_error:
        yield best_of(smoother).gamma, [best_of(smoother).C]


def sharper(grid: Grid, before: list[Evaluation], found: Found) -> Candidates:
    """For the exact machine: the largest gamma that was not clearly worse, and larger ones.

    Few landmarks favour smooth kernels, which they can follow, and which are slow to solve exactly.
    """
    best = best_of(before)
    gamma = max(one.gamma for one in before if not _clearly_worse(one, best))
    C = best_of([one for one in before if one.gamma == gamma]).C
    yield from _path(grid, gamma, [C], found)
    place = grid.gammas.index(gamma) + 1
    while best_of(found()).gamma == gamma and place < len(grid.gammas):
        gamma = grid.gammas[place]
        yield from _path(grid, gamma, [best_of(found()).C], found)
        place += 1


def again_with_more_rows(before: list[Evaluation], found: Found) -> Candidates:
    """The best on a sample of the rows; then larger gammas that may be better with more of them."""
    best = best_of(before)
    yield best.gamma, [best.C]
    for gamma in sorted({one.gamma for one in before if one.gamma > best.gamma}):
        there = best_of([one for one in before if one.gamma == gamma])
        if _clearly_worse(there, best):
            return
        yield gamma, [there.C]
        if best_of(found()).gamma != gamma:
            return


def below_clearly_worse(grid: Grid, start: Evaluation, before: list[Evaluation]) -> Grid:
    """The gammas below the first one above the start's that was clearly worse there."""
    for place in range(grid.gammas.index(start.gamma) + 1, len(grid.gammas)):
        tried = [one for one in before if one.gamma == grid.gammas[place]]
        if tried and _clearly_worse(best_of(tried), start):
            return replace(grid, gammas=grid.gammas[:place])
    return grid


def widen(grid: Grid, found: Found) -> Candidates:
    """What lies beyond the grid, as long as the best is at an edge of what was tried."""
    middle = grid.gammas[len(grid.gammas) // 2]
    while True:
        best = best_of(found())
        C = _beyond(best.C, grid.Cs, _STEP_OF_C)
        if C is not None and _RANGE_OF_C[0] <= C <= _RANGE_OF_C[1]:
            grid.Cs = sorted([*grid.Cs, C])
            yield best.gamma, [C]
            continue
        gamma = _beyond(best.gamma, grid.gammas, _STEP_OF_GAMMA)
        if gamma is None or not 1 / _RANGE_OF_GAMMA <= gamma / middle <= _RANGE_OF_GAMMA:
            return
        grid.gammas = sorted([*grid.gammas, gamma])
        yield gamma, grid.around(best.C, 1, 1)


def best_at(gamma: float, found: Found) -> Evaluation:
    return best_of([one for one in found() if one.gamma == gamma])


def _climb(
    grid: Grid, gamma: float, step: int, found: Found, before: list[Evaluation] | None = None
) -> Candidates:
    """One gamma after the other, up (step 1) or down (-1), as long as each is the best so far.

    A larger gamma wants a smaller C, as small as it was ``before`` if that is smaller still; and a
    smaller one the same C or a larger one. More of them are tried with the last gamma alone.
    """
    place = grid.gammas.index(gamma) + step
    reached = None
    while 0 <= place < len(grid.gammas):
        gamma, C = grid.gammas[place], best_of(found()).C
        Cs = grid.around(C, 1, 0)[:1] if step == 1 else grid.around(C, 0, 1)
        there = [one for one in before or [] if one.gamma == gamma]
        if there and Cs[0] > best_of(there).C:
            yield gamma, [best_of(there).C]
            if best_of(found()).gamma == gamma:
                Cs = [best_of(there).C]
            else:
                yield gamma, Cs
        else:
            yield gamma, Cs
        if best_of(found()).gamma != gamma:
            break
        reached = gamma, Cs
        place += step
    if reached is not None:
        yield from _extend(grid, *reached, found)


def _path(grid: Grid, gamma: float, Cs: list[float], found: Found) -> Candidates:
    """These C, and more of the grid where the best is at an end."""
    yield gamma, Cs
    yield from _extend(grid, gamma, Cs, found)


def _downwards(
    grid: Grid, gamma: float, C: float, found: Found
) -> Generator[tuple[float, list[float]], None, list[float]]:
    """C's smaller neighbour, then smaller ones while they are better; returns what was tried."""
    first = last = max(0, grid.Cs.index(C) - 1)
    yield gamma, [grid.Cs[first]]
    while last > 0 and grid.Cs.index(best_at(gamma, found).C) == last:
        last -= 1
        yield gamma, [grid.Cs[last]]
    return grid.Cs[last : first + 1]


def _extend(grid: Grid, gamma: float, Cs: list[float], found: Found) -> Candidates:
    low, high = grid.Cs.index(Cs[0]), grid.Cs.index(Cs[-1])
    while True:
        best = best_at(gamma, found).C
        if best == grid.Cs[high] and high + 1 < len(grid.Cs):
            high += 1
            yield gamma, [grid.Cs[high]]
        elif best == grid.Cs[low] and low > 0:
            low -= 1
            yield gamma, [grid.Cs[low]]
        else:
            return


def _clearly_worse(one: Evaluation, best: Evaluation) -> bool:
    return one.score < best.score - _FAR * best.standard_error


def _beyond(value: float, tried: list[float], step: float) -> float | None:
    """The next value past the end of the sorted list at which ``value`` is; None in its middle."""
    if value == tried[-1]:
        return value * step
    return value / step if value == tried[0] else None

"""The order in which a search tries C and gamma, on surfaces whose best is known."""

import numpy as np
import pytest

from lasn.candidates import (
    Grid,
    again_with_more_rows,
    below_clearly_worse,
    onwards,
    outwards,
    sharper,
    uphill,
    whole_grid,
    widen,
)
from lasn.cross_validation import Evaluation, best_of

CS, GAMMAS = [0.1, 1.0, 10.0, 100.0, 1000.0], [0.01, 0.1, 1.0, 10.0, 100.0]


class Surface:
    """Scores that fall with the distance from the best (C, gamma) in decades."""

    def __init__(self, C, gamma, noise=0.0):
        self.best = np.log10([C, gamma])
        self.noise = noise
        self.tried = []

    def evaluate(self, C, gamma):
        distance = np.abs(self.best - np.log10([C, gamma])).sum()
        folds = 1.0 - 0.1 * distance + self.noise * np.array([-1.0, 1.0])
        self.tried.append(Evaluation(10, gamma, C, folds, 0.0, 0.0, 0, 100, []))

    def follow(self, candidates):
        for gamma, Cs in candidates:
            assert Cs == sorted(Cs)
            for C in Cs:
                self.evaluate(C, gamma)
        return [(one.C, one.gamma) for one in self.tried]

    def found(self):
        return self.tried


def grid():
    return Grid(list(CS), list(GAMMAS), widens=False)


def test_the_whole_grid_is_every_pair_once():
    tried = Surface(1.0, 1.0).follow(whole_grid(grid()))
    assert len(tried) == len(set(tried)) == len(CS) * len(GAMMAS)


@pytest.mark.parametrize("C", CS)
@pytest.mark.parametrize("gamma", GAMMAS)
def test_outwards_finds_the_best_and_leaves_out_what_is_clearly_worse(C, gamma):
    surface = Surface(C, gamma, noise=0.01)
    tried = surface.follow(outwards(grid(), surface.found))
    best = best_of(surface.tried)
    assert (best.C, best.gamma) == (C, gamma)
    assert len(tried) == len(set(tried)) < len(CS) * len(GAMMAS)


def test_outwards_tries_every_gamma_where_scores_are_all_alike():
    surface = Surface(10.0, 1.0, noise=10.0)
    tried = surface.follow(outwards(grid(), surface.found))
    assert {gamma for _, gamma in tried} == set(GAMMAS)


@pytest.mark.parametrize(("C", "gamma"), [(10.0, 1.0), (1.0, 10.0), (100.0, 0.1), (0.1, 100.0)])
def test_uphill_reaches_the_best_from_beside_it(C, gamma):
    surface = Surface(C, gamma)
    start = Evaluation(10, 1.0, 10.0, np.ones(2), 0.0, 0.0, 0, 100, [])
    tried = surface.follow(uphill(grid(), start, [], surface.found))
    best = best_of(surface.tried)
    assert (best.C, best.gamma) == (C, gamma)
    assert len(tried) == len(set(tried)) <= 14


def test_uphill_tries_few_where_the_start_is_best():
    surface = Surface(10.0, 1.0)
    start = Evaluation(10, 1.0, 10.0, np.ones(2), 0.0, 0.0, 0, 100, [])
    tried = surface.follow(uphill(grid(), start, [], surface.found))
    assert sorted(tried) == [(0.1, 1.0), (0.1, 10.0), (1.0, 1.0), (10.0, 0.1), (10.0, 1.0),
                             (100.0, 0.1), (100.0, 1.0)]  # fmt: skip


def test_uphill_tries_no_larger_C_where_a_smaller_one_is_better():
    surface = Surface(1.0, 1.0)
    start = Evaluation(10, 1.0, 100.0, np.ones(2), 0.0, 0.0, 0, 100, [])
    tried = surface.follow(uphill(grid(), start, [], surface.found))
    assert [C for C, gamma in tried if gamma == 1.0] == [10.0, 1.0, 0.1]


def test_uphill_climbs_with_the_C_that_was_best_for_a_gamma_before():
    """By chance the start has a small gamma and a large C; one less than that would not do."""
    surface = Surface(1.0, 10.0)
    start = Evaluation(10, 0.1, 1000.0, np.ones(2), 0.0, 0.0, 0, 100, [])
    before = [start] + [
        Evaluation(10, gamma, C, np.full(2, 0.9), 0.0, 0.0, 0, 100, [])
        for gamma, C in ((1.0, 10.0), (10.0, 0.1), (100.0, 1000.0))
    ]
    tried = surface.follow(uphill(grid(), start, before, surface.found))
    best = best_of(surface.tried)
    assert (best.C, best.gamma) == (1.0, 10.0)
    assert (1000.0, 0.1) not in tried
    assert len(tried) == len(set(tried)) <= 12


def test_onwards_follows_only_where_the_next_gamma_is_better():
    start = Evaluation(10, 1.0, 10.0, np.full(2, 0.5), 0.0, 0.0, 0, 100, [])
    surface = Surface(10.0, 1.0)
    tried = surface.follow(onwards(grid(), start, 0.1, surface.found))
    assert tried == [(10.0, 1.0), (1.0, 10.0)]
    surface = Surface(1.0, 100.0)
    surface.follow(onwards(grid(), start, 0.1, surface.found))
    best = best_of(surface.tried)
    assert (best.C, best.gamma) == (1.0, 100.0)


def test_onwards_tries_no_other_gamma_where_more_landmarks_do_not_help():
    start = Evaluation(10, 1.0, 10.0, np.full(2, 0.95), 0.0, 0.0, 0, 100, [])
    surface = Surface(10.0, 1.0)
    assert surface.follow(onwards(grid(), start, 0.1, surface.found)) == [(10.0, 1.0)]


def test_onwards_tries_a_smoother_rival_where_more_landmarks_do_not_help():
    start = Evaluation(10, 1.0, 10.0, np.array([0.94, 0.96]), 0.0, 0.0, 0, 100, [])
    near, far = (
        Evaluation(10, 0.1, 1.0, np.full(2, score), 0.0, 0.0, 0, 100, []) for score in (0.945, 0.9)
    )
    for rival, tried in ((near, [(10.0, 1.0), (1.0, 0.1)]), (far, [(10.0, 1.0)])):
        surface = Surface(10.0, 1.0)
        assert surface.follow(onwards(grid(), start, 0.1, surface.found, [start, rival])) == tried


def surface_before(scores, C=10.0):
    """What fewer landmarks gave for each gamma, with two folds that differ by 0.02."""
    return [
        Evaluation(10, gamma, C, score + np.array([-0.01, 0.01]), 0.0, 0.0, 0, 100, [])
        for gamma, score in zip(GAMMAS, scores, strict=False)
    ]


def test_gammas_that_were_clearly_worse_end_the_grid():
    before = surface_before([0.8, 0.9, 0.88, 0.5])
    assert below_clearly_worse(grid(), before[1], before).gammas == GAMMAS[:3]
    assert below_clearly_worse(grid(), before[1], before[:3]).gammas == GAMMAS


def test_sharper_begins_with_the_largest_gamma_that_is_not_clearly_worse():
    before = surface_before([0.9, 0.89, 0.88, 0.5])
    surface = Surface(10.0, 10.0)
    tried = surface.follow(sharper(grid(), before, surface.found))
    assert tried[0] == (10.0, 1.0)
    best = best_of(surface.tried)
    assert (best.C, best.gamma) == (10.0, 10.0)
    assert {gamma for _, gamma in tried} == {1.0, 10.0, 100.0}


def test_more_rows_try_larger_gammas_that_were_nearly_as_good():
    before = surface_before([0.8, 0.9, 0.89, 0.88, 0.5])
    surface = Surface(10.0, 1.0)
    assert surface.follow(again_with_more_rows(before, surface.found)) == [
        (10.0, 0.1), (10.0, 1.0), (10.0, 10.0)
    ]  # fmt: skip
    surface = Surface(10.0, 0.1)
    assert len(surface.follow(again_with_more_rows(before, surface.found))) == 2


@pytest.mark.parametrize(("gamma", "reached"), [(64.0, 64.0), (1e12, 256.0)])
def test_widen_goes_on_to_a_best_outside_but_not_for_ever(gamma, reached):
    surface = Surface(10.0, gamma)
    narrow = Grid([1.0, 10.0, 100.0], [0.25, 1.0, 4.0], widens=True)
    surface.follow(whole_grid(narrow))
    surface.follow(widen(narrow, surface.found))
    best = best_of(surface.tried)
    assert (best.C, best.gamma) == (10.0, reached)

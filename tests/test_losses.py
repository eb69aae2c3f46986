"""Losses: values, derivatives by finite differences, curvature and extremes."""

import numpy as np
import pytest

from lasn.arrays import to_numpy
from lasn.losses import CLASSIFIER_LOSSES, LogLoss, SquaredEpsilonInsensitive, SquaredHinge

LOSSES = {
    "squared_hinge": SquaredHinge(),
    "log_loss": LogLoss(),
    "squared_epsilon_insensitive": SquaredEpsilonInsensitive(0.3),
    "squared": SquaredEpsilonInsensitive(0.0),
}


@pytest.fixture(params=LOSSES)
def loss(request):
    return LOSSES[request.param]


@pytest.fixture
def points(loss, rng):
    """Targets and scores, none within 1e-3 of a kink."""
    z = rng.uniform(-3.0, 3.0, size=500)
    if isinstance(loss, SquaredEpsilonInsensitive):
        y = rng.uniform(-3.0, 3.0, size=500)
        away = np.abs(np.abs(z - y) - loss.epsilon) > 1e-3
    else:
        y = rng.choice([-1.0, 1.0], size=500)
        away = np.abs(1.0 - y * z) > 1e-3
    return y[away], z[away]


@pytest.fixture
def there(place):
    """A loss as NumPy sees it, whose formulas are computed in the place."""

    class There:
        def __init__(self, loss):
            self.loss = loss

        def value(self, y, z):
            return to_numpy(self.loss.value(place.array(y), place.array(z)))

        def expand(self, y, z):
            return [to_numpy(part) for part in self.loss.expand(place.array(y), place.array(z))]

    return There


def test_values_are_the_formulas(points, loss, there):
    y, z = points
    computed = there(loss)
    formulas = {
        SquaredHinge: lambda: np.clip(1.0 - y * z, 0.0, None) ** 2,
        LogLoss: lambda: np.log(1.0 + np.exp(-y * z)),
        SquaredEpsilonInsensitive: lambda: np.clip(np.abs(y - z) - loss.epsilon, 0.0, None) ** 2,
    }
    np.testing.assert_allclose(computed.value(y, z), formulas[type(loss)](), atol=1e-14)


def test_expand_begins_with_the_value(points, loss, there):
    y, z = points
    computed = there(loss)
    np.testing.assert_array_equal(computed.expand(y, z)[0], computed.value(y, z))


def test_first_derivative_is_the_slope_of_the_value(points, loss, there):
    y, z = points
    computed = there(loss)
    h = 1e-5
    slope = (computed.value(y, z + h) - computed.value(y, z - h)) / (2.0 * h)
    np.testing.assert_allclose(computed.expand(y, z)[1], slope, atol=1e-8)


def test_second_derivative_is_the_slope_of_the_first(points, loss, there):
    y, z = points
    computed = there(loss)
    h = 1e-5
    slope = (computed.expand(y, z + h)[1] - computed.expand(y, z - h)[1]) / (2.0 * h)
    np.testing.assert_allclose(computed.expand(y, z)[2], slope, atol=1e-8)


def test_curvature_is_never_negative_and_shapes_are_kept(loss, there, rng):
    computed = there(loss)
    y, z = np.sign(rng.normal(size=(30, 4))), 100.0 * rng.normal(size=(30, 4))
    for part in computed.expand(y, z):
        assert part.shape == (30, 4)
    assert np.all(computed.expand(y, z)[2] >= 0.0)


def test_rows_beyond_the_margin_and_on_it_are_inactive(there):
    y, z = np.array([1.0, 1.0, -1.0, 1.0]), np.array([2.0, 1.0, -1.0, 0.999])
    np.testing.assert_array_equal(
        there(SquaredHinge()).expand(y, z)[2] > 0, [False, False, False, True]
    )


def test_rows_in_the_tube_are_inactive(there):
    z = np.array([0.0, 0.25, -0.25, 0.5, -0.5])
    curvature = there(SquaredEpsilonInsensitive(0.25)).expand(np.zeros(5), z)[2]
    np.testing.assert_array_equal(curvature > 0, [False, False, False, True, True])


def test_scores_of_any_size_give_finite_numbers(loss, there):
    computed = there(loss)
    z = np.array([-1e100, -1e3, 0.0, 1e3, 1e100])
    for y in (-1.0, 1.0):
        for part in computed.expand(np.full(5, y), z):
            assert np.isfinite(part).all()


def test_log_loss_of_a_bad_mistake_is_its_margin(there):
    value, slope, curvature = there(LogLoss()).expand(np.array([1.0]), np.array([-1e3]))
    assert (value[0], slope[0], curvature[0]) == (1e3, -1.0, 0.0)


def test_names_that_the_classifier_takes():
    assert set(CLASSIFIER_LOSSES) == {"squared_hinge", "log_loss"}

"""How to add a loss: docs/contributing.md shows this file."""

from dataclasses import dataclass

from lasn import LASNClassifier, losses, parameters
from lasn.arrays import positive_part


@dataclass(frozen=True)
class CubicHinge:
    """max(0, 1 - y z)^3 / 3: smoother than the squared hinge, and harder on outliers."""

    def value(self, y, z):
        return positive_part(1.0 - y * z) ** 3 / 3.0

    def expand(self, y, z):
        slack = positive_part(1.0 - y * z)
        return slack**3 / 3.0, -y * slack**2, 2.0 * slack

    def rests(self, y, z, margin):
        return y * z > 1.0 + margin


def test_a_new_loss_is_minimised(monkeypatch, binary):
    monkeypatch.setitem(losses.CLASSIFIER_LOSSES, "cubic_hinge", CubicHinge())
    # The rule for loss= was made when the package was imported.
    monkeypatch.setitem(parameters._RULES, "loss", lambda name, value: None)
    X, y = binary
    model = LASNClassifier(50, C=1.0, loss="cubic_hinge", tol=1e-6, random_state=0).fit(X, y)
    assert model.history_[-1]["relative_gradient"] < 1e-6
    assert model.score(X, y) > 0.85

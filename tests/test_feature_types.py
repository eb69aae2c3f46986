"""Which type features have: float64 where nobody has to wait for it, float32 elsewhere."""

import pytest

from lasn import LASNClassifier
from lasn.training import resolve_dtype


@pytest.mark.parametrize(
    ("of_rows", "n_values", "tol", "dtype"),
    [
        ("float64", 3_000_000, 1e-3, "float64"),
        ("float64", 5_000_000, 1e-3, "float32"),
        ("float32", 200_000, 1e-3, "float64"),
        ("float32", 300_000, 1e-3, "float32"),
        ("float32", 300_000, 1e-8, "float64"),
        ("float32", 5_000_000, 1e-8, "float32"),
    ],
)
def test_the_type_of_features_follows_their_number_and_what_is_asked(of_rows, n_values, tol, dtype):
    assert resolve_dtype("auto", n_values, of_rows=of_rows, tol=tol) == dtype
    assert resolve_dtype("float64", n_values, of_rows=of_rows, tol=tol) == "float64"


def test_a_rough_fit_has_the_type_of_the_fit_that_it_is_for(binary, monkeypatch):
    seen = []

    def seen_by(dtype, *given, **options):
        seen.append(str(dtype))
        return resolve_dtype(dtype, *given, **options)

    monkeypatch.setattr("lasn.training.resolve_dtype", seen_by)
    LASNClassifier(20, dtype="float32", random_state=0).fit(*binary)
    assert len(seen) > 2
    assert set(seen) == {"float32"}

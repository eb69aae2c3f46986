"""Displays draw what the diagnostics say, on a figure of their own or on given axes."""

import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lasn import (
    ConvergenceDisplay,
    LandmarkCurveDisplay,
    LASNClassifier,
    LASNClassifierCV,
    LASNRegressor,
    NystroemMap,
    RefineCurveDisplay,
    SpectrumDisplay,
)
from lasn.diagnostics import convergence, landmark_curve, spectrum


@pytest.fixture(autouse=True)
def plt():
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    yield plt
    plt.close("all")


@pytest.fixture(scope="module")
def tuned(binary):
    return LASNClassifierCV([1.0, 10.0], [0.1], [5, 10, 20], random_state=0).fit(*binary)


def test_convergence_has_four_panels(three_classes):
    model = LASNClassifier(20, tol=1e-8, solver="newton-cg", random_state=0).fit(*three_classes)
    display = ConvergenceDisplay.from_estimator(model)
    assert display.figure_ is display.ax_.figure
    assert len(display.axes_) == len(display.lines_) == 4
    assert display.ax_.get_yscale() == "log"
    worst = [np.max(record["relative_gradient"]) for record in model.history_]
    np.testing.assert_array_equal(display.line_.get_ydata(), worst)
    total = [np.sum(record["value"]) for record in model.history_]
    np.testing.assert_array_equal(display.lines_[1].get_ydata(), total)
    steps = [np.sum(record["cg_steps"]) for record in model.history_]
    np.testing.assert_array_equal(display.lines_[3].get_ydata(), steps)
    assert sum(steps) > 0
    assert display.ax_.get_legend().get_texts()[0].get_text() == "LASNClassifier"


def test_convergence_on_given_axes(binary, plt):
    models = [LASNRegressor(20, tol=tol, random_state=0).fit(*binary) for tol in (1e-2, 1e-8)]
    _, ax = plt.subplots()
    displays = [
        ConvergenceDisplay.from_estimator(model, ax=ax, name=f"tol {model.tol}") for model in models
    ]
    assert [display.ax_ for display in displays] == [ax, ax]
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == ["tol 0.01", "tol 1e-08"]
    _, four = plt.subplots(1, 4)
    assert list(displays[0].plot(four).axes_) == list(four)


def test_landmark_curve(tuned):
    display = LandmarkCurveDisplay.from_estimator(tuned, name="search")
    points = tuned.landmark_curve_
    np.testing.assert_array_equal(display.line_.get_xdata(), [5, 10, 20])
    np.testing.assert_array_equal(display.line_.get_ydata(), [one["score"] for one in points])
    assert landmark_curve(tuned).chosen == tuned.n_landmarks_
    bars = display.errorbar_.lines[2][0].get_segments()
    half = [(high[1] - low[1]) / 2 for low, high in bars]
    np.testing.assert_allclose(half, [one["standard_error"] for one in points], atol=1e-12)


@pytest.mark.parametrize("kind", ["classifier", "map", "pipeline"])
def test_spectrum(binary, kind):
    X, y = binary
    models = {
        "classifier": LASNClassifier(30, random_state=0),
        "map": NystroemMap(30, random_state=0),
        "pipeline": make_pipeline(StandardScaler(), LASNRegressor(30, random_state=0)),
    }
    model = models[kind].fit(X, y)
    display = SpectrumDisplay.from_estimator(model)
    values = display.line_.get_ydata()
    assert (np.diff(values) <= 0.0).all()
    found = spectrum(model)
    assert len(found.eigenvalues) == 30
    last = model[-1] if kind == "pipeline" else model
    kernel = last._fitted_kernel()
    K = kernel(last.landmarks_, last.landmarks_)
    assert found.eigenvalues.sum() == pytest.approx(np.trace(K))
    assert np.count_nonzero(found.eigenvalues > found.cut) == found.n_features
    assert not found.is_shift


def test_refine_curve(binary):
    model = LASNClassifier(10, refine=40, random_state=0).fit(*binary)
    display = RefineCurveDisplay.from_estimator(model)
    points = model.refine_curve_
    np.testing.assert_array_equal(
        display.line_.get_xydata(), [(p["n_landmarks"], p["upper_bound"]) for p in points]
    )
    np.testing.assert_array_equal(
        display.lower_line_.get_ydata(), [p["exact_lower_bound"] for p in points]
    )
    with pytest.raises(ValueError, match=r"fit a LASNClassifier .* with refine"):
        RefineCurveDisplay.from_estimator(LASNClassifier(10, random_state=0).fit(*binary))


def test_spectrum_of_doubled_landmarks_is_cut(binary):
    X, y = binary
    model = LASNClassifier(landmarks=np.vstack([X[:10], X[:10]])).fit(X, y)
    found = spectrum(model)
    assert found.n_features == 10 == np.count_nonzero(found.eigenvalues > found.cut)


def test_spectrum_of_a_shifted_kernel(rng):
    X = rng.normal(size=(400, 10))
    model = LASNRegressor(300, dtype="float32", random_state=0).fit(X, X[:, 0])
    found = spectrum(model)
    assert found.is_shift
    assert found.n_features == 300
    assert 0.0 < found.cut < 1e-6


def test_what_cannot_be_drawn_says_why(binary):
    X, y = binary
    with pytest.raises(NotFittedError):
        ConvergenceDisplay.from_estimator(LASNClassifier())
    with pytest.raises(ValueError, match="no spectrum"):
        SpectrumDisplay.from_estimator(LASNClassifier(kernel="linear").fit(X, y))
    with pytest.raises(ValueError, match="LASNClassifierCV"):
        LandmarkCurveDisplay.from_estimator(LASNClassifier(20, random_state=0).fit(X, y))
    with pytest.raises(ValueError, match="history_"):
        convergence(NystroemMap(20, random_state=0).fit(X))


def test_a_missing_matplotlib_is_named():
    script = (
        "import sys; sys.modules['matplotlib'] = None; sys.modules['matplotlib.pyplot'] = None\n"
        "import lasn, numpy as np\n"
        "model = lasn.LASNRegressor(2).fit(np.eye(4), np.arange(4.0))\n"
        "try: lasn.SpectrumDisplay.from_estimator(model)\n"
        "except ImportError as error: print(error)\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "Displays need matplotlib: pip install 'lasn[plot]'"

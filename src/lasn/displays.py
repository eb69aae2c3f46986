"""Plots of a fit for notebooks, in the manner of scikit-learn's displays; they need matplotlib.

====================== ====================================================================
ConvergenceDisplay     Newton's method: relative gradient, objective, active rows, CG steps
LandmarkCurveDisplay   held-out score against the number of landmarks
RefineCurveDisplay     bounds on the exact optimum against the number of landmarks
SpectrumDisplay        eigenvalues of the kernel among the landmarks, and the cut
====================== ====================================================================

``from_estimator`` computes and draws; ``plot`` draws again, on axes of your own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lasn.diagnostics import (
    Convergence,
    LandmarkCurve,
    RefineCurve,
    Spectrum,
    convergence,
    landmark_curve,
    last_step,
    refine_curve,
    spectrum,
)

_PANELS = {
    "relative_gradient": "relative gradient",
    "objective": "objective",
    "active_rows": "active rows",
    "cg_steps": "CG steps",
}


def _pyplot():
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("Displays need matplotlib: pip install 'lasn[plot]'") from error
    return plt


class _Display:
    """What displays share: a name, axes, and a legend if there is a name."""

    name: str | None

    def _axes(self, ax, name):
        self.name = self.name if name is None else name
        self.ax_ = _pyplot().subplots()[1] if ax is None else ax
        self.figure_ = self.ax_.figure
        return self.ax_

    def _legend(self) -> None:
        if self.name is not None:
            self.ax_.legend()


class ConvergenceDisplay(_Display):
    """How Newton's method converged.

    Parameters
    ----------
    convergence : lasn.diagnostics.Convergence
    name : str, optional
        For the legend.

    Attributes
    ----------
    ax_ : matplotlib Axes
        With the relative gradient.
    axes_ : array of matplotlib Axes
        All that were drawn on: one, or those of relative gradient, objective, active rows and
        CG steps.
    figure_ : matplotlib Figure
    line_ : matplotlib Line2D
        The relative gradient.
    lines_ : list of matplotlib Line2D
        One to each of ``axes_``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from lasn import ConvergenceDisplay, LASNClassifier
    >>> model = LASNClassifier(n_landmarks=20, random_state=0).fit(*load_iris(return_X_y=True))
    >>> display = ConvergenceDisplay.from_estimator(model)
    >>> display.ax_.get_ylabel()
    'relative gradient'
    """

    def __init__(self, convergence: Convergence, *, name: str | None = None):
        self.convergence = convergence
        self.name = name

    @classmethod
    def from_estimator(cls, estimator, *, ax=None, name: str | None = None):
        """Draw the convergence of a fitted estimator.

        Parameters
        ----------
        estimator : fitted estimator of this package, or a pipeline that ends in one
        ax : matplotlib Axes, or four of them, optional
            One: the relative gradient is drawn on it. Four: all quantities. None: a new figure
            with all four.
        name : str, optional
            For the legend; the estimator's class by default.

        Returns
        -------
        display : ConvergenceDisplay
        """
        name = type(last_step(estimator)).__name__ if name is None else name
        return cls(convergence(estimator), name=name).plot(ax)

    def plot(self, ax=None, *, name: str | None = None):
        """Draw; ``ax`` and ``name`` as for :meth:`from_estimator`.

        Returns
        -------
        self
        """
        if ax is None:
            _, axes = _pyplot().subplots(2, 2, figsize=(9, 6), layout="constrained")
            ax = axes.ravel()
        self.axes_ = np.ravel(np.array(ax, dtype=object))
        self._axes(self.axes_[0], name)
        self.lines_: list[Any] = []
        for one, (quantity, label) in zip(self.axes_, _PANELS.items(), strict=False):
            values = getattr(self.convergence, quantity)
            (line,) = one.plot(self.convergence.iterations, values, marker="o", label=self.name)
            label = self.convergence.measure if quantity == "relative_gradient" else label
            one.set(xlabel="Newton iteration", ylabel=label)
            one.xaxis.get_major_locator().set_params(integer=True)
            self.lines_.append(line)
        self.line_ = self.lines_[0]
        self.ax_.set_yscale("log")
        self.ax_.axhline(self.convergence.tol, color="0.5", linestyle="--", linewidth=1)
        self._legend()
        return self


class LandmarkCurveDisplay(_Display):
    """The held-out score against the number of landmarks, with its standard error.

    Parameters
    ----------
    curve : lasn.diagnostics.LandmarkCurve
    name : str, optional
        For the legend.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    line_ : matplotlib Line2D
    errorbar_ : matplotlib ErrorbarContainer

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from lasn import LandmarkCurveDisplay, LASNClassifierCV
    >>> model = LASNClassifierCV(n_landmarks=[10, 20], cv=3, random_state=0)
    >>> display = LandmarkCurveDisplay.from_estimator(model.fit(*load_iris(return_X_y=True)))
    >>> display.ax_.get_xlabel()
    'landmarks'
    """

    def __init__(self, curve: LandmarkCurve, *, name: str | None = None):
        self.curve = curve
        self.name = name

    @classmethod
    def from_estimator(cls, estimator, *, ax=None, name: str | None = None):
        """Draw the search of a fitted LASNClassifierCV or LASNRegressorCV.

        Parameters
        ----------
        estimator : fitted estimator, or a pipeline that ends in one
        ax : matplotlib Axes, optional
        name : str, optional
            For the legend; the estimator's class by default.

        Returns
        -------
        display : LandmarkCurveDisplay
        """
        name = type(last_step(estimator)).__name__ if name is None else name
        return cls(landmark_curve(estimator), name=name).plot(ax)

    def plot(self, ax=None, *, name: str | None = None):
        """Draw on ``ax``, or on a new figure.

        Returns
        -------
        self
        """
        ax = self._axes(ax, name)
        curve = self.curve
        self.errorbar_ = ax.errorbar(
            curve.n_landmarks,
            curve.score,
            curve.standard_error,
            marker="o",
            capsize=3,
            label=self.name,
        )
        self.line_ = self.errorbar_.lines[0]
        ax.axvline(curve.chosen, color="0.5", linestyle="--", linewidth=1)
        ax.set(xscale="log", xlabel="landmarks", ylabel="held-out score")
        self._legend()
        return self


class RefineCurveDisplay(_Display):
    """Both bounds on the exact optimum against the number of landmarks, round by round.

    Parameters
    ----------
    curve : lasn.diagnostics.RefineCurve
    name : str, optional
        For the legend.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    line_ : matplotlib Line2D
        The model's objective.
    lower_line_ : matplotlib Line2D
        The lower bound.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from lasn import LASNClassifier, RefineCurveDisplay
    >>> model = LASNClassifier(10, refine=0.01, random_state=0).fit(*load_iris(return_X_y=True))
    >>> display = RefineCurveDisplay.from_estimator(model)
    >>> display.ax_.get_xlabel()
    'landmarks'
    """

    def __init__(self, curve: RefineCurve, *, name: str | None = None):
        self.curve = curve
        self.name = name

    @classmethod
    def from_estimator(cls, estimator, *, ax=None, name: str | None = None):
        """Draw the rounds of an estimator that was fitted with ``refine``.

        Parameters
        ----------
        estimator : fitted estimator, or a pipeline that ends in one
        ax : matplotlib Axes, optional
        name : str, optional
            For the legend; the estimator's class by default.

        Returns
        -------
        display : RefineCurveDisplay
        """
        name = type(last_step(estimator)).__name__ if name is None else name
        return cls(refine_curve(estimator), name=name).plot(ax)

    def plot(self, ax=None, *, name: str | None = None):
        """Draw on ``ax``, or on a new figure.

        Returns
        -------
        self
        """
        ax = self._axes(ax, name)
        curve = self.curve
        (self.line_,) = ax.plot(curve.n_landmarks, curve.upper_bound, marker="o", label=self.name)
        (self.lower_line_,) = ax.plot(
            curve.n_landmarks,
            curve.exact_lower_bound,
            color=self.line_.get_color(),
            linestyle="--",
            marker="o",
            label=None if self.name is None else "lower bound on the exact optimum",
        )
        ax.set(xscale="log", xlabel="landmarks", ylabel="objective")
        self._legend()
        return self


class SpectrumDisplay(_Display):
    """The eigenvalues of the kernel among the landmarks, and what is cut from them.

    Parameters
    ----------
    spectrum : lasn.diagnostics.Spectrum
    name : str, optional
        For the legend.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    line_ : matplotlib Line2D

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from lasn import LASNClassifier, SpectrumDisplay
    >>> model = LASNClassifier(n_landmarks=20, random_state=0).fit(*load_iris(return_X_y=True))
    >>> display = SpectrumDisplay.from_estimator(model)
    >>> display.ax_.get_ylabel()
    'eigenvalue'
    """

    def __init__(self, spectrum: Spectrum, *, name: str | None = None):
        self.spectrum = spectrum
        self.name = name

    @classmethod
    def from_estimator(cls, estimator, *, ax=None, name: str | None = None):
        """Draw the spectrum of a fitted estimator or map.

        Parameters
        ----------
        estimator : fitted estimator of this package, or a pipeline that ends in one
        ax : matplotlib Axes, optional
        name : str, optional
            For the legend; the estimator's class by default.

        Returns
        -------
        display : SpectrumDisplay
        """
        name = type(last_step(estimator)).__name__ if name is None else name
        return cls(spectrum(estimator), name=name).plot(ax)

    def plot(self, ax=None, *, name: str | None = None):
        """Draw on ``ax``, or on a new figure. Eigenvalues that are not positive are left out.

        Returns
        -------
        self
        """
        ax = self._axes(ax, name)
        values = self.spectrum.eigenvalues
        positive = values > 0.0
        order = np.arange(1, len(values) + 1)
        (self.line_,) = ax.plot(
            order[positive], values[positive], marker=".", linestyle="none", label=self.name
        )
        if self.spectrum.cut > 0.0:
            ax.axhline(self.spectrum.cut, color="0.5", linestyle="--", linewidth=1)
        ax.set(yscale="log", xlabel="direction", ylabel="eigenvalue")
        self._legend()
        return self

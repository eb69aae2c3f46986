"""What a fitted model tells of its fit, as arrays: reports and displays draw them.

::

    convergence      |grad f| / |grad f(0)|, f, active rows and CG steps, one entry an iteration
    landmark_curve   held-out score against the number of landmarks
    refine_curve     bounds on the exact optimum against the number of landmarks
    spectrum         eigenvalues of K_ll, and what is cut from them
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from scipy.linalg import eigvalsh
from sklearn.utils.validation import check_is_fitted

from lasn.features import eigenvalue_cut


@dataclass(frozen=True)
class Convergence:
    """Newton's method, one entry an iteration; of several classes the sum or the worst.

    ``relative_gradient`` is the largest of all classes (of ``solver="exact"``, the relative duality
    gap: ``measure`` says which), ``objective`` and ``cg_steps`` are sums, ``active_rows`` is the
    mean. ``rows`` took part in the iteration, ``seconds`` had passed after it. The fit stops when
    the measure is below ``tol``.
    """

    relative_gradient: np.ndarray
    objective: np.ndarray
    active_rows: np.ndarray
    cg_steps: np.ndarray
    rows: np.ndarray
    seconds: np.ndarray
    tol: float
    measure: str = "relative gradient"

    @property
    def iterations(self) -> np.ndarray:
        return np.arange(1, len(self.objective) + 1)


@dataclass(frozen=True)
class LandmarkCurve:
    """The best held-out score for each number of landmarks, and its standard error."""

    n_landmarks: np.ndarray
    score: np.ndarray
    standard_error: np.ndarray
    chosen: int


@dataclass(frozen=True)
class RefineCurve:
    """Rounds of refinement: both bounds on the exact optimum, and what they cost."""

    n_landmarks: np.ndarray
    upper_bound: np.ndarray
    exact_lower_bound: np.ndarray
    relative_exact_gap: np.ndarray
    training_score: np.ndarray
    seconds: np.ndarray


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues of K_ll, largest first, and the line below which they are dropped or damped.

    ``is_shift``: K_ll was factored with ``cut`` added to its diagonal, which damps directions with
    smaller eigenvalues and drops none. ``n_features`` directions were left.
    """

    eigenvalues: np.ndarray
    cut: float
    is_shift: bool
    n_features: int


def last_step(model) -> Any:
    """The estimator itself, or the last step of a pipeline."""
    steps = getattr(model, "steps", None)
    estimator = model if steps is None else steps[-1][1]
    check_is_fitted(estimator)
    return estimator


def convergence(model) -> Convergence:
    """The iterations of a fitted model.

    Parameters
    ----------
    model : fitted estimator with ``history_``, or a pipeline that ends in one

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from lasn import LASNClassifier
    >>> from lasn.diagnostics import convergence
    >>> model = LASNClassifier(n_landmarks=20, random_state=0).fit(*load_iris(return_X_y=True))
    >>> bool(convergence(model).relative_gradient[-1] < model.tol)
    True
    """
    estimator = last_step(model)
    if not hasattr(estimator, "history_"):
        raise ValueError(f"A {type(estimator).__name__} has no iterations (no history_).")

    def each(name: str, combine) -> np.ndarray:
        return np.array([combine(record[name]) for record in estimator.history_], dtype=np.float64)

    is_exact = any("relative_gap" in record for record in estimator.history_)
    measure = "relative gap" if is_exact else "relative gradient"
    return Convergence(
        relative_gradient=each(measure.replace(" ", "_"), np.max),
        objective=each("value", np.sum),
        active_rows=each("active_rows", np.mean),
        cg_steps=each("cg_steps", np.sum),
        rows=each("rows", np.max),
        seconds=each("seconds", np.max),
        tol=float(estimator.tol) / (10.0 if is_exact else 1.0),
        measure=measure,
    )


def landmark_curve(model) -> LandmarkCurve:
    """The search over the number of landmarks of a tuned model.

    Parameters
    ----------
    model : fitted LASNClassifierCV or LASNRegressorCV, or a pipeline that ends in one
    """
    estimator = last_step(model)
    if not hasattr(estimator, "landmark_curve_"):
        raise ValueError(
            f"A {type(estimator).__name__} has no landmark_curve_; fit a LASNClassifierCV or a "
            "LASNRegressorCV."
        )
    points = sorted(estimator.landmark_curve_, key=lambda point: point["n_landmarks"])
    columns = ("n_landmarks", "score", "standard_error")
    arrays = {name: np.array([point[name] for point in points]) for name in columns}
    return LandmarkCurve(**arrays, chosen=int(estimator.best_params_["n_landmarks"]))


def refine_curve(model) -> RefineCurve:
    """The rounds of a model that was fitted with ``refine``.

    Parameters
    ----------
    model : fitted LASNClassifier or LASNRegressor, or a pipeline that ends in one
    """
    estimator = last_step(model)
    points = getattr(estimator, "refine_curve_", [])
    if not points:
        raise ValueError(
            f"This {type(estimator).__name__} has no refine_curve_; fit a LASNClassifier or a "
            "LASNRegressor with refine."
        )
    names = [field.name for field in fields(RefineCurve)]
    return RefineCurve(**{name: np.array([one[name] for one in points]) for name in names})


def ranked_candidates(estimator) -> list[dict]:
    """One record a candidate of a tuned model: the best mean score first."""
    results, chosen = estimator.cv_results_, estimator.best_index_
    root = np.sqrt(estimator.n_splits_)
    ranks = results["rank_test_score"].tolist()
    order = sorted(range(len(ranks)), key=lambda index: (ranks[index], index != chosen))
    return [
        {
            "chosen": index == chosen,
            "score": float(results["mean_test_score"][index]),
            "standard_error": float(results["std_test_score"][index] / root),
            **results["params"][index],
            "seconds": float(results["mean_fit_time"][index] * estimator.n_splits_),
        }
        for index in order
    ]


def spectrum(model) -> Spectrum:
    """The eigenvalues of the kernel among the landmarks of a fitted model, and the cut.

    Parameters
    ----------
    model : fitted estimator with ``landmarks_``, or a pipeline that ends in one
    """
    estimator = last_step(model)
    if getattr(estimator, "mapping_", None) is None:
        raise ValueError(
            f"This {type(estimator).__name__} has no landmarks, and so no spectrum: the linear "
            "kernel and the exact solver need none."
        )
    K_ll = estimator._fitted_kernel()(estimator.landmarks_, estimator.landmarks_)
    values = eigvalsh(K_ll, check_finite=False)[::-1]
    n_features = estimator.mapping_.shape[1]
    cut, is_shift = eigenvalue_cut(
        K_ll,
        values[0],
        cutoff=estimator.eigenvalue_cutoff,
        dtype=estimator.mapping_.dtype,
        whole=n_features == len(values),
    )
    return Spectrum(values, cut, is_shift, n_features)

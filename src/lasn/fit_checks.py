"""What must hold between the attributes of a model of this package that comes from a file.

Each function gets the model, its attributes set and checked one by one, and the sizes that its
shapes' letters stand for (:mod:`lasn.attribute_checks`): k landmarks, p columns, q features,
s scores and c classes.
"""

from __future__ import annotations

import numpy as np

from lasn.attribute_checks import Sizes, numbers, positive_number
from lasn.kernels import resolve_kernel_name
from lasn.parameters import check_parameters, landmarks_rule
from lasn.plain import expect


def _fit_is_consistent(estimator, sizes: Sizes) -> None:
    estimator._check_parameters()
    _kernel_is_consistent(estimator, linear_without_landmarks=True, sizes=sizes)
    if estimator.mapping_ is None:  # coefficients are those of the landmarks, or of the columns
        expect(sizes["q"] == sizes["k"], "coef_ and dual_coef_ disagree")
    if estimator.landmarks_ is None:
        expect(sizes["q"] == sizes["p"], "coef_ and n_features_in_ disagree")
    expect(estimator.n_iter_ == len(estimator.history_), "n_iter_ and history_ disagree")


def _one_fit_is_consistent(estimator) -> None:
    known = estimator._parameters_of_this_fit().keys()
    expect(estimator._landmark_parameters.keys() == known, "its landmarks' parameters are wrong")
    rounds = getattr(estimator, "refine_curve_", [])
    entries = {
        "n_landmarks", "upper_bound", "exact_lower_bound", "relative_exact_gap", "active_rows",
        "training_score", "seconds",
    }  # fmt: skip
    expect(all(point.keys() == entries for point in rounds), "refine_curve_ is not complete")


def _scores_fit_classes(estimator, sizes: Sizes) -> None:
    _fit_is_consistent(estimator, sizes)
    n_scores = 1 if sizes["c"] == 2 else sizes["c"]
    expect(sizes["c"] >= 2 and sizes["s"] == n_scores, "coef_ and classes_ disagree")
    expect(estimator._n_scores == n_scores, "the number of scores and classes_ disagree")


def _scores_fit_targets(estimator, sizes: Sizes) -> None:
    _fit_is_consistent(estimator, sizes)
    shapes = estimator.coef_.ndim, estimator.dual_coef_.ndim, np.ndim(estimator.intercept_)
    expect(shapes in ((1, 1, 0), (2, 2, 1)), "coef_, dual_coef_ and intercept_ disagree")
    expect(estimator._n_scores == sizes.get("s"), "the number of scores and coef_ disagree")


def classifier_is_consistent(estimator, sizes: Sizes) -> None:
    _scores_fit_classes(estimator, sizes)
    _one_fit_is_consistent(estimator)


def regressor_is_consistent(estimator, sizes: Sizes) -> None:
    _scores_fit_targets(estimator, sizes)
    _one_fit_is_consistent(estimator)


def _search_is_consistent(estimator) -> None:
    results, curve = estimator.cv_results_, estimator.landmark_curve_
    candidates = results.get("params")
    expect(
        isinstance(candidates, list)
        and all(isinstance(one, dict) for one in candidates)
        and all(isinstance(value, (list, np.ndarray)) for value in results.values())
        and all(len(value) == len(candidates) for value in results.values()),
        "cv_results_ has columns of different lengths",
    )
    expect(
        estimator.best_index_ < len(candidates)
        and candidates[estimator.best_index_] == estimator.best_params_,
        "best_index_ and best_params_ disagree",
    )
    points = {"n_landmarks", "score", "standard_error", "C", "gamma", "seconds"}
    expect(all(point.keys() == points for point in curve), "landmark_curve_ is not complete")


def tuned_classifier_is_consistent(estimator, sizes: Sizes) -> None:
    _scores_fit_classes(estimator, sizes)
    _search_is_consistent(estimator)
    wanted = estimator.calibration is not None and estimator.loss != "log_loss"
    expect(not wanted or hasattr(estimator, "_calibration"), "it has no map to probabilities")


def tuned_regressor_is_consistent(estimator, sizes: Sizes) -> None:
    _scores_fit_targets(estimator, sizes)
    _search_is_consistent(estimator)


def slope_is_positive(calibration, sizes: Sizes) -> None:
    expect(positive_number(calibration.slope, sizes), "the slope of a calibration is not one")


def corners_ascend(calibration, sizes: Sizes) -> None:
    corners = (calibration.scores, calibration.values)
    expect(
        all(numbers("corners", finite=True)(part, sizes) for part in corners)
        and len(calibration.scores) > 0
        and all((np.diff(part) >= 0.0).all() for part in corners),
        "the corners of a calibration do not ascend",
    )


def map_is_consistent(estimator, sizes: Sizes) -> None:
    check_parameters(estimator, landmarks=landmarks_rule("kmeans", "class_kmeans", "uniform"))
    _kernel_is_consistent(estimator, linear_without_landmarks=False, sizes=sizes)
    expect(estimator._n_features_out == sizes["q"], "mapping_ and the number of features disagree")


def _kernel_is_consistent(estimator, linear_without_landmarks: bool, sizes: Sizes) -> None:
    linear = resolve_kernel_name(estimator.kernel) == "linear" and linear_without_landmarks
    expect((estimator.landmarks_ is None) == linear, "the kernel and landmarks_ disagree")
    # The exact solver, with which a search may end, has support vectors as landmarks, and no map.
    may_lack_map = linear or (
        linear_without_landmarks
        and (estimator.solver == "exact" or hasattr(estimator, "best_params_"))
    )
    expect(
        may_lack_map if estimator.mapping_ is None else not linear,
        "the kernel and mapping_ disagree",
    )
    expect(estimator.n_landmarks_ == (0 if linear else sizes["k"]), "n_landmarks_ is wrong")

"""What classifiers and regressors share: rows in, a fit, fitted attributes, scores out.

A machine validates rows, calls :func:`lasn.training.train` (or :func:`lasn.exact.train_exact`), and
sets its fitted attributes in one place. Its scores are f(x) = K(x, L) beta + b, shape (m, c).
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from lasn.arrays import (
    cast,
    to_numpy,
)
from lasn.callbacks import (
    CallbackSupportMixin,
    IterationCallbacks,
    current_observer,
)
from lasn.checkpoints import read_checkpoint, write_checkpoint
from lasn.chunked_problem import ChunkedProblem
from lasn.devices import (
    Place,
    as_host_tensor,
    as_numpy,
    as_tensor,
    is_foreign,
    resolve_device,
)
from lasn.elsewhere import FoundRows, find_rows
from lasn.kernels import Kernel, is_of_products
from lasn.landmarks import here
from lasn.memory import OrOnTheCpu, with_less_memory
from lasn.model import Model
from lasn.newton import NewtonOptions
from lasn.parameters import check_parameters
from lasn.prediction import prediction_columns, scores
from lasn.problem import Problem
from lasn.progress import ProgressBar
from lasn.survey import Survey, survey
from lasn.targets import check_sample_weight, check_targets, validate_rows
from lasn.threads import serial_products
from lasn.training import train

# Parameters that decide what the landmarks are: warm_start keeps them while these stay.
_LANDMARK_PARAMETERS = (
    "n_landmarks", "landmarks", "kernel", "gamma", "degree", "coef0", "eigenvalue_cutoff"
)  # fmt: skip


class KernelMachine(CallbackSupportMixin, BaseEstimator):
    """What classifier and regressor share: rows in, scores out."""

    def _given(self, *arrays: Any) -> tuple[Problem | ChunkedProblem, Any]:
        """What ``_problem`` makes of rows, targets and weights, on the device where they are.

        Where it has no room for encoded targets, they are made of copies in the host's memory.
        """
        plan = OrOnTheCpu("targets", None)

        def attempt() -> Any:
            placed = map(as_host_tensor, arrays) if plan.gave_up else arrays
            return self._problem(self._find_rows(*placed))

        return with_less_memory(attempt, plan)

    @serial_products()  # also around training: threads of BLAS are awake for a while after use
    def _fit(self, problem: Problem | ChunkedProblem, y, single: bool):
        """Train, and set every fitted attribute. ``single``: drop the axis of problems."""
        previous = self._warm_start_model(problem.n_features, problem.n_problems)
        solved = previous is not None and self._parameters_of_last_fit().get("C") == self.C
        if self.resume and self.checkpoint is not None:
            resumed = read_checkpoint(self, problem)
            previous, solved = resumed or previous, solved and resumed is None
        device = resolve_device(self.device)
        if self.solver == "exact" and isinstance(problem, ChunkedProblem):
            raise ValueError(
                'solver="exact" needs the rows in memory; those on disk or on a cluster can be '
                'fitted with solver="auto".'
            )
        if self.refine is not None and (
            device is not None or self.solver == "exact" or isinstance(problem, ChunkedProblem)
        ):
            raise ValueError(
                f'refine={self.refine!r} needs device="cpu", rows in memory and a solver that is '
                f'not "exact"; device={self.device!r} and solver={self.solver!r} were given.'
            )
        newton = NewtonOptions(tol=self.tol, max_iter=self.max_iter, solver=self.solver)
        bar = ProgressBar(self.verbose, self.tol)
        if isinstance(problem, ChunkedProblem):
            problem = replace(problem, tell=bar.note)
        callbacks = IterationCallbacks(self, problem.X, y, problem.sample_weight)
        observer = current_observer()
        history: list[dict] = []

        def on_stage(name):
            bar.stage(name)
            if observer is not None:
                observer.stage(name)

        def on_iteration(model, record):
            history.append(record)
            bar.iteration(len(history), record)
            if observer is not None:
                observer.iteration(len(history), record, lambda: as_of_now(model))
            if self.checkpoint is not None:
                write_checkpoint(as_of_now(model), self.checkpoint)
            return callbacks.iteration(lambda: self._attributes(model, single))

        def as_of_now(model):
            fitted = copy(self)._set_fitted(self._attributes(model, single), list(history))
            fitted._landmark_parameters = self._parameters_of_this_fit()
            return fitted

        fit: Any = partial(train, solved=solved)
        if self.solver == "exact":
            from lasn.exact import train_exact as fit  # slow to import, and for few fits
        if self.refine is not None:
            from lasn.refine import train_refined

            score = partial(self._score_of, y=y, sample_weight=problem.sample_weight)
            fit = partial(train_refined, refine=self.refine, score=score)
        place = Place(device)
        by_landmarks = self.solver != "exact" and self.refine is None
        may_pack = by_landmarks and is_of_products(self.kernel)

        def attempt() -> Any:
            history.clear()
            placed: Any = problem.on(place, self.memory_limit)
            if may_pack and isinstance(placed, Problem):
                placed = placed.packed()
            if previous is None:
                gamma = (problem if sp.issparse(problem.X) else placed).gamma(self.gamma)
                kernel = Kernel(self.kernel, gamma=gamma, degree=self.degree, coef0=self.coef0)
            else:
                kernel = previous.kernel
            return fit(
                replace(placed, C=float(self.C)),
                kernel=kernel,
                n_landmarks=self.n_landmarks,
                landmarks=self.landmarks,
                newton=newton,
                rng=check_random_state(self.random_state),
                eigenvalue_cutoff=self.eigenvalue_cutoff,
                dtype=self.dtype,
                memory_limit=self.memory_limit,
                start=previous,
                on_stage=on_stage,
                on_iteration=on_iteration,
            )

        try:
            training = with_less_memory(attempt, place)
        finally:
            bar.close()
        attributes = self._attributes(training.model, single)
        self._set_fitted(attributes, training.newton.history)
        self.stage_seconds_ = training.seconds
        self.refine_curve_ = training.curve if self.refine is not None else []
        self._landmark_parameters = self._parameters_of_this_fit()
        callbacks.end(lambda: attributes)
        training.newton.warn_unless_converged(newton, training.model.dtype)
        return self

    def _set_fitted(self, attributes: dict, history: list[dict]):
        for name, value in attributes.items():
            setattr(self, name, value)
        self.history_ = history
        self.n_iter_ = len(history)
        return self

    def _attributes(self, model: Model, single: bool) -> dict:
        """The attributes that prediction needs, from a model: scores are K(x, L) beta + b."""
        n_landmarks = 0 if model.landmarks is None else model.landmarks.shape[0]
        coef, dual_coef, intercept = model.W[:-1].T, model.beta.T, model.W[-1]
        if single:
            coef, dual_coef, intercept = coef[0], dual_coef[0], float(intercept[0])
        return {
            "landmarks_": here(model.landmarks),
            "n_landmarks_": n_landmarks,
            "mapping_": to_numpy(model.mapping),
            "coef_": np.array(coef),
            "dual_coef_": np.array(dual_coef),
            "intercept_": np.array(intercept) if np.ndim(intercept) else intercept,
            "gamma_": model.kernel.gamma,
            "_dtype": model.dtype,
            "_n_scores": None if single else model.W.shape[1],
        }

    def _scores(self, X):
        """K(X, L) beta + b, shape (m,) or (m, c): NumPy's, or a tensor on the device."""
        check_is_fitted(self)
        device = resolve_device(self.device)
        X = validate_rows(self, X, device, reset=False)
        if self.landmarks_ is None:  # a product that takes less time than a copy of the rows
            device = None
        place = Place(device)
        beta = np.atleast_2d(self.dual_coef_).T

        def attempt() -> Any:
            rows = place.rows(X, self.memory_limit)
            columns = _fitted_columns(self, place.device)
            return cast(scores(rows, columns, beta, self.intercept_), rows.dtype)

        values = with_less_memory(attempt, place)
        return values[:, 0] if values.shape[1] == 1 and self._n_scores is None else values

    def _fitted_problem(self, X, y, sample_weight) -> Problem:
        """The problem that this fitted model is an answer to, on these rows."""
        check_is_fitted(self)
        X, y = validate_data(
            self,
            as_numpy(X),
            as_numpy(y),
            reset=False,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            multi_output=isinstance(self, RegressorMixin),
        )
        known = getattr(self, "classes_", None)
        if known is not None and not np.isin(y, known).all():
            stranger = y[~np.isin(y, known)][0]
            raise ValueError(
                f"y has the label {str(stranger)!r}, which the model was not fitted to; "
                f"its classes are {known[:10].tolist()}."
            )
        weight = check_sample_weight(sample_weight, X)
        C = self.C_ if hasattr(self, "C_") else self.C
        return replace(self._problem_again(X, y, weight), C=float(C))

    def _fitted_model(self) -> Model:
        W = np.vstack([np.atleast_2d(self.coef_).T, np.atleast_1d(self.intercept_)])
        return Model(self._fitted_kernel(), self.landmarks_, self.mapping_, W, self._dtype)

    def _fitted_kernel(self) -> Kernel:
        return Kernel(self.kernel, gamma=self.gamma_, degree=self.degree, coef0=self.coef0)

    def _parameters_of_last_fit(self) -> dict:
        return getattr(self, "_landmark_parameters", {})

    def _parameters_of_this_fit(self) -> dict:
        return self._current_landmark_parameters() | {"C": self.C}

    def _current_landmark_parameters(self) -> dict:
        return {name: getattr(self, name) for name in _LANDMARK_PARAMETERS}

    def _warm_start_model(self, n_features: int, n_problems: int) -> Model | None:
        """The model of the last fit, where ``warm_start`` asks for it and it still fits."""
        if not (self.warm_start and self._parameters_of_last_fit()):
            return None
        # Support vectors are no landmarks to begin a reduced problem with.
        if self.mapping_ is None and self.landmarks_ is not None and self.solver != "exact":
            return None
        before, now = self._parameters_of_last_fit(), self._current_landmark_parameters()
        same = all(before[name] is now[name] or _equal(before[name], now[name]) for name in now)
        model = self._fitted_model()
        if not same or model.W.shape[1] != n_problems or n_features != self._n_features_trained:
            return None
        return model

    def _check_parameters(self) -> None:
        check_parameters(self)

    def _find_rows(self, X, y, sample_weight) -> FoundRows:
        """Rows to fit, as arrays or as chunks that live elsewhere; parameters are checked first."""
        self._check_parameters()
        return find_rows(X, y, sample_weight, self.memory_limit, resolve_device(self.device))

    def _survey(self, found: FoundRows, with_labels: bool) -> Survey:
        """A look at rows that live elsewhere; sets the number of features and their names."""
        assert found.chunks is not None
        self._n_features_trained = getattr(self, "n_features_in_", None)
        seen = survey(found.chunks, with_labels)
        validate_data(self, seen.examples, skip_check_array=True)
        self._take_names(found)
        return seen

    def _take_names(self, found: FoundRows) -> None:
        """Columns of a file have names that arrays of its rows have not."""
        if found.names is not None:
            self.feature_names_in_ = np.array(found.names, dtype=object)

    def _validate(self, X, y, sample_weight, **y_options):
        """Rows, targets and weights as arrays, or an error that says what is wrong with them."""
        device = resolve_device(self.device)
        self._n_features_trained = getattr(self, "n_features_in_", None)
        if device is not None and is_foreign(X):
            X = validate_rows(self, X, device, reset=True)
            y = check_targets(as_tensor(y), X.shape[0], **y_options)
        else:
            X, y = validate_data(
                self,
                as_numpy(X),
                as_numpy(y),
                accept_sparse="csr",
                dtype=[np.float64, np.float32],
                **y_options,
            )
        return X, y, check_sample_weight(as_tensor(sample_weight), X)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


# What a kernel prepares of its landmarks, for models that predict few rows at a time. It is not an
# attribute: predicting leaves an estimator, and its pickle, as it is.
_prepared: WeakKeyDictionary = WeakKeyDictionary()


def _fitted_columns(estimator: KernelMachine, device):
    """The kernel against the fitted landmarks, on the device; None for the linear kernel."""
    landmarks = estimator.landmarks_
    if landmarks is None:
        return None
    kernel = estimator._fitted_kernel()
    known, there, source, columns = _prepared.get(estimator, (None, None, None, None))
    if known != kernel or there != device or source is not landmarks:
        placed = Place(device).landmarks(landmarks)
        if callable(kernel.name):
            columns = kernel.against(placed, estimator._dtype)
        else:
            beta = np.atleast_2d(estimator.dual_coef_).T
            columns = prediction_columns(kernel, placed, beta, estimator._dtype)
        _prepared[estimator] = (kernel, device, landmarks, columns)
    return columns


def _equal(before, now) -> bool:
    try:
        return bool(np.all(before == now))
    except (TypeError, ValueError):
        return False

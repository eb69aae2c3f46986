"""LASNClassifierCV and LASNRegressorCV: C, gamma and the number of landmarks by cross-validation.

The search is in ``search.py``, probabilities in ``calibration.py``; here is scikit-learn's side:
splitters, scorers, ``cv_results_``.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.ma import MaskedArray
from scipy.stats import rankdata
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from threadpoolctl import threadpool_limits

from lasn.calibration import calibrate
from lasn.callbacks import current_observer
from lasn.candidates import Grid
from lasn.chunked_problem import ChunkedProblem
from lasn.cross_validation import Evaluation, Fold
from lasn.devices import Place, as_numpy, give_back, resolve_device
from lasn.elsewhere import anywhere
from lasn.estimators import LASNClassifier, LASNRegressor, is_single
from lasn.exact import train_exact
from lasn.gamma import resolve_gamma
from lasn.kernels import Kernel, resolve_kernel_name
from lasn.landmark_search import LandmarkSearch
from lasn.landmarks import check_landmarks, count_landmarks
from lasn.losses import SquaredHinge
from lasn.machine import KernelMachine
from lasn.memory import with_less_memory
from lasn.newton import NewtonOptions
from lasn.parameters import check_parameters, one_or_several
from lasn.problem import Problem
from lasn.progress import ProgressBar
from lasn.search import Search
from lasn.targets import class_weights
from lasn.training import Training, train

_DEFAULT_CS = (1.0, 10.0, 100.0)
_DEFAULT_GAMMA_FACTORS = (0.25, 1.0, 4.0)
# Rows that are brought from elsewhere for a search.
_MOST_SEARCHED = 50_000


class _Tuned(KernelMachine):
    """What both searches share: a problem in, the best model out."""

    def _check_parameters(self) -> None:
        check_parameters(
            self,
            n_landmarks=one_or_several("n_landmarks"),
            Cs=one_or_several("C", none=True),
            gammas=one_or_several("gamma", none=True),
        )
        if self.solver == "exact":
            raise ValueError(
                'solver="exact" has no landmarks to share among folds. Search with solver="auto", '
                f"and give best_params_ to {type(self).__name__.removesuffix('CV')}"
                '(solver="exact").'
            )

    def _search(self, given: Problem | ChunkedProblem, y, sample_weight, groups, single: bool):
        """Search, refit on all rows, and set every fitted attribute.

        Of rows that live elsewhere, a sample is brought here to search over.
        """
        began = perf_counter()
        problem: Any = given
        if isinstance(given, ChunkedProblem):
            if groups is not None:
                raise ValueError("groups are for rows in memory; a sample of these is searched.")
            problem = given.pool(check_random_state(self.random_state), _MOST_SEARCHED)
            y, sample_weight = self._sampled(given, problem, single)
        device = resolve_device(self.device)
        X = problem.X
        rng = check_random_state(self.random_state)
        folds = self._folds(X, y, groups)
        kernel, grid = self._grid(problem)
        landmarks = self.landmarks
        if not isinstance(landmarks, str):
            landmarks = check_landmarks(landmarks, X)
        newton = NewtonOptions(tol=self.tol, max_iter=self.max_iter, solver=self.solver)
        linear = resolve_kernel_name(kernel.name) == "linear"
        bar = ProgressBar(self.verbose, self.tol)
        observer = current_observer()

        def on_stage(name: str) -> None:
            bar.stage(name)
            if observer is not None:
                observer.stage(name)

        def on_candidate(one: Evaluation) -> None:
            bar.candidate(len(search.evaluations), one)
            if observer is not None:
                observer.candidate(len(search.evaluations), one)

        grows = isinstance(self.n_landmarks, str) and isinstance(landmarks, str) and not linear
        one_candidate = len(grid.Cs) == len(grid.gammas) == 1
        landmarks_alone = grows and one_candidate and not self.landmarks_per_fold
        search = (LandmarkSearch if landmarks_alone else Search)(
            problem,
            folds,
            self._fold_scorer(X, y, sample_weight, single),
            kernel=kernel,
            grid=grid,
            sizes=self._sizes(problem.n_rows, landmarks),
            grows=grows,
            allows_exact=self._allows_exact(given, kernel),
            landmarks=landmarks,
            per_fold=self.landmarks_per_fold,
            newton=newton,
            margin=self.landmark_margin,
            prefers_simple=self.one_standard_error,
            rng=rng,
            dtype=self.dtype,
            cutoff=self.eigenvalue_cutoff,
            memory_limit=self.memory_limit,
            device=device,
            deadline=np.inf if self.time_budget is None else began + self.time_budget,
            on_candidate=on_candidate,
        )
        limit = None if self.n_jobs is None else effective_n_jobs(self.n_jobs)
        with threadpool_limits(limit, "blas"):
            try:
                on_stage("search")
                search.run()
                searched = perf_counter()
                training = search.training_of(search.chosen) if given is problem else None
                if training is None:
                    training = self._refit(given, search, device, on_stage)
            finally:
                bar.close()
        self._set_fitted(self._attributes(training.model, single), training.newton.history)
        self.stage_seconds_ = {"search": searched - began, **training.seconds}
        self._set_results(search)
        training.newton.warn_unless_converged(newton, training.model.dtype)
        return search

    def _refit(self, given: Problem | ChunkedProblem, search: Search, device, on_stage) -> Training:
        """Fit the chosen candidate to all rows, starting from its folds' models."""
        chosen, place = search.chosen, Place(device)
        known, landmarks = search.model_of(chosen), search.landmarks_of_level[chosen.level]
        centres = landmarks[0].centres if landmarks else None
        fit = partial(
            partial(train_exact, start=known) if chosen.exact else partial(train, guess=known),
            kernel=replace(search.kernel, gamma=chosen.gamma),
            n_landmarks=chosen.n_landmarks,
            landmarks=self.landmarks if self.landmarks_per_fold else centres,
            newton=search.newton,
            rng=search.rng,
            eigenvalue_cutoff=self.eigenvalue_cutoff,
            dtype=self.dtype,
            memory_limit=self.memory_limit,
            on_stage=on_stage,
        )
        whole = replace(given, C=chosen.C)
        return with_less_memory(lambda: fit(whole.on(place, self.memory_limit)), place)

    def _allows_exact(self, given: Problem | ChunkedProblem, kernel: Kernel) -> bool:
        """Whether the best may be the exact machine: by its own solver, for rows in memory.

        It is fast where rows rest, which those of the log loss never do.
        """
        return (
            self.solver == "auto"
            and isinstance(given, Problem)
            and isinstance(given.loss, SquaredHinge)
            and not callable(kernel.name)
            and kernel.is_positive_semidefinite
        )

    def _folds(self, X, y, groups) -> list[Fold]:
        splitter = check_cv(self.cv, y, classifier=isinstance(self, LASNClassifier))
        return [Fold(*rows) for rows in splitter.split(X, y, groups)]

    def _sizes(self, n_rows: int, landmarks) -> list[int]:
        if not isinstance(landmarks, str):
            return [landmarks.shape[0]]
        return sorted({count_landmarks(one, n_rows) for one in _listed(self.n_landmarks)})

    def _grid(self, problem: Problem) -> tuple[Kernel, Grid]:
        """The kernel with a gamma to count from, and what to try."""
        uses_gamma = not callable(self.kernel) and resolve_kernel_name(self.kernel) != "linear"
        middle = resolve_gamma("variance", problem.X, problem.sample_weight)
        if self.gammas is None:
            factors = _DEFAULT_GAMMA_FACTORS if uses_gamma else (1.0,)
            gammas = [factor * middle for factor in factors]
        else:
            gammas = [
                resolve_gamma(one, problem.X, problem.sample_weight) for one in _listed(self.gammas)
            ]
            middle = sorted(gammas)[len(gammas) // 2]
        Cs = [float(C) for C in _listed(_DEFAULT_CS if self.Cs is None else self.Cs)]
        widens = self.Cs is None and self.gammas is None
        kernel = Kernel(self.kernel, gamma=middle, degree=self.degree, coef0=self.coef0)
        return kernel, Grid(Cs, sorted(set(gammas)), widens and uses_gamma)

    def _fold_scorer(self, X, y, sample_weight, single: bool):
        """A function of the scores of held-out rows, and of where those are."""
        holder = self._held_out_estimator(single)
        scorer = check_scoring(holder, scoring=self.scoring)
        # scikit-learn's own scorers hand X on to the estimator, which knows the answer.
        wants_rows = not hasattr(scorer, "_score_func") and self.scoring is not None

        def score_fold(scores: np.ndarray, test: np.ndarray) -> float:
            holder._held_out = scores
            options = {} if sample_weight is None else {"sample_weight": sample_weight[test]}
            score = scorer(holder, X[test] if wants_rows else None, y[test], **options)
            if not np.isfinite(score):
                raise ValueError(
                    f"scoring={self.scoring!r} gave {score} on a fold of {len(test)} rows; give a "
                    "scorer that is finite on every fold, or a cv with larger or stratified folds."
                )
            return float(score)

        return score_fold

    def _set_results(self, search: Search) -> None:
        evaluations, chosen = search.evaluations, search.chosen
        self.cv_results_ = cv_results(evaluations)
        self.best_index_ = next(i for i, one in enumerate(evaluations) if one is chosen)
        self.best_score_ = chosen.score
        self.best_params_ = self.cv_results_["params"][self.best_index_]
        self.C_ = chosen.C
        self.n_splits_ = len(search.folds)
        self.landmark_curve_ = []
        for level in range(1 + max(one.level for one in evaluations)):
            best = search.level_best(level)
            took = sum(one.fit_seconds for one in evaluations if one.level == level)
            self.landmark_curve_.append(
                {
                    "n_landmarks": best.n_landmarks,
                    "score": best.score,
                    "standard_error": best.standard_error,
                    "C": best.C,
                    "gamma": best.gamma,
                    "seconds": float(took),
                }
            )


def _score_weights(sample_weight) -> np.ndarray | None:
    """Weights for scorers, shape (n,): one weight for all rows weighs no score against another."""
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight, dtype=np.float64)
    return weights if weights.ndim else None


def _listed(values) -> list:
    """One value, or several, as a list."""
    return [values] if isinstance(values, str) or np.ndim(values) == 0 else list(values)


def cv_results(evaluations: list[Evaluation]) -> dict:
    """The evaluations in the layout of ``GridSearchCV.cv_results_``."""
    results: dict = {}
    n_folds = len(evaluations[0].fold_scores)
    for name, values in (
        ("fit", [one.fit_seconds for one in evaluations]),
        ("score", [one.score_seconds for one in evaluations]),
    ):
        results[f"mean_{name}_time"] = np.array(values) / n_folds
        # Folds are fitted together: their times are not known apart.
        results[f"std_{name}_time"] = np.zeros(len(values))
    for name in ("C", "gamma", "n_landmarks"):
        values = [getattr(one, name) for one in evaluations]
        results[f"param_{name}"] = MaskedArray(values, mask=False)
    results["n_resources"] = np.array([one.n_rows for one in evaluations])
    results["params"] = [
        {"C": one.C, "gamma": one.gamma, "n_landmarks": one.n_landmarks} for one in evaluations
    ]
    table = np.array([one.fold_scores for one in evaluations])
    for fold in range(n_folds):
        results[f"split{fold}_test_score"] = table[:, fold].copy()
    results["mean_test_score"] = table.mean(axis=1)
    results["std_test_score"] = table.std(axis=1)
    results["rank_test_score"] = rankdata(-results["mean_test_score"], method="min").astype(
        np.int32
    )
    return results


class _HeldOutClassifier(LASNClassifier):
    """A classifier that knows the scores of the rows that it will be asked about."""

    def _scores(self, X):
        return self._held_out

    def score(self, X, y=None, sample_weight=None):
        """Accuracy, of labels that need no further checks."""
        return np.average(self.predict(X) == y, weights=sample_weight)


class _HeldOutRegressor(LASNRegressor):
    """The same for a regressor."""

    def _scores(self, X):
        return self._held_out[:, 0] if self._single else self._held_out


class LASNClassifierCV(_Tuned, LASNClassifier):
    """:class:`LASNClassifier` with C, gamma and the number of landmarks chosen by cross-validation.

    All folds and all C share one feature matrix for each gamma and number of landmarks, so the
    search costs a few times one fit, not one fit for each candidate and fold.

    Parameters
    ----------
    Cs : array of floats or None, default=None
        Values of C to try. None: 1, 10 and 100, and further where the best is at an end.
    gammas : array of floats or names, or None, default=None
        Values of gamma, see :class:`LASNClassifier`. None: a quarter, one and four times the
        paper's ``"variance"``, and further where the best is at an end.
    n_landmarks : int, sequence of int, or "auto", default="auto"
        ``"auto"`` begins with the square root of the number of rows, leaving out values of C and
        gamma that lie beyond clearly worse ones. Then it doubles that number, with the
        neighbourhood of the best C and gamma, while that gains ``landmark_margin`` in score; where
        rows are few, it goes on with 2000 of them, or all, at once. With many classes and up to
        20 000 rows it goes on with the exact machine instead, which counts as all rows: the model
        is then that of ``LASNClassifier(solver="exact")``. The first number of landmarks is
        solved to a tolerance of 0.01, if ``tol`` is smaller. With one C and one gamma it fits each
        number to all rows, and the folds from there. To try twice as many costs more than all
        before; so it goes on only while 0.4 of what the last doubling gained, which the next may
        gain, is ``landmark_margin`` or more; where 0.4 of that is, too, it goes on with four times
        as many, up to 1000. The exact machine follows the first number wherever it pays: up to 200
        rows for each class and fold, and 20 000 in all. It is chosen, and so are more landmarks
        before fewer, unless the score is lower by more than chance: one standard error of the
        difference, two for the exact machine. Numbers are all tried, each with every C and gamma.
    cv : int, splitter or iterable, default=5
        As in scikit-learn; a number means stratified folds.
    scoring : str, callable or None, default=None
        One of scikit-learn's scorers; None is the accuracy.
    random_state : int, RandomState instance or None, default=None
        For choosing landmarks.
    kernel, degree, coef0, loss, landmarks, class_weight, tol, max_iter, solver, memory_limit, \
device, dtype, verbose, eigenvalue_cutoff :
        As for :class:`LASNClassifier`.
    landmark_margin : float, default=1e-3
        How much of the score twice the landmarks must gain, or be expected to gain, to go on, for
        ``n_landmarks="auto"``.
    landmarks_per_fold : bool, default=False
        Landmarks are points of the input space, chosen once from all rows, the held-out ones among
        them: a held-out row may so have a landmark near it, as every row has in the final fit.
        Centres of one class would tell which class held-out rows have; in the folds the rows
        nearest to them are landmarks instead, and the final fit has the centres. True: each fold
        chooses from its training rows alone, which costs one more feature matrix for each fold.
    one_standard_error : bool, default=False
        Refit the simplest candidate (fewest landmarks, then smallest C and gamma) whose score is
        within one standard error of the best.
    calibration : {"sigmoid", "isotonic"} or None, default="sigmoid"
        How ``predict_proba`` is made from the held-out scores of the search (for
        ``loss="squared_hinge"``; the logistic loss has its own probabilities).
    time_budget : float or None, default=None
        Seconds after which no further candidates are tried. At least the first gamma is.
    n_jobs : int or None, default=None
        Most threads to use; None is as many as a matrix product would use.

    Attributes
    ----------
    best_params_ : dict
        ``C``, ``gamma`` and ``n_landmarks`` of the refitted candidate.
    best_score_ : float
        Its mean score over the folds.
    best_index_ : int
        Its place in ``cv_results_``.
    cv_results_ : dict of arrays
        In the layout of ``GridSearchCV``. Folds are fitted together, so their times are equal.
        ``n_resources`` is the number of rows: with many rows and classes, ``n_landmarks="auto"``
        tries the whole grid on a sample of them first, and only what was tried on all is refitted.
    landmark_curve_ : list of dict
        For each number of landmarks the best score, its standard error, C, gamma and seconds.
    C_ : float
    n_splits_ : int
    stage_seconds_ : dict
        Seconds of ``"search"``, and of the stages of the last fit: ``"landmarks"``, ``"map"`` and
        ``"solve"``; of the search alone, where that has fitted the best to all rows already.
    classes_, landmarks_, n_landmarks_, coef_, dual_coef_, intercept_, gamma_, history_, ... :
        Of the model that was refitted on all rows, as for :class:`LASNClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import scale
    >>> from lasn import LASNClassifierCV
    >>> X, y = load_wine(return_X_y=True)
    >>> model = LASNClassifierCV(random_state=0).fit(scale(X), y)
    >>> model.best_score_ > 0.97
    True
    >>> sorted(model.best_params_)
    ['C', 'gamma', 'n_landmarks']
    """

    def __init__(
        self,
        Cs=None,
        gammas=None,
        n_landmarks="auto",
        cv=5,
        scoring=None,
        random_state=None,
        kernel="rbf",
        degree=3,
        coef0=1.0,
        loss="squared_hinge",
        landmarks="boundary",
        class_weight=None,
        landmark_margin=1e-3,
        landmarks_per_fold=False,
        one_standard_error=False,
        calibration="sigmoid",
        time_budget=None,
        tol=1e-3,
        max_iter=50,
        solver="auto",
        n_jobs=None,
        memory_limit=None,
        device="cpu",
        dtype="auto",
        verbose=0,
        eigenvalue_cutoff="auto",
    ):
        self.Cs = Cs
        self.gammas = gammas
        self.n_landmarks = n_landmarks
        self.cv = cv
        self.scoring = scoring
        self.random_state = random_state
        self.kernel = kernel
        self.degree = degree
        self.coef0 = coef0
        self.loss = loss
        self.landmarks = landmarks
        self.class_weight = class_weight
        self.landmark_margin = landmark_margin
        self.landmarks_per_fold = landmarks_per_fold
        self.one_standard_error = one_standard_error
        self.calibration = calibration
        self.time_budget = time_budget
        self.tol = tol
        self.max_iter = max_iter
        self.solver = solver
        self.n_jobs = n_jobs
        self.memory_limit = memory_limit
        self.device = device
        self.dtype = dtype
        self.verbose = verbose
        self.eigenvalue_cutoff = eigenvalue_cutoff

    def fit(self, X, y=None, sample_weight=None, groups=None):
        """Search, and fit the best candidate to all rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features), path, iterable or Dask collection
            As for :class:`LASNClassifier`. Of rows that stay on disk or on a cluster, a sample of
            50 000 is searched, and the best candidate is fitted to all of them.
        y : array-like of shape (n,), path, name of a column, or None
            Class labels of any type; None where X holds them.
        sample_weight : array-like of shape (n,), path or name of a column, optional
            Weights of the rows, in fitting and in scoring.
        groups : array-like of shape (n,), optional
            For splitters that keep groups together; only for rows in memory.

        Returns
        -------
        self
        """
        X, y, sample_weight = as_numpy(X), as_numpy(y), as_numpy(sample_weight)
        found = self._find_rows(X, y, sample_weight)
        problem, y = self._problem(found)
        given = _score_weights(found.sample_weight)
        search = self._search(problem, y, given, groups, single=False)
        if self.calibration is not None and self.loss != "log_loss":
            self._calibration = self._calibrate(search)
        return self

    def _sampled(self, whole: ChunkedProblem, sample: Problem, single: bool):
        """Labels of a sample's rows, and their weights without those of the classes."""
        seen = whole.survey
        of_class = class_weights(self.class_weight, seen.classes, seen.weight_of_class)
        return self.classes_[sample.groups], sample.sample_weight / of_class[sample.groups]

    def _calibrate(self, search: Search):
        problem = search.problem
        held_out = np.concatenate([fold.test for fold in search.folds])
        scores = np.concatenate(search.chosen.held_out)
        weight = problem.sample_weight[held_out]
        return calibrate(self.calibration, scores, problem.groups[held_out], weight)

    def _held_out_estimator(self, single: bool) -> LASNClassifier:
        holder = _HeldOutClassifier(loss=self.loss)
        holder.classes_ = self.classes_
        return holder

    @available_if(lambda self: _has_probabilities(self))
    @anywhere
    def predict_proba(self, X):
        """Class probabilities; the most probable class is the one that ``predict`` returns.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (m, n_features)

        Returns
        -------
        probabilities : array of shape (m, n_classes)
        """
        return give_back(self._probabilities(as_numpy(self.decision_function(X))), X)

    def _probabilities(self, values: np.ndarray) -> np.ndarray:
        if self.loss == "log_loss":
            return super()._probabilities(values)
        return self._calibration.probabilities(values.reshape(len(values), -1))

    @available_if(lambda self: _has_probabilities(self))
    @anywhere
    def predict_log_proba(self, X):
        """Logarithms of the class probabilities.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (m, n_features)

        Returns
        -------
        log_probabilities : array of shape (m, n_classes)
        """
        if self.loss == "log_loss":
            return super().predict_log_proba(X)
        probabilities = self._probabilities(as_numpy(self.decision_function(X)))
        with np.errstate(divide="ignore"):
            return give_back(np.log(probabilities), X)


def _has_probabilities(estimator) -> bool:
    if estimator.loss != "log_loss" and estimator.calibration is None:
        raise AttributeError(
            'predict_proba needs calibration="sigmoid" or "isotonic", or loss="log_loss"; this '
            f"classifier has calibration=None and loss={estimator.loss!r}."
        )
    return True


class LASNRegressorCV(_Tuned, LASNRegressor):
    """:class:`LASNRegressor` with C, gamma and the number of landmarks chosen by cross-validation.

    Parameters
    ----------
    Cs, gammas, n_landmarks, random_state, kernel, degree, coef0, landmarks, landmark_margin, \
landmarks_per_fold, one_standard_error, time_budget, tol, max_iter, solver, n_jobs, memory_limit, \
device, dtype, verbose, eigenvalue_cutoff :
        As for :class:`LASNClassifierCV`.
    cv : int, splitter or iterable, default=5
        As in scikit-learn; a number means consecutive folds without shuffling.
    scoring : str, callable or None, default=None
        One of scikit-learn's scorers; None is the coefficient of determination R^2.
    epsilon : float, default=0.1
        Half of the width of the tube in which errors cost nothing, in units of y.

    Attributes
    ----------
    best_params_, best_score_, best_index_, cv_results_, landmark_curve_, C_, n_splits_, \
stage_seconds_ :
        As for :class:`LASNClassifierCV`.
    landmarks_, n_landmarks_, coef_, dual_coef_, intercept_, gamma_, history_, ... :
        Of the model that was refitted on all rows, as for :class:`LASNRegressor`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.preprocessing import scale
    >>> from lasn import LASNRegressorCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = LASNRegressorCV(random_state=0).fit(scale(X), scale(y))
    >>> model.best_score_ > 0.4
    True
    """

    def __init__(
        self,
        Cs=None,
        gammas=None,
        n_landmarks="auto",
        cv=5,
        scoring=None,
        random_state=None,
        epsilon=0.1,
        kernel="rbf",
        degree=3,
        coef0=1.0,
        landmarks="boundary",
        landmark_margin=1e-3,
        landmarks_per_fold=False,
        one_standard_error=False,
        time_budget=None,
        tol=1e-3,
        max_iter=50,
        solver="auto",
        n_jobs=None,
        memory_limit=None,
        device="cpu",
        dtype="auto",
        verbose=0,
        eigenvalue_cutoff="auto",
    ):
        self.Cs = Cs
        self.gammas = gammas
        self.n_landmarks = n_landmarks
        self.cv = cv
        self.scoring = scoring
        self.random_state = random_state
        self.epsilon = epsilon
        self.kernel = kernel
        self.degree = degree
        self.coef0 = coef0
        self.landmarks = landmarks
        self.landmark_margin = landmark_margin
        self.landmarks_per_fold = landmarks_per_fold
        self.one_standard_error = one_standard_error
        self.time_budget = time_budget
        self.tol = tol
        self.max_iter = max_iter
        self.solver = solver
        self.n_jobs = n_jobs
        self.memory_limit = memory_limit
        self.device = device
        self.dtype = dtype
        self.verbose = verbose
        self.eigenvalue_cutoff = eigenvalue_cutoff

    def fit(self, X, y=None, sample_weight=None, groups=None):
        """Search, and fit the best candidate to all rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features), path, iterable or Dask collection
            As for :class:`LASNClassifierCV`.
        y : array-like of shape (n,) or (n, n_targets), path, name of a column, or None
        sample_weight : array-like of shape (n,), path or name of a column, optional
        groups : array-like of shape (n,), optional
            Only for rows in memory.

        Returns
        -------
        self
        """
        X, y, sample_weight = as_numpy(X), as_numpy(y), as_numpy(sample_weight)
        found = self._find_rows(X, y, sample_weight)
        problem, y = self._problem(found)
        given = _score_weights(found.sample_weight)
        self._search(problem, y, given, groups, single=is_single(problem, y))
        return self

    def _sampled(self, whole: ChunkedProblem, sample: Problem, single: bool):
        """Targets of a sample's rows, and their weights."""
        return sample.targets[:, 0] if single else sample.targets, sample.sample_weight

    def _held_out_estimator(self, single: bool) -> LASNRegressor:
        holder = _HeldOutRegressor()
        holder._single = single
        return holder

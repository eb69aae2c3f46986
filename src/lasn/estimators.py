"""LASNClassifier and LASNRegressor: scikit-learn's manners around Algorithm 2.

An estimator validates, encodes targets, calls :func:`lasn.training.train`, and sets its fitted
attributes in one place. The maths is elsewhere.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_array, check_random_state, column_or_1d
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from lasn.arrays import (
    bincount,
    cast,
    is_tensor,
    like,
    namespace,
    softplus,
    to_numpy,
    unique_inverse,
    wide,
)
from lasn.callbacks import (
    CallbackSupportMixin,
    IterationCallbacks,
    current_observer,
    with_callbacks,
)
from lasn.devices import (
    as_numpy,
    as_tensor,
    check_tensor,
    give_back,
    is_foreign,
    resolve_device,
)
from lasn.exact import train_exact
from lasn.kernels import Kernel, resolve_gamma
from lasn.landmarks import here, target_bins
from lasn.losses import CLASSIFIER_LOSSES, SquaredEpsilonInsensitive
from lasn.newton import NewtonOptions
from lasn.parameters import check_parameters
from lasn.progress import ProgressBar
from lasn.training import Model, Problem, scores, train

# Parameters that decide what the landmarks are: warm_start keeps them while these stay.
_LANDMARK_PARAMETERS = (
    "n_landmarks", "landmarks", "kernel", "gamma", "degree", "coef0", "eigenvalue_cutoff"
)  # fmt: skip


class _LASN(CallbackSupportMixin, BaseEstimator):
    """What classifier and regressor share: rows in, scores out."""

    def _fit(self, problem: Problem, y, single: bool):
        """Train, and set every fitted attribute. ``single``: drop the axis of problems."""
        X, sample_weight = problem.X, problem.sample_weight
        previous = self._warm_start_model(X, problem.targets.shape[1])
        device = resolve_device(self.device)
        if device is not None and self.solver == "exact":
            raise ValueError(
                f'solver="exact" needs device="cpu"; device={self.device!r} was given. Set one of '
                'the two to "cpu" or "auto".'
            )
        problem = problem.on(device, self.memory_limit)
        if sp.issparse(X):
            gamma = resolve_gamma(self.gamma, X, sample_weight)
        else:
            gamma = resolve_gamma(self.gamma, problem.X, problem.sample_weight)
        if previous is None:
            kernel = Kernel(self.kernel, gamma=gamma, degree=self.degree, coef0=self.coef0)
        else:
            kernel = previous.kernel
        newton = NewtonOptions(tol=self.tol, max_iter=self.max_iter, solver=self.solver)
        bar = ProgressBar(self.verbose, self.tol)
        callbacks = IterationCallbacks(self, X, y, sample_weight)
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
            return callbacks.iteration(lambda: self._attributes(model, single))

        def as_of_now(model):
            fitted = copy(self)._set_fitted(self._attributes(model, single), list(history))
            fitted._landmark_parameters = self._current_landmark_parameters()
            return fitted

        try:
            training = (train_exact if self.solver == "exact" else train)(
                replace(problem, C=float(self.C)),
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
        finally:
            bar.close()
        attributes = self._attributes(training.model, single)
        self._set_fitted(attributes, training.newton.history)
        self.stage_seconds_ = training.seconds
        self._landmark_parameters = self._current_landmark_parameters()
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
        X = self._validate_rows(X, device, reset=False)
        if device is not None and (is_tensor(X) or self.landmarks_ is not None):
            from lasn.torch_blocks import device_memory
            from lasn.torch_rows import place_rows

            X = place_rows(X, device, device_memory(device, self.memory_limit))
        beta = np.atleast_2d(self.dual_coef_).T
        values = cast(scores(X, _fitted_columns(self, device), beta, self.intercept_), X.dtype)
        return values[:, 0] if values.shape[1] == 1 and self._n_scores is None else values

    def _fitted_problem(self, X, y, sample_weight) -> Problem:
        """The problem that this fitted model is an answer to, on these rows."""
        check_is_fitted(self)
        X, y = validate_data(
            self,
            X,
            y,
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
        weight = _check_sample_weight(sample_weight, X)
        C = self.C_ if hasattr(self, "C_") else self.C
        return replace(self._problem_again(X, y, weight), C=float(C))

    def _fitted_model(self) -> Model:
        W = np.vstack([np.atleast_2d(self.coef_).T, np.atleast_1d(self.intercept_)])
        return Model(self._fitted_kernel(), self.landmarks_, self.mapping_, W, self._dtype)

    def _fitted_kernel(self) -> Kernel:
        return Kernel(self.kernel, gamma=self.gamma_, degree=self.degree, coef0=self.coef0)

    def _current_landmark_parameters(self) -> dict:
        return {name: getattr(self, name) for name in _LANDMARK_PARAMETERS}

    def _warm_start_model(self, X, n_problems: int) -> Model | None:
        """The model of the last fit, where ``warm_start`` asks for it and it still fits."""
        if not (self.warm_start and hasattr(self, "_landmark_parameters")):
            return None
        # Support vectors are no landmarks to begin a reduced problem with.
        if self.mapping_ is None and self.landmarks_ is not None and self.solver != "exact":
            return None
        before, now = self._landmark_parameters, self._current_landmark_parameters()
        same = all(before[name] is now[name] or _equal(before[name], now[name]) for name in now)
        model = self._fitted_model()
        if not same or model.W.shape[1] != n_problems or X.shape[1] != self._n_features_trained:
            return None
        return model

    def _check_parameters(self) -> None:
        check_parameters(self)

    def _validate(self, X, y, sample_weight, **y_options):
        """Rows, targets and weights as arrays, or an error that says what is wrong with them."""
        self._check_parameters()
        device = resolve_device(self.device)
        self._n_features_trained = getattr(self, "n_features_in_", None)
        if device is not None and is_foreign(X):
            X = self._validate_rows(X, device, reset=True)
            y = _check_targets(as_tensor(y), X.shape[0], **y_options)
        else:
            X, y = validate_data(
                self,
                as_numpy(X),
                as_numpy(y),
                accept_sparse="csr",
                dtype=[np.float64, np.float32],
                **y_options,
            )
        return X, y, _check_sample_weight(as_tensor(sample_weight), X)

    def _validate_rows(self, X, device, reset: bool):
        """Rows as an array, a CSR matrix or, for a torch device, a tensor if they are foreign."""
        if device is not None and is_foreign(X):
            X = as_tensor(X)
            rows = check_tensor("X", X)
            validate_data(self, X, skip_check_array=True, reset=reset)
            return rows
        types = [np.float64, np.float32]
        return validate_data(self, as_numpy(X), accept_sparse="csr", dtype=types, reset=reset)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


# What a kernel prepares of its landmarks, for models that predict few rows at a time. It is not an
# attribute: predicting leaves an estimator, and its pickle, as it is.
_prepared: WeakKeyDictionary = WeakKeyDictionary()


def _fitted_columns(estimator: _LASN, device):
    """The kernel against the fitted landmarks, on the device; None for the linear kernel."""
    landmarks = estimator.landmarks_
    if landmarks is None:
        return None
    kernel = estimator._fitted_kernel()
    known, there, source, columns = _prepared.get(estimator, (None, None, None, None))
    if known != kernel or there != device or source is not landmarks:
        placed = landmarks
        if device is not None:
            from lasn.torch_rows import place_rows

            placed = place_rows(landmarks, device, memory=1 << 62)
        columns = kernel.against(placed, estimator._dtype)
        _prepared[estimator] = (kernel, device, landmarks, columns)
    return columns


def _equal(before, now) -> bool:
    try:
        return bool(np.all(before == now))
    except (TypeError, ValueError):
        return False


def _check_targets(y, n_rows: int, multi_output: bool = False, y_numeric: bool = False):
    """Targets of rows that are tensors: a tensor, or an array of labels of any type."""
    if is_tensor(y):
        if y_numeric or y.is_floating_point():
            y = check_tensor("y", y, ndim=(1, 2) if multi_output else (1,))
    elif multi_output:
        y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
    else:
        y = column_or_1d(y)
    if y.ndim not in ((1, 2) if multi_output else (1,)) or y.shape[0] != n_rows:
        raise ValueError(
            f"y has shape {tuple(y.shape)} but X has {n_rows} rows; y must have shape ({n_rows},)"
            f"{f' or ({n_rows}, n_targets)' if multi_output else ''}."
        )
    return y


def _check_sample_weight(sample_weight, X):
    """Weights of the rows, shape (n,), where the rows are."""
    n_rows = X.shape[0]
    if sample_weight is None:
        return wide(X[:, 0] * 0.0 + 1.0) if is_tensor(X) else np.ones(n_rows)
    try:
        weight = like(sample_weight, X, np.float64) if is_tensor(X) else None
        if weight is None:
            weight = np.array(to_numpy(sample_weight), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"sample_weight must be numbers: {error}.") from error
    if weight.ndim == 0:
        weight = weight + _check_sample_weight(None, X) * 0.0
    if weight.ndim != 1:
        raise ValueError(
            f"Sample weights must be 1D array or scalar: sample_weight has shape {weight.shape}, "
            f"it must have shape ({n_rows},)."
        )
    if len(weight) != n_rows:
        raise ValueError(
            f"sample_weight.shape == {weight.shape}, expected {(n_rows,)}: one weight a row of X."
        )
    if not namespace(weight).isfinite(weight).all():
        raise ValueError("sample_weight contains NaN or infinity; every weight must be finite.")
    if (weight < 0).any():
        raise ValueError(
            f"sample_weight has negative values (the least is {weight.min():g}); every weight must "
            "be zero or more."
        )
    if not (weight > 0).any():
        raise ValueError("sample_weight is zero for every row; at least one must be positive.")
    return weight


class LASNClassifier(ClassifierMixin, _LASN):
    """Kernel SVM classifier: landmarks, Nystroem features and a semismooth Newton method.

    Minimises, for each class against the rest (once for two classes)::

        1/2 |w|^2 + C sum_i s_i loss(y_i, <w, x~_i>)

    over features x~ = [K(x, L) M, 1] made from k landmarks L, so the decision function is
    f(x) = sum_j beta_j k(x, l_j) + b with beta = M w, and the bias is regularised.

    Parameters
    ----------
    n_landmarks : int or "auto", default="auto"
        Number of landmarks k: more are slower (about k squared) and closer to the exact kernel
        SVM. ``"auto"`` is the square root of the number of rows, at least 100.
    C : float, default=10.0
        Weight of the losses against the regularisation.
    kernel : {"rbf", "polynomial", "tanh", "laplacian", "linear"} or callable, default="rbf"
        ``"linear"`` needs no landmarks. A callable gets two blocks of rows, k(X, L), and returns
        their kernel matrix.
    gamma : float or {"variance", "scale", "auto"}, default="variance"
        Kernel coefficient. ``"variance"`` is the paper's rule, 1 / tr Cov(X); ``"scale"`` and
        ``"auto"`` are scikit-learn's.
    degree : float, default=3
        Of the polynomial kernel.
    coef0 : float, default=1.0
        Of the polynomial and tanh kernels.
    loss : {"squared_hinge", "log_loss"}, default="squared_hinge"
        ``"log_loss"`` adds ``predict_proba``.
    landmarks : {"boundary", "kmeans", "class_kmeans", "uniform"} or array, default="boundary"
        How landmarks are chosen, or the landmarks themselves, shape (k, n_features).
        ``"kmeans"`` is the paper's way.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied with ``sample_weight``.
    tol : float, default=1e-3
        Newton's method stops when the gradient norm is below ``tol`` times the one at zero.
    max_iter : int, default=50
        Most Newton iterations.
    random_state : int, RandomState instance or None, default=None
        For choosing landmarks. The same seed gives the same model.
    solver : {"auto", "newton", "newton-cg", "exact"}, default="auto"
        How Newton's equations are solved: by an assembled and factored Hessian, by conjugate
        gradients, or by the cheaper of the two. ``"exact"`` solves the exact kernel problem,
        without the Nystroem approximation, until the relative duality gap is ``tol / 10``; its
        time grows with the square of the number of rows at or within the margin (of all rows for
        ``loss="log_loss"``). ``n_landmarks`` and ``landmarks`` then say from which approximate
        model it starts, and ``landmarks_`` are the support vectors, with ``mapping_`` None and
        ``coef_`` equal to ``dual_coef_``.
    memory_limit : int, str or None, default=None
        Bytes, or text such as ``"2GB"``, that the process should stay under, data included.
        Features that do not fit are computed again when needed. None: half of the machine. For
        a CUDA device it is the GPU's memory, and None all that is free.
    device : {"cpu", "cuda", "cuda:N", "mps", "torch"}, default="cpu"
        ``"cpu"`` is NumPy. The others need torch (``pip install 'lasn[gpu]'``): a GPU, or torch on
        the CPU. Tensors that are on the device already stay there; predictions come back as the
        rows came. A callable kernel gets tensors.
    dtype : {"auto", "float32", "float64"}, default="auto"
        Of the features. ``"auto"`` is float64 for small problems and float32 for others; sums and
        coefficients are float64 always.
    warm_start : bool, default=False
        Start from the last fit, with its landmarks.
    verbose : int, default=0
        1: a progress bar, if standard error is a terminal. 2: keep its lines.
    eigenvalue_cutoff : "auto" or float, default="auto"
        Directions of the kernel among landmarks with eigenvalues up to this are dropped.
        ``"auto"`` follows ``dtype``; the paper's is 1e-6.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Labels in sorted order.
    landmarks_ : array or CSR matrix of shape (k, n_features), or None for the linear kernel
    n_landmarks_ : int
    mapping_ : array of shape (k, q), or None for the linear kernel
        M of Algorithm 2.
    coef_ : array of shape (1, q) or (n_classes, q)
        w, the coefficients of the features.
    dual_coef_ : array of shape (1, k) or (n_classes, k)
        beta = M w, the coefficients of the landmarks (equal to ``coef_`` for the linear kernel).
    intercept_ : array of shape (1,) or (n_classes,)
    gamma_ : float
    n_iter_ : int
        Newton iterations, one to each record of ``history_``.
    history_ : list of dict
        One record an iteration: value, gradient_norm, relative_gradient, active_rows, cg_steps,
        step_length (arrays, one entry a class, for several classes), seconds, precision of the
        products, and rows: how many took part. With many rows, those near the boundary are solved
        first and the last record, if its step_length is 0, only confirms the answer over all of
        them. ``solver="exact"`` has gap and relative_gap, P - D over the rows that took part,
        instead of gradients; the last of a fit that converged is that of the whole problem.
    stage_seconds_ : dict
        Seconds of each stage of the fit: ``"landmarks"``, ``"map"`` and ``"solve"``; of
        ``solver="exact"``, ``"nystroem"`` (where it begins) and ``"solve"``.
    n_features_in_ : int
    feature_names_in_ : array of shape (n_features,)

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import train_test_split
    >>> from lasn import LASNClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    >>> model = LASNClassifier(n_landmarks=300, random_state=0).fit(X_train, y_train)
    >>> model.score(X_test, y_test) > 0.98
    True
    """

    def __init__(
        self,
        n_landmarks="auto",
        C=10.0,
        kernel="rbf",
        gamma="variance",
        degree=3,
        coef0=1.0,
        loss="squared_hinge",
        landmarks="boundary",
        class_weight=None,
        tol=1e-3,
        max_iter=50,
        random_state=None,
        solver="auto",
        memory_limit=None,
        device="cpu",
        dtype="auto",
        warm_start=False,
        verbose=0,
        eigenvalue_cutoff="auto",
    ):
        self.n_landmarks = n_landmarks
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.loss = loss
        self.landmarks = landmarks
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.solver = solver
        self.memory_limit = memory_limit
        self.device = device
        self.dtype = dtype
        self.warm_start = warm_start
        self.verbose = verbose
        self.eigenvalue_cutoff = eigenvalue_cutoff

    @with_callbacks
    def fit(self, X, y, sample_weight=None):
        """Fit the classifier.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features)
        y : array-like of shape (n,)
            Class labels of any type.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows, zero or more. Weight 0 is a row left out, weight 2 a row twice.

        Returns
        -------
        self
        """
        problem, y = self._problem(X, y, sample_weight)
        return self._fit(problem, y, single=False)

    def _problem(self, X, y, sample_weight) -> tuple[Problem, np.ndarray]:
        """What is to be fitted, with C = 1, and the labels as an array; sets ``classes_``."""
        X, y, sample_weight = self._validate(X, y, sample_weight)
        check_classification_targets(y if not is_tensor(y) else to_numpy(y[:1000]))
        classes, labels = unique_inverse(y)
        if is_tensor(X) and not is_tensor(labels):
            labels = like(labels, X, np.int64)
        totals = to_numpy(bincount(labels, sample_weight, len(classes)))
        if np.count_nonzero(totals > 0.0) < 2:
            raise ValueError(
                f"{type(self).__name__} needs rows of at least two classes; y has {len(classes)} "
                f"class (of {len(y)} rows), {np.count_nonzero(totals > 0.0)} with a positive "
                "sample_weight."
            )
        self.classes_ = classes
        return self._encoded(X, labels, sample_weight), y

    def _problem_again(self, X, y, sample_weight) -> Problem:
        return self._encoded(X, np.searchsorted(self.classes_, y), sample_weight)

    def _encoded(self, X, labels, sample_weight) -> Problem:
        """The problem of rows whose labels are places in ``classes_``, with C = 1."""
        classes = self.classes_
        totals = to_numpy(bincount(labels, sample_weight, len(classes)))
        weight_of_class = _class_weights(self.class_weight, classes, totals)
        if len(classes) == 2:
            belongs = labels[:, None] == 1
        else:
            belongs = labels[:, None] == like(np.arange(len(classes)), labels)
        targets = 2.0 * wide(belongs) - 1.0
        weight = sample_weight * like(weight_of_class, sample_weight)[labels]
        return Problem(X, targets, weight, labels, 1.0, CLASSIFIER_LOSSES[self.loss])

    def decision_function(self, X):
        """Scores f(x): positive for ``classes_[1]``, or one column a class.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (m, n_features)

        Returns
        -------
        scores : array of shape (m,) for two classes, (m, n_classes) for more
        """
        return give_back(self._decisions(X), X)

    def _decisions(self, X):
        values = self._scores(X)
        return values[:, 0] if values.shape[1] == 1 else values

    def predict(self, X):
        """The class with the largest score.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (m, n_features)

        Returns
        -------
        labels : array of shape (m,)
        """
        values = self._decisions(X)
        positions = cast(values > 0.0, np.int64) if values.ndim == 1 else values.argmax(axis=1)
        if is_tensor(positions) and is_foreign(X) and self.classes_.dtype.kind in "biuf":
            return give_back(like(self.classes_, positions, self.classes_.dtype)[positions], X)
        return give_back(self.classes_[to_numpy(positions)], X)

    def _labels(self, values: np.ndarray) -> np.ndarray:
        """The classes that decision values stand for."""
        if values.ndim == 1:
            return self.classes_[(values > 0.0).astype(int)]
        return self.classes_[values.argmax(axis=1)]

    @available_if(lambda self: _needs_log_loss(self))
    def predict_proba(self, X):
        """Class probabilities, for ``loss="log_loss"``.

        For several classes the probabilities of each against the rest are divided by their
        sum; the most probable class is always the one that ``predict`` returns.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (m, n_features)

        Returns
        -------
        probabilities : array of shape (m, n_classes)
        """
        return give_back(self._probabilities(self._decisions(X)), X)

    def _probabilities(self, values):
        """The probabilities that decision values stand for."""
        logs = _log_probabilities(values)
        return namespace(logs).exp(logs)

    @available_if(lambda self: _needs_log_loss(self))
    def predict_log_proba(self, X):
        """Logarithms of the class probabilities, for ``loss="log_loss"``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (m, n_features)

        Returns
        -------
        log_probabilities : array of shape (m, n_classes)
        """
        return give_back(_log_probabilities(self._decisions(X)), X)

    def score(self, X, y, sample_weight=None):
        """Accuracy of ``predict``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (m, n_features)
        y : array-like of shape (m,)
        sample_weight : array-like of shape (m,), optional

        Returns
        -------
        accuracy : float
        """
        from sklearn.metrics import accuracy_score  # slow to import

        predicted = as_numpy(self.predict(X))
        return accuracy_score(as_numpy(y), predicted, sample_weight=as_numpy(sample_weight))


def _log_probabilities(values):
    """log sigmoid of the log-odds; of several classes, divided by their sum."""
    xp = namespace(values)
    if values.ndim == 1:
        return -softplus(xp.stack([values, -values], axis=1))
    logs = -softplus(-values)
    largest = logs[xp.arange(len(logs)), logs.argmax(axis=1)][:, None]
    return logs - largest - xp.log(xp.exp(logs - largest).sum(axis=1)[:, None])


def _needs_log_loss(estimator) -> bool:
    if estimator.loss != "log_loss":
        raise AttributeError(
            f'predict_proba needs loss="log_loss"; this classifier has loss={estimator.loss!r}.'
        )
    return True


def _class_weights(class_weight, classes, totals: np.ndarray) -> np.ndarray:
    """The weight of each class; ``"balanced"`` looks at the ``totals`` of the rows' weights."""
    if class_weight == "balanced":
        present = totals > 0.0
        balanced = totals.sum() / (np.count_nonzero(present) * np.where(present, totals, 1.0))
        return np.where(present, balanced, 0.0)
    if isinstance(class_weight, dict):
        unknown = [label for label in class_weight if label not in classes]
        if unknown:
            raise ValueError(
                f"class_weight names {unknown[0]!r}, which is not a class of y. "
                f"The classes are {classes[:10].tolist()}{' ...' if len(classes) > 10 else ''}."
            )
    given = class_weight or {}
    return np.array([given.get(label, 1.0) for label in classes.tolist()], dtype=np.float64)


class LASNRegressor(RegressorMixin, _LASN):
    """Kernel support vector regression with the squared epsilon-insensitive loss.

    Minimises 1/2 |w|^2 + C sum_i s_i max(0, |<w, x~_i> - y_i| - epsilon)^2 over the features of
    :class:`LASNClassifier`. Several targets share one feature map.

    Parameters
    ----------
    n_landmarks : int or "auto", default="auto"
        Number of landmarks k. ``"auto"`` is the square root of the number of rows, at least 100.
    C : float, default=10.0
        Weight of the losses against the regularisation.
    epsilon : float, default=0.1
        Half of the width of the tube in which errors cost nothing, in units of y.
    kernel : {"rbf", "polynomial", "tanh", "laplacian", "linear"} or callable, default="rbf"
    gamma : float or {"variance", "scale", "auto"}, default="variance"
    degree : float, default=3
    coef0 : float, default=1.0
    landmarks : {"boundary", "kmeans", "class_kmeans", "uniform"} or array, default="boundary"
        Bins of the target take the place of classes; the boundary is the tube's.
    tol : float, default=1e-3
    max_iter : int, default=50
    random_state : int, RandomState instance or None, default=None
    solver : {"auto", "newton", "newton-cg", "exact"}, default="auto"
    memory_limit : int, str or None, default=None
    device : {"cpu", "cuda", "cuda:N", "mps", "torch"}, default="cpu"
        ``"cpu"`` is NumPy. The others need torch (``pip install 'lasn[gpu]'``): a GPU, or torch on
        the CPU. Tensors that are on the device already stay there; predictions come back as the
        rows came. A callable kernel gets tensors.
    dtype : {"auto", "float32", "float64"}, default="auto"
    warm_start : bool, default=False
    verbose : int, default=0
    eigenvalue_cutoff : "auto" or float, default="auto"

    Attributes
    ----------
    landmarks_, n_landmarks_, mapping_, gamma_, n_iter_, history_, stage_seconds_ :
        As for :class:`LASNClassifier`.
    coef_ : array of shape (q,) or (n_targets, q)
    dual_coef_ : array of shape (k,) or (n_targets, k)
    intercept_ : float or array of shape (n_targets,)
    n_features_in_ : int
    feature_names_in_ : array of shape (n_features,)

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.preprocessing import scale
    >>> from lasn import LASNRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = LASNRegressor(C=1.0, random_state=0).fit(scale(X), scale(y))
    >>> model.score(scale(X), scale(y)) > 0.5
    True
    """

    def __init__(
        self,
        n_landmarks="auto",
        C=10.0,
        epsilon=0.1,
        kernel="rbf",
        gamma="variance",
        degree=3,
        coef0=1.0,
        landmarks="boundary",
        tol=1e-3,
        max_iter=50,
        random_state=None,
        solver="auto",
        memory_limit=None,
        device="cpu",
        dtype="auto",
        warm_start=False,
        verbose=0,
        eigenvalue_cutoff="auto",
    ):
        self.n_landmarks = n_landmarks
        self.C = C
        self.epsilon = epsilon
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.landmarks = landmarks
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.solver = solver
        self.memory_limit = memory_limit
        self.device = device
        self.dtype = dtype
        self.warm_start = warm_start
        self.verbose = verbose
        self.eigenvalue_cutoff = eigenvalue_cutoff

    @with_callbacks
    def fit(self, X, y, sample_weight=None):
        """Fit the regressor.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features)
        y : array-like of shape (n,) or (n, n_targets)
        sample_weight : array-like of shape (n,), optional

        Returns
        -------
        self
        """
        problem, y = self._problem(X, y, sample_weight)
        return self._fit(problem, y, single=y.ndim == 1)

    def _problem(self, X, y, sample_weight) -> tuple[Problem, np.ndarray]:
        """What is to be fitted, with C = 1, and the targets as an array."""
        X, y, sample_weight = self._validate(X, y, sample_weight, multi_output=True, y_numeric=True)
        return self._problem_again(X, y, sample_weight), y

    def _problem_again(self, X, y, sample_weight) -> Problem:
        targets = wide(y).reshape(len(y), -1)
        loss = SquaredEpsilonInsensitive(float(self.epsilon))
        return Problem(X, targets, sample_weight, target_bins(targets), 1.0, loss)

    def predict(self, X):
        """Predicted targets.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (m, n_features)

        Returns
        -------
        y : array of shape (m,) or (m, n_targets)
        """
        return give_back(self._scores(X), X)

    def score(self, X, y, sample_weight=None):
        """The coefficient of determination, R^2, of ``predict``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (m, n_features)
        y : array-like of shape (m,) or (m, n_targets)
        sample_weight : array-like of shape (m,), optional

        Returns
        -------
        r2 : float
        """
        from sklearn.metrics import r2_score  # slow to import

        predicted = as_numpy(self.predict(X))
        return r2_score(as_numpy(y), predicted, sample_weight=as_numpy(sample_weight))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags

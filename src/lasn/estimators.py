"""LASNClassifier and LASNRegressor: scikit-learn's manners around Algorithm 2.

An estimator encodes targets and turns scores into predictions; what they share, from validation to
fitted attributes, is in ``machine.py``. The maths is elsewhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

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
from lasn.callbacks import with_callbacks
from lasn.chunked_problem import ChunkedProblem, classification_problem, regression_problem
from lasn.devices import as_numpy, give_back, is_foreign
from lasn.elsewhere import FoundRows, ScoreSums, anywhere, score_elsewhere
from lasn.landmarks import target_bins
from lasn.losses import CLASSIFIER_LOSSES, SquaredEpsilonInsensitive
from lasn.machine import KernelMachine
from lasn.problem import Problem
from lasn.targets import class_weights


class LASNClassifier(ClassifierMixin, KernelMachine):
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
        ``coef_`` equal to ``dual_coef_``. It runs on every ``device``; a GPU takes it to several
        times as many rows.
    memory_limit : int, str or None, default=None
        Bytes, or text such as ``"2GB"``, that the process should stay under, data included.
        Features, or kernel values of ``solver="exact"``, that do not fit are computed again when
        needed. None: half of the machine. For a CUDA device it is the GPU's memory, and None all
        that is free.
    device : {"cpu", "cuda", "cuda:N", "mps", "torch"}, default="cpu"
        ``"cpu"`` is NumPy. The others need torch (``pip install 'lasn[gpu]'``): a GPU, or torch on
        the CPU. Tensors that are on the device already stay there; predictions come back as the
        rows came. A callable kernel gets tensors.
    dtype : {"auto", "float32", "float64"}, default="auto"
        Of the features. ``"auto"`` is float64 for up to 4 million of them (rows times landmarks;
        a quarter of a million, a million on a device, where rows are float32 and ``tol`` is 1e-5
        or more) and float32 for more; sums and coefficients are float64 always.
    warm_start : bool, default=False
        Start from the last fit, with its landmarks.
    verbose : int, default=0
        1: a progress bar, if standard error is a terminal. 2: keep its lines.
    eigenvalue_cutoff : "auto" or float, default="auto"
        Directions of the kernel among landmarks with eigenvalues up to this are dropped.
        ``"auto"`` follows ``dtype``; the paper's is 1e-6.
    refine : int, float or None, default=None
        Go on from Nystroem towards exact: add landmarks at the rows that violate the exact
        problem most, in rounds, until there are so many (a whole number) or until the relative
        gap to the exact optimum is proved to be so small (a number between 0 and 1). Each round
        costs all pairs of active rows, as :func:`lasn.certify` does. See ``refine_curve_``.
    checkpoint : str, path or None, default=None
        A model file to write after each Newton iteration, whole or not at all, for when this
        process ends before the fit does.
    resume : bool, default=False
        Go on from ``checkpoint``, if that file exists: its landmarks and coefficients are where
        the fit starts, so it ends at the same minimum.

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
        products, and rows: how many took part, equal ones counted once where they are many. With
        many rows, those near the boundary are solved first and the last record, if its
        step_length is 0, only confirms the answer over all of them. ``solver="exact"`` has gap
        and relative_gap, P - D over the rows that took part, instead of gradients; the last of a
        fit that converged is that of the whole problem.
    stage_seconds_ : dict
        Seconds of each stage of the fit: ``"landmarks"``, ``"map"`` and ``"solve"``; of
        ``solver="exact"``, ``"nystroem"`` (where it begins) and ``"solve"``; with ``refine``,
        ``"certificate"`` too.
    refine_curve_ : list of dict
        With ``refine``, one record a round: n_landmarks, upper_bound (the objective) and
        exact_lower_bound of the exact optimum, relative_exact_gap, active_rows, training_score
        and seconds so far. Otherwise empty.
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
        refine=None,
        checkpoint=None,
        resume=False,
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
        self.refine = refine
        self.checkpoint = checkpoint
        self.resume = resume

    @with_callbacks
    def fit(self, X, y=None, sample_weight=None):
        """Fit the classifier.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features), path, iterable or Dask collection
            The path of a file or of a folder of Parquet files, or an iterable of (X, y) batches,
            may be larger than memory (see ``memory_limit``); Dask's are fitted on their cluster.
        y : array-like of shape (n,), path, name of a column, or None
            Class labels of any type; None where X holds them.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows, zero or more. Weight 0 is a row left out, weight 2 a row twice.

        Returns
        -------
        self
        """
        problem, y = self._given(X, y, sample_weight)
        return self._fit(problem, y, single=False)

    def _problem(self, found: FoundRows) -> tuple[Problem | ChunkedProblem, Any]:
        """What is to be fitted, with C = 1, and the labels as an array; sets ``classes_``."""
        if found.chunks is not None:
            return self._chunked(found), None
        X, y, sample_weight = self._validate(found.X, found.y, found.sample_weight)
        self._take_names(found)
        check_classification_targets(y if not is_tensor(y) else to_numpy(y[:1000]))
        classes, labels = unique_inverse(y)
        if is_tensor(X) and not is_tensor(labels):
            labels = like(labels, X, np.int64)
        self._check_classes(to_numpy(bincount(labels, sample_weight, len(classes))), len(y))
        self.classes_ = classes
        return self._encoded(X, labels, sample_weight), y

    def _check_classes(self, totals: np.ndarray, n_rows: int) -> None:
        """There must be rows of two classes whose weights are not zero."""
        n_present = np.count_nonzero(totals > 0.0)
        if n_present < 2:
            raise ValueError(
                f"{type(self).__name__} needs rows of at least two classes; y has {len(totals)} "
                f"class (of {n_rows} rows), {n_present} with a positive sample_weight."
            )

    def _chunked(self, found: FoundRows) -> ChunkedProblem:
        """The problem of rows that live elsewhere, with C = 1; sets ``classes_``."""
        assert found.chunks is not None
        seen = self._survey(found, with_labels=True)
        check_classification_targets(seen.classes)
        self._check_classes(seen.weight_of_class, int(seen.n_rows_of_chunk.sum()))
        self.classes_ = seen.classes
        weights = class_weights(self.class_weight, seen.classes, seen.weight_of_class)
        return classification_problem(found.chunks, seen, weights, CLASSIFIER_LOSSES[self.loss])

    def _problem_again(self, X, y, sample_weight) -> Problem:
        return self._encoded(X, np.searchsorted(self.classes_, y), sample_weight)

    def _encoded(self, X, labels, sample_weight) -> Problem:
        """The problem of rows whose labels are places in ``classes_``, with C = 1."""
        classes = self.classes_
        totals = to_numpy(bincount(labels, sample_weight, len(classes)))
        weight_of_class = class_weights(self.class_weight, classes, totals)
        if len(classes) == 2:
            belongs = labels[:, None] == 1
        else:
            belongs = labels[:, None] == like(np.arange(len(classes)), labels)
        targets = 2.0 * wide(belongs) - 1.0
        weight = sample_weight * like(weight_of_class, sample_weight)[labels]
        return Problem(X, targets, weight, labels, 1.0, CLASSIFIER_LOSSES[self.loss])

    @anywhere
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

    @anywhere
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

    def _score_of(self, scores: np.ndarray, y, sample_weight) -> float:
        """The accuracy of scores of shape (n, c)."""
        from sklearn.metrics import accuracy_score  # slow to import

        labels = self._labels(scores[:, 0] if scores.shape[1] == 1 else scores)
        return float(accuracy_score(y, labels, sample_weight=sample_weight))

    def _labels(self, values: np.ndarray) -> np.ndarray:
        """The classes that decision values stand for."""
        if values.ndim == 1:
            return self.classes_[(values > 0.0).astype(int)]
        return self.classes_[values.argmax(axis=1)]

    @available_if(lambda self: _needs_log_loss(self))
    @anywhere
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
    @anywhere
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

    def score(self, X, y=None, sample_weight=None):
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

        elsewhere = score_elsewhere(self, X, y, sample_weight, ScoreSums.of_labels)
        if elsewhere is not None:
            return elsewhere
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


def is_single(problem, y) -> bool:
    """Whether targets came without an axis of their own."""
    if isinstance(problem, ChunkedProblem):
        return len(problem.survey.target_shape) == 0
    return y.ndim == 1


class LASNRegressor(RegressorMixin, KernelMachine):
    """Kernel support vector regression with the squared epsilon-insensitive loss.

    Minimises::

        1/2 |w|^2 + C sum_i s_i max(0, |<w, x~_i> - y_i| - epsilon)^2

    over the features of :class:`LASNClassifier`. Several targets share one feature map.

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
    refine : int, float or None, default=None
    checkpoint : str, path or None, default=None
    resume : bool, default=False

    Attributes
    ----------
    landmarks_, n_landmarks_, mapping_, gamma_, n_iter_, history_, stage_seconds_, refine_curve_ :
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
        refine=None,
        checkpoint=None,
        resume=False,
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
        self.refine = refine
        self.checkpoint = checkpoint
        self.resume = resume

    @with_callbacks
    def fit(self, X, y=None, sample_weight=None):
        """Fit the regressor.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features), path, iterable or Dask collection
            As for :class:`LASNClassifier`.
        y : array-like of shape (n,) or (n, n_targets), path, name of a column, or None
        sample_weight : array-like of shape (n,), optional

        Returns
        -------
        self
        """
        problem, y = self._given(X, y, sample_weight)
        return self._fit(problem, y, single=is_single(problem, y))

    def _problem(self, found: FoundRows) -> tuple[Problem | ChunkedProblem, Any]:
        """What is to be fitted, with C = 1, and the targets as an array."""
        if found.chunks is not None:
            loss = SquaredEpsilonInsensitive(float(self.epsilon))
            return regression_problem(found.chunks, self._survey(found, False), loss), None
        X, y, sample_weight = self._validate(
            found.X, found.y, found.sample_weight, multi_output=True, y_numeric=True
        )
        self._take_names(found)
        return self._problem_again(X, y, sample_weight), y

    def _problem_again(self, X, y, sample_weight) -> Problem:
        targets = wide(y).reshape(len(y), -1)
        loss = SquaredEpsilonInsensitive(float(self.epsilon))
        return Problem(X, targets, sample_weight, target_bins(targets), 1.0, loss)

    def _score_of(self, scores: np.ndarray, y, sample_weight) -> float:
        """R^2 of scores of shape (n, c)."""
        from sklearn.metrics import r2_score  # slow to import

        return float(r2_score(y, scores.reshape(y.shape), sample_weight=sample_weight))

    @anywhere
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

    def score(self, X, y=None, sample_weight=None):
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

        elsewhere = score_elsewhere(self, X, y, sample_weight, ScoreSums.of_targets)
        if elsewhere is not None:
            return elsewhere
        predicted = as_numpy(self.predict(X))
        return r2_score(as_numpy(y), predicted, sample_weight=as_numpy(sample_weight))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags

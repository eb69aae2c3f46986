"""Algorithm 2, steps 2 to 4: from landmarks to features, and the exact maps that theorems use.

::

    K_ll = V diag(lambda) V^T           spectral decomposition, small lambda dropped
    M    = V diag(lambda)^(-1/2)        the mapping matrix, shape (k, q)
    F    = K_rl M                       eq. (fkn): F F^T is the Nystroem approximation of K

M is any matrix with M M^T = K_ll^+; the model depends on M only through that product. Where k is
large, M = R^-T from the Cholesky factorisation R R^T = K_ll + s I is taken instead: much cheaper,
and the shift s is below what the features' floating point numbers can tell. Of directions that
other landmarks have already, only the shift is left: their columns are zero.

``exact_map`` (Theorem 1) and ``best_rank_k_map`` (eq. (fk)) need the whole kernel matrix. They are
here because the theorems are tested with them, and as the yardstick of the error analysis.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import LinAlgError, eigh
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from lasn.arrays import is_tensor, like, numpy_dtype, to_numpy
from lasn.devices import Place, as_numpy, give_back, resolve_device
from lasn.factors import inverse_cholesky
from lasn.gamma import resolve_gamma
from lasn.kernels import Kernel
from lasn.landmarks import check_landmarks, choose_landmarks, count_landmarks
from lasn.memory import with_less_memory
from lasn.parameters import check_parameters, landmarks_rule
from lasn.targets import validate_rows
from lasn.triangles import inverse_factor

# The absolute cut of the paper, for ``eigenvalue_cutoff``.
PAPER_CUTOFF = 1e-6
# Smallest eigenvalues that are kept, relative to the largest: a direction is divided by the root of
# its eigenvalue, and rounding in it grows as much.
_SMALLEST_EIGENVALUE = {np.dtype(np.float32): 1e-7, np.dtype(np.float64): 1e-10}
# The shift of a Cholesky factor, relative to the largest eigenvalue. It only dampens directions,
# and float32 features bear more than their own rounding where w is small.
_CHOLESKY_SHIFT = {np.dtype(np.float32): 1e-9, np.dtype(np.float64): 1e-11}
# Of a landmark that is there twice, or is a combination of others, no more is left than this many
# shifts, and next to nothing of it is not rounding of the features.
_NOTHING_LEFT = 2.001
# K_ll is looked at so many rows at a time.
_ROWS_AT_A_TIME = 128
# From this many landmarks on, a Cholesky factor is worth its shift, and the directions that it
# keeps where a spectrum would be cut.
_CHOLESKY_FROM = {np.dtype(np.float32): 128, np.dtype(np.float64): 512}


def mapping_matrix(K_ll: Any, *, cutoff="auto", dtype=np.float64) -> Any:
    """M with M M^T = K_ll^+, shape (k, q), q the rank that is left, in the place where K_ll is.

    Parameters
    ----------
    K_ll : array or tensor of shape (k, k)
        Kernel among the landmarks, in float64.
    cutoff : "auto" or float
        Eigenvalues not above it are dropped: duplicate landmarks, negative eigenvalues of kernels
        that are not positive semidefinite, and rounding. ``"auto"`` is relative to the largest
        eigenvalue and to what ``dtype`` can tell; the paper's is 1e-6, absolute.
    dtype : dtype of the features that M will make

    Examples
    --------
    >>> import numpy as np
    >>> from lasn.features import mapping_matrix
    >>> K = np.array([[2.0, 2.0], [2.0, 2.0]])  # a landmark and its double
    >>> M = mapping_matrix(K)
    >>> M.shape, np.allclose(K @ M @ M.T @ K, K)
    ((2, 1), True)
    """
    if _may_be_shifted(len(K_ll), cutoff, dtype):
        try:
            return _by_cholesky(K_ll, _shift(K_ll, dtype), dtype)[0]
        except LinAlgError:
            pass  # not positive semidefinite: its spectrum must be cut
    return _by_spectrum(K_ll, cutoff, dtype)


def mapping_among(kernel: Kernel, landmarks: Any, *, cutoff="auto", dtype=np.float64) -> Any:
    """The same for the kernel among these landmarks, mostly in the memory of its values."""
    K_ll = kernel(landmarks, landmarks)
    if _may_be_shifted(len(K_ll), cutoff, dtype):
        try:
            return _by_cholesky(K_ll, _shift(K_ll, dtype), dtype, own=True)[0]
        except LinAlgError:
            K_ll = kernel(landmarks, landmarks)
    return _by_spectrum(K_ll, cutoff, dtype)


def mapping_and_features(K_ll: np.ndarray, *, cutoff="auto", dtype=np.float64):
    """M, and the features of the landmarks themselves: K_ll M, shape (k, q)."""
    if _may_be_shifted(len(K_ll), cutoff, dtype):
        try:
            return _by_cholesky(K_ll, _shift(K_ll, dtype), dtype, with_features=True)
        except LinAlgError:
            pass
    M = _by_spectrum(K_ll, cutoff, dtype)
    return M, (K_ll @ M).astype(dtype, copy=False)


def _by_spectrum(K_ll: Any, cutoff, dtype) -> Any:
    """V diag(lambda)^(-1/2) of the eigenvalues that are not cut."""
    values, vectors = eigh(to_numpy(K_ll), check_finite=False)
    cutoff = _resolve_cutoff(cutoff, values[-1], dtype)
    kept = values > cutoff
    if not kept.any():
        raise ValueError(
            f"No eigenvalue of the kernel among the {len(K_ll)} landmarks is above "
            f"{cutoff:.3g} (the largest is {values[-1]:.3g}), so there are no features. Choose "
            "other kernel parameters (coef0, gamma), or another kernel."
        )
    # An eigenvector may come with either sign; which one would depend on the last digit of K_ll.
    largest = np.abs(vectors).argmax(axis=0)
    vectors = vectors * np.sign(vectors[largest, np.arange(len(values))])
    # Largest eigenvalue first, as in the paper.
    M = np.ascontiguousarray((vectors[:, kept] / np.sqrt(values[kept]))[:, ::-1], dtype=dtype)
    return like(M, K_ll, dtype)


def _by_cholesky(
    K_ll: Any, shift: float, dtype, with_features: bool = False, own: bool = False
) -> tuple[Any, Any]:
    """R^-T with R R^T = K_ll + shift I, and R, which is K_ll R^-T but for the shift.

    R is None where it is not wanted, and on a device. Columns of directions that the landmarks
    before them have already are zero in both. A K_ll that is ``own`` may become R.
    """
    R: Any = None
    if is_tensor(K_ll):
        M: Any = inverse_cholesky(K_ll, shift).T.contiguous()
    else:
        copied = np.ascontiguousarray if own else np.array
        R = copied(K_ll, dtype=np.float64)
        R.reshape(-1)[:: len(K_ll) + 1] += shift
        M = inverse_factor(R)
        R = np.tril(R).astype(dtype, copy=False) if with_features else None
    (lost,) = np.nonzero(to_numpy(M.diagonal()) ** -2.0 <= _NOTHING_LEFT * shift)
    for directions in (M,) if R is None else (M, R):
        directions[:, lost] = 0.0
    return (like(M, K_ll, dtype) if is_tensor(K_ll) else M.astype(dtype, copy=False)), R


def eigenvalue_cut(
    K_ll: np.ndarray, largest: float, *, cutoff, dtype, whole: bool
) -> tuple[float, bool]:
    """What :func:`mapping_matrix` cuts, or adds to the diagonal; and whether it is the latter.

    ``largest`` is the largest eigenvalue of K_ll; ``whole``: no direction was dropped.
    """
    if whole and _may_be_shifted(len(K_ll), cutoff, dtype):
        return _shift(K_ll, dtype), True
    return _resolve_cutoff(cutoff, largest, dtype), False


def _may_be_shifted(k: int, cutoff, dtype) -> bool:
    return cutoff == "auto" and k >= _CHOLESKY_FROM[np.dtype(dtype)]


def _shift(K_ll: Any, dtype) -> float:
    # Sums of absolute values bound the largest eigenvalue; of all rows at once they would need as
    # much memory again.
    size = len(K_ll) if is_tensor(K_ll) else _ROWS_AT_A_TIME
    rows = (K_ll[start : start + size] for start in range(0, len(K_ll), size))
    largest = max(float(abs(part).sum(axis=1).max()) for part in rows)
    # The more landmarks, the more directions that rounded products cannot tell from zero.
    return _CHOLESKY_SHIFT[np.dtype(dtype)] * max(1.0, len(K_ll) / 1024) ** 2 * largest


def _resolve_cutoff(cutoff, largest: float, dtype) -> float:
    if cutoff == "auto":
        return _SMALLEST_EIGENVALUE[np.dtype(dtype)] * max(float(largest), 0.0)
    return float(cutoff)


def exact_map(kernel: Kernel, X_train, X_test) -> tuple[np.ndarray, np.ndarray]:
    """Theorem 1's F_r and F_e: the spectral factor of K over training and test rows together.

    [F_r; F_e] [F_r; F_e]^T = K exactly, so the linear SVM on F_r is the kernel SVM on X_train.
    Costs O((n + m)^3) operations: for theorems and small n.
    """
    stack = sp.vstack if sp.issparse(X_train) else np.vstack
    rows = stack([X_train, X_test])
    F = spectral_factor(kernel(rows, rows))
    return F[: X_train.shape[0]], F[X_train.shape[0] :]


def best_rank_k_map(K: np.ndarray, k: int) -> np.ndarray:
    """F^(k) = U^(k) (Lambda^(k))^(1/2), eq. (fk): the best approximation of K by rank k."""
    return spectral_factor(K)[:, :k]


def spectral_factor(K: np.ndarray) -> np.ndarray:
    """F with F F^T = K for positive semidefinite K, columns by falling eigenvalue."""
    values, vectors = eigh(K, check_finite=False)
    return (vectors * np.sqrt(np.maximum(values, 0.0)))[:, ::-1]


class NystroemMap(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """The Nystroem feature map alone: rows x to features x~ with <x~, y~> close to k(x, y).

    ``transform`` returns K(X, L) M for landmarks L and the mapping matrix M of Algorithm 2.
    For use in pipelines with any linear model; the estimators of this package do the same inside.

    Parameters
    ----------
    n_landmarks : int or "auto", default="auto"
        Number of landmarks k. ``"auto"`` is the square root of the number of rows, at least 100.
    kernel : {"rbf", "polynomial", "tanh", "laplacian", "linear"} or callable, default="rbf"
    gamma : float or {"variance", "scale", "auto"}, default="variance"
        ``"variance"`` is the paper's rule, 1 / tr Cov(X).
    degree : float, default=3
        Of the polynomial kernel.
    coef0 : float, default=1.0
        Of the polynomial and tanh kernels.
    landmarks : {"kmeans", "class_kmeans", "uniform"} or array of shape (k, p), default="kmeans"
        How landmarks are chosen. ``"class_kmeans"`` shares them among the classes of y.
    eigenvalue_cutoff : "auto" or float, default="auto"
        Directions with eigenvalues up to this are dropped; 1e-6 is the paper's.
    random_state : int, RandomState instance or None, default=None
    device : {"cpu", "cuda", "cuda:N", "mps", "torch"}, default="cpu"
        Where to compute, as for :class:`LASNClassifier`. Features come back as the rows came:
        tensors on their device for tensors.

    Attributes
    ----------
    landmarks_ : array or CSR matrix of shape (k, p)
    mapping_ : array of shape (k, q)
        M.
    n_landmarks_ : int
    gamma_ : float
    n_features_in_ : int
    feature_names_in_ : array of shape (p,)

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import RidgeClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from lasn import NystroemMap
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> features = NystroemMap(n_landmarks=50, random_state=0)
    >>> model = make_pipeline(StandardScaler(), features, RidgeClassifier()).fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    """

    def __init__(
        self,
        n_landmarks="auto",
        *,
        kernel="rbf",
        gamma="variance",
        degree=3,
        coef0=1.0,
        landmarks="kmeans",
        eigenvalue_cutoff="auto",
        random_state=None,
        device="cpu",
    ):
        self.n_landmarks = n_landmarks
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.landmarks = landmarks
        self.eigenvalue_cutoff = eigenvalue_cutoff
        self.random_state = random_state
        self.device = device

    def fit(self, X, y=None):
        """Choose landmarks and compute the mapping matrix.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, p)
        y : array-like of shape (n,), optional
            Class labels, used by ``landmarks="class_kmeans"`` only.

        Returns
        -------
        self
        """
        # Landmarks near the boundary need a classifier to find it.
        check_parameters(self, landmarks=landmarks_rule("kmeans", "class_kmeans", "uniform"))
        place = Place(resolve_device(self.device))
        X = validate_rows(self, X, place.device, reset=True)
        groups = None if y is None else np.unique(np.asarray(as_numpy(y)), return_inverse=True)[1]
        return with_less_memory(lambda: self._fit_rows(X, groups, place), place)

    def _fit_rows(self, X, groups, place: Place):
        rows = place.rows(X, None)
        self.gamma_ = resolve_gamma(self.gamma, X if sp.issparse(X) else rows)
        if isinstance(self.landmarks, str):
            self.landmarks_ = choose_landmarks(
                self.landmarks,
                rows,
                count_landmarks(self.n_landmarks, X.shape[0]),
                groups=groups,
                rng=check_random_state(self.random_state),
            )
        else:
            self.landmarks_ = check_landmarks(self.landmarks, rows)
        self.n_landmarks_ = self.landmarks_.shape[0]
        landmarks = place.landmarks(self.landmarks_)
        K_ll = self._fitted_kernel()(landmarks, landmarks)
        dtype = numpy_dtype(rows.dtype)
        self.mapping_ = to_numpy(mapping_matrix(K_ll, cutoff=self.eigenvalue_cutoff, dtype=dtype))
        self._n_features_out = self.mapping_.shape[1]
        return self

    def transform(self, X):
        """The features K(X, L) M.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, p)

        Returns
        -------
        F : array of shape (n, q)
            float32 for float32 rows, float64 otherwise.
        """
        check_is_fitted(self)
        place = Place(resolve_device(self.device))
        given = validate_rows(self, X, place.device, reset=False)

        def attempt() -> Any:
            rows = place.rows(given, None)
            landmarks = place.landmarks(self.landmarks_)
            columns = self._fitted_kernel().against(landmarks, numpy_dtype(rows.dtype))
            return columns.times(rows, self.mapping_)

        return give_back(with_less_memory(attempt, place), X)

    def _fitted_kernel(self) -> Kernel:
        return Kernel(self.kernel, gamma=self.gamma_, degree=self.degree, coef0=self.coef0)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

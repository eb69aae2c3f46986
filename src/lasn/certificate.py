"""Certificates: how far a model is from the best one, and from the exact kernel SVM, with proof.

A model f = sum_j beta_j k(l_j, .) + b is a feasible point of two problems: the *reduced* one, over
the features of its landmarks, and the *exact* one, over all functions of the kernel's space. With
P and D of ``duality.py``::

    reduced optimum  in  [lower_bound, upper_bound]             D with K~ = F~ F~^T
    exact optimum    in  [exact_lower_bound, upper_bound]       D with K itself
    |f - f*|       <=  (2 exact_gap)^(1/2)                      P is strongly convex
    |f(x) - f*(x)| <=  (2 exact_gap (k(x, x) + 1))^(1/2)        and 1 more for the bias

The bounds are computed in ``enclosure.py``; what follows for labels, in ``agreement.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from lasn.agreement import Neighbourhood
from lasn.bounds import SMALL, KernelError, Theorem2, kernel_error, theorem_2
from lasn.enclosure import Dual, Primal
from lasn.losses import SquaredHinge
from lasn.model import Model
from lasn.problem import Problem
from lasn.progress import Bar
from lasn.threads import serial_products


@dataclass(frozen=True)
class Certificate(Mapping):
    """What :func:`lasn.certify` proves; a mapping from the names below to their values.

    For several classes or targets the bounds are sums over them, and ``problems`` has the parts.

    Attributes
    ----------
    upper_bound : float
        The model's objective value: no optimum is above it.
    lower_bound : float
        The optimum of the reduced problem (same landmarks) is not below it.
    exact_lower_bound : float
        The exact kernel machine's optimum is not below it (minus infinity for a kernel that is not
        positive semidefinite: there is no such optimum then).
    gap, exact_gap : float
        ``upper_bound`` less these.
    relative_gap, relative_exact_gap : float
        The gaps over ``upper_bound``.
    function_distance : float
        Bounds ``|f - f*|`` in the kernel's space (bias included), ``f*`` the exact machine.
    score_distance : float
        Bounds ``|f(x) - f*(x)|`` over the given rows and all classes.
    guaranteed_share : float or None
        Part of the given rows whose predicted label is proved to be the exact machine's; None for
        regression.
    agreement_share : float or None
        At least this part of the rows has the label of the exact machine, though it is not known
        which: labels that differ cost the gap something, each of them. Never less than
        ``guaranteed_share``, and large long before that is.
    guaranteed : array of bool, shape (n,), or None
        Which rows these are.
    active_rows : int
        Rows with a positive multiplier, in any class.
    n_rows : int
    problems : list of dict
        The bounds of each class against the rest (or target).
    kernel_error : KernelError or None
        ``|K - K~|``; None without landmarks, and where it was not asked for.
    theorem_2 : Theorem2 or None
        Both sides of the paper's bound, for two classes and few rows without weights.

    Examples
    --------
    >>> import lasn
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = lasn.LASNClassifier(20, random_state=0).fit(X, y)
    >>> certificate = lasn.certify(model, X, y)
    >>> certificate.gap == certificate["gap"] == certificate.upper_bound - certificate.lower_bound
    True
    >>> len(certificate.problems), certificate.guaranteed.shape
    (3, (150,))
    """

    upper_bound: float
    lower_bound: float
    exact_lower_bound: float
    gap: float
    exact_gap: float
    relative_gap: float
    relative_exact_gap: float
    function_distance: float
    score_distance: float
    guaranteed_share: float | None
    agreement_share: float | None
    guaranteed: np.ndarray | None
    active_rows: int
    n_rows: int
    problems: list[dict[str, float]]
    kernel_error: KernelError | None
    theorem_2: Theorem2 | None

    def __getitem__(self, name: str) -> Any:
        if name not in self._names():
            raise KeyError(name)
        return getattr(self, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    @classmethod
    def _names(cls) -> list[str]:
        return [field.name for field in fields(cls)]

    def as_dict(self) -> dict[str, Any]:
        """Numbers, lists and dictionaries only, ready for JSON."""
        plain = asdict(self)
        plain["guaranteed"] = None if self.guaranteed is None else self.guaranteed.tolist()
        return plain

    def summary(self) -> str:
        """The certificate in words."""
        lines = [
            f"rows                      {self.n_rows}, {self.active_rows} active",
            f"objective of the model    {self.upper_bound:.7g}",
            f"best with its landmarks   at least {self.lower_bound:.7g}"
            f"  (gap {100.0 * self.relative_gap:.2g} %)",
            f"best of the exact machine at least {self.exact_lower_bound:.7g}"
            f"  (gap {100.0 * self.relative_exact_gap:.2g} %)",
            f"|f - f*|                  at most {self.function_distance:.4g}",
            f"|f(x) - f*(x)|            at most {self.score_distance:.4g} on these rows",
        ]
        if self.guaranteed_share is not None and self.agreement_share is not None:
            lines.append(
                f"labels                    {100.0 * self.agreement_share:.4g} % at least are the "
                f"exact machine's, {100.0 * self.guaranteed_share:.4g} % known by row"
            )
        if self.kernel_error is not None:
            error = self.kernel_error
            frobenius = _with_interval(error.frobenius, error.frobenius_interval)
            if error.confidence < 1.0:
                frobenius += f", {100.0 * error.confidence:g} % confidence, {error.rows} rows drawn"
            spectral = _with_interval(error.spectral, error.spectral_interval)
            lines.append(f"|K - K~| Frobenius        {frobenius}")
            lines.append(f"|K - K~| spectral         {spectral}")
        if self.theorem_2 is not None:
            both = self.theorem_2
            lines.append(
                f"Theorem 2, |w - w~|       {both.distance:.4g}; bound {both.repaired:.4g} "
                f"(as printed {both.printed:.4g})"
            )
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.summary()


def _with_interval(value: float, interval: tuple[float, float]) -> str:
    low, high = interval
    return f"{value:.4g}" if low == high else f"{value:.4g}, in [{low:.4g}, {high:.4g}]"


@serial_products()  # tiles and blocks of rows have the threads
def certify(
    model,
    X,
    y,
    sample_weight=None,
    *,
    steps: int = 5,
    kernel_error: bool = True,
    memory_limit=None,
    random_state=0,
    verbose: int = 1,
) -> Certificate:
    """Prove how far a fitted model is from the best one, and from the exact kernel machine.

    Parameters
    ----------
    model : LASNClassifier or LASNRegressor, fitted
    X, y, sample_weight :
        The rows that the problem is about: those that the model was fitted to. (For other rows
        the certificate is as true, but it is about the exact machine of those rows.)
    steps : int, default=5
        How often to improve the exact problem's dual point; each costs one product with the kernel
        among the active rows.
    kernel_error : bool, default=True
        Whether to estimate ``|K - K~|`` too, from 200 rows (exactly up to 1000), and for few rows
        Theorem 2.
    memory_limit : int, str or None, default=None
        As for the estimators.
    random_state : int, RandomState instance or None, default=0
        For drawing rows to estimate ``|K - K~|``.
    verbose : int, default=1
        0: no progress bar. It is drawn on a terminal only.

    Returns
    -------
    Certificate

    Notes
    -----
    The conjugates behind the dual values stand in ``lasn.duality``: squared hinge, squared
    epsilon-insensitive and log loss. The time is that of all pairs of active rows: about a second
    for 10 000 of them, a hundred times that for 100 000.

    Examples
    --------
    >>> import lasn
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = scale(X)
    >>> model = lasn.LASNClassifier(50, C=1.0, random_state=0).fit(X, y)
    >>> certificate = lasn.certify(model, X, y)
    >>> certificate["exact_lower_bound"] < certificate["lower_bound"] < certificate["upper_bound"]
    True
    >>> bool(certificate.relative_gap < 0.001 < certificate.relative_exact_gap)
    True
    """
    if not hasattr(model, "_fitted_problem"):
        raise TypeError(
            f"certify needs a fitted LASNClassifier or LASNRegressor; it was given a "
            f"{type(model).__name__}. For a pipeline, certify its last step on transformed rows."
        )
    bar = Bar(verbose > 0)
    problem = model._fitted_problem(X, y, sample_weight)
    fitted = model._fitted_model()
    try:
        bar.draw(0.0, "scores")
        primal = Primal(problem, fitted)
        dual = Dual(problem, fitted, primal.z, memory_limit)
        lower = dual.reduced_bounds()
        point = dual.exact_point(steps, bar)
        exact_lower = point.bounds
        bar.draw(0.9, "kernel")
        if fitted.mapping is None:  # no landmarks, or all support vectors: nothing is reduced
            lower = exact_lower
        upper = np.maximum(primal.values(), np.maximum(lower, exact_lower))
        near = Neighbourhood(primal, dual, point, upper - exact_lower)
        shared = None
        if hasattr(model, "classes_"):
            predicted = np.searchsorted(model.classes_, model.predict(problem.X))
            shared = near.labels(predicted)
        errors = theorem = None
        if kernel_error and fitted.mapping is not None:
            errors, theorem = _kernel_bounds(problem, fitted, check_random_state(random_state))
    finally:
        bar.close()
    total, total_lower, total_exact = float(upper.sum()), float(lower.sum()), exact_lower.sum()
    return Certificate(
        upper_bound=total,
        lower_bound=total_lower,
        exact_lower_bound=float(total_exact),
        gap=total - total_lower,
        exact_gap=float(total - total_exact),
        relative_gap=(total - total_lower) / max(total, np.finfo(float).tiny),
        relative_exact_gap=float(total - total_exact) / max(total, np.finfo(float).tiny),
        function_distance=float(np.sqrt(2.0 * np.sum(upper - exact_lower))),
        score_distance=near.score_distance(),
        guaranteed_share=None if shared is None else float(np.mean(shared.proved)),
        agreement_share=None if shared is None else 1.0 - shared.most_different / problem.n_rows,
        guaranteed=None if shared is None else shared.proved,
        active_rows=len(dual.rows),
        n_rows=problem.n_rows,
        problems=[
            {
                "upper_bound": float(upper[c]),
                "lower_bound": float(lower[c]),
                "exact_lower_bound": float(exact_lower[c]),
                "gap": float(upper[c] - lower[c]),
                "exact_gap": float(upper[c] - exact_lower[c]),
                "function_distance": float(np.sqrt(2.0 * (upper[c] - exact_lower[c]))),
            }
            for c in range(len(upper))
        ],
        kernel_error=errors,
        theorem_2=theorem,
    )


def _kernel_bounds(problem: Problem, model: Model, rng) -> tuple[KernelError, Theorem2 | None]:
    assert model.mapping is not None
    errors = kernel_error(model.kernel, problem.X, model.landmarks, model.mapping, rng)
    applies = (
        problem.n_rows <= SMALL
        and model.landmarks.shape[0] < problem.n_rows
        and problem.targets.shape[1] == 1
        and isinstance(problem.loss, SquaredHinge)
        and np.all(problem.sample_weight == 1.0)
        and model.kernel.is_positive_semidefinite
    )
    if not applies:
        return errors, None
    y = problem.targets[:, 0]
    return errors, theorem_2(model.kernel, problem.X, model.landmarks, y, problem.C)

"""Exact solvers and bounds that the library is measured against; none of them uses it."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import nnls


def exact_kernel_svm(K, y, C, *, sample_weight=None, bias=True):
    """The L2-loss kernel SVM, by its dual: alpha with f(x) = sum_j alpha_j (k(x, x_j) + bias).

    ::

        min_{lambda >= 0}  1/2 lambda^T H lambda - 1^T lambda,
        H = diag(y) (K + bias) diag(y) + diag(1 / (2 C s)),      alpha = y * lambda

    The bias is regularised, so it adds 1 to the kernel and no constraint. With H = R^T R this is
    the nonnegative least squares problem |R lambda - R^-T 1|, solved by an active set method. The
    conditions of optimality are verified before anything is compared with the result.
    """
    weight = np.ones(len(y)) if sample_weight is None else sample_weight
    H = np.outer(y, y) * (K + float(bias)) + np.diag(1.0 / (2.0 * C * weight))
    R = cholesky(H)
    dual, _ = nnls(R, solve_triangular(R, np.ones(len(y)), trans="T"), maxiter=20 * len(y))
    gradient = H @ dual - 1.0
    residual = np.minimum(dual, gradient)
    assert np.max(np.abs(residual)) <= 1e-9, "the reference solution is not precise enough"
    return y * dual


def decision_values(K_test, alpha, bias=True):
    """Decision values of :func:`exact_kernel_svm` for kernel rows of shape (m, n)."""
    return (K_test + float(bias)) @ alpha


def linear_objective(X, targets, coef, intercept, C, loss):
    """1/2 (|w|^2 + b^2) + C sum loss(y, <w, x> + b): what LIBLINEAR and LASN both minimise."""
    scores = X @ coef + intercept
    return 0.5 * (coef @ coef + intercept**2) + C * np.sum(loss(targets, scores))


@dataclass(frozen=True)
class Certificate:
    """What is true of a fitted model, one entry a problem."""

    value: np.ndarray
    gradient_norm: np.ndarray
    relative_gradient: np.ndarray
    active_rows: np.ndarray


def certificate(features, targets, coef, intercept, C, loss):
    """Objective and gradient of linear models on (n, q) features, from their formulas.

    ``targets`` has shape (n, c), ``coef`` (c, q) and ``intercept`` (c,).
    """
    rows = np.column_stack([features, np.ones(len(features))])
    W = np.column_stack([coef, intercept]).T
    value, slope, curvature = loss.expand(targets, rows @ W)
    gradient = W + C * rows.T @ slope
    at_zero = C * rows.T @ loss.expand(targets, np.zeros_like(targets))[1]
    norm = np.linalg.norm(gradient, axis=0)
    return Certificate(
        value=0.5 * np.sum(W**2, axis=0) + C * np.sum(value, axis=0),
        gradient_norm=norm,
        relative_gradient=norm / np.linalg.norm(at_zero, axis=0),
        active_rows=np.count_nonzero(curvature, axis=0),
    )


@dataclass(frozen=True)
class Theorem2:
    """|w - w~|^2, the bound on it that the paper prints, and the one that its proof supports."""

    distance: float
    printed: float
    repaired: float


def theorem_2(K, F_best, F_nystroem, y, C, approximate_eigenvalues):
    """Both sides of Theorem 2 for features F^(k) and F~, each of shape (n, k).

    w and w~ solve the reduced problems on F^(k) and F~ without bias, C_0 = C n. Both are vectors of
    R^k whose entries belong to columns of the features. Columns are taken by falling eigenvalue, as
    the theorem sorts them; the sign of an eigenvector is free and the paper says nothing of it, so
    each column of F~ is turned to the side of its partner in F^(k).

    The proof bounds the loss by its argument without the "1 -" that eq. (svc-l2-kernel) lost. With
    it, the slope of the squared hinge is at most 2 (G + 1), not 2 G, and adding both norms of the
    weights gives 8 C_0^2 (G + 1)^2 rho^(1/2) |F^(k) - F~|: the ``repaired`` bound, true for any C.
    """
    n, k = F_best.shape
    F_nystroem = F_nystroem * np.sign(np.sum(F_best * F_nystroem, axis=0))
    maps = (F_best, F_nystroem)
    w, w_nystroem = (F.T @ exact_kernel_svm(F @ F.T, y, C, bias=False) for F in maps)

    rho = max(np.max(np.sum(F**2, axis=1)) for F in maps)
    G = max(np.max(np.abs(F @ v)) for F in maps for v in (w, w_nystroem))
    C_0 = C * n

    values = np.sort(np.linalg.eigvalsh(K))[::-1]
    error = K - F_nystroem @ F_nystroem.T
    e_f = np.sqrt(np.sum(values[k:] ** 2)) + np.linalg.norm(error)
    e_2 = values[k] + np.linalg.norm(error, 2)
    exact, approximate = values[:k], np.sort(approximate_eigenvalues)[::-1]
    A = np.maximum(1.0 / approximate + 1.0 / exact, 3.0 / approximate - 1.0 / exact)
    bracket = (
        k * e_f**0.25
        + values[0] * np.sum(A)
        + k * e_2 * np.sum(1.0 / approximate) * (e_f**0.25 + np.sum(exact**2) ** 0.25)
    )
    return Theorem2(
        distance=np.sum((w - w_nystroem) ** 2),
        printed=4.0 * C_0**2 * G * (G + 1.0) * np.sqrt(rho) * bracket,
        repaired=8.0 * C_0**2 * (G + 1.0) ** 2 * np.sqrt(rho) * np.linalg.norm(F_best - F_nystroem),
    )


@dataclass(frozen=True)
class ExactMachine:
    """The minimiser of 1/2 |f|^2 + sum_i C_i loss(y_i, f(x_i)), bias regularised, and the minimum.

    f(x) = sum_j alpha_j (k(x, x_j) + 1).
    """

    alpha: np.ndarray
    value: float


def exact_kernel_machine(K, y, costs, loss):
    """Any of the losses, by Newton's method on the whole kernel matrix.

    With slopes g and curvatures v of the losses at the scores z, one step is the solution of
    (I + v (K + 1)) alpha = v z - g. Between a step and the last point the objective is halved down.
    The gradient in the kernel's space, of norm |alpha + g|_K, is verified at the end.
    """
    kernel = K + 1.0

    def value(alpha):
        return 0.5 * alpha @ kernel @ alpha + costs @ loss.value(y, kernel @ alpha)

    alpha = np.zeros(len(y))
    for _ in range(200):
        z = kernel @ alpha
        _, slope, curvature = loss.expand(y, z)
        g, v = costs * slope, costs * curvature
        residual = alpha + g
        if residual @ kernel @ residual <= 1e-24 * max(1.0, value(alpha)):
            break
        step = np.linalg.solve(np.eye(len(y)) + v[:, None] * kernel, v * z - g) - alpha
        t = 1.0
        while value(alpha + t * step) > value(alpha) and t > 1e-12:
            t *= 0.5
        settled = value(alpha + t * step) >= value(alpha) * (1.0 - 1e-15)
        alpha = alpha + t * step
        if settled and t == 1.0:
            break
    residual = alpha + costs * loss.expand(y, kernel @ alpha)[1]
    distance = np.sqrt(max(residual @ kernel @ residual, 0.0))
    assert distance <= 1e-6 * max(1.0, np.sqrt(value(alpha))), "the reference is not precise enough"
    return ExactMachine(alpha, value(alpha))

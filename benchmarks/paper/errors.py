"""Section 4: how well k landmarks approximate K, and Theorem 2's bound beside what it bounds.

The error of an approximation F F^T is |K - F F^T| / |K| in the Frobenius and in the spectral norm,
for k-means and uniform landmarks (means of five seeds) and the best of rank k, eq. (fk). It is
computed for up to ``KERNEL_ROWS`` rows drawn at random.

Theorem 2 bounds the distance of w, from F^(k), and w~, from the Nystroem features. The bound as
printed, and the one that its proof supports with the loss as it is meant (docs/paper_map.md), come
from ``tests/reference.py``, which solves the exact dual: ``BOUND_ROWS`` rows, C = 10.
"""

import sys
from pathlib import Path
from statistics import mean

import numpy as np
from scipy.sparse.linalg import eigsh

from paper import rows
from paper.cells import COMMON, Cell, Run

NAME = "errors"
KEYS = ("data_set", "k")

_NORMS = ("frobenius", "spectral")
FIELDS = (
    *KEYS, "kernel_rows",
    *(f"{way}_{norm}" for way in ("best", "kmeans", "uniform") for norm in _NORMS),
    "bound_rows", "distance", "printed_bound", "proved_bound", *COMMON,
)  # fmt: skip
SIZES = (5, 10, 20, 50, 100, 200)
GENERATED = ("moons", "breast_cancer")  # with scikit-learn, so that there is always something
FROM_THE_PAPER = ("a1a", "mushrooms", "liver-disorders")
KERNEL_ROWS, BOUND_ROWS, SEEDS = 1500, 300, 5


def cells(run: Run) -> list[Cell]:
    names = GENERATED + tuple(name for name in FROM_THE_PAPER if name in run.sets)
    sizes = SIZES[:3] if run.quick else SIZES
    return [
        Cell(NAME, {"data_set": name, "k": k}, 5.0, {}, run.limit)
        for name in (names[:2] if run.quick else names)
        for k in sizes
        if name != "liver-disorders" or k < 145
    ]


def measure(data_set: str, k: int) -> dict:
    from lasn.features import best_rank_k_map

    X, y = _rows(data_set)
    K = _kernel(X)(X, X)
    result: dict = {"kernel_rows": len(X)}
    features = {"best": [best_rank_k_map(K, k)]}
    features |= {way: _nystroem(X, k, way) for way in ("kmeans", "uniform")}
    for way, found in features.items():
        for norm in _NORMS:
            size = _norm(K, norm)
            result[f"{way}_{norm}"] = mean(_norm(K - F @ F.T, norm) / size for F in found)
    return result | _theorem_2(X[:BOUND_ROWS], y[:BOUND_ROWS], k)


def _theorem_2(X, y, k: int) -> dict:
    sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))
    from reference import theorem_2

    from lasn import NystroemMap
    from lasn.features import best_rank_k_map

    features = NystroemMap(k, random_state=0).fit(X)
    F = features.transform(X)
    kept = F.shape[1]  # directions of nearly equal landmarks are dropped
    K = _kernel(X)(X, X)
    values = np.linalg.eigvalsh(F.T @ F)
    sides = theorem_2(K, best_rank_k_map(K, kept), F, y, 10.0, values)
    return {
        "bound_rows": len(X),
        "distance": float(np.sqrt(sides.distance)),
        "printed_bound": float(np.sqrt(sides.printed)),
        "proved_bound": float(np.sqrt(sides.repaired)),
    }


def _rows(data_set: str):
    from sklearn.datasets import load_breast_cancer, make_moons
    from sklearn.preprocessing import scale

    if data_set == "moons":
        X, y = make_moons(KERNEL_ROWS, noise=0.2, random_state=0)
    elif data_set == "breast_cancer":
        X, y = load_breast_cancer(return_X_y=True)
        X = scale(X)
    else:
        sample = rows.load(data_set, "float64")
        X, y = sample.X_train, sample.y_train
    drawn = np.random.default_rng(0).permutation(len(y))[:KERNEL_ROWS]
    return X[drawn], np.where(y[drawn] > 0, 1.0, -1.0)


def _kernel(X):
    from lasn.gamma import resolve_gamma
    from lasn.kernels import Kernel

    return Kernel("rbf", gamma=resolve_gamma("variance", X))


def _nystroem(X, k: int, way: str) -> list[np.ndarray]:
    from lasn import NystroemMap

    maps = (NystroemMap(k, landmarks=way, random_state=seed) for seed in range(SEEDS))
    return [each.fit_transform(X) for each in maps]


def _norm(symmetric: np.ndarray, norm: str) -> float:
    if norm == "frobenius":
        return float(np.linalg.norm(symmetric))
    start = np.ones(len(symmetric))
    return abs(float(eigsh(symmetric, 1, v0=start, return_eigenvectors=False, tol=1e-6)[0]))

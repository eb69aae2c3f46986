"""Competitors, one file each; adding one is adding a file.

A file of this folder has a list ``PEERS`` and imports its library only when it makes a model,
so that a competitor which is not installed can still be named, as missing. All get C = 10 and
gamma = 1 / total variance of the training rows, and all the cores.
"""

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatch

import numpy as np
import scipy.sparse as sp

import data
from measure import version

# No dense copies of more than this are made for a competitor that cannot read sparse rows.
_MOST_DENSE_BYTES = 4e9
# Rows of which a smaller part than this is not zero are read faster as they are stored, by most.
_SPARSE = 0.05


@dataclass(frozen=True)
class Peer:
    """One competitor.

    ``make(C, gamma, k, n_classes, n_rows, seed)`` returns an object with ``fit`` and ``predict``;
    labels are 0, 1, ... ``rows`` is "dense", "stored" (CSR for sets that are stored so) or "either"
    (dense up to 2000 features, unless a smaller part of the values than ``sparse_below`` is not
    zero).
    ``coefficients(model)`` gives (W, b) where the model minimises the reduced L2-loss problem
    1/2 |w|^2 + 1/2 b^2 + C sum_i max(0, 1 - y_i f(x_i))^2, whose value is then reported.
    """

    name: str
    distribution: str
    make: Callable
    rows: str = "either"
    sparse_below: float = _SPARSE
    dtype: str = "float64"
    uses_k: bool = False
    ours: bool = False
    kernel: bool = True
    coefficients: Callable | None = None

    @property
    def version(self) -> str | None:
        return version(self.distribution)

    def convert(self, X):
        """The rows in the form that this competitor reads fastest; not part of its time."""
        sparse = sp.issparse(X) and X.nnz < self.sparse_below * X.shape[0] * X.shape[1]
        either = False if sparse else None
        dense = {"dense": True, "stored": not sp.issparse(X), "either": either}[self.rows]
        size = X.shape[0] * X.shape[1] * np.dtype(self.dtype).itemsize
        if dense and size > _MOST_DENSE_BYTES:
            raise MemoryError(f"needs dense rows, {size / 1e9:.0f} GB of them")
        return data.as_rows(X, self.dtype, dense)


def last_step(model):
    """(W, b) of the linear model that ends a pipeline."""
    return model[-1].coef_, model[-1].intercept_


def every() -> dict[str, Peer]:
    """All competitors by name."""
    modules = [importlib.import_module(f"peers.{m.name}") for m in pkgutil.iter_modules(__path__)]
    return {peer.name: peer for module in modules for peer in module.PEERS}


def chosen(patterns: list[str]) -> list[Peer]:
    """The competitors whose names match one of the patterns ("lasn*", "nystroem-*")."""
    peers = every()
    unknown = [p for p in patterns if not any(fnmatch(name, p) for name in peers)]
    if unknown:
        raise SystemExit(f"no competitor {unknown[0]!r}; there are {', '.join(peers)}")
    return [peer for name, peer in peers.items() if any(fnmatch(name, p) for p in patterns)]

"""Data that several test files share. Arrays are read-only: no estimator may write to its input."""

import signal

import numpy as np
import pytest
import scipy.sparse as sp
from places import place, tensors_are_no_arrays
from sklearn.datasets import load_digits, make_classification, make_friedman1

__all__ = ["place", "tensors_are_no_arrays"]

# A shell's background jobs ignore Ctrl-C, and so would the commands that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _frozen(*arrays):
    for array in arrays:
        array.setflags(write=False)
    return arrays


@pytest.fixture(scope="session")
def binary():
    """X of shape (200, 5) and labels 0 and 1, some of them wrong."""
    X, y = make_classification(
        n_samples=200, n_features=5, n_informative=4, n_redundant=0, flip_y=0.05, random_state=0
    )
    return _frozen(X, y)


@pytest.fixture(scope="session")
def three_classes():
    """Handwritten digits 0, 1 and 2: X of shape (200, 64), in [0, 1], about half of it zeros."""
    X, y = load_digits(n_class=3, return_X_y=True)
    return _frozen(X[:200] / 16.0, y[:200])


@pytest.fixture(scope="session")
def sparse_rows():
    """A CSR matrix of shape (300, 1000), 1 % of it not zero, and labels 0 and 1."""
    rng = np.random.RandomState(0)
    X = sp.random(300, 1000, density=0.01, format="csr", random_state=rng)
    y = (X @ rng.normal(size=1000) + 0.1 * rng.normal(size=300) > 0).astype(int)
    return X, _frozen(y)[0]


@pytest.fixture(scope="session")
def regression():
    """X of shape (200, 5) and targets of unit variance."""
    X, y = make_friedman1(n_samples=200, n_features=5, noise=0.5, random_state=0)
    return _frozen(X, (y - y.mean()) / y.std())


@pytest.fixture
def rng():
    return np.random.RandomState(0)


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """The folder of an empty cache of data files, with no LASN_DATA and no way to the outside."""
    for name in ("LASN_DATA", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("LASN_MIRROR", "http://127.0.0.1:9/nobody-listens-here")
    monkeypatch.setenv("LASN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "datasets"

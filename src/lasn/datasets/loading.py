"""``load``: a data set by name, split as the paper splits it.

Where the site has an official test file, that is the test. Where it has none, the paper takes "the
first 60 % data points as training set and the other 40 % as testing set", n·0.6 rounded down:
mushrooms 4874 of 8124. Rows of a file are often sorted, so the first 60 % can differ from the rest;
``random_state`` draws them instead.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, overload

import numpy as np
import scipy.sparse as sp

from lasn.datasets.download import fetch_file
from lasn.datasets.folders import DatasetError
from lasn.datasets.reading import check_rows, read_rows
from lasn.datasets.registry import DataFile, Dataset, dataset


class Split(NamedTuple):
    """Training and test rows, in the order of ``train_test_split``.

    Examples
    --------
    >>> import numpy as np
    >>> from lasn.datasets import Split
    >>> X_train, X_test, y_train, y_test = Split(np.eye(3), np.eye(2), np.ones(3), np.ones(2))
    >>> X_train.shape, y_test.shape
    ((3, 3), (2,))
    """

    X_train: sp.csr_matrix
    X_test: sp.csr_matrix
    y_train: np.ndarray
    y_test: np.ndarray


@overload
def load(
    name: str,
    split: Literal[True] = True,
    *,
    random_state: int | np.random.RandomState | None = None,
    base: str | None = None,
) -> Split: ...


@overload
def load(
    name: str,
    split: Literal[False],
    *,
    random_state: int | np.random.RandomState | None = None,
    base: str | None = None,
) -> tuple[sp.csr_matrix, np.ndarray]: ...


def load(name, split=True, *, random_state=None, base=None):
    """Rows and labels of a data set of the LIBSVM site.

    Files are looked for in the folder ``LASN_DATA``, then in the cache; what is in neither is
    downloaded into the cache and checked.

    Parameters
    ----------
    name : str
        One of ``lasn data list``, or the paper's name for it.
    split : bool, default=True
        Whether to return training and test rows, or, as one, the rows of the training file. That
        is all there is where the site has no test file.
    random_state : int, RandomState or None, default=None
        Where the site has no test file, training takes the first 60 % of the rows, as the paper
        does; with a seed it takes 60 % drawn at random. An official test file always stays the
        test.
    base : str, default=None
        The address below which the site's folders ``binary``, ``multiclass`` and ``regression``
        lie; by default ``LASN_MIRROR`` or, without that, the LIBSVM site.

    Returns
    -------
    Split or (X, y)
        ``X_train, X_test, y_train, y_test``: CSR matrices of equal width, and labels as in the
        files (float64).

    Raises
    ------
    ValueError
        If there is no data set of that name.
    DatasetError
        If a file can neither be found nor downloaded, or is not what it should be.

    Examples
    --------
    >>> from lasn import LASNClassifier, datasets
    >>> X_train, X_test, y_train, y_test = datasets.load("a9a")  # doctest: +SKIP
    >>> X_train.shape  # doctest: +SKIP
    (32561, 123)
    >>> model = LASNClassifier(200, random_state=0).fit(X_train, y_train)  # doctest: +SKIP
    >>> model.score(X_test, y_test)  # doctest: +SKIP
    0.852...
    """
    known = dataset(name)
    X, y = _rows(known, known.train, base)
    if not split:
        return X, y
    if known.test is not None:
        X_test, y_test = _rows(known, known.test, base)
        return Split(X, X_test, y, y_test)
    n_train = training_rows(X.shape[0])
    if random_state is None:
        return Split(X[:n_train], X[n_train:], y[:n_train], y[n_train:])
    from sklearn.utils import check_random_state

    drawn = check_random_state(random_state).permutation(X.shape[0])
    train, test = drawn[:n_train], drawn[n_train:]
    return Split(X[train], X[test], y[train], y[test])


def training_rows(n_rows: int) -> int:
    """The paper's rule: 60 % of the rows, rounded down."""
    return n_rows * 6 // 10


def _rows(known: Dataset, file: DataFile, base: str | None) -> tuple[sp.csr_matrix, np.ndarray]:
    path = fetch_file(file, base)
    try:
        X, y = read_rows(path, known.features)
        check_rows(file, path, X.shape[0])
    except DatasetError as error:
        raise DatasetError(
            f"{error}. Delete it, and `lasn data fetch {known.name}` downloads it anew"
        ) from error
    return X, y

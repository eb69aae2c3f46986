"""Data of the benchmarks: LIBSVM sets from ``lasn.datasets``, prepared, and generated rows.

Files come from the folder ``LASN_DATA``, the cache of ``lasn.datasets`` or the LIBSVM site. Parsing
text is slow, so a parsed file is kept as ``.npz`` in ``LASN_BENCH_CACHE`` (default: a folder in the
system's temporary one) under a name that holds the file's size and time of change.

``load(name)`` gives training and test rows; where a set has no official test rows, the split is
fixed. ``generated(n)`` makes up to 10^7 rows with a known Bayes accuracy; ``load`` knows it as
``generated-N``.
"""

import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize

from lasn import datasets

FEW_FEATURES = 2000
_TEST_ROWS = 100_000
_BLOCK_ROWS = 1 << 16


@dataclass(frozen=True)
class Source:
    """Where a set's rows are.

    ``test`` is a file, a share of the rows at the end of ``train`` ("tail") or of shuffled rows.
    """

    train: str
    test: str | float
    tail: bool = False
    divide_by: float = 1.0
    unit_rows: bool = False
    dense: bool = True
    regression: bool = False
    standardise: bool = False


SOURCES = {
    "a9a": Source("a9a", "a9a.t", dense=False),
    "w8a": Source("w8a", "w8a.t", dense=False),
    "ijcnn1": Source("ijcnn1", "ijcnn1.t"),
    "mushrooms": Source("mushrooms", 0.4, dense=False),
    "mushrooms-first": Source("mushrooms", 0.4, tail=True, dense=False),  # the paper's split
    "letter": Source("letter.scale", "letter.scale.t"),
    "satimage": Source("satimage.scale", "satimage.scale.t"),
    "mnist": Source("mnist", "mnist.t", divide_by=255.0, dense=False),
    "news20": Source("news20", 0.2, unit_rows=True, dense=False),  # word counts
    "madelon": Source("madelon", "madelon.t"),
    "covtype": Source("covtype.binary.sample5000", "covtype.binary.sample5000.t"),
    "dna": Source("dna.scale", "dna.scale.t"),
    "segment": Source("segment.scale", 0.2),
    "vehicle": Source("vehicle.scale", 0.2),
    "cadata": Source("cadata", 0.2, regression=True),
    "abalone": Source("abalone_scale", 0.2, regression=True),
    # With their official test rows, binary features or scaled ones.
    **{
        name: Source(name, f"{name}.t", dense=False)
        for name in ("a1a", "a2a", "a4a", "a7a", "a8a", "w4a", "w7a")
    },
    **{name: Source(name, 0.2, dense=False) for name in ("a5a", "a6a", "w1a")},
    # Without: one split, or several (``split``).
    **{
        name.removesuffix("_scale").removesuffix(".scale"): Source(name, 0.2)
        for name in (
            "diabetes_scale", "fourclass_scale", "glass.scale", "heart_scale", "ionosphere_scale",
            "sonar_scale", "svmguide2", "vowel.scale", "wine.scale", "usps.t",
        )
    },
    **{
        name: Source(name, 0.2, standardise=True)
        for name in ("australian", "breast-cancer", "german.numer", "svmguide3")
    },
    "liver-disorders": Source("liver-disorders", "liver-disorders.t", standardise=True),
}  # fmt: skip


def load(name: str, rows: int | None = None, split: int = 0):
    """X_train, y_train, X_test, y_test; ``rows`` keeps that many (drawn once) of each part.

    ``split`` numbers the splits of a set without official test rows.

    X is a float64 array, or a CSR matrix where most values are zero. Classes are 0, 1, ...;
    features and target of a regression are standardised by the training part.
    """
    if name.startswith("generated-"):
        n_rows = int(float(name.removeprefix("generated-")))
        X_train, y_train, _ = generated(min(n_rows, rows or n_rows))
        X_test, y_test, _ = generated(min(_TEST_ROWS, rows or _TEST_ROWS), part=1)
        return X_train, y_train, X_test, y_test
    if name not in SOURCES:
        raise ValueError(f"no data set {name!r}; there are {', '.join(SOURCES)} and generated-N")
    source = SOURCES[name]
    X_train, y_train, X_test, y_test = _split(source, split)
    if source.divide_by != 1.0:
        X_train, X_test = X_train / source.divide_by, X_test / source.divide_by
    if source.unit_rows:
        X_train, X_test = normalize(X_train), normalize(X_test)
    if source.dense:
        X_train, X_test = X_train.toarray(), X_test.toarray()
    if source.regression or source.standardise:
        X_train, X_test = _standardise(X_train, X_test)
    if source.regression:
        y_train, y_test = _standardise(y_train, y_test)
    else:
        classes, y_train = np.unique(y_train, return_inverse=True)
        y_test = np.searchsorted(classes, y_test)
    return *_few(X_train, y_train, rows), *_few(X_test, y_test, rows)


def is_regression(name: str) -> bool:
    return name in SOURCES and SOURCES[name].regression


def has_test_rows(name: str) -> bool:
    """Whether the set comes with test rows; if not, ``load`` has several splits of it."""
    return name not in SOURCES or isinstance(SOURCES[name].test, str)


def as_rows(X, dtype="float32", dense: bool | None = None):
    """Rows as an array (by default where features are few, products being fastest so) or CSR."""
    if dense is None:
        dense = X.shape[1] <= FEW_FEATURES
    if not dense:
        return sp.csr_matrix(X, dtype=dtype)
    return np.ascontiguousarray(X.toarray() if sp.issparse(X) else X, dtype=dtype)


def total_variance(X) -> float:
    """tr Cov(X): the kernels of all competitors get gamma = 1 / total variance."""
    mean = np.asarray(X.mean(axis=0, dtype=np.float64)).ravel()
    squares = X.multiply(X).sum() if sp.issparse(X) else np.einsum("ij,ij->", X, X, dtype=float)
    return float(squares / X.shape[0] - mean @ mean)


def generated(n_rows: int, n_features: int = 28, seed: int = 0, part: int = 0):
    """X (float32), y in {0, 1} and the Bayes accuracy: a smooth boundary with label noise.

    In hidden, rotated coordinates a row has four values z of standard deviation 1 and others of
    0.2. Its label is the sign of a sum of eight random waves of z, turned over with probability
    0.05. The rotation loses nothing, so that sign is the best guess and the Bayes accuracy is
    0.95 exactly. Rows come in blocks with random streams of their own: the first rows are the
    same whatever ``n_rows`` is, and another ``part`` has other rows of the same problem.
    """
    n_latent, n_waves, turned = min(4, n_features), 8, 0.05
    world = np.random.default_rng([seed, n_features])
    rotation = np.linalg.qr(world.standard_normal((n_features, n_features)))[0].astype(np.float32)
    rotation[n_latent:] *= 0.2
    frequencies = (0.5 * world.standard_normal((n_latent, n_waves))).astype(np.float32)
    phases = world.uniform(0.0, 2.0 * np.pi, n_waves).astype(np.float32)
    X = np.empty((n_rows, n_features), dtype=np.float32)
    y = np.empty(n_rows, dtype=np.int64)
    for block, start in enumerate(range(0, n_rows, _BLOCK_ROWS)):
        stream = np.random.default_rng([seed, part, block])
        hidden = stream.standard_normal((_BLOCK_ROWS, n_features), dtype=np.float32)
        waves = np.sin(hidden[:, :n_latent] @ frequencies + phases)
        label = (waves.sum(axis=1) > 0.0) ^ (stream.random(_BLOCK_ROWS) < turned)
        size = min(_BLOCK_ROWS, n_rows - start)
        np.matmul(hidden[:size], rotation, out=X[start : start + size])
        y[start : start + size] = label[:size]
    return X, y, 1.0 - turned


def _split(source: Source, split: int):
    X, y = _parsed(source.train)
    if isinstance(source.test, str):
        X_test, y_test = _parsed(source.test)
        width = max(X.shape[1], X_test.shape[1])
        X.resize(X.shape[0], width)
        X_test.resize(X_test.shape[0], width)
        return X, y, X_test, y_test
    if source.tail:
        n_train = int((1.0 - source.test) * X.shape[0])
        return X[:n_train], y[:n_train], X[n_train:], y[n_train:]
    X, X_test, y, y_test = train_test_split(
        X, y, test_size=source.test, random_state=split, stratify=None if source.regression else y
    )
    return X, y, X_test, y_test


def _parsed(name: str):
    """One svmlight file as CSR matrix and labels, from the cache where it is there."""
    path = _path(name)
    stat = path.stat()
    default = Path(tempfile.gettempdir()) / "lasn-benchmarks"
    folder = Path(os.environ.get("LASN_BENCH_CACHE", default))
    cached = folder / f"{name}-{stat.st_size}-{stat.st_mtime_ns}.npz"
    if not cached.exists():
        print(f"parsing {path.name}", file=sys.stderr)
        X, y = datasets.read_rows(path)
        folder.mkdir(parents=True, exist_ok=True)
        partial = cached.with_suffix(f".{os.getpid()}.npz")
        np.savez(partial, data=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape, y=y)
        partial.replace(cached)
    with np.load(cached) as kept:
        X = sp.csr_matrix((kept["data"], kept["indices"], kept["indptr"]), shape=kept["shape"])
        return X, kept["y"]


def _path(name: str) -> Path:
    """Where a file is; one of the LIBSVM site is downloaded if it is not here."""
    path = datasets.find(name)
    if path is not None:
        return path
    files = {file.name: file for each in datasets.datasets().values() for file in each.files}
    if name not in files:
        raise FileNotFoundError(
            f"{name} is not a file of the LIBSVM site; place it, or {name}.xz, in the folder that "
            "LASN_DATA names. generated-N needs no files."
        )
    return datasets.fetch_file(files[name])


def _standardise(train, test):
    mean, scale = train.mean(axis=0), train.std(axis=0)
    scale = np.where(scale > 0.0, scale, 1.0)
    return (train - mean) / scale, (test - mean) / scale


def _few(X, y, rows):
    if rows is None or X.shape[0] <= rows:
        return X, y
    kept = np.sort(np.random.default_rng(0).permutation(X.shape[0])[:rows])
    return X[kept], y[kept]

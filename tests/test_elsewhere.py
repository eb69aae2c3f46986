"""Rows on disk and in batches: the same model as from memory, within the limit, no leftovers."""

import io
import os
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file, make_classification, make_regression

from lasn import LASNClassifier, LASNClassifierCV, LASNRegressor, LASNRegressorCV
from lasn.chunked_problem import ChunkedProblem, classification_problem
from lasn.chunks import Chunk, LocalChunks, WaitingRoom
from lasn.disk_features import DiskFeatures, Judge
from lasn.losses import SquaredHinge
from lasn.row_files import FileRows, RowFile, SparseFileRows, rows_of_mapped_array
from lasn.survey import survey

N_ROWS = 12_000
# So little that every row stays on disk, and states of rows too.
ON_DISK = {"memory_limit": "1MB"}
EXACTLY = {"n_landmarks": 60, "tol": 1e-6, "random_state": 0, "dtype": "float64"}


@pytest.fixture(scope="module")
def rows():
    """Float32 rows of three classes."""
    X, y = make_classification(
        N_ROWS, 6, n_informative=5, n_redundant=0, n_classes=3, random_state=0
    )
    return X.astype(np.float32), y


@pytest.fixture(scope="module")
def in_memory(rows):
    return LASNClassifier(**EXACTLY).fit(*rows)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr("lasn.streams._CHUNK_ROWS", 5000)


@pytest.fixture(autouse=True)
def nothing_left_over(tmp_path_factory, monkeypatch):
    """Every test's temporary files go to a folder that must be empty at its end."""
    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    yield
    assert list(folder.iterdir()) == []


def as_memmap(X, y, folder):
    np.save(folder / "X.npy", X)
    return np.load(folder / "X.npy", mmap_mode="r"), y


def as_part_of_a_memmap(X, y, folder):
    np.save(folder / "X.npy", np.vstack([X[:7] + 1.0, X]))
    return np.load(folder / "X.npy", mmap_mode="r")[7:], y


def as_npy_files(X, y, folder):
    np.save(folder / "X.npy", X)
    np.save(folder / "y.npy", y)
    return str(folder / "X.npy"), folder / "y.npy"


def as_parquet_folder(X, y, folder):
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    frame.insert(2, "kind", y)
    for number, start in enumerate(range(0, len(y), 4500)):
        frame[start : start + 4500].to_parquet(folder / f"part-{number}.parquet")
    return folder, "kind"


def as_csv(X, y, folder):
    frame = pd.DataFrame(X.astype(float), columns=[f"x{j}" for j in range(X.shape[1])])
    frame.assign(kind=y).to_csv(folder / "rows.csv", index=False)
    return folder / "rows.csv", "kind"


def as_svmlight(X, y, folder):
    dump_svmlight_file(X, y, str(folder / "rows.svm"), zero_based=False)
    return str(folder / "rows.svm"), None


def as_batches(X, y, folder):
    return [
        (X[start : start + 700], y[start : start + 700]) for start in range(0, len(y), 700)
    ], None


def as_generator(X, y, folder):
    return iter(as_batches(X, y, folder)[0]), None


def as_sparse_batches(X, y, folder):
    return [(sp.csr_matrix(rows), labels) for rows, labels in as_batches(X, y, folder)[0]], None


WAYS = [
    as_memmap,
    as_part_of_a_memmap,
    as_npy_files,
    as_parquet_folder,
    as_csv,
    as_svmlight,
    as_batches,
    as_generator,
    as_sparse_batches,
]


@pytest.mark.parametrize("limit", ["1MB", None], ids=["on disk", "gathered"])
@pytest.mark.parametrize("way", WAYS)
def test_the_same_model_wherever_rows_live(rows, in_memory, tmp_path, way, limit):
    X, y = rows
    given, target = way(X, y, tmp_path)
    model = LASNClassifier(memory_limit=limit, **EXACTLY).fit(given, target)
    if way in (as_svmlight, as_sparse_batches):  # sums of sparse rows are rounded otherwise
        in_memory = LASNClassifier(**EXACTLY).fit(
            sp.csr_matrix(X.astype(model.landmarks_.dtype)), y
        )
    np.testing.assert_allclose(model.landmarks_, in_memory.landmarks_, atol=1e-5)
    # Directions of small eigenvalues have coefficients that depend on the last digits of rows.
    np.testing.assert_allclose(model.coef_, in_memory.coef_, atol=1e-3)
    np.testing.assert_allclose(model.intercept_, in_memory.intercept_, atol=1e-4)
    named = X
    if hasattr(model, "feature_names_in_"):
        named = pd.DataFrame(X, columns=model.feature_names_in_)
    scores = model.decision_function(named)
    np.testing.assert_allclose(scores, in_memory.decision_function(X), atol=2e-5)
    assert np.mean(model.predict(named) == in_memory.predict(X)) >= 0.9999


@pytest.mark.parametrize("way", [as_npy_files, as_parquet_folder, as_svmlight, as_batches])
def test_predictions_and_scores_of_files_and_batches(rows, in_memory, tmp_path, way):
    X, y = rows
    given, target = way(X, y, tmp_path)
    model = LASNClassifier(**ON_DISK, **EXACTLY).fit(given, target)
    np.testing.assert_array_equal(model.predict(given), in_memory.predict(X))
    scores = model.decision_function(given)
    np.testing.assert_allclose(scores, in_memory.decision_function(X), atol=1e-3)
    assert model.score(given, target) == pytest.approx(in_memory.score(X, y), abs=1e-12)


@pytest.mark.parametrize(
    "parameters",
    [
        {"loss": "log_loss"},
        {"class_weight": "balanced"},
        {"kernel": "linear"},
        {"kernel": "laplacian"},
        {"landmarks": "kmeans"},
        {"landmarks": "class_kmeans"},
        {"n_landmarks": 20_000, "tol": 1e-3},
        {"solver": "newton-cg"},
        {"gamma": "scale"},
    ],
    ids=str,
)
def test_every_kind_of_fit(rows, tmp_path, parameters):
    X, y = rows[0][:3000], rows[1][:3000]
    if "n_landmarks" in parameters:
        X, y = X[:300], y[:300]
        parameters = parameters | {"n_landmarks": 300}
    parameters = EXACTLY | parameters
    expected = LASNClassifier(**parameters).fit(X, y)
    given = [(X[start : start + 700], y[start : start + 700]) for start in range(0, len(y), 700)]
    model = LASNClassifier(memory_limit=1000, **parameters).fit(given)
    difference = np.abs(model.decision_function(X) - expected.decision_function(X)).max()
    assert difference <= 1e-4 * max(1.0, np.abs(expected.decision_function(X)).max())


def test_weights_and_text_labels(rows):
    X, y = rows
    rng = np.random.RandomState(0)
    weight = rng.choice([0.0, 0.5, 2.0], size=N_ROWS)
    names = np.array(["red", "green", "blue"])[y]
    expected = LASNClassifier(**EXACTLY).fit(X, names, weight)
    given = [
        (X[start : start + 999], names[start : start + 999], weight[start : start + 999])
        for start in range(0, N_ROWS, 999)
    ]
    model = LASNClassifier(**ON_DISK, **EXACTLY).fit(given)
    assert model.classes_.tolist() == ["blue", "green", "red"]
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-4)
    assert model.score(given) == pytest.approx(expected.score(X, names, weight))


@pytest.mark.parametrize("n_targets", [1, 2])
def test_regression(n_targets, tmp_path):
    X, y = make_regression(N_ROWS, 5, n_targets=n_targets, noise=5.0, random_state=0)
    y = y / y.std()
    expected = LASNRegressor(**EXACTLY).fit(X, y)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    paths = tmp_path / "X.npy", tmp_path / "y.npy"
    model = LASNRegressor(**ON_DISK, **EXACTLY).fit(*paths)
    assert model.coef_.shape == expected.coef_.shape
    np.testing.assert_allclose(model.predict(paths[0]), expected.predict(X), atol=1e-4)
    assert model.score(*paths) == pytest.approx(expected.score(X, y))


def test_uniform_landmarks_are_rows_drawn_by_weight(rows):
    X, y = rows
    weight = (np.arange(N_ROWS) < 2000).astype(float)
    given = [
        (X[start : start + 999], y[start : start + 999], weight[start : start + 999])
        for start in range(0, N_ROWS, 999)
    ]
    model = LASNClassifier(n_landmarks=50, landmarks="uniform", random_state=0, **ON_DISK).fit(
        given
    )
    drawn = {row.tobytes() for row in model.landmarks_}
    assert len(drawn) == 50
    assert drawn <= {row.tobytes() for row in X[:2000]}


def test_own_landmarks_and_names_of_columns(rows, tmp_path):
    X, y = rows
    folder, target = as_parquet_folder(X, y, tmp_path)
    model = LASNClassifier(landmarks=X[:40], random_state=0, **ON_DISK).fit(folder, target)
    assert model.feature_names_in_.tolist() == [f"x{j}" for j in range(6)]
    frame = pd.DataFrame(X, columns=model.feature_names_in_)
    np.testing.assert_array_equal(model.predict(folder), model.predict(frame))


def test_a_search_looks_at_a_sample_and_fits_all_rows(rows, tmp_path):
    X, y = rows
    given, target = as_npy_files(X, y, tmp_path)
    search = LASNClassifierCV([1.0, 10.0], n_landmarks=40, cv=3, random_state=0, **ON_DISK)
    search.fit(given, target)
    assert search.history_[-1]["rows"] == N_ROWS
    assert search.score(X, y) > 0.8
    probabilities = search.predict_proba(given)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-6)

    targets = tmp_path / "targets.npy"
    np.save(targets, X[:, 0] + 0.1 * X[:, 1] ** 2)
    regression = LASNRegressorCV([1.0, 10.0], n_landmarks=40, cv=3, random_state=0, **ON_DISK)
    assert regression.fit(given, targets).score(given, targets) > 0.9


@pytest.mark.parametrize("limit", [{}, ON_DISK], ids=["gathered", "on disk"])
@pytest.mark.parametrize("search", [LASNClassifierCV, LASNRegressorCV])
def test_a_search_takes_weights_by_name(rows, tmp_path, search, limit):
    X, y = rows
    y = np.searchsorted(np.unique(y), y)
    weight = np.where(X[:, 0] > 0.0, 1.0, 3.0)
    folder = tmp_path / "weights"
    folder.mkdir()
    table = folder / "rows.csv"
    pd.DataFrame(X).add_prefix("x").assign(y=y, weight=weight).to_csv(table, index=False)
    for name, values in (("X", X), ("y", y), ("weight", weight)):
        np.save(folder / f"{name}.npy", values)
    settings = {"Cs": [1.0, 10.0], "n_landmarks": 40, "cv": 3, "random_state": 0}
    expected = search(**settings).fit(X, y, weight).best_score_
    for given in (
        (table, "y", "weight"),
        [folder / f"{name}.npy" for name in ("X", "y", "weight")],
    ):
        found = search(**settings, **limit).fit(*given)
        assert found.best_score_ == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([(np.ones((3, 2)),)], "no y"),
        ([(np.ones((3, 2)), np.ones(2))], "3 rows of X and 2 of y"),
        ([(np.ones((3, 2)), [0, 1, 0]), (np.ones((3, 4)), [0, 1, 0])], "4 features"),
        ([(np.ones((2, 2)), [0, 1]), (np.full((2, 2), np.nan), [0, 1])], "contains NaN"),
        ([(np.ones((2, 2)), [0, 0])], "at least two classes"),
        ([(np.ones((2, 2)), [0, 1], [1.0, -1.0])], "negative"),
        ([(np.ones((2, 2)), [0, 1], [0.0, 0.0])], "zero for every row"),
        ([(1, 2, 3, 4), (1, 2, 3, 4)], "4 parts"),
        (iter([]), "0 sample"),
    ],
    ids=lambda value: value if isinstance(value, str) else "batches",
)
@pytest.mark.parametrize("limit", [16, None], ids=["on disk", "gathered"])
def test_batches_that_are_wrong(given, message, limit):
    given = list(given)
    with pytest.raises(ValueError, match=message):
        LASNClassifier(memory_limit=limit).fit(batch for batch in given)


def test_files_that_are_wrong(tmp_path, rows):
    X, y = rows[0][:50], rows[1][:50]
    folder, _ = as_parquet_folder(X, y, tmp_path)
    with pytest.raises(ValueError, match=r"no column 'colour'. The columns are x0, x1, kind"):
        LASNClassifier().fit(folder, "colour")
    with pytest.raises(ValueError, match="must be the name of one of its columns"):
        LASNClassifier().fit(folder, y)
    with pytest.raises(ValueError, match="there is no such file"):
        LASNClassifier().fit(tmp_path / "absent.csv", "kind")
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(ValueError, match="no Parquet files"):
        LASNClassifier().fit(empty, "kind")
    with pytest.raises(ValueError, match="leave the arguments out"):
        LASNClassifier().fit(as_batches(X, y, None)[0], y)
    with pytest.raises(ValueError, match='solver="exact" needs the rows in memory'):
        LASNClassifier(solver="exact", memory_limit=16).fit(as_batches(X, y, None)[0])


def test_an_interrupt_leaves_nothing(rows):
    X, y = rows

    def batches():
        yield X[:5000], y[:5000]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        LASNClassifier(**ON_DISK).fit(batches())


def test_drawn_rows_stay_in_their_chunks_and_weigh_as_much_as_all(rows):
    X, y = rows
    edges = [0, 5000, 5003, N_ROWS]
    parts = [slice(start, stop) for start, stop in pairwise(edges)]
    weight = np.random.RandomState(0).uniform(0.5, 2.0, N_ROWS)
    chunks = LocalChunks([Chunk(X[part], y[part], weight[part]) for part in parts], 1 << 30)
    problem = classification_problem(chunks, survey(chunks, True), np.ones(3), SquaredHinge())
    drawn = problem.drawn(3000, np.random.RandomState(1))
    chosen = chunks.collect(drawn.rows)
    assert [len(one) for one in chosen] == [1250, 1, 1749]
    assert drawn.n_rows == 3000
    assert all(len(np.unique(one)) == len(one) for one in chosen)
    labels = np.concatenate([y[part][one] for part, one in zip(parts, chosen, strict=True)])
    of_drawn = np.concatenate(chunks.collect(drawn.sample_weight))
    np.testing.assert_allclose(np.bincount(labels, of_drawn), np.bincount(y, weight))


def test_the_start_grows_beyond_the_rows_that_are_held(monkeypatch, tmp_path):
    """A quarter of the rows is more than the pool: it is solved where the rows are."""
    monkeypatch.setattr(ChunkedProblem.pool, "__defaults__", (20_000,))
    sizes, drawn = [], ChunkedProblem.drawn

    def noted(self, size, rng):
        sizes.append(size)
        return drawn(self, size, rng)

    monkeypatch.setattr(ChunkedProblem, "drawn", noted)
    rng = np.random.RandomState(0)
    X = rng.normal(size=(100_000, 4)).astype(np.float32)
    y = np.sin(X[:, 0]) + X[:, 1] ** 2 + rng.normal(size=len(X)) > 1.0
    here = LASNClassifier(**EXACTLY).fit(X, y)
    there = LASNClassifier(**EXACTLY, **ON_DISK).fit(*as_memmap(X, y, tmp_path))
    assert sizes == [25_000]
    np.testing.assert_allclose(there.coef_, here.coef_, atol=1e-4)
    passes = [sum(record["passes"] for record in model.history_) for model in (here, there)]
    assert passes[1] <= passes[0] + 3.0


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs Linux's /proc")
def test_memory_stays_under_the_limit():
    """A process that fits 48 MB of rows and 240 MB of features in 100 MB."""
    script = """
import numpy as np
import sklearn.cluster
from lasn import LASNClassifier
from lasn.memory import resident_memory

rng = np.random.default_rng(0)
def batches():
    for _ in range(24):
        X = rng.standard_normal((25_000, 20), dtype=np.float32)
        yield X, (np.sin(X[:, 0]) + X[:, 1] > 0).astype(int)

limit = resident_memory() + 100_000_000
LASNClassifier(n_landmarks=100, memory_limit=limit, random_state=0).fit(batches())
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(limit, 1024 * int(status["VmHWM"].split()[0]))
"""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, timeout=120
    )
    assert done.returncode == 0, done.stderr
    limit, peak = map(int, done.stdout.split())
    assert peak < limit


def test_states_wait_in_a_file_and_their_places_are_used_again():
    room = WaitingRoom(limit=1000)
    small, large = room.keep(np.arange(5.0)), room.keep([np.arange(500.0), np.ones((3, 2))])
    assert room.in_memory == 40
    from lasn.chunks import _awake

    np.testing.assert_array_equal(_awake(small), np.arange(5.0))
    np.testing.assert_array_equal(_awake(large)[0], np.arange(500.0))
    size = room.file.size
    del large, small
    assert room.in_memory == 0
    again = room.keep([np.arange(500.0) + 1.0, np.ones((3, 2))])
    assert room.file.size == size
    np.testing.assert_array_equal(_awake(again)[0], np.arange(500.0) + 1.0)


@pytest.mark.parametrize("worth", [True, False])
def test_features_on_disk_are_read_back_or_computed_again(worth):
    judge = Judge(1000)
    judge.worth = worth
    features, computed = DiskFeatures(judge), []

    def compute(room):
        computed.append(len(room))
        room[...] = 7.0
        return room

    for _ in range(3):
        room = np.zeros((10, 4), np.float32)
        assert (features.fill(room, slice(20, 30), compute) == 7.0).all()
    assert len(computed) == (1 if worth else 3)


def test_the_judge_measures_and_says_so():
    said = []
    slow = Judge(1000, said.append)
    assert slow.look(np.ones((100, 10)), compute_seconds=60.0)
    quick = Judge(1000, said.append)
    assert not quick.look(np.ones((100, 10)), compute_seconds=1e-9)
    huge = Judge(10**18, said.append)
    assert not huge.look(np.ones((100, 10)), compute_seconds=60.0)
    assert "kept on disk: reading runs at" in said[0]
    assert "computed again when needed: reading runs at" in said[1]
    assert "do not fit on the disk" in said[2]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_a_full_disk_is_told_with_the_remedy(rows, monkeypatch):
    full = open("/dev/full", "rb+", buffering=0)  # noqa: SIM115 - closed with the rows
    monkeypatch.setattr("lasn.row_files.tempfile.TemporaryFile", lambda **options: full)
    with pytest.raises(OSError, match=r"no room left in .* Set the environment variable TMPDIR"):
        LASNClassifier(**ON_DISK).fit(as_batches(*rows, None)[0])


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_verbose_says_where_features_go(rows, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    X, y = rows
    # 48 MB of features, of which the smallest budget has room for less.
    quick = {"kernel": "laplacian", "landmarks": "uniform", "tol": 0.1, "random_state": 0}
    model = LASNClassifier(1000, verbose=1, **quick, **ON_DISK)
    model.fit(as_batches(X, y > 0, None)[0])
    assert "features are" in terminal.getvalue()


def test_rows_in_a_file_are_read_like_an_array(tmp_path):
    values = np.arange(200.0).reshape(50, 4)
    file = RowFile()
    rows = FileRows(file, file.append(values), values.shape, values.dtype)
    for part in (
        slice(3, 9), slice(None), slice(48, 60), slice(0, 40, 7), np.array([1, 49]),
        np.array([5, 6, 9]), np.array([], dtype=int), np.arange(50) % 3 == 0,
    ):  # fmt: skip
        np.testing.assert_array_equal(rows[part], values[part])
    np.testing.assert_array_equal(rows.part(slice(10, 20))[2:5], values[12:15])
    np.save(tmp_path / "turned.npy", np.asfortranarray(values))
    assert rows_of_mapped_array(np.load(tmp_path / "turned.npy", mmap_mode="r")) is None


@pytest.mark.parametrize("gap", [0, 100, 1 << 20], ids=["alone", "some together", "together"])
def test_chosen_rows_may_be_far_apart(monkeypatch, gap):
    monkeypatch.setattr("lasn.row_files._GAP_BYTES", gap)
    monkeypatch.setattr("lasn.row_files._WINDOW_BYTES", 1000)
    values = sp.random(300, 40, density=0.1, random_state=0, format="csr")
    dense, file = values.toarray(), RowFile()
    whole = FileRows(file, file.append(dense), dense.shape, dense.dtype)
    data = FileRows(file, file.append(values.data), values.data.shape, values.data.dtype)
    indices = FileRows(file, file.append(values.indices), data.shape, values.indices.dtype)
    sparse = SparseFileRows(data, indices, values.indptr, values.shape[1])
    for rows in ([0, 1, 2, 150, 152, 299], [298], [7, 7, 3], range(0, 300, 9)):
        np.testing.assert_array_equal(whole[list(rows)], dense[list(rows)])
        np.testing.assert_array_equal(sparse[list(rows)].toarray(), dense[list(rows)])

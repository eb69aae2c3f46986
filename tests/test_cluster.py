"""Rows on a Dask cluster of real processes: the same model, whatever happens to the workers."""

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_classification

from lasn import LASNClassifier, LASNClassifierCV, LASNRegressor
from lasn.callbacks import observing

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
import dask.array as da  # noqa: E402
import dask.dataframe as dd  # noqa: E402
from distributed import Client, LocalCluster  # noqa: E402

N_ROWS = 6_000
EXACTLY = {"n_landmarks": 30, "tol": 1e-5, "random_state": 0, "dtype": "float64"}
# What Dask's own processes say when they are killed is no business of these tests.
pytestmark = pytest.mark.filterwarnings("ignore")


@contextmanager
def cluster_of(n_workers, **options):
    with (
        LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            dashboard_address=None,
            memory_limit="1GB",
            silence_logs=50,
            **options,
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module", params=[1, 2, 4], ids="{} workers".format)
def client(request):
    with cluster_of(request.param) as client:
        yield client


@pytest.fixture(scope="module")
def two_workers():
    with cluster_of(2) as client:
        yield client


@pytest.fixture(scope="module")
def rows():
    return make_classification(N_ROWS, 6, n_informative=5, n_redundant=0, random_state=0)


@pytest.fixture(scope="module")
def in_memory(rows):
    return LASNClassifier(**EXACTLY).fit(*rows)


def in_chunks(n_chunks, *arrays):
    size = -(-len(arrays[0]) // n_chunks)
    return [da.from_array(array, chunks=(size, *array.shape[1:])) for array in arrays]


@pytest.mark.parametrize("n_chunks", [1, 3, 16])
def test_the_same_model_whatever_the_chunks_and_workers(client, rows, in_memory, n_chunks):
    X, y = in_chunks(n_chunks, *rows)
    model = LASNClassifier(**EXACTLY).fit(X, y)
    np.testing.assert_array_equal(model.landmarks_, in_memory.landmarks_)
    np.testing.assert_allclose(model.coef_, in_memory.coef_, atol=1e-4)
    predicted = model.predict(X)
    assert isinstance(predicted, da.Array)
    assert predicted.chunks == y.chunks
    assert np.mean(predicted.compute() == in_memory.predict(rows[0])) >= 0.9999
    assert model.score(X, y).compute() == pytest.approx(in_memory.score(*rows))


def test_dataframes_sparse_chunks_weights_and_regression(two_workers, rows, in_memory):
    X, y = rows
    frame = pd.DataFrame(X, columns=list("abcdef")).assign(kind=y)
    frames = dd.from_pandas(frame, npartitions=3)
    model = LASNClassifier(**EXACTLY).fit(frames[list("abcdef")], frames["kind"])
    np.testing.assert_allclose(model.coef_, in_memory.coef_, atol=1e-4)
    assert model.feature_names_in_.tolist() == list("abcdef")
    labels = model.predict(frames[list("abcdef")]).compute()
    np.testing.assert_array_equal(labels, in_memory.predict(X))

    sparse = in_chunks(3, X)[0].map_blocks(sp.csr_matrix)
    model = LASNClassifier(**EXACTLY).fit(sparse, y)
    np.testing.assert_allclose(
        model.decision_function(sparse).compute(), in_memory.decision_function(X), atol=1e-4
    )

    weight = np.random.RandomState(0).choice([0.0, 1.0, 3.0], size=N_ROWS)
    model = LASNClassifier(**EXACTLY).fit(*in_chunks(3, X, y, weight))
    expected = LASNClassifier(**EXACTLY).fit(X, y, weight)
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-4)

    three = y + (X[:, 0] > 1.0)
    more_exactly = EXACTLY | {"tol": 1e-9}  # they start from other samples
    model = LASNClassifier(**more_exactly).fit(*in_chunks(3, X, three))
    expected = LASNClassifier(**more_exactly).fit(X, three)
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-4)

    targets = np.column_stack([X[:, 0] ** 2, X[:, 1]])
    model = LASNRegressor(**EXACTLY).fit(*in_chunks(3, X, targets))
    expected = LASNRegressor(**EXACTLY).fit(X, targets)
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-4)
    score = model.score(*in_chunks(3, X, targets)).compute()
    assert score == pytest.approx(expected.score(X, targets))


def test_a_search_looks_at_a_sample_and_fits_all_rows(two_workers, rows):
    search = LASNClassifierCV([1.0, 10.0], n_landmarks=40, cv=3, random_state=0)
    search.fit(*in_chunks(3, *rows))
    assert search.history_[-1]["rows"] == N_ROWS
    probabilities = search.predict_proba(in_chunks(3, rows[0])[0]).compute()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert search.score(*rows) > 0.8


def test_the_bill_does_not_depend_on_the_number_of_rows(two_workers):
    X, y = make_classification(20_000, 6, n_informative=5, n_redundant=0, random_state=0)
    landmarks = X[:50]

    def bytes_a_pass(n_rows):
        model = LASNClassifier(landmarks=landmarks, random_state=0)
        model.fit(*in_chunks(4, X[:n_rows], y[:n_rows]))
        bill = [(record["passes"], record["bytes_moved"]) for record in model.history_]
        assert all(passes > 0 for passes, _ in bill)
        return sum(moved for _, moved in bill) / sum(passes for passes, _ in bill)

    assert bytes_a_pass(20_000) < 2.0 * bytes_a_pass(10_000) < 1_000_000


def test_without_a_client_rows_come_here(rows, in_memory, monkeypatch):
    monkeypatch.setattr("lasn.cluster.active_client", lambda: None)
    X, y = in_chunks(3, *rows)
    model = LASNClassifier(**EXACTLY).fit(X, y)
    np.testing.assert_allclose(model.coef_, in_memory.coef_, atol=1e-4)


class KillsAWorker:
    """Kills a worker process during the second Newton iteration of the last stage."""

    def __init__(self, client):
        self.client, self.killed = client, None

    def stage(self, name):
        self.stage_name = name

    def iteration(self, number, record, model):
        if number == 1 and self.killed is None:
            workers = self.client.scheduler_info(n_workers=-1)["workers"]
            has = self.client.has_what()
            # One that holds something.
            address = max(workers, key=lambda one: len(has.get(one, ())))
            self.killed = self.client.run(os.getpid, workers=[address])[address]
            os.kill(self.killed, signal.SIGKILL)


@pytest.mark.parametrize("time_of_day", ["first", "again"])
def test_a_worker_killed_in_a_fit_changes_nothing(rows, in_memory, time_of_day):
    with cluster_of(4) as client:
        X, y = in_chunks(8, *rows)
        killer = KillsAWorker(client)
        began = time.monotonic()
        with observing(killer):
            model = LASNClassifier(**EXACTLY).fit(X, y)
        assert killer.killed is not None
        assert time.monotonic() - began < 120
        np.testing.assert_allclose(model.coef_, in_memory.coef_, atol=1e-4)
        assert np.mean(model.predict(rows[0]) == in_memory.predict(rows[0])) >= 0.9999


def _dies(block):
    os._exit(1)


def test_a_chunk_that_no_worker_survives_is_told_of(rows):
    with dask.config.set({"distributed.scheduler.allowed-failures": 0}), cluster_of(2):
        X, y = in_chunks(3, *rows)
        deadly = X.map_blocks(_dies, dtype=X.dtype, meta=np.empty((0, 6)))
        with pytest.raises(MemoryError, match=r"3 chunks of X, .* smaller chunks"):
            LASNClassifier().fit(deadly, y)


@contextmanager
def scheduler_and_workers(tmp_path, n_workers=2):
    """Processes started one by one, as on several machines, that talk over TCP on loopback."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}

    def start(*command):
        return subprocess.Popen(
            [sys.executable, "-m", "distributed.cli." + command[0], *command[1:]],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
            cwd=tmp_path,
        )

    port = address.rpartition(":")[2]
    processes = [
        start("dask_scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard"),
        *(
            start("dask_worker", address, "--nthreads", "1", "--no-dashboard", "--no-nanny")
            for _ in range(n_workers)
        ),
    ]
    try:
        yield address
    finally:
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


SCRIPT = """
import sys
import dask.array as da
from distributed import Client
from lasn import LASNClassifier

client = Client(sys.argv[1], timeout=60)
client.wait_for_workers(2, timeout=60)
rng = da.random.default_rng(0)
X = rng.standard_normal((20_000, 5), chunks=(5_000, 5))
y = (X[:, 0] * X[:, 1] > 0).astype(int)
X, y = client.persist([X, y])
if "wait" in sys.argv:
    print("fitting", flush=True)
    LASNClassifier(n_landmarks=100, tol=1e-300, max_iter=10**6).fit(X, y)
model = LASNClassifier(n_landmarks=100, random_state=0).fit(X, y)
print(float(model.score(X, y).compute()))
client.close()
"""


def test_processes_started_by_hand(tmp_path):
    with scheduler_and_workers(tmp_path) as address:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", SCRIPT, address],
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == 0, done.stderr
        assert float(done.stdout) > 0.9


def test_a_client_that_disappears_leaves_no_work(tmp_path):
    with scheduler_and_workers(tmp_path) as address:
        script = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", SCRIPT, address, "wait"],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert script.stdout.readline() == "fitting\n"
        time.sleep(1.0)
        script.kill()
        script.wait(30)
        script.stdout.close()
        with Client(address, timeout=60) as client:
            deadline = time.monotonic() + 30
            while time.monotonic() < deadline:
                left = client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))
                if left == 0:
                    break
                time.sleep(0.2)
            assert left == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda X, y: (X, None), "y is None"),
        (lambda X, y: (X, y[:100]), "inconsistent numbers of samples"),
        (lambda X, y: (X[:, 0], y), "Expected 2D"),
        (lambda X, y: (X[X[:, 0] > 0], y.compute()), "unknown lengths"),
        (lambda X, y: (da.where(X > 3, np.nan, X), y), "contains NaN"),
    ],
    ids=["no y", "short y", "one column", "unknown chunks", "NaN"],
)
def test_collections_that_are_wrong(two_workers, rows, make, message):
    with pytest.raises(ValueError, match=message):
        LASNClassifier().fit(*make(*in_chunks(3, *rows)))

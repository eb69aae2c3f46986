"""The exact solver on a device: NumPy's answer, whatever rows come in and however little memory."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from devices import every_device, torch_device
from sklearn.datasets import make_classification

from lasn import LASNClassifier, certify, row_equations
from lasn.kernels import Kernel

pytestmark = pytest.mark.usefixtures("tensors_are_no_arrays")

TIGHT = {"solver": "exact", "tol": 1e-9, "random_state": 0}


@pytest.fixture
def rows():
    X, y = make_classification(700, 8, n_informative=5, flip_y=0.1, random_state=0)
    return np.vstack([X, X[:50]]), np.concatenate([y, y[:50]])


@pytest.fixture
def small_tiles(monkeypatch):
    """Tiles of at most 200 rows, and conjugate gradients for more than 100 active rows."""
    torch_device("torch")
    from lasn import torch_gram

    monkeypatch.setattr(row_equations, "_DIRECT", 100)
    monkeypatch.setattr(torch_gram, "MOST_ROWS", {"cpu": 200, "cuda": 200})


def assert_same_scores(found, expected, atol=1e-4):
    np.testing.assert_allclose(found, expected, atol=atol)


@every_device
@pytest.mark.parametrize("kept", [0.0, 1e-5, 0.6])
@pytest.mark.parametrize("source", ["memory", "host", "weights"])
def test_rows_that_stay_outside_and_tiles_that_are_not_kept(
    rows, small_tiles, device, source, kept, monkeypatch
):
    torch_device(device)
    from lasn import torch_gram, torch_stream

    X, y = rows
    weight = 1.0 * (np.arange(len(y)) % 5 > 0) if source == "weights" else None
    expected = LASNClassifier(**TIGHT).fit(X, y, weight).decision_function(X)
    monkeypatch.setattr(torch_gram, "_KEPT_SHARE", kept)
    sent, send = [], torch_stream._Way.send
    monkeypatch.setattr(torch_stream._Way, "send", lambda *all: sent.append(all) or send(*all))
    if source != "memory":
        monkeypatch.setattr("lasn.torch_rows.ROWS_SHARE", 1e-9)
    model = LASNClassifier(device=device, memory_limit="1MB", **TIGHT).fit(X, y, weight)
    assert bool(sent) == (source != "memory")
    assert sum(record["cg_steps"] for record in model.history_) > 0
    assert model.history_[-1]["relative_gap"] <= 1e-8
    assert_same_scores(model.decision_function(X), expected)


@every_device
@pytest.mark.parametrize("n_classes", [2, 3])
def test_tensors_come_in_and_go_out(device, n_classes, small_tiles):
    torch, place = torch_device(device)
    X, y = make_classification(
        400, 6, n_informative=5, n_redundant=0, n_classes=n_classes, random_state=0
    )
    expected = LASNClassifier(**TIGHT).fit(X, y).decision_function(X)
    tensors = [torch.from_numpy(array).to(place) for array in (X, y)]
    model = LASNClassifier(device=device, **TIGHT).fit(*tensors)
    found = model.decision_function(tensors[0])
    assert found.device.type == place.type
    assert isinstance(model.landmarks_, np.ndarray)
    assert_same_scores(found.cpu().numpy(), expected)
    assert certify(model, X, y).relative_exact_gap <= 1e-6


@every_device
@pytest.mark.parametrize("budget", [0, 10**9])
def test_products_without_the_matrix(device, budget, rng, small_tiles, monkeypatch):
    """What CUDA does with the rbf kernel, in plain torch elsewhere."""
    torch, place = torch_device(device)
    from lasn import torch_kernels
    from lasn.torch_gram import TorchGram

    monkeypatch.setattr(torch_kernels._RbfColumns, "is_implicit", True)
    X = rng.normal(size=(900, 5)).astype(np.float32)
    kernel, V = Kernel("rbf", 0.2), rng.normal(size=(900, 2))
    gram = TorchGram(kernel, torch.from_numpy(X).to(place), np.float32, budget, group_rows=250)
    gram.add(np.arange(900))
    expected = kernel(X, X) @ V
    for columns in (V, V[:, :1]):
        found = gram.product(columns)
        np.testing.assert_allclose(found, expected[:, : columns.shape[1]], atol=1e-4)
    some = np.arange(0, 900, 7)
    np.testing.assert_allclose(
        gram.part(some).cpu().numpy(), kernel(X[some], X[some]), rtol=1e-5, atol=1e-6
    )


@every_device
@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "polynomial"])
@pytest.mark.parametrize("n_features", [1000, 5000])
def test_sparse_rows_of_few_and_of_many_features(device, kernel, n_features, small_tiles, rng):
    torch_device(device)
    X = sp.random(400, n_features, density=0.02, format="csr", random_state=rng)
    y = (X @ rng.normal(size=n_features) > 0).astype(int)
    settings = {"kernel": kernel, "C": 1.0, **TIGHT}
    expected = LASNClassifier(**settings).fit(X, y).decision_function(X)
    model = LASNClassifier(device=device, **settings).fit(X, y)
    assert sp.issparse(model.landmarks_)
    assert_same_scores(model.decision_function(X), expected)


@every_device
def test_a_kernel_function_gets_tensors(device, small_tiles, rows):
    torch, _ = torch_device(device)
    X, y = rows
    X = np.vstack([X, X + 0.5, X - 0.5])  # more rows than float64 is taken for
    y = np.tile(y, 3)

    def rational(A, B):
        return 1.0 / (1.0 + torch.cdist(A, B) ** 2)

    def of_arrays(A, B):
        return 1.0 / (1.0 + ((A[:, None, :] - B[None, :, :]) ** 2).sum(axis=2))

    settings = {"solver": "exact", "random_state": 0, "C": 1.0}
    expected = LASNClassifier(kernel=of_arrays, **settings).fit(X, y)
    model = LASNClassifier(kernel=rational, device=device, **settings).fit(X, y)
    assert model.history_[-1]["relative_gap"] <= 1e-4
    assert model.history_[-1]["value"] == pytest.approx(expected.history_[-1]["value"], rel=2e-4)


@every_device
def test_a_model_of_numpys_is_where_a_fit_on_a_device_starts(device, rows):
    torch_device(device)
    X, y = rows
    model = LASNClassifier(warm_start=True, **TIGHT).fit(X, y)
    scores = model.decision_function(X)
    model.set_params(device=device).fit(X, y)
    assert model.n_iter_ <= 2
    assert_same_scores(model.decision_function(X), scores)
    approximate = LASNClassifier(30, warm_start=True, random_state=0, tol=1e-7).fit(X, y)
    approximate.set_params(device=device, solver="exact").fit(X, y)
    assert_same_scores(approximate.decision_function(X), scores)


class Shortage:
    """Stands for a function for which memory runs out at its first calls."""

    def __init__(self, torch, function, n_times):
        self.torch, self.function, self.n_times = torch, function, n_times

    def __call__(self, *arguments, **options):
        if self.n_times:
            self.n_times -= 1
            raise self.torch.OutOfMemoryError("as a GPU says it")
        return self.function(*arguments, **options)


@every_device
@pytest.mark.parametrize(
    ("where", "n_times"), [("_columns", 1), ("_product", 3), ("_values", 2), ("factorize", 2)]
)
def test_where_memory_runs_out_fewer_tiles_are_kept(
    device, where, n_times, rows, small_tiles, monkeypatch
):
    torch, _ = torch_device(device)
    from lasn.torch_gram import TorchGram

    X, y = rows
    if where == "_values":  # the matrix of few active rows
        monkeypatch.setattr(row_equations, "_DIRECT", 3000)
    expected = LASNClassifier(device=device, **TIGHT).fit(X, y).decision_function(X)
    holder = row_equations if where == "factorize" else TorchGram
    shortage = Shortage(torch, getattr(holder, where), n_times)
    monkeypatch.setattr(holder, where, lambda *all: shortage(*all))
    with pytest.warns(UserWarning, match=r"going on with .* GB of kernel values kept") as caught:
        model = LASNClassifier(device=device, **TIGHT).fit(X, y)
    assert len(caught) == n_times
    assert {warning.filename for warning in caught} == {__file__}
    assert_same_scores(model.decision_function(X), expected)


@every_device
def test_where_that_is_not_enough_the_fit_begins_again(device, rows, small_tiles, monkeypatch):
    torch, _ = torch_device(device)
    from lasn.torch_gram import TorchGram

    X, y = rows
    expected = LASNClassifier(device=device, **TIGHT).fit(X, y).decision_function(X)
    shortage = Shortage(torch, TorchGram._product, 10)
    monkeypatch.setattr(TorchGram, "_product", lambda *all: shortage(*all))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = LASNClassifier(device=device, **TIGHT).fit(X, y)
    words = [str(warning.message) for warning in caught]
    assert any("0.00 GB of kernel values kept" in one for one in words)
    assert any("rows that stay in the host's memory" in one for one in words)
    assert_same_scores(model.decision_function(X), expected)

"""Fits on every device: the same models as NumPy's, whatever rows come in."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from devices import every_device, torch_device
from sklearn.base import clone

from lasn import LASNClassifier, LASNClassifierCV, LASNRegressor, NystroemMap, certify
from lasn.arrays import to_numpy

pytestmark = pytest.mark.usefixtures("tensors_are_no_arrays")


def _same_fit(estimator, X, y, device, sample_weight=None, **settings):
    """Fit by NumPy and on the device; objectives and predictions must agree."""
    here = estimator(**settings).fit(X, y, sample_weight)
    there = estimator(device=device, **settings).fit(X, y, sample_weight)
    np.testing.assert_allclose(
        there.history_[-1]["value"], here.history_[-1]["value"], rtol=1e-4, atol=1e-8
    )
    if estimator is LASNClassifier:
        assert np.mean(there.predict(X) == here.predict(X)) >= 0.999
    else:
        np.testing.assert_allclose(there.predict(X), here.predict(X), atol=0.02)
    return there


@every_device
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("loss", ["squared_hinge", "log_loss"])
@pytest.mark.parametrize("kernel", ["rbf", "polynomial", "tanh", "laplacian", "linear"])
def test_classifiers_are_numpys(three_classes, device, kernel, loss, dtype):
    torch_device(device)
    X, y = three_classes
    settings = {"kernel": kernel, "loss": loss, "dtype": dtype, "C": 1.0, "tol": 1e-5}
    model = _same_fit(LASNClassifier, X, y, device, landmarks=X[:20], **settings)
    steers = " (TF32 in preconditioners)" if (device, dtype) == ("cuda", "float32") else ""
    assert {record["precision"] for record in model.history_} == {dtype + steers}


@every_device
@pytest.mark.parametrize("solver", ["newton", "newton-cg", "auto"])
@pytest.mark.parametrize("landmarks", ["boundary", "kmeans", "class_kmeans", "uniform"])
def test_every_way_to_choose_landmarks_and_to_solve(binary, device, landmarks, solver):
    torch_device(device)
    X, y = binary
    settings = {"landmarks": landmarks, "n_landmarks": 30, "solver": solver, "tol": 1e-6}
    _same_fit(LASNClassifier, X, y, device, random_state=0, **settings)


@every_device
@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "linear"])
def test_regressors_are_numpys(regression, device, kernel):
    torch_device(device)
    X, y = regression
    _same_fit(LASNRegressor, X, y, device, landmarks=X[:20], kernel=kernel, tol=1e-6)
    targets = np.column_stack([y, -2.0 * y])
    _same_fit(LASNRegressor, X, targets, device, n_landmarks=20, kernel=kernel, random_state=0)


@every_device
def test_weights_count_as_on_the_cpu(three_classes, device, rng):
    torch_device(device)
    X, y = three_classes
    weight = rng.randint(3, size=len(y)).astype(float)
    settings = {"landmarks": X[:20], "class_weight": "balanced", "tol": 1e-6}
    _same_fit(LASNClassifier, X, y, device, sample_weight=weight, **settings)


@every_device
@pytest.mark.parametrize("kernel", ["rbf", "polynomial", "laplacian", "linear"])
def test_sparse_rows(three_classes, device, kernel):
    torch_device(device)
    X, y = three_classes
    settings = {"landmarks": X[:20], "kernel": kernel, "tol": 1e-6}
    _same_fit(LASNClassifier, sp.csr_matrix(X), y, device, **settings)


@every_device
@pytest.mark.parametrize("kernel", ["rbf", "polynomial", "laplacian"])
def test_wide_sparse_rows_stay_sparse(device, kernel, rng):
    torch_device(device)
    X = sp.random(200, 6000, density=0.005, format="csr", random_state=rng)
    y = (X @ rng.normal(size=6000) > 0).astype(int)
    _same_fit(LASNClassifier, X, y, device, landmarks=X[:30], kernel=kernel)


@every_device
def test_the_linear_kernel_of_wide_sparse_rows_is_the_cpus(device, rng):
    torch_device(device)
    X = sp.random(50, 6000, density=0.005, format="csr", random_state=rng)
    with pytest.raises(ValueError, match='6000 features needs device="cpu"'):
        LASNClassifier(kernel="linear", device=device).fit(X, np.arange(50) % 2)


@every_device
def test_a_kernel_function_gets_tensors(binary, device):
    torch, place = torch_device(device)
    X, y = binary
    seen = set()

    def kernel(A, B):
        seen.add((type(A), A.device.type))
        return (A @ B.T + 1.0) ** 2

    model = LASNClassifier(20, kernel=kernel, device=device, random_state=0).fit(X, y)
    assert seen == {(torch.Tensor, place.type)}
    assert model.score(X, y) > 0.8


@pytest.fixture(scope="module")
def many_rows():
    """30 000 rows of 6 features with a curved boundary, and a test part."""
    rng = np.random.RandomState(0)
    X = rng.normal(size=(31_000, 6)).astype(np.float32)
    y = (np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=len(X)) > 0).astype(int)
    return X[:30_000], y[:30_000], X[30_000:]


@every_device
@pytest.mark.parametrize("implicit", [False, True])
@pytest.mark.parametrize("solver", ["auto", "newton"])
def test_many_rows(many_rows, device, implicit, solver, monkeypatch):
    torch_device(device)
    from lasn import torch_kernels

    monkeypatch.setattr(torch_kernels._RbfColumns, "is_implicit", implicit)
    X, y, X_test = many_rows
    landmarks = LASNClassifier(200, random_state=0).fit(X[:5000], y[:5000]).landmarks_
    settings = {"landmarks": landmarks, "dtype": "float32", "random_state": 0, "tol": 1e-4}
    settings["solver"] = solver
    here = LASNClassifier(**settings).fit(X, y)
    there = LASNClassifier(device=device, **settings).fit(X, y)
    values = [model.history_[-1]["value"] for model in (here, there)]
    assert values[1] == pytest.approx(values[0], rel=1e-4)
    assert np.mean(here.predict(X_test) == there.predict(X_test)) >= 0.998


@every_device
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("method", ["boundary", "class_kmeans"])
def test_many_rows_that_choose_their_landmarks(many_rows, device, method, n_classes):
    """Samples of samples: the coarse fit of a sample draws its own."""
    torch, place = torch_device(device)
    X, y, X_test = many_rows
    if n_classes == 3:
        y = y + (X[:, 3] > 1.0)
    settings = {"landmarks": method, "n_landmarks": 160, "dtype": "float32", "random_state": 0}
    here = LASNClassifier(**settings).fit(X, y)
    rows, labels = (torch.from_numpy(array.copy()).to(place) for array in (X, y))
    there = LASNClassifier(device=device, **settings).fit(rows, labels)
    values = [np.sum(model.history_[-1]["value"]) for model in (here, there)]
    # Other samples, other landmarks: seeds differ by as much on the CPU alone.
    assert values[1] == pytest.approx(values[0], rel=0.05)
    assert np.mean(here.predict(X_test) == there.predict(X_test)) >= 0.93
    again = LASNClassifier(device=device, **settings).fit(rows, labels)
    np.testing.assert_array_equal(again.landmarks_, there.landmarks_)


@every_device
def test_many_rows_of_the_host(many_rows, device, monkeypatch):
    """Rows that the device has no room for are copied to it block by block."""
    torch_device(device)
    from lasn import torch_rows

    monkeypatch.setattr(torch_rows, "ROWS_SHARE", 1e-9)
    X, y, X_test = many_rows
    settings = {"n_landmarks": 100, "random_state": 0, "device": device}
    outside = LASNClassifier(**settings).fit(X, y)
    monkeypatch.undo()
    inside = LASNClassifier(**settings).fit(X, y)
    values = [model.history_[-1]["value"] for model in (outside, inside)]
    assert values[1] == pytest.approx(values[0], rel=1e-3)
    assert np.mean(outside.predict(X_test) == inside.predict(X_test)) >= 0.99


@every_device
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_a_search_on_a_device_is_numpys(three_classes, device, kernel):
    torch, place = torch_device(device)
    X, y = three_classes
    settings = {"Cs": [0.1, 1.0], "gammas": [0.1, 1.0], "landmarks": X[:40], "cv": 3, "tol": 1e-5}
    here = LASNClassifierCV(kernel=kernel, **settings).fit(X, y)
    there = LASNClassifierCV(kernel=kernel, device=device, **settings)
    there.fit(torch.from_numpy(X.copy()).to(place), torch.from_numpy(y.copy()).to(place))
    np.testing.assert_allclose(
        there.cv_results_["mean_test_score"], here.cv_results_["mean_test_score"], atol=0.01
    )
    assert np.mean(there.predict(X) == here.predict(X)) >= 0.99
    tensors = torch.from_numpy(X.copy()).to(place)
    for probabilities in (
        there.predict_proba(tensors),
        torch.exp(there.predict_log_proba(tensors)),
    ):
        assert probabilities.device == tensors.device
        np.testing.assert_allclose(to_numpy(probabilities), there.predict_proba(X), atol=1e-5)


@every_device
def test_memory_limit_changes_no_model(many_rows, device):
    torch_device(device)
    X, y, X_test = many_rows
    X, y = X[:8000], y[:8000]
    settings = {"landmarks": X[:100], "device": device, "dtype": "float32", "tol": 1e-5}
    free = LASNClassifier(**settings).fit(X, y)
    tight = LASNClassifier(memory_limit="1MB", **settings).fit(X, y)
    np.testing.assert_allclose(
        tight.decision_function(X_test), free.decision_function(X_test), atol=0.02
    )


@every_device
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_tensors_come_back_as_they_went_in(three_classes, device, dtype):
    torch, place = torch_device(device)
    X, y = three_classes
    rows = torch.from_numpy(X.astype(dtype)).to(place)
    labels = torch.from_numpy(y.copy()).to(place)
    settings = {"landmarks": X[:20], "loss": "log_loss"}
    expected = LASNClassifier(**settings).fit(X.astype(dtype), y)
    model = LASNClassifier(device=device, **settings).fit(rows, labels)
    for method in ("predict", "decision_function", "predict_proba", "predict_log_proba"):
        found = getattr(model, method)(rows)
        assert found.device == rows.device
        known = getattr(expected, method)(X.astype(dtype))
        np.testing.assert_allclose(found.cpu().numpy(), known, atol=0.02)
    assert model.decision_function(rows).dtype == rows.dtype
    assert isinstance(model.predict(X), np.ndarray)
    assert isinstance(model.landmarks_, np.ndarray)
    assert model.score(rows, labels) == expected.score(X, y)
    weight = torch.ones(len(y), device=place)
    again = LASNClassifier(device=device, **settings).fit(rows, labels, weight)
    np.testing.assert_allclose(again.coef_, model.coef_, atol=1e-8)


@every_device
def test_labels_that_are_text_come_back_as_text(binary, device):
    torch, place = torch_device(device)
    X, y = binary
    names = np.array(["no", "yes"])[y]
    rows = torch.from_numpy(X.copy()).to(place)
    model = LASNClassifier(20, device=device, random_state=0).fit(rows, names)
    assert set(model.predict(rows)) == {"no", "yes"}
    assert model.score(rows, names) > 0.8


@every_device
def test_regression_with_tensors(regression, device):
    torch, place = torch_device(device)
    X, y = regression
    rows, targets = (torch.from_numpy(a.copy()).to(place) for a in (X, np.stack([y, -y], axis=1)))
    expected = LASNRegressor(20, random_state=0).fit(X, np.stack([y, -y], axis=1))
    model = LASNRegressor(20, device=device, random_state=0).fit(rows, targets)
    np.testing.assert_allclose(model.predict(rows).cpu().numpy(), expected.predict(X), atol=0.02)
    assert model.score(rows, targets) == pytest.approx(model.score(X, np.stack([y, -y], axis=1)))


class _Shared:
    """An array of another library: it has DLPack and a namespace, and nothing else."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __array_namespace__(self, api_version=None):
        return _Shared

    @staticmethod
    def from_dlpack(array):
        return _Shared(np.from_dlpack(array))


@pytest.mark.parametrize("device", ["cpu", "torch"])
def test_arrays_of_other_libraries(binary, device):
    torch_device("torch")
    X, y = binary
    model = LASNClassifier(20, device=device, random_state=0).fit(_Shared(X.copy()), y)
    found = model.decision_function(_Shared(X.copy()))
    assert isinstance(found, _Shared)
    expected = LASNClassifier(20, random_state=0).fit(X, y).decision_function(X)
    np.testing.assert_allclose(found.array, expected, atol=0.02)
    assert isinstance(model.predict(_Shared(X.copy())), _Shared)
    features = NystroemMap(20, device=device, random_state=0).fit(_Shared(X.copy()))
    mapped = features.transform(_Shared(X.copy()))
    assert isinstance(mapped, _Shared)
    np.testing.assert_allclose(mapped.array, features.transform(X), atol=1e-9)


@every_device
def test_tensors_are_certified(binary, device):
    torch, place = torch_device(device)
    X, y = binary
    model = LASNClassifier(20, device=device, random_state=0).fit(X, y)
    rows, labels = (torch.from_numpy(array.copy()).to(place) for array in (X, y))
    weight = torch.ones(len(y), device=place)
    found = certify(model, rows, labels, weight)
    expected = certify(model, X, y)
    assert found.exact_gap == pytest.approx(expected.exact_gap)
    assert found.guaranteed_share == expected.guaranteed_share


def test_tensors_are_taken_by_numpy_too(binary):
    torch, _ = torch_device("torch")
    X, y = binary
    rows = torch.from_numpy(X.copy())
    model = LASNClassifier(20, random_state=0).fit(rows, torch.from_numpy(y.copy()))
    expected = LASNClassifier(20, random_state=0).fit(X, y)
    assert torch.equal(model.predict(rows), torch.from_numpy(expected.predict(X)))


@every_device
def test_models_are_pickled_cloned_and_started_warm(binary, device):
    torch_device(device)
    X, y = binary
    model = LASNClassifier(20, device=device, warm_start=True, random_state=0).fit(X, y)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.decision_function(X), model.decision_function(X))
    assert clone(model).device == device
    landmarks = model.landmarks_
    model.set_params(C=20.0).fit(X, y)
    np.testing.assert_array_equal(model.landmarks_, landmarks)
    copy.set_params(device="cpu")
    np.testing.assert_allclose(
        copy.decision_function(X), pickle.loads(pickle.dumps(copy)).decision_function(X)
    )

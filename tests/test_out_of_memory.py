"""A device whose memory runs out, anywhere: the work goes on with less of it, and says so."""

import warnings

import numpy as np
import pytest
from devices import every_device, torch_device

from lasn import LASNClassifier, LASNClassifierCV, LASNRegressor, NystroemMap
from lasn.kernels import Kernel
from lasn.memory import for_each_part, is_out_of_memory
from lasn.shared_features import SharedFeatures


class Shortage:
    """Stands for a function for which memory runs out at the given calls, and not at others."""

    def __init__(self, torch, function, *calls):
        self.torch, self.function, self.calls, self.count = torch, function, calls, 0

    def __call__(self, *arguments, **options):
        self.count += 1
        if self.count in self.calls:
            raise self.torch.OutOfMemoryError("as a GPU says it")
        return self.function(*arguments, **options)

    def __deepcopy__(self, memo):
        return self


@pytest.fixture
def run_short(monkeypatch):
    """``run_short(holder, name, n_times)``: memory runs out so often when that is called."""

    def run_short(holder, name, n_times):
        torch, _ = torch_device("torch")
        shortage = Shortage(torch, getattr(holder, name), *range(1, n_times + 1))
        monkeypatch.setattr(holder, name, lambda *all, **options: shortage(*all, **options))

    return run_short


def shortage_kernel(torch, *calls):
    """The rbf kernel, gamma = 0.1, for which memory runs out at the given calls."""
    return Shortage(torch, lambda A, B: torch.exp(-0.1 * torch.cdist(A, B) ** 2), *calls)


FULL = "The device ran out of memory; going on with"
REMEDIES = ["rows that stay in the host's memory", "the CPU"]


@every_device
@pytest.mark.parametrize("n_times", [1, 2, 3])
@pytest.mark.parametrize("stage", ["rows", "gamma", "landmarks", "map"])
@pytest.mark.parametrize("estimator", [LASNClassifier, LASNRegressor, NystroemMap])
def test_every_stage_backs_off(binary, run_short, estimator, stage, n_times, device):
    torch, _ = torch_device(device)
    from lasn import features, gamma, problem, torch_rows, training

    is_map = estimator is NystroemMap
    holder, name = {
        "rows": (torch_rows, "place_rows"),
        "gamma": (gamma, "column_moments"),
        "landmarks": (features if is_map else problem, "choose_landmarks"),
        "map": (features, "mapping_matrix") if is_map else (training, "mapping_among"),
    }[stage]
    X, y = binary
    settings = {"n_landmarks": 20, "device": device, "random_state": 0}
    expected = estimator(**settings, landmarks="class_kmeans").fit(X, y)
    run_short(holder, name, n_times)
    model = estimator(**settings, landmarks="class_kmeans")
    if n_times > len(REMEDIES):
        with pytest.warns(UserWarning, match=FULL), pytest.raises(torch.OutOfMemoryError):
            model.fit(X, y)
        return
    with pytest.warns(UserWarning, match=FULL) as caught:
        model.fit(X, y)
    assert len(caught) == n_times
    for warning, remedy in zip(caught, REMEDIES, strict=False):
        assert f"{FULL} {remedy}." in str(warning.message)
        assert warning.filename == __file__
    np.testing.assert_allclose(model.gamma_, expected.gamma_, rtol=1e-9)
    np.testing.assert_allclose(model.landmarks_, expected.landmarks_, rtol=1e-6)
    if not is_map:
        np.testing.assert_allclose(
            model.history_[-1]["value"], expected.history_[-1]["value"], rtol=1e-4
        )


@every_device
def test_rows_that_came_on_the_device_stay_there_or_go_to_the_cpu(binary, run_short, device):
    torch, place = torch_device(device)
    from lasn import training

    X, y = (torch.from_numpy(array.copy()).to(place) for array in binary)
    model = LASNClassifier(20, device=device, random_state=0)
    expected = model.fit(X, y).decision_function(X)
    run_short(training, "mapping_among", 1)
    remedy = REMEDIES[1] if place.type == "cuda" else REMEDIES[0]
    with pytest.warns(UserWarning, match=f"going on with {remedy}"):
        found = model.fit(X, y).decision_function(X)
    assert found.device == X.device
    torch.testing.assert_close(found, expected, atol=1e-3, rtol=1e-3)


@every_device
def test_solving_backs_off_to_smaller_blocks(binary, device):
    torch, _ = torch_device(device)
    X, y = binary
    kernel = shortage_kernel(torch, 2)  # after the kernel among the landmarks
    settings = {"landmarks": X[:20], "kernel": kernel, "device": device}
    with pytest.warns(UserWarning, match=r"ran out of memory; going on with blocks of .* GB"):
        found = LASNClassifier(**settings).fit(X, y)
    expected = LASNClassifier(**settings).fit(X, y)
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-6)


@every_device
@pytest.mark.parametrize("made", ["classes", "targets"])
def test_what_is_made_of_labels_is_made_on_the_cpu(rng, run_short, made, device):
    torch, place = torch_device(device)
    from lasn import estimators

    X = rng.normal(size=(12_000, 3)).astype(np.float32)
    rows, labels = torch.from_numpy(X).to(place), torch.from_numpy(1 * (X[:, 0] > 0)).to(place)
    settings = {"n_landmarks": 20, "device": device, "random_state": 0}
    holder, name, words = {
        "classes": (torch.Tensor, "unique", "the list of classes"),
        "targets": (estimators, "class_weights", "targets"),
    }[made]
    run_short(holder, name, 1)
    with pytest.warns(UserWarning, match=f"going on with {words} made on the CPU"):
        model = LASNClassifier(**settings).fit(rows, labels)
    assert model.score(rows, labels) > 0.99


@every_device
def test_prediction_backs_off_to_fewer_rows_and_then_to_the_cpu(rng, device):
    torch, _ = torch_device(device)
    X = rng.normal(size=(20_000, 6)).astype(np.float32)
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    kernel = shortage_kernel(torch)
    model = LASNClassifier(30, kernel=kernel, device=device, random_state=0).fit(X, y)
    expected = model.decision_function(X)
    kernel.calls = (kernel.count + 1,)
    with pytest.warns(UserWarning, match=r"ran out of memory; going on with \d+ rows at a time"):
        found = model.decision_function(X)
    np.testing.assert_allclose(found, expected, atol=1e-6)

    kernel.calls = range(kernel.count + 1, kernel.count + 1000)
    with (
        pytest.warns(UserWarning, match=FULL) as caught,
        pytest.raises(torch.OutOfMemoryError),
    ):
        model.decision_function(X)
    remedies = [str(warning.message).removeprefix(FULL) for warning in caught]
    outside, cpu = (
        next(i for i, one in enumerate(remedies) if one.startswith(f" {remedy}."))
        for remedy in REMEDIES
    )
    assert 0 < outside < cpu
    kernel.calls = range(kernel.count + 1, kernel.count + 2 + cpu)
    with pytest.warns(UserWarning, match=FULL) as caught:
        found = model.decision_function(X)
    assert len(caught) == cpu + 1
    np.testing.assert_allclose(found, expected, atol=1e-4)


@every_device
def test_a_search_backs_off_to_less_memory_and_then_to_the_cpu(binary, device):
    torch, _ = torch_device(device)
    X, y = binary
    settings = {"Cs": [1.0, 10.0], "gammas": [0.1], "landmarks": X[:20], "cv": 3, "device": device}
    expected = LASNClassifierCV(kernel=shortage_kernel(torch), **settings).fit(X, y)
    for n_times, remedy in ((1, "50 % of what is free there"), (11, "the CPU")):
        kernel = shortage_kernel(torch, *range(1, n_times + 1))
        with pytest.warns(UserWarning, match=FULL) as caught:
            found = LASNClassifierCV(kernel=kernel, **settings).fit(X, y)
        assert f"going on with {remedy}" in str(caught[-1].message)
        np.testing.assert_allclose(
            found.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"]
        )


@every_device
def test_the_last_fit_of_a_search_backs_off(binary, run_short, device):
    torch_device(device)
    from lasn import training

    X, y = binary
    settings = {"Cs": [1.0], "gammas": [0.1], "landmarks": X[:20], "cv": 3, "device": device}
    run_short(training, "mapping_among", 2)
    with pytest.warns(UserWarning, match=FULL) as caught:
        model = LASNClassifierCV(**settings).fit(X, y)
    assert len(caught) == 2
    assert model.score(X, y) > 0.8


@every_device
def test_features_of_a_search_are_made_again_once_they_were_too_large(binary, device):
    _, place = torch_device(device)
    X, _ = binary
    kernel = Kernel("rbf", gamma=0.1)
    dtype = np.dtype(np.float32)
    features = SharedFeatures(X, kernel, X[:20], dtype, "auto", None, 1, place)
    before = features.at(0.1, 1)
    assert features.at(0.1, 1) is before
    features.shrink()
    assert features.at(0.1, 1) is not before


def test_parts_of_rows_get_shorter_and_none_is_left_out():
    torch, _ = torch_device("torch")
    seen = []
    work = Shortage(torch, lambda rows: seen.append((rows.start, rows.stop)), 1, 3)
    with pytest.warns(UserWarning, match="rows at a time"):
        for_each_part(20_000, 16_000, work)
    assert seen == [(0, 4000), *((i, min(i + 1024, 20_000)) for i in range(4000, 20_000, 1024))]


@pytest.mark.parametrize("estimator", [LASNClassifier, LASNClassifierCV])
def test_without_a_device_a_kernel_keeps_its_own_error(binary, estimator):
    """No warning, which would be an error here, and no second attempt."""
    calls = []

    def kernel(X, L):
        calls.append(len(X))
        raise RuntimeError("out of memory, says the kernel")

    with pytest.raises(RuntimeError, match="says the kernel"):
        estimator(kernel=kernel).fit(*binary)
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (RuntimeError("CUDA error: out of memory"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"), True),
        (RuntimeError("MPS backend out of memory (MPS allocated: 9 GB, max allowed: 9 GB)"), True),
        (RuntimeError("The size of tensor a (2) must match the size of tensor b (3)"), False),
        (ValueError("out of memory"), False),
        (MemoryError(), False),
    ],
)
def test_words_for_a_memory_that_is_full(error, expected):
    assert is_out_of_memory(error) is expected


@pytest.fixture
def small_gpu():
    """A GPU of which this process may have 192 MiB more than it has."""
    torch, _ = torch_device("cuda")
    torch.cuda.empty_cache()
    room = torch.cuda.memory_allocated() + (192 << 20)
    torch.cuda.set_per_process_memory_fraction(room / torch.cuda.mem_get_info()[1])
    yield torch
    torch.cuda.set_per_process_memory_fraction(1.0)
    torch.cuda.empty_cache()


def test_a_gpu_that_is_really_full(small_gpu):
    """256 MiB of rows, and no word of the driver that there is less room than it has."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1 << 20, 64), dtype=np.float32)
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    settings = {"n_landmarks": 100, "gamma": 0.02, "random_state": 0, "device": "cuda"}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = LASNClassifier(**settings, dtype="float32").fit(X, y)
        labels = model.predict(X)
        F = NystroemMap(**settings).fit(X).transform(X[:100_000])
    words = [str(warning.message) for warning in caught]
    assert any("going on with rows that stay in the host's memory" in one for one in words)
    assert all("ran out of memory" in one for one in words)
    assert np.mean(labels == y) > 0.6
    assert np.isfinite(F).all()


def test_the_exact_solver_on_a_gpu_that_is_really_full(small_gpu):
    """One tile has more than those 192 MiB: kernel values are computed when they are needed."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((11_000, 20), dtype=np.float32)
    y = (X[:, 0] * X[:, 1] + rng.standard_normal(len(X)) > 0).astype(int)
    model = LASNClassifier(
        solver="exact", gamma=0.05, dtype="float32", random_state=0, device="cuda"
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    words = [str(warning.message) for warning in caught]
    assert any("going on with 0.00 GB of kernel values kept" in one for one in words)
    assert all("ran out of memory" in one for one in words)
    assert model.history_[-1]["rows"] > 8192
    assert model.history_[-1]["relative_gap"] <= 1e-4

"""Devices: names, errors, products and rows on them."""

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from devices import every_device, torch_device

from lasn import LASNClassifier
from lasn.arrays import bincount
from lasn.devices import give_back, resolve_device
from lasn.factors import factorize
from lasn.features import mapping_matrix
from lasn.kernels import Kernel

# Rows, landmarks and features of products.
_SHAPES = [(1, 1, 1), (1000, 77, 28), (5000, 300, 3), (70_001, 130, 20), (3000, 100, 110)]
_WITHOUT_TORCH = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            raise ModuleNotFoundError("No module named 'torch'")

sys.meta_path.insert(0, Missing())
import numpy as np
from lasn import LASNClassifier
try:
    LASNClassifier(device="cuda").fit(np.eye(4), [0, 1, 0, 1])
except ImportError as error:
    print(error)
LASNClassifier(2).fit(np.eye(4), [0, 1, 0, 1])
"""


def test_without_torch_the_error_says_what_to_install():
    done = subprocess.run([sys.executable, "-c", _WITHOUT_TORCH], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "pip install 'lasn[gpu]'" in done.stdout


@pytest.mark.parametrize("name", ["tpu", "cuda:", "cuda:x", "torch:1", "", None, 0])
def test_unknown_devices_are_named(binary, name):
    with pytest.raises(ValueError, match=r"device=.*'cpu', 'cuda', 'cuda:N'"):
        LASNClassifier(device=name).fit(*binary)


def test_a_missing_gpu_is_named(binary):
    torch, _ = torch_device("torch")
    n_gpus = torch.cuda.device_count()
    with pytest.raises(ValueError, match=f"sees {n_gpus} CUDA GPUs"):
        LASNClassifier(device=f"cuda:{n_gpus}").fit(*binary)
    if not torch.backends.mps.is_available():
        with pytest.raises(ValueError, match="mps"):
            LASNClassifier(device="mps").fit(*binary)


def test_the_cpu_is_numpys():
    assert resolve_device("cpu") is None


@every_device
def test_bad_tensors_are_named(binary, device):
    torch, place = torch_device(device)
    X = torch.from_numpy(binary[0].copy()).to(place)
    y = torch.from_numpy(binary[1].copy()).to(place)
    model = LASNClassifier(20, device=device, random_state=0)
    with pytest.raises(ValueError, match="NaN or infinity"):
        model.fit(X / 0.0, y)
    with pytest.raises(ValueError, match="1D array"):
        model.fit(X[:, 0], y)
    with pytest.raises(ValueError, match="200 rows"):
        model.fit(X, y[:-1])
    with pytest.raises(ValueError, match="two classes"):
        model.fit(X, y * 0)
    with pytest.raises(ValueError, match="negative"):
        model.fit(X, y, -torch.ones(200))
    with pytest.raises(ValueError, match="features"):
        model.fit(X, y).predict(X[:, :3])
    with pytest.raises(ValueError, match="Complex"):
        model.fit(X + 1j, y)


@every_device
@pytest.mark.parametrize("dtype", ["int64", "float16", "bfloat16"])
def test_other_numbers_become_floats(binary, device, dtype):
    torch, place = torch_device(device)
    X = (4 * torch.from_numpy(binary[0].copy())).to(getattr(torch, dtype)).to(place)
    model = LASNClassifier(20, device=device, random_state=0).fit(X, binary[1])
    assert model.score(X, binary[1]) > 0.8


@every_device
def test_what_the_user_set_for_products_is_left_alone(binary, device):
    torch, _ = torch_device(device)
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        rough = LASNClassifier(20, device=device, dtype="float32", random_state=0).fit(*binary)
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before)
    exact = LASNClassifier(20, device=device, dtype="float32", random_state=0).fit(*binary)
    np.testing.assert_allclose(rough.coef_, exact.coef_, rtol=1e-3, atol=1e-3)


@every_device
@pytest.mark.parametrize("offset", [0.0, 1000.0])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kernel", ["rbf", "polynomial", "tanh", "laplacian", "linear"])
def test_kernel_values_are_numpys(device, kernel, dtype, offset, rng):
    torch, place = torch_device(device)
    X = (rng.normal(size=(50, 7)) + offset).astype(dtype)
    settled = Kernel(kernel, gamma=0.1 / (1.0 + offset) ** (kernel == "polynomial"))
    expected = settled(X.astype(float), X[:9].astype(float))
    rows = torch.from_numpy(X).to(place)
    found = settled(rows, rows[:9], dtype).cpu().numpy()
    np.testing.assert_allclose(
        found, expected, rtol=1e-4 if dtype == "float32" else 1e-9, atol=1e-6
    )


@every_device
@pytest.mark.parametrize("n_columns", [1, 3, 16, 32, 40])
@pytest.mark.parametrize("shape", _SHAPES)
def test_products_without_the_matrix(device, shape, n_columns):
    """K V and K^T U of the fused kernel, and of plain torch, against the matrix in float64."""
    torch, place = torch_device(device)
    from lasn.torch_kernels import ImplicitKernel, plain_product

    n, k, p = shape
    random = torch.Generator().manual_seed(0)
    X = torch.randn((n, p), generator=random).to(place)
    columns = Kernel("rbf", gamma=0.05).against(X[:k].clone(), np.float32)
    A, B = columns.prepare(X), columns.prepared
    K = (A.double() @ B.double().T).exp2()
    V = torch.randn((k, n_columns), generator=random).to(place)
    U = torch.randn((n, n_columns), generator=random).to(place)
    implicit = ImplicitKernel(A, B)
    ahead, back = K @ V.double(), K.T @ U.double()
    for found in (implicit @ V, plain_product(A, B, V)):
        assert (found - ahead).norm() <= 1e-5 * ahead.norm() * n_columns
    for found in (implicit.T @ U, plain_product(B, A, U)):
        assert (found - back).norm() <= 1e-5 * U.double().norm() * K.norm() / n**0.5
    rows = torch.arange(0, n, 3, device=place)
    torch.testing.assert_close((implicit[rows] @ V[:, 0]).double(), ahead[rows, 0], rtol=1e-3,
                               atol=1e-4)  # fmt: skip


@every_device
def test_grams_of_two_parts_are_as_good_as_float32(device):
    torch, place = torch_device(device)
    from lasn.torch_blocks import gram_of_parts

    F = torch.randn((4000, 65), generator=torch.Generator().manual_seed(0)).to(place)
    exact = F.double().T @ F.double()
    assert (gram_of_parts(F) - exact).norm() <= 2e-6 * exact.norm()


@every_device
@pytest.mark.parametrize("size", [3, 100])
def test_groups_are_summed(device, size, rng):
    torch, place = torch_device(device)
    groups, weights = rng.randint(size, size=1000), rng.rand(1000)
    found = bincount(torch.from_numpy(groups).to(place), torch.from_numpy(weights).to(place), size)
    np.testing.assert_allclose(found.cpu().numpy(), np.bincount(groups, weights, size))


@every_device
def test_rows_of_the_host_are_read_as_tensors_are(device, rng):
    torch, place = torch_device(device)
    from lasn.torch_blocks import TorchBlocks
    from lasn.torch_rows import HostRows, SparseRows

    X = rng.normal(size=(5000, 6)).astype(np.float32)
    X[np.abs(X) < 1.0] = 0.0
    on_device = torch.from_numpy(X).to(place)
    columns = Kernel("polynomial", gamma=0.1).against(on_device[:50], np.float32)

    def read(block, number):
        chosen = torch.tensor([0, 3], device=place)
        return number, (block.matrix().sum(dim=0), block.matrix(chosen).sum(dim=0))

    totals = []
    for rows in (
        on_device,
        HostRows(torch.from_numpy(X), place),
        SparseRows(sp.csr_matrix(X), place),
    ):
        for budget in (1 << 20, 1 << 30):
            blocks = TorchBlocks(rows, columns, np.float32, budget, 1, place)
            states, total = blocks.run(read, blocks.split(np.arange(5000.0)))
            assert torch.equal(torch.cat(states).cpu(), torch.arange(5000, dtype=torch.float64))
            assert len(blocks.blocks) > 1 or budget > 1 << 20
            totals.append(total[0].cpu().numpy())
    for total in totals[1:]:
        np.testing.assert_allclose(total, totals[0], rtol=1e-5)


@every_device
def test_factors_are_repaired_and_solve(device, rng):
    torch, place = torch_device(device)
    A = rng.normal(size=(6, 6))
    V = A @ A.T + np.eye(6)
    B = rng.normal(size=(6, 2))
    factor = factorize(torch.from_numpy(V).to(place))
    np.testing.assert_allclose(factor.solve(B), np.linalg.solve(V, B))
    np.testing.assert_allclose(factor.rounded().solve(B), np.linalg.solve(V, B), rtol=1e-3)
    broken = np.eye(5)
    broken[-1, -1] = -1e-13
    assert 0.0 < factorize(torch.from_numpy(broken).to(place)).shift < 1e-10
    with pytest.raises(np.linalg.LinAlgError):
        factorize(torch.from_numpy(-np.eye(3)).to(place))


@every_device
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_mapping_matrices_are_numpys(device, dtype, rng):
    torch, place = torch_device(device)
    X = rng.normal(size=(300, 5))
    K = Kernel("rbf", gamma=0.5)(X, X)
    here = mapping_matrix(K, dtype=dtype).astype(float)
    there = mapping_matrix(torch.from_numpy(K).to(place), dtype=dtype).cpu().numpy().astype(float)
    np.testing.assert_allclose(K @ there @ there.T @ K, K @ here @ here.T @ K, atol=1e-3)


def test_values_go_back_to_where_rows_came_from():
    torch, _ = torch_device("torch")
    rows = torch.zeros(2)
    assert isinstance(give_back(np.ones(2), rows), torch.Tensor)
    assert isinstance(give_back(rows, np.ones(2)), np.ndarray)
    assert isinstance(give_back(np.array(["a"]), rows), np.ndarray)


@pytest.mark.parametrize("container", [np.asarray, sp.csr_matrix])
def test_rows_for_a_device_without_float64_are_float32(rng, container):
    torch, _ = torch_device("torch")
    from lasn.torch_rows import place_rows

    X = container(rng.normal(size=(20, 3)))
    assert place_rows(X, torch.device("mps"), memory=0).dtype == torch.float32
    assert place_rows(X, torch.device("cpu"), memory=0).dtype == torch.float64

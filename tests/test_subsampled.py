"""Newton steps by the Hessians of a part of the rows: what they are, and what they do without."""

import numpy as np
import pytest
from reference import certificate

from lasn import LASNClassifier
from lasn.blocks import MemoryBlocks, Workspace
from lasn.kernels import Kernel
from lasn.losses import SquaredHinge
from lasn.problem import Memory
from lasn.subsampled import SubsampledLoss

N_ROWS, K = 90_000, 130


@pytest.fixture(scope="module")
def rows():
    """So many rows of four features that a part of them tells their Hessians."""
    rng = np.random.RandomState(0)
    X = rng.normal(size=(N_ROWS, 4)).astype(np.float32)
    return X, (np.sin(2.0 * X[:, 0]) + X[:, 1] ** 2 + 0.5 * rng.normal(size=N_ROWS) > 1.0)


@pytest.fixture(autouse=True)
def nothing_is_easy_to_keep(monkeypatch):
    monkeypatch.setattr("lasn.problem._EASY_TO_KEEP", 0)


@pytest.fixture
def parts_taken(monkeypatch):
    """Each objective whose Hessians were a part's, in the order in which they were made."""
    made = []
    whole = SubsampledLoss.__init__
    monkeypatch.setattr(
        SubsampledLoss, "__init__", lambda self, *given: made.append(self) or whole(self, *given)
    )
    return made


def relative_gradient(model, X, y):
    F = Kernel("rbf", gamma=model.gamma_)(X, model.landmarks_) @ model.mapping_
    signs = np.where(y, 1.0, -1.0)[:, None]
    truth = certificate(F, signs, model.coef_, model.intercept_, model.C, SquaredHinge())
    return float(truth.relative_gradient[0])


@pytest.mark.parametrize("tol", [1e-3, 1e-7])
def test_the_answer_is_that_of_all_rows(rows, parts_taken, tol):
    """Where a part's Hessians do not reach the tolerance, all rows' own take over."""
    X, y = rows
    model = LASNClassifier(K, tol=tol, dtype="float64", random_state=0).fit(X, y)
    assert parts_taken
    assert relative_gradient(model, X, y) <= 1.01 * tol
    assert model.history_[-1]["relative_gradient"] <= tol
    assert model.history_[-1]["rows"] == N_ROWS


def test_conjugate_gradients_read_the_part_and_nothing_else_is_kept(rows, parts_taken, monkeypatch):
    monkeypatch.setattr("lasn.problem._A_FEW_BLOCKS", 1 << 20)
    X, y = rows
    model = LASNClassifier(K, random_state=0).fit(X, y)
    objective = parts_taken[-1]
    assert objective.part.blocks.n_rows < 0.25 * N_ROWS
    assert objective.whole.blocks.n_rows == N_ROWS
    kept = sum(block.kept is not None for block in objective.whole.blocks.blocks)
    assert kept <= 0.05 * len(objective.whole.blocks.blocks)
    # A look at where it starts, one along each direction, one more at a step that is not 1.
    looks = 1 + sum(1 + (record["step_length"] != 1.0) for record in model.history_)
    assert objective.whole.work.rows_read == looks * N_ROWS
    assert objective.part.work.rows_read > objective.part.blocks.n_rows
    assert sum(record["passes"] for record in model.history_) < looks + sum(
        record["cg_steps"] + 3 for record in model.history_
    ) * (objective.part.blocks.n_rows / N_ROWS)


def test_rows_on_disk_are_read_once_an_iteration(rows, parts_taken, tmp_path):
    X, y = rows
    there = np.memmap(tmp_path / "rows", X.dtype, "w+", shape=X.shape)
    there[:] = X
    model = LASNClassifier(K, random_state=0, memory_limit="1MB").fit(there, y)
    assert parts_taken
    assert isinstance(parts_taken[-1].part.blocks, MemoryBlocks)
    assert not isinstance(parts_taken[-1].whole.blocks, MemoryBlocks)
    assert relative_gradient(model, X, y) <= 1.1e-3


def test_few_landmarks_and_few_rows_do_without(rows, parts_taken):
    X, y = rows
    LASNClassifier(40, random_state=0).fit(X, y)
    LASNClassifier(K, random_state=0).fit(X[:30_000], y[:30_000])
    assert not parts_taken


def test_three_classes(rows, parts_taken):
    X, y = rows
    labels = y.astype(int) + (X[:, 2] > 0.5)
    model = LASNClassifier(K, dtype="float64", random_state=0).fit(X, labels)
    F = Kernel("rbf", gamma=model.gamma_)(X, model.landmarks_) @ model.mapping_
    signs = np.where(labels[:, None] == np.arange(3), 1.0, -1.0)
    truth = certificate(F, signs, model.coef_, model.intercept_, model.C, SquaredHinge())
    assert parts_taken
    assert np.all(truth.relative_gradient <= 1.01e-3)


def test_the_same_seed_gives_the_same_model(rows):
    X, y = rows
    coefs = [LASNClassifier(K, random_state=3).fit(X, y).dual_coef_ for _ in range(2)]
    np.testing.assert_array_equal(coefs[0], coefs[1])


@pytest.mark.parametrize(("n_threads", "megabytes"), [(1, 4), (2, 4), (4, 8), (16, 16)])
def test_rows_that_are_not_kept_are_read_in_larger_blocks_by_more_threads(
    rows, monkeypatch, n_threads, megabytes
):
    """Each of many threads would wait for Python's lock after every little block."""
    monkeypatch.setattr("lasn.problem.n_threads", lambda: n_threads)
    monkeypatch.setattr("lasn.blocks.n_threads", lambda: n_threads)
    monkeypatch.setattr("lasn.blocks.stretch", lambda: int(n_threads**0.5))
    X, _ = rows
    memory = Memory(8 << 30, Workspace(), {})
    aside = memory.set_aside()
    assert memory.budget + aside.budget == 8 << 30
    columns = Kernel("rbf").against(X[:1000], np.float32)
    blocks = MemoryBlocks(X, columns, np.float32, aside.budget)
    size = blocks.blocks[0].n_rows * blocks.row_bytes / 2**20
    assert 0.6 * megabytes < size <= megabytes  # as many blocks for each thread
    assert n_threads * size <= aside.budget / 2**20

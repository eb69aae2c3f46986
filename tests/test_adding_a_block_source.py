"""How to add a source of blocks: docs/contributing.md shows this file."""

import numpy as np
import pytest

from lasn import LASNClassifier
from lasn.blocks import Work
from lasn.costs import Costs
from lasn.features import mapping_matrix
from lasn.kernels import Kernel
from lasn.losses import SquaredHinge
from lasn.newton import NewtonOptions, NewtonStart, minimize
from lasn.objective import RegularizedLoss


class FileBlock:
    """Some rows of a file: read and turned into kernel values each time they are wanted."""

    is_kept = False
    spare_bytes = 0
    worth_copying = 0.0

    def __init__(self, source, rows):
        self.source, self.rows = source, rows
        self.n_rows = rows.stop - rows.start
        self.n_columns, self.dtype = source.n_columns, source.dtype
        self.row_bytes = self.dtype.itemsize * self.n_columns

    def matrix(self, rows=None):
        X = np.load(self.source.path, mmap_mode="r")[self.rows]
        chosen = np.array(X if rows is None else X[rows])
        self.count(len(chosen))
        self.source.work.rows_computed += len(chosen)
        return self.source.columns.matrix(chosen)

    def gather(self, rows):
        return None  # no room to keep copies

    def count(self, n_rows):
        self.source.work.rows_read += n_rows

    def parts(self, rows):
        return [rows] if len(rows) else []

    def gram(self, F, steers):
        return F.T @ F


class FileBlocks:
    """Rows in a .npy file: every sum that Newton's method needs, one block after another."""

    def __init__(self, path, columns, block_rows):
        self.path, self.columns = path, columns
        self.n_rows = np.load(path, mmap_mode="r").shape[0]
        self.n_columns, self.dtype = columns.n_columns, columns.dtype
        self.work, self.costs, self.has_room_to_map = Work(), Costs(), False
        starts = range(0, self.n_rows, block_rows)
        self.slices = [slice(start, min(start + block_rows, self.n_rows)) for start in starts]
        self.blocks = [FileBlock(self, rows) for rows in self.slices]

    def split(self, rows):
        return [rows[part] for part in self.slices]

    def collect(self, states):
        return states

    def run(self, task, *states, shared=(), n_read=None):
        results, total = [], None
        for index, block in enumerate(self.blocks):
            state, sums = task(block, *(one[index] for one in states), *shared)
            results.append(state)
            sums = [np.asarray(part, dtype=float) for part in sums]
            total = sums if total is None else [a + b for a, b in zip(total, sums, strict=True)]
        return results, tuple(total)


@pytest.mark.parametrize("solver", ["newton", "newton-cg"])
def test_rows_in_a_file_give_the_model_of_rows_in_memory(tmp_path, binary, solver):
    X, y = binary
    path = tmp_path / "rows.npy"
    np.save(path, X)
    landmarks, kernel = X[:30], Kernel("rbf", gamma=0.3)
    objective = RegularizedLoss(
        FileBlocks(path, kernel.against(landmarks), block_rows=64),
        mapping_matrix(kernel(landmarks, landmarks)),
        SquaredHinge(),
        np.where(y == 1, 1.0, -1.0)[:, None],
        costs=np.full(len(y), 10.0),
    )
    start = NewtonStart(np.zeros((objective.n_variables, 1)))
    W = minimize(objective, start, NewtonOptions(tol=1e-8, solver=solver)).W
    model = LASNClassifier(landmarks=landmarks, gamma=0.3, tol=1e-8, dtype="float64").fit(X, y)
    np.testing.assert_allclose(objective.scores(W)[:, 0], model.decision_function(X), atol=1e-5)

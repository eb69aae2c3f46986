"""Prediction in constant memory: a longer file needs no more."""

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from shell import environment
from sklearn.datasets import dump_svmlight_file

import lasn

N_FEATURES = 20
# The small one is long enough for allocators to have all that they keep; of the large one, readers
# that run ahead on a busy machine hold a small part.
SMALL, LARGE = 300_000, 1_600_000
# As a matrix, what the large file has more than the small one.
DIFFERENCE = 8 * N_FEATURES * (LARGE - SMALL)

PREDICT_BOTH = """
import os, sys
from lasn.cli import main

def peak():
    with open("/proc/self/status") as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM"))

for name in sys.argv[2:]:
    assert main(["predict", sys.argv[1], name, "-o", os.devnull]) == 0
    print(peak())
"""


def write(path, block, n_rows):
    """The block again and again, until there are so many rows."""
    times = n_rows // len(block)
    names = [f"x{j}" for j in range(N_FEATURES)]
    if path.suffix == ".npy":
        np.save(path, np.tile(block, (times, 1)))
    elif path.suffix == ".parquet":
        columns = {name: np.tile(block[:, j], times) for j, name in enumerate(names)}
        pa.parquet.write_table(pa.table(columns), path, row_group_size=20_000)
    else:
        text = io.BytesIO()
        if path.suffix == ".svm":
            dump_svmlight_file(block, np.zeros(len(block)), text, zero_based=False)
            header = b""
        else:
            np.savetxt(text, block, fmt="%.3f", delimiter=",")
            header = ",".join(names).encode() + b"\n"
        with open(path, "wb") as file:
            file.write(header)
            for _ in range(times):
                file.write(text.getvalue())


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read in /proc")
@pytest.mark.parametrize("suffix", ["csv", "svm", "parquet", "npy"])
def test_memory_does_not_grow_with_the_file(tmp_path, rng, suffix):
    block = rng.normal(size=(2000, N_FEATURES)).round(3)
    model = lasn.LASNClassifier(20, random_state=0).fit(block, block[:, 0] > 0)
    lasn.save(model, tmp_path / "model")
    files = [tmp_path / f"{n_rows}.{suffix}" for n_rows in (SMALL, LARGE)]
    for path, n_rows in zip(files, (SMALL, LARGE), strict=True):
        write(path, block, n_rows)
    answer = subprocess.run(
        [sys.executable, "-c", PREDICT_BOTH, str(tmp_path / "model"), *map(str, files)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**environment(), "OMP_NUM_THREADS": "2"},
    )
    small, large = map(int, answer.stdout.split())
    assert large - small < DIFFERENCE / 2

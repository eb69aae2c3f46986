"""
More features than memory: ``memory_limit``
===========================================

n rows and k landmarks make n × k kernel values. LASN holds as many of them as ``memory_limit``
allows and computes the others again when they are needed. Rows can stay in a file: a memory-mapped
array is read where it lies. The limit changes the time of a fit, not its result.
"""

import tempfile
import tracemalloc
from pathlib import Path
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification

from lasn import LASNClassifier
from lasn.memory import resident_memory

# %%
# Write 40 000 rows to a file and open it without reading it.
X, y = make_classification(
    n_samples=40_000, n_features=20, n_informative=10, n_clusters_per_class=8, random_state=0
)
folder = tempfile.TemporaryDirectory()
np.save(Path(folder.name) / "rows.npy", X.astype(np.float32))
del X
X = np.load(Path(folder.name) / "rows.npy", mmap_mode="r")
k = 500
print(f"all features at once: {4e-6 * len(X) * k:.0f} MB")

# %%
# The limit is for the whole process. What the interpreter holds already is added here, so that
# each fit has the same room on every machine.
rooms, peaks, seconds, scores = (48, 64, 96, 128, 192, 256), [], [], []
for room in rooms:
    limit = resident_memory() + room * 10**6
    model = LASNClassifier(k, memory_limit=limit, random_state=0)
    tracemalloc.start()
    start = perf_counter()
    model.fit(X, y)
    seconds.append(perf_counter() - start)
    peaks.append(tracemalloc.get_traced_memory()[1] / 1e6)
    tracemalloc.stop()
    scores.append(100 * model.score(X[:10_000], y[:10_000]))

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.0))
figure.suptitle("A memory limit costs time, never accuracy")
left.plot(rooms, rooms, color="0.45", linestyle="--", linewidth=1, label="the limit")
left.plot(rooms, peaks, marker="o", label="most memory that the fit took")
left.axhline(
    4e-6 * len(X) * k, color="C1", linewidth=1, linestyle=":", label="all features at once"
)
left.set(xlabel="room for the fit, MB", ylabel="MB", ylim=(0, None))
left.legend(fontsize=9)
right.plot(rooms, seconds, marker="o", color="C2")
right.set(xlabel="room for the fit, MB", ylabel="seconds of the fit", ylim=(0, None))
accuracy = f"{min(scores):.2f} to {max(scores):.2f} %"
right.set_title(f"accuracy of all fits: {accuracy}", fontsize=10)
plt.show()

# %%
del X
folder.cleanup()

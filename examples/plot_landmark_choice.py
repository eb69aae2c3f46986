"""
Landmarks: drawn, clustered, or put where they are needed
=========================================================

A landmark costs the same wherever it lies, and time grows with the square of their number. So it
pays to choose them well: drawn from the rows (``"uniform"``), as centres of k-means (``"kmeans"``,
the paper's way), or half of them near the decision boundary of a first fit (``"boundary"``, the
default).
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split

from lasn import LASNClassifier

# %%
# A star in a wide field: most rows are far from what decides.
rng = np.random.default_rng(0)
X = rng.uniform(-3, 3, size=(12_000, 2))
edge = 1.3 + 0.45 * np.sin(7.0 * np.arctan2(X[:, 1], X[:, 0]))
y = (np.hypot(*X.T) < edge).astype(int)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
methods = {"uniform": "drawn from the rows", "kmeans": "k-means", "boundary": "boundary"}
ks = (25, 50, 100, 200, 400)

# %%
# Three seeds each.
wrong = {method: np.zeros((len(ks), 3)) for method in methods}
shown = {}
for method in methods:
    for place, k in enumerate(ks):
        for seed in range(3):
            model = LASNClassifier(k, C=100.0, gamma=5.0, landmarks=method, random_state=seed)
            model.fit(X_train, y_train)
            wrong[method][place, seed] = 100 * (1.0 - model.score(X_test, y_test))
            if k == 100:
                shown[method] = model.landmarks_

figure, axes = plt.subplots(1, 4, figsize=(11, 3.6), width_ratios=(1, 1, 1, 1.5))
figure.suptitle("With labels in mind, fewer landmarks do")
for ax, (method, name) in zip(axes, methods.items(), strict=False):
    for label, size in ((0, 1.0), (1, 1.0)):
        ax.scatter(
            *X_train[y_train == label].T, s=size, color=f"C{label}", alpha=0.35, linewidths=0
        )
    ax.scatter(*shown[method].T, s=14, color="black", linewidths=0)
    ax.set(
        title=f"100 landmarks:\n{name}",
        xticks=[],
        yticks=[],
        xlim=(-3.05, 3.05),
        ylim=(-3.05, 3.05),
    )
    ax.set_aspect("equal")
    ax.grid(False)
    ax.spines[:].set_visible(False)
for place, (method, name) in enumerate(methods.items()):
    mean, spread = wrong[method].mean(axis=1), wrong[method].std(axis=1)
    axes[3].plot(ks, mean, marker="o^s"[place], color=f"C{place + 2}", label=name)
    axes[3].fill_between(ks, mean - spread, mean + spread, color=f"C{place + 2}", alpha=0.2)
axes[3].set(
    xscale="log",
    yscale="log",
    xticks=ks,
    xticklabels=ks,
    xlabel="landmarks",
    ylabel="test rows that are wrong, %",
)
axes[3].minorticks_off()
axes[3].legend()
plt.show()

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
# A rare class in a thin ring: most rows are far from what decides.
rng = np.random.default_rng(0)


def rows(n_rows):
    X = rng.normal(size=(n_rows, 2))
    wave = 0.15 * np.sin(7.0 * np.arctan2(X[:, 1], X[:, 0]))
    return X, (np.abs(np.hypot(*X.T) - 1.9 - wave) < 0.13).astype(int)


X, y = rows(20_000)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
methods = {"uniform": "drawn from the rows", "kmeans": "k-means", "boundary": "boundary"}
ks = (25, 50, 100, 200, 400)

# %%
# Three seeds each. Accuracy says little of a rare class, so recall is averaged over both classes.
recall = {method: np.zeros((len(ks), 3)) for method in methods}
shown = {}
for method in methods:
    for place, k in enumerate(ks):
        for seed in range(3):
            model = LASNClassifier(
                k, gamma=4.0, landmarks=method, class_weight="balanced", random_state=seed
            ).fit(X_train, y_train)
            predicted = model.predict(X_test)
            rates = [np.mean(predicted[y_test == label] == label) for label in (0, 1)]
            recall[method][place, seed] = 100 * np.mean(rates)
            if k == 100:
                shown[method] = model.landmarks_

figure, axes = plt.subplots(1, 4, figsize=(11, 3.6), width_ratios=(1, 1, 1, 1.5))
figure.suptitle("With labels in mind, fewer landmarks do")
for ax, (method, name) in zip(axes, methods.items(), strict=False):
    for label, size in ((0, 0.4), (1, 1.5)):
        ax.scatter(
            *X_train[y_train == label].T, s=size, color=f"C{label}", alpha=0.35, linewidths=0
        )
    ax.scatter(*shown[method].T, s=14, color="black", linewidths=0)
    ax.set(title=f"100 landmarks:\n{name}", xticks=[], yticks=[], xlim=(-3, 3), ylim=(-3, 3))
    ax.set_aspect("equal")
    ax.grid(False)
    ax.spines[:].set_visible(False)
for place, (method, name) in enumerate(methods.items()):
    mean, spread = recall[method].mean(axis=1), recall[method].std(axis=1)
    axes[3].plot(ks, mean, marker="o^s"[place], color=f"C{place + 2}", label=name)
    axes[3].fill_between(ks, mean - spread, mean + spread, color=f"C{place + 2}", alpha=0.2)
axes[3].set(xscale="log", xticks=ks, xticklabels=ks, xlabel="landmarks", ylabel="mean recall, %")
axes[3].minorticks_off()
axes[3].legend()
plt.show()

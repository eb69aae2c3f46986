"""
Decision boundaries as landmarks are added
==========================================

A kernel SVM is a sum of bumps. LASN lets you say how many: one at each landmark. With four of them
the boundary is a guess, with forty it has the right shape, and from there on more landmarks only
polish it. scikit-learn's ``SVC``, whose number of support vectors is not yours to choose, draws the
same line.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.svm import SVC

from lasn import LASNClassifier

# %%
# Two arms of a spiral, 1500 rows.
rng = np.random.default_rng(0)
n_rows = 1500
y = rng.integers(0, 2, n_rows)
angle = rng.uniform(0.4, 3.4 * np.pi, n_rows)
radius = angle / (3.4 * np.pi)
turned = angle + np.pi * y
X = np.column_stack([radius * np.cos(turned), radius * np.sin(turned)])
X += rng.normal(scale=0.035, size=X.shape)

# %%
# The same C and gamma for all. Black dots are LASN's landmarks: half of them are centres of each
# class, the other half lies where a first fit found the boundary.
gamma = 12.0
models = {
    f"{k} landmarks": LASNClassifier(k, gamma=gamma, random_state=0) for k in (4, 16, 40, 120, 400)
}
models["SVC"] = SVC(C=10.0, gamma=gamma)

across, up = np.meshgrid(np.linspace(-1.15, 1.15, 220), np.linspace(-1.15, 1.15, 220))
grid = np.column_stack([across.ravel(), up.ravel()])

figure, axes = plt.subplots(2, 3, figsize=(9, 6.4), sharex=True, sharey=True)
figure.suptitle("The boundary takes shape with a few dozen landmarks")
for ax, (name, model) in zip(axes.flat, models.items(), strict=True):
    model.fit(X, y)
    scores = model.decision_function(grid).reshape(across.shape)
    ax.contourf(across, up, np.clip(scores, -2, 2), levels=21, cmap="RdBu_r", alpha=0.55)
    ax.contour(across, up, scores, levels=[0.0], colors="black", linewidths=1.3)
    for label, colour in ((0, "C0"), (1, "C1")):
        ax.scatter(*X[y == label].T, s=2.5, color=colour, alpha=0.55, linewidths=0)
    if isinstance(model, SVC):
        title = f"{name}: {len(model.support_)} support vectors"
    else:
        title = name
        ax.scatter(*model.landmarks_.T, s=9, color="black", linewidths=0)
    ax.set_title(f"{title}\n{100 * model.score(X, y):.1f} % of the rows", fontsize=10)
    ax.set(xticks=[], yticks=[], aspect="equal")
    ax.grid(False)
    ax.spines[:].set_visible(False)
plt.show()

"""
Newton's quadratic convergence
==============================

The squared hinge loss has no second derivative where a row crosses the margin, yet Newton's method
with a *generalised* Hessian converges quadratically (Theorem 3 of the paper): once it is near,
every iteration doubles the number of correct digits. ``history_`` keeps a record of each
iteration, so you can watch it happen.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification

from lasn import LASNClassifier

# %%
# Rows on float64 features, a tolerance far below what anybody needs, and no early stop. With few
# rows the whole problem is solved at once.
X, y = make_classification(
    n_samples=4000, n_features=10, n_informative=6, n_clusters_per_class=4, flip_y=0.05,
    random_state=1,
)  # fmt: skip
histories = {}
for C in (0.1, 10.0, 1000.0):
    model = LASNClassifier(
        200, C=C, landmarks="kmeans", dtype="float64", solver="newton", tol=1e-12, random_state=0
    )
    histories[C] = model.fit(X, y).history_

# %%
# Left: the relative gradient, on a logarithmic scale. A straight line would be linear convergence;
# these lines bend down. Right: where they can bend, the active set has stopped changing. A
# piecewise quadratic function whose piece is known is minimised by one Newton step.
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.2))
figure.suptitle("Each Newton iteration gains more digits than the one before")
for place, (C, history) in enumerate(histories.items()):
    iterations = np.arange(1, len(history) + 1)
    gradient = [record["relative_gradient"] for record in history]
    active = np.array([record["active_rows"] for record in history])
    style = {"color": f"C{place}", "marker": "osD"[place], "label": f"C = {C:g}"}
    left.semilogy(iterations, gradient, **style)
    right.plot(iterations, 100.0 * active / len(y), **style)
left.axhline(1e-3, color="0.45", linestyle="--", linewidth=1)
left.annotate(
    "tol, by default", (0.99, 1e-3), xycoords=("axes fraction", "data"), xytext=(0, 4),
    textcoords="offset points", ha="right", fontsize=9,
)  # fmt: skip
left.set(xlabel="Newton iteration", ylabel="gradient norm, relative to that at zero")
right.set(xlabel="Newton iteration", ylabel="active rows, %", ylim=(0, 105))
for ax in (left, right):
    ax.xaxis.get_major_locator().set_params(integer=True)
right.legend(loc="lower left")
plt.show()

"""
A search that shares its work
=============================

``LASNClassifierCV`` chooses C, gamma and the number of landmarks by cross-validation. All folds
and all C share one feature matrix for each gamma and number of landmarks, so a search costs a few
times one fit. It extends the grid where the best value is at an end, and doubles the landmarks
while that pays.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from lasn import LandmarkCurveDisplay, LASNClassifierCV

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16.0, y, test_size=0.4, random_state=0)
model = LASNClassifierCV(random_state=0).fit(X_train, y_train)
print({name: float(f"{value:.3g}") for name, value in model.best_params_.items()})
print(f"held-out accuracy {model.best_score_:.4f}, on test rows {model.score(X_test, y_test):.4f}")

# %%
# Every candidate with the first number of landmarks, and the score as landmarks are doubled.
results = model.cv_results_
C, gamma = np.array(results["param_C"], float), np.array(results["param_gamma"], float)
first = np.array(results["param_n_landmarks"]) == results["param_n_landmarks"].min()
figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4.4))
figure.suptitle("The search on handwritten digits")
points = left.scatter(
    gamma[first], C[first], c=100 * results["mean_test_score"][first], s=900, marker="s",
    edgecolors="none",
)  # fmt: skip
for x, c, score in zip(gamma[first], C[first], results["mean_test_score"][first], strict=True):
    left.annotate(
        f"{100 * score:.1f}", (x, c), ha="center", va="center", color="white", fontsize=8,
        bbox={"boxstyle": "round,pad=0.15", "facecolor": "black", "alpha": 0.35, "linewidth": 0},
    )  # fmt: skip
left.set(xscale="log", yscale="log", xlabel="gamma", ylabel="C")
left.margins(0.2)
left.minorticks_off()
left.set_title("held-out accuracy, %", fontsize=10)
LandmarkCurveDisplay.from_estimator(model, ax=right)
right.set(ylabel="held-out accuracy", xticks=[one["n_landmarks"] for one in model.landmark_curve_])
right.set_xticklabels([one["n_landmarks"] for one in model.landmark_curve_])
right.minorticks_off()
right.get_legend().remove()
plt.show()

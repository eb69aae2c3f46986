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
gammas, Cs = np.unique(gamma[first]), np.unique(C[first])
grid = np.full((len(Cs), len(gammas)), np.nan)
rows, columns = np.searchsorted(Cs, C[first]), np.searchsorted(gammas, gamma[first])
grid[rows, columns] = 100 * results["mean_test_score"][first]
left.imshow(grid, origin="lower", aspect="auto", cmap="Blues", vmin=np.nanmin(grid) - 1)
for row, column in zip(rows, columns, strict=True):
    value = grid[row, column]
    colour = "white" if value > np.nanmean(grid) else "black"
    left.text(column, row, f"{value:.1f}", ha="center", va="center", color=colour)
left.set(
    xticks=range(len(gammas)), xticklabels=[f"{value:.3g}" for value in gammas], xlabel="gamma",
    yticks=range(len(Cs)), yticklabels=[f"{value:g}" for value in Cs], ylabel="C",
)  # fmt: skip
left.grid(False)
left.set_title(f"held-out accuracy, %, {results['param_n_landmarks'].min()} landmarks")
LandmarkCurveDisplay.from_estimator(model, ax=right)
right.set(ylabel="held-out accuracy", xticks=[one["n_landmarks"] for one in model.landmark_curve_])
right.set_xticklabels([one["n_landmarks"] for one in model.landmark_curve_])
right.minorticks_off()
right.get_legend().remove()
plt.show()

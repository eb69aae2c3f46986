"""
Spectra: how many landmarks does a kernel need?
===============================================

The eigenvalues of the kernel among the landmarks say how much each further direction adds. A wide
kernel (small gamma) has few directions that matter, and a few landmarks say all there is to say. A
narrow one sees every row for itself and needs many. Directions below
the cut (dashed) are rounding or landmarks that coincide, and are dropped.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from lasn import LASNClassifier, SpectrumDisplay

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, random_state=0)

# %%
# ``gamma="variance"``, the default, sets the kernel's width to the spread of the data. Here are
# that gamma, a narrower and two wider kernels. The default is not the best gamma on every data
# set, but seldom far from it.
variance = LASNClassifier(100, random_state=0).fit(X_train, y_train).gamma_
factors = (0.01, 0.1, 1.0, 10.0)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.4), width_ratios=(3, 2))
figure.suptitle("The wider the kernel, the faster its spectrum falls")
scores = []
for place, factor in enumerate(factors):
    model = LASNClassifier(400, gamma=factor * variance, dtype="float64", random_state=0)
    model.fit(X_train, y_train)
    display = SpectrumDisplay.from_estimator(model, ax=left, name=f"{factor:g} × variance")
    display.line_.set(marker="", linestyle="-", color=f"C{place}")
    scores.append(100 * model.score(X_test, y_test))
left.set_ylabel("eigenvalue of the kernel")
left.legend(title="gamma")

bars = right.barh(range(len(factors)), scores, color=[f"C{place}" for place in range(len(factors))])
right.bar_label(bars, fmt="%.1f", padding=3)
right.set(
    yticks=range(len(factors)), yticklabels=[f"{factor:g} ×" for factor in factors],
    xlabel="test accuracy, %", ylabel="gamma over variance", xlim=(min(scores) - 5, 102),
)  # fmt: skip
right.grid(axis="y", visible=False)
plt.show()

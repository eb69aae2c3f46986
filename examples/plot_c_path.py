"""
The path over C
===============

C weighs the losses against the norm of the model. A small C gives a smooth model that ignores some
rows, a large one a model that tries to please every row. With ``warm_start=True`` the landmarks
stay and each fit starts from the one before, so a whole path costs little more than one fit.
"""

from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split

from lasn import LASNClassifier

X, y = make_classification(
    n_samples=8000, n_features=12, n_informative=7, n_clusters_per_class=6, class_sep=0.9,
    flip_y=0.08, random_state=3,
)  # fmt: skip
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)

# %%
# Seventeen values of C, from the smallest up. The tolerance is relative to the gradient at zero,
# from which a warm start is far away: a path wants a smaller one.
Cs = np.logspace(-3, 5, 17)
path = []
model = LASNClassifier(300, warm_start=True, tol=1e-6, random_state=0)
for C in Cs:
    start = perf_counter()
    model.set_params(C=C).fit(X_train, y_train)
    path.append(
        {
            "train": model.score(X_train, y_train),
            "test": model.score(X_test, y_test),
            "norm": np.linalg.norm(model.coef_),
            "active": np.mean((2 * y_train - 1) * model.decision_function(X_train) < 1),
            "seconds": perf_counter() - start,
        }
    )
column = {name: np.array([record[name] for record in path]) for name in path[0]}
best = int(np.argmax(column["test"]))
print(
    f"{len(Cs)} fits in {column['seconds'].sum():.2f} s, the first in {column['seconds'][0]:.2f} s"
)

# %%
# Training accuracy only rises with C. Test accuracy rises, then falls. The norm of w shows how
# hard the model works, the active rows (within the margin or on its wrong side) how many still ask
# for it.
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.2))
figure.suptitle("A path over C: more weight on the rows, up to a point")
left.semilogx(Cs, 100 * column["train"], marker="o", label="training rows")
left.semilogx(Cs, 100 * column["test"], marker="s", label="test rows")
left.axvline(Cs[best], color="0.45", linestyle="--", linewidth=1)
left.annotate(
    f"best: C = {Cs[best]:.2g}", (Cs[best], left.get_ylim()[0]), xytext=(6, 8),
    textcoords="offset points", fontsize=9,
)  # fmt: skip
left.set(xlabel="C", ylabel="accuracy, %")
left.legend()
right.loglog(Cs, column["norm"], marker="o", color="C2")
right.set_xlabel("C")
right.set_ylabel("norm of w", color="C2")
other = right.twinx()
other.semilogx(Cs, 100 * column["active"], marker="D", color="C3")
other.set_ylabel("active rows, %", color="C3")
other.set_ylim(0, None)
other.grid(False)
plt.show()

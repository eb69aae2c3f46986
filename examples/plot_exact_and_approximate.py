"""
Exact against approximate, with proof
=====================================

A model with k landmarks is a feasible point of the exact kernel SVM, so its objective is an upper
bound on the exact optimum. A dual point gives a lower bound. ``lasn.certify`` computes both: the
distance to the exact machine is known without ever training it. Here it is trained too
(``solver="exact"``), to show that the bounds tell the truth.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

import lasn

X, y = load_breast_cancer(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=1)
scaler = StandardScaler().fit(X_train)
X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)

exact = lasn.LASNClassifier(C=1.0, solver="exact", tol=1e-6, random_state=0).fit(X_train, y_train)
optimum = lasn.certify(exact, X_train, y_train).upper_bound

# %%
ks = (5, 10, 20, 40, 80, 160, 320)
certificates, accuracies, differences = [], [], []
for k in ks:
    model = lasn.LASNClassifier(k, C=1.0, tol=1e-6, random_state=0).fit(X_train, y_train)
    certificates.append(lasn.certify(model, X_train, y_train))
    accuracies.append(100 * model.score(X_test, y_test))
    gap = model.decision_function(X_train) - exact.decision_function(X_train)
    differences.append(np.abs(gap).max())

# %%
# Left: the exact optimum always lies in the band. Right: no score is further from the exact
# machine's than the certificate says, and both shrink as landmarks are added, while the test
# accuracy hardly moves: what the certificate proves is distance, not quality.
figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4.4))
figure.suptitle("The certificate encloses the exact machine")
upper = [certificate.upper_bound for certificate in certificates]
lower = [certificate.exact_lower_bound for certificate in certificates]
left.fill_between(ks, lower, upper, color="C0", alpha=0.25, linewidth=0, label="proved to lie here")
left.plot(ks, upper, marker="o", color="C0", label="objective of the model")
left.axhline(optimum, color="C1", linestyle="--", label="exact optimum")
left.set(xscale="log", xticks=ks, xticklabels=ks, xlabel="landmarks", ylabel="objective")
left.minorticks_off()
left.legend()
bounds = [certificate.score_distance for certificate in certificates]
right.loglog(ks, bounds, marker="o", color="C0", label="proved bound")
right.loglog(ks, differences, marker="s", color="C1", label="largest difference in fact")
right.set(xticks=ks, xticklabels=ks, xlabel="landmarks", ylabel="difference of scores")
right.minorticks_off()
for k, bound, accuracy in zip(ks, bounds, accuracies, strict=True):
    right.annotate(
        f"{accuracy:.1f} %", (k, bound), xytext=(0, 7), textcoords="offset points", fontsize=8,
        ha="center",
    )  # fmt: skip
right.set_title("labels: test accuracy", fontsize=9)
right.legend(loc="lower left")
plt.show()

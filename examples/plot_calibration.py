"""
Probabilities that mean what they say
=====================================

An SVM's score is a distance, not a probability. LASN has two ways to probabilities: the logistic
loss, whose scores are log-odds, and ``LASNClassifierCV``, which learns a calibration from the
scores of rows that were held out during its search. Both are honest: of the rows with probability
0.8, about 80 % belong to the class.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit
from sklearn.calibration import calibration_curve
from sklearn.datasets import make_classification
from sklearn.metrics import brier_score_loss
from sklearn.model_selection import train_test_split

from lasn import LASNClassifier, LASNClassifierCV

X, y = make_classification(
    n_samples=12_000, n_features=12, n_informative=5, n_clusters_per_class=3, class_sep=0.35,
    flip_y=0.0, random_state=5,
)  # fmt: skip
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)

# %%
# For comparison, a mistake that is often made: the logistic function of a plain SVM's score.
plain = LASNClassifier(200, random_state=0).fit(X_train, y_train)
logistic = LASNClassifier(200, C=1.0, loss="log_loss", random_state=0).fit(X_train, y_train)
tuned = LASNClassifierCV(n_landmarks=200, random_state=0).fit(X_train, y_train)
probabilities = {
    "the score through a sigmoid": expit(plain.decision_function(X_test)),
    'loss="log_loss"': logistic.predict_proba(X_test)[:, 1],
    "LASNClassifierCV, calibrated": tuned.predict_proba(X_test)[:, 1],
}

figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4.4))
figure.suptitle("Probabilities from held-out scores, or from the logistic loss")
left.plot([0, 1], [0, 1], color="0.45", linestyle="--", linewidth=1, label="as it should be")
for place, (name, p) in enumerate(probabilities.items()):
    colour = f"C{(1, 0, 2)[place]}"
    observed, predicted = calibration_curve(y_test, p, n_bins=12, strategy="quantile")
    loss = brier_score_loss(y_test, p)
    left.plot(predicted, observed, marker="so^"[place], color=colour, label=f"{name}: {loss:.3f}")
    right.hist(
        p, bins=np.linspace(0, 1, 26), histtype="step", linewidth=2, color=colour, label=name
    )
left.set(
    xlabel="probability that was predicted", ylabel="share of rows of the class", ylim=(-0.03, 1.4)
)
left.set_yticks(np.linspace(0, 1, 6))
left.legend(title="Brier score, less is better", fontsize=8, title_fontsize=8, loc="upper left")
right.set(xlabel="probability that was predicted", ylabel="test rows")
plt.show()

"""
Text: which library is this passage from?
=========================================

Text becomes rows of thousands of features, nearly all of them zero. LASN never makes them dense:
rows stay sparse, landmarks are rows themselves, and the kernel between them is a product of sparse
matrices.

The text is on your machine already: passages from the documentation of NumPy, SciPy, scikit-learn
and matplotlib, which speak of much the same things in their own ways. With so many features a plane
is hard to beat, and ``LinearSVC`` stands beside for comparison: on text, try it first.
"""

import inspect
import re

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import scipy.optimize
import scipy.signal
import scipy.stats
import sklearn.cluster
import sklearn.ensemble
import sklearn.linear_model
import sklearn.svm
from matplotlib import axes, figure
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import ConfusionMatrixDisplay
from sklearn.model_selection import train_test_split
from sklearn.svm import LinearSVC

from lasn import LASNClassifier

# %%
# Passages of 60 words; the libraries' own names are taken out.
modules = {
    "NumPy": (np, np.linalg, np.random, np.ma),
    "SciPy": (scipy.stats, scipy.optimize, scipy.signal),
    "scikit-learn": (sklearn.linear_model, sklearn.ensemble, sklearn.svm, sklearn.cluster),
    "matplotlib": (plt, axes.Axes, figure.Figure, matplotlib.cm),
}
names = re.compile(r"numpy|scipy|scikit|sklearn|matplotlib|pyplot|\bnp\b|\bplt\b", re.IGNORECASE)


def passages(places):
    found = set()
    for place in places:
        for name in dir(place):
            text = "" if name.startswith("_") else inspect.getdoc(getattr(place, name, None)) or ""
            words = names.sub("", re.sub(r">>>.*", " ", text)).split()
            found |= {" ".join(words[at : at + 60]) for at in range(0, len(words) - 29, 60)}
    return sorted(found)


texts = {library: passages(places) for library, places in modules.items()}
labels = np.concatenate([[library] * len(parts) for library, parts in texts.items()])
everything = [part for parts in texts.values() for part in parts]
train, test, y_train, y_test = train_test_split(
    everything, labels, test_size=0.3, stratify=labels, random_state=0
)
vectorizer = TfidfVectorizer(sublinear_tf=True, min_df=2, dtype=np.float32)
X_train, X_test = vectorizer.fit_transform(train), vectorizer.transform(test)
n_rows, n_features = X_train.shape
print(f"{n_rows} passages, {n_features} features, {X_train.nnz / n_rows:.0f} of them not zero")

# %%
# With tf-idf rows of length one, gamma near 1 is right, and ``"variance"`` finds it.
linear = 100 * LinearSVC(C=1.0).fit(X_train, y_train).score(X_test, y_test)
ks, scores = (50, 100, 200, 400, 800), []
for k in ks:
    model = LASNClassifier(k, random_state=0).fit(X_train, y_train)
    scores.append(100 * model.score(X_test, y_test))

picture, (left, right) = plt.subplots(1, 2, figsize=(10, 4.4), width_ratios=(3, 4))
picture.suptitle("Which library is a passage from? Sparse rows, sparse landmarks")
left.semilogx(ks, scores, marker="o", label="LASN")
left.axhline(linear, color="C1", linestyle="--", label="LinearSVC on all features")
left.set(xticks=ks, xticklabels=ks, xlabel="landmarks", ylabel="test accuracy, %")
left.minorticks_off()
left.legend(loc="lower right")
ConfusionMatrixDisplay.from_predictions(
    y_test, model.predict(X_test), normalize="true", values_format=".0%", cmap="Blues", ax=right,
    colorbar=False,
)  # fmt: skip
right.set(xlabel="predicted", ylabel="the passage is from")
right.grid(False)
plt.show()

# %%
# The passage of each library that the model is most certain of.
decisions = model.decision_function(X_test)
for place, library in enumerate(model.classes_):
    print(f"{library:13s} {test[int(decisions[:, place].argmax())][:85]}")

"""
Text: which library is this sentence from?
==========================================

Text becomes rows of thousands of features, nearly all of them zero. LASN never makes them dense:
rows stay sparse, landmarks are rows themselves, and the kernel between them is a product of sparse
matrices.

The text is on your machine already: sentences from the documentation of NumPy, SciPy, scikit-learn
and matplotlib, which speak of much the same things in their own ways.
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
# Sentences of at least six words; the libraries' own names are taken out.
modules = {
    "NumPy": (np, np.linalg, np.random, np.ma),
    "SciPy": (scipy.stats, scipy.optimize, scipy.signal),
    "scikit-learn": (sklearn.linear_model, sklearn.ensemble, sklearn.svm, sklearn.cluster),
    "matplotlib": (plt, axes.Axes, figure.Figure, matplotlib.cm),
}
names = re.compile(r"numpy|scipy|scikit|sklearn|matplotlib|pyplot|\bnp\b|\bplt\b", re.IGNORECASE)


def sentences(places):
    found = set()
    for place in places:
        for name in dir(place):
            text = "" if name.startswith("_") else inspect.getdoc(getattr(place, name, None)) or ""
            prose = re.sub(r">>>.*|\s+", " ", text)
            parts = re.split(r"(?<=[.:])\s", names.sub("", prose))
            found |= {part for part in parts if 6 <= len(part.split()) <= 60}
    return sorted(found)


texts = {library: sentences(places)[:4000] for library, places in modules.items()}
labels = np.concatenate([[library] * len(parts) for library, parts in texts.items()])
everything = [part for parts in texts.values() for part in parts]
train, test, y_train, y_test = train_test_split(
    everything, labels, test_size=0.3, stratify=labels, random_state=0
)
vectorizer = TfidfVectorizer(sublinear_tf=True, min_df=2, ngram_range=(1, 2), dtype=np.float32)
X_train, X_test = vectorizer.fit_transform(train), vectorizer.transform(test)
n_rows, n_features = X_train.shape
print(f"{n_rows} sentences, {n_features} features, {X_train.nnz / n_rows:.0f} of them not zero")

# %%
# With tf-idf rows of length one, gamma near 1 is right, and ``"variance"`` finds it.
linear = 100 * LinearSVC(C=0.5).fit(X_train, y_train).score(X_test, y_test)
ks, scores = (50, 100, 200, 400, 800, 1600), []
for k in ks:
    model = LASNClassifier(k, C=3.0, random_state=0).fit(X_train, y_train)
    scores.append(100 * model.score(X_test, y_test))

picture, (left, right) = plt.subplots(1, 2, figsize=(10, 4.4), width_ratios=(3, 4))
picture.suptitle("Which library is a sentence from? Sparse rows, sparse landmarks")
left.semilogx(ks, scores, marker="o", label="LASN")
left.axhline(linear, color="C1", linestyle="--", label="LinearSVC on all features")
left.set(xticks=ks, xticklabels=ks, xlabel="landmarks", ylabel="test accuracy, %")
left.minorticks_off()
left.legend()
ConfusionMatrixDisplay.from_predictions(
    y_test, model.predict(X_test), normalize="true", values_format=".0%", cmap="Blues", ax=right,
    colorbar=False,
)  # fmt: skip
right.set(xlabel="predicted", ylabel="the sentence is from")
right.grid(False)
plt.show()

# %%
# The sentence of each library that the model is most certain of.
decisions = model.decision_function(X_test)
for place, library in enumerate(model.classes_):
    print(f"{library:13s} {' '.join(test[int(decisions[:, place].argmax())].split())[:110]}")

"""Nystroem + LIBLINEAR proper, by its own Python interface.

``-s 2`` (primal, squared hinge), which its FAQ recommends where rows are many more than
features, ``-B 1`` (a regularised bias) and the default tolerance: the same reduced problem.
"""

import numpy as np

from peers import Peer


class NystroemLiblinear:
    def __init__(self, features, C):
        self.features, self.C = features, C

    def fit(self, X, y):
        from liblinear.liblinearutil import train

        model = train(y.astype(float), self.features.fit_transform(X), f"-s 2 -c {self.C} -B 1 -q")
        n_columns = 1 if model.nr_class == 2 else model.nr_class
        W = np.ctypeslib.as_array(model.w, ((model.nr_feature + 1) * n_columns,))
        W = W.reshape(-1, n_columns).T.copy()
        labels = model.get_labels()  # in order of appearance
        W = W * (1.0 if labels[0] == 1 else -1.0) if n_columns == 1 else W[np.argsort(labels)]
        self.coef_, self.intercept_ = W[:, :-1], W[:, -1]
        return self

    def decision_function(self, X):
        return self.features.transform(X) @ self.coef_.T + self.intercept_

    def predict(self, X):
        scores = self.decision_function(X)
        return (scores[:, 0] > 0.0) if scores.shape[1] == 1 else scores.argmax(axis=1)


def make(C, gamma, k, n_classes, n_rows, seed):
    import liblinear.liblinearutil  # noqa: F401
    from sklearn.kernel_approximation import Nystroem

    return NystroemLiblinear(Nystroem(gamma=gamma, n_components=k, random_state=seed), C)


def coefficients(model):
    return model.coef_, model.intercept_


PEERS = [
    Peer("nystroem-liblinear", "liblinear-official", make, uses_k=True, coefficients=coefficients)
]

"""LASN: defaults except for a stated k ("lasn"), and with other landmarks.

"lasn" is what peers are compared with. "lasn-nystroem-rows" is given the rows that
``Nystroem(random_state=seed)`` takes, so it solves the very problem that the Nystroem peers
solve: the difference is the solver. gamma is left to the estimator, as a part of its fit.
"lasn-smooth" has a sixteenth of that gamma: for boosted trees, which have no kernel to share with.
"""

from functools import partial

from peers import Peer


def make(C, gamma, k, n_classes, n_rows, seed, **options):
    from lasn import LASNClassifier

    return LASNClassifier(n_landmarks=k or "auto", C=C, random_state=seed, **options)


def make_smooth(C, gamma, k, n_classes, n_rows, seed):
    return make(C, None, k, n_classes, n_rows, seed).set_params(gamma=gamma / 16.0)


def make_with_nystroem_rows(C, gamma, k, n_classes, n_rows, seed):
    from sklearn.utils import check_random_state

    from lasn import LASNClassifier

    class NystroemRows(LASNClassifier):
        def fit(self, X, y):
            rows = check_random_state(self.random_state).permutation(X.shape[0])
            self.landmarks = X[rows[: self.n_landmarks]]
            return super().fit(X, y)

    return NystroemRows(n_landmarks=k, C=C, random_state=seed)


def coefficients(model):
    return model.coef_, model.intercept_


OURS = partial(Peer, dtype="float32", uses_k=True, ours=True, coefficients=coefficients)
PEERS = [OURS("lasn", "lasn", make)]
PEERS += [
    OURS(f"lasn-{method}", "lasn", partial(make, landmarks=method))
    for method in ("kmeans", "class_kmeans", "uniform")
]
PEERS += [OURS("lasn-smooth", "lasn", make_smooth)]
PEERS += [OURS("lasn-nystroem-rows", "lasn", make_with_nystroem_rows)]

"""Nystroem + SGDClassifier: what scikit-learn's user guide gives for kernels and many rows.

Its defaults: hinge loss, "optimal" step length, tol=1e-3. alpha = 1 / (C n) makes it the
linearised L1-loss SVM.
"""

from measure import cores
from peers import Peer


def make(C, gamma, k, n_classes, n_rows, seed):
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import SGDClassifier
    from sklearn.pipeline import make_pipeline

    features = Nystroem(gamma=gamma, n_components=k, random_state=seed)
    return make_pipeline(
        features, SGDClassifier(alpha=1.0 / (C * n_rows), n_jobs=cores(), random_state=seed)
    )


PEERS = [Peer("nystroem-sgd", "scikit-learn", make, uses_k=True)]

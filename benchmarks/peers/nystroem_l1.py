"""The linearised L1-loss SVM (the paper's Proposition 1): Nystroem + dual coordinate descent.

``LinearSVC(loss="hinge")`` is LIBLINEAR's solver for it and exists in the dual only.
"""

from peers import Peer


def make(C, gamma, k, n_classes, n_rows, seed):
    from sklearn.kernel_approximation import Nystroem
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import LinearSVC

    features = Nystroem(gamma=gamma, n_components=k, random_state=seed)
    return make_pipeline(features, LinearSVC(C=C, loss="hinge", dual=True, random_state=seed))


PEERS = [Peer("nystroem-l1", "scikit-learn", make, uses_k=True)]

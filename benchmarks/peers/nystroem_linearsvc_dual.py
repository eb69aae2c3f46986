"""Nystroem + LinearSVC in the dual: coordinate descent on the squared hinge, its old default.

Defaults otherwise. With C = 10 it often stops at its limit of 1000 passes and says so.
"""

from peers import Peer, last_step


def make(C, gamma, k, n_classes, n_rows, seed):
    from sklearn.kernel_approximation import Nystroem
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import LinearSVC

    features = Nystroem(gamma=gamma, n_components=k, random_state=seed)
    return make_pipeline(features, LinearSVC(C=C, dual=True, random_state=seed))


PEERS = [Peer("nystroem-linearsvc-dual", "scikit-learn", make, uses_k=True, coefficients=last_step)]

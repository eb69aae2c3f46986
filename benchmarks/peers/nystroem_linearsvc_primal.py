"""Nystroem + LinearSVC in the primal: LIBLINEAR's trust region Newton on the squared hinge.

scikit-learn recommends ``dual=False`` where there are more rows than features. Its tolerance
(1e-4) and limit of 1000 iterations are the defaults. The same reduced problem as ours.
"""

from peers import Peer, last_step


def make(C, gamma, k, n_classes, n_rows, seed):
    from sklearn.kernel_approximation import Nystroem
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import LinearSVC

    features = Nystroem(gamma=gamma, n_components=k, random_state=seed)
    return make_pipeline(features, LinearSVC(C=C, dual=False))


PEERS = [
    Peer("nystroem-linearsvc-primal", "scikit-learn", make, uses_k=True, coefficients=last_step)
]

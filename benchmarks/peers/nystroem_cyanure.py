"""Nystroem + cyanure's LinearSVC: accelerated incremental methods on the squared hinge.

Defaults: ``solver="auto"`` as its documentation advises, a duality gap of 1e-3. Its objective is
1/n sum_i 1/2 max(0, 1 - y f)^2 + lambda/2 |w|^2, so lambda_1 = 1 / (2 C n). Its bias is not
regularised, where ours is: a difference far below the tolerance.
"""

from measure import cores
from peers import Peer


def make(C, gamma, k, n_classes, n_rows, seed):
    from cyanure.estimators import LinearSVC
    from sklearn.kernel_approximation import Nystroem
    from sklearn.pipeline import make_pipeline

    features = Nystroem(gamma=gamma, n_components=k, random_state=seed)
    return make_pipeline(features, LinearSVC(lambda_1=0.5 / (C * n_rows), n_threads=cores()))


def coefficients(model):
    return model[-1].coef_.T, model[-1].intercept_


PEERS = [
    Peer(
        "nystroem-cyanure",
        "cyanure",
        make,
        dtype="float32",
        uses_k=True,
        coefficients=coefficients,
    )
]

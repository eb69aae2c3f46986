"""Nystroem + Snap ML's support vector machine: parallel dual coordinate descent.

Its documentation recommends rows of unit length, which Nystroem features of the rbf kernel
almost have. ``n_jobs`` is one by default and all cores here; regularizer = 1 / C gives the same
reduced problem as ours, bias included.
"""

from measure import cores
from peers import Peer, last_step


def make(C, gamma, k, n_classes, n_rows, seed):
    from sklearn.kernel_approximation import Nystroem
    from sklearn.pipeline import make_pipeline
    from snapml import SupportVectorMachine

    features = Nystroem(gamma=gamma, n_components=k, random_state=seed)
    machine = SupportVectorMachine(
        loss="squared_hinge",
        regularizer=1.0 / C,
        fit_intercept=True,
        n_jobs=cores(),
        random_state=seed,
    )
    return make_pipeline(features, machine)


PEERS = [
    Peer("nystroem-snapml", "snapml", make, dtype="float32", uses_k=True, coefficients=last_step)
]

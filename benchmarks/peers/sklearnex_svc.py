"""SVC of the Extension for Scikit-learn (oneDAL): the exact kernel SVM on all cores.

Defaults, with SVC's larger cache. It runs in the type of the rows, so both are listed: float64
is what most people have, float32 is faster. Sparse rows suit it in float64 (w8a in a third of the
time), and cost accuracy in float32 (97.0 instead of 99.3 %): there it gets dense ones.
"""

from peers import Peer


def make(C, gamma, k, n_classes, n_rows, seed):
    from sklearnex.svm import SVC

    return SVC(C=C, gamma=gamma, cache_size=1000)


PEERS = [
    Peer("sklearnex-svc", "scikit-learn-intelex", make),
    Peer("sklearnex-svc-float32", "scikit-learn-intelex", make, dtype="float32", sparse_below=0.0),
]

"""scikit-learn's SVC: LIBSVM, the exact kernel SVM with the L1 loss.

Its user guide recommends a larger kernel cache (``cache_size`` of 500 or 1000 MB where memory
allows). Dense rows, which were faster than CSR here on every set with few features.
"""

from peers import Peer


def make(C, gamma, k, n_classes, n_rows, seed):
    from sklearn.svm import SVC

    return SVC(C=C, gamma=gamma, cache_size=1000)


PEERS = [Peer("svc", "scikit-learn", make)]

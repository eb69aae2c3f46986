"""ThunderSVM on the CPU: the exact kernel SVM on all cores.

Defaults. Release 0.3.3 never returns on sparse input, so its rows are dense always.
"""

from measure import cores
from peers import Peer


def make(C, gamma, k, n_classes, n_rows, seed):
    from thundersvm import SVC

    return SVC(C=C, gamma=gamma, n_jobs=cores())


PEERS = [Peer("thundersvm", "thundersvm-cpu", make, rows="dense")]

"""LightGBM: gradient-boosted trees, what people pick instead. Defaults, 100 trees.

Its documentation recommends as many threads as there are real cores.
"""

from measure import cores
from peers import Peer


def make(C, gamma, k, n_classes, n_rows, seed):
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_jobs=cores(), random_state=seed, verbose=-1)


PEERS = [Peer("lightgbm", "lightgbm", make, rows="stored", kernel=False)]

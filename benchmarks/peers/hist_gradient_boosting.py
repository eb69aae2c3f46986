"""scikit-learn's HistGradientBoostingClassifier: what people pick instead. Defaults."""

from peers import Peer


def make(C, gamma, k, n_classes, n_rows, seed):
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(random_state=seed)


PEERS = [Peer("hist-gradient-boosting", "scikit-learn", make, rows="dense", kernel=False)]

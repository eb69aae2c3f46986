"""XGBoost: gradient-boosted trees, what people pick instead. Defaults ("hist", 100 trees)."""

from measure import cores
from peers import Peer


def make(C, gamma, k, n_classes, n_rows, seed):
    from xgboost import XGBClassifier

    return XGBClassifier(n_jobs=cores(), random_state=seed)


PEERS = [Peer("xgboost", "xgboost", make, rows="stored", kernel=False)]

"""How to add a competitor to the benchmarks: docs/contributing.md shows this file."""

import peers

COMPETITOR = '''
"""Nearest neighbours: scikit-learn's, with its defaults."""

from peers import Peer


def make(C, gamma, k, n_classes, n_rows, seed):
    from sklearn.neighbors import KNeighborsClassifier

    return KNeighborsClassifier()


PEERS = [Peer("neighbours", "scikit-learn", make, kernel=False)]
'''


def test_a_new_competitor_is_a_file(monkeypatch, tmp_path, binary):
    (tmp_path / "neighbours.py").write_text(COMPETITOR)
    monkeypatch.setattr(peers, "__path__", [str(tmp_path)])
    (peer,) = peers.chosen(["neigh*"])
    X, y = binary
    model = peer.make(C=10.0, gamma=1.0, k=None, n_classes=2, n_rows=len(y), seed=0)
    assert model.fit(peer.convert(X), y).score(peer.convert(X), y) > 0.85

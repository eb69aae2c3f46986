"""Falkon: kernel ridge regression on k uniform centres by preconditioned CG.

Defaults (20 CG iterations, uniform centres) on the CPU, one column a class. Its objective is
1/n sum (f - y)^2 + lambda |f|^2, so penalty = 1 / (2 C n), and its kernel exp(-|x-y|^2 / 2 s^2).
There is no build of it in package indexes: it appears where one was made from its source.
"""

import numpy as np

from peers import Peer


class FalkonClassifier:
    def __init__(self, n_classes, **options):
        self.n_classes, self.options = n_classes, options

    def fit(self, X, y):
        import falkon
        import torch

        targets = np.where(y[:, None] == np.arange(self.n_classes), 1.0, -1.0).astype(X.dtype)
        cpu = falkon.FalkonOptions(use_cpu=True)
        self.model = falkon.Falkon(options=cpu, **self.options)
        self.model.fit(torch.from_numpy(X), torch.from_numpy(targets))
        return self

    def predict(self, X):
        import torch

        return self.model.predict(torch.from_numpy(X)).numpy().argmax(axis=1)


def make(C, gamma, k, n_classes, n_rows, seed):
    import falkon

    kernel = falkon.kernels.GaussianKernel(sigma=(0.5 / gamma) ** 0.5)
    return FalkonClassifier(n_classes, kernel=kernel, penalty=0.5 / (C * n_rows), M=k, seed=seed)


PEERS = [Peer("falkon", "falkon", make, rows="dense", dtype="float32", uses_k=True)]

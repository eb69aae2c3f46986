"""What training finds: a function f(x) = K(x, L) beta + b, one column a problem."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lasn.arrays import like, to_numpy, wide
from lasn.kernels import Kernel
from lasn.prediction import scores


@dataclass
class Model:
    """The function f(x) = K(x, L) beta + b, one column a problem."""

    kernel: Kernel
    landmarks: Any
    mapping: Any
    W: np.ndarray
    dtype: np.dtype

    @property
    def beta(self) -> np.ndarray:
        """beta = M w, shape (k, c)."""
        if self.mapping is None:
            return self.W[:-1]
        mapping = wide(self.mapping)
        return to_numpy(mapping @ like(self.W[:-1], mapping))

    @property
    def columns(self) -> Any:
        """The kernel against the landmarks; None for the linear kernel."""
        if self.landmarks is None:
            return None
        return self.kernel.against(self.landmarks, self.dtype)

    def scores(self, X) -> Any:
        """Algorithm 3: K_el beta + b, shape (m, c), block by block, F never formed."""
        return scores(X, self.columns, self.beta, self.W[-1])

"""How sure a linear classifier is of its coefficients: a Gaussian around them, by Laplace's approximation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import block_diag

from majorant._checks import Array
from majorant.data import Labelled


@dataclass(frozen=True, eq=False)
class Posterior:
    """The covariance of coefficients and intercepts, class by class, of columns measured from a centre.

    Far from zero an intercept and its coefficients are all but the same: their covariance would have no digits left.
    """

    covariance: Array
    classes: int
    centre: Array | None

    @classmethod
    def of(cls, precision: Array, classes: int, centre: Array | None, free: Array | None = None) -> Posterior:
        """Invert a precision: a d×d matrix, one block per class, or a diagonal.

        Of ``free`` columns, which nothing but a stream's own prior holds, softmax coefficients are known only up to a
        number that all share: that direction is left out.
        """
        if precision.ndim == 1:
            whole = np.diag(precision)
        else:
            whole = precision if precision.ndim == 2 else block_diag(*precision)
        covariance = np.linalg.pinv(whole, hermitian=True)
        if classes > 1 and free is not None and free.any():
            C = covariance.reshape(classes, len(free), classes, len(free))
            C[:, free] -= C[:, free].mean(axis=0)
            C[:, :, :, free] -= C[:, :, :, free].mean(axis=2, keepdims=True)
        return cls(covariance, classes, centre)

    def uncentred(self) -> Array:
        """Return the covariance that belongs to columns measured from zero."""
        if self.centre is None:
            return self.covariance
        C = self._by_class().copy()
        C[:, -1] -= np.einsum("i,ciek->cek", self.centre, C[:, :-1])
        C[:, :, :, -1] -= np.einsum("i,cjei->cje", self.centre, C[:, :, :, :-1])
        return C.reshape(self.covariance.shape)

    def score_variances(self, X: Any, *, constant: bool) -> Array:
        """Return the variance of each score (t×n), of more than one class that of each less their mean."""
        center = False if self.centre is None else self.centre
        rows = Labelled(X, np.zeros(X.shape[0], dtype=int), constant=constant, center=center).design.dense()
        C = self._by_class()
        if self.classes > 1:
            C = C - C.mean(axis=0, keepdims=True)
            C = C - C.mean(axis=2, keepdims=True)
        return np.stack([np.einsum("jp,jp->j", rows @ C[c, :, c], rows) for c in range(self.classes)], axis=-1)

    def _by_class(self) -> Array:
        p = len(self.covariance) // self.classes
        return self.covariance.reshape(self.classes, p, self.classes, p)

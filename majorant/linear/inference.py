"""How sure a logistic regression is of its coefficients: Laplace's approximation, and standard errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.linalg import block_diag
from scipy.special import xlogy

from majorant.core.checks import Array
from majorant.core.labelled import Labelled
from majorant.core.objective import Objective

if TYPE_CHECKING:
    from majorant.inference import Facts

SOURCES = {
    "hessian": "standard errors from the inverse Hessian",
    "robust": "robust standard errors (sandwich over rows)",
    "cluster": "standard errors robust to dependence within clusters",
}


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


class Estimates(NamedTuple):
    """Estimates of maximum likelihood, class by class, intercepts first, their covariance, and facts of the fit."""

    params: Array
    covariance: Array
    facts: Facts


def estimates(
    objective: Objective, W: Array, kind: str, cluster: Any, *, intercept: bool, null_totals: int | None
) -> Estimates:
    """Return the estimates of parameters W, a row per class, with standard errors of a kind.

    Of more than two classes, they are those against the first: softmax coefficients may all move together. Where
    ``null_totals`` is the number of classes, the null model has an intercept for each; otherwise all of it is zero.
    """
    from majorant.inference import Facts, covariance, row_scores, through

    model, data = objective.model.as_rows(), objective.whole
    assert isinstance(data, Labelled)
    centre = model.design(data).centre
    loss, _, H = objective.hessian(W.ravel())
    classes, width = W.shape
    first = width if classes > 1 else 0
    scores = None if kind == "hessian" else row_scores(model, W.ravel(), data)[:, first:]
    of_params = covariance(
        H.as_matrix()[first:, first:], scores, kind, None if cluster is None else np.asarray(cluster)
    )
    params = (W[1:] - W[0] if classes > 1 else W).ravel()
    # Intercepts come first, and are those of columns measured from zero.
    T: Array = np.eye(width)
    if intercept:
        if centre is not None:
            T[-1, :-1] -= centre
        T = np.roll(T, 1, axis=0)
    T = np.kron(np.eye(max(classes - 1, 1)), T)
    weight = float(len(data) if data.weight is None else data.weight.sum())
    if null_totals is None:
        null = objective.value_at_zero()
    else:  # every class is as likely as it was observed
        totals = data.class_totals(null_totals)
        null = float(-xlogy(totals, totals / totals.sum()).sum())
    return Estimates(T @ params, through(T, of_params), Facts(-loss, -null, weight, len(params)))

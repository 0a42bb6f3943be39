"""Logistic regression in its one-row form."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import expit

from majorant import kernels
from majorant._buffers import empty
from majorant._checks import Array
from majorant.curvature import Factors
from majorant.data import Labelled
from majorant.kernels.partition import curvature_weight
from majorant.models.answers import AlongIntercepts, Leapt
from majorant.models.base import Model, require_data, weigh, weighted_sum
from majorant.models.class_space import WORTH_COMPILING, ClassFactors, ClassModel

# Rows of so many columns, of data of so many numbers, are read once by compiled loops, not twice by products; those in
# single precision of more, for products are quick as long as rows stay in a cache that cores share.
LONG_ROW, CACHE = 48, 2**20
LONG_NARROW_ROW, SHARED_CACHE = 64, 2**22
# Non-zeros that count as a row does where Numba is worth loading.
NONZEROS = 16


@dataclass(frozen=True)
class Binary(ClassModel):
    """p(1|x) = 1 / (1 + exp(−u)), u = θᵀx + offset: two outcomes with f(0) = 0 and f(1) = x.

    The bound of Algorithm 1 is then that of Jaakkola and Jordan: B_j = tanh(u/2)/(2u).

    Examples
    --------
    >>> from majorant import Labelled, Objective
    >>> F = Objective(Binary(), Labelled([[1.0], [-1.0]], [1, 0]), ridge=1.0)
    >>> round(F.value([0.0]), 4)  # 2 log 2
    1.3863
    """

    order: str = field(default="given", init=False, repr=False)  # one score has only one order
    against_zero: bool = field(default=True, init=False, repr=False)

    def on_tensors(self) -> Model[Any]:
        """Return :class:`Binary` on tensors."""
        if type(self) is not Binary:
            return super().on_tensors()
        from majorant.models.tensors import TensorBinary

        return TensorBinary()

    @property
    def coefficient_rows(self) -> int:
        """Rows of the coefficient matrix: one."""
        return 1

    def is_softmax(self) -> bool:
        """Return True, but for what derives from this."""
        return type(self) is Binary

    def check(self, data: Labelled) -> None:
        """Raise if a label is neither 0 nor 1, or the offset is not one finite number per row."""
        require_data(self, data, Labelled)
        if data.soft and len(data.y) != 2:
            raise ValueError(f"y must have 2 columns for Binary, got {len(data.y)}; use Multinomial")
        if data.y.max() > 1:
            raise ValueError(f"y must hold the labels 0 and 1 for Binary, got {data.y.max()}; use Multinomial")
        if data.offset is None:
            return
        if len(data.offset) != 1:
            raise ValueError(f"offset must have shape (t,) for Binary, got {len(data.offset)} columns")
        if not np.isfinite(data.offset).all():
            raise ValueError("offset must be finite for Binary; use Multinomial(2) to forbid a class")

    def loss(self, scores: Array, batch: Labelled) -> float:
        """Return Σ_j w_j log(1 + exp(∓u_j))."""
        if batch.soft:
            each = batch.y[0] * np.logaddexp(0.0, scores[0]) + batch.y[1] * np.logaddexp(0.0, -scores[0])
            return weighted_sum(each, batch.weight)
        return weighted_sum(np.logaddexp(0.0, -self.margins(scores, batch)), batch.weight)

    def loss_and_residual(self, scores: Array, batch: Labelled) -> tuple[float, Array]:
        """Return the loss and w_j (p_j − y_j)."""
        if batch.soft:
            return self.loss(scores, batch), weigh(expit(scores) - batch.y[1], batch.weight)
        if batch.total < WORTH_COMPILING:
            loss, residual = kernels.logistic.loss_and_residual(scores[0], batch.y, batch.weight)
            return loss, residual[None]
        residual, weight = empty(scores.shape), np.empty(0) if batch.weight is None else batch.weight
        return kernels.logistic_compiled.loss_and_residual(scores[0], batch.y, weight, residual[0]), residual

    def leap(self, direction: Array, scores: Array, batch: Labelled) -> tuple[float, float, Array, Leapt]:
        """Return loss, slope and gradient one whole step along a direction, rows read once where that is quicker."""
        stored = batch.design.stored() if self.reads_once(batch) else None
        if stored is None:
            return super().leap(direction, scores, batch)
        there, slopes, G = empty(scores.shape), empty(scores.shape), np.empty(len(direction))
        weight = np.empty(0) if batch.weight is None else batch.weight
        kernel = kernels.logistic_compiled.leap_csr if batch.design.is_sparse else kernels.logistic_compiled.leap_dense
        loss, slope = kernel(stored, direction, scores[0], batch.y, weight, there[0], slopes[0], G)
        return loss, slope, G, Leapt(there, slopes)

    def reads_once(self, batch: Labelled) -> bool:
        """Return whether compiled loops over rows are quicker than products."""
        X, p, many = batch.design, batch.n_features, float(batch.total)
        if X.is_sparse:
            quicker, many = True, many * max(X.density * p / NONZEROS, 1.0)
        elif X.dtype == np.float64:
            quicker = p >= LONG_ROW and many * p >= CACHE
        else:
            quicker = p >= LONG_NARROW_ROW and many * p >= SHARED_CACHE
        return quicker and many >= WORTH_COMPILING and self.is_softmax() and not batch.soft

    def bound_factors(self, scores: Array, batch: Labelled) -> Factors:
        """Return the factors β(u_j)."""
        return self._factors(scores, batch, curvature_weight, majorizes=True)

    def hessian_factors(self, scores: Array, batch: Labelled) -> Factors:
        """Return the factors p_j(1 − p_j)."""
        return self._factors(scores, batch, variance, majorizes=False)

    def margins(self, scores: Array, batch: Labelled) -> Array:
        """Return u where the label is 1, −u where it is 0; −∞ where it is both."""
        towards = np.where(self.targets(batch) > 0.5, scores[0], -scores[0])
        return np.where(batch.y.min(axis=0) > 0, -np.inf, towards) if batch.soft else towards

    def center(self, scores: Array, batch: Labelled, V: Array) -> tuple[Array, Array]:
        """Return p(1 − p) and V: label 0 has no features, and both outcomes together make this."""
        return variance(scores.ravel()), V

    def class_weights(self, scores: Array, batch: Labelled) -> Array:
        """Return w p(1 − p)."""
        if batch.total < WORTH_COMPILING or not scores.flags.c_contiguous:
            return weigh(variance(scores), batch.weight)
        found, weight = empty(scores.shape), np.empty(0) if batch.weight is None else batch.weight
        kernels.logistic_compiled.variances(scores[0], weight, found[0])
        return found

    def along_intercepts(
        self, scores: Array, intercepts: Array, batch: Labelled, *, curved: bool
    ) -> tuple[AlongIntercepts, Array]:
        """Return what is known of the loss where the intercept has moved, and residuals, found in one loop."""
        if batch.soft or batch.total < WORTH_COMPILING or not self.is_softmax():
            return super().along_intercepts(scores, intercepts, batch, curved=curved)
        r, weight = empty(scores.shape), np.empty(0) if batch.weight is None else batch.weight
        along = kernels.logistic_compiled.along_intercept(scores[0], intercepts[0], batch.y, weight, r[0])
        loss, slope, curvature, squares = along
        return AlongIntercepts(loss, np.array([slope]), np.array([[curvature]]), squares), r

    def between_classes(self, residual: Array, batch: Labelled) -> tuple[Array, Array]:
        """Return Σ_j w_j p_j(1 − p_j), and what it is a sum of."""
        weights = self.class_variances(residual, batch)
        return weights.sum(axis=1, keepdims=True), weights

    def class_variances(self, residual: Array, batch: Labelled) -> Array:
        """Return w p(1 − p)."""
        w = 1.0 if batch.weight is None else batch.weight
        off = residual + w * batch.y[1] if batch.soft else np.abs(residual)  # w p, or w (1 − p): either is as good
        if batch.weight is None:
            return off * (1.0 - off)
        return off * (1.0 - np.divide(off, w, out=np.zeros_like(off), where=w > 0))

    def bending(self, scores: Array, batch: Labelled) -> Array:
        """Return w p(1 − p)."""
        return self.class_weights(scores, batch)

    def bent(self, bending: Array, V: Array, batch: Labelled) -> Array:
        """Return w p(1 − p) V."""
        return np.multiply(bending, V, out=V)

    def hessian_product(self, direction: Array, bending: Array, batch: Labelled) -> Array:
        """Return Σ_j w_j p_j(1 − p_j) x_j x_jᵀ·direction, rows read once where that is quicker."""
        stored = batch.design.stored() if self.reads_once(batch) else None
        if stored is None:
            return super().hessian_product(direction, bending, batch)
        G, compiled = np.empty(len(direction)), kernels.logistic_compiled
        kernel = compiled.product_csr if batch.design.is_sparse else compiled.product_dense
        kernel(stored, direction, bending[0], G)
        return G

    def class_bounds(self, scores: Array, batch: Labelled) -> Array:
        """Return w β(u)."""
        return weigh(curvature_weight(scores)[None], batch.weight)

    def hits(self, scores: Array, batch: Labelled) -> Array:
        """Return whether, or how often, the label is that of the score's sign; zero stands for label 0."""
        one = self.targets(batch)
        return np.where(scores[0] > 0, one, 1.0 - one)

    def targets(self, batch: Labelled) -> Array:
        """Return the labels, or the frequencies of label 1."""
        return batch.y[1] if batch.soft else batch.y.astype(np.float64)

    def _factors(self, scores: Array, batch: Labelled, curve, *, majorizes: bool) -> Factors:  # type: ignore[no-untyped-def]
        return ClassFactors(
            scores,
            batch.design,
            batch.weight,
            matrices=lambda u: curve(u)[None],
            directions=lambda u: np.sqrt(curve(u))[None],
            fixed_classes=np.array([[0.25]]),
            majorizes=majorizes,
        )


def variance(u: Array) -> Array:
    """Return p(1 − p), p = 1 / (1 + exp(−u)), to all digits."""
    e = np.exp(-np.abs(u))
    return e / np.square(1.0 + e)

"""Multinomial logistic regression with all n classes kept."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from majorant import kernels
from majorant._buffers import empty
from majorant._checks import Array, one_of, whole
from majorant.curvature import Factors
from majorant.curvature.dense import refuse_large
from majorant.data import Labelled
from majorant.design.base import add_gram
from majorant.kernels import partition, softmax
from majorant.kernels.sparse import Stored
from majorant.models.answers import Leapt
from majorant.models.base import Model, require_data, weigh, weighted_sum
from majorant.models.class_space import CLASS_MATRICES, WORTH_COMPILING, ClassFactors, ClassModel

# Of more, the scores of a row are too far apart for one loop over them to be quicker than several.
FEW_CLASSES = 32
# Rows of so many columns are read once by compiled loops where classes are few, or few beside the columns.
LONG_ROW, FEWER_CLASSES, COLUMNS_PER_CLASS = 48, 10, 10


@dataclass(frozen=True)
class Multinomial(ClassModel):
    """p(y|x) ∝ h(y) exp(θ_yᵀx) over n classes; θ is an n×p matrix, flat.

    Parameters
    ----------
    n_classes : int
        Number of classes n ≥ 2.
    order : {"descending", "ascending", "given"}
        In which order the bound visits the classes of a row; "given" is label order.

    Examples
    --------
    >>> from majorant import Labelled, Objective
    >>> data = Labelled([[1.0, 2.0], [1.0, -1.0], [1.0, 0.0]], [0, 1, 2])
    >>> F = Objective(Multinomial(3), data, ridge=1.0)
    >>> round(F.value([0.0] * 6), 4)  # 3 log 3
    3.2958
    """

    n_classes: int
    order: str = "descending"

    def on_tensors(self) -> Model[Any]:
        """Return :class:`Multinomial` on tensors."""
        if type(self) is not Multinomial:
            return super().on_tensors()
        from majorant.models.tensors import TensorMultinomial

        return TensorMultinomial(self.n_classes, self.order)

    def __post_init__(self) -> None:
        whole("n_classes", self.n_classes, least=2)
        one_of("order", self.order, partition.ORDERS)

    @property
    def coefficient_rows(self) -> int:
        """Rows of the coefficient matrix: all n classes."""
        return self.n_classes

    def is_softmax(self) -> bool:
        """Return True, but for what derives from this."""
        return type(self) is Multinomial

    def check(self, data: Labelled) -> None:
        """Raise if a label or an offset does not fit n classes."""
        require_data(self, data, Labelled)
        if data.soft and len(data.y) != self.n_classes:
            raise ValueError(f"y must have {self.n_classes} columns, one per class, got {len(data.y)}")
        if not data.soft and data.y.max() >= self.n_classes:
            raise ValueError(f"y must hold labels below n_classes={self.n_classes}, got {data.y.max()}")
        if data.offset is None:
            return
        if len(data.offset) != self.n_classes:
            raise ValueError(f"offset must have {self.n_classes} columns, one per class, got {len(data.offset)}")
        forbidden = data.offset == -np.inf
        observed = data.y[forbidden] > 0 if data.soft else forbidden[data.y, np.arange(len(data))]
        if observed.any():
            raise ValueError("offset is −inf (h(y) = 0) for a class that was observed")

    def loss(self, scores: Array, batch: Labelled) -> float:
        """Return Σ_j w_j [log Z_j − s_j(y_j)]."""
        return weighted_sum(softmax.log_partition(scores, self._observed(scores, batch)), batch.weight)

    def loss_and_residual(self, scores: Array, batch: Labelled) -> tuple[float, Array]:
        """Return the loss and w_j (p_j − e_{y_j})."""
        if self._compiles(batch):
            R, weight = empty(scores.shape), np.empty(0) if batch.weight is None else batch.weight
            return kernels.softmax_compiled.loss_and_residual(scores, batch.y, weight, R), R
        losses, R = softmax.log_partition_and_probabilities(scores, self._observed(scores, batch))
        loss = weighted_sum(losses, batch.weight)
        if batch.soft:
            R -= batch.y
        else:
            R[batch.y, np.arange(len(batch))] -= 1.0
        return loss, weigh(R, batch.weight)

    def leap(self, direction: Array, scores: Array, batch: Labelled) -> tuple[float, float, Array, Leapt]:
        """Return loss, slope and gradient one whole step along a direction, rows read once where that is quicker."""
        stored = batch.design.stored() if self.reads_once(batch) else None
        if stored is not None:
            return self._leap_at_once(direction, scores, batch, stored)
        if self.n_classes > FEW_CLASSES or not (self.is_softmax() and self._compiles(batch)):
            return super().leap(direction, scores, batch)
        slopes, there, R = self.potentials(direction, batch), empty(scores.shape), empty(scores.shape)
        weight = np.empty(0) if batch.weight is None else batch.weight
        loss, slope = kernels.softmax_compiled.leap(scores, slopes, batch.y, weight, there, R)
        return loss, slope, self.lift(R, batch), Leapt(there, slopes)

    def _leap_at_once(
        self, direction: Array, scores: Array, batch: Labelled, stored: Stored
    ) -> tuple[float, float, Array, Leapt]:
        W = direction.reshape(self.n_classes, -1)
        there, slopes, G = empty(scores.shape), empty(scores.shape), np.empty(W.shape)
        weight = np.empty(0) if batch.weight is None else batch.weight
        loss, slope = kernels.softmax_compiled.leap_dense(stored, W, scores, batch.y, weight, there, slopes, G)
        return loss, slope, G.ravel(), Leapt(there, slopes)

    def reads_once(self, batch: Labelled) -> bool:
        """Return whether rows are dense and long, and classes few."""
        X, p = batch.design, batch.n_features
        few = self.n_classes <= max(FEWER_CLASSES, p / COLUMNS_PER_CLASS)
        return few and p >= LONG_ROW and not X.is_sparse and self.is_softmax() and self._compiles(batch)

    def _compiles(self, batch: Labelled) -> bool:
        return self.n_classes * batch.total >= WORTH_COMPILING and not batch.soft

    def bound_factors(self, scores: Array, batch: Labelled) -> Factors:
        """Return the factors of Algorithm 1's bound."""
        return ClassFactors(
            scores,
            batch.design,
            batch.weight,
            matrices=partial(partition.bound_matrices, order=self.order),
            directions=partial(partition.bound_directions, order=self.order),
            fixed_classes=self._boehning(),
            majorizes=True,
        )

    def hessian_factors(self, scores: Array, batch: Labelled) -> Factors:
        """Return the factors of the Hessian."""
        return SoftmaxFactors(
            scores,
            batch.design,
            batch.weight,
            matrices=softmax.hessian_matrices,
            directions=softmax.hessian_directions,
            fixed_classes=self._boehning(),
            majorizes=False,
        )

    def margins(self, scores: Array, batch: Labelled) -> Array:
        """Return s(y_j) − max of the other scores; −∞ where a label is spread over several classes."""
        if batch.soft:
            observed = batch.y > 0
            margin = np.where(observed, scores, np.inf).min(axis=0) - np.where(observed, -np.inf, scores).max(axis=0)
            return np.where(observed.sum(axis=0) > 1, -np.inf, margin)
        others = scores.copy()
        others[batch.y, np.arange(len(batch))] = -np.inf
        return self._observed(scores, batch) - others.max(axis=0)

    def center(self, scores: Array, batch: Labelled, V: Array) -> tuple[Array, Array]:
        """Return p, and V less its mean over classes."""
        P = softmax.log_partition_and_probabilities(scores.reshape(self.n_classes, -1))[1]
        stacked = V.reshape(self.n_classes, -1, V.shape[1])
        mean = np.einsum("cj,cjk->jk", P, stacked)
        return P.ravel(), (stacked - mean).reshape(V.shape)

    def class_weights(self, scores: Array, batch: Labelled) -> Array:
        """Return w p_c(1 − p_c)."""
        P = softmax.log_partition_and_probabilities(scores)[1]
        return weigh(P * (1 - P), batch.weight)

    def between_classes(self, residual: Array, batch: Labelled) -> tuple[Array, Array]:
        """Return diag(Σ_j w_j p_j) − Σ_j w_j p_j p_jᵀ, and w p_c(1 − p_c)."""
        return covariance(self._probabilities(residual, batch), batch.weight)

    def of_labels(self, residual: Array, each: Array, batch: Labelled) -> tuple[Array, Array, Array]:
        """Return of the rows of each label k Σ_j B_j e_k, Σ_j w_j and Σ_j w_j x_j.

        B_j e_k is −p_j(k) times the residual of such a row.
        """
        y, rows = batch.y, np.arange(len(batch))
        off = residual[y, rows]
        if batch.weight is not None:
            off = np.divide(off, batch.weight, where=batch.weight > 0, out=np.zeros_like(off))
        chosen = np.zeros_like(residual)
        chosen[y, rows] = 1.0 + off
        columns = -chosen @ residual.T
        chosen[y, rows] = each
        return columns, np.bincount(y, each, self.n_classes), batch.design.pull_back(chosen)

    def class_variances(self, residual: Array, batch: Labelled) -> Array:
        """Return w p_c(1 − p_c)."""
        P = self._probabilities(residual, batch)
        return weigh(P * (1.0 - P), batch.weight)

    def bending(self, scores: Array, batch: Labelled) -> Array:
        """Return the probabilities."""
        return self._probabilities(self.loss_and_residual(scores, batch)[1], batch)

    def bent(self, bending: Array, V: Array, batch: Labelled) -> Array:
        """Return w p_c(V_c − Σ_e p_e V_e)."""
        if self._compiles(batch):
            kernels.softmax_compiled.bend(bending, V)
        else:
            V *= bending
            V -= bending * V.sum(axis=0)
        return weigh(V, batch.weight)

    @staticmethod
    def _probabilities(residual: Array, batch: Labelled) -> Array:
        if batch.weight is None:
            P = residual.copy()
        else:
            P = np.divide(residual, batch.weight, out=np.zeros_like(residual), where=batch.weight > 0)
        if batch.soft:
            P += batch.y
        else:
            P[batch.y, np.arange(len(batch))] += 1.0
        return P

    def class_bounds(self, scores: Array, batch: Labelled) -> Array:
        """Return w B."""
        return weigh(partition.bound_matrices(scores, self.order), batch.weight)

    def hits(self, scores: Array, batch: Labelled) -> Array:
        """Return whether the label has the highest score."""
        likeliest = scores.argmax(axis=0)
        if batch.soft:
            return batch.y[likeliest, np.arange(len(batch))]
        return (likeliest == batch.y).astype(np.float64)

    def targets(self, batch: Labelled) -> Array:
        """Return one-hot labels, class-major and flat."""
        if batch.soft:
            return batch.y.ravel()
        return (batch.y == np.arange(self.n_classes)[:, None]).astype(np.float64).ravel()

    def _observed(self, scores: Array, batch: Labelled) -> Array:
        if batch.soft:  # 0 · (−∞) is a class that neither can happen nor did
            return np.multiply(batch.y, scores, out=np.zeros_like(scores), where=batch.y > 0).sum(axis=0)
        return scores[batch.y, np.arange(len(batch))]

    def _boehning(self) -> Array:
        return 0.5 * (np.eye(self.n_classes) - 1.0 / self.n_classes)


class SoftmaxFactors(ClassFactors):
    """Σ_j w_j (diag(p_j) − p_j p_jᵀ) ⊗ x_j x_jᵀ, of which one product of matrices tells all."""

    def matrix(self) -> Array:
        """Return Σ from ZᵀZ with rows z_j = √w_j p_j ⊗ x_j: that is Σ but for its sign and the blocks of a class.

        Blocks sum to zero over classes, which gives those without p − p², whose digits would be lost to sure classes.
        """
        n, p = len(self.scores), self.design.shape[1]
        if self.design.counts_pairs:
            return super().matrix()
        refuse_large(self.size, "a dense curvature")
        total, same = np.zeros((n * p, n * p)), np.arange(n)
        for part in self._parts(n * p, CLASS_MATRICES):
            P = softmax.log_partition_and_probabilities(part.scores)[1]
            P = weigh(P, None if part.weight is None else np.sqrt(part.weight))
            x = part.design.toarray()
            add_gram((P.T[:, :, None] * x[:, None, :]).reshape(len(x), n * p), total)
        blocks = np.negative(total, out=total).reshape(n, p, n, p)
        blocks[same, :, same] = 0.0
        blocks[same, :, same] = -blocks.sum(axis=2)
        return total


def covariance(P: Array, weight: Array | None) -> tuple[Array, Array]:
    """Return diag(Σ_j w_j p_j) − Σ_j w_j p_j p_jᵀ, and w p_c(1 − p_c)."""
    weighted = weigh(P, weight)
    H = np.dot(weighted, P.T)  # other threads run meanwhile, however few classes
    np.negative(H, out=H)
    # Rows sum to zero; where one class is nearly sure, p − p² would lose what is left.
    np.fill_diagonal(H, 0.0)
    np.fill_diagonal(H, -H.sum(axis=1))
    return H, weighted * (1.0 - P)

"""Models of classes: ``Binary`` with one row of coefficients, ``Multinomial`` with n, and ``LatentMultinomial``.

The classes of the last own hidden states, each with a coefficient vector of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.special import expit

from majorant.core import kernels
from majorant.core.checks import Array, one_of, whole
from majorant.core.class_model import CLASS_MATRICES, ClassFactors, ClassModel
from majorant.core.curvature import Factors, refuse_large
from majorant.core.kernels import Stored, partition
from majorant.core.labelled import Labelled
from majorant.core.matrix import add_gram
from majorant.core.model import AlongIntercepts, Latent, Model, require_data, weigh, weighted_sum
from majorant.core.threads import empty

# Classes up to which loops that read a row once are quicker than two products of matrices.
FEW_CLASSES = 16


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
    coefficient_rows = 1

    def on_tensors(self) -> Model[Any]:
        if type(self) is not Binary:
            return super().on_tensors()
        from majorant.linear.tensors import TensorBinary

        return TensorBinary()

    def is_softmax(self) -> bool:
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
        if batch.soft:
            losses = batch.y[0] * np.logaddexp(0.0, scores[0]) + batch.y[1] * np.logaddexp(0.0, -scores[0])
            return weighted_sum(losses, batch.weight)
        return weighted_sum(np.logaddexp(0.0, -self.margins(scores, batch)), batch.weight)

    def loss_and_residual(self, scores: Array, batch: Labelled) -> tuple[float, Array]:
        if batch.soft:
            return self.loss(scores, batch), weigh(expit(scores) - batch.y[1], batch.weight)
        if not self._compiles(batch):
            loss, residual = partition.loss_and_residual(scores[0], batch.y, batch.weight)
            return loss, residual[None]
        residual = empty(scores.shape)
        loss = kernels.logistic.loss_and_residual(scores[0], batch.y, weight_for_kernels(batch), residual[0])
        return loss, residual

    def reads_once(self, batch: Labelled) -> bool:
        return self._compiles(batch) and self.is_softmax()

    def _compiled_unit_step(
        self, stored: Stored, direction: Array, scores: Array, batch: Labelled
    ) -> tuple[tuple[float, float, Array], tuple[Array, Array]]:
        there, slopes, G = empty(scores.shape), empty(scores.shape), np.empty(len(direction))
        kernel = kernels.logistic.unit_step_csr if batch.design.is_sparse else kernels.logistic.unit_step_dense
        weight = weight_for_kernels(batch)
        loss, slope = kernel(stored, direction, scores[0], batch.y, weight, there[0], slopes[0], G)
        return (loss, slope, G), (there, slopes)

    def bound_factors(self, scores: Array, batch: Labelled) -> Factors:
        return self._factors(scores, batch, partition.curvature_weight, majorizes=True)

    def hessian_factors(self, scores: Array, batch: Labelled) -> Factors:
        return self._factors(scores, batch, variance, majorizes=False)

    def _factors(self, scores: Array, batch: Labelled, curve: Any, *, majorizes: bool) -> Factors:
        return ClassFactors(
            scores,
            batch.design,
            batch.weight,
            matrices=lambda u: curve(u)[None],
            directions=lambda u: np.sqrt(curve(u))[None],
            fixed_classes=np.array([[0.25]]),
            majorizes=majorizes,
        )

    def class_weights(self, scores: Array, batch: Labelled) -> Array:
        return weigh(variance(scores), batch.weight)

    def class_variances(self, residual: Array, batch: Labelled) -> Array:
        w = 1.0 if batch.weight is None else batch.weight
        off = residual + w * batch.y[1] if batch.soft else np.abs(residual)  # w p, or w (1 − p): either is as good
        if batch.weight is None:
            return off * (1.0 - off)
        return off * (1.0 - np.divide(off, w, out=np.zeros_like(off), where=w > 0))

    def between_classes(self, residual: Array, batch: Labelled) -> tuple[Array, Array]:
        weights = self.class_variances(residual, batch)
        return weights.sum(axis=1, keepdims=True), weights

    def along_intercepts(
        self, scores: Array, intercepts: Array, batch: Labelled, *, curved: bool
    ) -> tuple[AlongIntercepts, Array]:
        if not self.reads_once(batch):
            return super().along_intercepts(scores, intercepts, batch, curved=curved)
        r, weight = empty(scores.shape), weight_for_kernels(batch)
        along = kernels.logistic.along_intercept(scores[0], intercepts[0], batch.y, weight, r[0])
        loss, slope, curvature, squares = along
        return AlongIntercepts(loss, np.array([slope]), np.array([[curvature]]), squares), r

    def hessian_weights(self, scores: Array, batch: Labelled) -> Array:
        return self.class_weights(scores, batch)

    def _hessian_weights_of(self, residual: Array, batch: Labelled) -> Array:
        return self.class_variances(residual, batch)

    def apply_hessian(self, weights: Array, V: Array, batch: Labelled) -> Array:
        return np.multiply(weights, V, out=V)

    def hessian_product(self, direction: Array, weights: Array, batch: Labelled) -> Array:
        stored = batch.design.stored() if self.reads_once(batch) else None
        if stored is None:
            return super().hessian_product(direction, weights, batch)
        G, compiled = np.empty(len(direction)), kernels.logistic
        kernel = compiled.product_csr if batch.design.is_sparse else compiled.product_dense
        kernel(stored, direction, weights[0], G)
        return G

    def margins(self, scores: Array, batch: Labelled) -> Array:
        """Return u where the label is 1, −u where it is 0; −∞ where it is both."""
        towards = np.where(self.targets(batch) > 0.5, scores[0], -scores[0])
        return np.where(batch.y.min(axis=0) > 0, -np.inf, towards) if batch.soft else towards

    def center(self, scores: Array, batch: Labelled, V: Array) -> tuple[Array, Array]:
        """Return p(1 − p) and V: label 0 has no features, and both outcomes together make this."""
        return variance(scores.ravel()), V

    def hits(self, scores: Array, batch: Labelled) -> Array:
        """Return whether, or how often, the label is that of the score's sign; zero stands for label 0."""
        one = self.targets(batch)
        return np.where(scores[0] > 0, one, 1.0 - one)

    def targets(self, batch: Labelled) -> Array:
        return batch.y[1] if batch.soft else batch.y.astype(np.float64)


def variance(u: Array) -> Array:
    """Return p(1 − p), p = 1 / (1 + exp(−u)), to all digits."""
    e = np.exp(-np.abs(u))
    return e / np.square(1.0 + e)


def weight_for_kernels(batch: Labelled) -> Array:
    """Return the weight of each row, an empty array where every row weighs one."""
    return np.empty(0) if batch.weight is None else batch.weight


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

    def __post_init__(self) -> None:
        whole("n_classes", self.n_classes, least=2)
        one_of("order", self.order, partition.ORDERS)

    def on_tensors(self) -> Model[Any]:
        if type(self) is not Multinomial:
            return super().on_tensors()
        from majorant.linear.tensors import TensorMultinomial

        return TensorMultinomial(self.n_classes, self.order)

    @property
    def coefficient_rows(self) -> int:
        """Rows of the coefficient matrix: all n classes."""
        return self.n_classes

    def is_softmax(self) -> bool:
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
        return weighted_sum(partition.log_partition(scores, self._observed(scores, batch)), batch.weight)

    def loss_and_residual(self, scores: Array, batch: Labelled) -> tuple[float, Array]:
        if self._compiles(batch):
            R = empty(scores.shape)
            return kernels.softmax.loss_and_residual(scores, batch.y, weight_for_kernels(batch), R), R
        losses, R = partition.log_partition_and_probabilities(scores, self._observed(scores, batch))
        if batch.soft:
            R -= batch.y
        else:
            R[batch.y, np.arange(len(batch))] -= 1.0
        return weighted_sum(losses, batch.weight), weigh(R, batch.weight)

    def reads_once(self, batch: Labelled) -> bool:
        few = self.n_classes <= FEW_CLASSES and not batch.design.is_sparse
        return few and self.is_softmax() and self._compiles(batch)

    def _compiled_unit_step(
        self, stored: Stored, direction: Array, scores: Array, batch: Labelled
    ) -> tuple[tuple[float, float, Array], tuple[Array, Array]]:
        W, there, slopes = direction.reshape(self.n_classes, -1), empty(scores.shape), empty(scores.shape)
        G, weight = np.empty(W.shape), weight_for_kernels(batch)
        loss, slope = kernels.softmax.unit_step_dense(stored, W, scores, batch.y, weight, there, slopes, G)
        return (loss, slope, G.ravel()), (there, slopes)

    def bound_factors(self, scores: Array, batch: Labelled) -> Factors:
        return ClassFactors(
            scores,
            batch.design,
            batch.weight,
            matrices=partial(partition.bound_matrices, order=self.order),
            directions=partial(partition.bound_directions, order=self.order),
            fixed_classes=0.5 * (np.eye(self.n_classes) - 1.0 / self.n_classes),  # Böhning's
            majorizes=True,
        )

    def hessian_factors(self, scores: Array, batch: Labelled) -> Factors:
        return SoftmaxFactors(
            scores,
            batch.design,
            batch.weight,
            matrices=partition.hessian_matrices,
            directions=partition.hessian_directions,
            fixed_classes=0.5 * (np.eye(self.n_classes) - 1.0 / self.n_classes),
            majorizes=False,
        )

    def class_weights(self, scores: Array, batch: Labelled) -> Array:
        P = partition.log_partition_and_probabilities(scores)[1]
        return weigh(P * (1 - P), batch.weight)

    def class_variances(self, residual: Array, batch: Labelled) -> Array:
        P = self._probabilities(residual, batch)
        return weigh(P * (1.0 - P), batch.weight)

    def between_classes(self, residual: Array, batch: Labelled) -> tuple[Array, Array]:
        return covariance(self._probabilities(residual, batch), batch.weight)

    def hessian_weights(self, scores: Array, batch: Labelled) -> Array:
        return self._hessian_weights_of(self.loss_and_residual(scores, batch)[1], batch)

    def _hessian_weights_of(self, residual: Array, batch: Labelled) -> Array:
        return self._probabilities(residual, batch)

    def apply_hessian(self, weights: Array, V: Array, batch: Labelled) -> Array:
        if self._compiles(batch):
            kernels.softmax.apply_hessian(weights, V)
        else:
            V *= weights
            V -= weights * V.sum(axis=0)
        return weigh(V, batch.weight)

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
        P = partition.log_partition_and_probabilities(scores.reshape(self.n_classes, -1))[1]
        stacked = V.reshape(self.n_classes, -1, V.shape[1])
        mean = np.einsum("cj,cjk->jk", P, stacked)
        return P.ravel(), (stacked - mean).reshape(V.shape)

    def hits(self, scores: Array, batch: Labelled) -> Array:
        likeliest = scores.argmax(axis=0)
        if batch.soft:
            return batch.y[likeliest, np.arange(len(batch))]
        return (likeliest == batch.y).astype(np.float64)

    def targets(self, batch: Labelled) -> Array:
        if batch.soft:
            return batch.y.ravel()
        return (batch.y == np.arange(self.n_classes)[:, None]).astype(np.float64).ravel()

    def _observed(self, scores: Array, batch: Labelled) -> Array:
        if batch.soft:  # 0 · (−∞) is a class that neither can happen nor did
            return np.multiply(batch.y, scores, out=np.zeros_like(scores), where=batch.y > 0).sum(axis=0)
        return scores[batch.y, np.arange(len(batch))]

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
            P = partition.log_partition_and_probabilities(part.scores)[1]
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


@dataclass(frozen=True, init=False)
class LatentMultinomial(Latent[Labelled], Multinomial):
    """p(y|x) ∝ Σ_m exp(θ_{ym}ᵀx): class y owns ``states[y]`` rows of θ, which stand side by side.

    Parameters
    ----------
    states : sequence of int
        Hidden states of each class, at least one; classes are at least two. With one each this is
        :class:`Multinomial`.
    order : {"descending", "ascending", "given"}
        In which order the bound visits the states of a row.

    Notes
    -----
    Offsets of the data are those of states, (t, n) with n the states of all classes.

    Examples
    --------
    >>> from majorant import Labelled, Objective
    >>> F = Objective(LatentMultinomial((1, 2)), Labelled([[1.0], [-1.0]], [0, 1]), ridge=1.0)
    >>> round(F.value([0.0] * 3), 4)  # log 3 + log 3/2
    1.5041
    """

    n_classes: int = field(init=False, repr=False)  # states of all classes
    order: str = "descending"
    states: tuple[int, ...] = ()

    def __init__(self, states: Any, order: str = "descending") -> None:
        counts = tuple(whole("states", count, least=1) for count in states)
        if len(counts) < 2:
            raise ValueError(f"states must be given for at least two classes, got {counts}")
        for name, value in {"states": counts, "order": order, "n_classes": sum(counts)}.items():
            object.__setattr__(self, name, value)
        one_of("order", order, partition.ORDERS)

    @cached_property
    def first(self) -> Array:
        """The first state of each class, and one beyond the last."""
        return np.concatenate([[0], np.cumsum(self.states)])

    @cached_property
    def owner(self) -> Array:
        """The class of each state."""
        return np.repeat(np.arange(len(self.states)), self.states)

    def check(self, data: Labelled) -> None:
        """Raise if a label or an offset does not fit the classes and their states."""
        require_data(self, data, Labelled)
        if data.soft:
            raise ValueError("LatentMultinomial needs one label for each row, got distributions over classes")
        if data.y.max() >= len(self.states):
            raise ValueError(f"y must hold labels below {len(self.states)}, the classes, got {data.y.max()}")
        if data.offset is None:
            return
        if len(data.offset) != self.n_classes:
            raise ValueError(f"offset must have {self.n_classes} columns, one per state, got {len(data.offset)}")
        if np.isneginf(np.where(self._seen(data), data.offset, -np.inf).max(axis=0)).any():
            raise ValueError("offset is −inf (h = 0) for all states of a class that was observed")

    def posterior(self, scores: Array, batch: Labelled) -> Array:
        return partition.posterior(scores, self._seen(batch))[1]

    def complete(self, posterior: Array, batch: Labelled) -> tuple[Model[Any], Any]:
        """Return :class:`Multinomial` over states, and rows that are in each so often."""
        return Multinomial(self.n_classes, self.order), batch.relabelled(posterior)

    def loss(self, scores: Array, batch: Labelled) -> float:
        if self._compiles(batch):
            return self.loss_and_residual(scores, batch)[0]
        return weighted_sum(partition.losses(scores, self._seen(batch)), batch.weight)

    def loss_and_residual(self, scores: Array, batch: Labelled) -> tuple[float, Array]:
        if self._compiles(batch):
            R, weight = empty(scores.shape), np.empty(0) if batch.weight is None else batch.weight
            return kernels.softmax.hidden_loss_and_residual(scores, self.first, batch.y, weight, R), R
        losses, R = partition.losses_and_residuals(scores, self._seen(batch))
        return weighted_sum(losses, batch.weight), weigh(R, batch.weight)

    def with_intercept(self, like: Labelled, penalised: Array) -> None:
        """Return None: the loss is not convex along an intercept either."""
        return

    def margins(self, scores: Array, batch: Labelled) -> Array:
        """Return the largest score of a state of the label minus the largest of all others."""
        seen = self._seen(batch)
        return np.where(seen, scores, -np.inf).max(axis=0) - np.where(seen, -np.inf, scores).max(axis=0)

    def hits(self, scores: Array, batch: Labelled) -> Array:
        """Return whether the label is the likeliest class, its states taken together."""
        return (self.class_scores(scores).argmax(axis=0) == batch.y).astype(np.float64)

    def class_scores(self, scores: Array) -> Array:
        """Return the log-sums of the scores of each class over its states (classes × t)."""
        return np.stack([partition.log_partition(scores[a:b]) for a, b in pairwise(self.first)])

    def targets(self, batch: Labelled) -> Array:
        """Return one for states of the label, zero for others, flat; :meth:`row_target` makes frequencies of it."""
        return self._seen(batch).astype(np.float64).ravel()

    def between_classes_at(self, scores: Array, batch: Labelled) -> tuple[Array, Array]:
        """Return the Hessian of log Z between states, and w p(1 − p): residuals do not tell probabilities here."""
        return covariance(partition.log_partition_and_probabilities(scores)[1], batch.weight)

    def _seen(self, batch: Labelled) -> Array:
        return self.owner[:, None] == batch.y

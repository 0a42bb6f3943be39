"""What ``Multinomial`` and ``Binary`` share: f(x, y) = e_y ⊗ x, so everything but X lives in class space.

A row contributes B_j ⊗ x_j x_jᵀ to the curvature, with B_j an n×n matrix found from its n scores alone.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite, sqrt
from typing import Any

import numpy as np

from majorant.core.checks import Array
from majorant.core.curvature import FACTOR_BLOCK, Factors, refuse_large
from majorant.core.kernels.sparse import Csr
from majorant.core.labelled import Labelled
from majorant.core.matrix import Design
from majorant.core.model import AlongIntercepts, RowModel, total_weight, weigh, weights_of
from majorant.core.rounding import SAFETY, ClassSpreads, Magnitudes
from majorant.core.rows import labels_only

# Of fewer scores NumPy finds the loss before Numba is loaded.
WORTH_COMPILING = 2**11
# Class-space matrices (n² numbers a row) of some rows fit in a few megabytes.
CLASS_MATRICES = 2**20
# Of a row, in a metric, relative to the mean: the curvature of one that is nearly sure comes back as soon as θ moves.
LEAST_WEIGHT, TINY = 0.2, 1e-300
# Rows that a matrix of curvature is found from at a time: finding it then takes ten times as long as adding it up. Of
# sparse rows there are more, as fewer of their products are not zero.
CURVATURE_ROWS, PAIRS = 1_500, 120


class ClassModel(RowModel[Labelled]):
    """A model with one coefficient vector per class: scores W Xᵀ, gradients R X."""

    @property
    @abstractmethod
    def coefficient_rows(self) -> int:
        """Rows of the coefficient matrix W."""

    @abstractmethod
    def class_weights(self, scores: Array, batch: Labelled) -> Array:
        """Return w p_c(1 − p_c) (n×t), the diagonal of the Hessian on scores."""

    @abstractmethod
    @labels_only
    def between_classes(self, residual: Array, batch: Labelled) -> tuple[Array, Array]:
        """Return Σ_j w_j (diag(p_j) − p_j p_jᵀ) (n×n), the Hessian along the intercepts, and w p_c(1 − p_c) (n×t).

        Residuals tell probabilities without another exponential.
        """

    @abstractmethod
    def class_variances(self, residual: Array, batch: Labelled) -> Array:
        """Return w p_c(1 − p_c) (n×t) alone."""

    def bent(self, bending: Array, V: Array, batch: Labelled) -> Array:
        """Return w B V (n×t), the Hessian on scores times V, which may be overwritten."""
        self._has_no("products with a Hessian")

    @abstractmethod
    def class_bounds(self, scores: Array, batch: Labelled) -> Array:
        """Return w B (n, n, t), the curvature of the bound in class space."""

    def reads_once(self, batch: Labelled) -> bool:
        """Return whether whole steps read rows once, not twice: then a look at them is such a step, too."""
        return False

    def evaluate(self, theta: Array, batch: Labelled) -> tuple[tuple[float, Array], Array]:
        if not self.reads_once(batch):
            return super().evaluate(theta, batch)
        nothing = np.zeros((self.coefficient_rows, len(batch))) if batch.offset is None else batch.offset
        (loss, _, gradient), (scores, _) = self.unit_step(theta, nothing, batch)
        return (loss, gradient), scores

    def n_parameters(self, like: Labelled) -> int:
        """Return d, the number of coefficients."""
        return self.coefficient_rows * like.n_features

    def scores_per_row(self, like: Labelled) -> int:
        """Return the rows of the coefficient matrix."""
        return self.coefficient_rows

    def classes(self, like: Labelled) -> int:
        """Return the rows of the coefficient matrix."""
        return self.coefficient_rows

    def redundancy(self, like: Labelled) -> int:
        """Return the classes: softmax scores may all move together."""
        return self.coefficient_rows

    def row_work(self, like: Labelled) -> float:
        """Return about how many nanoseconds a row takes in a pass."""
        n, stored = self.coefficient_rows, like.design.density * like.n_features
        # Few classes wait for memory, many for the processor; that is slower with non-zeros here and there.
        return stored * (2.0 + n if like.design.is_sparse else max(2.0, 0.2 * n)) + 10.0 * n

    def curvature_rows(self, like: Labelled) -> int:
        """Return enough rows for the products of their entries to outweigh the matrix that they are added to."""
        return int(max(CURVATURE_ROWS, PAIRS / max(like.design.density, 1e-4) ** 2))

    def design(self, batch: Labelled) -> Design:
        """Return X."""
        return batch.design

    def magnitudes(self, batch: Labelled) -> Magnitudes:
        """Return how large the numbers are that a gradient is summed from."""
        offset = 0.0 if batch.offset is None else np.linalg.norm(batch.offset[np.isfinite(batch.offset)])
        return Magnitudes.of(batch.design, batch.weight, float(offset))

    def column_squares(self, batch: Labelled) -> Array:
        """Return the squared norms of the columns of X, and of what they are measured from."""
        return batch.design.column_norms() ** 2

    def spreads(self, root: Array, like: Labelled) -> ClassSpreads | None:
        """Return how far apart the classes of a row are in a metric."""
        return ClassSpreads.of(root, self.coefficient_rows) if self.is_softmax() else None

    def with_intercept(self, like: Labelled, penalised: Array) -> ClassModel | None:
        """Return the model if only the coefficients of the constant column are not penalised."""
        by_class = penalised.reshape(self.coefficient_rows, -1)
        free = like.constant and by_class[:, :-1].all() and not by_class[:, -1].any()
        return self if free else None

    def moved(self, scores: Array, intercepts: Array) -> Array:
        """Return the scores with so much more in every class."""
        return scores + intercepts[:, None]

    @labels_only
    def farthest(self, scores: Array) -> float:
        """Return the largest finite ``|score|``."""
        farthest = float(np.abs(scores).max(initial=0.0))
        return farthest if isfinite(farthest) else float(np.abs(scores[np.isfinite(scores)]).max(initial=0.0))

    def class_sums(self, residual: Array) -> Array:
        """Return the sum of every class over rows."""
        return residual.sum(axis=1)

    def along_intercepts(
        self, scores: Array, intercepts: Array, batch: Labelled, *, curved: bool
    ) -> tuple[AlongIntercepts, Array]:
        """Return the loss and more where intercepts have moved, its Hessian if ``curved``, and residuals."""
        loss, residual = self.loss_and_residual(self.moved(scores, intercepts), batch)
        H, weights = self.between_classes(residual, batch) if curved else (None, self.class_variances(residual, batch))
        return AlongIntercepts(loss, self.class_sums(residual), H, self.inner(weights, weights)), residual

    @labels_only
    def class_totals(self, batch: Labelled) -> Array:
        """Return the weight of all rows of each label."""
        return batch.class_totals(max(self.coefficient_rows, 2))

    def likely_intercepts(self, totals: Array, like: Labelled) -> Array | None:
        """Return log totals that sum to zero, or their difference; none with offsets, or a class that never was."""
        if like.offset is not None or not self.is_softmax() or not totals.all():
            return None
        log = np.log(totals)
        return log[1:] - log[0] if self.coefficient_rows == 1 else log - log.mean()

    def lost_to_the_centre(self, theta: Array, batch: Labelled, epsilon: float) -> float:
        """Return how much the loss may rise when an intercept is rounded to one of columns that are not centred."""
        if batch.centre is None:
            return 0.0
        W = np.abs(theta).reshape(-1, batch.n_features)
        off = SAFETY * sqrt(batch.n_features) * epsilon * (W[:, :-1] @ np.abs(batch.centre) + W[:, -1])
        return 0.25 * total_weight(batch) * float(off @ off)

    def loss_at_zero(self, batch: Labelled) -> float | None:
        """Return the loss of parameters of zero: without offsets every class is as likely as another."""
        if batch.offset is not None or not self.is_softmax():
            return None
        return total_weight(batch) * float(np.log(max(self.coefficient_rows, 2)))

    def hard_rows(self, batch: Labelled) -> ClassRows | None:
        """Return the rows if each has one label, and the loss is the one that compiled loops know."""
        return None if batch.soft or not self.is_softmax() else ClassRows(batch, self.coefficient_rows)

    def is_softmax(self) -> bool:
        """Return whether the loss is that of softmax, or of a score against zero: not known of what derives from it."""
        return False

    def class_curvature(self, scores: Array, batch: Labelled) -> tuple[Array, Array]:
        """Return Σ_j B_j, and Σ_j w_j x_j², with w_j what the classes of a row weigh on average: tr(B_j)/(n − 1).

        A row weighs no less than a share of their mean.
        """
        C, each = self._class_means(scores, batch)
        return C, batch.design.pull_back_squares(each[None])[0]

    def mean_gram(self, scores: Array, batch: Labelled, dtype: Any, *, labels: bool) -> tuple[Array, ...]:
        """Return Σ_j B_j and Σ_j w_j x_j x_jᵀ, with the same w_j, and what the rows of each label, or none, share."""
        C, each = self._class_means(scores, batch)
        G = batch.design.gram(each[None, None], dtype)
        if labels and self.is_softmax() and not batch.soft:
            return C, G, *self.of_labels(self.loss_and_residual(scores, batch)[1], each, batch)
        return C, G, np.zeros((0, self.coefficient_rows)), np.zeros(0), np.zeros((0, batch.design.shape[1]))

    def of_labels(self, residual: Array, each: Array, batch: Labelled) -> tuple[Array, Array, Array]:
        """Return of the rows of each label k Σ_j B_j e_k, Σ_j w_j and Σ_j w_j x_j."""
        raise NotImplementedError

    def between_classes_at(self, scores: Array, batch: Labelled) -> tuple[Array, Array]:
        """Return :meth:`between_classes` from scores alone."""
        return self.between_classes(self.loss_and_residual(scores, batch)[1], batch)

    def _class_means(self, scores: Array, batch: Labelled) -> tuple[Array, Array]:
        C, weights = self.between_classes_at(scores, batch)
        each = weights.sum(axis=0) / max(self.coefficient_rows - 1, 1)
        mean = float(each.sum()) / max(total_weight(batch), TINY)
        return C, np.maximum(each, LEAST_WEIGHT * mean * weights_of(batch))

    def potentials(self, theta: Array, batch: Labelled) -> Array:
        """Return W Xᵀ."""
        return batch.design.project(theta.reshape(self.coefficient_rows, -1))

    def add_measure(self, potentials: Array, batch: Labelled) -> Array:
        """Return W Xᵀ + offset."""
        return potentials if batch.offset is None else potentials + batch.offset

    def lift(self, residual: Array, batch: Labelled) -> Array:
        """Return residual · X, flat."""
        return batch.design.pull_back(residual).ravel()

    def hessian_diagonal(self, scores: Array, batch: Labelled) -> Array:
        """Return Σ_j w_j p_c(1 − p_c) x_j², class by class."""
        return batch.design.pull_back_squares(self.class_weights(scores, batch)).ravel()

    def weights_if_alike(self, theta: Array, like: Labelled) -> Array | None:
        """Return p_c(1 − p_c) if nothing but intercepts, or nothing at all, adds to the scores."""
        W = theta.reshape(self.coefficient_rows, -1)
        plain = like.weight is None and like.offset is None and self.is_softmax()
        if not plain or (W[:, :-1] if like.constant else W).any():
            return None
        return self.class_weights(W[:, -1:], like)[:, 0]

    def has_products(self, like: Labelled) -> bool:
        """Return whether probabilities tell the Hessian."""
        return self.is_softmax()

    def hessian_product(self, direction: Array, bending: Array, batch: Labelled) -> Array:
        """Return Σ_j (B_j ⊗ x_j x_jᵀ)·direction: scores, bent, and back."""
        return self.lift(self.bent(bending, self.potentials(direction, batch), batch), batch)

    def score_rows(self, batch: Labelled) -> Array:
        """Return I_n ⊗ X."""
        X = batch.design.dense()
        return X if self.coefficient_rows == 1 else np.kron(np.eye(self.coefficient_rows), X)

    def through(self, matrix: Array, batch: Labelled) -> Array:
        """Return (I_n ⊗ X)·matrix, class by class."""
        blocks = matrix.reshape(self.coefficient_rows, -1, matrix.shape[1])
        return np.concatenate([batch.design.times(block) for block in blocks])

    def score_weights(self, batch: Labelled) -> Array:
        """Return the weights, once per class."""
        return np.tile(weights_of(batch), self.coefficient_rows)

    def row_gradients(self, scores: Array, batch: Labelled) -> Array:
        """Return w_j (p_j − e_{y_j}) ⊗ x_j for each row."""
        residual = self.loss_and_residual(scores, batch)[1].reshape(self.coefficient_rows, -1)
        return (residual.T[:, :, None] * batch.design.dense()[:, None]).reshape(len(batch), -1)

    def row_slices(self, batch: Labelled) -> list[slice]:
        """Return every len(batch)-th score, from j on."""
        return [slice(j, None, len(batch)) for j in range(len(batch))]


@dataclass(frozen=True, eq=False)
class ClassRows:
    """Rows with one label each, as compiled loops want them: everything written out."""

    batch: Labelled
    n: int

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of X."""
        return self.batch.design.shape

    @property
    def y(self) -> Array:
        """The labels."""
        return self.batch.y

    @cached_property
    def weight(self) -> Array:
        """Of each row."""
        return weights_of(self.batch)

    @cached_property
    def offset(self) -> Array:
        """What is added to the scores, (n, t)."""
        return np.zeros((self.n, len(self.batch))) if self.batch.offset is None else self.batch.offset

    @property
    def plain(self) -> bool:
        """Whether scores are products of W and X alone."""
        return self.batch.offset is None

    @property
    def centre(self) -> Array | None:
        """Where the columns of the model are measured from, if not from zero as they are here."""
        return self.batch.centre

    @property
    def is_sparse(self) -> bool:
        """Whether what is stored of X are its non-zeros."""
        return self.batch.design.is_sparse

    @property
    def constant(self) -> bool:
        """Whether the last column is one of ones."""
        return self.batch.constant

    def dense(self) -> Array:
        """Return X as an array."""
        return self.batch.design.dense()

    def nonzeros(self) -> Csr:
        """Return X by its non-zeros, in double precision, columns measured from zero, without one of ones."""
        stored = self.batch.design.stored()
        assert stored is not None
        X: Csr = stored.rows
        return X._replace(data=X.data.astype(np.float64, copy=False))

    def csr(self) -> Csr:
        """Return X by its non-zeros, in double precision, columns measured from zero."""
        return Csr.of(self.batch.design.uncentred().csr().astype(np.float64, copy=False))


@dataclass(frozen=True)
class ClassFactors(Factors):
    """Σ_j w_j B_j ⊗ x_j x_jᵀ, with B_j = Σ_y L_jy L_jyᵀ.

    Parameters
    ----------
    scores, design, weight
        The batch.
    matrices, directions : functions of the scores
        Return B (n, n, t) and L (m, n, t).
    fixed_classes : array of shape (n, n)
        Dominates the Hessian of log Z whatever the scores (Böhning's matrix).
    majorizes : bool
        Whether the B_j come from the bound.
    """

    scores: Array
    design: Design
    weight: Array | None
    matrices: Callable[[Array], Array]
    directions: Callable[[Array], Array]
    fixed_classes: Array
    majorizes: bool

    @property
    def size(self) -> int:
        """Number of coefficients."""
        return len(self.scores) * self.design.shape[1]

    def matrix(self) -> Array:
        """Return Σ by weighted Gram products."""
        refuse_large(self.size, "a dense curvature")
        return _added(part.design.gram(weigh(part.matrices(part.scores), part.weight)) for part in self._parts())

    def rows(self) -> Iterator[Array]:
        """Yield the rows √w L_y ⊗ x."""
        for part in self._parts(self.size * len(self.scores), FACTOR_BLOCK):
            yield part.design.outer_rows(part._weighted_directions())

    def diagonal(self) -> Array:
        """Return Σ |q| ‖q‖₁; both factors of q = L_y ⊗ x can be summed apart."""
        return _added(part._diagonal() for part in self._parts())

    def kronecker(self, weigh_rows: Callable[[Array], Array]) -> tuple[Array, Array]:
        """Return I and Σ_j w_j weigh(B_j) x_j x_jᵀ."""
        each = [weigh_rows(part.matrices(part.scores)) for part in self._parts()]
        return np.eye(len(self.scores)), self._gram(np.concatenate(each))

    def fixed(self) -> tuple[Array, Array]:
        """Return Böhning's class matrix and XᵀWX."""
        return self.fixed_classes, self._gram(np.ones(self.scores.shape[1]))

    def _parts(self, numbers: int = 0, most: int = CLASS_MATRICES) -> Iterator[ClassFactors]:
        """Yield the factors of some rows at a time, each of so many numbers (n² if not given), of ``most`` at most."""
        n, t = self.scores.shape
        step = max(most // (numbers or n * n), 1)
        if step >= t:
            yield self
            return
        for some in (slice(start, start + step) for start in range(0, t, step)):
            weight = None if self.weight is None else self.weight[some]
            yield replace(self, scores=self.scores[:, some], design=self.design.part(some), weight=weight)

    def _diagonal(self) -> Array:
        size = np.abs(self._weighted_directions())
        in_class_space = (size * size.sum(axis=1, keepdims=True)).sum(axis=0)
        magnitude, total = self.design.absolute()
        return magnitude.pull_back(in_class_space * total).ravel()

    def _gram(self, each_row: Array) -> Array:
        refuse_large(self.design.shape[1], "a Kronecker curvature")
        return self.design.gram(weigh(each_row, self.weight)[None, None])

    def _weighted_directions(self) -> Array:
        return weigh(self.directions(self.scores), None if self.weight is None else np.sqrt(self.weight))


def _added(parts: Iterator[Array]) -> Array:
    total = next(parts)
    for part in parts:
        total += part
    return total

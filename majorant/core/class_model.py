"""Models with one coefficient vector per class, f(x, y) = e_y ⊗ x: what ``Multinomial`` and ``Binary`` share.

Everything but X lives in class space: a row contributes B_j ⊗ x_j x_jᵀ to the curvature, with B_j an n×n matrix found
from its n scores alone.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from math import sqrt
from operator import iadd
from typing import Any

import numpy as np

from majorant.core import kernels
from majorant.core.checks import Array, lazy
from majorant.core.curvature import FACTOR_BLOCK, Factors, refuse_large
from majorant.core.kernels import Csr, Stored
from majorant.core.labelled import Labelled
from majorant.core.matrix import Design
from majorant.core.model import AlongIntercepts, RowModel, total_weight, weigh, weights_of
from majorant.core.rounding import SAFETY, ClassSpreads, Magnitudes
from majorant.core.rows import labels_only

# Numbers of class-space matrices (n² a row) that are written out at a time: 8 MB.
CLASS_MATRICES = 2**20
# Of a row, in a metric, relative to the mean: the curvature of one that is nearly sure comes back as soon as θ moves.
LEAST_WEIGHT = 0.2


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
    def class_variances(self, residual: Array, batch: Labelled) -> Array:
        """Return :meth:`class_weights` from residuals, which tell probabilities without another exponential."""

    @abstractmethod
    @labels_only
    def between_classes(self, residual: Array, batch: Labelled) -> tuple[Array, Array]:
        """Return Σ_j w_j (diag(p_j) − p_j p_jᵀ) (n×n), the Hessian along the intercepts, and w p_c(1 − p_c) (n×t)."""

    def between_classes_at(self, scores: Array, batch: Labelled) -> tuple[Array, Array]:
        """Return :meth:`between_classes` from scores alone."""
        return self.between_classes(self.loss_and_residual(scores, batch)[1], batch)

    def apply_hessian(self, weights: Array, V: Array, batch: Labelled) -> Array:
        """Return w B V (n×t), the Hessian on scores times V, which may be overwritten."""
        self._has_no("products with a Hessian")

    def _hessian_weights_of(self, residual: Array, batch: Labelled) -> Array:
        """Return what :meth:`hessian_weights` does, from residuals."""
        self._has_no("products with a Hessian")

    def is_softmax(self) -> bool:
        """Return whether the loss is that of softmax, or of a score against zero: not known of what derives from it."""
        return False

    def _compiles(self, batch: Labelled) -> bool:
        """Return whether compiled loops find the loss of rows with one label each; others take NumPy."""
        stored = batch.design.density * batch.n_features
        return not batch.soft and kernels.worth_compiling(batch.total * stored, self.coefficient_rows)

    def reads_once(self, batch: Labelled) -> bool:
        """Return whether :meth:`unit_step` reads rows once, not twice: then θ is evaluated by such a step from zero."""
        return False

    # --- parameters, scores and gradients -----------------------------------------------------------------

    def n_parameters(self, like: Labelled) -> int:
        return self.coefficient_rows * like.n_features

    def scores_per_row(self, like: Labelled) -> int:
        return self.coefficient_rows

    def classes(self, like: Labelled) -> int:
        return self.coefficient_rows

    def redundancy(self, like: Labelled) -> int:
        return self.coefficient_rows  # softmax scores may all move together

    def design(self, batch: Labelled) -> Design:
        return batch.design

    def potentials(self, theta: Array, batch: Labelled) -> Array:
        return batch.design.project(theta.reshape(self.coefficient_rows, -1))

    def add_measure(self, potentials: Array, batch: Labelled) -> Array:
        return potentials if batch.offset is None else potentials + batch.offset

    def lift(self, residual: Array, batch: Labelled) -> Array:
        return batch.design.pull_back(residual).ravel()

    def scores(self, theta: Array, batch: Labelled) -> Array:
        scores = batch.design.project(theta.reshape(self.coefficient_rows, -1))
        return scores if batch.offset is None else scores + batch.offset

    def evaluate(self, theta: Array, batch: Labelled) -> tuple[tuple[float, Array], Array]:
        if self.reads_once(batch):
            at_zero = np.zeros((self.coefficient_rows, len(batch))) if batch.offset is None else batch.offset
            (loss, _, gradient), (scores, _) = self.unit_step(theta, at_zero, batch)
            return (loss, gradient), scores
        scores = batch.design.project(theta.reshape(self.coefficient_rows, -1))
        scores = scores if batch.offset is None else scores + batch.offset
        loss, residual = self.loss_and_residual(scores, batch)
        return (loss, batch.design.pull_back(residual).ravel()), scores

    def unit_step(
        self, direction: Array, scores: Array, batch: Labelled
    ) -> tuple[tuple[float, float, Array], tuple[Array, Array]]:
        stored = batch.design.stored() if self.reads_once(batch) else None
        if stored is not None:
            return self._compiled_unit_step(stored, direction, scores, batch)
        slopes = batch.design.project(direction.reshape(self.coefficient_rows, -1))
        there = scores + slopes
        loss, residual = self.loss_and_residual(there, batch)
        gradient = batch.design.pull_back(residual).ravel()
        return (loss, self.inner(residual, slopes), gradient), (there, slopes)

    def _compiled_unit_step(
        self, stored: Stored, direction: Array, scores: Array, batch: Labelled
    ) -> tuple[tuple[float, float, Array], tuple[Array, Array]]:
        """Return :meth:`unit_step` of rows that are read once."""
        raise NotImplementedError

    def loss_at_zero(self, batch: Labelled) -> float | None:
        if batch.offset is not None or not self.is_softmax():
            return None
        return total_weight(batch) * float(np.log(max(self.coefficient_rows, 2)))

    def row_work(self, like: Labelled) -> float:
        n, stored = self.coefficient_rows, like.design.density * like.n_features
        # Few classes wait for memory, many for the processor; that is slower with non-zeros here and there.
        return stored * (2.0 + n if like.design.is_sparse else max(2.0, 0.2 * n)) + 10.0 * n

    def curvature_rows(self, like: Labelled) -> int:
        # To find the matrix then takes ten times as long as to add it up; of sparse rows fewer products are not zero.
        return int(max(1_500, 120 / max(like.design.density, 1e-4) ** 2))

    # --- the curvature ------------------------------------------------------------------------------------

    def hessian_diagonal(self, scores: Array, batch: Labelled) -> Array:
        return batch.design.pull_back_squares(self.class_weights(scores, batch)).ravel()

    def has_products(self, like: Labelled) -> bool:
        return self.is_softmax()

    def hessian_product(self, direction: Array, weights: Array, batch: Labelled) -> Array:
        return self.lift(self.apply_hessian(weights, self.potentials(direction, batch), batch), batch)

    def class_curvature(self, scores: Array, batch: Labelled) -> tuple[Array, Array]:
        """Return Σ_j B_j, and Σ_j w_j x_j², with w_j what the classes of a row weigh on average: tr(B_j)/(n − 1).

        A row weighs no less than a share of their mean.
        """
        C, of_rows = self._class_means(scores, batch)
        return C, batch.design.pull_back_squares(of_rows[None])[0]

    def mean_gram(self, scores: Array, batch: Labelled, dtype: Any) -> tuple[Array, Array]:
        C, of_rows = self._class_means(scores, batch)
        return C, batch.design.gram(of_rows[None, None], dtype)

    def _class_means(self, scores: Array, batch: Labelled) -> tuple[Array, Array]:
        C, weights = self.between_classes_at(scores, batch)
        of_rows = weights.sum(axis=0) / max(self.coefficient_rows - 1, 1)
        mean = float(of_rows.sum()) / max(total_weight(batch), np.finfo(np.float64).tiny)
        return C, np.maximum(of_rows, LEAST_WEIGHT * mean * weights_of(batch))

    # --- a free intercept ---------------------------------------------------------------------------------

    def with_intercept(self, like: Labelled, penalised: Array) -> ClassModel | None:
        by_class = penalised.reshape(self.coefficient_rows, -1)
        free = like.constant and by_class[:, :-1].all() and not by_class[:, -1].any()
        return self if free else None

    def along_intercepts(
        self, scores: Array, intercepts: Array, batch: Labelled, *, curved: bool
    ) -> tuple[AlongIntercepts, Array]:
        """Return the loss and more where intercepts have moved, its Hessian if ``curved``, and residuals."""
        loss, residual = self.loss_and_residual(scores + intercepts[:, None], batch)
        H, weights = self.between_classes(residual, batch) if curved else (None, self.class_variances(residual, batch))
        return AlongIntercepts(loss, residual.sum(axis=1), H, self.inner(weights, weights)), residual

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

    # --- what certificates ask ----------------------------------------------------------------------------

    def magnitudes(self, batch: Labelled) -> Magnitudes:
        offset = 0.0 if batch.offset is None else np.linalg.norm(batch.offset[np.isfinite(batch.offset)])
        return Magnitudes.of(batch.design, batch.weight, float(offset))

    def column_squares(self, batch: Labelled) -> Array:
        return batch.design.column_norms() ** 2

    def spreads(self, root: Array, like: Labelled) -> ClassSpreads | None:
        return ClassSpreads.of(root, self.coefficient_rows) if self.is_softmax() else None

    def lost_to_the_centre(self, theta: Array, batch: Labelled, epsilon: float) -> float:
        if batch.centre is None:
            return 0.0
        W = np.abs(theta).reshape(-1, batch.n_features)
        off = SAFETY * sqrt(batch.n_features) * epsilon * (W[:, :-1] @ np.abs(batch.centre) + W[:, -1])
        return 0.25 * total_weight(batch) * float(off @ off)

    # --- its rows -----------------------------------------------------------------------------------------

    def score_rows(self, batch: Labelled) -> Array:
        X = batch.design.dense()
        return X if self.coefficient_rows == 1 else np.kron(np.eye(self.coefficient_rows), X)

    def through(self, matrix: Array, batch: Labelled) -> Array:
        blocks = matrix.reshape(self.coefficient_rows, -1, matrix.shape[1])
        return np.concatenate([batch.design.times(block) for block in blocks])

    def score_weights(self, batch: Labelled) -> Array:
        return np.tile(weights_of(batch), self.coefficient_rows)

    def row_gradients(self, scores: Array, batch: Labelled) -> Array:
        residual = self.loss_and_residual(scores, batch)[1].reshape(self.coefficient_rows, -1)
        return (residual.T[:, :, None] * batch.design.dense()[:, None]).reshape(len(batch), -1)

    def row_slices(self, batch: Labelled) -> list[slice]:
        return [slice(j, None, len(batch)) for j in range(len(batch))]

    def single_label_rows(self, batch: Labelled) -> SingleLabelRows | None:
        return None if batch.soft or not self.is_softmax() else SingleLabelRows(batch, self.coefficient_rows)


class SingleLabelRows:
    """Rows with one label each, and a coefficient vector for each of n classes (or one against zero).

    Compiled loops know the loss of these. ``plain`` says that scores are products of W and X alone, ``constant`` that
    the last column is one of ones, and ``centre`` where the columns of the model are measured from.
    """

    def __init__(self, batch: Labelled, n: int) -> None:
        self._batch, self._n, self._design = batch, n, batch.design
        self.shape, self.is_sparse, self.y = batch.design.shape, batch.design.is_sparse, batch.y
        self.plain, self.constant, self.centre = batch.offset is None, batch.constant, batch.centre

    @lazy
    def weight(self) -> Array:
        """The weight of each row."""
        return weights_of(self._batch)

    @lazy
    def offset(self) -> Array:
        """What is added to the scores, (n, t)."""
        return np.zeros((self._n, len(self._batch))) if self._batch.offset is None else self._batch.offset

    def dense(self) -> Array:
        """Return X as an array."""
        return self._design.dense()

    def nonzeros(self) -> Csr:
        """Return what :meth:`csr` does but for the column of ones: nothing is copied for it."""
        stored = self._design.stored()
        assert stored is not None
        X: Csr = stored.rows
        return X._replace(data=X.data.astype(np.float64, copy=False))

    def csr(self) -> Csr:
        """Return X by its non-zeros, in double precision, columns measured from zero."""
        return Csr.of(self._design.uncentred().csr().astype(np.float64, copy=False))


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
        refuse_large(self.size, "a dense curvature")
        grams = (part.design.gram(weigh(part.matrices(part.scores), part.weight)) for part in self._parts())
        return reduce(iadd, grams)

    def rows(self) -> Iterator[Array]:
        for part in self._parts(self.size * len(self.scores), FACTOR_BLOCK):
            yield part.design.outer_rows(part._weighted_directions())

    def diagonal(self) -> Array:
        def of_part(part: ClassFactors) -> Array:
            size = np.abs(part._weighted_directions())
            in_class_space = (size * size.sum(axis=1, keepdims=True)).sum(axis=0)
            magnitude, total = part.design.absolute()  # both factors of q = L_y ⊗ x can be summed apart
            return magnitude.pull_back(in_class_space * total).ravel()

        return reduce(iadd, map(of_part, self._parts()))

    def kronecker(self, weigh_rows: Callable[[Array], Array]) -> tuple[Array, Array]:
        of_rows = [weigh_rows(part.matrices(part.scores)) for part in self._parts()]
        return np.eye(len(self.scores)), self._gram(np.concatenate(of_rows))

    def fixed(self) -> tuple[Array, Array]:
        return self.fixed_classes, self._gram(np.ones(self.scores.shape[1]))

    def _parts(self, numbers: int = 0, most: int = CLASS_MATRICES) -> Iterator[ClassFactors]:
        """Yield the factors of some rows at a time, each of so many numbers (n² if not given), of ``most`` at most."""
        n, t = self.scores.shape
        step = max(most // (numbers or n * n), 1)
        if step >= t:
            yield self
            return
        for rows in (slice(start, start + step) for start in range(0, t, step)):
            weight = None if self.weight is None else self.weight[rows]
            yield replace(self, scores=self.scores[:, rows], design=self.design.part(rows), weight=weight)

    def _gram(self, of_rows: Array) -> Array:
        refuse_large(self.design.shape[1], "a Kronecker curvature")
        return self.design.gram(weigh(of_rows, self.weight)[None, None])

    def _weighted_directions(self) -> Array:
        return weigh(self.directions(self.scores), None if self.weight is None else np.sqrt(self.weight))

"""Any features f_j(y) and measures h_j(y), outcomes written out: conditional logit, ranking, maximum entropy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from majorant import kernels
from majorant._checks import Array, one_of
from majorant.curvature import Arrow, Factors, Pattern
from majorant.curvature.base import FACTOR_BLOCK
from majorant.curvature.dense import refuse_large
from majorant.data import Choices
from majorant.design import Design
from majorant.kernels import partition, softmax
from majorant.models import outcome_blocks
from majorant.models.base import RowModel, require_data, weighted_sum, weights_of
from majorant.models.rounding import Magnitudes
from majorant.models.spreads import ChoiceSpreads

# Of fewer numbers NumPy finds the Hessian before Numba is loaded.
WORTH_COMPILING = 2**14


@dataclass(frozen=True)
class Enumerated(RowModel[Choices]):
    """p_j(y) ∝ h_j(y) exp(θᵀf_j(y)) over outcome sets of any size; scores are flat over all outcomes.

    Sets of equal size are stacked class-major, so the kernels of :class:`Multinomial` serve here too.

    Parameters
    ----------
    order : {"descending", "ascending", "given"}
        In which order the bound visits the outcomes of a set.

    Examples
    --------
    >>> from majorant import Choices, Objective
    >>> F = Objective(Enumerated(), Choices([[1.0], [0.0], [2.0]], sizes=[3], chosen=[2]), ridge=1.0)
    >>> round(F.value([0.0]), 4)  # log 3
    1.0986
    """

    order: str = "descending"

    def __post_init__(self) -> None:
        one_of("order", self.order, partition.ORDERS)

    def check(self, data: Choices) -> None:
        """Refuse choices of which parts are hidden; all others were checked when they were made."""
        require_data(self, data, Choices)
        if data.hidden:
            raise ValueError("data made with consistent= have outcomes with hidden parts: use LatentEnumerated")

    def n_parameters(self, like: Choices) -> int:
        """Return d, the columns of the features."""
        return like.n_features

    def scores_per_row(self, like: Choices) -> int:
        """Return the size of the largest set."""
        return int(like.sizes.max())

    def design(self, batch: Choices) -> Design:
        """Return the features."""
        return batch.design

    def magnitudes(self, batch: Choices) -> Magnitudes:
        """Return how large the numbers are that a gradient is summed from."""
        log_h = np.zeros(0) if batch.log_measure is None else batch.log_measure
        weight = None if batch.weight is None else self.score_weights(batch)
        return Magnitudes.of(batch.design, weight, float(np.linalg.norm(log_h[np.isfinite(log_h)])))

    def column_squares(self, batch: Choices) -> Array:
        """Return the squared norms of the columns of the features."""
        return batch.design.column_norms() ** 2

    def spreads(self, root: Array, like: Choices) -> ChoiceSpreads | None:
        """Return how far apart the outcomes of a set are in a metric."""
        return ChoiceSpreads(root) if type(self) is Enumerated else None

    def potentials(self, theta: Array, batch: Choices) -> Array:
        """Return θᵀf_j(y), flat."""
        return batch.design.project(theta[None])[0]

    def add_measure(self, potentials: Array, batch: Choices) -> Array:
        """Return θᵀf_j(y) + log h_j(y), flat."""
        return potentials if batch.log_measure is None else potentials + batch.log_measure

    def loss_at_zero(self, batch: Choices) -> float | None:
        """Return the loss of parameters of zero: without measures every outcome of a set is as likely as another."""
        if batch.log_measure is not None:
            return None
        return weighted_sum(np.log(batch.sizes), batch.weight)

    def loss(self, scores: Array, batch: Choices) -> float:
        """Return Σ_j w_j [log Z_j − Σ_y target_j(y) s_j(y)]."""
        losses, observed = np.empty(len(batch)), self._observed(scores, batch)
        for sets, at in batch.by_size:
            losses[sets] = softmax.log_partition(scores[at], observed[sets])
        return weighted_sum(losses, batch.weight)

    def loss_and_residual(self, scores: Array, batch: Choices) -> tuple[float, Array]:
        """Return the loss and w_j (p_j(y) − target_j(y))."""
        losses, R, observed = np.empty(len(batch)), -batch.target, self._observed(scores, batch)
        for sets, at in batch.by_size:
            losses[sets], P = softmax.log_partition_and_probabilities(scores[at], observed[sets])
            R[at] += P
        return weighted_sum(losses, batch.weight), R * self.score_weights(batch)

    def lift(self, residual: Array, batch: Choices) -> Array:
        """Return Σ residual_j(y) f_j(y)."""
        return batch.design.pull_back(residual[None])[0]

    def bound_factors(self, scores: Array, batch: Choices) -> Factors:
        """Return the factors of Algorithm 1's bound."""
        return OutcomeFactors(scores, batch, self.order, majorizes=True)

    def hessian_factors(self, scores: Array, batch: Choices) -> Factors:
        """Return the factors of the Hessian."""
        return OutcomeFactors(scores, batch, self.order, majorizes=False)

    def hessian_diagonal(self, scores: Array, batch: Choices) -> Array:
        """Return Σ_j w_j Var_p(f_j), column by column: the sum of the squares of the factors."""
        if batch.design.is_sparse:
            return self._sparse_diagonal(scores, batch)
        factors = self.hessian_factors(scores, batch)
        return sum(((q**2).sum(axis=0) for q in factors.rows()), np.zeros(factors.size))

    def pattern(self, batch: Choices) -> Pattern | None:
        """Return which parameters meet in an outcome, of sparse features."""
        return outcome_blocks.pattern_of(batch.design.csr()) if batch.design.is_sparse else None

    def arrow(self, scores: Array, batch: Choices, pattern: Pattern, *, whole: bool) -> Arrow:
        """Return the Hessian by blocks."""
        found = outcome_blocks.hessian_by_blocks if whole else outcome_blocks.blocks_of_hessian
        return found(self.probabilities(scores, batch), batch, pattern)

    def margins(self, scores: Array, batch: Choices) -> Array:
        """Return the least score with a positive target minus the largest without; −∞ where targets are soft."""
        margin = np.empty(len(batch))
        for sets, at in batch.by_size:
            S, observed = scores[at], batch.target[at] > 0
            rival = np.where(observed, -np.inf, S).max(axis=0)
            margin[sets] = np.where(observed, S, np.inf).min(axis=0) - rival
            margin[sets[observed.sum(axis=0) > 1]] = -np.inf
        return margin

    def hits(self, scores: Array, batch: Choices) -> Array:
        """Return how often the outcome with the highest score was observed."""
        hits = np.empty(len(batch))
        for sets, at in batch.by_size:
            likeliest = scores[at].argmax(axis=0)
            hits[sets] = batch.target[at[likeliest, np.arange(len(sets))]]
        return hits

    def score_rows(self, batch: Choices) -> Array:
        """Return the features themselves."""
        return batch.design.dense()

    def through(self, matrix: Array, batch: Choices) -> Array:
        """Return features · matrix."""
        return batch.design.times(matrix)

    def center(self, scores: Array, batch: Choices, V: Array) -> tuple[Array, Array]:
        """Return p, and V less its mean over the outcomes of each set."""
        p = self.probabilities(scores, batch)
        means = np.add.reduceat(p[:, None] * V, batch.indptr[:-1])
        return p, V - np.repeat(means, batch.sizes, axis=0)

    def probabilities(self, scores: Array, batch: Choices) -> Array:
        """Return the probability of each outcome in its set, flat."""
        p = np.empty(len(scores))
        for _, at in batch.by_size:
            p[at] = softmax.log_partition_and_probabilities(scores[at])[1]
        return p

    def score_weights(self, batch: Choices) -> Array:
        """Return the weight of its set for each outcome."""
        return np.repeat(weights_of(batch), batch.sizes)

    def row_slices(self, batch: Choices) -> list[slice]:
        """Return where each set stands."""
        return [slice(a, b) for a, b in pairwise(batch.indptr)]

    def row_gradients(self, scores: Array, batch: Choices) -> Array:
        """Return Σ_y w_j (p_j(y) − target_j(y)) f_j(y) for each set."""
        residual = self.loss_and_residual(scores, batch)[1]
        return np.add.reduceat(residual[:, None] * batch.design.dense(), batch.indptr[:-1])

    def targets(self, batch: Choices) -> Array:
        """Return the frequencies."""
        return batch.target

    def _sparse_diagonal(self, scores: Array, batch: Choices) -> Array:
        """The same as Σ w p f² − Σ w mean², from non-zeros alone."""
        p = self.probabilities(scores, batch)
        picks = sp.csr_array((p, np.arange(len(p)), batch.indptr), shape=(len(batch), len(p)))
        means = picks @ batch.design.csr()
        squares = batch.design.pull_back_squares((p * self.score_weights(batch))[None])[0]
        return np.maximum(squares - means.power(2).T @ weights_of(batch), 0.0)

    def _observed(self, scores: Array, batch: Choices) -> Array:
        # 0 · (−∞) is an outcome that neither can happen nor did.
        terms = np.multiply(batch.target, scores, out=np.zeros_like(scores), where=batch.target > 0)
        return np.add.reduceat(terms, batch.indptr[:-1])


@dataclass(frozen=True)
class OutcomeFactors(Factors):
    """Σ = QᵀQ with a row √(wβ) (f(y) − g) for each outcome, or √(wp) (f(y) − mean) for the Hessian."""

    scores: Array
    batch: Choices
    order: str
    majorizes: bool

    @property
    def size(self) -> int:
        """Number of columns of the features."""
        return self.batch.n_features

    def matrix(self) -> Array:
        """Return Σ by one Gram product per block of rows."""
        refuse_large(self.size, "a dense curvature")
        return sum((Q.T @ Q for Q in self.rows()), np.zeros((self.size, self.size)))

    def rows(self) -> Iterator[Array]:
        """Yield the rows, some sets at a time."""
        per_set = max(len(self.scores) * self.size // len(self.batch), 1)
        done = 0
        for some in self.batch.batches(max(FACTOR_BLOCK // per_set, 1)):
            scores = self.scores[done : done + some.indptr[-1]]
            done += some.indptr[-1]
            yield self._bound_rows(scores, some) if self.majorizes else self._hessian_rows(scores, some)

    def diagonal(self) -> Array:
        """Return Σ |q| ‖q‖₁."""
        sizes = (np.abs(Q) for Q in self.rows())
        return sum((size.T @ size.sum(axis=1) for size in sizes), np.zeros(self.size))

    def kronecker(self, weigh_rows: Callable[[Array], Array]) -> tuple[Array, Array]:
        """Refuse: outcomes with features of their own share no class structure."""
        raise ValueError("Enumerated has no classes to factor out; use curvature='dense', 'low-rank' or 'diagonal'")

    def fixed(self) -> tuple[Array, Array]:
        """Refuse, as :meth:`kronecker` does."""
        return self.kronecker(lambda B: B)

    def _bound_rows(self, scores: Array, some: Choices) -> Array:
        visit = np.arange(len(scores))
        for _, at in some.by_size:
            order = partition.visiting_order(scores[at], self.order)
            if order is not None:
                visit[at] = np.take_along_axis(at, order, axis=0)
        return kernels.partition_compiled.bound_rows(scores, visit, some.indptr, weights_of(some), some.design.dense())

    def _hessian_rows(self, scores: Array, some: Choices) -> Array:
        X, model = some.design.dense(), Enumerated()
        if X.size < WORTH_COMPILING:
            return model.hessian_root_times(scores, some, X)
        p = model.probabilities(scores, some)
        return kernels.partition_compiled.hessian_rows(p, some.indptr, weights_of(some), X)

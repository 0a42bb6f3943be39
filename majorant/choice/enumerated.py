"""Log-linear models of outcomes that are written out: conditional logit, ranking, maximum entropy.

Features f_j(y) and measures h_j(y) are any. :class:`LatentEnumerated` has pairs (y, m), of which y was observed and m
was not. Where outcomes touch few parameters, as choices by alternative do, the Hessian consists of blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from majorant.core import kernels
from majorant.core.checks import Array, one_of
from majorant.core.choices import Choices
from majorant.core.curvature import FACTOR_BLOCK, Factors, refuse_large
from majorant.core.kernels import partition
from majorant.core.kernels import partition as softmax
from majorant.core.matrix import Design
from majorant.core.model import Latent, Model, RowModel, require_data, weighted_sum, weights_of
from majorant.core.rounding import ChoiceSpreads, Magnitudes
from majorant.core.structured import Arrow, Pattern

# Shares of outcomes that a parameter has to touch for being one that blocks share; the first that leaves small blocks.
COMMON = (0.5, 0.2, 0.05)
# Numbers in all blocks together, and in what they share.
LARGEST = 2**25


def _blocks(X: sp.csr_array, shared: Array) -> Pattern | None:
    """Return the blocks of parameters that meet in no outcome, shared ones apart; None if they are too large."""
    d = X.shape[1]
    own = np.ones(d, dtype=bool)
    own[shared] = False
    # A graph of parameters that meet: those of an outcome follow each other. Pairs are few, outcomes may be many.
    kept = own[X.indices]
    columns = X.indices[kept]
    row = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))[kept]
    same = row[1:] == row[:-1]
    pairs = np.unique(columns[:-1][same].astype(np.int64) * d + columns[1:][same])
    meetings = sp.coo_array((np.ones(len(pairs)), (pairs // d, pairs % d)), shape=(d, d))
    number = connected_components(meetings, directed=False)[1]
    rest = np.flatnonzero(own)
    _, block, sizes = np.unique(number[rest], return_inverse=True, return_counts=True)
    if not len(sizes) or len(sizes) * sizes.max() * (sizes.max() + len(shared)) > LARGEST:
        return None
    order, first = np.argsort(block, kind="stable"), np.cumsum(sizes) - sizes
    blocks = np.full((len(sizes), int(sizes.max())), d)
    blocks[block[order], np.arange(len(rest)) - first[block[order]]] = rest[order]
    return Pattern(d, shared, blocks)


def hessian_by_blocks(p: Array, batch: Choices, pattern: Pattern, *, whole: bool) -> Arrow:
    """Return the Hessian of Σ_j w_j log Z_j at probabilities p, with a row √w_j f̄_j for each set.

    Unless ``whole``, return its blocks alone: Σ_j w_j Var(f_j), each over its own parameters.
    """
    k, (m, b), w = len(pattern.shared), pattern.blocks.shape, weights_of(batch)
    shared, cross, blocks = np.zeros((k, k)), np.zeros((m, k, b)), np.zeros((m, b, b))
    of_shared, rows = np.zeros((len(batch), k)), np.zeros((len(batch) if whole else 0, pattern.size + 1))
    weighed = p * w[batch.set_of_outcome]
    for number, which, F in _by_block(batch, pattern):
        G = F.T @ (weighed[which, None] * F)
        # The sets of these outcomes, which stand in their order, and Σ_y p(y) f(y) of each.
        of_outcome = batch.set_of_outcome[which]
        first = np.flatnonzero(np.diff(of_outcome, prepend=-1))
        sets, means = of_outcome[first], np.add.reduceat(p[which][:, None] * F, first)
        shared += G[:k, :k]
        of_shared[sets] += means[:, :k]
        if number < 0:
            continue
        own = means[:, k:]
        if whole:
            cross[number], blocks[number] = G[:k, k:], G[k:, k:]
            rows[sets[:, None], pattern.blocks[number]] = own
        else:
            blocks[number] = G[k:, k:] - own.T @ (w[sets, None] * own)
    if whole:
        rows[:, pattern.shared] = of_shared
        return Arrow(pattern, shared, cross, blocks, np.sqrt(w)[:, None] * rows[:, :-1])
    shared -= of_shared.T @ (w[:, None] * of_shared)
    return Arrow(pattern, shared, cross, blocks, rows[:, :-1])


def _by_block(batch: Choices, pattern: Pattern) -> Iterator[tuple[int, Array, Array]]:
    """Yield for each block its outcomes and their features, shared ones first; −1 is for those that touch no block."""
    X, k, (m, b) = batch.design.csr(), len(pattern.shared), pattern.blocks.shape
    place, block = np.zeros(pattern.size + 1, dtype=int), np.full(pattern.size + 1, -1)
    place[pattern.blocks], block[pattern.blocks] = np.arange(k, k + b), np.arange(m)[:, None]
    place[pattern.shared] = np.arange(k)
    owner = np.full(X.shape[0], -1)
    full = np.flatnonzero(np.diff(X.indptr))
    owner[full] = np.maximum.reduceat(block[X.indices], X.indptr[full])
    order = np.argsort(owner, kind="stable")
    ends = np.searchsorted(owner[order], np.arange(-1, m), side="right")
    for number, (begin, end) in enumerate(pairwise([0, *ends.tolist()]), start=-1):
        if end > begin:
            which = order[begin:end]
            some = X[which]
            F = np.zeros((end - begin, k + b))
            F[np.repeat(np.arange(end - begin), np.diff(some.indptr)), place[some.indices]] = some.data
            yield number, which, F


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
        return like.n_features

    def scores_per_row(self, like: Choices) -> int:
        return int(like.sizes.max())

    def design(self, batch: Choices) -> Design:
        return batch.design

    def magnitudes(self, batch: Choices) -> Magnitudes:
        log_h = np.zeros(0) if batch.log_measure is None else batch.log_measure
        weight = None if batch.weight is None else self.score_weights(batch)
        return Magnitudes.of(batch.design, weight, float(np.linalg.norm(log_h[np.isfinite(log_h)])))

    def column_squares(self, batch: Choices) -> Array:
        return batch.design.column_norms() ** 2

    def spreads(self, root: Array, like: Choices) -> ChoiceSpreads | None:
        return ChoiceSpreads(root) if type(self) is Enumerated else None

    def potentials(self, theta: Array, batch: Choices) -> Array:
        return batch.design.project(theta[None])[0]

    def add_measure(self, potentials: Array, batch: Choices) -> Array:
        return potentials if batch.log_measure is None else potentials + batch.log_measure

    def loss_at_zero(self, batch: Choices) -> float | None:
        """Return the loss of parameters of zero: without measures every outcome of a set is as likely as another."""
        if batch.log_measure is not None:
            return None
        return weighted_sum(np.log(batch.sizes), batch.weight)

    def loss(self, scores: Array, batch: Choices) -> float:
        losses, observed = np.empty(len(batch)), self._observed(scores, batch)
        for sets, at in batch.by_size:
            losses[sets] = softmax.log_partition(scores[at], observed[sets])
        return weighted_sum(losses, batch.weight)

    def loss_and_residual(self, scores: Array, batch: Choices) -> tuple[float, Array]:
        losses, R, observed = np.empty(len(batch)), -batch.target, self._observed(scores, batch)
        for sets, at in batch.by_size:
            losses[sets], P = softmax.log_partition_and_probabilities(scores[at], observed[sets])
            R[at] += P
        return weighted_sum(losses, batch.weight), R * self.score_weights(batch)

    def lift(self, residual: Array, batch: Choices) -> Array:
        return batch.design.pull_back(residual[None])[0]

    def bound_factors(self, scores: Array, batch: Choices) -> Factors:
        return OutcomeFactors(scores, batch, self.order, majorizes=True)

    def hessian_factors(self, scores: Array, batch: Choices) -> Factors:
        return OutcomeFactors(scores, batch, self.order, majorizes=False)

    def hessian_diagonal(self, scores: Array, batch: Choices) -> Array:
        if not batch.design.is_sparse:
            factors = self.hessian_factors(scores, batch)
            return sum(((q**2).sum(axis=0) for q in factors.rows()), np.zeros(factors.size))
        p = self.probabilities(scores, batch)  # Σ w p f² − Σ w mean², from non-zeros alone
        means = sp.csr_array((p, np.arange(len(p)), batch.indptr), shape=(len(batch), len(p))) @ batch.design.csr()
        squares = batch.design.pull_back_squares((p * self.score_weights(batch))[None])[0]
        return np.maximum(squares - means.power(2).T @ weights_of(batch), 0.0)

    def pattern(self, batch: Choices) -> Pattern | None:
        if not batch.design.is_sparse:
            return None
        X = batch.design.csr()
        touched = np.bincount(X.indices, minlength=X.shape[1])
        common = (np.flatnonzero(touched > share * X.shape[0]) for share in COMMON)
        found = (_blocks(X, shared) for shared in common if len(shared) ** 2 <= LARGEST)
        return next((pattern for pattern in found if pattern is not None), None)

    def arrow(self, scores: Array, batch: Choices, pattern: Pattern, *, whole: bool) -> Arrow:
        return hessian_by_blocks(self.probabilities(scores, batch), batch, pattern, whole=whole)

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
        return batch.design.dense()

    def through(self, matrix: Array, batch: Choices) -> Array:
        return batch.design.times(matrix)

    def center(self, scores: Array, batch: Choices, V: Array) -> tuple[Array, Array]:
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
        return np.repeat(weights_of(batch), batch.sizes)

    def row_slices(self, batch: Choices) -> list[slice]:
        return [slice(a, b) for a, b in pairwise(batch.indptr)]

    def row_gradients(self, scores: Array, batch: Choices) -> Array:
        residual = self.loss_and_residual(scores, batch)[1]
        return np.add.reduceat(residual[:, None] * batch.design.dense(), batch.indptr[:-1])

    def targets(self, batch: Choices) -> Array:
        return batch.target

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
        return self.batch.n_features

    def matrix(self) -> Array:
        """Return Σ by one Gram product per block of rows."""
        refuse_large(self.size, "a dense curvature")
        return sum((Q.T @ Q for Q in self.rows()), np.zeros((self.size, self.size)))

    def rows(self) -> Iterator[Array]:
        """Yield the rows, some sets at a time."""
        per_set = max(len(self.scores) * self.size // len(self.batch), 1)
        done = 0
        for block in self.batch.batches(max(FACTOR_BLOCK // per_set, 1)):
            scores = self.scores[done : done + block.indptr[-1]]
            done += block.indptr[-1]
            X = block.design.dense()
            if self.majorizes:
                visit = np.arange(len(scores))
                for _, at in block.by_size:
                    order = partition.visiting_order(scores[at], self.order)
                    if order is not None:
                        visit[at] = np.take_along_axis(at, order, axis=0)
                yield kernels.stochastic.bound_rows(scores, visit, block.indptr, weights_of(block), X)
            elif X.size < 2**14:  # NumPy is done before Numba is loaded
                yield Enumerated().hessian_root_times(scores, block, X)
            else:
                p = Enumerated().probabilities(scores, block)
                yield kernels.stochastic.hessian_rows(p, block.indptr, weights_of(block), X)

    def diagonal(self) -> Array:
        sizes = (np.abs(Q) for Q in self.rows())
        return sum((size.T @ size.sum(axis=1) for size in sizes), np.zeros(self.size))

    def kronecker(self, weigh_rows: Callable[[Array], Array]) -> tuple[Array, Array]:
        """Refuse: outcomes with features of their own share no class structure."""
        raise ValueError("Enumerated has no classes to factor out; use curvature='dense', 'low-rank' or 'diagonal'")

    def fixed(self) -> tuple[Array, Array]:
        """Refuse, as :meth:`kronecker` does."""
        return self.kronecker(lambda B: B)


@dataclass(frozen=True)
class LatentEnumerated(Latent[Choices], Enumerated):
    """p_j(y) ∝ Σ_m h_j(y, m) exp(θᵀf_j(y, m)), pairs (y, m) written out: any features, any measure.

    Data are :class:`~majorant.Choices` made with ``consistent``: which pairs agree with what was observed.

    Parameters
    ----------
    order : {"descending", "ascending", "given"}
        In which order the bound visits the outcomes of a set.

    Examples
    --------
    Of three outcomes the last two look the same:

    >>> import numpy as np
    >>> from majorant import Choices, Objective
    >>> data = Choices(np.eye(3), sizes=[3], consistent=[False, True, True])
    >>> F = Objective(LatentEnumerated(), data, ridge=1.0)
    >>> round(F.value([0.0, 0.0, 0.0]), 4)  # log 3 − log 2
    0.4055
    """

    def check(self, data: Choices) -> None:
        """Raise unless data say which outcomes agree with what was observed."""
        require_data(self, data, Choices)
        if not data.hidden:
            raise ValueError("LatentEnumerated needs data of which parts are hidden: give consistent= to Choices")

    def posterior(self, scores: Array, batch: Choices) -> Array:
        q = np.empty_like(scores)
        for _, at in batch.by_size:
            q[at] = partition.posterior(scores[at], batch.target[at] > 0)[1]
        return q

    def complete(self, posterior: Array, batch: Choices) -> tuple[Model[Any], Any]:
        return Enumerated(self.order), batch.completed(posterior)

    def loss(self, scores: Array, batch: Choices) -> float:
        losses = np.empty(len(batch))
        for sets, at in batch.by_size:
            losses[sets] = partition.losses(scores[at], batch.target[at] > 0)
        return weighted_sum(losses, batch.weight)

    def loss_and_residual(self, scores: Array, batch: Choices) -> tuple[float, Array]:
        losses, R = np.empty(len(batch)), np.empty_like(scores)
        for sets, at in batch.by_size:
            losses[sets], R[at] = partition.losses_and_residuals(scores[at], batch.target[at] > 0)
        return weighted_sum(losses, batch.weight), R * self.score_weights(batch)

    def margins(self, scores: Array, batch: Choices) -> Array:
        """Return the largest score that agrees with what was observed minus the largest that does not."""
        margin = np.empty(len(batch))
        for sets, at in batch.by_size:
            S, seen = scores[at], batch.target[at] > 0
            margin[sets] = np.where(seen, S, -np.inf).max(axis=0) - np.where(seen, -np.inf, S).max(axis=0)
        return margin

    def hits(self, scores: Array, batch: Choices) -> Array:
        """Return whether the likeliest outcome, hidden part and all, agrees with what was observed."""
        hits = np.empty(len(batch))
        for sets, at in batch.by_size:
            likeliest = scores[at].argmax(axis=0)
            hits[sets] = batch.target[at[likeliest, np.arange(len(sets))]] > 0
        return hits

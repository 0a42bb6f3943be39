"""Linear-chain conditional random fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from majorant import kernels
from majorant._checks import Array
from majorant.curvature import Factors
from majorant.data.sequences import Sequences
from majorant.models import chain_online as online
from majorant.models.base import Model, require_data
from majorant.models.chain_bound import ChainFactors

# At most so many blocks; and a token is worth so many parameters that gradients of blocks have to be added up for.
BLOCKS, PARAMETERS_PER_TOKEN = 16, 24.0


@dataclass(frozen=True)
class Chain(Model[Sequences]):
    """p(y|x) ∝ exp Σ_t [u_t(y_t) + A(y_{t−1}, y_t)], with u_t = Σ_a v_ta θ_a over the attributes a of token t.

    Scores of a batch are one flat array: the state scores u of all tokens, then the transition scores A. Both are
    linear in θ, and forward–backward turns them into marginals. Sequences are worked off in pieces that stay in cache.
    :class:`~majorant.ChainCRF` makes :class:`~majorant.data.Sequences` of what people have.
    """

    # They are as long as the data; loss and gradient are found piece by piece instead.
    keeps_scores: ClassVar[bool] = False

    def check(self, data: Sequences) -> None:
        """Accept any sequences: they were checked when they were made."""
        require_data(self, data, Sequences)

    def n_observations(self, batch: Sequences) -> int:
        """Return the tokens."""
        return batch.n_tokens

    def convex(self, batch: Sequences) -> bool:
        """Return whether tokens of a sequence weigh the same: if not, the loss has differences of log-partitions."""
        return batch.even

    def block_rows(self, like: Sequences, rows: int) -> int:
        """Return enough sequences for the gradient that they add to, as long as θ, to be found in far more time."""
        sequences = max(len(like), 1) * self.n_parameters(like) / (PARAMETERS_PER_TOKEN * max(like.n_tokens, 1))
        return int(max(-(-rows // BLOCKS), sequences, 1))

    def n_parameters(self, like: Sequences) -> int:
        """Return the size of the universe."""
        return like.universe.size

    def potentials(self, theta: Array, batch: Sequences) -> Array:
        """Return state scores and transition scores."""
        flat, U, A = _empty_scores(batch)
        _project(theta, batch.universe.table(theta), batch, U)
        A[:] = batch.universe.transition_matrix(theta)
        return flat

    def loss_and_residual(self, scores: Array, batch: Sequences) -> tuple[float, Array]:
        """Return the loss and w_j (marginals − what was observed), shaped as the scores are."""
        U, A = split_scores(scores, batch)
        flat, R, B = _empty_scores(batch)
        B[:], loss = 0.0, 0.0
        for tokens, piece in batch.pieces():
            found = _sweep(U[tokens], A, piece)
            loss += found.log_partition()
            R[tokens], expected = found.marginals()
            B += expected
        observed = _observed_scores(batch)
        return max(loss - float(scores @ observed), 0.0), flat - observed

    def loss_and_gradient(self, theta: Array, batch: Sequences) -> tuple[float, Array]:
        """Return the loss and its gradient: Σ_j w_j log Z_j less θᵀ what was observed, piece by piece."""
        universe = batch.universe
        table, A = universe.table(theta), universe.transition_matrix(theta)
        G, G_table, B = np.zeros(universe.size), universe.table(), np.zeros_like(A)
        loss = 0.0
        for _, piece in batch.pieces():
            U = np.empty((piece.n_tokens, universe.width))
            _project(theta, table, piece, U)
            found = _sweep(U, A, piece)
            loss += found.log_partition()
            P, expected = found.marginals()
            B += expected
            _lift(P, piece, piece.values, G_table, G)
        return max(loss - float(theta @ batch.observed), 0.0), universe.joined_parts(G, G_table, B) - batch.observed

    def loss_at_zero(self, batch: Sequences) -> float:
        """Return the loss of parameters of zero: every label is as likely as another."""
        weight = batch.n_tokens if batch.weight is None else batch.weight.sum()
        return float(weight * np.log(batch.universe.n))

    def learns_online(self) -> bool:
        """Return True."""
        return True

    def learn(
        self, data: Sequences, theta: Array, precision: Array, order: Array, curvature: str = "share"
    ) -> tuple[Array, Array]:
        """Return parameters and a diagonal precision after a step at every sequence, in order."""
        return online.learn(self, data, theta, precision, order, curvature)

    def lift(self, residual: Array, batch: Sequences) -> Array:
        """Return the gradient."""
        R, B = split_scores(residual, batch)
        G, table = np.zeros(batch.universe.size), batch.universe.table()
        _lift(R, batch, batch.values, table, G)
        return batch.universe.joined_parts(G, table, B)

    def hessian_diagonal(self, scores: Array, batch: Sequences) -> Array:
        """Return Σ_t v² p(1 − p), as if tokens were independent: to scale steps by."""
        U, A = split_scores(scores, batch)
        G, table, B = np.zeros(batch.universe.size), batch.universe.table(), np.zeros_like(A)
        for tokens, piece in batch.pieces():
            P, expected = _forward(U[tokens], A, piece).marginals(variances=True)
            B += expected
            _lift(P, piece, None if piece.values is None else piece.values**2, table, G)
        return batch.universe.joined_parts(G, table, B)

    def bound_factors(self, scores: Array, batch: Sequences) -> Factors:
        """Return the factors of the bound over a chain."""
        U, A = split_scores(scores, batch)
        return ChainFactors(U, A, batch)

    def hits(self, scores: Array, batch: Sequences) -> Array:
        """Return for each token whether its label is that of the likeliest sequence."""
        return (self.decode(scores, batch) == batch.y).astype(np.float64)

    def decode(self, scores: Array, batch: Sequences) -> Array:
        """Return the label of each token in the likeliest sequence (Viterbi)."""
        U, A = split_scores(scores, batch)
        y = np.empty(len(U), dtype=np.int32)
        kernels.chain.viterbi(U, A, batch.starts, batch.universe.n, y)
        return y

    def marginals(self, scores: Array, batch: Sequences) -> Array:
        """Return P(y_t) for every token, a column for each label."""
        U, A = split_scores(scores, batch)
        P = np.empty((batch.n_tokens, batch.universe.n))
        for tokens, piece in batch.unweighted().pieces():
            P[tokens] = _forward(U[tokens], A, piece).marginals()[0][:, : batch.universe.n]
        return P


class _Messages(NamedTuple):
    """What the forward sweep over a piece found; the letters are those of ``majorant.kernels.chain``."""

    piece: Sequences
    E: Array
    T: Array
    α: Array
    scale: Array
    largest: Array

    def log_partition(self) -> float:
        """Return Σ_j w_j log Z_j."""
        each, weight = np.log(self.scale) + self.largest, self.piece.weight
        return float(each.sum() if weight is None else weight @ each)

    def marginals(self, variances: bool = False) -> tuple[Array, Array]:
        """Return w P(y_t) and Σ_t w P(y_{t−1}, y_t); or their variances p(1 − p), roughly for the pairs."""
        weight = self.piece.weight
        P, γ = np.empty_like(self.E), np.empty_like(self.E)
        kernels.chain.backward(self.E, np.ascontiguousarray(self.T.T), self.piece.starts, self.α, self.scale, P, γ)
        if variances:
            P *= 1 - P
        if weight is not None:
            P *= weight[:, None]
            γ *= weight[:, None]
        pairs = self.T * (self.α[:-1].T @ γ[1:])
        return P, pairs * (1 - pairs / max(pairs.sum(), 1.0)) if variances else pairs


class _Conditionals(NamedTuple):
    """The same for tokens of uneven weights: Σ_t w_t log of what p(y_t | y_1 … y_{t−1}) is divided by, and slopes."""

    total: float
    P: Array
    pairs: Array

    def log_partition(self) -> float:
        """Return the weighted sum."""
        return self.total

    def marginals(self) -> tuple[Array, Array]:
        """Return its derivatives with respect to state scores and transition scores."""
        return self.P, self.pairs


def split_scores(flat: Array, batch: Sequences) -> tuple[Array, Array]:
    """Return the state scores (tokens × width) and the transition scores (width × width) as views."""
    width = batch.universe.width
    return flat[: -(width**2)].reshape(-1, width), flat[-(width**2) :].reshape(width, width)


def _empty_scores(batch: Sequences) -> tuple[Array, Array, Array]:
    width = batch.universe.width
    flat = np.empty((batch.n_tokens + width) * width)
    return flat, *split_scores(flat, batch)


def _observed_scores(batch: Sequences) -> Array:
    """Return what was observed, shaped as the scores are: the weight at the label of each token and at each step."""
    each = np.ones(batch.n_tokens) if batch.weight is None else batch.weight
    flat, R, B = _empty_scores(batch)
    flat[:] = 0.0
    R[np.arange(len(R)), batch.y] = each
    inner = batch.inner_tokens()
    np.add.at(B, (batch.y[inner - 1], batch.y[inner]), each[inner])
    return flat


def _sweep(U: Array, A: Array, piece: Sequences) -> _Messages | _Conditionals:
    return _forward(U, A, piece) if piece.even else _conditionals(U, A, piece)


def _forward(U: Array, A: Array, piece: Sequences) -> _Messages:
    E, T, largest = _exponentials(U, A, piece)
    α, scale = np.empty_like(U), np.empty(len(U))
    kernels.chain.forward(E, T, piece.starts, α, scale)
    return _Messages(piece, E, T, α, scale, largest)


def _conditionals(U: Array, A: Array, piece: Sequences) -> _Conditionals:
    assert piece.weight is not None
    E, T, largest = _exponentials(U, A, piece)
    P, pairs = np.empty_like(U), np.zeros_like(T)
    total = kernels.chain.conditionals(E, T, piece.starts, piece.y, piece.weight, largest, P, pairs)
    return _Conditionals(total, P, pairs)


def _exponentials(U: Array, A: Array, piece: Sequences) -> tuple[Array, Array, Array]:
    """Return exp of U and of A, each less its largest score, and what that takes off each token; 0 beyond n labels."""
    n = piece.universe.n
    E, largest = np.empty_like(U), np.empty(len(U))
    kernels.chain.shift(U, n, E, largest)
    np.exp(E, out=E)
    E[:, n:] = 0.0
    top = A[:n, :n].max()
    T = np.exp(A - top)
    T[n:], T[:, n:] = 0.0, 0.0
    largest[piece.inner_tokens()] += top
    return E, T, largest


def _project(θ: Array, table: Array, batch: Sequences, U: Array) -> None:
    kernels.chain.project(batch.placements(), θ, table, U)


def _lift(R: Array, batch: Sequences, values: Array | None, table: Array, G: Array) -> None:
    kernels.chain.lift(batch.placements()._replace(values=values), R, table, G)

"""Linear-chain conditional random fields: the model, whose sums over labellings are those of forward–backward."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite
from typing import Any, ClassVar

import numpy as np

from majorant.chain import kernels
from majorant.chain.bound import ChainFactors
from majorant.chain.dual import AscentInBlocks, ChainAscent, transition_curvature
from majorant.chain.sequences import Sequences
from majorant.chain.streamed import PARAMETERS_PER_TOKEN, StreamedSequences
from majorant.core.checks import Array
from majorant.core.curvature import Factors
from majorant.core.kernels.sparse import Features
from majorant.core.model import Model, require_data
from majorant.core.rounding import SAFETY, Magnitudes
from majorant.core.rows import giving_away


@dataclass(frozen=True)
class Chain(Model[Sequences]):
    """p(y|x) ∝ exp Σ_t [u_t(y_t) + A(y_{t−1}, y_t)], with u_t = Σ_a v_ta θ_a over the attributes a of token t.

    Scores of a batch are one flat array: the state scores u of all tokens, then the transition scores A. Both are
    linear in θ, and forward–backward turns them into marginals.
    :class:`~majorant.ChainCRF` makes :class:`~majorant.data.Sequences` of what people have.

    Examples
    --------
    >>> import numpy as np
    >>> import majorant
    >>> from majorant.data import Sequences, Universe
    >>> universe = Universe.of(np.arange(4), np.arange(4), 2, 2)  # two attributes, two labels, all pairs and steps
    >>> starts, attributes = np.array([0, 2, 5]), np.array([0, 1, 0, 1, 1])
    >>> y = np.array([0, 1, 0, 1, 1], dtype=np.int32)
    >>> data = Sequences.of(universe, starts, np.arange(6), attributes, None, y)
    >>> F = majorant.Objective(majorant.Chain(), data, ridge=1.0)
    >>> majorant.minimize(F, majorant.QuasiNewton()).result.converged
    True
    """

    # They are as long as the data; loss and gradient are found piece by piece instead.
    keeps_scores: ClassVar[bool] = False

    def check(self, data: Sequences) -> None:
        """Accept any sequences: they were checked when they were made."""
        require_data(self, data, Sequences)

    def n_observations(self, batch: Sequences) -> int:
        return batch.n_tokens

    def convex(self, batch: Sequences) -> bool:
        """Return whether tokens of a sequence weigh the same: if not, the loss has differences of log-partitions."""
        return batch.even

    def block_rows(self, like: Sequences, rows: int) -> int:
        """Return enough sequences for a gradient to be found in far more time than it is added up in; 16 blocks."""
        sequences = max(len(like), 1) * self.n_parameters(like) / (PARAMETERS_PER_TOKEN * max(like.n_tokens, 1))
        return int(max(-(-rows // 16), sequences, 1))

    def n_parameters(self, like: Sequences) -> int:
        return like.universe.size

    def potentials(self, theta: Array, batch: Sequences) -> Array:
        universe, (flat, U, A) = batch.universe, _empty_scores(batch)
        A[:] = universe.transition_matrix(theta)
        zero = np.zeros_like(universe.floor)
        kernels.forward_backward.scores(batch.features, theta, universe.table(theta), zero, U, universe.blocks)
        return flat

    def lift(self, residual: Array, batch: Sequences) -> Array:
        return _lift(*split_scores(residual, batch), batch.features, batch)

    def loss_and_residual(self, scores: Array, batch: Sequences) -> tuple[float, Array]:
        """Return the loss and w_j (marginals − what was observed), shaped as the scores are."""
        flat, P, B = _empty_scores(batch)
        total = sum_paths(*split_scores(scores, batch), batch, P, B)
        weight = np.ones(batch.n_tokens) if batch.weight is None else batch.weight
        observed, R, steps = _empty_scores(batch)
        observed[:] = 0.0
        R[np.arange(len(R)), batch.y] = weight
        inner = batch.inner_tokens()
        np.add.at(steps, (batch.y[inner - 1], batch.y[inner]), weight[inner])
        return as_loss(total - float(scores @ observed)), flat - observed

    @giving_away  # gradients are as long as θ, of which there are few in memory
    def loss_and_gradient(self, theta: Array, batch: Sequences) -> tuple[float, Array]:
        """Return the loss and its gradient, sequence by sequence: scores are not kept."""
        if not batch.even:
            return super().loss_and_gradient(theta, batch)
        universe = batch.universe
        A = universe.transition_matrix(theta)
        G, table, B = np.zeros(universe.size), universe.table(), np.zeros_like(A)
        loss = kernels.forward_backward.gradient(
            batch.features, batch.starts, batch.y, batch.weight, theta, universe.table(theta), A, universe.floor,
            kernels.forward_backward.room_for(batch.starts, universe.width), universe.blocks, G, table, B,
        )  # fmt: skip
        return as_loss(loss), universe.joined_parts(G, table, B)

    def loss_at_zero(self, batch: Sequences) -> float:
        """Return the loss of parameters of zero: every label is as likely as another."""
        weight = batch.n_tokens if batch.weight is None else batch.weight.sum()
        return float(weight * np.log(batch.universe.n))

    def hessian_diagonal(self, scores: Array, batch: Sequences) -> Array:
        """Return Σ_t v² p(1 − p), as if tokens were independent: to scale steps by."""
        _, P, pairs = _empty_scores(batch)
        sum_paths(*split_scores(scores, batch), batch.unweighted(), P, pairs)
        B = transition_curvature(batch, P)
        P *= 1 - P
        if batch.weight is not None:
            P *= batch.weight[:, None]
        return _lift(P, B, batch.features.squared(), batch)

    # --- solvers ------------------------------------------------------------------------------------------

    def learns_online(self) -> bool:
        return True

    def learn(
        self, data: Sequences, theta: Array, precision: Array, order: Array, curvature: str = "share"
    ) -> tuple[Array, Array]:
        """Return parameters and a diagonal precision after a step at every sequence, in order.

        The share that a token adds to the precision is a quarter of ‖v‖₁ |v| p(1 − p): the diagonal that dominates a
        token's own curvature, times ¼ where that would be safe and too stiff. It is no bound; the diagonal of the bound
        over a chain is the other choice, sequence by sequence: stiffer, and far more work.
        """
        θ, D = theta.copy(), precision.copy()
        if curvature == "bound":
            for j in order:
                one = data.part(j, j + 1)
                scores = self.scores(θ, one)
                D += self.bound_factors(scores, one).diagonal()
                θ = θ - self.lift(self.loss_and_residual(scores, one)[1], one) / D
            return θ, D
        universe, states = data.universe, len(data.universe.label)
        A, DA = universe.transition_matrix(θ), universe.transition_matrix(D)
        DA[DA == 0] = np.inf  # a transition that has no parameter does not move
        kernels.online.online_pass(
            data.occurrences(), data.starts, data.y, np.ones(data.n_tokens) if data.weight is None else data.weight,
            order, universe.floor, kernels.forward_backward.room_for(data.starts, universe.width), universe.blocks,
            θ, D, A, DA,
        )  # fmt: skip
        θ[states:], D[states:] = universe.from_matrix(A), universe.from_matrix(DA)
        return θ, D

    def ascends(self, data: Any) -> bool:
        """Return whether tokens of a sequence weigh the same, and there is room for all marginals."""
        if isinstance(data, Sequences):
            return ChainAscent.fits(data)
        return isinstance(data, StreamedSequences) and AscentInBlocks.fits(data)

    def dual_ascent(self, data: Any, ridge: Array) -> ChainAscent:
        """Return dual ascent, sequence by sequence; block by block, if they are not in memory."""
        return ChainAscent(data, ridge) if isinstance(data, Sequences) else AscentInBlocks(data, ridge)

    def bound_factors(self, scores: Array, batch: Sequences) -> Factors:
        """Return the factors of the bound over a chain."""
        return ChainFactors(*split_scores(scores, batch), batch)

    # --- certificates -------------------------------------------------------------------------------------

    def magnitudes(self, batch: Sequences) -> Magnitudes:
        """Return how large the numbers are that log Z and marginals are found from, sequence by sequence.

        The square of a sum over L tokens is at most L times that of squares; log Z is a sum of L logarithms besides.
        """
        starts = batch.starts.astype(np.int64)
        lengths = np.diff(starts).astype(np.float64)
        of_token = np.repeat(lengths, np.diff(starts))  # the tokens of its sequence
        universe, x, n = batch.universe, batch.features.squared(), batch.universe.n
        rows, codes = (np.repeat(of_token, of[1:] - of[:-1]) for of in (x.row_starts, x.starts))
        of_rows = rows.sum() if x.row_values is None else rows @ x.row_values
        of_codes = codes.sum() if x.values is None else codes @ x.values
        squares = n * of_rows + of_codes + len(universe.transitions) * np.square(lengths).sum()
        weight = np.ones(batch.n_tokens) if batch.weight is None else batch.weight
        first = batch.starts[:-1][lengths > 0]
        of_sequence = np.maximum.reduceat(weight, first) if len(first) else np.zeros(0)
        # A token has one parameter of each attribute at most, and one transition: where those of each begin.
        groups = np.unique(np.append(universe.first[:-1].astype(np.int64), len(universe.label)))
        return Magnitudes(
            rows=batch.n_tokens,
            n_columns=universe.size,
            norm=float(np.sqrt(squares)),
            weights=float(np.linalg.norm(of_sequence)),
            heaviest=float(of_sequence.max(initial=0.0)),
            measure=float(SAFETY * (1.0 + np.log(n)) * np.sqrt(np.power(lengths, 3).sum())),
            terms=int((np.diff(batch.indptr[batch.starts].astype(np.float64)) + lengths).max(initial=1)),
            groups=groups[groups < universe.size],
        )

    def column_squares(self, batch: Sequences) -> Array:
        """Return for each parameter the squares of what its feature may be in a sequence at most."""
        universe, x, starts = batch.universe, batch.features, batch.starts.astype(np.int64)
        squares, of_rows, rows = np.zeros(universe.size), np.zeros(universe.tabled), x.rows.astype(x.codes.dtype)
        sum_up = kernels.forward_backward.add_squares_of_sums
        sum_up(x.codes, x.bits, x.values, x.starts[starts].astype(np.int64), np.zeros(universe.size), squares)
        no_bits, ends = x.bits * 0, x.row_starts[starts].astype(np.int64)
        sum_up(rows, no_bits, x.row_values, ends, np.zeros(universe.tabled), of_rows)
        steps = np.full((universe.width, universe.width), np.square(np.diff(starts).astype(np.float64)).sum())
        return universe.joined_parts(squares, np.repeat(of_rows[:, None], universe.width, axis=1), steps)

    # --- predictions --------------------------------------------------------------------------------------

    def hits(self, scores: Array, batch: Sequences) -> Array:
        """Return for each token whether its label is that of the likeliest sequence."""
        return (self.decode(scores, batch) == batch.y).astype(np.float64)

    def decode(self, scores: Array, batch: Sequences) -> Array:
        """Return the label of each token in the likeliest sequence (Viterbi)."""
        U, A = split_scores(scores, batch)
        n, y = batch.universe.n, np.empty(len(U), dtype=np.int32)
        kernels.paths.viterbi(U, A, batch.starts, n, np.empty((len(U), n)), y)
        return y

    def marginals(self, scores: Array, batch: Sequences) -> Array:
        """Return P(y_t) for every token, a column for each label."""
        _, P, pairs = _empty_scores(batch)
        sum_paths(*split_scores(scores, batch), batch.unweighted(), P, pairs)
        return P[:, : batch.universe.n].copy()


def as_loss(loss: float) -> float:
    """Return a loss, which rounding may have made negative; infinite where log Z was too small for a number."""
    return max(loss, 0.0) if isfinite(loss) else inf


def split_scores(flat: Array, batch: Sequences) -> tuple[Array, Array]:
    """Return the state scores (tokens × width) and the transition scores (width × width) as views."""
    width = batch.universe.width
    return flat[: -(width**2)].reshape(-1, width), flat[-(width**2) :].reshape(width, width)


def _empty_scores(batch: Sequences) -> tuple[Array, Array, Array]:
    """Return scores to be written: all of them, and their two parts as views."""
    width = batch.universe.width
    flat = np.empty((batch.n_tokens + width) * width)
    return flat, *split_scores(flat, batch)


def sum_paths(U: Array, A: Array, batch: Sequences, P: Array, B: Array) -> float:
    """Write the derivatives of Σ_j w_j log Z_j with respect to state scores and transition scores, and return it.

    For tokens of uneven weights the sum is Σ_t w_t log of what p(y_t | y_1 … y_{t−1}) is divided by.
    """
    universe, n = batch.universe, batch.universe.n
    B[:] = 0.0
    if batch.even:
        room = kernels.forward_backward.room_for(batch.starts, universe.width)
        A = np.ascontiguousarray(A)
        sum_up = kernels.forward_backward.marginals
        return float(sum_up(U, A, batch.starts, batch.weight, universe.floor, room, universe.blocks, P, B))
    top, largest = A[:n, :n].max(), U[:, :n].max(axis=1, initial=-np.inf)
    E, T = np.exp(U - largest[:, None]), np.exp(A - top)
    E[:, n:], T[n:], T[:, n:] = 0.0, 0.0, 0.0
    largest[batch.inner_tokens()] += top
    return float(kernels.paths.conditionals(E, T, batch.starts, batch.y, batch.weight, largest, P, B))


def _lift(R: Array, B: Array, features: Features, batch: Sequences) -> Array:
    """Return the parameters' derivative from those on state scores and transition scores."""
    universe = batch.universe
    G, table = np.zeros(universe.size), universe.table()
    kernels.forward_backward.lifted(features, R, G, table, universe.blocks)
    return universe.joined_parts(G, table, B)

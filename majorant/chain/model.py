"""The bound of Algorithm 1 over a chain, with one Σ shared by all states (erratum E4).

Linear-chain conditional random fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any, ClassVar

import numpy as np
from scipy.special import xlogy

from majorant.chain import dual, kernels
from majorant.chain import kernels as chain_kernels
from majorant.chain.dual import AscentInBlocks, ChainAscent, SharedAscent, transition_curvature
from majorant.chain.feature_index import NEVER, Universe
from majorant.chain.sequences import Sequences
from majorant.chain.tokens import InBlocks
from majorant.core.checks import Array
from majorant.core.curvature import FACTOR_BLOCK, Factors, refuse_large
from majorant.core.kernels import Features
from majorant.core.model import Model, require_data
from majorant.core.rounding import EPSILON, SAFETY, Magnitudes
from majorant.core.rows import labels_only

# Bytes that the factors of one sequence may take.
LARGEST_FACTORS = 2**31


@dataclass(frozen=True, eq=False)
class ChainFactors(Factors):
    """Σ_j w_j Φ_jᵀ Q_jᵀ Q_j Φ_j: Q_j from the scores of a sequence alone, Φ_j its features.

    A score of a sequence is one of its (token, label) pairs or one of the label pairs of A. The sweep over a sequence
    of T tokens makes about T n² rows of T n + n² numbers, so this is for short sequences and few labels.
    """

    U: Array
    A: Array
    batch: Sequences
    majorizes: bool = True

    def __post_init__(self) -> None:
        refuse_long(self.batch)

    @property
    def size(self) -> int:
        """Number of parameters."""
        return self.batch.universe.size

    def matrix(self) -> Array:
        """Return Σ."""
        refuse_large(self.size, "a dense curvature")
        return sum((q.T @ q for q in self.rows()), np.zeros((self.size, self.size)))

    def rows(self) -> Iterator[Array]:
        """Yield √w Q_j Φ_j, a block of rows at a time."""
        for Q, Φ, weight in self._sequences():
            step = max(FACTOR_BLOCK // self.size, 1)
            for start in range(0, len(Q), step):
                yield np.sqrt(weight) * (Q[start : start + step] @ Φ)

    def diagonal(self) -> Array:
        """Return Σ |q| ‖q‖₁ with q = |Q_j| |Φ_j|, which is no less than with Q_j Φ_j: both factors are summed apart."""
        D = np.zeros(self.size)
        for Q, Φ, weight in self._sequences():
            size, magnitude = np.abs(Q), abs(Φ)
            D += weight * (magnitude.T @ (size.T @ (size @ (magnitude @ np.ones(self.size)))))
        return D

    def kronecker(self, weigh: Callable[[Array], Array]) -> tuple[Array, Array]:
        """Raise: a chain has no such structure."""
        raise TypeError("Chain has no Kronecker curvature; use 'dense', 'low-rank' or 'diagonal'")

    def fixed(self) -> tuple[Array, Array]:
        """Raise: a chain has no such structure."""
        raise TypeError("Chain has no Böhning bound; use 'dense', 'low-rank' or 'diagonal'")

    def _sequences(self) -> Iterator[tuple[Array, Array, float]]:
        if not self.batch.even:
            raise ValueError("a bound over a chain needs weights that are the same for all tokens of a sequence")
        n, starts, weight = self.batch.universe.n, self.batch.starts, self.batch.weight
        A = np.ascontiguousarray(self.A[:n, :n])
        for j in range(len(self.batch)):
            if starts[j] < starts[j + 1]:
                U = np.ascontiguousarray(self.U[starts[j] : starts[j + 1], :n])
                yield (
                    kernels.paths.bound_rows(U, A),
                    score_features(self.batch, j),
                    1.0 if weight is None else weight[starts[j]],
                )


def refuse_long(batch: Sequences) -> None:
    """Raise before factors are asked of a machine that cannot hold them."""
    n, T = batch.universe.n, int(np.diff(batch.starts).max(initial=0))
    size = 8 * (T * n * (n - 1)) * (T * n + n * n)
    if size > LARGEST_FACTORS:
        raise ValueError(
            f"the bound over a chain needs {size / 1e9:.0f} GB for a sequence of {T} tokens with {n} labels: "
            "choose another solver than 'bbm' or 'sbm', such as 'auto', or cut the sequences"
        )


def score_features(batch: Sequences, j: int):  # type: ignore[no-untyped-def]
    """Return Φ_j (scores × d), sparse: which parameters make up each score of sequence j."""
    import scipy.sparse as sp

    universe, one = batch.universe, batch.part(j, j + 1)
    n = universe.n
    token = np.repeat(np.arange(one.n_tokens), np.diff(one.indptr))
    value = np.ones(len(token)) if one.values is None else one.values
    first, last = universe.first[one.attributes].astype(np.int64), universe.first[one.attributes + 1].astype(np.int64)
    count = last - first
    parameter = np.repeat(first - np.concatenate([[0], np.cumsum(count)[:-1]]), count) + np.arange(count.sum())
    score = np.repeat(token, count) * n + universe.label[parameter]
    steps = one.n_tokens * n + universe.transitions[:, 0] * n + universe.transitions[:, 1]
    rows = np.concatenate([score, steps])
    columns = np.concatenate([parameter, np.arange(len(universe.label), universe.size)])
    values = np.concatenate([np.repeat(value, count), np.ones(len(steps))])
    return sp.csr_array((values, (rows, columns)), shape=(one.n_tokens * n + n * n, universe.size))


# At most so many blocks; and a token is worth so many parameters that gradients of blocks have to be added up for.
BLOCKS, PARAMETERS_PER_TOKEN = 16, 24.0


@dataclass(frozen=True)
class Chain(Model[Sequences]):
    """p(y|x) ∝ exp Σ_t [u_t(y_t) + A(y_{t−1}, y_t)], with u_t = Σ_a v_ta θ_a over the attributes a of token t.

    Scores of a batch are one flat array: the state scores u of all tokens, then the transition scores A. Both are
    linear in θ, and forward–backward turns them into marginals.
    :class:`~majorant.ChainCRF` makes :class:`~majorant.data.Sequences` of what people have.

    Parameters
    ----------
    threads : int
        That share dual ascent. More than one move one θ without locks: the optimum is the same, the steps there differ
        from run to run.

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

    threads: int = 1

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
        universe, (flat, U, A) = batch.universe, _empty_scores(batch)
        A[:] = universe.transition_matrix(theta)
        zero = np.zeros_like(universe.floor)
        chain_kernels.forward_backward.scores(batch.features, theta, universe.table(theta), zero, U, universe.blocks)
        return flat

    def loss_and_residual(self, scores: Array, batch: Sequences) -> tuple[float, Array]:
        """Return the loss and w_j (marginals − what was observed), shaped as the scores are."""
        flat, R, B = _empty_scores(batch)
        total = sum_paths(*split_scores(scores, batch), batch, R, B)
        observed = _observed_scores(batch)
        return as_loss(total - float(scores @ observed)), flat - observed

    def loss_and_gradient(self, theta: Array, batch: Sequences) -> tuple[float, Array]:
        """Return the loss and its gradient, sequence by sequence: scores are not kept."""
        if not batch.even:
            return super().loss_and_gradient(theta, batch)
        universe = batch.universe
        A = universe.transition_matrix(theta)
        G, table, B = np.zeros(universe.size), universe.table(), np.zeros_like(A)
        loss = chain_kernels.forward_backward.gradient(
            batch.features, batch.starts, batch.y, batch.weight, theta, universe.table(theta), A, universe.floor,
            chain_kernels.forward_backward.room_for(batch.starts, universe.width), universe.blocks, G, table, B,
        )  # fmt: skip
        return as_loss(loss), universe.joined_parts(G, table, B)

    def loss_at_zero(self, batch: Sequences) -> float | None:
        """Return the loss of parameters of zero: every label is as likely as another, if each may follow each."""
        if batch.universe.allowed is not None:
            return None
        weight = batch.n_tokens if batch.weight is None else batch.weight.sum()
        return float(weight * np.log(batch.universe.n))

    def learns_online(self) -> bool:
        """Return True."""
        return True

    def learn(
        self, data: Sequences, theta: Array, precision: Array, order: Array, curvature: str = "share"
    ) -> tuple[Array, Array]:
        """Return parameters and a diagonal precision after a step at every sequence, in order."""
        return dual.learn(self, data, theta, precision, order, curvature)

    def ascends(self, data: Any) -> bool:
        """Return whether tokens of a sequence weigh the same, and there is room for all marginals."""
        if isinstance(data, Sequences):
            return ChainAscent.suits(data)
        return isinstance(data, InBlocks) and AscentInBlocks.fits(data)

    def dual_ascent(self, data: Any, ridge: Array, l1: float) -> ChainAscent:
        """Return dual ascent, sequence by sequence; block by block, if they are not in memory."""
        if not isinstance(data, Sequences):
            return AscentInBlocks(data, ridge, l1)
        return ChainAscent(data, ridge, l1) if self.threads == 1 else SharedAscent(data, ridge, l1, self.threads)

    def lift(self, residual: Array, batch: Sequences) -> Array:
        """Return the gradient."""
        R, B = split_scores(residual, batch)
        return _lift(R, B, batch.features, batch)

    def hessian_diagonal(self, scores: Array, batch: Sequences) -> Array:
        """Return Σ_t v² p(1 − p), as if tokens were independent: to scale steps by."""
        _, P, pairs = _empty_scores(batch)
        sum_paths(*split_scores(scores, batch), batch.unweighted(), P, pairs)
        B = transition_curvature(batch, P)
        P *= 1 - P
        if batch.weight is not None:
            P *= batch.weight[:, None]
        return _lift(P, B, batch.features.squared(), batch)

    def magnitudes(self, batch: Sequences) -> Magnitudes:
        """Return how large the numbers are that log Z and marginals are found from, sequence by sequence.

        The square of a sum over L tokens is at most L times that of squares; log Z is a sum of L logarithms besides.
        """
        lengths, of_token = _lengths(batch)
        universe, x, n = batch.universe, batch.features.squared(), batch.universe.n
        rows, codes = (np.repeat(of_token, each[1:] - each[:-1]) for each in (x.row_starts, x.starts))
        of_rows = rows.sum() if x.row_values is None else rows @ x.row_values
        of_codes = codes.sum() if x.values is None else codes @ x.values
        squares = n * of_rows + of_codes + len(universe.transitions) * np.square(lengths).sum()
        weight = np.ones(batch.n_tokens) if batch.weight is None else batch.weight
        first = batch.starts[:-1][lengths > 0]
        of_sequence = np.maximum.reduceat(weight, first) if len(first) else np.zeros(0)
        ends = batch.indptr[batch.starts].astype(np.int64)
        measure = SAFETY * (1.0 + np.log(n)) * np.sqrt(np.power(lengths, 3).sum())
        return Magnitudes(
            rows=batch.n_tokens,
            n_columns=universe.size,
            norm=float(np.sqrt(squares)),
            weights=float(np.linalg.norm(of_sequence)),
            heaviest=float(of_sequence.max(initial=0.0)),
            measure=float(measure),
            terms=int((np.diff(ends) + lengths).max(initial=1)),
            groups=universe.rivals,
        )

    def column_squares(self, batch: Sequences) -> Array:
        """Return for each parameter the squares of what its feature may be in a sequence at most."""
        universe, x, starts = batch.universe, batch.features, batch.starts.astype(np.int64)
        squares, of_rows, rows = np.zeros(universe.size), np.zeros(universe.tabled), x.rows.astype(x.codes.dtype)
        sum_up = chain_kernels.forward_backward.add_squares_of_sums
        sum_up(x.codes, x.bits, x.values, x.starts[starts].astype(np.int64), np.zeros(universe.size), squares)
        no_bits, ends = x.bits * 0, x.row_starts[starts].astype(np.int64)
        sum_up(rows, no_bits, x.row_values, ends, np.zeros(universe.tabled), of_rows)
        steps = np.full((universe.width, universe.width), np.square(np.diff(starts).astype(np.float64)).sum())
        return universe.joined_parts(squares, np.repeat(of_rows[:, None], universe.width, axis=1), steps)

    def bound_factors(self, scores: Array, batch: Sequences) -> Factors:
        """Return the factors of the bound over a chain."""
        U, A = split_scores(scores, batch)
        return ChainFactors(U, A, batch)

    @labels_only
    def mixed_entropies(self, shares: Array, scores: Array, batch: Sequences) -> Array:
        """Return Σ_j w_j [H(μ_j(s)) − s H(p_j)]: only the observed labelling is mixed in, of probability e^−loss."""
        if not batch.even:
            return np.zeros(len(shares))
        loss = np.maximum(self.sequence_losses(scores, batch), 0.0)
        p, w = np.exp(-loss), dual.first_weights(batch)
        s = shares[:, None]
        q = 1 - s + s * p
        mixed = -xlogy(q, q) - xlogy(s, s) * (1 - p) - s * p * loss
        off = 80 * EPSILON * (1 + p * loss)
        return np.maximum((mixed - off) @ w, 0.0)

    def sequence_losses(self, scores: Array, batch: Sequences) -> Array:
        """Return −log p(y_j) of each sequence, whatever it weighs; zero of an empty one."""
        U, A = split_scores(scores, batch)
        seen, inner = U[np.arange(len(U)), batch.y], batch.inner_tokens()
        seen[inner] += A[batch.y[inner - 1], batch.y[inner]]
        ends = np.concatenate([[0.0], np.cumsum(seen)])[batch.starts]
        return self.log_partitions(scores, batch) - np.diff(ends)

    def log_partitions(self, scores: Array, batch: Sequences) -> Array:
        """Return log Z_j of each sequence, zero of an empty one."""
        return log_partitions(*split_scores(scores, batch), batch.starts, batch.universe)

    def hits(self, scores: Array, batch: Sequences) -> Array:
        """Return for each token whether its label is that of the likeliest sequence."""
        return (self.decode(scores, batch) == batch.y).astype(np.float64)

    def decode(self, scores: Array, batch: Sequences) -> Array:
        """Return the label of each token in the likeliest sequence (Viterbi)."""
        U, A = constrained(scores, batch)
        n, y = batch.universe.n, np.empty(len(U), dtype=np.int32)
        chain_kernels.paths.viterbi(U, A, batch.starts, n, np.empty((len(U), n)), y)
        return y

    def marginals(self, scores: Array, batch: Sequences) -> Array:
        """Return P(y_t) for every token, a column for each label."""
        _, P, pairs = _empty_scores(batch)
        U, A = split_scores(scores, batch)
        sum_paths(U, A, batch.unweighted(), P, pairs)
        n, starts = batch.universe.n, batch.starts
        lost = np.flatnonzero(~np.isfinite(P[:, :n]).all(axis=1) | _may_underflow(U, batch.universe))
        for j in np.unique(np.searchsorted(starts, lost, side="right") - 1):
            tokens = slice(starts[j], starts[j + 1])
            P[tokens, :n] = _in_log_space(U[tokens], A, batch.universe)[1]
        return P[:, :n].copy()


def as_loss(loss: float) -> float:
    """Return a loss, which rounding may have made negative; infinite where log Z was too small for a number."""
    return max(loss, 0.0) if isfinite(loss) else inf


def split_scores(flat: Array, batch: Sequences) -> tuple[Array, Array]:
    """Return the state scores (tokens × width) and the transition scores (width × width) as views."""
    width = batch.universe.width
    return flat[: -(width**2)].reshape(-1, width), flat[-(width**2) :].reshape(width, width)


def log_partitions(U: Array, A: Array, starts: Array, universe: Universe) -> Array:
    """Return log Z of each sequence, zero of an empty one."""
    found, room = np.zeros(len(starts) - 1), chain_kernels.forward_backward.room_for(starts, universe.width)
    chain_kernels.forward_backward.log_partitions(
        np.ascontiguousarray(U), np.ascontiguousarray(A), starts, universe.floor, room, universe.blocks, found
    )
    lost = np.flatnonzero(
        ~np.isfinite(np.repeat(found, np.diff(starts).astype(np.int64))) | _may_underflow(U, universe)
    )
    for j in np.unique(np.searchsorted(starts, lost, side="right") - 1):
        found[j] = _in_log_space(U[starts[j] : starts[j + 1]], A, universe)[0]
    return found


def _may_underflow(U: Array, universe: Universe) -> Array:
    """Return for each token whether the exponential of an allowed label may vanish beside one that is not allowed."""
    if universe.allowed is None:
        return np.zeros(len(U), dtype=bool)
    u = U[:, : universe.n]
    spread = u.max(axis=1) - np.where(u > NEVER / 2, u, np.inf).min(axis=1)
    return np.asarray(spread > -np.log(np.finfo(np.float64).tiny))


def _in_log_space(U: Array, A: Array, universe: Universe) -> tuple[float, Array]:
    """Return log Z and the marginals of one sequence, by forward–backward in log space: slow, but without underflow.

    Exponentials underflow where every labelling that is allowed scores some 745 less than one that is not.
    """
    n, floor = universe.n, universe.floor
    u, A = U[:, :n].copy(), np.where(floor[4 : 4 + n, :n] > 0, A[:n, :n], NEVER)
    u[0] += floor[2, :n]
    u[-1] += floor[3, :n]
    α, β = u.copy(), np.zeros_like(u)
    for t in range(1, len(u)):
        α[t] += np.logaddexp.reduce(α[t - 1][:, None] + A, axis=0)
    for t in range(len(u) - 1, 0, -1):
        β[t - 1] = np.logaddexp.reduce(A + u[t] + β[t], axis=1)
    log_z = np.logaddexp.reduce(α[-1])
    return float(log_z), np.exp(α + β - log_z)


def constrained(scores: Array, batch: Sequences) -> tuple[Array, Array]:
    """Return state scores and transition scores, next to nothing where labels may not follow each other."""
    (U, A), universe = split_scores(scores, batch), batch.universe
    if universe.allowed is None:
        return U, A
    ends = np.diff(batch.starts) > 0
    U, A = U.copy(), np.where(universe.floor[4:] > 0, A, NEVER)
    U[batch.starts[:-1][ends]] += universe.floor[2]
    U[batch.starts[1:][ends] - 1] += universe.floor[3]
    return U, A


def _empty_scores(batch: Sequences) -> tuple[Array, Array, Array]:
    width = batch.universe.width
    flat = np.empty((batch.n_tokens + width) * width)
    return flat, *split_scores(flat, batch)


def _lengths(batch: Sequences) -> tuple[Array, Array]:
    """Return the tokens of each sequence, and for each token those of its sequence."""
    lengths = batch.starts[1:].astype(np.int64) - batch.starts[:-1].astype(np.int64)
    return lengths.astype(np.float64), np.repeat(lengths, lengths).astype(np.float64)


def _observed_scores(batch: Sequences) -> Array:
    """Return what was observed, shaped as the scores are: the weight at the label of each token and at each step."""
    each = np.ones(batch.n_tokens) if batch.weight is None else batch.weight
    flat, R, B = _empty_scores(batch)
    flat[:] = 0.0
    R[np.arange(len(R)), batch.y] = each
    inner = batch.inner_tokens()
    np.add.at(B, (batch.y[inner - 1], batch.y[inner]), each[inner])
    return flat


def sum_paths(U: Array, A: Array, batch: Sequences, P: Array, B: Array) -> float:
    """Write the derivatives of Σ_j w_j log Z_j with respect to state scores and transition scores, and return it."""
    if not batch.even:
        return _conditionals(U, A, batch, P, B)
    universe = batch.universe
    B[:] = 0.0
    room = chain_kernels.forward_backward.room_for(batch.starts, universe.width)
    return float(
        chain_kernels.forward_backward.marginals(
            U, np.ascontiguousarray(A), batch.starts, batch.weight, universe.floor, room, universe.blocks, P, B
        )
    )


def _conditionals(U: Array, A: Array, batch: Sequences, P: Array, B: Array) -> float:
    """The same for tokens of uneven weights: Σ_t w_t log of what p(y_t | y_1 … y_{t−1}) is divided by."""
    U, A = constrained(np.concatenate([U.ravel(), A.ravel()]), batch)
    n, top = batch.universe.n, A[: batch.universe.n, : batch.universe.n].max()
    largest = U[:, :n].max(axis=1, initial=-np.inf)
    E, T = np.exp(U - largest[:, None]), np.exp(A - top)
    E[:, n:], T[n:], T[:, n:] = 0.0, 0.0, 0.0
    largest[batch.inner_tokens()] += top
    B[:] = 0.0
    return float(chain_kernels.paths.conditionals(E, T, batch.starts, batch.y, batch.weight, largest, P, B))


def _lift(R: Array, B: Array, features: Features, batch: Sequences) -> Array:
    universe = batch.universe
    G, table = np.zeros(universe.size), universe.table()
    chain_kernels.forward_backward.lifted(features, R, G, table, universe.blocks)
    return universe.joined_parts(G, table, B)

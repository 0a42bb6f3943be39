"""Linear chains whose labels own hidden states: latent-dynamic conditional random fields."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from majorant.chain import kernels
from majorant.chain.model import Chain, as_loss, split_scores, sum_paths
from majorant.chain.sequences import Sequences
from majorant.core.checks import Array, one_of, whole
from majorant.core.curvature import Factors
from majorant.core.model import Model, require_data

DECODINGS = ("viterbi", "marginal")
# The chain over states, as if they were labels.
STATES = Chain()


@dataclass(frozen=True)
class LatentChain(Model[Sequences]):
    """p(y|x) = Σ p(s|x) over the paths of states s that are compatible with y: s_t is one of those that y_t owns.

    Paths of states are a :class:`~majorant.models.Chain`. The loss is log Z of all paths less log Z of compatible ones:
    a difference of convex functions, so it has more than one stationary point. A bound of the first, as it is for
    chains, with the slope of the second, is a bound of the loss.

    Parameters
    ----------
    states : tuple of int
        How many each label owns. The universe of :class:`~majorant.data.Sequences` is that of states
        (``Universe.with_states``), their y are labels.
    decoding : {"viterbi", "marginal"}
        The labels that count as the likeliest: those that own the states of the likeliest path, or those whose states
        are likeliest together, token by token.

    References
    ----------
    Morency, Quattoni & Darrell, *Latent-dynamic discriminative models for continuous gesture recognition*, CVPR 2007.

    Examples
    --------
    >>> import numpy as np
    >>> import majorant
    >>> from majorant.data import Sequences, Universe
    >>> universe = Universe.of(np.arange(4), np.arange(4), 2, 2)  # two attributes, two labels, all pairs and steps
    >>> starts, attributes = np.array([0, 2, 5]), np.array([0, 1, 0, 1, 1])
    >>> y = np.array([0, 1, 0, 1, 1], dtype=np.int32)
    >>> states = universe.with_states(np.array([2, 2]))
    >>> data = Sequences.of(states, starts, np.arange(6), attributes, None, y)
    >>> F = majorant.Objective(majorant.LatentChain((2, 2)), data, ridge=1.0)
    >>> majorant.minimize(F, majorant.QuasiNewton()).result.outcome.value
    'stationary'
    """

    states: tuple[int, ...]
    decoding: str = "viterbi"

    keeps_scores: ClassVar[bool] = False

    def __post_init__(self) -> None:
        one_of("decoding", self.decoding, DECODINGS)
        for many in self.states:
            whole("the number of states of a label", many, least=1)

    @cached_property
    def first(self) -> Array:
        """Label l owns the states first[l] … first[l + 1] − 1."""
        return np.concatenate([[0], np.cumsum(self.states)])

    @cached_property
    def owner(self) -> Array:
        """The label of each state."""
        return np.repeat(np.arange(len(self.states), dtype=np.int32), self.states)

    def check(self, data: Sequences) -> None:
        """Raise if the data are of other states, or their tokens weigh differently."""
        require_data(self, data, Sequences)
        if data.universe.n != len(self.owner):
            raise ValueError(f"the model has {len(self.owner)} states, but the parameters are of {data.universe.n}")
        refuse_uneven(data)

    def n_observations(self, batch: Sequences) -> int:
        """Return the tokens."""
        return batch.n_tokens

    def convex(self, batch: Sequences) -> bool:
        """Return whether nothing is hidden."""
        return max(self.states) == 1

    def block_rows(self, like: Sequences, rows: int) -> int:
        """Return as many sequences as a chain takes."""
        return STATES.block_rows(like, rows)

    def n_parameters(self, like: Sequences) -> int:
        """Return the size of the universe."""
        return like.universe.size

    def potentials(self, theta: Array, batch: Sequences) -> Array:
        """Return the scores of states and of steps between them."""
        return STATES.potentials(theta, batch)

    def loss_and_residual(self, scores: Array, batch: Sequences) -> tuple[float, Array]:
        """Return the loss, and w_j (marginals of states − what they are given the labels), shaped as the scores are."""
        refuse_uneven(batch)
        flat = np.empty_like(scores)
        (U, A), (R, B) = split_scores(scores, batch), split_scores(flat, batch)
        total = sum_paths(U, A, batch, R, B)
        own = kernels.latent.owned_by(self.first, A, batch.starts)
        observed = kernels.latent.take_off(U, batch.starts, batch.y, batch.weight, own, R, B)
        return as_loss(total - observed), flat

    def loss_and_gradient(self, theta: Array, batch: Sequences) -> tuple[float, Array]:
        """Return the loss and its gradient, sequence by sequence: scores are not kept."""
        refuse_uneven(batch)
        universe = batch.universe
        A = universe.transition_matrix(theta)
        G, table, B = np.zeros(universe.size), universe.table(), np.zeros_like(A)
        loss = kernels.latent.gradient(
            batch.features, batch.starts, batch.y, batch.weight, theta, universe.table(theta), A, universe.floor,
            kernels.forward_backward.room_for(batch.starts, universe.width),
            kernels.latent.owned_by(self.first, A, batch.starts), universe.blocks, G, table, B,
        )  # fmt: skip
        return as_loss(loss), universe.joined_parts(G, table, B)

    def loss_at_zero(self, batch: Sequences) -> float:
        """Return the loss of parameters of zero: a label is as likely as it has states."""
        each = np.log(len(self.owner)) - np.log(self.states)[batch.y]
        return float(each.sum() if batch.weight is None else batch.weight @ each)

    def lift(self, residual: Array, batch: Sequences) -> Array:
        """Return the gradient."""
        return STATES.lift(residual, batch)

    def hessian_diagonal(self, scores: Array, batch: Sequences) -> Array:
        """Return that of log Z of all paths, which is positive: to scale steps by."""
        return STATES.hessian_diagonal(scores, batch)

    def bound_factors(self, scores: Array, batch: Sequences) -> Factors:
        """Return those of log Z of all paths: what is taken off is convex, and lies above its tangent."""
        return STATES.bound_factors(scores, batch)

    def hits(self, scores: Array, batch: Sequences) -> Array:
        """Return for each token whether its label is the likeliest."""
        return (self.decode(scores, batch) == batch.y).astype(np.float64)

    def decode(self, scores: Array, batch: Sequences) -> Array:
        """Return the likeliest label of each token, in the sense of ``decoding``."""
        if self.decoding == "marginal":
            return self.marginals(scores, batch).argmax(axis=1).astype(np.int32)
        return self.owner[self.decode_states(scores, batch)]

    def decode_states(self, scores: Array, batch: Sequences) -> Array:
        """Return the states of the likeliest path (Viterbi)."""
        return STATES.decode(scores, batch)

    def marginals(self, scores: Array, batch: Sequences) -> Array:
        """Return P(y_t) for every token, a column for each label: its states together."""
        return np.add.reduceat(STATES.marginals(scores, batch), self.first[:-1], axis=1)


def refuse_uneven(batch: Sequences) -> None:
    """Raise where tokens of a sequence weigh differently."""
    if not batch.even:
        raise ValueError(
            "sample_weight must be the same for all tokens of a sequence where states are hidden; "
            "give one weight for each sequence, or use ChainCRF"
        )

"""Dual ascent on the sequences of a chain: what is kept of them, and θ as compiled loops move it.

All is in single precision: it finds where to start, and certifies nothing.

Dual ascent on sequences that do not fit in memory: their marginals are kept beside them, block by block.

A round goes through the blocks as they stand, and through the sequences of each in the order that was asked for. In
memory are θ, a block, its marginals, and a few numbers of every sequence.

A step after every sequence of a chain, in a diagonal precision that grows as it goes.

It gathers, for each parameter, a quarter of ‖v‖₁ |v| p(1 − p) from every token: the diagonal that dominates a token's
own curvature, times ¼ where that would be safe and too stiff. That is no bound; the diagonal of the bound over a chain
is the other choice, sequence by sequence: stiffer, and far more work.
"""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from majorant.chain import kernels
from majorant.chain.feature_index import Universe
from majorant.chain.sequences import Sequences
from majorant.chain.tokens import InBlocks
from majorant.core.checks import Array
from majorant.core.threads import even_parts, for_each, mapped

if TYPE_CHECKING:
    from majorant.chain.kernels.dual import Marginals, Weights

# Marginals that are kept, at most: a quarter of a gigabyte.
LARGEST = 2**26
# How far a first visit goes to begin with.
FIRST_STEP = 0.3
# A proximal term makes up for a small λ: both together are at least this share of the mean Σ v² of tokens. It is halved
# where, for so many rounds, its centre has moved farther than sequences had still to go.
PROXIMITY, PATIENCE = 0.1, 5
# Of θ in a round, at least, where their mean is the centre.
FEWEST = 10
# Sequences that a thread visits at a time, and of a round has at least; and how often θ is looked at meanwhile.
AT_A_TIME, LEAST_EACH, LOOKS = 50, 100, 30
# Tokens whose curvature is found at a time.
TOKENS = 2**12


class ChainAscent:
    """Marginals of every sequence, which start at what was observed, and θ = 0 with them.

    Visits move sequences in place, and ``rounds`` counts them.
    """

    LEFT_OUT: ClassVar[tuple[str, ...]] = ("lengths", "_data", "_each", "_universe")  # of files: the data have it

    selects: ClassVar[bool] = True

    def __init__(self, data: Sequences, ridge: Array, l1: float = 0.0) -> None:
        self._start(data.universe, ridge, l1, data, as_observed(data))
        self.lengths, self._each = np.diff(data.starts), first_weights(data)
        self._data = data

    def _start(self, universe: Universe, ridge: Array, l1: float, shown: Sequences, kept: Marginals) -> None:
        proximity = 0.0
        if (ridge == ridge[0]).all():
            weight = 1.0 if shown.weight is None else shown.weight
            proximity = max(PROXIMITY * float(np.mean(weight * squared_norms(shown))) - float(ridge[0]), 0.0)
        self._universe, self._kept, λ = universe, kept, ridge + proximity
        self._weights = at_zero(universe, λ, l1 / λ[0] if l1 else None)
        self._proximity = proximity, float(λ[0])
        self._sums: tuple[Array, ...] = ()
        self._centre: tuple[Array, ...] = ()
        self._since = 0
        self.moved = 0.0
        self.rounds, self._snapshots = 0, 1

    @staticmethod
    def suits(data: Sequences) -> bool:
        """Return whether tokens of a sequence weigh the same, and all marginals fit in memory."""
        return data.even and data.n_tokens > 0 and n_marginals(data.universe, data.n_tokens, len(data)) <= LARGEST

    @property
    def gains(self) -> Array:
        """What a visit to each sequence would add to the dual objective, roughly; who skips one may let it grow."""
        return self._kept.gain

    @property
    def value(self) -> float:
        """The dual objective, as far as the entropies of marginals are known: an estimate, no bound."""
        nearby = 0.5 * self._proximity[0] * sum(float(np.vdot(part, part)) for part in self._centre)
        return float(self._each @ self._kept.entropy - 0.5 * self._kept.totals[0]) + nearby

    def visit(self, order: Array, snapshots: int = 1) -> bool:
        """Move these sequences, one after the other; return whether all numbers stayed finite.

        So many times on the way θ is looked at, to be averaged; once, at the end, costs nothing.
        """
        floor, width = self._universe.floor.astype(np.float32), self._universe.width
        self._sums, self._snapshots = (), 0
        snapshots = max(snapshots, FEWEST) if self._proximity[0] else snapshots
        for data, kept, some in self._visited(order):
            room = kernels.forward_backward.room_for(data.starts, width, np.float32)
            looks = max(round(snapshots * len(some) / max(len(order), 1)), 1)
            for few in np.array_split(some, looks):
                if not kernels.dual.ascend(
                    data.features, data.starts, data.weight, few, self._weights, kept, floor, room,
                    self._universe.blocks, True,
                ):  # fmt: skip
                    return False
                self._add_snapshot(only=snapshots == 1)
        return self._finish_round()

    def _finish_round(self) -> bool:
        """Count a round, and move the centre; return whether all numbers stayed finite."""
        self.rounds += 1
        if self._proximity[0]:
            self._move_centre()
        return bool(np.isfinite(self._kept.totals).all())

    def _visited(self, order: Array) -> Iterator[tuple[Sequences, Marginals, Array]]:
        """Yield sequences, what is kept of them, and which of them are visited, in this order."""
        yield self._data, self._kept, order

    def _seen(self) -> Iterator[tuple[Sequences, Marginals]]:
        """Yield sequences and their marginals."""
        yield self._data, self._kept

    def take_up(self, other: ChainAscent) -> None:
        """Go on from where another one was, which was read from a file and knows no sequences."""
        self._weights, self._kept, self._sums = other._weights, other._kept, other._sums
        self.rounds, self._snapshots = other.rounds, other._snapshots

    def _add_snapshot(self, *, only: bool) -> None:
        now = self._weights[:3]
        self._snapshots = 1 if only else self._snapshots + 1
        if only:
            self._sums = now
        elif not self._sums:
            self._sums = tuple(each.copy() for each in now)
        else:
            for total, each in zip(self._sums, now, strict=True):
                total += each

    def _move_centre(self) -> None:
        """Let the proximal term be around the mean θ of this round, and be weaker where the centre is what moves most.

        With v = λz − κ·centre, which is what was observed less what is expected, z is (v + κ·centre)/λ.
        """
        (κ, λ), weights = self._proximity, self._weights
        mean, before = self._means(), self._centre or tuple(np.zeros_like(part) for part in weights[:3])
        self.moved = κ * sum(float(np.vdot(d, d)) for d in (new - old for new, old in zip(mean, before, strict=True)))
        slow = self.moved > self._kept.gain.sum() and self.rounds >= self._since + PATIENCE
        lower = 0.5 * κ if slow else κ
        self._since = self.rounds if slow else self._since
        new_λ = λ - κ + lower
        for z, old, new in zip(weights[:3], before, mean, strict=True):
            z *= np.float32(λ / new_λ)
            z += np.float32(lower / new_λ) * new - np.float32(κ / new_λ) * old
        factor = np.float32(λ / new_λ)
        self._weights = weights = weights._replace(
            inverse_A=weights.inverse_A * factor,
            same=weights.same * factor,
            ridge=np.float32(new_λ),
            threshold=None if weights.threshold is None else weights.threshold * factor,
        )
        now = [shrunk(z, weights.threshold) for z in weights[:3]]
        weights.shrunk_A[:] = now[2]
        self._kept.totals[0] = new_λ * sum(float(np.vdot(part, part)) for part in now)
        self._centre, self._proximity = mean, (lower, new_λ)

    def _means(self) -> tuple[Array, ...]:
        """Return the parts of θ that are the soft threshold of the mean z of the last round."""
        scale = np.float32(1 / self._snapshots)
        return tuple(shrunk(scale * part, self._weights.threshold) for part in self._sums)

    def average(self) -> Array:
        """Return the θ of the mean z over the last round of visits, once: what was added up is let go of."""
        universe, (states, table, A), self._sums = self._universe, self._centre or self._means(), ()
        theta = np.zeros(universe.size)
        theta[: len(universe.label)] = states
        return universe.joined_parts(theta, table, A)

    def hessian_diagonal(self) -> Array:
        """Return Σ_t v² μ(1 − μ), as if tokens were independent: to scale steps by."""
        universe = self._universe
        G, table, B = np.zeros(universe.size), universe.table(), np.zeros((universe.width, universe.width))
        for data, kept in self._seen():
            _add_curvature(data, kept.nodes, G, table)
            B += transition_curvature(data, kept.nodes)
        return universe.joined_parts(G, table, B)


class SharedAscent(ChainAscent):
    """The same by several threads, which move one θ without locks, and θ anew from the marginals after each round.

    Threads take some sequences at a time, read θ while others move it, and may lose what another one adds at the same
    moment: that would leave θ for good beside the one that belongs to the marginals. Rounds are not reproducible.

    References
    ----------
    Niu, Recht, Ré & Wright, *Hogwild!: a lock-free approach to parallelizing stochastic gradient descent*, NIPS 2011.
    """

    def __init__(self, data: Sequences, ridge: Array, l1: float, many: int) -> None:
        super().__init__(data, ridge, l1)
        self._many = many

    def visit(self, order: Array, snapshots: int = 1) -> bool:
        """Move these sequences; where θ is to be averaged, it is looked at a few times on the way.

        The first round is that of one thread: it finds how far from independent the tokens of each sequence are. So is
        the second where λ is small, and sequences move far.
        """
        if self.rounds < (2 if self._proximity[0] else 1):
            return super().visit(order, snapshots)
        data, kept, width = self._data, self._kept, self._universe.width
        floor, before, lock, stayed = self._universe.floor.astype(np.float32), kept.totals.copy(), Lock(), True
        self._sums, self._snapshots = (), 0
        few = np.array_split(order, max(len(order) // AT_A_TIME, 1))
        many = LOOKS if snapshots > 1 else FEWEST if self._proximity[0] else 0
        looks = {len(few) * (k + 1) // many - 1 for k in range(many)}

        def ascend(number: int) -> None:
            nonlocal stayed
            own = kept._replace(totals=before.copy())
            room = kernels.forward_backward.room_for(data.starts, width, np.float32)
            finite = kernels.dual.ascend(
                data.features, data.starts, data.weight, few[number], self._weights, own, floor, room,
                self._universe.blocks, False,
            )  # fmt: skip
            with lock:
                stayed = stayed and finite
                kept.totals[:] += own.totals - before
                if number in looks:
                    self._add_snapshot(only=False)

        for_each(ascend, range(len(few)), min(self._many, max(len(order) // LEAST_EACH, 1)))
        if not stayed:
            return False
        self._renew()
        if not many:
            self._add_snapshot(only=True)
        return self._finish_round()

    def _renew(self) -> None:
        """Find z anew: (observed − expected by the marginals + κ·centre)/λ."""
        universe, data, kept, (κ, λ) = self._universe, self._data, self._kept, self._proximity
        width, weights = universe.width, self._weights

        def observed_less_expected(some: slice) -> tuple[Array, Array, Array]:
            G, table, tokens = np.zeros(universe.size), universe.table(), slice(*data.starts[[some.start, some.stop]])
            for begin in range(tokens.start, tokens.stop, TOKENS):
                end = min(begin + TOKENS, tokens.stop)
                R = -kept.nodes[begin:end].astype(np.float64)
                R[np.arange(end - begin), data.y[begin:end]] += 1.0
                R *= 1.0 if data.weight is None else data.weight[begin:end, None]
                kernels.forward_backward.lifted(data.features.part(begin, end), R, G, table, universe.blocks)
            each = kept.pairs.reshape(-1, width * width)[some].astype(np.float64)
            return G, table, -(self._each[some] @ each).reshape(width, width)

        parts = even_parts(len(data), self._many)
        found = list(zip(*mapped(observed_less_expected, parts, self._many), strict=True))
        table, A, places = sum(found[1]), sum(found[2]), even_parts(universe.size, self._many)
        G = np.concatenate(mapped(lambda some: sum(each[some] for each in found[0]), places, self._many))
        inner = data.inner_tokens()
        weight = np.ones(len(inner)) if data.weight is None else data.weight[inner]
        np.add.at(A, (data.y[inner - 1], data.y[inner]), weight)
        centre = self._centre or tuple(np.zeros_like(part) for part in weights[:3])
        each = weights.same if weights.inverse is None else weights.inverse
        weights.states[:] = (G[: len(universe.label)] + κ * centre[0]) * each
        there = np.unpackbits(weights.there, axis=1, count=width, bitorder="little")
        of_table = weights.same * there if weights.inverse_table is None else weights.inverse_table
        weights.table[:] = (table + κ * centre[1]) * of_table
        weights.A[:] = (A + κ * centre[2]) * weights.inverse_A
        now = [shrunk(z, weights.threshold) for z in weights[:3]]
        weights.shrunk_A[:] = now[2]
        if weights.inverse is None:
            kept.totals[0] = λ * sum(float(np.vdot(part, part)) for part in now)


def shrunk(z: Array, threshold: Any) -> Array:
    """Return the soft threshold sign(z)·max(|z| − threshold, 0)."""
    return z if threshold is None else z - np.clip(z, -threshold, threshold)


def _add_curvature(data: Sequences, nodes: Array, G: Array, table: Array) -> None:
    """Add Σ_t v² μ(1 − μ) of some sequences."""
    x, each = data.features.squared(), data.weight
    for begin in range(0, data.n_tokens, TOKENS):
        end = min(begin + TOKENS, data.n_tokens)
        μ = nodes[begin:end].astype(np.float64)
        R = μ * (1 - μ) if each is None else μ * (1 - μ) * each[begin:end, None]
        kernels.forward_backward.lifted(x.part(begin, end), R, G, table, data.universe.blocks)


def transition_curvature(data: Sequences, P: Array) -> Array:
    """Return Σ_t w a(1 − a) for each pair of labels, a = P(y_{t−1}) P(y_t): as if tokens were independent."""
    B, inner = np.zeros((data.universe.width, data.universe.width)), data.inner_tokens()
    for begin in range(0, len(inner), TOKENS):
        t = inner[begin : begin + TOKENS]
        before, after = P[t - 1].astype(np.float64), P[t].astype(np.float64)
        weighted = before if data.weight is None else before * data.weight[t, None]
        B += weighted.T @ after - (weighted * before).T @ after**2
    return B


def n_marginals(universe: Universe, tokens: int, sequences: int) -> int:
    """Return how many numbers are kept of so many."""
    return universe.width * (tokens + universe.width * sequences)


def at_zero(universe: Universe, ridge: Array, threshold: float | None) -> Weights:
    """Return z = 0."""
    single = np.float32
    inverse, same = 1 / ridge, bool((ridge == ridge[0]).all())
    A = np.zeros((universe.width, universe.width), single)
    return kernels.dual.Weights(
        np.zeros(len(universe.label), single),
        universe.table().astype(single),
        A,
        A if threshold is None else A.copy(),
        None if same else inverse[: len(universe.label)].astype(single),
        None if same else universe.table(inverse).astype(single),
        universe.transition_matrix(inverse).astype(single),
        np.packbits(universe.table(inverse) > 0, axis=1, bitorder="little"),
        single(inverse[0] if same else 1.0),
        single(ridge[0] if same else 1.0),
        threshold if threshold is None else single(threshold),
    )


def as_observed(data: Sequences) -> Marginals:
    """Return what was observed as marginals: of these the entropy is zero, and known."""
    width, sequences, single = data.universe.width, len(data), np.float32
    nodes = np.zeros((data.n_tokens, width), single)
    nodes[np.arange(data.n_tokens), data.y] = 1.0
    pairs, inner = np.zeros((sequences * width, width), single), data.inner_tokens()
    of = np.repeat(np.arange(sequences), np.diff(data.starts))[inner]
    np.add.at(pairs.reshape(-1), (of * width + data.y[inner - 1]) * width + data.y[inner], single(1.0))
    return of_sequences(sequences)._replace(nodes=nodes, pairs=pairs, norms=squared_norms(data))


def of_sequences(many: int) -> Marginals:
    """Return what is kept of so many sequences, but for their tokens."""
    nothing = np.empty(0, np.float32)
    return kernels.dual.Marginals(
        nothing,
        nothing,
        nothing,
        entropy=np.zeros(many),
        ratio=np.ones(many),
        step=np.full(many, FIRST_STEP),
        gain=np.zeros(many),
        totals=np.zeros(3),
    )


def squared_norms(data: Sequences) -> Array:
    """Return Σ v² over the attributes of each token."""
    if data.values is None:
        return np.diff(data.indptr).astype(np.float32)
    before = np.concatenate([[0.0], np.cumsum(data.values**2)])
    return np.maximum(np.diff(before[data.indptr]), 0.0).astype(np.float32)


def first_weights(data: Sequences, dtype: Any = np.float64) -> Array:
    """Return the weight of each sequence; of an empty one, zero."""
    weight = np.ones(data.n_tokens) if data.weight is None else data.weight
    return np.where(np.diff(data.starts) > 0, np.append(weight, 0.0)[data.starts[:-1]], 0.0).astype(dtype)


class AscentInBlocks(ChainAscent):
    """The same as :class:`ChainAscent` block by block; from a file it goes through its rounds again."""

    LEFT_OUT: ClassVar[tuple[str, ...]] = (
        *("lengths", "_blocks", "_store", "_each"),
        *("_universe", "_weights", "_kept", "_sums"),
    )
    selects: ClassVar[bool] = False  # to read a block takes as long as to visit all of it

    def __init__(self, data: InBlocks, ridge: Array, l1: float = 0.0) -> None:
        sequences = data.size.sequences
        self._start(data.universe, ridge, l1, data.like, of_sequences(sequences))
        self.lengths, self._each = np.zeros(sequences, dtype=np.int64), np.zeros(sequences)
        self._blocks, self._store = data.blocks(sequences), data.store()

    @staticmethod
    def fits(data: InBlocks) -> bool:
        """Return whether tokens of a sequence weigh the same, and there is room for all marginals."""
        return data.even and 4 * n_marginals(data.universe, data.size.tokens, data.size.sequences) <= data.store().room

    def take_up(self, other: ChainAscent) -> None:
        """Stay at the start: marginals are in no file."""

    def visit(self, order: Array, snapshots: int = 1) -> bool:
        """Move these sequences; return whether all numbers stayed finite, and there was room for them."""
        return super().visit(order, snapshots) and self._store.is_open

    def _visited(self, order: Array) -> Iterator[tuple[Sequences, Marginals, Array]]:
        places = np.full(len(self.lengths), -1)
        places[order] = np.arange(len(order))
        for number, block, here in self._numbered():
            some = np.flatnonzero(places[here] >= 0)
            some = some[np.argsort(places[here][some])]
            if self.rounds == 0:
                self.lengths[here], self._each[here] = np.diff(block.starts), first_weights(block)
                kept = self._joined(as_observed(block), here)
                yield block, kept, some
                self._store.add([kept.nodes, kept.pairs])
            elif len(some):
                kept = self._read(number, block, here)
                yield block, kept, some
                self._store.replace(number, [kept.nodes, kept.pairs])
            if not self._store.is_open:
                return

    def _seen(self) -> Iterator[tuple[Sequences, Marginals]]:
        for number, block, here in self._numbered():
            yield block, self._read(number, block, here)

    def _numbered(self) -> Iterator[tuple[int, Sequences, slice]]:
        """Yield blocks, and which sequences are theirs."""
        begin = 0
        for number, block in enumerate(self._blocks):
            yield number, block, slice(begin, begin + len(block))
            begin += len(block)

    def _read(self, number: int, block: Sequences, here: slice) -> Marginals:
        nodes, pairs = self._store[number]
        return self._joined(self._kept._replace(nodes=nodes, pairs=pairs, norms=squared_norms(block)), here)

    def _joined(self, kept: Marginals, here: slice) -> Marginals:
        """Return what is kept of tokens with what is kept of their sequences, which is changed in place."""
        of = self._kept
        return kept._replace(
            entropy=of.entropy[here],
            ratio=of.ratio[here],
            step=of.step[here],
            gain=of.gain[here],
            totals=of.totals,
        )


SHARE = 0.25


def learn(
    model: Any, data: Sequences, theta: Array, precision: Array, order: Array, curvature: str
) -> tuple[Array, Array]:
    """Return parameters and precision after a visit to every sequence; ``curvature`` is "share" or "bound"."""
    if curvature == "bound":
        return _learn_by_bound(model, data, theta, precision, order)
    universe, states = data.universe, len(data.universe.label)
    θ, D = theta.copy(), precision.copy()
    A, DA = universe.transition_matrix(θ), universe.transition_matrix(D)
    # A transition that has no parameter does not move.
    DA[DA == 0] = np.inf
    weight = np.ones(data.n_tokens) if data.weight is None else data.weight
    room = kernels.forward_backward.room_for(data.starts, universe.width)
    kernels.online.online_pass(
        data.occurrences(),
        data.starts,
        data.y,
        weight,
        order,
        SHARE,
        universe.floor,
        room,
        universe.blocks,
        θ,
        D,
        A,
        DA,
    )
    θ[states:], D[states:] = universe.from_matrix(A), universe.from_matrix(DA)
    return θ, D


def _learn_by_bound(model: Any, data: Sequences, theta: Array, precision: Array, order: Array) -> tuple[Array, Array]:
    θ, D = theta, precision.copy()
    for j in order:
        one = data.part(j, j + 1)
        scores = model.scores(θ, one)
        D += model.bound_factors(scores, one).diagonal()
        θ = θ - model.lift(model.loss_and_residual(scores, one)[1], one) / D
    return θ, D

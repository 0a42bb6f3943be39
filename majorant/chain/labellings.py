"""The likeliest labellings of a sequence, the probability of spans, and training on labels that are known in part.

A token whose label is known in part has a set of labels that it may have. Training maximises the probability of all
labellings that agree, Σ_j log Z_j(agreeing) − log Z_j. That is not concave, so a fit ends at a stationary point.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from majorant.chain.feature_index import NEVER, Universe
from majorant.chain.features import read_sequences, refuse_none, sequences, token_weights
from majorant.chain.model import Chain, as_loss, log_partitions, split_scores, sum_paths
from majorant.chain.sequences import Sequences
from majorant.chain.source import Completed, Prepared
from majorant.chain.tokens import Tokens, Vocabulary
from majorant.core.checks import Array
from majorant.core.model import Model

# What a token may have in the place of a label.
SEVERAL = (set, frozenset, list, tuple)


def best_labellings(U: Array, A: Array, many: int) -> tuple[Array, Array]:
    """Return the likeliest labellings of a sequence, at most so many, and their scores, the highest first.

    Viterbi's algorithm, with the best ways to each label of each token instead of one.
    """
    n, ways, back = U.shape[1], U[0][:, None], []
    for u in U[1:]:
        scores = (ways[:, :, None] + A[:, None, :]).reshape(-1, n)
        best = np.argsort(-scores, axis=0, kind="stable")[:many]
        back.append((best // ways.shape[1], best % ways.shape[1]))
        ways = np.take_along_axis(scores, best, axis=0).T + u[:, None]
    order = np.argsort(-ways.ravel(), kind="stable")[:many]
    order = order[ways.ravel()[order] > NEVER / 2]
    label, rank = order // ways.shape[1], order % ways.shape[1]
    labels = [label]
    for before, ranks in reversed(back):
        label, rank = before[rank, label], ranks[rank, label]
        labels.append(label)
    return np.array(labels[::-1]).T, ways.ravel()[order]


def masked(given: Any, classes: Array) -> Array:
    """Return which classes a label stands for: itself, all of a collection, every one where it is None."""
    if given is None:
        return np.ones(len(classes), dtype=bool)
    if isinstance(given, SEVERAL) and None in given:
        raise ValueError(f"{given!r} holds None, which stands for any label: give None alone")
    found = np.isin(classes, list(given) if isinstance(given, SEVERAL) else [given])
    if not found.any():
        raise ValueError(f"{given!r} is none of the labels {classes.tolist()}")
    return np.asarray(found)


def span_probabilities(
    U: Array, A: Array, universe: Universe, spans: Sequence[tuple[int, int, Any]], classes: Array
) -> list[float]:
    """Return for each span (begin, end, labels) how likely its tokens have these labels, in one sequence."""
    for span in spans:
        three = isinstance(span, list | tuple) and len(span) == 3 and isinstance(span[2], list | tuple | np.ndarray)
        if not three or not all(isinstance(end, int | np.integer) for end in span[:2]):
            raise ValueError(f"a span is (begin, end, a list with a label for each token), got {span!r:.80}")
    copies = np.repeat(U[None], len(spans) + 1, axis=0)
    for copy, (begin, end, labels) in zip(copies, spans, strict=False):
        if not (0 <= begin < end <= len(U) and len(labels) == end - begin):
            raise ValueError(f"a span is (begin, end, a label for each token), got {(begin, end, labels)!r}")
        for t, label in zip(range(begin, end), labels, strict=True):
            copy[t, : len(classes)] += np.where(masked(label, classes), 0.0, NEVER)
    starts = np.arange(len(copies) + 1) * len(U)
    found = log_partitions(copies.reshape(-1, U.shape[1]), A, starts, universe)
    return [float(p) for p in np.exp(found[:-1] - found[-1])]


@dataclass(frozen=True, eq=False)
class PartialSequences(Sequences):
    """Sequences of tokens that may each have one of several labels; ``y`` is one of them."""

    may_be: Array  # tokens × labels

    def part(self, begin: int, end: int) -> PartialSequences:
        """Return sequences ``begin`` … ``end`` − 1, as views."""
        some = super().part(begin, end)
        assert isinstance(some, PartialSequences)  # with the labels of all tokens still
        return replace(some, may_be=self.may_be[int(self.starts[begin]) : int(self.starts[end])])


@dataclass(frozen=True)
class PartialChain(Chain):
    """A chain whose loss is −log of the probability of all labellings that agree with what is known."""

    def convex(self, batch: Sequences) -> bool:
        """Return False: the loss is a difference of log-partitions."""
        return False

    def ascends(self, data: Any) -> bool:
        """Return False."""
        return False

    def learns_online(self) -> bool:
        """Return False."""
        return False

    def loss_at_zero(self, batch: Sequences) -> None:
        """Return None: that takes a look at what is known."""

    def loss_and_gradient(self, theta: Array, batch: Sequences) -> tuple[float, Array]:
        """Return the loss and its gradient, by way of scores."""
        return Model.loss_and_gradient(self, theta, batch)

    def loss_and_residual(self, scores: Array, batch: Sequences) -> tuple[float, Array]:
        """Return the loss and the marginals of all labellings less those of the ones that agree."""
        if not isinstance(batch, PartialSequences):  # validation data, all of whose labels are known
            return super().loss_and_residual(scores, batch)
        (U, A), every, agreeing = split_scores(scores, batch), np.empty_like(scores), np.empty_like(scores)
        known = U.copy()
        known[:, : batch.universe.n] += np.where(batch.may_be, 0.0, NEVER)
        loss = sum_paths(U, A, batch, *split_scores(every, batch))
        loss -= sum_paths(known, A, batch, *split_scores(agreeing, batch))
        return as_loss(loss), every - agreeing

    def mixed_entropies(self, shares: Array, scores: Array, batch: Sequences) -> Array:
        """Return zeros."""
        return np.zeros(len(shares))

    def hits(self, scores: Array, batch: Sequences) -> Array:
        """Return for each token whether its label in the likeliest sequence is one that it may have."""
        labels = self.decode(scores, batch)
        if not isinstance(batch, PartialSequences):
            return (labels == batch.y).astype(np.float64)
        return batch.may_be[np.arange(len(labels)), labels].astype(np.float64)


def is_partial(y: Any) -> bool:
    """Return whether some label of a list of sequences is None or a collection."""
    if not isinstance(y, list | tuple):
        return False
    kinds = {kind for labels in y if isinstance(labels, list | tuple) for kind in set(map(type, labels))}
    return any(kind is type(None) or issubclass(kind, SEVERAL) for kind in kinds)


def prepared(
    X: Any, y: Any, sample_weight: Any, lengths: Any, every_state: bool, every_step: bool, completed: Completed
) -> Prepared:
    """Return sequences whose labels are known in part, and their features: pairs that may occur."""
    each = [label for labels in y for label in labels]
    known = {one for label in each if label is not None for one in (label if isinstance(label, SEVERAL) else [label])}
    if None in known:
        raise ValueError("a set of labels in y holds None, which stands for any label: give None alone")
    if not known:
        raise ValueError("y holds no label: every token is unknown")
    empty = next(
        (j for j, labels in enumerate(y) for label in labels if isinstance(label, SEVERAL) and not label), None
    )
    if empty is not None:
        raise ValueError(f"a token of sequence {empty} may have no label: None stands for any")
    classes, vocabulary = np.unique(np.array(sorted(known, key=str))), Vocabulary()
    may_be = np.array([masked(label, classes) for label in each]).reshape(-1, len(classes))
    first = iter(classes[may_be.argmax(axis=1)].tolist())
    named = [[next(first) for _ in labels] for labels in y]
    tokens, codes, classes = read_sequences(X, named, lengths, vocabulary, classes)
    n, m = len(classes), len(vocabulary)
    universe = completed(Universe.of(*_possible(tokens, may_be, n, m, every_state, every_step), n, m), classes)
    plain = sequences(universe, tokens, codes, token_weights(sample_weight, tokens.starts))
    if not plain.even:
        raise ValueError("tokens of a sequence must weigh the same where labels are known in part")
    fields = {field.name: getattr(plain, field.name) for field in dataclasses.fields(plain)}
    data = PartialSequences(**fields, may_be=may_be)
    U = np.zeros((data.n_tokens, universe.width))
    U[:, :n] = np.where(may_be, 0.0, NEVER)
    impossible = log_partitions(U, np.zeros((universe.width, universe.width)), data.starts, universe) < NEVER / 2
    if impossible.any():
        raise ValueError(f"transitions allow no labelling that agrees with y of sequence {int(impossible.argmax())}")
    return Prepared(universe, classes, vocabulary, data, data.n_tokens)


def _possible(
    tokens: Tokens, may_be: Array, n: int, m: int, every_state: bool, every_step: bool
) -> tuple[Array, Array]:
    """Return the pairs attribute·n + label and from·n + to that may occur, in rising order."""
    token = np.repeat(np.arange(len(may_be)), np.diff(tokens.indptr))
    pairs = [np.unique(tokens.attributes[may_be[token, label]]).astype(np.int64) * n + label for label in range(n)]
    inner = np.setdiff1d(np.arange(len(may_be)), tokens.starts[:-1])
    steps = may_be[inner - 1].T.astype(np.int64) @ may_be[inner] > 0
    return refuse_none(
        np.arange(m * n) if every_state else np.sort(np.concatenate(pairs)),
        np.arange(n * n) if every_step else np.flatnonzero(steps),
    )

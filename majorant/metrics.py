"""How good labels of sequences are: by token, and by chunk as conlleval counts.

Conventions: a label is a tag and a type, as ``B-NP``; ``O`` is outside. Chunks begin and end by the rules of conlleval
(E. Tjong Kim Sang, shared task of CoNLL-2000), which make sense of IOB1, IOB2, IOE and of wrong sequences; IOBES and
BILOU are read in the same spirit. A chunk is right if its first token, last token and type are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from functools import cache
from operator import eq

BEGINS = frozenset("BSU[]")
ENDS = frozenset("ELSU[]")
OUTSIDE = frozenset("O.")
TAGS = BEGINS | ENDS | frozenset("IM")


@dataclass(frozen=True)
class Score:
    """Precision, recall and F1 of so many chunks.

    Parameters
    ----------
    true, predicted, correct : int
        Chunks that are there, that were found, and that were found rightly.
    """

    true: int
    predicted: int
    correct: int

    @property
    def precision(self) -> float:
        """Share of the found chunks that are right; 0 if none was found."""
        return self.correct / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """Share of the chunks that were found; 0 if there are none."""
        return self.correct / self.true if self.true else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        return 2 * self.correct / (self.true + self.predicted) if self.correct else 0.0


@dataclass(frozen=True)
class ChunkScores:
    """Scores over all chunks and by type, and the share of tokens whose label is right."""

    overall: Score
    types: dict[str, Score]
    tokens: int
    correct_tokens: int

    @property
    def precision(self) -> float:
        """Precision over all types."""
        return self.overall.precision

    @property
    def recall(self) -> float:
        """Recall over all types."""
        return self.overall.recall

    @property
    def f1(self) -> float:
        """F1 over all types."""
        return self.overall.f1

    @property
    def accuracy(self) -> float:
        """Share of tokens whose label is right."""
        return self.correct_tokens / self.tokens if self.tokens else 0.0


def chunk_scores(true: Iterable[Sequence[str]], predicted: Iterable[Sequence[str]]) -> ChunkScores:
    """Compare labels as conlleval does.

    Parameters
    ----------
    true, predicted : iterables of sequences of str
        The labels of each sentence.

    Returns
    -------
    ChunkScores

    Examples
    --------
    >>> scores = chunk_scores([["B-NP", "I-NP", "B-VP"]], [["B-NP", "I-NP", "O"]])
    >>> scores.precision, scores.recall, round(scores.f1, 3), round(scores.accuracy, 3)
    (1.0, 0.5, 0.667, 0.667)
    >>> scores.types["VP"]
    Score(true=1, predicted=0, correct=0)
    """
    true_chunks, predicted_chunks, correct_chunks = Counter[str](), Counter[str](), Counter[str]()
    tokens = correct_tokens = 0
    if isinstance(true, Sized) and isinstance(predicted, Sized) and len(true) != len(predicted):
        raise ValueError(f"true holds {len(true)} sentences, but predicted holds {len(predicted)}")
    for number, (one, other) in enumerate(zip(true, predicted, strict=True)):
        if len(one) != len(other):
            raise ValueError(f"sentence {number} has {len(one)} true labels, but {len(other)} predicted ones")
        ours, theirs = set(chunks(one)), set(chunks(other))
        for counts, spans in ((true_chunks, ours), (predicted_chunks, theirs), (correct_chunks, ours & theirs)):
            counts.update(kind for _, _, kind in spans)
        tokens += len(one)
        correct_tokens += sum(map(eq, one, other))
    types = {
        kind: Score(true_chunks[kind], predicted_chunks[kind], correct_chunks[kind])
        for kind in sorted(true_chunks | predicted_chunks)
    }
    return ChunkScores(
        Score(true_chunks.total(), predicted_chunks.total(), correct_chunks.total()), types, tokens, correct_tokens
    )


def chunks(labels: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """Yield the chunks of a sentence: first token, token after the last, type.

    Examples
    --------
    >>> list(chunks(["B-NP", "I-NP", "O", "I-VP", "I-PP"]))
    [(0, 2, 'NP'), (3, 4, 'VP'), (4, 5, 'PP')]
    """
    first, last_tag, last_kind = -1, "O", ""
    for place, label in enumerate(labels):
        tag, kind = _parts(label)
        begins = tag in BEGINS or last_tag in ENDS or kind != last_kind
        if first >= 0 and (tag in OUTSIDE or begins):
            yield first, place, last_kind
            first = -1
        if first < 0 and tag not in OUTSIDE:
            first = place
        last_tag, last_kind = tag, kind
    if first >= 0:
        yield first, len(labels), last_kind


def are_chunk_labels(labels: Iterable[str]) -> bool:
    """Return whether all labels look like those of chunks, and not only like ``O``."""
    tags = {label.partition("-")[0] for label in labels}
    return tags <= TAGS | OUTSIDE and not tags <= OUTSIDE


@cache
def _parts(label: str) -> tuple[str, str]:
    """Return tag and type; a label without a type whose tag is not known is outside, as those of words are."""
    if not isinstance(label, str):
        raise ValueError(f"labels must be strings such as B-NP or O, got {label!r}")
    tag, dash, kind = label.partition("-")
    return (tag, kind) if dash or tag in TAGS else ("O", "")

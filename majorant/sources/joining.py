"""Small chunks, read one after the other, as larger ones: what is done once for each is then done seldom."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from majorant._checks import Array
from majorant.sources.base import Chunk, Labels

# Chunks of fewer numbers are joined, as long as they have no more together.
SMALL = 2**17


def in_larger_chunks(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """Yield the same rows in the same order, in chunks that are no smaller than they have to be.

    Only rows that could be those of one matrix are joined: others are refused by whoever sees them, by their place.
    """
    waiting: list[Chunk] = []
    held = 0
    for chunk in chunks:
        numbers = _numbers(chunk)
        if waiting and (held + numbers > SMALL or not _alike(waiting[-1], chunk)):
            yield joined(waiting)
            waiting, held = [], 0
        if numbers >= SMALL:  # nobody waits for another one, and nothing here holds on to it
            yield chunk
        else:
            waiting.append(chunk)
            held += numbers
        del chunk
    if waiting:
        yield joined(waiting)


def joined(chunks: Sequence[Chunk]) -> Chunk:
    """Return the rows of several chunks as one, which stands where the first of them does."""
    if len(chunks) == 1:
        return chunks[0]
    first, parts = chunks[0], [chunk.X for chunk in chunks]
    X = sp.csr_array(sp.vstack(parts, format="csr")) if first.is_sparse else np.concatenate(parts)
    return replace(first, X=X, labels=_joined_labels(chunks), weight=_joined_weights(chunks))


def _joined_labels(chunks: Sequence[Chunk]) -> Labels | None:
    found = [chunk.labels for chunk in chunks if chunk.labels is not None]
    if not found:
        return None
    names = np.unique(np.concatenate([each.names for each in found]))
    return Labels(names, np.concatenate([np.searchsorted(names, each.names)[each.codes] for each in found]))


def _joined_weights(chunks: Sequence[Chunk]) -> Array | None:
    if all(chunk.weight is None for chunk in chunks):
        return None
    return np.concatenate([np.ones(len(chunk)) if chunk.weight is None else chunk.weight for chunk in chunks])


def _numbers(chunk: Chunk) -> int:
    return int(chunk.X.nnz + len(chunk) if chunk.is_sparse else chunk.X.size)


def _alike(one: Chunk, other: Chunk) -> bool:
    """Return whether rows could be those of one matrix, and labels those of one list."""
    if (one.labels is None) != (other.labels is None):
        return False
    kinds = [chunk.labels.names.dtype.kind for chunk in (one, other) if chunk.labels is not None]
    return (
        one.X.shape[1] == other.X.shape[1]
        and one.X.dtype == other.X.dtype
        and one.is_sparse == other.is_sparse
        and one.open_ended == other.open_ended
        and one.columns == other.columns
        and len(set(kinds)) <= 1
    )

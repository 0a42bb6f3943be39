"""Sequences that are read chunk by chunk: does peak memory grow with their number, and what do passes cost?

Part of :mod:`benchmarks.chain` (``--only stream``). CoNLL-2000 is repeated: as it is, so that sentences are all that
grows, and with words that are new every time, so that parameters grow as well.
"""

from __future__ import annotations

import time

from majorant import ChainCRF, Chunks

SENTENCES = 500
STEPS = 10
RENAMED = 10  # every so many words of a repetition are its own


def corpus(sentences, repeats, changed):
    """The source: ``sentences()`` yields tokens and labels, one sentence at a time; every repetition is a piece."""
    return Chunks([lambda number=number: chunks(sentences, number if changed else 0) for number in range(repeats)])


def chunks(sentences, number):
    """Yield lists of sentences and of their labels, some words renamed by a number that is not 0."""
    X, y = [], []
    for tokens, labels in sentences():
        X.append([[renamed(name, number) for name in token] for token in tokens] if number else tokens)
        y.append(labels)
        if len(X) == SENTENCES:
            yield X, y
            X, y = [], []
    if X:
        yield X, y


def renamed(attribute, number):
    """An attribute, or, if its words are among those that change, one that no other repetition has."""
    return f"{attribute}#{number}" if sum(attribute.encode()) % RENAMED == 0 else attribute


def fitted(source, c2):
    """Fit to a source (or to all sentences in memory) and return what it took."""
    parts = source if isinstance(source, tuple) else (source,)
    model = ChainCRF(c2=c2, max_iter=STEPS, tol=1e-9)
    wall, cpu = time.perf_counter(), time.process_time()
    model.fit(*parts)
    return {
        "parameters": model._weights.whole().universe.size,
        "wall s": time.perf_counter() - wall,
        "cpu s": time.process_time() - cpu,
        "passes": float(model.trace_["passes"][-1]),
        "objective": float(model.trace_["objective"][-1]),
    }


def in_memory(sentences, repeats, changed):
    """The same sentences for a fit in memory, as generators."""

    def side(which):
        for X, y in (pair for piece in corpus(sentences, repeats, changed).factory for pair in piece()):
            yield from (X, y)[which]

    return side(0), side(1)


def measured(sentences, c2, peak, alone):
    """Return a row for each way of fitting: fits run in processes of their own."""
    rows = []
    for way, make in (("source", corpus), ("in memory", in_memory)):
        for repeats, changed in ((1, False), (4, False), (4, True)):
            row = alone(lambda make=make, r=repeats, c=changed: fitted(make(sentences, r, c), c2) | peak())
            rows.append({"what": way, "repeats": repeats, "new words": changed, **row})
    return rows

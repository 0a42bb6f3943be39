"""Chunking of CoNLL-2000 with hidden states: what a pass costs, what states bring, and where they start from.

    MAJORANT_DATA=... OMP_NUM_THREADS=1 python -m benchmarks.latent_chain [--only passes] [--json FILE]

Seconds are those of the processor, in one thread.
"""

from __future__ import annotations

import time
import warnings
from contextlib import contextmanager
from functools import cache

import numpy as np

from benchmarks import report
from benchmarks.chain import part
from majorant import Chain, ChainCRF, LatentChain, LatentChainCRF
from majorant.chain import latent_crf
from majorant.chain.feature_index import Universe
from majorant.chain.features import observed_pairs, read_sequences, sequences
from majorant.chain.tokens import Vocabulary
from majorant.metrics import chunk_scores

C2 = 1.0
ROUNDS = 7
N_INIT = 2

data = cache(part)


def passes():
    """Loss and gradient of all sentences, with hidden states and without, in turn."""
    vocabulary = Vocabulary()
    tokens, y, classes = read_sequences(*data("train"), None, vocabulary)
    sizes = len(classes), len(vocabulary)
    pairs = observed_pairs(tokens, y, *sizes, min_freq=0, all_states=False, all_transitions=False)
    universe, rows = Universe.of(*pairs, *sizes), []
    plain = sequences(universe, tokens, y, None)
    for many in (1, 2, 3):
        states = np.full(len(classes), many)
        of_states = sequences(universe.with_states(states), tokens, y, None)
        model = LatentChain(tuple(states.tolist()))
        runs = [(Chain(), plain), (model, of_states)]
        theta = [0.1 * np.random.default_rng(0).normal(size=each.universe.size) for _, each in runs]
        seconds = np.array([[_seconds(*run, at) for run, at in zip(runs, theta, strict=True)] for _ in range(ROUNDS)])
        chain, latent = np.median(seconds[1:], axis=0).tolist()  # the first compiles
        rows.append(
            {"states": many, "chain s": float(chain), "latent s": float(latent), "ratio": float(latent / chain)}
        )
    return rows


def _seconds(model, sentences, theta):
    started = time.process_time()
    model.loss_and_gradient(theta, sentences)
    return time.process_time() - started


def what_states_bring():
    """Chunk F1 of one state a label and of two, found by paths and by marginals."""
    latent = LatentChainCRF(2, c2=C2, n_init=N_INIT, n_jobs=1)
    return [_measured("ChainCRF", ChainCRF(c2=C2, n_jobs=1)), _measured("2 states", latent)]


def starts():
    """States that start as copies of labels, against noise alone, after as many steps."""
    rows = []
    for name, begin in (("copies", latent_crf.starts), ("noise alone", _noise)):
        with _starting(begin):
            rows.append(_measured(name, LatentChainCRF(2, c2=C2, max_iter=100, tol=0.0, n_jobs=1)))
    return rows


def _noise(objective, seed, many):
    each = [np.random.default_rng([seed, k]) for k in range(many)]
    return [latent_crf.NOISE_ALONE * rng.normal(size=objective.size) for rng in each]


@contextmanager
def _starting(begin):
    pass

    before, latent_crf.starts = latent_crf.starts, begin
    try:
        yield
    finally:
        latent_crf.starts = before


def _measured(name, model):
    (X, y), (X_test, y_test) = data("train"), data("test")
    print(f"fitting {name}", flush=True)
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    seconds, row = time.process_time() - started, {"model": name}
    spread = getattr(model, "restarts_", model.trace_["objective"][-1:])
    row |= {"objective": float(spread.min()), "worst start": float(spread.max()), "steps": model.n_iter_}
    for decoding in ("viterbi", "marginal"):
        row[f"F1, {decoding}"] = _f1(model, decoding, X_test, y_test)
    return row | {"seconds": seconds}


def _f1(model, decoding, X, y):
    if isinstance(model, LatentChainCRF):
        return chunk_scores(y, model.set_params(decoding=decoding).predict(X)).overall.f1
    if decoding == "viterbi":
        return chunk_scores(y, model.predict(X)).overall.f1
    return chunk_scores(y, [[max(p, key=p.get) for p in each] for each in model.predict_marginals(X)]).overall.f1


MEASUREMENTS = {
    "passes: a gradient with hidden states against one without": passes,
    "what states bring: chunk F1 on the test part": what_states_bring,
    "starts: 100 steps from copies of labels, and from noise": starts,
}

if __name__ == "__main__":
    report.run(__doc__, MEASUREMENTS)

"""Chains over embeddings: seconds to a certificate, Adam on the same head, and softmax with constrained decoding.

    OMP_NUM_THREADS=1 python -m benchmarks.chain_dense [--only TEXT] [--sequences 500 --columns 768] [--json FILE]
    python -m benchmarks.chain_dense --device cuda [--tokens 10000000 --columns 1024]

Embeddings are made up: labels follow a Markov chain, columns are correlated with a decaying spectrum, share a large
mean, and say a little (``noisy``) or a lot (``near-separable``) of the label. Seconds are the processor's, set-up
included; the first fit of each shape is not counted, since kernels are compiled in it. Adam is PyTorch's, on the sum of
−log p and c2‖θ‖² in batches of 32 sequences, its rate falling to zero over 20 epochs: 13 rates × 4 factors for
transitions. On a device rows are generated in place, and seconds are those of the clock.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.report import show
from majorant import ChainCRF, LogisticRegression

LABELS, TOKENS = 9, 20
SIGNALS = {"noisy": 0.05, "near-separable": 0.25}
RATES, FACTORS, EPOCHS, BATCH = np.geomspace(1e-4, 1.0, 13), (1, 10, 100, 1000), 20, 32


def chains(sequences, tokens, rng):
    """Labels by a Markov chain that prefers a few steps."""
    step = rng.dirichlet(np.full(LABELS, 0.3), size=LABELS)
    y = np.empty((sequences, tokens), dtype=np.int64)
    y[:, 0] = rng.integers(0, LABELS, sequences)
    for t in range(1, tokens):
        y[:, t] = (
            (rng.random(sequences)[:, None] > np.cumsum(step[y[:, t - 1]], axis=1)).sum(axis=1).clip(max=LABELS - 1)
        )
    return y


def embeddings(sequences, columns, signal, dtype=np.float64, seed=0):
    """A row for each token, and its label."""
    rng = np.random.default_rng(seed)
    y = chains(sequences, TOKENS, rng).ravel()
    X = rng.normal(size=(len(y), columns)) + signal * rng.normal(size=(LABELS, columns))[y]
    X *= np.arange(1, columns + 1) ** -0.5
    X = X @ np.linalg.qr(rng.normal(size=(columns, columns)))[0] + 12 * rng.normal(size=columns) / np.sqrt(columns)
    return X.astype(dtype), y, np.full(sequences, TOKENS)


def fitted(X, y, lengths, **settings):
    """A fit, and the seconds of the processor that it took."""
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ChainCRF(**settings).fit(X, y, lengths=lengths)
    return model, time.process_time() - began


def certificates(sequences, columns):
    """Seconds to a certified 1e-3, in both precisions; and as attributes, which is how such rows were fitted before."""
    rows = []
    for name, signal in SIGNALS.items():
        for dtype in (np.float64, np.float32):
            data = embeddings(sequences, columns, signal, dtype)
            fitted(*data, max_iter=2)
            for c2 in (0.01, 1.0):
                model, seconds = min((fitted(*data, c2=c2) for _ in range(3)), key=lambda each: each[1])
                steps, F = model.n_iter_, float(model.trace_["objective"][-1])
                row = {"data": name, "precision": dtype.__name__, "c2": c2, "cpu s": seconds, "steps": steps, "F": F}
                rows.append(row | {"gap": model.gap_, "outcome": model.result_.outcome.value})
    return rows


def as_attributes(sequences, columns):
    """The same rows as a sparse matrix, of which every number is a value of an attribute."""
    import scipy.sparse as sp

    X, y, lengths = embeddings(sequences, columns, SIGNALS["noisy"])
    rows = []
    for c2 in (0.01, 1.0):
        labels = np.split(y, np.cumsum(lengths)[:-1])
        model, seconds = fitted(sp.csr_array(X), [each.tolist() for each in labels], lengths, c2=c2, max_iter=1000)
        F = float(model.trace_["objective"][-1])
        rows.append({"c2": c2, "cpu s": seconds, "steps": model.n_iter_, "F": F, "gap": model.gap_})
    return rows


def adam(X, y, c2, rate, factor, torch):
    """F after Adam on a linear layer and a chain of labels."""
    tokens, labels = torch.tensor(X).float().view(-1, TOKENS, X.shape[1]), torch.tensor(y).view(-1, TOKENS)
    many = len(tokens)
    W = torch.zeros(X.shape[1], LABELS, requires_grad=True)
    A = torch.zeros(LABELS, LABELS, requires_grad=True)
    optimiser = torch.optim.Adam([{"params": [W], "lr": rate}, {"params": [A], "lr": rate * factor}])
    steps = EPOCHS * -(-many // BATCH)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.0, total_iters=steps)
    torch.manual_seed(0)

    def loss(rows, of):
        U = rows @ W
        scores = U.gather(2, of[:, :, None]).sum() + A[of[:, :-1], of[:, 1:]].sum()
        α = U[:, 0]
        for t in range(1, TOKENS):
            α = torch.logsumexp(α[:, :, None] + A, dim=1) + U[:, t]
        return torch.logsumexp(α, dim=1).sum() - scores

    for _ in range(EPOCHS):
        for some in torch.randperm(many).split(BATCH):
            optimiser.zero_grad()
            value = loss(tokens[some], labels[some]) * (many / len(some)) + c2 * (W.square().sum() + A.square().sum())
            value.backward()
            optimiser.step()
            schedule.step()
    with torch.no_grad():
        return float(loss(tokens, labels) + c2 * (W.square().sum() + A.square().sum()))


def against_adam(sequences, columns):
    """The best of Adam's grid, and one fit of ours."""
    import torch

    torch.set_num_threads(1)
    rows = []
    for c2 in (0.01, 1.0):
        X, y, lengths = embeddings(sequences, columns, SIGNALS["noisy"], np.float32)
        model, seconds = min((fitted(X, y, lengths, c2=c2) for _ in range(3)), key=lambda each: each[1])
        began, runs = time.process_time(), {}
        for factor in FACTORS:
            for rate in RATES:
                runs[rate, factor] = adam(X, y, c2, rate, factor, torch)
        one = (time.process_time() - began) / len(runs)
        finite = {setting: value for setting, value in runs.items() if np.isfinite(value)}
        best = min(finite, key=finite.get)
        plain = min(value for (_, factor), value in finite.items() if factor == 1)
        F = float(model.trace_["objective"][-1])
        row = {"c2": c2, "ours F": F, "ours s": seconds, "adam best F": finite[best], "adam one run s": one}
        rows.append(
            row | {"excess": finite[best] / F - 1, "its rate": best[0], "factor": best[1], "same rate F": plain}
        )
    return rows


def accuracies(sequences, columns):
    """Tokens labelled right, on as many new sequences: the chain, softmax, and softmax decoded along observed steps."""
    rows = []
    for name, signal in SIGNALS.items():
        X, y, lengths = embeddings(2 * sequences, columns, signal)
        half = len(y) // 2
        crf = ChainCRF(c2=0.1).fit(X[:half], y[:half], lengths=lengths[:sequences])
        softmax = LogisticRegression(C=5.0).fit(X[:half], y[:half])
        log_p = softmax.predict_log_proba(X[half:]).reshape(-1, TOKENS, LABELS)
        observed = np.full((LABELS, LABELS), -1e9)
        before = y[:half].reshape(-1, TOKENS)
        observed[before[:, :-1], before[:, 1:]] = 0.0
        truth, decoded = y[half:].reshape(-1, TOKENS), viterbi(log_p, observed)
        found = np.concatenate(crf.predict(X[half:], lengths=lengths[sequences:])).reshape(-1, TOKENS)
        row = {"data": name, "chain": (found == truth).mean(), "softmax": (log_p.argmax(axis=2) == truth).mean()}
        rows.append(row | {"softmax, constrained": (decoded == truth).mean()})
    return [{k: v if isinstance(v, str) else float(v) for k, v in row.items()} for row in rows]


def viterbi(scores, step):
    """The likeliest labels of each sequence (all are equally long)."""
    best, back = scores[:, 0], []
    for t in range(1, scores.shape[1]):
        through = best[:, :, None] + step
        back.append(through.argmax(axis=1))
        best = through.max(axis=1) + scores[:, t]
    labels = [best.argmax(axis=1)]
    for each in reversed(back):
        labels.append(each[np.arange(len(each)), labels[-1]])
    return np.stack(labels[::-1], axis=1)


def on_a_device(device, tokens, columns):
    """Seconds of the clock for rows that are generated where they are fitted."""
    import torch

    where, length = torch.device(device), 25
    rng, draw = np.random.default_rng(0), torch.Generator(where).manual_seed(0)
    y = chains(tokens // length, length, rng).ravel()
    labels, lengths = torch.tensor(y, device=where), np.full(tokens // length, length)
    X = torch.empty((len(y), columns), device=where)
    centres = 0.1 * torch.randn((LABELS, columns), generator=draw, device=where)
    scale = torch.arange(1, columns + 1, device=where) ** -0.5
    Q = torch.linalg.qr(torch.randn((columns, columns), generator=draw, device=where))[0]
    mean = 12 * torch.randn(columns, generator=draw, device=where) / columns**0.5
    for begin in range(0, len(y), 2**18):
        some = slice(begin, begin + 2**18)
        noise = torch.randn((len(labels[some]), columns), generator=draw, device=where)
        X[some] = ((noise + centres[labels[some]]) * scale) @ Q + mean
    del noise
    few = 400
    with warnings.catch_warnings():  # kernels are compiled, libraries loaded
        warnings.simplefilter("ignore")
        ChainCRF(max_iter=3).fit(X[: few * length], y[: few * length], lengths=lengths[:few])
    rows = []
    for tol in (1e-3, 1e-4):
        began = time.perf_counter()
        model = ChainCRF(c2=1.0, tol=tol).fit(X, y, lengths=lengths)
        if where.type == "cuda":
            torch.cuda.synchronize()
        seconds, of_steps = time.perf_counter() - began, float(model.trace_["seconds"][-1])
        row = {"tokens": len(y), "tol": tol, "s": seconds, "set-up s": seconds - of_steps, "steps": model.n_iter_}
        row |= {"passes": float(model.trace_["passes"][-1]), "F": float(model.trace_["objective"][-1])}
        rows.append(row | {"gap": model.gap_, "outcome": model.result_.outcome.value})
        print(model.result_, model.result_.account)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="take only the measurements whose title contains this text")
    parser.add_argument("--sequences", type=int, default=500)
    parser.add_argument("--columns", type=int, help="768 if not given; 1,024 on a device")
    parser.add_argument("--device", help="fit tensors on this device, such as cuda, and nothing else")
    parser.add_argument("--tokens", type=int, default=10_000_000, help="on a device")
    parser.add_argument("--json", help="also write the numbers to this file")
    arguments = parser.parse_args()
    sequences, columns = arguments.sequences, arguments.columns or (1024 if arguments.device else 768)
    size = f"{sequences * TOKENS} tokens × {columns} × {LABELS}"
    measurements = {
        f"certified 1e-3, {size}": lambda: certificates(sequences, columns),
        f"as attributes, {size}": lambda: as_attributes(sequences, columns),
        f"accuracy, {size}": lambda: accuracies(sequences, columns),
        f"Adam, {size}": lambda: against_adam(sequences, columns),
    }
    if arguments.device:
        measurements = {
            f"on {arguments.device}, {columns} columns": lambda: on_a_device(
                arguments.device, arguments.tokens, columns
            )
        }
    results = {}
    for title, measure in measurements.items():
        if arguments.only is None or arguments.only in title:
            with threadpool_limits(None if arguments.device else 1):
                results[title] = measure()
            show(title, results[title])
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(results, file, indent=1, ensure_ascii=False)


if __name__ == "__main__":
    main()

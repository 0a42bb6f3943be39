"""Probe frozen features: the best penalty of a sweep, a certified head, and its accuracy on other rows.

    python -m examples.linear_probe [--loops]

A random layer with rectifiers replaces the network. ``--loops`` also trains heads by SGD and AdamW (it needs PyTorch):
the table of docs/guides/from_sgd_probe.md.
"""

import sys
import time

import numpy as np
from sklearn.datasets import load_digits

from majorant import LinearProbe

# Optimizer of PyTorch, learning rate, epochs; batches of 64 rows.
LOOPS = (("SGD", 1e-4, 10), ("SGD", 1e-2, 10), ("SGD", 1.0, 10), ("AdamW", 1e-3, 100), ("AdamW", 1e-2, 30))
SEEDS = (0, 1, 2)
TRAIN, TEST = slice(0, 1200), slice(1200, None)


def frozen_features(width: int = 256, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return the outputs of a random layer for 1,797 digits, and the digits."""
    images, digits = load_digits(return_X_y=True)
    layer = np.random.default_rng(seed).normal(size=(images.shape[1], width)) / images.shape[1]
    return np.maximum(images @ layer, 0.0).astype(np.float32), digits


def loop(X, y, optimizer: str, rate: float, epochs: int, seed: int) -> float:
    """Train a head by a loop over epochs; return its accuracy on the other rows."""
    import torch

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    rows, labels = torch.tensor(X[TRAIN]), torch.tensor(y[TRAIN])
    head = torch.nn.Linear(X.shape[1], 10)
    step = getattr(torch.optim, optimizer)(head.parameters(), lr=rate, weight_decay=1e-4)
    for _ in range(epochs):
        for batch in torch.randperm(len(rows)).split(64):
            step.zero_grad()
            torch.nn.functional.cross_entropy(head(rows[batch]), labels[batch]).backward()
            step.step()
    return float(np.mean(head(torch.tensor(X[TEST])).argmax(1).numpy() == y[TEST]))


def show(name: str, run, seeds) -> None:
    """Print the accuracies over seeds, and the CPU seconds of the fastest."""
    accuracies, seconds = [], []
    for seed in seeds:
        started = time.process_time()
        accuracies.append(run(seed))
        seconds.append(time.process_time() - started)
    print(f"{name:28} accuracy {min(accuracies):.3f} to {max(accuracies):.3f}, {min(seconds):.2f} s")


def main(*options: str) -> None:
    X, y = frozen_features()
    probe = LinearProbe().fit(X[TRAIN], y[TRAIN])
    print(probe.scores_)
    print(f"C = {probe.C_:.3g}: {probe.result_}")
    print(f"accuracy on 597 other rows: {probe.score(X[TEST], y[TEST]):.3f}")
    if "--loops" in options:
        for optimizer, rate, epochs in LOOPS:
            name = f"{optimizer}, rate {rate:g}, {epochs} epochs"
            show(name, lambda seed, loop_of=(optimizer, rate, epochs): loop(X, y, *loop_of, seed), SEEDS)
        fit = lambda seed: LinearProbe(random_state=seed).fit(X[TRAIN], y[TRAIN]).score(X[TEST], y[TEST])  # noqa: E731
        show("LinearProbe", fit, SEEDS)
    else:
        probe.save("probe.npz")


if __name__ == "__main__":
    main(*sys.argv[1:])

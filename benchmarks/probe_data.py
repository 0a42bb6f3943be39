"""Features for benchmarks of linear probes: made up, on any device, and real ones.

Made-up features are Gaussian around a mean for each class, x = Q Λ^½ (s μ_y + ε), with Λ_k ∝ k^−decay scaled to trace p
(columns have unit variance on average, as a layer norm leaves them), Q a random rotation, and μ, ε standard normal:
class means lie in the spectrum of the noise. Whitened, that is a problem of p directions alike, whose best classifier
is known: s is set so that it is right on a given share of the rows, whatever sizes and decay are. What a penalised fit
reaches is less, since it cannot use directions of little variance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks import data

CHUNK = 2**16
SAMPLE = 2**12  # rows by which s is set


@dataclass(frozen=True)
class Shape:
    rows: int = 1_281_167
    columns: int = 1_024
    classes: int = 1_000
    decay: float = 1.0
    best: float = 0.9  # share of rows that the best classifier is right on
    held: int = 20_000  # further rows, to score on
    seed: int = 0

    def __str__(self):
        return f"{self.rows:,}×{self.columns:,}×{self.classes:,}, decay {self.decay:g}"


class OnHost:
    """Random numbers of NumPy."""

    def __init__(self, seed):
        self._rng = np.random.default_rng(seed)

    def normal(self, *shape):
        return self._rng.standard_normal(shape, dtype=np.float32)

    def labels(self, classes, rows):
        return self._rng.integers(0, classes, rows)

    def rotation(self, columns):
        return np.linalg.qr(self.normal(columns, columns).astype(np.float64))[0].astype(np.float32)

    @staticmethod
    def here(values):
        return np.asarray(values, dtype=np.float32)

    @staticmethod
    def empty(*shape):
        return np.empty(shape, dtype=np.float32)


class OnDevice:
    """Random numbers of PyTorch, where they are used; its own seed is left alone."""

    def __init__(self, seed, device):
        import torch

        self._torch, self._device = torch, device
        self._generator = torch.Generator(device=device).manual_seed(seed)

    def normal(self, *shape):
        return self._torch.randn(shape, generator=self._generator, device=self._device)

    def labels(self, classes, rows):
        return self._torch.randint(classes, (rows,), generator=self._generator, device=self._device)

    def rotation(self, columns):
        return self._torch.linalg.qr(self.normal(columns, columns).double())[0].float()

    def here(self, values):
        return self._torch.as_tensor(values, dtype=self._torch.float32, device=self._device)

    def empty(self, *shape):
        return self._torch.empty(shape, device=self._device)


def made_up(shape: Shape, device=None):
    """Return features and labels to fit, and those to score on: arrays, or tensors on a device."""
    random = OnHost(shape.seed) if device is None else OnDevice(shape.seed, device)
    spectrum = np.arange(1, shape.columns + 1) ** -shape.decay
    root = random.here(np.sqrt(spectrum * shape.columns / spectrum.sum()))
    means, turned = random.normal(shape.classes, shape.columns), random.rotation(shape.columns)
    s = signal(means, random, shape)

    def rows(count):
        X, y = random.empty(count, shape.columns), random.labels(shape.classes, count)
        for begin in range(0, count, CHUNK):
            some = slice(begin, min(begin + CHUNK, count))
            noise = random.normal(some.stop - some.start, shape.columns)
            X[some] = ((s * means[y[some]] + noise) * root) @ turned.T
        return X, y

    return *rows(shape.rows), *rows(shape.held)


def signal(means, random, shape: Shape) -> float:
    """Return s with which the best classifier, argmax s μ_kᵀz − ½s²‖μ_k‖² of whitened rows z, is right as often."""
    y, noise = random.labels(shape.classes, SAMPLE), random.normal(SAMPLE, shape.columns)
    squares, of_means, of_noise = (means**2).sum(1), means[y] @ means.T, noise @ means.T
    low, high = 0.0, 10.0
    for _ in range(30):
        s = (low + high) / 2
        guess = (s * (s * of_means + of_noise) - s**2 / 2 * squares).argmax(1)
        low, high = (s, high) if float((guess == y).sum()) < shape.best * SAMPLE else (low, s)
    return high


# --- real features ----------------------------------------------------------------------------------------


def mnist_pixels():
    X, y = data.mnist_raw()
    return np.ascontiguousarray(X[:, np.ptp(X, axis=0) > 0], dtype=np.float32), y


def mnist_relu(features=2_048, seed=0):
    """Random ReLU features of the pixels."""
    X, y = mnist_pixels()
    W = np.random.default_rng(seed).standard_normal((features, X.shape[1]), dtype=np.float32)
    return np.maximum(X @ W.T / np.float32(np.sqrt(X.shape[1])), 0), y


def letter():
    X, y = data.letter()
    return np.ascontiguousarray(X[:, np.ptp(X, axis=0) > 0]), y


def news20_svd(components=256, seed=0):
    """The first left singular vectors of the word counts, times their singular values."""
    from sklearn.decomposition import TruncatedSVD

    X, y = data.news20()
    return TruncatedSVD(components, random_state=seed).fit_transform(X), y


REAL = {"Mnist pixels": mnist_pixels, "Mnist ReLU 2,048": mnist_relu, "letter": letter, "news20 SVD-256": news20_svd}

"""Probe frozen features: the best penalty of a sweep, a certified head, and what it is worth on rows not seen.

    python -m examples.linear_probe

The backbone is a random layer with rectifiers, which stands for any network whose outputs are kept.
"""

import numpy as np
from sklearn.datasets import load_digits

from majorant import LinearProbe


def frozen_features(width: int = 256, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return what a random layer makes of 1,797 digits, and which digits they are."""
    images, digits = load_digits(return_X_y=True)
    layer = np.random.default_rng(seed).normal(size=(images.shape[1], width)) / images.shape[1]
    return np.maximum(images @ layer, 0.0).astype(np.float32), digits


def main() -> None:
    X, y = frozen_features()
    probe = LinearProbe().fit(X[:1200], y[:1200])
    print(probe.scores_)
    print(f"C = {probe.C_:.3g}: {probe.result_}")
    print(f"accuracy on 597 rows that were never seen: {probe.score(X[1200:], y[1200:]):.3f}")
    probe.save("probe.npz")


if __name__ == "__main__":
    main()

"""The toy set: two-dimensional, highly symmetric, not linearly separable, badly scaled for SGD.

The paper shows its set only in a picture that is not in its source. It says that the set is "highly symmetric",
"non-linearly separable", that gradients point "in almost random directions", and that SGD is unstable until its gain is
as small as 10⁻⁸. Four clusters on the corners of a square do that: opposite corners share a label, so that most of
the pull of a row is undone by another; two corners weigh more, so that a line can still do better than a coin; and the
whole set is its own mirror image with the labels exchanged. Features of a few thousand make curvatures of 10⁷.
"""

from __future__ import annotations

import numpy as np

from majorant._checks import Array

ROWS = 1000
SCALE = 3000.0
SPREAD = 0.45
HEAVY = 0.7  # share of the rows on the two heavy corners: the accuracy that a line can reach, about


def toy(seed: int = 0) -> tuple[Array, Array]:
    """Return 1,000 rows, two features and a constant column, and labels 0 and 1."""
    rng = np.random.default_rng(seed)
    half = ROWS // 2
    side = np.where(rng.random(half) < HEAVY, 1.0, -1.0)
    upper = np.column_stack([side, np.ones(half)]) + SPREAD * rng.normal(size=(half, 2))
    # x₂ → −x₂ exchanges the labels; (1, 1) and (−1, −1) belong together, and so do the other two corners.
    X = SCALE * np.concatenate([upper, upper * [1.0, -1.0]])
    label = (side > 0).astype(int)
    y = np.concatenate([label, 1 - label])
    order = rng.permutation(ROWS)
    return np.column_stack([X, np.ones(ROWS)])[order], y[order]

"""The toy set: two-dimensional, highly symmetric, not linearly separable, badly scaled for SGD.

The paper shows its set only in a picture that is not in its source. It says that the set is "highly symmetric",
"non-linearly separable", that gradients point "in almost random directions", that SGD is unstable until its gain is as
small as 10⁻⁸, and that SGD and ASGD then end little better than a coin while LBFGS does not. This set was designed to
do all of that, so that it is no evidence for what the paper says of SGD: four clusters on the corners of a square, some
of the labels exchanged, its own mirror image in both directions, and away from the origin, so that all rows point
nearly the same way and only their labels differ. What tells the classes apart is the distance from the origin: it takes
the constant column, whose curvature is millions of times smaller.
"""

from __future__ import annotations

import numpy as np

from majorant.core.checks import Array

QUARTER = 250  # rows; the other three quarters are its mirror images
CENTRE = (0.0, 2100.0)
SIDE = 700.0
SPREAD = 315.0
EXCHANGED = 0.15  # share of labels on the wrong side


def toy(seed: int = 0) -> tuple[Array, Array]:
    """Return 1,000 rows, two features and a constant column, and labels 0 and 1."""
    rng = np.random.default_rng(seed)
    corner = SIDE + SPREAD * rng.normal(size=(QUARTER, 2))
    outside = (rng.random(QUARTER) >= EXCHANGED).astype(int)
    X = np.concatenate([corner * signs for signs in ([1, 1], [-1, 1], [1, -1], [-1, -1])]) + CENTRE
    y = np.concatenate([outside, outside, 1 - outside, 1 - outside])
    order = rng.permutation(4 * QUARTER)
    return np.column_stack([X, np.ones(4 * QUARTER)])[order], y[order]

"""log Z less the log-sum over the outcomes that agree with an observation, on class-major scores (n×t)."""

from __future__ import annotations

import numpy as np

from majorant._checks import Array
from majorant.kernels.softmax import log_partition_and_probabilities


def posterior(S: Array, seen: Array) -> tuple[Array, Array]:
    """Return log Σ_{y seen} exp S[y, j] for each row j, and q (n×t), the probabilities given that one was seen."""
    return log_partition_and_probabilities(np.where(seen, S, -np.inf))


def losses_and_residuals(S: Array, seen: Array) -> tuple[Array, Array]:
    """Return −log p(seen) of each row, and p − q (n×t), its derivative."""
    log_seen, Q = posterior(S, seen)
    losses, P = log_partition_and_probabilities(S, log_seen)
    # Where nothing else is likely, both sums are the same but for the order of their terms.
    return np.maximum(losses, 0.0), P - Q


def losses(S: Array, seen: Array) -> Array:
    """Return −log p(seen) of each row."""
    return losses_and_residuals(S, seen)[0]

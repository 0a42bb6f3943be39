"""What choices say of their parameters: scores of observations, columns that nothing can be learnt of, elasticities."""

from __future__ import annotations

import numpy as np

from majorant._checks import Array
from majorant.data import Choices
from majorant.data.collapsing import Sample
from majorant.models import Enumerated

# An eigenvalue of the Hessian, columns scaled to the same size, below which a direction is flat.
FLAT = 1e-10
# What is left of a column that is constant within sets, relative to its norm.
ROUNDING = 1e-12
# How much of a flat direction a column has to have for being named.
NAMED = 1e-3
# Features written out at a time.
AT_A_TIME = 2**22


def observation_scores(sample: Sample, theta: Array) -> Array:
    """Return the gradient of each observation, w_j (mean of its set under p − what was observed), as a t×d array."""
    sets, model = sample.sets, Enumerated()
    means, observed = np.empty((len(sets), sets.n_features)), np.empty((len(sets), sets.n_features))
    rows, done = max(AT_A_TIME // (sets.n_features * model.scores_per_row(sets)), 1), 0
    for some in sets.batches(rows):
        X, at = some.design.dense(), slice(done, done + len(some))
        p = probabilities(model.scores(theta, some), some)
        means[at] = np.add.reduceat(p[:, None] * X, some.indptr[:-1])
        observed[at] = np.add.reduceat(some.target[:, None] * X, some.indptr[:-1])
        done += len(some)
    if sample.chosen is None:
        scores = means - observed
    else:
        scores = means[sample.numbers] - sets.design.part(sample.chosen).dense()
    return scores if sample.weight is None else scores * sample.weight[:, None]


def probabilities(scores: Array, batch: Choices) -> Array:
    """Return the probability of each outcome in its set, flat."""
    return Enumerated().probabilities(scores, batch)


def flat_columns(H: Array, squares: Array) -> list[Array]:
    """Return for each direction in which H is flat the columns that it consists of.

    A column by itself is constant within every set; several are collinear there. ``squares`` are the sums of squares of
    the columns: one that varies by its rounding errors alone is constant.
    """
    scale = np.sqrt(np.maximum(np.diag(H), 0.0))
    constant = scale <= ROUNDING * np.sqrt(np.maximum(squares, 1e-300))
    found = [np.array([column]) for column in np.flatnonzero(constant)]
    rest = np.flatnonzero(~constant)
    values, vectors = np.linalg.eigh(H[np.ix_(rest, rest)] / np.outer(scale[rest], scale[rest]))
    found += [rest[np.abs(vectors[:, k]) > NAMED] for k in np.flatnonzero(values <= FLAT)]
    return found


def elasticities(p: Array, x: Array, coefficient: float) -> tuple[Array, Array]:
    """Return ∂log p_a/∂log x_a = βx_a(1 − p_a), and ∂log p_b/∂log x_a = −βx_a p_a for every other b, for each row a."""
    effect = coefficient * x
    return effect * (1.0 - p), -effect * p


def elasticity_table(p: Array, x: Array, coefficient: float, labels: Array, groups: Array) -> tuple[Array, Array]:
    """Return the names of alternatives, and E[a, b]: by how many percent the share of b changes if x_a rises by one.

    Averages over choice situations, weighted by the probability of b ("sample enumeration").
    """
    names, which = np.unique(labels, return_inverse=True)
    situations = np.unique(groups, return_inverse=True)[1]
    table = np.zeros((situations.max() + 1, len(names)))
    if len(np.unique(situations * len(names) + which)) < len(which):
        raise ValueError(
            "alternatives must be different within each group: an elasticity is of one with respect to one"
        )
    P, V = table.copy(), table
    P[situations, which], V[situations, which] = p, coefficient * x
    share = np.maximum(P.sum(axis=0), 1e-300)
    E = -np.einsum("ja,jb->ab", V * P, P) / share
    E[np.diag_indices(len(names))] += (V * P).sum(axis=0) / share
    return names, E

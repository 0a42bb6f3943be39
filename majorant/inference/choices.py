"""What choices say of their parameters: scores of observations, columns that nothing can be learnt of, elasticities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError

from majorant._checks import Array
from majorant.curvature.cholesky import lower_factor
from majorant.data import Choices
from majorant.data.collapsing import Sample
from majorant.models import Enumerated

# A share of the curvature of a parameter, given those before it, below which columns may be nearly collinear.
FLAT = 1e-8
# Curvature of a column, relative to its squares, below which it may be constant within sets.
CONSTANT = 1e-20
# A singular value of columns of length one below which they are collinear. Rounding of a column that is a sum of others
# leaves less than 1e-15 times the number of columns.
RESOLVED = 1e-11
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


@dataclass(frozen=True, eq=False)
class Collinear:
    """How near to collinear columns are within sets.

    ``norms`` are those of the columns, centred within sets; ``singular`` the singular values of the columns after
    division by these, the least one first; and the rows of ``directions`` their vectors, for the columns that vary.
    """

    norms: Array
    singular: Array
    directions: Array

    @classmethod
    def of(cls, sets: Choices) -> Collinear:
        """Return it for the sets that weigh something. An orthogonal factor keeps the digits that squares lose."""
        R: Any = np.zeros((0, sets.n_features))
        rows = max(AT_A_TIME // (sets.n_features * int(sets.sizes.max())), sets.n_features // int(sets.sizes.max()) + 1)
        for some in sets.batches(rows):
            X = some.centred()
            X = X if some.weight is None else X[some.weight[some.set_of_outcome] > 0]
            R = np.linalg.qr(np.vstack([R, X]), mode="r")
        norms = np.linalg.norm(R, axis=0)
        varying = R[:, norms > 0] / norms[norms > 0]
        below = max(varying.shape[1] - len(varying), 0)
        _, singular, directions = np.linalg.svd(np.pad(varying, ((0, below), (0, 0))), full_matrices=False)
        return cls(norms, singular[::-1], directions[::-1])

    @property
    def least(self) -> float:
        """The least singular value; one of no column."""
        return float(self.singular[0]) if len(self.singular) else 1.0

    def groups(self) -> list[Array]:
        """Return the columns that are constant within every set, one by one, and those that are collinear."""
        found = [np.array([column]) for column in np.flatnonzero(self.norms == 0)]
        varying = np.flatnonzero(self.norms > 0)
        flat = self.directions[self.singular <= RESOLVED]
        return found + [varying[np.abs(direction) > NAMED] for direction in flat]

    def refuse(self, names: Sequence[str]) -> None:
        """Refuse columns that nothing can be learnt of."""
        refuse_collinear(self.groups(), names)


def refuse_collinear(groups: Sequence[Array], names: Sequence[str]) -> None:
    """Refuse columns that are constant (alone in a group) or collinear within every set, if there are any."""
    for columns in groups:
        which = ", ".join(repr(names[column]) for column in columns[:10])
        if len(columns) == 1:
            raise ValueError(
                f"column {which} is constant within every group: its coefficient cannot be identified; drop it, or "
                "use a finite C"
            )
        raise ValueError(
            f"columns {which} are collinear within every group: their coefficients cannot be identified; drop one "
            "of them, or use a finite C"
        )


def may_be_collinear(H: Array, squares: Array) -> bool:
    """Return whether a Hessian leaves it open that its columns, of these sums of squares, are nearly collinear."""
    diagonal = np.diag(H)
    if not (np.isfinite(H).all() and (diagonal > CONSTANT * squares).all()):
        return True
    try:
        scale = np.sqrt(diagonal)
        pivots = np.diag(lower_factor(H / np.outer(scale, scale)))
    except LinAlgError:
        return True
    return bool((pivots**2 < FLAT).any())


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

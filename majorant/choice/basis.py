"""What choices say of their parameters: scores of observations, columns that nothing can be learnt of, elasticities.

The columns that choice models are fitted to: those of X in units of about one, so that no verdict depends on units.

With columns X' = XT the estimates are θ = Tφ, φ being those of X'. T is a diagonal of powers of two, which cost no
digit. Where columns are nearly collinear T makes them orthonormal: a Hessian, which squares them, would know half of
the digits that tell them apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, solve_triangular

from majorant.choice.enumerated import Enumerated
from majorant.core.checks import Array
from majorant.core.choices import Choices, Sample
from majorant.core.curvature import lower_factor
from majorant.core.matrix import CsrDesign, DenseDesign, Design

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


# Columns whose largest numbers are no further apart, or from one, are fitted as they are.
APART, ORDINARY = 2.0**14, 2.0**24
# Columns whose differences within a set are a smaller share of their numbers are centred first; so many sets are seen.
FAR, SEEN = 2.0**-14, 512
# Numbers that are looked through at a time.
STRETCH = 2**11
# Squares of larger numbers, or of the inverse, summed over many rows, are beyond double precision.
LARGEST = 1e140
# Columns in which the least singular value is a smaller share of one are made orthonormal.
NEARLY = 1e-4
# Rounding errors of orthonormal columns.
ROUNDING = 1e-14


def in_units(sets: Choices, names: Sequence[str]) -> tuple[Choices, Array | None]:
    """Return the sets with columns XT of about one, and T as a vector; None if columns are fitted as they are."""
    sizes = _sizes(sets.design)
    refuse_beyond(sizes, names)
    far = _are_far(sets, sizes)
    if not far and _are_ordinary(sizes):
        return sets, None
    if far:
        X = sets.centred()
        T = units(_sizes(DenseDesign(X)))
        X *= T
        return sets.with_features(DenseDesign(X)), T
    T = units(sizes)
    if not sets.design.is_sparse:
        return sets.with_features(DenseDesign(sets.design.toarray() * T)), T
    csr = sets.design.csr()
    scaled = type(csr)((csr.data * T[csr.indices], csr.indices, csr.indptr), shape=csr.shape)
    return sets.with_features(CsrDesign(scaled)), T


def units(sizes: Array) -> Array:
    """Return powers of two that make columns of these sizes about one."""
    return np.ldexp(1.0, -np.frexp(np.where(sizes > 0, sizes, 0.5))[1])


def refuse_beyond(sizes: Array, names: Sequence[str], what: str = "column") -> None:
    """Refuse columns whose squares are beyond double precision."""
    for column in np.flatnonzero((sizes > LARGEST) | ((sizes > 0) & (sizes < 1.0 / LARGEST))).tolist():
        size = "as large as" if sizes[column] > 1 else "no larger than"
        raise ValueError(
            f"{what} {names[column]!r} holds numbers {size} {sizes[column]:.1e}, whose squares are beyond double "
            f"precision: divide it by {sizes[column]:.0e}"
        )


def orthonormal(sets: Choices, names: Sequence[str]) -> tuple[Choices, Array] | None:
    """Return the sets with orthonormal columns XT, and T; None unless columns are nearly collinear.

    Columns that are collinear are refused.
    """
    found = Collinear.of(sets)
    found.refuse(names)
    if found.least > NEARLY:
        return None
    X = sets.centred() / found.norms
    Q, R = np.linalg.qr(X)
    root = np.sqrt(len(X))
    T = root * solve_triangular(R, np.eye(len(R))) / found.norms[:, None]
    return sets.with_features(DenseDesign(root * Q)), T


def ridge_of(C: float, T: Array | None) -> Array | float:
    """Return the penalty 1/C on θ = Tφ as one on φ, for T as a vector; it stays a positive number."""
    if np.isinf(C) or T is None:
        return 1.0 / C
    with np.errstate(over="ignore"):
        return np.clip(T**2 / C, 1e-300, 1e300)


def of_columns(T: Array | None, phi: Array) -> Array:
    """Return θ = Tφ, for rows φ."""
    if T is None:
        return phi
    return np.asarray(phi * T if T.ndim == 1 else phi @ T.T)


def errors_of_columns(T: Array | None, errors: Array, theta: Array) -> Array:
    """Return how far each of θ = Tφ may be off if φ is off by so much, rounding errors of T included."""
    if T is None:
        return errors
    if T.ndim == 1:
        return errors * T
    # Orthonormal columns stand for those of X but for the last bits of these, which change scores by so much.
    lengths = np.linalg.norm(np.linalg.inv(T), axis=0)
    off = errors + ROUNDING * float(lengths @ np.abs(theta))
    if not np.isfinite(off).all():  # of orthonormal columns that are in all of X
        return np.full(len(theta), np.inf)
    return np.asarray(np.abs(T) @ off)


def _sizes(design: Design) -> Array:
    """Return the largest magnitude in each column."""
    if design.is_sparse:
        return np.asarray(abs(design.csr()).max(axis=0).todense()).ravel()
    X = np.ascontiguousarray(design.toarray())
    d, together = X.shape[1], max(STRETCH // X.shape[1], 1)
    whole = len(X) // together * together
    folded = X[:whole].reshape(-1, together * d)  # long rows are looked through sooner than short ones
    parts = [part.reshape(-1, d) for part in (folded.max(axis=0, initial=0.0), -folded.min(axis=0, initial=0.0))]
    return np.vstack([*parts, np.abs(X[whole:])]).max(axis=0)


def _are_ordinary(sizes: Array) -> bool:
    """Return whether columns that are not zero are of about one, and of about the same size."""
    some = sizes[sizes > 0]
    if not len(some):
        return True
    least, most = float(some.min()), float(some.max())
    return most <= APART * least and most <= ORDINARY and least >= 1.0 / ORDINARY


def _are_far(sets: Choices, sizes: Array) -> bool:
    """Return whether a column varies within sets by next to nothing of its size, as far as a few sets tell."""
    first = sets.indptr[:-1][sets.sizes > 1]
    if sets.design.is_sparse or not len(first):
        return False
    X, first = sets.design.toarray(), first[:: max(len(first) // SEEN, 1)]
    apart = np.abs(X[first + 1] - X[first]).max(axis=0)
    return bool(((apart > 0) & (apart < FAR * sizes)).any())

"""The basis of columns that choice models are fitted in: X' = XT, of size about one or orthonormal.

The estimates are θ = Tφ, φ being those of X'. T is a diagonal of powers of two, which cost no digit, so that no verdict
depends on units. Where columns are nearly collinear T makes them orthonormal: a Hessian, which squares them, would know
half of the digits that tell them apart.
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
from majorant.core.curvature import FACTOR_BLOCK, lower_factor
from majorant.core.matrix import CsrDesign, DenseDesign, Design

# Columns of length one are nearly collinear where a singular value is smaller: then they are made orthonormal. Columns
# are scaled where their size is a smaller share of one, or one of it; and centred where they vary by less within sets.
NEARLY = 1e-4
# A singular value of columns of length one below which they are collinear. Rounding of a column that is a sum of others
# leaves less than 1e-15 times the number of columns.
RESOLVED = 1e-11
# Rounding errors of orthonormal columns.
ROUNDING = 1e-14
# How much of a direction a column has to have for being named.
NAMED = 1e-3


def observation_scores(sample: Sample, theta: Array) -> Array:
    """Return the gradient of each observation, w_j (mean of its set under p − what was observed), as a t×d array."""
    sets, model = sample.sets, Enumerated()
    means, observed = np.empty((len(sets), sets.n_features)), np.empty((len(sets), sets.n_features))
    rows, done = max(FACTOR_BLOCK // (sets.n_features * model.scores_per_row(sets)), 1), 0
    for block in sets.batches(rows):
        X, at = block.design.dense(), slice(done, done + len(block))
        p = model.probabilities(model.scores(theta, block), block)
        means[at] = np.add.reduceat(p[:, None] * X, block.indptr[:-1])
        observed[at] = np.add.reduceat(block.target[:, None] * X, block.indptr[:-1])
        done += len(block)
    if sample.chosen is None:
        scores = means - observed
    else:
        scores = means[sample.numbers] - sets.design.part(sample.chosen).dense()
    return scores if sample.weight is None else scores * sample.weight[:, None]


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
        """Return the collinearity of sets of positive weight; an orthogonal factor keeps digits that squares lose."""
        R: Any = np.zeros((0, sets.n_features))
        rows = max(
            FACTOR_BLOCK // (sets.n_features * int(sets.sizes.max())), sets.n_features // int(sets.sizes.max()) + 1
        )
        for block in sets.batches(rows):
            X = block.centred()
            X = X if block.weight is None else X[block.weight[block.set_of_outcome] > 0]
            R = np.linalg.qr(np.vstack([R, X]), mode="r")
        norms = np.linalg.norm(R, axis=0)
        varying = R[:, norms > 0] / norms[norms > 0]
        below = max(varying.shape[1] - len(varying), 0)
        _, singular, directions = np.linalg.svd(np.pad(varying, ((0, below), (0, 0))), full_matrices=False)
        return cls(norms, singular[::-1], directions[::-1])

    def groups(self) -> list[Array]:
        """Return the columns that are constant within every set, one by one, and those that are collinear."""
        found = [np.array([column]) for column in np.flatnonzero(self.norms == 0)]
        varying = np.flatnonzero(self.norms > 0)
        flat = self.directions[self.singular <= RESOLVED]
        return found + [varying[np.abs(direction) > NAMED] for direction in flat]


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
    """Return whether a Hessian leaves it open that columns of these squares are nearly collinear, or constant."""
    diagonal = np.diag(H)
    if not (np.isfinite(H).all() and (diagonal > (ROUNDING / NEARLY) ** 2 * squares).all()):
        return True
    try:
        scale = np.sqrt(diagonal)
        pivots = np.diag(lower_factor(H / np.outer(scale, scale)))
    except LinAlgError:
        return True
    return bool((pivots < NEARLY).any())


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


def in_units(sets: Choices, names: Sequence[str]) -> tuple[Choices, Array | None]:
    """Return the sets with columns XT of about one, and T as a vector; None if columns are fitted as they are."""
    sizes = _sizes(sets.design)
    refuse_beyond(sizes, names)

    # A column may vary within sets by next to nothing of its size: what is left of its digits is kept by centring.
    first = sets.indptr[:-1][sets.sizes > 1]
    if not sets.design.is_sparse and len(first):
        X = sets.design.toarray()
        apart = np.abs(X[first + 1] - X[first]).max(axis=0)
        if ((apart > 0) & (apart < NEARLY * sizes)).any():
            X = sets.centred()
            T = units(_sizes(DenseDesign(X)))
            X *= T
            return sets.with_features(DenseDesign(X)), T

    filled = sizes[sizes > 0]
    if ((filled > NEARLY) & (NEARLY * filled < 1)).all():
        return sets, None
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
    """Refuse columns whose squares, or their inverse, are beyond double precision, summed over many rows."""
    largest = ROUNDING * np.sqrt(np.finfo(np.float64).max)
    for column in np.flatnonzero((sizes > largest) | ((sizes > 0) & (sizes < 1.0 / largest))).tolist():
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
    refuse_collinear(found.groups(), names)
    if not len(found.singular) or found.singular[0] > NEARLY:
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
    """Return error bounds of θ = Tφ from those of φ, rounding errors of T included."""
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
    X = design.toarray()
    return np.asarray(np.maximum(X.max(axis=0, initial=0.0), -X.min(axis=0, initial=0.0)))

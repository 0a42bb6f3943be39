"""The columns that choice models are fitted to: those of X in units of about one, so that no verdict depends on units.

With columns X' = XT the estimates are θ = Tφ, φ being those of X'. T is a diagonal of powers of two, which cost no
digit. Where columns are nearly collinear T makes them orthonormal: a Hessian, which squares them, would know half of
the digits that tell them apart.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg import solve_triangular

from majorant._checks import Array
from majorant.data import Choices
from majorant.design import Design
from majorant.design.csr import CsrDesign
from majorant.design.dense import DenseDesign
from majorant.inference.choices import Collinear

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

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

# Columns whose largest number is no further from one are fitted as they are.
ORDINARY = 2.0**10
# Columns whose differences within a set are a smaller share of their numbers are centred first; so many sets are seen.
FAR, SEEN = 2.0**-14, 512
# Squares of larger numbers, or of the inverse, summed over many rows, are beyond double precision.
LARGEST = 1e140
# Columns in which the least singular value is a smaller share of one are made orthonormal.
NEARLY = 1e-4
# Rounding errors of orthonormal columns.
ROUNDING = 1e-14


def in_units(sets: Choices, names: Sequence[str], *, always: bool = False) -> tuple[Choices, Array | None]:
    """Return the sets with columns XT of about one, and T as a vector; None if columns are fitted as they are."""
    sizes = _sizes(sets.design)
    if not always and _is_ordinary(sets, sizes):
        return sets, None
    if sets.design.is_sparse and not always:
        T = units(sizes, names)
        csr = sets.design.csr()
        return sets.with_features(CsrDesign(type(csr)((csr.data * T[csr.indices], csr.indices, csr.indptr)))), T
    refuse_beyond(sizes, names, least=0.0)
    X = sets.centred()
    T = units(_sizes(DenseDesign(X)), names)
    X *= T
    return sets.with_features(DenseDesign(X)), T


def units(sizes: Array, names: Sequence[str], what: str = "column") -> Array:
    """Return powers of two that make columns of these sizes about one."""
    refuse_beyond(sizes, names, what, least=1.0 / LARGEST)
    return np.ldexp(1.0, -np.frexp(np.where(sizes > 0, sizes, 0.5))[1])


def refuse_beyond(sizes: Array, names: Sequence[str], what: str = "column", *, least: float) -> None:
    """Refuse columns whose squares are beyond double precision."""
    for column in np.flatnonzero((sizes > LARGEST) | ((sizes > 0) & (sizes < least))).tolist():
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
    return np.asarray(np.abs(T) @ (errors + ROUNDING * float(lengths @ np.abs(theta))))


def _sizes(design: Design) -> Array:
    """Return the largest magnitude in each column."""
    if design.is_sparse:
        return np.asarray(abs(design.csr()).max(axis=0).todense()).ravel()
    X = design.toarray()
    return np.maximum(X.max(axis=0), -X.min(axis=0))


def _is_ordinary(sets: Choices, sizes: Array) -> bool:
    """Return whether columns are of about one, and vary within sets by no less, as far as a few sets tell."""
    some = sizes[sizes > 0]
    if not len(some) or some.min() < 1.0 / ORDINARY or some.max() > ORDINARY:
        return not len(some)
    if sets.design.is_sparse:
        return True
    first = sets.indptr[:-1][sets.sizes > 1]
    first = first[:: max(len(first) // SEEN, 1)]
    X = sets.design.toarray()
    apart = np.abs(X[first + 1] - X[first]).max(axis=0, initial=0.0)
    return not ((apart > 0) & (apart < FAR * sizes)).any()

"""What a certificate says."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from majorant._checks import Array

EPSILON = float(np.finfo(np.float64).eps)
# Scores that were added up from farther away, relative to ‖θ‖, are found afresh.
NEAR = 1.01
# A part of a direction, relative to its largest, that is rounding.
NO_PART, TINY = 1e-6, 1e-300


@dataclass(frozen=True, eq=False)
class Region:
    """Where every optimum is: ‖θ* − θ‖_H ≤ radius, H⁻¹ = RRᵀ, along all that F depends on.

    ``flat`` are directions (d×m, independent) along which F is known not to change, and neither does any probability.
    Their entries are compared times ``scale``, so that the units of columns do not matter.
    """

    root: Array  # R, d×k
    radius: float
    flat: Array
    scale: Array  # √H_ii, one where that is zero
    share: float = 1.0  # of the rows that H is the Hessian of

    @property
    def undetermined(self) -> Array:
        """Which parameters change along flat directions."""
        size = np.abs(self.flat) * self.scale[:, None]
        return (size > NO_PART * size.max(axis=0, initial=TINY)).any(axis=1)

    def standard_errors(self, classes: int = 1, centre: Array | None = None) -> Array:
        """Return √(cᵀH⁻¹c) of coefficients less their mean over classes (n×p), columns measured from zero."""
        return np.sqrt(np.square(_uncentred(self.root, classes, centre)).sum(axis=-1))

    def within(self, classes: int = 1, centre: Array | None = None) -> Array:
        """Return how far these coefficients are from those of every optimum at most; infinite where F is flat."""
        off = self.radius * self.standard_errors(classes, centre)
        if self.flat.size:
            of_column = self.scale.reshape(classes, -1).max(axis=0)[:, None]
            largest = (np.abs(_uncentred(self.flat, classes, None)) * of_column).max(axis=(0, 1), initial=TINY)
            parts = np.abs(_uncentred(self.flat, classes, centre)) * of_column
            off[(parts > NO_PART * largest).any(axis=-1)] = np.inf
        return off


def _uncentred(root: Array, classes: int, centre: Array | None) -> Array:
    """Return the rows of a root as coefficients less their mean over classes, intercepts those of columns as they are.

    Where all scores move together is up to the solver; one class stands against zero.
    """
    B = root.reshape(classes, len(root) // classes, root.shape[1])  # there may be no columns, where all is flat
    B = B - B.mean(axis=0) if classes > 1 else B.copy()
    if centre is not None:
        B[:, -1] -= np.einsum("i,cik->ck", centre, B[:, :-1])
    return B


@dataclass(frozen=True, eq=False)
class Certificate:
    """A point, F and ∇F there, and a bound on (F − F*)/F; where it is known, how far the optimum is at most.

    ``decrement`` is what a Newton step promises to gain, relative to F, where that was found; of some rows, about that.
    It is infinite where rounding hides it. It was looked for too ``early`` where that is more than was aimed at: then
    nothing else was looked at. ``estimate`` is the decrement without what rounding may add, NaN where that is unknown.
    """

    theta: Array
    value: float
    gradient: Array
    gap: float
    region: Region | None = None
    decrement: float = float("nan")
    early: bool = False
    estimate: float = float("nan")


def share(excess: float, value: float) -> float:
    """Return excess/value, at most one; losses are not negative, but for rounding."""
    if excess <= 0:
        return 0.0
    return float(min(excess / value, 1.0)) if value > 0 else 1.0

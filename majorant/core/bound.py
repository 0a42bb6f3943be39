"""A quadratic that touches a convex function at its anchor and lies above it everywhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from majorant.core import kernels
from majorant.core.checks import Array, finite_array
from majorant.core.curvature import Curvature, Dense
from majorant.core.kernels import partition
from majorant.core.kernels import partition as softmax


@dataclass(frozen=True, eq=False)
class QuadraticBound:
    """value + gradientᵀδ + ½ δᵀ(curvature + ridge)δ with δ = θ − anchor.

    Bounds with the same anchor add. A curvature that does not majorize is refused.

    Parameters
    ----------
    anchor : array of shape (d,)
        Where the bound touches.
    value, gradient : float, array of shape (d,)
        Value and slope at the anchor, equal to those of the bounded function.
    curvature : Curvature
        An operator with ``majorizes=True``.
    ridge : float or array of shape (d,)
        A diagonal quadratic known exactly, kept apart so that any curvature can be solved with it.

    Examples
    --------
    >>> from majorant.curvature import Diagonal
    >>> bound = QuadraticBound(np.zeros(2), 1.0, np.array([1.0, 0.0]), Diagonal(np.array([2.0, 2.0]), majorizes=True))
    >>> bound([0.0, 0.0]), bound([0.0, 1.0])
    (1.0, 2.0)
    """

    anchor: Array
    value: float
    gradient: Array
    curvature: Curvature
    ridge: float | Array = field(default=0.0)

    def __post_init__(self) -> None:
        if not self.curvature.majorizes:
            raise ValueError(
                f"this {type(self.curvature).__name__} curvature is no bound: it does not "
                "guarantee descent. Use 'dense', 'low-rank', 'diagonal', 'kronecker' or 'boehning'"
            )

    def __call__(self, theta: ArrayLike) -> float:
        """Return the bound at θ."""
        θ = np.asarray(theta, dtype=np.float64)
        if θ.shape != self.anchor.shape:
            raise ValueError(f"theta must have shape {self.anchor.shape}, got {θ.shape}")
        δ = θ - self.anchor
        return float(self.value + self.gradient @ δ + 0.5 * δ @ (self.curvature.matvec(δ) + self.ridge * δ))

    def __add__(self, other: QuadraticBound) -> QuadraticBound:
        if not np.array_equal(self.anchor, other.anchor):
            raise ValueError("only bounds with the same anchor add; these touch at different parameters")
        return QuadraticBound(
            self.anchor,
            self.value + other.value,
            self.gradient + other.gradient,
            self.curvature + other.curvature,
            self.ridge + other.ridge,
        )

    def step(self) -> Array:
        """Return the way from the anchor to the minimiser.

        Returns
        -------
        array of shape (d,)

        Examples
        --------
        >>> from majorant.curvature import Diagonal
        >>> bound = QuadraticBound(np.ones(1), 1.0, np.array([2.0]), Diagonal(np.array([4.0]), majorizes=True))
        >>> bound.step()
        array([-0.5])
        """
        return -self.curvature.solve(self.gradient, self.ridge)

    def minimizer(self) -> Array:
        """Return the parameters at which the bound is least.

        Returns
        -------
        array of shape (d,)
            The anchor plus :meth:`step`.

        Examples
        --------
        >>> bound = log_partition_bound([2.0], [[0.0], [1.0]])
        >>> bool(bound(bound.minimizer()) < bound([2.0]))
        True
        """
        return self.anchor + self.step()


def log_partition_bound(
    theta: ArrayLike,
    features: ArrayLike,
    log_measure: ArrayLike | None = None,
    order: str = "descending",
) -> QuadraticBound:
    """Bound log Z(θ) = log Σ_y h(y) exp(θᵀf(y)) from above by a quadratic that touches it at ``theta``.

    Parameters
    ----------
    theta : array of shape (d,)
        The anchor.
    features : array of shape (n, d)
        One row f(y) for each outcome.
    log_measure : array of shape (n,), optional
        log h(y); zero where absent, −∞ for an outcome that cannot happen.
    order : {"descending", "ascending", "given"}
        In which order outcomes are visited. Any is valid; descending probability is the tightest.

    Returns
    -------
    QuadraticBound

    References
    ----------
    Choromanska & Jebara, *Stochastic Bound Majorization*, 2013, Algorithm 1. Cost: O(n² + nd²).

    Examples
    --------
    >>> import numpy as np
    >>> bound = log_partition_bound([0.0], [[0.0], [1.0]])
    >>> round(bound.value, 4), bound.gradient, bound.curvature.as_matrix()
    (0.6931, array([0.5]), array([[0.25]]))
    >>> bool(bound([3.0]) >= np.log(1 + np.exp(3.0)))
    True
    """
    anchor = finite_array("theta", theta, ndim=1).astype(np.float64)
    given: Any = features
    F = finite_array("features", given.toarray() if sp.issparse(given) else given, ndim=2).astype(np.float64)
    if F.shape[0] == 0:
        raise ValueError("features must have at least one row: the outcome set is empty")
    if F.shape[1] != len(anchor):
        raise ValueError(f"features must have one column per parameter ({len(anchor)}), got {F.shape[1]}")
    scores = F @ anchor
    if log_measure is not None:
        log_h = finite_array("log_measure", log_measure, ndim=1, allow="-inf")
        if len(log_h) != len(F):
            raise ValueError(f"log_measure must have one entry per outcome ({len(F)}), got {len(log_h)}")
        if np.isneginf(log_h).all():
            raise ValueError("log_measure must leave at least one outcome possible, got h(y) = 0 for all")
        scores = scores + log_h
    log_z, P = softmax.log_partition_and_probabilities(scores[:, None])
    visit = partition.visiting_order(scores[:, None], order)
    one_set, weight = np.array([0, len(F)]), np.ones(1)
    Q = kernels.stochastic.bound_rows(scores, np.arange(len(F)) if visit is None else visit[:, 0], one_set, weight, F)
    return QuadraticBound(anchor, float(log_z[0]), P[:, 0] @ F, Dense(Q.T @ Q, majorizes=True))

"""What is added to the loss: a convex function of the parameters alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from majorant.core.checks import Array, finite_array, lazy

# A share of a gradient that equals the threshold may be rounded beyond it by this much, relative.
ROUNDED = 4 * float(np.finfo(np.float64).eps)
# Of fewer parameters temporaries cost less than the calls that avoid them.
SMALL = 10_000


class Penalty(ABC):
    """A convex function R(θ) of d parameters.

    :meth:`value`, :meth:`gradient`, :meth:`scaled` and ``curvature``, a diagonal (d) that the Hessian of R never
    exceeds, make one; where that is zero, a parameter is not penalised. What is strongly convex says so by
    :attr:`strength`, and gets certificates.
    """

    curvature: Array
    smooth: ClassVar[bool] = True  # whether it has a gradient everywhere

    @abstractmethod
    def value(self, theta: Array) -> float:
        """Return R(θ)."""

    @abstractmethod
    def gradient(self, theta: Array) -> Array:
        """Return ∇R(θ)."""

    @lazy
    def strength(self) -> Array:
        """A diagonal (d) that the Hessian of R never falls below."""
        return np.zeros_like(self.curvature)

    @lazy
    def penalised(self) -> Array:
        """Which parameters R depends on."""
        return self.curvature > 0

    @abstractmethod
    def scaled(self, factor: float) -> Penalty:
        """Return ``factor`` times the penalty, for that share of the rows."""

    def slope(self, theta: Array, of_loss: Array) -> Array:
        """Return the (least sub)gradient of loss + R, given that of the loss."""
        return of_loss + self.gradient(theta)

    def along(self, theta: Array, direction: Array) -> Callable[[float], tuple[float, float]]:
        """Return a ↦ R(θ + aδ) and its derivative."""

        def value_and_slope(a: float) -> tuple[float, float]:
            there = theta + a * direction
            return self.value(there), float(self.gradient(there) @ direction)

        return value_and_slope

    @property
    def prior(self) -> Array | None:
        """λ if R is ½ Σ λ_i θ_i², which is a Gaussian prior centred at zero; None if it is something else."""
        return None

    def as_prior(self) -> Array:
        """Return λ for solvers that start from a Gaussian prior, or raise."""
        if self.prior is None:
            raise TypeError(f"this solver starts from a Gaussian prior: it needs a ridge, got {type(self).__name__}")
        return self.prior

    @lazy
    def everywhere(self) -> bool:
        """Whether R is strongly convex in every parameter."""
        return bool((self.strength > 0).all())

    @lazy
    def strong(self) -> bool:
        """Whether R is strongly convex in every parameter that it depends on."""
        return np.array_equal(self.strength > 0, self.penalised)

    @lazy
    def coercive(self) -> bool:
        """Whether R grows without bound along every parameter that it depends on: then there is a dual objective."""
        return self.strong

    @lazy
    def least(self) -> float:
        """The least strength of those that there are."""
        return float(np.min(self.strength[self.strength > 0], initial=np.inf))

    def shares(self, theta: Array, slope: Array, errors: Array) -> tuple[float, float]:
        """Return between which shares of the gradient of the loss the best :meth:`excess` is to be looked for."""
        return 1.0, 1.0

    def excess(self, theta: Array, slope: Array, errors: Array | None = None, share: float = 1.0) -> float:
        """Return R(θ) + R*(−sg) + sθᵀg at most, the Fenchel–Young gap for a share s of the gradient g of the loss.

        Parameters
        ----------
        theta, slope
            θ, and the least subgradient of loss + R there, from which g follows as far as it matters.
        errors : array of shape (d,), optional
            How far each entry of g may be off.
        share : float
            s. Of a penalty without :meth:`shares` it is one, and the gap at most ½ Σ_i slope_i²/strength_i.
        """
        if errors is None:
            return 0.5 * self.dual_square(slope)
        exactly = np.abs(slope)
        exactly += errors
        return 0.5 * self.dual_square(exactly)

    def dual_square(self, gradient: Array) -> float:
        """Return Σ g_i²/λ_i over the parameters that R is strongly convex in: F can be half of that lower at most."""
        strong = self.strength > 0
        return float(np.sum(gradient[strong] ** 2 / self.strength[strong]))


class Ridge(Penalty):
    """½ Σ_i λ_i θ_i² for λ_i ≥ 0, given as one number or as one for each of ``size`` parameters.

    Values and products make no temporaries as long as θ: on wide data those cost more than the arithmetic. Parameters
    may be tensors.
    """

    def __init__(self, ridge: float | ArrayLike, size: int) -> None:
        given = np.asarray(ridge)
        if given.ndim == 1 and len(given) != size:
            raise ValueError(f"ridge must be one number or one per parameter ({size}), got {len(given)}")
        given = given[0] if given.ndim == 1 and given.strides == (0,) else given  # one number, broadcast
        values = finite_array("ridge", given, ndim=(0, 1)).astype(np.float64)
        least, most = float(np.min(values)), float(np.max(values))
        if least < 0:
            raise ValueError(f"ridge must be non-negative, got {least:g}")
        self.same = least == most
        self._there: Any = None
        self.curvature = self.values = np.broadcast_to(values.flat[0], (size,)) if self.same else values
        penalised = np.broadcast_to(least > 0, (size,)) if self.same else self.values > 0
        smallest = least if self.same or least > 0 else float(np.min(values[values > 0]))
        # What other penalties find when it is asked for.
        vars(self).update(strength=self.values, penalised=penalised, everywhere=least > 0, strong=True, least=smallest)

    def value(self, theta: Array) -> float:
        """Return ½ Σ λ_i θ_i²."""
        return 0.5 * self.inner(theta, theta)

    def gradient(self, theta: Array) -> Array:
        """Return λθ."""
        return self._beside(theta) * theta

    def slope(self, theta: Array, of_loss: Array) -> Array:
        """Return the gradient of loss + R, given that of the loss."""
        slope = self._beside(theta) * theta
        slope += of_loss
        return slope

    def scaled(self, factor: float) -> Ridge:
        """Return the ridge factor · λ."""
        return Ridge(self.values[0] * factor if self.same else self.values * factor, len(self.values))

    def along(self, theta: Array, direction: Array) -> Callable[[float], tuple[float, float]]:
        """Return the parabola a ↦ R(θ + aδ) and its derivative."""
        inner = self.inner
        constant, linear, square = 0.5 * inner(theta, theta), inner(theta, direction), inner(direction, direction)
        return lambda a: (constant + a * (linear + 0.5 * a * square), linear + a * square)

    @property
    def prior(self) -> Array:
        """λ."""
        return self.values

    def inner(self, a: Array, b: Array) -> float:
        """Return Σ_i λ_i a_i b_i."""
        if self.same:
            return float(self.values[0] * (a @ b))
        if not isinstance(a, np.ndarray):
            return float((self._beside(a) * a) @ b)
        if self._alike is not None:
            return float(self.values[0] * (a[: self._alike] @ b[: self._alike]))
        return float((self.values * a) @ b if len(a) < SMALL else np.einsum("i,i,i->", self.values, a, b))

    def dual_square(self, gradient: Array) -> float:
        """Return Σ g_i²/λ_i over the penalised parameters."""
        if self.same:
            return float(gradient @ gradient / self.values[0]) if self.everywhere else 0.0
        if self._alike is not None and isinstance(gradient, np.ndarray):
            some = gradient[: self._alike]
            return float(some @ some / self.values[0])
        if len(gradient) >= SMALL:
            return float(np.einsum("i,i,i->", gradient, gradient, self._inverse))
        return float((gradient * self._inverse) @ gradient)

    def _beside(self, vector: Any) -> Any:
        """Return λ where a vector is; on a device it stays there."""
        if isinstance(vector, np.ndarray):
            return self.values
        if self._there is None or self._there.device != vector.device:
            self._there = vector.new_tensor(self.values)
        return self._there

    @lazy
    def _alike(self) -> int | None:
        """How many parameters come first that have the same λ, if all others have none: those after are intercepts."""
        count = int(np.count_nonzero(self.values))
        alike = count > 0 and self.values[:count].min() == self.values[:count].max() > 0
        return count if alike else None

    @lazy
    def _inverse(self) -> Array:
        """1/λ, zero where there is none."""
        return np.divide(1.0, self.values, out=np.zeros(len(self.values)), where=self.values > 0)


class ElasticNet(Penalty):
    """Σ_i (λ1_i|θ_i| + ½ λ2_i θ_i²) for λ1_i, λ2_i ≥ 0, each given as one number or as one for each of ``size``.

    Examples
    --------
    >>> penalty = ElasticNet([1.0, 1.0, 0.0], 0.5, 3)
    >>> penalty.value(np.array([2.0, 0.0, 2.0])), penalty.slope(np.zeros(3), np.array([-3.0, 0.5, 0.5]))
    (4.0, array([-2. ,  0. ,  0.5]))
    """

    smooth = False

    def __init__(self, l1: float | ArrayLike, l2: float | ArrayLike, size: int) -> None:
        self.l1 = np.broadcast_to(Ridge(l1, size).values, (size,))
        self.curvature = self.l2 = np.broadcast_to(Ridge(l2, size).values, (size,))

    @lazy
    def strength(self) -> Array:
        """λ2."""
        return self.l2

    @lazy
    def penalised(self) -> Array:
        """Where λ1 or λ2 is positive."""
        return (self.l1 > 0) | (self.l2 > 0)

    @property
    def coercive(self) -> bool:
        """Return True."""
        return True

    def value(self, theta: Array) -> float:
        """Return Σ_i (λ1_i|θ_i| + ½ λ2_i θ_i²)."""
        return float(self.l1 @ np.abs(theta)) + 0.5 * float(self.l2 @ (theta * theta))

    def gradient(self, theta: Array) -> Array:
        """Return λ1 sign θ + λ2 θ."""
        return self.l1 * np.sign(theta) + self.l2 * theta

    def slope(self, theta: Array, of_loss: Array) -> Array:
        """Return the least subgradient of loss + R, given the gradient of the loss."""
        return np.where(theta == 0, soft_threshold(of_loss, self.l1), of_loss + self.gradient(theta))

    def proximal(self, theta: Array, steps: Array | float) -> Array:
        """Return argmin_x R(x) + ½ Σ_i (x_i − θ_i)²/step_i."""
        return np.asarray(soft_threshold(theta, steps * self.l1) / (1.0 + steps * self.l2))

    def conjugate(self, dual: Array) -> float:
        """Return R*(u) = sup_θ uᵀθ − R(θ), infinite where |u_i| > λ1_i without λ2_i."""
        over = np.maximum(np.abs(dual) - self.l1, 0.0)
        if (over[self.l2 == 0] > 0).any():
            return float("inf")
        return 0.5 * float(np.sum(np.divide(over * over, self.l2, out=np.zeros_like(over), where=self.l2 > 0)))

    def scaled(self, factor: float) -> ElasticNet:
        """Return the penalty factor · R."""
        return ElasticNet(self.l1 * factor, self.l2 * factor, len(self.l1))

    def shares(self, theta: Array, slope: Array, errors: Array) -> tuple[float, float]:
        """Return the largest share for which |s g_i| ≤ λ1_i everywhere, and where λ2_i is zero."""
        size = np.abs(self._along_theta(theta, slope))
        size += errors
        share = np.divide(self.l1, size, out=np.ones_like(size), where=(size > self.l1) & (self.l1 > 0))
        low = float(share.min(initial=1.0))
        return low, float(share[self.l2 == 0].min(initial=1.0))

    def excess(self, theta: Array, slope: Array, errors: Array | None = None, share: float = 1.0) -> float:
        """Return the Fenchel–Young gap for a share of the gradient of the loss; parameters without penalty have none.

        With a the size of θ_i, h the gradient of the loss in the direction of θ_i, and its share sh, parameter i has

            a (λ1 + sh) + ½ λ2 a² + (|sh| − λ1)₊²/2λ2,    or (λ1 + sh + λ2 a)²/2λ2 where sh ≤ −λ1.

        That is convex in h, and so it is the larger of both ends where h is off.
        """
        a, along = np.abs(theta), self._along_theta(theta, slope)
        off = 0.0 if errors is None else errors
        of_each = self._excess(a, share * (along + off))
        if errors is not None:
            np.maximum(of_each, self._excess(a, share * (along - off)), out=of_each)
        return float(of_each.sum())

    def _along_theta(self, theta: Array, slope: Array) -> Array:
        """Return the gradient of the loss times the sign of θ; where θ is zero the largest size that it may have."""
        return np.where(theta == 0, self.l1 + np.abs(slope), np.sign(theta) * slope - self.l1 - self.l2 * np.abs(theta))

    def _excess(self, a: Array, h: Array) -> Array:
        """Return the gap of each parameter; infinite where the conjugate is."""
        beyond = self.l1 + h  # how far u = −h is from the threshold on the side of θ
        of_l2 = np.where(h <= -self.l1, beyond + self.l2 * a, np.maximum(h - self.l1, 0.0))
        inside = np.where(h <= -self.l1, 0.0, a * beyond + 0.5 * self.l2 * a * a)
        kinked = (self.l2 == 0) & (self.l1 > 0)
        of_l2 = np.divide(of_l2 * of_l2, 2 * self.l2, out=np.zeros_like(of_l2), where=self.l2 > 0)
        of_l2[kinked & (np.abs(h) > self.l1 * (1 + ROUNDED))] = np.inf
        inside[~self.penalised] = 0.0
        return np.asarray(np.where(kinked, np.maximum(a * beyond, 0.0), inside) + of_l2)


def soft_threshold(values: Array, threshold: Array | float) -> Array:
    """Return S(v, λ) = sign v · max(|v| − λ, 0)."""
    return np.asarray(values - np.clip(values, -np.asarray(threshold), threshold))


def read_penalty(ridge: Any, size: int) -> Penalty:
    """Return a penalty as it is, and numbers as a ridge."""
    if not isinstance(ridge, Penalty):
        return Ridge(ridge, size)
    if len(ridge.curvature) != size:
        raise ValueError(f"the penalty must be one of {size} parameters, got one of {len(ridge.curvature)}")
    return ridge

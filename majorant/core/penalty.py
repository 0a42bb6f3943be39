"""What is added to the loss: a convex function of the parameters alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from majorant.core.checks import Array, finite_array, lazy

# Of fewer parameters temporaries cost less than the calls that avoid them.
SMALL = 10_000


class Penalty(ABC):
    """A convex function R(θ) of d parameters.

    :meth:`value`, :meth:`gradient`, :meth:`scaled` and ``curvature``, a diagonal (d) that the Hessian of R never
    exceeds, make one; where that is zero, a parameter is not penalised. What is strongly convex says so by
    :attr:`strength`, and gets certificates.
    """

    curvature: Array

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
    def least(self) -> float:
        """The least strength of those that there are."""
        return float(np.min(self.strength[self.strength > 0], initial=np.inf))

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

    @lazy
    def strength(self) -> Array:
        """λ."""
        return self.values

    @lazy
    def penalised(self) -> Array:
        """Where λ is positive."""
        return np.broadcast_to(self.values[0] > 0, self.values.shape) if self.same else self.values > 0

    @lazy
    def everywhere(self) -> bool:
        """Whether λ is positive everywhere."""
        return bool(self.values[0] > 0 if self.same else (self.values > 0).all())

    @property
    def strong(self) -> bool:
        """Return True."""
        return True

    @lazy
    def least(self) -> float:
        """The least λ of those that penalise."""
        return float(np.min(self.values[:1] if self.same else self.values[self.values > 0], initial=np.inf))

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
        constant, linear, quadratic = self.value(theta), self.inner(theta, direction), self.inner(direction, direction)
        return lambda a: (constant + a * (linear + 0.5 * a * quadratic), linear + a * quadratic)

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


def read_penalty(ridge: Any, size: int) -> Penalty:
    """Return a penalty as it is, and numbers as a ridge."""
    if not isinstance(ridge, Penalty):
        return Ridge(ridge, size)
    if len(ridge.curvature) != size:
        raise ValueError(f"the penalty must be one of {size} parameters, got one of {len(ridge.curvature)}")
    return ridge

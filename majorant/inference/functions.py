"""Functions of estimates and their standard errors by the delta method: var g(θ) ≈ ∇gᵀ cov(θ) ∇g."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from majorant._checks import Array


@dataclass(frozen=True)
class Derived:
    """A number found from estimates, and its standard error.

    Examples
    --------
    >>> print(Derived("time / cost", 1.2, 0.1))
    time / cost = 1.2 (std. err. 0.1, 95 % interval 1.004 to 1.396)
    """

    name: str
    estimate: float
    std_error: float

    @property
    def z(self) -> float:
        """The estimate in standard errors."""
        return self.estimate / self.std_error if self.std_error > 0 else 0.0

    @property
    def p(self) -> float:
        """The two-sided p-value of it being zero."""
        return float(2.0 * ndtr(-abs(self.z)))

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return a confidence interval."""
        reach = float(ndtri(0.5 + 0.5 * level)) * self.std_error
        return self.estimate - reach, self.estimate + reach

    def __str__(self) -> str:
        low, high = self.interval()
        error = f"std. err. {self.std_error:.4g}, 95 % interval {low:.4g} to {high:.4g}"
        return f"{self.name} = {self.estimate:.6g} ({error})"


def ratio(name: str, params: Array, covariance: Array, above: int, below: int, sign: float = 1.0) -> Derived:
    """Return sign · θ_above / θ_below and its standard error."""
    top, bottom = float(params[above]), float(params[below])
    if bottom == 0:
        raise ValueError(f"{name} is not defined: the coefficient below the line is zero")
    slope = np.zeros(len(params))
    slope[above] += sign / bottom
    slope[below] -= sign * top / bottom**2
    variance = float(slope @ covariance @ slope) if np.isfinite(covariance).all() else float("inf")
    return Derived(name, sign * top / bottom, float(np.sqrt(max(variance, 0.0))))

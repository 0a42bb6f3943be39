"""C ⊗ G on a device: one eigenbasis of each serves every ridge."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch

from majorant._checks import Array
from majorant.curvature.base import Solve, ridge_vector
from majorant.curvature.by_class import LEAST
from majorant.curvature.kronecker import Kronecker


@dataclass(frozen=True, eq=False)
class TensorKronecker(Kronecker):
    """A Kronecker product whose inverse, for a ridge that is the same for all features but the last, is found there.

    With C = VγVᵀ and G = [A, b; bᵀ, g], A = UαUᵀ, the inverse of γ_k G + diag(λ, …, λ, μ) is that of a bordered
    diagonal in the basis of U.
    """

    device: torch.device = field(default=torch.device("cpu"), kw_only=True)

    def nearly_factorized(self, ridge: float | Array) -> Solve:
        """Return about (C ⊗ G + diag(ridge))⁻¹ as a function, to scale steps by."""
        λ = self._by_class(ridge_vector(ridge, self.size)).mean(axis=0)
        if not (λ[:-1] == λ[0]).all():
            return super().nearly_factorized(ridge)
        return TensorSolve(self.classes_there, self.features_there, float(λ[0]), float(λ[-1]))

    @cached_property
    def classes_there(self) -> tuple[Any, Any]:
        """γ and V; where C has next to nothing, or scores all move together, something stands in."""
        values, basis = torch.linalg.eigh(self._there(self.classes))
        if len(values) > 1:
            values = torch.maximum(values, LEAST * values[-1].clamp(min=np.finfo(np.float64).tiny))
            values[0] = values[1:].mean()
        return values, basis

    @cached_property
    def features_there(self) -> Bordered:
        """G in the basis of U."""
        G = self._there(self.features)
        values, basis = torch.linalg.eigh(G[:-1, :-1])
        return Bordered(values.clamp(min=0.0), basis, basis.T @ G[:-1, -1], G[-1, -1])

    def as_written(self) -> Kronecker:
        """Return what a file can hold of it."""
        return Kronecker(self.classes, self.features, self.majorizes)

    def _there(self, array: Array) -> Any:
        return torch.as_tensor(array).to(self.device)


@dataclass(frozen=True, eq=False)
class Bordered:
    """UαUᵀ with a last row and column: β in the basis of U, and g."""

    values: Any
    basis: Any
    border: Any
    corner: Any


@dataclass(frozen=True, eq=False)
class TensorSolve:
    """Rotates classes and features to where both matrices are diagonal, and eliminates the last column there."""

    classes: tuple[Any, Any]
    features: Bordered
    ridge: float
    last: float  # of the last column

    def as_written(self) -> None:
        """Return nothing: what is on a device is found again there."""

    def __call__(self, b: Array) -> Array:
        """Return the solution."""
        solved: Array = self.there(torch.as_tensor(b).to(self.classes[1].device)).cpu().numpy()
        return solved

    def there(self, b: Any) -> Any:
        """Return the solution of a tensor, in its precision."""
        (γ, V), G = self.classes, self.features
        R = V.T @ b.double().reshape(len(γ), -1)
        inner, outer = R[:, :-1] @ G.basis, R[:, -1]
        inverse, corner = self._inverse
        along = γ[:, None] * G.border * inverse
        z = (outer - (along * inner).sum(dim=1)) * corner
        x = inverse * inner - along * z[:, None]
        solved = V @ torch.cat([x @ G.basis.T, z[:, None]], dim=1)
        return solved.ravel().to(b.dtype)

    @cached_property
    def _inverse(self) -> tuple[Any, Any]:
        """Return 1/(γ_k α_i + λ), and that of what is left of the corner when the rest has been eliminated."""
        (γ, _), G = self.classes, self.features
        entries = γ[:, None] * G.values + self.ridge
        inverse = torch.where(entries > 0, 1.0 / entries, 0.0)
        left = γ * G.corner + self.last - (γ[:, None] * G.border).square().mul(inverse).sum(dim=1)
        least = 1e-10 * (γ * G.corner + self.last)
        left = torch.maximum(left, least)
        return inverse, torch.where(left > 0, 1.0 / left, 0.0)

"""Distances between the outcomes of a row where rows are tensors.

C ⊗ G on a device: one eigenbasis of each matrix serves every ridge.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from majorant.core.checks import Array
from majorant.core.curvature import LEAST, Solve, ridge_vector
from majorant.core.rounding import Spreads
from majorant.core.structured import Kronecker
from majorant.core.threads import as_array

# Distances of rows that are written out at a time.
CHUNK = 2**26


@dataclass(frozen=True, eq=False)
class TensorSpreads(Spreads):
    """:class:`ClassSpreads` of tensors."""

    roots: tuple[Any, ...]

    def exact(self, batch: Any) -> float:
        """Return the sum of the two largest ‖R_cᵀx‖ of a row, or the largest where there is one."""
        width, largest = max(batch.n_features, len(self.roots), 1), 0.0
        for some in batch.batches(max(CHUNK // width, 1)):
            squares = torch.stack([some.design.times(root).square().sum(dim=1) for root in self.roots])
            largest = max(largest, _largest(squares.sqrt(), some.weight))
        return largest

    def coarse(self, batch: Any) -> float:
        """Return the same of Σ_i |x_i| ‖R_ci‖."""
        sizes = torch.stack([root.norm(dim=1) for root in self.roots])
        return _largest(batch.design.absolute()[0].project(sizes), batch.weight)


def _largest(distances: Any, weight: Any) -> float:
    each = distances[0] if len(distances) == 1 else distances.topk(2, dim=0).values.sum(dim=0)
    each = each if weight is None else each[weight > 0]
    return float(each.max()) if len(each) else 0.0


# Eigenvalues of C within a factor of 2^(1/LEVELS) are taken to be the same.
LEVELS = 4


@dataclass(frozen=True, eq=False)
class Bordered:
    """UαUᵀ with a last row and column: β in the basis of U, and g."""

    values: Any
    basis: Any
    border: Any
    corner: Any

    def turned(self, R: Any) -> Any:
        """Return rows in the basis of U; the last column stays what it is."""
        return torch.cat([R[:, :-1] @ self.basis, R[:, -1:]], dim=1)

    def turned_back(self, R: Any) -> Any:
        """Return rows as they were."""
        return torch.cat([R[:, :-1] @ self.basis.T, R[:, -1:]], dim=1)


@dataclass(frozen=True, eq=False)
class TensorKronecker(Kronecker):
    """C ⊗ G whose inverse, for a ridge that is the same for all features but the last, is found on the device.

    With C = VγVᵀ and G = [A, s; sᵀ, g], A = UαUᵀ, the inverse of γ_k G + diag(λ, …, λ, μ) is that of a bordered
    diagonal in the basis of U.
    """

    classes: Any
    features: Any
    majorizes: bool = False

    def nearly_factorized(self, ridge: float | Array) -> Solve:
        """Return about (C ⊗ G + diag(ridge))⁻¹ as a function, to scale steps by."""
        λ = ridge_vector(ridge, self.size).reshape(len(self.classes), -1).mean(axis=0)
        if not (λ[:-1] == λ[0]).all():
            return self.as_written().nearly_factorized(ridge)
        return TensorSolve(self.classes_there, self.features_there, float(λ[0]), float(λ[-1]))

    @cached_property
    def classes_there(self) -> tuple[Any, Any]:
        """γ and V; where C has next to nothing, or scores all move together, something stands in."""
        values, basis = torch.linalg.eigh(self.classes)
        if len(values) > 1:
            values = torch.maximum(values, LEAST * values[-1].clamp(min=np.finfo(np.float64).tiny))
            values[0] = values[1:].mean()
        return torch.exp2(torch.round(LEVELS * torch.log2(values)) / LEVELS), basis

    @cached_property
    def features_there(self) -> Bordered:
        """G in the basis of U."""
        G = self.features
        values, basis = torch.linalg.eigh(G[:-1, :-1])
        return Bordered(values.clamp(min=0.0), basis, basis.T @ G[:-1, -1], G[-1, -1])

    def as_written(self) -> Kronecker:
        """Return what a file can hold of it."""
        return Kronecker(as_array(self.classes), as_array(self.features), self.majorizes)


@dataclass(frozen=True, eq=False)
class TensorSolve:
    """(C ⊗ G + diag(ridge))⁻¹: vectors are rotated to where both matrices are diagonal, and back.

    There the last column is eliminated.
    """

    classes: tuple[Any, Any]
    features: Bordered
    ridge: float
    last: float  # of the last column

    def __call__(self, b: Array) -> Array:
        """Return the solution."""
        solved: Array = self.there(torch.as_tensor(b).to(self.classes[1].device)).cpu().numpy()
        return solved

    def there(self, b: Any) -> Any:
        """Return the solution of a tensor, in its precision."""
        (γ, V), G = self.classes, self.features
        R = G.turned(V.T @ b.double().reshape(len(γ), -1))
        inverse, along, corner = self._inverse
        z = (R[:, -1] - (along * R[:, :-1]).sum(dim=1)) * corner
        solved = torch.cat([inverse * R[:, :-1] - along * z[:, None], z[:, None]], dim=1)
        return (V @ G.turned_back(solved)).ravel().to(b.dtype)

    def as_written(self) -> None:
        """Return nothing: what is on a device is found again there."""

    @cached_property
    def _inverse(self) -> tuple[Any, Any, Any]:
        """Return 1/(γ_k α_i + λ), that times the border, and what is left of the corner without the rest, inverted."""
        (γ, _), G = self.classes, self.features
        entries = γ[:, None] * G.values + self.ridge
        inverse = torch.where(entries > 0, 1.0 / entries, 0.0)
        along = γ[:, None] * G.border * inverse
        left = γ * G.corner + self.last - (γ[:, None] * G.border * along).sum(dim=1)
        left = torch.maximum(left, 1e-10 * (γ * G.corner + self.last))
        return inverse, along, torch.where(left > 0, 1.0 / left, 0.0)

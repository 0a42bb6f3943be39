"""Distances between the outcomes of a row where rows are tensors.

C ⊗ S and a direction for each label on a device: one eigenbasis of each matrix serves every ridge.
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
from majorant.core.structured import TAKEN, Centred
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
class TensorCentred(Centred):
    """A curvature whose inverse, for a ridge that is the same for all features but the last, is found there.

    With C = VγVᵀ and S = [A, s; sᵀ, g], A = UαUᵀ, the inverse of γ_k S + diag(λ, …, λ, μ) is that of a bordered
    diagonal in the basis of U.
    """

    classes: Any
    features: Any
    directions: Any
    centres: Any

    @classmethod
    def of(cls, C: Any, G: Any, columns: Any, weight: Any, sums: Any) -> TensorCentred:
        """Return what :class:`Centred` makes of the same sums, as tensors."""
        n = len(C)
        own = columns.diagonal()
        there = (own > 0) & (weight > 0)
        b = TAKEN**0.5 * columns[there] / own[there].sqrt()[:, None]
        ν = sums[there] / weight[there][:, None]
        G = G - (ν * (b.square().sum(dim=1, keepdim=True) / max(n - 1, 1))).T @ ν
        return cls(_balanced(C), G, b, ν)

    def nearly_factorized(self, ridge: float | Array) -> Solve:
        """Return about (Σ + diag(ridge))⁻¹ as a function, to scale steps by."""
        λ = ridge_vector(ridge, self.size).reshape(len(self.classes), -1).mean(axis=0)
        if not (λ[:-1] == λ[0]).all():
            return self.as_written().nearly_factorized(ridge)
        rest = TensorSolve(self.classes_there, self.features_there, float(λ[0]), float(λ[-1]))
        return rest if not len(self.centres) else CorrectedSolve(rest, *self.labels_there)

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
        """S in the basis of U."""
        S = self.features
        values, basis = torch.linalg.eigh(S[:-1, :-1])
        return Bordered(values.clamp(min=0.0), basis, basis.T @ S[:-1, -1], S[-1, -1])

    @cached_property
    def labels_there(self) -> tuple[Any, Any]:
        """The b_k in the basis of V, and the ν_k in that of U."""
        (_, V), S = self.classes_there, self.features_there
        return self.directions @ V, S.turned(self.centres)

    def as_written(self) -> Centred:
        """Return what a file can hold of it."""
        classes, features = as_array(self.classes), as_array(self.features)
        return Centred(classes, features, as_array(self.directions), as_array(self.centres), self.majorizes)


def _balanced(C: Any) -> Any:
    """Return the class matrix with a trace of n − 1."""
    total = C.trace() / max(len(C) - 1, 1)
    return C / total if len(C) > 1 and total > 0 else torch.eye(len(C), dtype=C.dtype, device=C.device)


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


class OnDevice:
    """What solves on a device have in common: vectors are rotated to where both matrices are diagonal, and back."""

    def __call__(self, b: Array) -> Array:
        """Return the solution."""
        solved: Array = self.there(torch.as_tensor(b).to(self.rest.classes[1].device)).cpu().numpy()
        return solved

    def there(self, b: Any) -> Any:
        """Return the solution of a tensor, in its precision."""
        (γ, V), S = self.rest.classes, self.rest.features
        R = self.solved(S.turned(V.T @ b.double().reshape(len(γ), -1)))
        return (V @ S.turned_back(R)).ravel().to(b.dtype)

    def as_written(self) -> None:
        """Return nothing: what is on a device is found again there."""

    @property
    def rest(self) -> TensorSolve:
        """The one that knows the bases."""
        raise NotImplementedError

    def solved(self, R: Any) -> Any:
        """Return the solution where both matrices are diagonal."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class TensorSolve(OnDevice):
    """(C ⊗ S + diag(ridge))⁻¹: the last column is eliminated where the others are diagonal."""

    classes: tuple[Any, Any]
    features: Bordered
    ridge: float
    last: float  # of the last column

    @property
    def rest(self) -> TensorSolve:
        """The same."""
        return self

    def solved(self, R: Any) -> Any:
        """Return the solution where both matrices are diagonal."""
        inverse, along, corner = self._inverse
        z = (R[:, -1] - (along * R[:, :-1]).sum(dim=1)) * corner
        return torch.cat([inverse * R[:, :-1] - along * z[:, None], z[:, None]], dim=1)

    def between(self, b: Any, N: Any) -> Any:
        """Return (b_k ⊗ ν_k)ᵀ times the inverse times (b_l ⊗ ν_l), for all k and l."""
        γ = self.classes[0]
        inverse, along, corner = self._inverse
        total = b.new_zeros(len(b), len(b))
        for level in torch.unique(γ):
            rows = torch.nonzero(γ == level)[:, 0]
            first, D = rows[0], b[:, rows]
            left = N[:, -1] - N[:, :-1] @ along[first]
            features = (N[:, :-1] * inverse[first]) @ N[:, :-1].T + corner[first] * torch.outer(left, left)
            total += (D @ D.T) * features
        return total

    @cached_property
    def _inverse(self) -> tuple[Any, Any, Any]:
        """Return 1/(γ_k α_i + λ), that times the border, and what is left of the corner without the rest, inverted."""
        (γ, _), S = self.classes, self.features
        entries = γ[:, None] * S.values + self.ridge
        inverse = torch.where(entries > 0, 1.0 / entries, 0.0)
        along = γ[:, None] * S.border * inverse
        left = γ * S.corner + self.last - (γ[:, None] * S.border * along).sum(dim=1)
        left = torch.maximum(left, 1e-10 * (γ * S.corner + self.last))
        return inverse, along, torch.where(left > 0, 1.0 / left, 0.0)


@dataclass(frozen=True, eq=False)
class CorrectedSolve(OnDevice):
    """The same with a direction for each label, by Woodbury's identity."""

    without: TensorSolve
    directions: Any
    centres: Any

    @property
    def rest(self) -> TensorSolve:
        """That without labels."""
        return self.without

    def solved(self, R: Any) -> Any:
        """Return the solution where both matrices are diagonal."""
        b, N = self.directions, self.centres
        Z = self.without.solved(R)
        along = torch.cholesky_solve(((b @ Z) * N).sum(dim=1, keepdim=True), self._factor)
        return Z - self.without.solved(b.T @ (along * N))

    @cached_property
    def _factor(self) -> Any:
        inner = self.without.between(self.directions, self.centres)
        return torch.linalg.cholesky(inner + torch.eye(len(inner), dtype=inner.dtype, device=inner.device))

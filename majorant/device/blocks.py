"""Blocks of tensors: tasks are sent to the device that holds them, and what has been added up comes back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property, partial
from types import MethodType
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike

from majorant.core.checks import Array
from majorant.core.curvature import LEAST, Solve, ridge_vector
from majorant.core.model import Model
from majorant.core.rounding import ClassSpreads, Spreads
from majorant.core.rows import Blocks, Cached, Data, Function, Gives, LocalBlocks, Recompute, Reducer
from majorant.core.structured import Kronecker
from majorant.core.threads import as_array
from majorant.device.matrix import CHUNK


@dataclass(frozen=True, eq=False)
class TensorSpreads(Spreads):
    """:class:`ClassSpreads` of tensors."""

    roots: tuple[Any, ...]

    def exact(self, batch: Any) -> float:
        """Return the sum of the two largest ‖R_cᵀx‖ of a row, or the largest where there is one."""
        width, largest = max(batch.n_features, len(self.roots), 1), 0.0
        for block in batch.batches(max(CHUNK // width, 1)):
            squares = torch.stack([block.design.times(root).square().sum(dim=1) for root in self.roots])
            largest = max(largest, _largest(squares.sqrt(), block.weight))
        return largest

    def coarse(self, batch: Any) -> float:
        """Return the same of Σ_i |x_i| ‖R_ci‖."""
        sizes = torch.stack([root.norm(dim=1) for root in self.roots])
        return _largest(batch.design.absolute()[0].project(sizes), batch.weight)


def _largest(distances: Any, weight: Any) -> float:
    sums = distances[0] if len(distances) == 1 else distances.topk(2, dim=0).values.sum(dim=0)
    sums = sums if weight is None else sums[weight > 0]
    return float(sums.max()) if len(sums) else 0.0


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
        return torch.exp2(torch.round(4 * torch.log2(values)) / 4), basis  # within 2^¼ they are taken to be the same

    @cached_property
    def features_there(self) -> Bordered:
        """G in the basis of U."""
        G = self.features
        values, basis = torch.linalg.eigh(G[:-1, :-1])
        return Bordered(values.clamp(min=0.0), basis, basis.T @ G[:-1, -1], G[-1, -1])

    def as_written(self) -> Kronecker:
        """Return the curvature as arrays, for a file."""
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
        turned_back = torch.cat([solved[:, :-1] @ G.basis.T, solved[:, -1:]], dim=1)
        return (V @ turned_back).ravel().to(b.dtype)

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


# Bytes of a block, columns and scores of a row together, in the precision of products: large enough for a GPU.
BLOCK = 2**29
# What PyTorch says when a device is lost.
GONE = ("CUDA error", "HIP error", "NCCL error", "CUBLAS_STATUS", "CUSOLVER_STATUS", "device-side")
# What adds up a gradient.
GRADIENTS = ("evaluate", "gradient_there", "loss_and_gradient", "unit_step")
# Parameters of which a copy takes longer than the calls that steps on a device consist of.
MANY = 100_000


@dataclass(frozen=True)
class OnDevice(Reducer):
    """On a device with tensors, in blocks as large as suit it.

    Parameters
    ----------
    device : torch.device
    scores : int
        Of a row.
    points_stay : bool
        Whether parameters and gradients, if they are many, are tensors, for solvers that can step on them.
    """

    device: torch.device
    scores: int
    points_stay: bool = False

    def of_steps(self) -> OnDevice:
        return replace(self, points_stay=True)

    def spread(self, data: Data, rows: int) -> Blocks:
        design = data.like.design
        most = min(BLOCK, 0.1 * free_memory(self.device))  # several blocks are in memory at a time
        rows_per_block = max(int(most / (design.dtype.itemsize * (design.shape[1] + self.scores))), 1)
        return DeviceBlocks(data.blocks(rows_per_block), self.device, points_stay=self.points_stay)


class DeviceBlocks(LocalBlocks):
    """Blocks of tensors on a device."""

    estimates: ClassVar[bool] = True

    def __init__(self, blocks: Any, device: torch.device, *, points_stay: bool = False) -> None:
        super().__init__(blocks)
        self._device, self._points_stay = device, points_stay

    def has_room(self, numbers: float) -> bool:
        return 8.0 * numbers <= min(10.5 * 2**30, 0.4 * free_memory(self._device))

    def run(
        self, function: Function, *cached: Cached, gives: Gives = "both", recover: Function | None = None
    ) -> tuple[Any, Cached]:
        cached = tuple([self._sent(part) if isinstance(part, Recompute) else part for part in cached])
        with torch.no_grad(), _in_words(self._device):
            total, values = super().run(self._sent(function), *cached, gives=gives)
            return brought(total, arrays=not stays(function, recover)), values

    def total_of_large(self, function: Function, rows: int, size: int, *cached: Cached) -> Any:
        return self.total(function, *cached)

    def kronecker(self, classes: Any, features: Any) -> Kronecker:
        C, n = self.placed(classes), len(classes)
        total = C.trace() / max(n - 1, 1)
        balanced = C / total if n > 1 and total > 0 else torch.eye(n, dtype=C.dtype, device=C.device)
        return TensorKronecker(balanced, self.placed(features))

    def parameters(self, theta: ArrayLike) -> Any:
        if isinstance(theta, torch.Tensor):
            return theta if self._points_stay else as_array(theta)
        θ = super().parameters(theta)
        return self.placed(θ) if self._points_stay and len(θ) > MANY else θ

    def placed(self, vector: Array) -> Any:
        return torch.as_tensor(vector).to(self._device)

    def _sent(self, value: Any) -> Any:
        """Return a function for tensors: parameters on the device, and models that know what to do with them."""
        if isinstance(value, Model):
            return value.on_tensors()
        if isinstance(value, ClassSpreads):
            return self._sent(TensorSpreads(value.triangles))
        if isinstance(value, np.ndarray):
            return torch.as_tensor(value).to(self._device)
        if isinstance(value, tuple):
            return tuple([self._sent(part) for part in value])
        if isinstance(value, MethodType):
            return getattr(self._sent(value.__self__), value.__name__)
        if isinstance(value, partial):
            return partial(self._sent(value.func), *self._sent(value.args), **value.keywords)
        if is_dataclass(value) and not isinstance(value, type):
            return replace(value, **{field.name: self._sent(getattr(value, field.name)) for field in fields(value)})
        return value


def stays(function: Function, recover: Function | None) -> bool:
    """Return whether arrays that a function adds up are of use on the device: a gradient beside such parameters is."""
    at: tuple[Any, ...] = () if recover is None else recover.args  # type: ignore[attr-defined]
    while isinstance(function, partial):
        at, function = (*function.args, *at), function.func
    name = function.__name__
    return name == "mean_gram" or (name in GRADIENTS and any(isinstance(value, torch.Tensor) for value in at))


def brought(total: Any, *, arrays: bool = True) -> Any:
    """Return sums from a device as numbers, and as arrays if they are wanted."""
    if isinstance(total, tuple):
        return tuple([brought(part, arrays=arrays) for part in total])
    if not isinstance(total, torch.Tensor):
        return total
    if total.ndim == 0:
        return total.item()
    if not arrays:
        return total
    copied = torch.empty(total.shape, dtype=total.dtype, pin_memory=total.is_cuda)  # several times as fast to copy to
    return copied.copy_(total).numpy()


def free_memory(device: torch.device) -> float:
    """Return the number of free bytes, those that PyTorch holds for later included."""
    if device.type != "cuda":
        return float("inf")
    held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return float(torch.cuda.mem_get_info(device)[0] + held)


@contextmanager
def _in_words(device: torch.device) -> Iterator[None]:
    """Say what can be done where a device has too little memory, or is gone."""
    try:
        yield
    except torch.OutOfMemoryError as problem:
        free = free_memory(device) / 2**30
        raise MemoryError(
            f"{device} has {free:.1f} GiB free, too little for a block of rows: free some (del tensors, "
            "torch.cuda.empty_cache()), or leave X in host memory and pass it as an array"
        ) from problem
    except RuntimeError as problem:
        if not any(sign in str(problem) for sign in GONE):
            raise
        raise RuntimeError(
            f"{device} failed in the middle of a fit ({str(problem).splitlines()[0]}): this process cannot use it any "
            "more. Start another one; where there was a Checkpoint, fit(..., resume_from=path) goes on from there, on "
            "any device"
        ) from problem

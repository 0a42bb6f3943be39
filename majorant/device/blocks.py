"""Blocks of tensors: tasks are sent to the device that holds them, and what has been added up comes back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from types import MethodType
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike

from majorant.core.checks import Array
from majorant.core.model import Model
from majorant.core.rounding import ClassSpreads
from majorant.core.rows import Blocks, Cached, Data, Function, Gives, LocalBlocks, Recompute, Reducer
from majorant.core.structured import Kronecker
from majorant.core.threads import as_array
from majorant.device.curvature import TensorKronecker, TensorSpreads

# Bytes of a block, columns and scores of a row together, in the precision of products: large enough for a GPU; and what
# share of the memory that is free it may be, since there are several at a time.
BLOCK, BLOCK_SHARE = 2**29, 0.1
# What PyTorch says when a device is lost.
GONE = ("CUDA error", "HIP error", "NCCL error", "CUBLAS_STATUS", "CUSOLVER_STATUS", "device-side")
# What may be kept with blocks: bytes, and a share of the memory that is free.
KEPT, KEPT_SHARE = 10.5 * 2**30, 0.4
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
        """Return the same where parameters and gradients stay on the device from step to step."""
        return replace(self, points_stay=True)

    def spread(self, data: Data, rows: int) -> Blocks:
        """Return blocks of as many rows as the device is quick with."""
        design = data.like.design
        most = min(BLOCK, BLOCK_SHARE * free_memory(self.device))
        many = max(int(most / (design.dtype.itemsize * (design.shape[1] + self.scores))), 1)
        return DeviceBlocks(data.blocks(many), self.device, points_stay=self.points_stay)


class DeviceBlocks(LocalBlocks):
    """Blocks of tensors on a device."""

    estimates: ClassVar[bool] = True

    def __init__(self, blocks: Any, device: torch.device, *, points_stay: bool = False) -> None:
        super().__init__(blocks)
        self._device, self._points_stay = device, points_stay

    def has_room(self, numbers: float) -> bool:
        """Return whether memory is sure to be enough, in double precision."""
        return 8.0 * numbers <= min(KEPT, KEPT_SHARE * free_memory(self._device))

    def run(
        self, function: Function, *cached: Cached, gives: Gives = "both", recover: Function | None = None
    ) -> tuple[Any, Cached]:
        cached = tuple([self._sent(part) if isinstance(part, Recompute) else part for part in cached])
        with torch.no_grad(), _in_words(self._device):
            total, values = super().run(self._sent(function), *cached, gives=gives)
            return brought(total, arrays=not stays(function, recover)), values

    def total_of_large(self, function: Function, rows: int, size: int, *cached: Cached) -> Any:
        """Return the sum over all blocks, which are large."""
        return self.total(function, *cached)

    def kronecker(self, classes: Any, features: Any) -> Kronecker:
        """Return C ⊗ G, whose eigenvectors are found on the device."""
        C, n = self.placed(classes), len(classes)
        total = C.trace() / max(n - 1, 1)
        balanced = C / total if n > 1 and total > 0 else torch.eye(n, dtype=C.dtype, device=C.device)
        return TensorKronecker(balanced, self.placed(features))

    def parameters(self, theta: ArrayLike) -> Any:
        """Return parameters as an array, or, if they are many and points stay here, as a tensor on the device."""
        if isinstance(theta, torch.Tensor):
            return theta if self._points_stay else as_array(theta)
        θ = super().parameters(theta)
        return self.placed(θ) if self._points_stay and len(θ) > MANY else θ

    def placed(self, vector: Array) -> Any:
        """Return a vector of parameters on the device."""
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
            return replace(value, **{each.name: self._sent(getattr(value, each.name)) for each in fields(value)})
        return value


def stays(function: Function, recover: Function | None) -> bool:
    """Return whether arrays that a function adds up are of use on the device: a gradient beside such parameters is."""
    at: tuple[Any, ...] = () if recover is None else recover.args  # type: ignore[attr-defined]
    while isinstance(function, partial):
        at, function = (*function.args, *at), function.func
    name = function.__name__
    return name == "mean_gram" or (name in GRADIENTS and any(isinstance(value, torch.Tensor) for value in at))


def brought(total: Any, *, arrays: bool = True) -> Any:
    """Return what was added up on a device as numbers here, and arrays as well, if they are wanted."""
    if isinstance(total, tuple):
        return tuple([brought(each, arrays=arrays) for each in total])
    if not isinstance(total, torch.Tensor):
        return total
    if total.ndim == 0:
        return total.item()
    if not arrays:
        return total
    copied = torch.empty(total.shape, dtype=total.dtype, pin_memory=total.is_cuda)  # several times as fast to copy to
    return copied.copy_(total).numpy()


def free_memory(device: torch.device) -> float:
    """Return how many bytes are free, those that PyTorch holds for later included."""
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

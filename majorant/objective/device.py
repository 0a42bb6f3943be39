"""Blocks of tensors: tasks are sent to the device that holds them, and what has been added up comes back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch

from majorant._checks import Array
from majorant.curvature import Centred
from majorant.curvature.centred_tensor import TensorCentred
from majorant.data.base import Data
from majorant.models import Model
from majorant.models.spreads import ClassSpreads
from majorant.models.tensors import twin, twin_of_spreads
from majorant.objective.reduce import Blocks, Kept, LocalBlocks, Reducer, Task

# Bytes of a block, columns and scores of a row together, in the precision of products: large enough for a GPU.
BLOCK = 2**29
# What PyTorch says when a device is lost.
GONE = ("CUDA error", "HIP error", "NCCL error", "CUBLAS_STATUS", "CUSOLVER_STATUS", "device-side")
# What may be kept with blocks: bytes, and a share of the memory that is free.
KEPT, KEPT_SHARE = 10.5 * 2**30, 0.4


@dataclass(frozen=True)
class OnDevice(Reducer):
    """On a device with tensors, in blocks as large as suit it.

    Parameters
    ----------
    device : torch.device
    scores : int
        Of a row.
    """

    device: torch.device
    scores: int

    def spread(self, data: Data, rows: int) -> Blocks:
        """Return blocks of as many rows as the device is quick with."""
        design = data.like.design
        many = max(BLOCK // (design.dtype.itemsize * (design.shape[1] + self.scores)), 1)
        return DeviceBlocks(data.blocks(many), self.device)


class DeviceBlocks(LocalBlocks):
    """Blocks of tensors on a device."""

    estimates: ClassVar[bool] = True

    def __init__(self, blocks: Any, device: torch.device) -> None:
        super().__init__(blocks)
        self._device = device

    def keep(self, numbers: float) -> bool:
        """Return whether memory is sure to be enough, in double precision."""
        return 8.0 * numbers <= min(KEPT, KEPT_SHARE * free_memory(self._device))

    def run(self, task: Task, *kept: Kept) -> tuple[Any, Kept]:
        """Return the sum over all blocks, and what was kept with them."""
        with torch.no_grad(), _in_words(self._device):
            total, pieces = super().run(self._sent(task), *kept)
            return brought(total), pieces

    def total_of_large(self, task: Task, rows: int, size: int, *kept: Kept) -> Any:
        """Return the sum over all blocks, which are large."""
        return self.total(task, *kept)

    def scaling(self, curvature: Centred) -> Centred:
        """Return a curvature whose eigenvectors are found on the device."""
        return TensorCentred.of_arrays(curvature, self._device)

    def placed(self, vector: Array) -> Any:
        """Return a vector of parameters on the device."""
        return torch.as_tensor(vector).to(self._device)

    def _sent(self, value: Any) -> Any:
        """Return a task for tensors: parameters that are on the device, and models that know what to do with them."""
        if isinstance(value, Model):
            return twin(value)
        if isinstance(value, ClassSpreads):
            return self._sent(twin_of_spreads(value))
        if isinstance(value, np.ndarray):
            return torch.as_tensor(value).to(self._device)
        if isinstance(value, tuple):
            return tuple([self._sent(each) for each in value])
        if is_dataclass(value) and not isinstance(value, type):
            return replace(value, **{each.name: self._sent(getattr(value, each.name)) for each in fields(value)})
        return value


def brought(total: Any) -> Any:
    """Return what was added up on a device as numbers and arrays here."""
    if isinstance(total, tuple):
        return tuple([brought(each) for each in total])
    if not isinstance(total, torch.Tensor):
        return total
    if total.ndim == 0:
        return total.item()
    here = torch.empty(total.shape, dtype=total.dtype, pin_memory=total.is_cuda)  # several times as fast to copy to
    return here.copy_(total).numpy()


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

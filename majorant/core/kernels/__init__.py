"""Loops over arrays, which know no model, objective or solver.

``partition`` is NumPy; what BLAS cannot do is compiled by Numba: sweeps over outcomes or rows.

Scores are *class-major*: ``scores[y, j]`` is the log-potential ``log h_j(y) + θᵀf_j(y)`` of outcome ``y`` in row ``j``,
so that a sweep over rows is contiguous in memory. Those of single rows have the outcomes side by side.

Numba is slow to load, so a module is loaded when it is first asked for: ``from majorant.core import kernels`` costs
nothing.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from majorant.core.kernels import (
        compiler,
        dual,
        logistic,
        partition,
        partition_compiled,
        products,
        softmax,
        sparse,
        stochastic,
    )

__all__ = [
    "compiler",
    "dual",
    "logistic",
    "partition",
    "partition_compiled",
    "products",
    "softmax",
    "sparse",
    "stochastic",
]

if not TYPE_CHECKING:  # a type checker would believe in any name

    def __getattr__(name: str) -> ModuleType:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return import_module(f"{__name__}.{name}")

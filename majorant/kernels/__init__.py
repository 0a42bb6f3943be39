"""The loops where the time goes: functions of arrays that know no model, objective or solver.

``partition``, ``softmax``, ``hidden`` and ``logistic`` are NumPy: they see scores only and return what they find. What
BLAS cannot do is compiled by Numba: sweeps over outcomes, rows or tokens that may see parameters and data as well, and
write where they are told to.

Scores are *class-major*: ``scores[y, j]`` is the log-potential ``log h_j(y) + θᵀf_j(y)`` of outcome ``y`` in row ``j``,
so that a sweep over rows is contiguous in memory. Those of chains, and of single rows, have the outcomes side by side.

Numba is slow to load, so a module is loaded when it is first asked for: ``from majorant import kernels`` costs nothing,
and ``kernels.sgd`` is paid for by who gets there.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from majorant.kernels import (
        chain,
        chain_dual,
        chain_latent,
        chain_online,
        chain_paths,
        dense,
        dual,
        elementary,
        gram,
        hidden,
        hidden_compiled,
        logistic,
        logistic_compiled,
        low_rank,
        optional,
        partition,
        partition_compiled,
        row_loops,
        row_products,
        rows,
        sgd,
        softmax,
        softmax_compiled,
        sparse,
        stored,
    )

__all__ = [
    "chain",
    "chain_dual",
    "chain_latent",
    "chain_online",
    "chain_paths",
    "dense",
    "dual",
    "elementary",
    "gram",
    "hidden",
    "hidden_compiled",
    "logistic",
    "logistic_compiled",
    "low_rank",
    "optional",
    "partition",
    "partition_compiled",
    "row_loops",
    "row_products",
    "rows",
    "sgd",
    "softmax",
    "softmax_compiled",
    "sparse",
    "stored",
]

if not TYPE_CHECKING:  # a type checker would believe in any name

    def __getattr__(name: str) -> ModuleType:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return import_module(f"{__name__}.{name}")

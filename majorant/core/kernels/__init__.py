"""Loops over arrays, which know no model, objective or solver.

``partition`` is NumPy; what BLAS cannot do is compiled by Numba: sweeps over outcomes or rows.

Scores are *class-major*: ``scores[y, j]`` is the log-potential ``log h_j(y) + θᵀf_j(y)`` of outcome ``y`` in row ``j``,
so that a sweep over rows is contiguous in memory. Those of single rows have the outcomes side by side.

Numba is slow to load, so a module is loaded when it is first asked for: ``from majorant.core import kernels`` costs
nothing. Loops over few numbers have twins in NumPy, and :func:`worth_compiling` chooses between both.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from majorant.core.kernels import (
        choices,
        compiler,
        dual,
        entropy,
        logistic,
        partition,
        partition_compiled,
        products,
        quasi_newton,
        softmax,
        sparse,
        stochastic,
    )

__all__ = [
    "choices",
    "compiler",
    "dual",
    "entropy",
    "logistic",
    "partition",
    "partition_compiled",
    "products",
    "quasi_newton",
    "softmax",
    "sparse",
    "stochastic",
    "worth_compiling",
]

# Numbers of a problem from which compiled loops save more than it takes to load them: 0.2 s in a process that finds
# them compiled. NumPy takes up to 1.3 times as long as they do for fewer numbers.
WORTH_COMPILING = 2**21


def worth_compiling(numbers: float, classes: int = 1) -> bool:
    """Return whether compiled loops are worth loading: a rule by shape, so that fits can be repeated to the bit.

    Parameters
    ----------
    numbers : float
        Stored numbers of all rows, of which those at hand may be some.
    classes : int
        How many vectors each of them is multiplied by.
    """
    return numbers * max(classes, 1) >= WORTH_COMPILING


if not TYPE_CHECKING:  # a type checker would believe in any name

    def __getattr__(name: str) -> ModuleType:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return import_module(f"{__name__}.{name}")

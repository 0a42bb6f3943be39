"""Loops over arrays, which know no model, objective or solver.

``partition`` and ``quadratic`` are NumPy; what BLAS cannot do is compiled by Numba: sweeps over outcomes or rows.

Scores are *class-major*: ``scores[y, j]`` is the log-potential ``log h_j(y) + θᵀf_j(y)`` of outcome ``y`` in row ``j``,
so that a sweep over rows is contiguous in memory. Those of single rows have the outcomes side by side.

Numba is slow to load, so a module is loaded when it is first asked for: ``from majorant.core import kernels`` costs
nothing. Loops over few numbers have twins in NumPy, and :func:`worth_compiling` chooses between both.

Rows as compiled kernels take them, dense or sparse: tuples of arrays that belong together.

Numba takes a microsecond longer to read such a tuple than to read its arrays, so it is for kernels that visit many rows
or tokens in a call. Indices of columns are unsigned: compiled loops then need not ask whether they are negative.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from majorant.core.checks import Array

if TYPE_CHECKING:
    from majorant.core.kernels import (
        choices,
        compiler,
        coordinates,
        dual,
        entropy,
        logistic,
        partition,
        products,
        quadratic,
        softmax,
        stochastic,
    )

__all__ = [
    "choices",
    "compiler",
    "coordinates",
    "dual",
    "entropy",
    "logistic",
    "partition",
    "products",
    "quadratic",
    "softmax",
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


# --- rows as kernels take them ------------------------------------------------------------------------------


class Csr(NamedTuple):
    """A matrix by its non-zeros: those of row j stand from indptr[j] to indptr[j+1]."""

    data: Array
    indices: Array
    indptr: Array

    @classmethod
    def of(cls, X: Any) -> Csr:
        """Return the arrays of a SciPy CSR matrix."""
        return cls(X.data, X.indices.view(f"u{X.indices.itemsize}"), X.indptr)


class Stored(NamedTuple):
    """What is stored of X, an array or a :class:`Csr`, what its columns are measured from, and if ones are a last one.

    ``shift`` is empty where they are measured from zero.
    """

    rows: Any
    shift: Array
    constant: bool


class Occurrences(NamedTuple):
    """The attributes of tokens: those of token t stand from indptr[t] to indptr[t+1]; without values all are ones.

    Attribute a has a parameter for each label it was seen with, from first[a] to first[a+1], and label[f] says which.
    """

    indptr: Array
    attributes: Array
    values: Array | None
    first: Array
    label: Array


class Features(NamedTuple):
    """The same with parameters looked up. Attributes with many labels are rows of a table, which add faster as such.

    Token t has rows[row_starts[t]:row_starts[t+1]] of the table, and codes[starts[t]:starts[t+1]] of single parameters:
    the last ``bits`` of a code are its label, what stands before is its place. ``mask`` has these bits set.
    """

    row_starts: Array
    rows: Array
    row_values: Array | None
    starts: Array
    codes: Array
    values: Array | None
    bits: Any
    mask: Any

    def part(self, begin: int, end: int) -> Features:
        """Return the features of tokens ``begin`` … ``end`` − 1, as views."""
        rows = slice(int(self.row_starts[begin]), int(self.row_starts[end]))
        codes = slice(int(self.starts[begin]), int(self.starts[end]))
        return self._replace(
            row_starts=self.row_starts[begin : end + 1] - self.row_starts[begin],
            rows=self.rows[rows],
            row_values=None if self.row_values is None else self.row_values[rows],
            starts=self.starts[begin : end + 1] - self.starts[begin],
            codes=self.codes[codes],
            values=None if self.values is None else self.values[codes],
        )

    def squared(self) -> Features:
        """Return the same with every value squared."""
        if self.values is None or self.row_values is None:
            return self
        return self._replace(row_values=self.row_values**2, values=self.values**2)

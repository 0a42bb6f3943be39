"""Sparse structures as compiled kernels take them: tuples of arrays that belong together.

Numba takes a microsecond longer to read such a tuple than to read its arrays, so it is for kernels that visit many rows
or tokens in a call. Indices of columns are unsigned: compiled loops then need not ask whether they are negative.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from majorant._checks import Array


class Csr(NamedTuple):
    """A matrix by its non-zeros: those of row j stand from indptr[j] to indptr[j+1]."""

    data: Array
    indices: Array
    indptr: Array

    @classmethod
    def of(cls, X: Any) -> Csr:
        """Return the arrays of a SciPy CSR matrix."""
        return cls(X.data, X.indices.view(f"u{X.indices.itemsize}"), X.indptr)


class Occurrences(NamedTuple):
    """The attributes of tokens: those of token t stand from indptr[t] to indptr[t+1]; without values all are ones.

    Attribute a has a parameter for each label it was seen with, from first[a] to first[a+1], and label[f] says which.
    """

    indptr: Array
    attributes: Array
    values: Array | None
    first: Array
    label: Array


class Placements(NamedTuple):
    """The same with parameters looked up: an occurrence says where they begin and how many they are.

    Or, if that is zero, which row of a table holds them: attributes with many labels add faster as whole rows.
    """

    indptr: Array
    where: Array
    counts: Array
    values: Array | None
    label: Array

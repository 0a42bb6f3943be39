"""What problems over the same rows, or some of them, have in common whatever their labels: products of columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, eq=False)
class MeanProducts:
    """The mean of x_j x_jᵀ.

    Parameters
    ----------
    gram : array or tensor of shape (p, p)
        Wherever the rows are.
    rows : float
        How many rows it was made from.
    centred : bool
        Whether columns are measured from their means: then it says how other rows vary around theirs.
    """

    gram: Any
    rows: float
    centred: bool


@dataclass(frozen=True, eq=False)
class CommonGram:
    """The mean of x_j x_jᵀ, in each precision in which it was asked for: who needs it first leaves it to the others."""

    known: dict[Any, MeanProducts] = field(default_factory=dict)

    def learn(self, dtype: Any, found: MeanProducts) -> None:
        """Keep what was found, unless that of more rows is known."""
        before = self.known.get(dtype)
        if before is None or before.rows <= found.rows:
            self.known[dtype] = found

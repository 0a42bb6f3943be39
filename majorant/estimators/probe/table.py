"""What a sweep has found, as a table: text, HTML in notebooks, a data frame, or a figure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from majorant._axes import new_axes
from majorant._checks import Array
from majorant._extras import needed
from majorant._html import table


class Row(NamedTuple):
    """One C of a sweep.

    ``gap`` is certified; ``estimate`` is what the last steps foretell that there is left to gain, relative to F, and
    certifies nothing. Either is NaN where it says nothing.
    """

    C: float
    score: float
    loss: float
    gap: float
    estimate: float
    passes: float
    seconds: float


class SweepTable(Mapping[str, Array]):
    """One row for each C that was fitted, from the smallest on; ``table["score"]`` is a column.

    Examples
    --------
    >>> table = SweepTable([Row(0.1, 0.7, 0.9, 1e-5, 1e-6, 4.0, 0.1), Row(1.0, 0.8, 0.6, np.nan, 2e-5, 9.0, 0.2)], 1)
    >>> table["score"]
    array([0.7, 0.8])
    >>> print(table)
         C  score  loss    gap  estimate  passes  seconds
       0.1    0.7   0.9  1e-05     1e-06       4      0.1
    *    1    0.8   0.6            2e-05       9      0.2
    """

    def __init__(self, rows: Sequence[Row], best: int) -> None:
        self.rows, self.best = tuple(rows), best

    @classmethod
    def of(cls, columns: Mapping[str, Array], best: int) -> SweepTable:
        """Return the table of these columns."""
        values = zip(*(columns[name] for name in Row._fields), strict=True)
        return cls([Row(*map(float, each)) for each in values], best)

    def __getitem__(self, name: str) -> Array:
        if name not in Row._fields:
            raise KeyError(f"{name!r}; the table has {', '.join(Row._fields)}")
        return np.array([getattr(row, name) for row in self.rows])

    def __iter__(self) -> Iterator[str]:
        return iter(Row._fields)

    def __len__(self) -> int:
        return len(Row._fields)

    def to_frame(self) -> Any:
        """Return the table as a pandas data frame."""
        return needed("pandas", "to_frame()", "frames").DataFrame(self.rows, columns=list(Row._fields))

    def cells(self) -> list[tuple[str, ...]]:
        """Return the numbers as they are printed."""
        return [tuple("" if np.isnan(value) else f"{value:.4g}" for value in row) for row in self.rows]

    def __str__(self) -> str:
        cells = [("", *Row._fields), *(("*" if k == self.best else "", *row) for k, row in enumerate(self.cells()))]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = (" ".join([row[0].ljust(1), *map(str.rjust, row[1:], (w + 1 for w in widths[1:]))]) for row in cells)
        return "\n".join(line.rstrip() for line in lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return table(Row._fields, self.cells(), marked=self.best)

    def plot(self, ax: Any = None, metric: str = "score") -> Any:
        """Draw score and held-out loss over C, the best marked; return the axes. Needs matplotlib."""
        axis = new_axes() if ax is None else ax
        C, best = self["C"], self.rows[self.best]
        # Labels have the colours of their curves: a legend would cover one of the two, or the user's title.
        axis.plot(C, self["score"], color="#0072B2", marker="o", ms=3)
        axis.plot([best.C], [best.score], color="#D55E00", marker="o", ls="")
        axis.set(xscale="log", xlabel=f"C (best: {best.C:.3g}, orange)")
        axis.set_ylabel(f"held-out {metric}", color="#0072B2")
        beside = axis.twinx()
        beside.plot(C, self["loss"], color="#707070", ls="--")
        beside.set_ylabel("held-out loss (dashed)", color="#707070")
        return axis

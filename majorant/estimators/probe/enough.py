"""What the last steps foretell that there is left to gain: an estimate, where certificates say nothing.

Of a tiny λ and many parameters a certificate takes far more passes than the fit; to compare scores it is not needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import nan
from typing import Any

from majorant._checks import Array
from majorant.callbacks import Callback, Fit

# Of the tolerance that two estimates in a row have to be below: they are no bounds.
SHARE = 0.1


def foretold(values: Any) -> float:
    """Return what is left to gain relative to F if gains go on to shrink as the last two did; NaN if they do not.

    With gains a then b that is b·(b/a)/(1 − b/a), the rest of a geometric series.

    Examples
    --------
    >>> foretold([1.5, 1.25, 1.125])
    0.1111111111111111
    """
    if len(values) < 3:
        return nan
    before, last = float(values[-3] - values[-2]), float(values[-2] - values[-1])
    if not 0 < last < before:
        return 0.0 if last == 0 else nan
    return last * last / (before - last) / abs(float(values[-1]))


@dataclass
class NearEnough(Callback):
    """Stops a fit when two steps in a row foretell that less than the tolerance is left to gain."""

    tol: float
    _values: list[float] = field(default_factory=list, init=False)
    _before: float = field(default=nan, init=False)

    def start(self, fit: Fit) -> None:
        """Forget the fit before."""
        self._values, self._before = [], nan

    def __call__(self, row: Mapping[str, float], theta: Array) -> bool:
        """Return whether to stop."""
        self._values.append(row["objective"])
        now, before = foretold(self._values), self._before
        self._before = now
        return now <= SHARE * self.tol and before <= SHARE * self.tol

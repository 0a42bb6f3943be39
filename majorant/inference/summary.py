"""A table of estimates as people know it: text, HTML in notebooks, or a data frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from majorant._checks import Array
from majorant._extras import needed
from majorant._html import paragraph, table

HEADINGS = ("estimate", "std. err.", "z", "p", "low", "high")
FRAME_COLUMNS = ("estimate", "std_err", "z", "p", "low", "high")


@dataclass(frozen=True)
class Facts:
    """What is said of a fit as a whole."""

    log_likelihood: float
    null_log_likelihood: float  # of parameters of zero
    observations: float
    parameters: int
    unit: str = "observations"  # what is independent of each other

    @property
    def aic(self) -> float:
        """2k − 2ℓ."""
        return 2.0 * self.parameters - 2.0 * self.log_likelihood

    @property
    def bic(self) -> float:
        """k log n − 2ℓ."""
        return self.parameters * float(np.log(self.observations)) - 2.0 * self.log_likelihood

    @property
    def rho_squared(self) -> float:
        """McFadden's 1 − ℓ/ℓ₀, against parameters of zero."""
        return 1.0 - self.log_likelihood / self.null_log_likelihood if self.null_log_likelihood else 0.0

    @property
    def adjusted_rho_squared(self) -> float:
        """1 − (ℓ − k)/ℓ₀."""
        shortened = self.log_likelihood - self.parameters
        return 1.0 - shortened / self.null_log_likelihood if self.null_log_likelihood else 0.0

    def lines(self) -> list[tuple[str, str]]:
        """Return names and values as they are printed."""
        return [
            (self.unit, f"{self.observations:g}"),
            ("parameters", str(self.parameters)),
            ("log-likelihood", f"{self.log_likelihood:.6f}"),
            ("null log-likelihood", f"{self.null_log_likelihood:.6f}"),
            ("ρ²", f"{self.rho_squared:.4f} (adjusted {self.adjusted_rho_squared:.4f})"),
            ("AIC", f"{self.aic:.3f}"),
            ("BIC", f"{self.bic:.3f}"),
        ]


@dataclass(frozen=True, eq=False)
class Summary:
    """Estimates with standard errors, z, two-sided p and a confidence interval, and what is said of the fit.

    ``str`` gives text, notebooks show HTML, :meth:`to_frame` returns a pandas data frame.
    """

    title: str
    names: tuple[str, ...]
    estimates: Array
    std_errors: Array
    level: float
    facts: Facts
    notes: tuple[str, ...] = field(default=())

    @property
    def z(self) -> Array:
        """Estimates in standard errors."""
        return np.divide(self.estimates, self.std_errors, out=np.zeros(len(self.names)), where=self.std_errors > 0)

    @property
    def p(self) -> Array:
        """Two-sided p-values of estimates being zero."""
        return 2.0 * ndtr(-np.abs(self.z))

    @property
    def interval(self) -> Array:
        """The confidence interval of each estimate (k×2)."""
        reach = ndtri(0.5 + 0.5 * self.level) * self.std_errors
        return np.stack([self.estimates - reach, self.estimates + reach], axis=1)

    def rows(self) -> list[tuple[float, ...]]:
        """Return the numbers of the table."""
        low, high = self.interval.T
        columns = (self.estimates, self.std_errors, self.z, self.p, low, high)
        return [tuple(float(each) for each in row) for row in zip(*columns, strict=True)]

    def to_frame(self) -> Any:
        """Return the table as a pandas data frame, one row for each parameter."""
        frames = needed("pandas", "to_frame()", "frames")
        return frames.DataFrame(self.rows(), index=list(self.names), columns=list(FRAME_COLUMNS))

    def __str__(self) -> str:
        cells = [("", *self._headings()), *zip(self.names, *zip(*self._cells(), strict=True), strict=True)]
        widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
        lines = [self.title, *(f"{name + ':':<21}{value}" for name, value in self.facts.lines()), ""]
        for row in cells:
            lines.append("  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip())
        return "\n".join([*lines, *self.notes])

    def _repr_html_(self) -> str:
        rows = [(name, *cells) for name, cells in zip(self.names, self._cells(), strict=True)]
        notes = map(paragraph, self.notes)
        shown = table((), self.facts.lines()), table(("", *self._headings()), rows)
        return "".join([paragraph(self.title, bold=True), *shown, *notes])

    def _headings(self) -> tuple[str, ...]:
        tail = 50.0 * (1.0 - self.level)
        return (*HEADINGS[:4], f"{tail:g} %", f"{100 - tail:g} %")

    def _cells(self) -> list[tuple[str, ...]]:
        return [
            (f"{estimate:.6g}", f"{error:.6g}", f"{z:.3f}", _printed_p(p), f"{low:.6g}", f"{high:.6g}")
            for estimate, error, z, p, low, high in self.rows()
        ]


def summarise(
    title: str,
    names: Sequence[str],
    estimates: Array,
    covariance: Array,
    facts: Facts,
    *,
    level: float = 0.95,
    notes: Sequence[str] = (),
) -> Summary:
    """Return the table of estimates with this covariance, or, of many, with these variances."""
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level!r}; 0.95 is usual")
    errors = np.sqrt(np.maximum(np.diag(covariance) if covariance.ndim == 2 else covariance, 0.0))
    return Summary(title, tuple(names), np.asarray(estimates), errors, level, facts, tuple(notes))


def _printed_p(p: float) -> str:
    return "<1e-4" if p < 1e-4 else f"{p:.4f}"

"""How many classes: fits side by side."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from majorant._extras import needed
from majorant._html import table

COLUMNS = ("classes", "parameters", "log_likelihood", "aic", "bic", "smallest_share", "starts_at_best")


@dataclass(frozen=True, eq=False)
class Comparison:
    """Fits with several numbers of classes: ``str`` and notebooks give a table, ``to_frame()`` a pandas data frame."""

    fits: tuple[Any, ...]

    @property
    def best(self) -> Any:
        """The fit with the least BIC."""
        return min(self.fits, key=lambda fit: fit.bic_)

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the numbers of the table."""
        return [
            (
                fit.n_classes_,
                fit._facts.parameters,
                fit.log_likelihood_,
                fit.aic_,
                fit.bic_,
                float(fit.shares_.min()),
                int(np.isclose(fit.start_log_likelihoods_, fit.start_log_likelihoods_.max(), rtol=1e-6).sum()),
            )
            for fit in self.fits
        ]

    def to_frame(self) -> Any:
        """Return the table as a pandas data frame."""
        frames = needed("pandas", "to_frame()", "frames")
        return frames.DataFrame(self.rows(), columns=list(COLUMNS)).set_index("classes")

    def __str__(self) -> str:
        cells = [COLUMNS, *self._cells()]
        widths = [max(len(row[i]) for row in cells) for i in range(len(COLUMNS))]
        return "\n".join("  ".join(map(str.rjust, row, widths)) for row in cells)

    def _repr_html_(self) -> str:
        return table(COLUMNS, self._cells(), marked=self.fits.index(self.best))

    def _cells(self) -> list[tuple[str, ...]]:
        return [tuple(f"{v:.4f}" if isinstance(v, float) else str(v) for v in row) for row in self.rows()]


class ByClasses:
    """``compare``, for an estimator with ``n_classes``."""

    def compare(
        self: Any, n_classes: Iterable[int], X: Any, y: Any, groups: Any, persons: Any = None, **more: Any
    ) -> Comparison:
        """Return fits with these numbers of classes, and a table of their log-likelihoods, AIC and BIC.

        Parameters
        ----------
        n_classes : iterable of int
        X, y, groups, persons, **more
            As for :meth:`fit`.

        Returns
        -------
        Comparison
            Printed it is a table; ``fits`` are the models, ``best`` is the one with the least BIC.
        """
        numbers = list(n_classes)
        if not numbers:
            raise ValueError("n_classes must hold at least one number of classes, such as range(1, 5)")
        fits = (clone(self).set_params(n_classes=n).fit(X, y, groups, persons, **more) for n in numbers)
        return Comparison(tuple(fits))

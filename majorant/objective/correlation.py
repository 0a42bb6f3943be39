"""How correlated columns are, from a few rows: whether a diagonal is all the curvature that steps need."""

from __future__ import annotations

import numpy as np

from majorant._checks import Array

# Rows that are compared, each with every other; fewer of wide data, where each pair tells more, so many numbers in all.
ROWS, LEAST_ROWS, NUMBERS = 128, 32, 2**17


def rows_to_compare(columns: int) -> int:
    """Return how many rows are looked at."""
    return min(max(NUMBERS // max(columns, 1), LEAST_ROWS), ROWS)


def eigenvalue_spread(rows: Array) -> float:
    """Return about (1/p) Σ_i (μ_i − 1)², with μ the eigenvalues of the correlation matrix R of the columns.

    Rows z of columns that are scaled to a variance of one have E(zᵀz')² = tr R², so Σμ_i² is a mean over pairs of rows
    and takes far fewer of them than R has entries. Rows count by their directions alone: a few long ones would decide.

    Parameters
    ----------
    rows : array of shape (r, p)
        Drawn without regard to what they hold. Columns that are constant there are left out.

    Returns
    -------
    float
        0 of columns that are uncorrelated, p − 1 if all are the same.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(128, 1))
    >>> eigenvalue_spread(rng.normal(size=(128, 50))) < 0.1, round(eigenvalue_spread(np.tile(z, 5)), 1)
    (True, 4.0)
    """
    Z = rows - rows.mean(axis=0)
    scale = np.sqrt(np.mean(Z * Z, axis=0))
    varies = scale > 1e-12 * np.abs(rows).max(axis=0, initial=0.0)
    Z = Z / scale if varies.all() else Z[:, varies] / scale[varies]  # which is a copy less
    lengths = np.linalg.norm(Z, axis=1)
    Z = Z[lengths > 0] / lengths[lengths > 0, None]
    r, p = Z.shape
    if r < 2:
        return 0.0
    cosines = Z @ Z.T
    others = float(np.sum(cosines * cosines)) - r
    return max(p * others / (r * (r - 1)) - 1.0, 0.0)

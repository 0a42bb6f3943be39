"""How correlated columns are, from a few rows: whether a diagonal is all the curvature that steps need."""

from __future__ import annotations

import numpy as np

from majorant._checks import Array

# Rows that are compared, each with half of the others; fewer of wide data, where each pair tells more, so many numbers
# in all.
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
    scale = np.sqrt(np.einsum("ji,ji->i", Z, Z) / max(len(Z), 1))
    varies = scale > 1e-12 * np.abs(rows).max(axis=0, initial=0.0)
    Z = Z / scale if varies.all() else Z[:, varies] / scale[varies]  # which is a copy less
    squares = np.einsum("ji,ji->j", Z, Z)
    Z, squares = (Z, squares) if squares.all() else (Z[squares > 0], squares[squares > 0])
    r, p = Z.shape
    if r < 2:
        return 0.0
    # Every other row with all of those between them: half of the pairs tell enough, at a third of the cost.
    products = np.dot(Z[::2], Z[1::2].T)
    others = float(1.0 / squares[::2] @ (products * products) @ (1.0 / squares[1::2]))
    return max(p * others / products.size - 1.0, 0.0)

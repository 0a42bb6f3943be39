"""The printed formulas that do not hold, each failing where the corrected one does not.

Numbers as in the table of errata of the documentation: E3 and E6 concern the low-rank curvature.
"""

import numpy as np

from majorant.curvature import LowRank
from tests import oracles


def absorb_as_printed(V, S, D, q):
    """Low-rank update of Jebara & Choromanska (NIPS 2012): p pᵀ and ‖g‖² kept, their cross terms dropped."""
    k = len(V)
    p = V @ q
    g = q - V.T @ p
    values, Q = np.linalg.eigh(S + np.outer(p, p))
    V, S = Q.T @ V, np.diag(values)
    weakest = int(np.argmin([*values, g @ g]))
    if weakest == k:
        return V, S, D + np.abs(g) * np.abs(g).sum()
    size = np.abs(V[weakest])
    D = D + values[weakest] * size * size.sum()
    S[weakest, weakest] = g @ g
    V[weakest] = g / np.linalg.norm(g)
    return V, S, D


def random_rows(seed):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(rng.integers(3, 30), 8)) * rng.exponential(size=8)


def test_e3_dropping_cross_terms_loses_the_bound():
    printed_fails = corrected_fails = 0
    for seed in range(200):
        rows = random_rows(seed)
        V, S, D = np.eye(3, 8), np.zeros((3, 3)), np.zeros(8)
        for q in rows:
            V, S, D = absorb_as_printed(V, S, D, q)
        printed = V.T @ S @ V + np.diag(D)
        corrected = LowRank.empty(3, 8, majorizes=True).absorb(rows).as_matrix()
        printed_fails += oracles.shortfall(printed, rows.T @ rows) > 1e-9
        corrected_fails += oracles.shortfall(corrected, rows.T @ rows) > 1e-9
    assert corrected_fails == 0
    assert printed_fails > 50


def test_e6_woodbury_needs_a_minus():
    low_rank, b, ridge = LowRank.empty(3, 8, majorizes=True).absorb(random_rows(0)), np.ones(8), 0.5
    V, S = low_rank.V, low_rank.S
    inverse_D = np.diag(1 / (low_rank.D + ridge))
    correction = inverse_D @ V.T @ np.linalg.inv(np.linalg.inv(S) + V @ inverse_D @ V.T) @ V @ inverse_D
    exact = np.linalg.solve(low_rank.as_matrix() + ridge * np.eye(8), b)
    np.testing.assert_allclose((inverse_D - correction) @ b, exact, rtol=1e-8)
    np.testing.assert_allclose(low_rank.solve(b, ridge), exact, rtol=1e-8)
    assert np.linalg.norm((inverse_D + correction) @ b - exact) > 0.1 * np.linalg.norm(exact)

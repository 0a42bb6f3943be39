"""How many steps there will be, before any is made, from how correlated columns are.

With v = (1/p) Σ(μ_i − 1)² over the eigenvalues μ of the correlations between columns, steps scaled by a diagonal were
found to be about 1 + ¾√v times as many as steps scaled by a matrix, on columns that are alike, autoregressive or made
of factors, from v = 0 to 14. Of t rows eigenvalues differ by p/t besides.
"""

from __future__ import annotations

from math import log, sqrt

from majorant.objective import Objective

# Steps where columns are uncorrelated; how many times as many, for each √v, a diagonal takes more; what of v is noise.
USUAL, EXCESS, UNSURE = 7.0, 0.75, 0.05
# What a copy in single precision costs, and how many steps in it one in double precision takes as long as.
COPY, WIDER = 2.0, 1.5
# The gain at which steps end, relative to F.
AIM = 1e-8


def excess(objective: Objective) -> float | None:
    """Return how many more steps, as a share, a diagonal takes than a matrix; None if nobody can tell."""
    spread = objective.facts.correlation
    if spread is None:
        return None
    columns = objective.size // objective.model.classes(objective.like)
    return EXCESS * sqrt(max(spread - UNSURE, 0.0) + columns / objective.rows)


def least_steps(objective: Objective) -> float:
    """Return how many steps a diagonal takes even where columns are uncorrelated."""
    columns = objective.size // objective.model.classes(objective.like)
    return USUAL * (1.0 + EXCESS * sqrt(columns / objective.rows))


def expected_steps(objective: Objective) -> float:
    """Return how many steps a diagonal is likely to take, if anybody can tell."""
    more = excess(objective)
    return least_steps(objective) if more is None else USUAL * (1.0 + more)


def saved_at_once(more: float, upkeep: float = 0.0) -> float:
    """Return how many steps a matrix saves from the first on, that makes each so much dearer."""
    return USUAL * (more - upkeep)


def saved(left: float, more: float, upkeep: float = 0.0) -> float:
    """Return how many it saves of those that would be left in a diagonal."""
    return left * (more - upkeep) / (1.0 + more)


def sample_pays(objective: Objective, rows: int, price: float, *, narrows: bool) -> bool:
    """Return whether steps from a sample are quicker than those in a diagonal, what it costs included.

    Its Hessian is wrong by p/r, and every step shrinks what is left about so much. ``narrows`` says whether those in a
    diagonal are made in single precision.
    """
    if objective.model.classes(objective.like) != 1:
        return True  # what is between classes, no diagonal knows
    after = log(AIM) / log(min(objective.size / rows, 0.5))
    costs, bearable = price + (WIDER if narrows else 1.0) * after, USUAL + (COPY if narrows else 0.0)
    if costs <= bearable:
        return True  # whatever the columns are
    more = excess(objective)
    return more is None or costs <= bearable + saved_at_once(more)

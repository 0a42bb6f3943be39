"""What is known of the optimum, in words."""

from __future__ import annotations

import numpy as np

from majorant._checks import Array
from majorant.objective import Certificate, Objective
from majorant.objective.separation import Separation
from majorant.solvers.saddles import LOOKS

# So many columns are named.
NAMED = 8


def counted(number: float, noun: str) -> str:
    """Return a number of things in words.

    Examples
    --------
    >>> counted(1, "step"), counted(0.5, "pass"), counted(20, "step")
    ('1 step', '0.5 passes', '20 steps')
    """
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{number:.15g} {noun if number == 1 else plural}"


def about_the_gap(found: Certificate, objective: Objective) -> str:
    """Return what a certificate says, after a semicolon."""
    near = f"; certified to be within {found.gap:.1e} of the optimum (relative)"
    return near + about_the_optimum(found, objective)


def about_the_optimum(found: Certificate, objective: Objective) -> str:
    """Return what is known besides the gap, after semicolons: how near every coefficient is, and that it exists."""
    if found.region is None:
        return ""
    near = f"; every coefficient is within {found.region.radius:.1e} standard errors of the optimum"
    if found.region.share < 1:
        near += f" (as {found.region.share:.0%} of the rows would have them)"
    penalty = objective.penalty
    if found.region.flat.size:
        names = columns_of(objective, found.region.undetermined)
        which = "the maximum-likelihood estimate" if not penalty.penalised.any() else "the optimum"
        several = names.startswith("columns") or " and " in names
        why = "which depend on each other" if several else "which changes no probability"
        return f"{near}, but those of {names}, {why}: {which} exists (proved), but is not unique"
    if not penalty.penalised.any():
        return f"{near}; a unique maximum-likelihood estimate exists (proved)"
    return near if penalty.everywhere else f"{near}; a unique optimum exists (proved)"


def about_separation(objective: Objective, found: Separation | None) -> str:
    """Return why there is no optimum; without a separation to name columns of, it is complete."""
    if found is None:
        return (
            "the data are completely separated and the parameters that separate them are not penalised, so the "
            "likelihood grows for ever as they do; penalise them"
        )
    how, names = "completely" if found.complete else "quasi-completely", columns_of(objective, found.parameters)
    what = "optimum" if objective.penalty.penalised.any() else "maximum-likelihood estimate"
    return (
        f"the data are {how} separated along {names}: no {what} exists, since the likelihood grows for ever as these "
        "parameters do, which are not penalised; penalise them"
    )


def about_saddles(left: int, *, is_saddle: bool) -> str:
    """Return what a look for negative curvature has found, and how many saddles were left before it."""
    before = "" if not left else f"left {'a saddle' if left == 1 else f'{left} saddles'}; "
    if is_saddle:
        return f"; {before}this is a saddle as well: another start may lead further"
    return f"; {before}{LOOKS} gradients found no negative curvature here: no saddle, as far as they tell"


def columns_of(objective: Objective, parameters: Array) -> str:
    """Return the columns that some parameters belong to, as words: by their names, or by their numbers."""
    p = objective.size // max(objective.model.redundancy(objective.like), 1)
    which = np.unique(np.flatnonzero(parameters) % p)
    last = p - 1 if getattr(objective.like, "constant", False) else p
    called = range(last) if objective.columns is None else objective.columns
    names = [str(called[column]) for column in which if column < last][:NAMED]
    if len(which) > len(names) + (last in which):
        names.append("…")
    words = [f"column {names[0]}" if len(names) == 1 else f"columns {', '.join(names)}"] if names else []
    return " and ".join([*words, *(["the intercept"] if last in which and last < p else [])])

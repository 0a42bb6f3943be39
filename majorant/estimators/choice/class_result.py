"""What is said of a fit of latent classes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from majorant._checks import Array
from majorant._solution import Outcome, Result
from majorant.estimators.choice.class_fit import Found
from majorant.estimators.choice.class_metric import is_large
from majorant.estimators.choice.class_saddles import is_negative, least_curvature
from majorant.estimators.choice.class_separation import runaway_columns, runaway_covariates, separated_classes
from majorant.estimators.choice.sets import named
from majorant.run import counted

# Log-likelihoods that differ by less are the same maximum.
SAME = 1e-6
# What could still be gained, relatively, where no step gains anything in this precision.
PRECISION = 1e-14


def told(
    best: Found,
    ends: Array,
    features: Sequence[str],
    covariates: Sequence[str] = (),
    T: Array | None = None,
    *,
    asked: int,
    tol: float,
    max_iter: int,
) -> Result:
    """Return the outcome of the best of several starts, which ended at these log-likelihoods, and its sentence.

    ``features`` are the names of columns X; the fit is to XT.
    """
    outcome = _outcome(best, tol, max_iter, concave=asked == 1)
    endless = "" if np.any(best.state.ridge) else _about_separation(best, features, T)
    endless += "" if np.any(best.state.membership_ridge) else _about_membership(best, covariates)
    how = {Outcome.STALLED: "stalled after", Outcome.STEP_LIMIT: "stopped at the limit of"}
    verb = "stopped after" if endless else how.get(outcome, "stationary after")
    metric = "curvatures of single parameters" if is_large(best.state) else "the Hessian"
    steps = counted(len(best.losses) - 1, "step")
    sentence = f"{verb} {steps}: the gradient is {best.decrement:.1e} in the metric of {metric}"
    if asked > 1:
        sentence += _about_starts(ends) + _about_curvature(best)
    if len(best.state) < asked:
        sentence += f"; {asked - len(best.state)} of {asked} classes had no one in them"
    return Result(Outcome.UNBOUNDED if endless else outcome, sentence + endless, float("nan"))


def _outcome(best: Found, tol: float, max_iter: int, *, concave: bool) -> Outcome:
    if best.converged(max(tol, PRECISION)):
        return Outcome.CONVERGED if concave else Outcome.STATIONARY
    return Outcome.STEP_LIMIT if len(best.losses) > max_iter else Outcome.STALLED


def _about_starts(ends: Array) -> str:
    same = int((ends.max() - ends <= SAME * max(abs(ends.max()), 1.0)).sum())
    span = f"{ends.min():.3f} to {ends.max():.3f}"
    return f"; best of {len(ends)} starts, {same} of which ended there (log-likelihoods from {span})"


def _about_curvature(best: Found) -> str:
    if is_negative(best.state, least_curvature(best.state)[0]):
        return "; it is a saddle: the likelihood is not concave, and another start may lead further"
    how = "a few gradients found no negative curvature" if is_large(best.state) else "no curvature is negative"
    return f"; {how} there, but the likelihood is not concave: nothing certifies that there is no better maximum"


def _about_separation(best: Found, features: Sequence[str], T: Array | None) -> str:
    """Return which classes have tastes without end, in words; none is no words."""
    remedy = "use a finite C, or ask for fewer classes"
    complete = separated_classes(best.state)
    if complete:
        which = ", ".join(str(c + 1) for c in complete)
        return (
            f"; choices of class {which} are completely separated, so the likelihood grows for ever as its "
            f"coefficients do; {remedy}"
        )
    partly = runaway_columns(best.state, T)
    if not partly:
        return ""
    along = ", ".join(
        f"{' and '.join(named(features[column]) for column in columns[:10])} in class {c + 1}"
        for c, columns in partly.items()
    )
    how = "quasi-completely separated, as far as can be told,"
    return f"; choices are {how} along {along}: coefficients there have no end; {remedy}"


def _about_membership(best: Found, covariates: Sequence[str]) -> str:
    """Return which covariates tell the classes of people without exception, in words; none is no words."""
    columns = runaway_covariates(best.state)
    if not columns:
        return ""
    which = " and ".join(named(covariates[column - 1]) for column in columns[:10])
    return (
        f"; membership is separated by {which}, as far as can be told: it decides who is of which class, so the "
        f"likelihood grows for ever as its coefficients of membership do; use a finite membership_C, or leave it out"
    )

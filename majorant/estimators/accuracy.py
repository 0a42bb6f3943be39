"""How far coefficients are from those of the optimum, at most."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from majorant._checks import Array
from majorant._solution import Fitted
from majorant.objective import Certificate, Objective
from majorant.objective.tasks import Loss, Widened

# Rounding errors of an intercept, relative to what it is a difference of.
ROUNDING = 1e-15
# Rises of F are found by a pass if a bound on them is more than a share of the gap, and of F.
DIFFERS, WORTH_A_PASS = 0.1, 1e-9


def errors_of(
    fitted: Fitted, ridge: Array, classes: int, centre: Array | None, published: dict[str, Array]
) -> dict[str, Any]:
    """Return ``coef_error_`` and ``intercept_error_``, rounding of what is published included; nothing of a stream."""
    if fitted.solution is None:
        return {}
    coef, found = published["coef_"], fitted.solution.certificate
    W = fitted.params.reshape(classes, -1)
    W = W - W.mean(axis=0) if classes > 1 else W
    known = found is not None and (found.theta is fitted.params or np.array_equal(found.theta, fitted.params))
    bound = _bounds(found, ridge, classes, centre) if known else np.full(W.shape, np.inf)
    p = coef.shape[1]
    of_coef = bound[:, :p]
    if not (coef.dtype == W.dtype and np.array_equal(coef, W[:, :p])):
        of_coef = of_coef + np.abs(W[:, :p] - coef)
    if W.shape[1] == p:
        return {"coef_error_": of_coef, "intercept_error_": np.zeros(classes)}
    far = 0.0 if centre is None else np.abs(W[:, :p]) @ np.abs(centre)
    exact = W[:, p] - (0.0 if centre is None else W[:, :p] @ centre)
    off = np.abs(published["intercept_"] - exact) + ROUNDING * p * (np.abs(W[:, p]) + far)
    return {"coef_error_": of_coef, "intercept_error_": bound[:, p] + off}


def judged_as_published(objective: Objective, fitted: Fitted, published: Array) -> Fitted:
    """Return the fit with the gap of its ``published`` parameters, which are rounded to single precision.

    The loss rises by gᵀd + ½ b‖Xd‖² at most, b being ½ of the heaviest row's weight, since softmax bends by that at
    most, or 2F: a row bends by 1 − max p times the squared range of its scores, which its loss exceeds.
    """
    found = None if fitted.solution is None else fitted.solution.certificate
    sizes = objective.facts.magnitudes
    if found is None or sizes is None or not fitted.result.gap < 1 or found.theta is not fitted.params:
        return fitted
    W = found.theta.reshape(-1, sizes.n_columns)
    certified = (W - W.mean(axis=0) if len(W) > 1 else W).ravel()
    d, value, least = published - certified, found.value, max(DIFFERS * fitted.result.gap, WORTH_A_PASS) * found.value
    slope = abs(float((found.gradient + objective.ridge * (certified - found.theta)) @ d))
    slope += 0.5 * float(objective.ridge @ d**2)
    rise = slope + _bent(float(np.linalg.norm(d)) * sizes.norm, sizes.heaviest, value)
    if rise > least:
        sizes = objective.facts.magnitudes_by_column
        moved = float(np.linalg.norm(np.abs(d).reshape(W.shape) @ sizes.columns))
        rise = min(rise, slope + _bent(moved, sizes.heaviest, value))
    if rise > least:
        loss = objective.facts.small_blocks.total(Widened(Loss(objective.model, published)))
        off = sizes.of_loss(published, float(np.finfo(np.float64).eps))
        rise = min(rise, max(loss + objective.penalty.value(published) - value, 0.0) + 2 * off)
    gap = (fitted.result.gap * value + rise) / (value + rise) if value > 0 else fitted.result.gap
    before, after = (f"within {number:.1e} of the optimum (relative)" for number in (fitted.result.gap, gap))
    message = fitted.result.message.replace(before, after)
    return replace(fitted, result=replace(fitted.result, gap=gap, message=message))


def _bent(moved: float, heaviest: float, value: float) -> float:
    """Return how much a loss rises above its tangent at most where scores move so much; on the way 2F may grow."""
    most = 2.0 * value * float(np.exp(min(1.5 * moved, 50.0)))
    return 0.5 * min(0.5 * heaviest, most) * moved * moved


def _bounds(found: Certificate, ridge: Array, classes: int, centre: Array | None) -> Array:
    """Return what a certificate says: of a Hessian, or F − F* ≥ ½ Σ_i λ_i (θ_i − θ*_i)²."""
    if found.region is not None:
        return found.region.within(classes, centre)
    excess = found.gap * found.value if np.isfinite(found.gap) else np.inf
    each = ridge[:1] if ridge.strides == (0,) else ridge  # one number, broadcast
    bounds = np.sqrt(np.divide(2 * excess, each, where=each > 0, out=np.full(each.shape, np.inf)))
    bounds = bounds if each is ridge else np.full(ridge.shape, bounds[0])
    # Less their mean over classes differences are no larger, if all classes are penalised alike; they are.
    return bounds.reshape(classes, -1)

"""How far coefficients are from those of the optimum, at most."""

from __future__ import annotations

from typing import Any

import numpy as np

from majorant._checks import Array
from majorant._solution import Fitted
from majorant.objective import Certificate

# Rounding errors of an intercept, relative to what it is a difference of.
ROUNDING = 1e-15


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

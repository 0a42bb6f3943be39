"""Newton's last steps of a choice model, to machine precision, and the curvature there, for standard errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from majorant._checks import Array
from majorant._solution import Fitted, Outcome, Result
from majorant.curvature import Arrow, Curvature
from majorant.inference.choices import may_be_collinear, refuse_collinear
from majorant.objective import Certificate, Objective, Point
from majorant.objective.by_blocks import hessian_by_blocks
from majorant.objective.certificates import KnownHessian, concordant
from majorant.run import about_the_gap, counted
from majorant.solvers.descent import DescentState
from majorant.solvers.preconditioners import HessianByBlocks

# Of more parameters no Hessian is kept; by blocks that never meet there are still standard errors.
LARGEST_HESSIAN = 5_000
# Newton's decrement squared, an estimate of twice the log-likelihood that is missing, at which no step is left to make.
POLISHED, STEPS = 1e-15, 3
# Steps that promise more than so many times the tolerance are no last ones.
NEAR = 10.0
# How many times as large as if a parameter were alone its variance may be, until nothing is known of it.
INFLATED = 1e10


@dataclass(frozen=True, eq=False)
class Polished:
    """Parameters, F there, and the Hessian of the penalised loss; of many parameters its inverse diagonal alone."""

    theta: Array
    value: float
    hessian: Array | None = None
    variances: Array | None = None
    gradient: Array | None = None

    def may_be_collinear(self, squares: Array) -> bool:
        """Return whether next to nothing is known of some parameters; ``squares`` are those of their columns."""
        if self.hessian is not None:
            return may_be_collinear(self.hessian, squares)
        return self.variances is not None and bool(np.isinf(self.variances).any())


def polished(objective: Objective, fitted: Fitted, tol: float) -> Polished:
    """Return a fit after Newton's last steps, if it has converged, and what is known of its curvature."""
    theta, λ, known = fitted.params, objective.ridge, _last_of_newton(fitted)
    found = known or curved(objective, theta)
    for _ in range(STEPS):
        if found is None:
            return Polished(theta, objective.value(theta))
        value, gradient, H = found
        solve = H.factorized(λ)
        step = solve(gradient)
        small = fitted.result.converged and POLISHED < gradient @ step < NEAR * tol * abs(value)
        if not small or not objective.value(theta - step) <= value:
            break
        theta = theta - step
        found = curved(objective, theta)
    assert found is not None
    return _described(theta, *found, λ)


def recertified(objective: Objective, fitted: Fitted, found: Polished) -> Fitted:
    """Return the fit at its polished parameters, with a certificate of these, or as it was if that says more."""
    certified = None if found.theta is fitted.params else _certified(objective, fitted, found)
    if certified is None or not certified.gap <= fitted.result.gap:
        return fitted
    return _with_certificate(objective, fitted, found, certified)


def certified_of_all(objective: Objective, fitted: Fitted, found: Polished, off: Array) -> Fitted:
    """Return the fit with a certificate that holds for all columns that are no more than ``off`` from these.

    Where there is none nothing is known of an optimum of the columns that these stand for.
    """
    certified = _certified(objective, fitted, found, off)
    if certified is not None and certified.gap <= 1:
        return _with_certificate(objective, fitted, found, certified) if fitted.result.converged else fitted
    if not fitted.result.converged and np.isnan(fitted.result.gap):
        return fitted
    sentence = (
        f"stopped after {counted(fitted.steps, 'step')}: columns are so nearly collinear within every group that "
        "rounding hides whether a maximum-likelihood estimate exists"
    )
    result = Result(Outcome.STALLED, sentence, float("nan"), fitted.result.account, fitted.result.estimate)
    solution = None if fitted.solution is None else replace(fitted.solution, certificate=None)
    return replace(fitted, result=result, solution=solution)


def _certified(objective: Objective, fitted: Fitted, found: Polished, off: Array | None = None) -> Certificate | None:
    """Return the certificate of polished parameters; None if there is none, or the Hessian is not known."""
    if fitted.solution is None or not concordant.suits(objective):
        return None
    if found.hessian is None or found.gradient is None:
        return None
    of_loss = KnownHessian(found.theta, found.hessian - np.diag(objective.ridge))
    here = Point(found.theta, found.value, found.gradient)
    return concordant.certify(objective, here, known=of_loss, off=off)


def _with_certificate(objective: Objective, fitted: Fitted, found: Polished, certified: Certificate) -> Fitted:
    """Return the fit at its polished parameters, and what a certificate says of these."""
    assert fitted.solution is not None
    sentence = f"converged in {counted(fitted.steps, 'step')}{about_the_gap(certified, objective)}"
    result = replace(fitted.result, message=sentence, gap=certified.gap)
    return replace(fitted, params=found.theta, result=result, solution=replace(fitted.solution, certificate=certified))


def is_unique(fitted: Fitted) -> bool:
    """Return whether a certificate proves that there is one optimum and no other: then nothing is unidentified."""
    found = None if fitted.solution is None else fitted.solution.certificate
    return found is not None and found.region is not None and not found.region.flat.size


def curved(objective: Objective, theta: Array) -> tuple[float, Array, Curvature] | None:
    """Return F, its gradient and the Hessian of the loss, if there is a way to have it."""
    if objective.size <= LARGEST_HESSIAN:
        return objective.hessian(theta)
    if not HessianByBlocks().suits(objective):
        return None
    point = objective.point(theta)
    return point.value, point.gradient, hessian_by_blocks(objective, point, whole=True)


def refuse_flat_blocks(objective: Objective, names: Sequence[str]) -> None:
    """Refuse columns of which nothing is known at θ = 0, by the Hessian in blocks."""
    found = curved(objective, np.zeros(objective.size))
    assert found is not None
    assert isinstance(found[2], Arrow)
    unknown = np.flatnonzero(np.isinf(_variances(found[2], objective.ridge)))
    refuse_collinear([unknown] if len(unknown) else [], names)


def _variances(H: Arrow, ridge: Array) -> Array:
    """Return the diagonal of the inverse, infinite where that is so large that nothing is known."""
    found, alone = H.factorized(ridge).inverse_diagonal(), H.diagonal() + ridge
    return np.where((alone > 0) & (found * alone <= INFLATED), found, np.inf)


def _described(theta: Array, value: float, gradient: Array, H: Curvature, ridge: Array) -> Polished:
    if isinstance(H, Arrow):
        return Polished(theta, value, None, _variances(H, ridge), gradient)
    return Polished(theta, value, H.as_matrix() + np.diag(ridge), None, gradient)


def _last_of_newton(fitted: Fitted) -> tuple[float, Array, Curvature] | None:
    """Return F, its gradient and its Hessian at the end of a fit, if Newton's last state knows them."""
    state = None if fitted.solution is None else fitted.solution.state
    if not isinstance(state, DescentState) or state.curvature is None or state.point is None:
        return None
    same = state.point.theta is fitted.params or np.array_equal(state.point.theta, fitted.params)
    return (state.point.value, state.point.gradient, state.curvature) if same else None

"""How latent classes are fitted from a start: bounds first, then Newton's steps on the marginal likelihood."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from majorant._checks import Array
from majorant.estimators.choice.class_descent import descend
from majorant.estimators.choice.class_metric import LONGEST, is_large, reach, solved, whitened
from majorant.estimators.choice.class_saddles import NEGLIGIBLE, leave_saddle
from majorant.estimators.choice.class_separation import runaway_covariates
from majorant.models.latent_classes import LatentClasses, Panel, Parameters

# Steps along bounds before Newton's: they lead into a basin, and Newton's to its bottom.
BOUND_STEPS = 12
# Armijo's condition, and how often a step is halved.
SUFFICIENT, HALVINGS = 1e-4, 40
# A class whose share is smaller has no one in it.
EMPTY = 1e-6


@dataclass(frozen=True, eq=False)
class Found:
    """Where one start has led, and the loss on the way."""

    state: LatentClasses
    losses: tuple[float, ...]

    @cached_property
    def decrement(self) -> float:
        """The length of the gradient in the metric of the Hessian: about the distance left, in standard errors.

        Of many parameters that of its diagonal, if classes were known.
        """
        return float(np.linalg.norm(whitened(self.state, self.state.gradient)))

    def converged(self, tol: float) -> bool:
        """Return whether no step worth speaking of is left: the loss could be half the decrement squared lower."""
        return self.decrement**2 <= tol * max(abs(self.state.loss), 1.0)


def fit_from(start: LatentClasses, *, tol: float, max_iter: int) -> Found:
    """Return where bounds, and Newton's steps after them, lead, or quasi-Newton steps of many parameters.

    The loss never rises.
    """
    if is_large(start):
        return Found(*descend(start, tol=tol, max_iter=max_iter))
    state, losses = start, [start.loss]
    for _ in range(min(BOUND_STEPS, max_iter)):
        following = state.there(state.bound_minimizer())
        if not following.loss < losses[-1]:  # flat to the last bit, or not finite
            break
        state = following
        losses.append(state.loss)
    for _ in range(max_iter - len(losses) + 1):
        stepped, decrement = newton_step(state)
        # Newton's steps are far better than they promise, but for logits of classes that lose everyone, which run off.
        last = decrement <= max(tol**2, NEGLIGIBLE * max(abs(state.loss), 1.0))
        if decrement <= tol * max(abs(state.loss), 1.0) and runs_off(state):
            break
        if stepped is None:
            stepped, last = leave_saddle(state), False
        if stepped is None:
            break
        state = stepped
        losses.append(state.loss)
        if last and leave_saddle(state) is None:
            break
    return Found(state, tuple(losses))


def runs_off(state: LatentClasses) -> bool:
    """Return whether membership is separated and not penalised: its logits would grow for ever."""
    return not np.any(state.membership_ridge) and bool(runaway_covariates(state))


def newton_step(state: LatentClasses) -> tuple[LatentClasses | None, float]:
    """Return the state after a safeguarded Newton step, None if none decreases the loss, and the decrement squared.

    Negative curvature is turned around, so that saddles are left along it; steps are halved until the loss decreases.
    """
    g = state.gradient
    direction = -solved(state, g)
    slope = float(g @ direction)
    if not slope < 0:
        return None, 0.0
    length = min(1.0, LONGEST / max(reach(state, direction), 1e-300))
    for _ in range(HALVINGS):
        there = state.there(state.at.moved(length * direction))
        if there.loss <= state.loss + SUFFICIENT * length * slope and there.loss < state.loss:
            return there, -slope
        length *= 0.5
    return None, -slope


def without_empty(found: Found, *, tol: float, max_iter: int) -> Found:
    """Return the fit without classes that no one is in, the largest class first; the rest is fitted again."""
    state = found.state
    shares = state.shares
    kept = np.argsort(-shares, kind="stable")
    full = kept[shares[kept] > EMPTY]
    ordered = state.there(state.at.ordered(full))
    if len(full) == len(state):
        return Found(ordered, found.losses)
    return without_empty(fit_from(ordered, tol=tol, max_iter=max_iter), tol=tol, max_iter=max_iter)


def one_class(
    panel: Panel, ridge: Array | float, membership_ridge: Array | float = 0.0, *, tol: float, max_iter: int
) -> Found:
    """Return the fit of one class, which has one optimum; penalties of membership are for those that start from it."""
    d, q = panel.features.shape[1], panel.covariates.shape[1]
    start = LatentClasses(panel, Parameters(np.zeros((1, d)), np.zeros((1, q))), ridge, membership_ridge)
    return fit_from(start, tol=tol, max_iter=max_iter)

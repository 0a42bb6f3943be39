"""Latent classes of many parameters: quasi-Newton steps, for which no matrix is made.

SciPy's L-BFGS in units of the curvature that parameters would have if classes were known. The units are found anew
where it comes to rest; saddles are left.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import optimize

from majorant._checks import Array
from majorant.estimators.choice.class_metric import units
from majorant.estimators.choice.class_saddles import leave_saddle
from majorant.models.latent_classes import LatentClasses

MEMORY = 20
# The gradient shrinks to so much less than the tolerance asks for, squares compared: the rest is within rounding.
FURTHER = 1e-3


def descend(start: LatentClasses, *, tol: float, max_iter: int) -> tuple[LatentClasses, tuple[float, ...]]:
    """Return where quasi-Newton steps lead, and the loss on the way; it never rises."""
    state, losses = start, [start.loss]
    while len(losses) <= max_iter:
        state, on_the_way = _descended(state, tol, max_iter - len(losses) + 1)
        losses += on_the_way
        if on_the_way and not _rests(state.gradient / units(state), state.loss, tol):
            continue
        below = leave_saddle(state)
        if below is None:
            break
        state = below
        losses.append(state.loss)
    return state, tuple(losses)


def _descended(start: LatentClasses, tol: float, steps: int) -> tuple[LatentClasses, list[float]]:
    """Return where L-BFGS comes to rest in the units of a state, and the loss after each of its steps."""
    scale, asked, latest, end = units(start), np.empty(0), start, start
    losses: list[float] = []

    def answer(x: Array) -> tuple[float, Array]:
        nonlocal asked, latest
        asked = x.copy()
        latest = start.there(start.at.moved(x / scale))
        return latest.loss, latest.gradient / scale

    def report(intermediate_result: Any) -> None:
        nonlocal end
        if not np.array_equal(intermediate_result.x, asked):  # it went back to an earlier point of its search
            answer(intermediate_result.x)
        if not latest.loss < end.loss:
            raise StopIteration
        end = latest
        losses.append(end.loss)
        if _rests(end.gradient / scale, end.loss, tol):
            raise StopIteration

    how = dict(maxiter=steps, maxcor=MEMORY, ftol=0.0, gtol=0.0, maxfun=20 * steps)
    optimize.minimize(answer, np.zeros(len(scale)), jac=True, method="L-BFGS-B", callback=report, options=how)
    return end, losses


def _rests(gradient: Array, loss: float, tol: float) -> bool:
    return float(gradient @ gradient) <= FURTHER * tol * max(abs(loss), 1.0)

"""The inner problem of the proximal solver: argmin ½‖θ − θ_i‖²_A + ℓ_b(θ) over one mini-batch.

In *score space*, with M = A⁻¹ and G = ΦMΦᵀ, the solution is θ_i + MΦᵀa with a = −ℓ'(u), u = u₀ + Ga, and a minimises
Φ(a) = ½aᵀGa + ℓ(u₀ + Ga). In *parameter space* it is minimised as it stands. Both by damped Newton: a full step unless
that fails to decrease enough, and a step of Böhning's bound where halving it has not helped either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from majorant import kernels
from majorant._checks import Array
from majorant.curvature.cholesky import steady_factor

if TYPE_CHECKING:  # solvers call the surface of a model, whichever it is
    from majorant.models import RowModel

# Newton stops when another step would gain less than this, per row of the batch.
ENOUGH = 1e-7
ITERATIONS = 100
HALVINGS = 30
# Armijo's share of the decrease that the slope promises.
SUFFICIENT = 1e-4


def solve_in_scores(model: RowModel[Any], batch: Any, scores: Array, G: Array) -> Array:
    """Return a (flat) for the scores u₀ at θ_i and the dense Gram matrix G (scores × scores)."""
    weights = model.score_weights(batch)
    if scores.size == 1 and model.against_zero:
        return _solve_for_one(
            float(scores.ravel()[0]), float(G[0, 0]), float(weights[0]), float(model.targets(batch)[0])
        )
    a, moved = np.zeros(scores.size), np.zeros(scores.size)  # moved = Ga: scores of −∞ stay where they are
    loss, slope = _evaluate(model, batch, scores, moved)
    for _ in range(ITERATIONS):
        residual, value = a + slope, loss + 0.5 * float(a @ moved)
        step = _newton_step(model.hessian_times(scores.ravel() + moved, batch, G), residual)
        Gstep = G @ step
        decrement = -float(residual @ Gstep)
        for length in 0.5 ** np.arange(HALVINGS):
            trial, along = a + length * step, moved + length * Gstep
            trial_loss, trial_slope = _evaluate(model, batch, scores, along)
            if trial_loss + 0.5 * trial @ along <= _enough(value, length * decrement):
                break
        else:
            # H ⪯ ½W for any scores, so this step cannot rise; as a first resort it would creep.
            trial = a + _newton_step(0.5 * weights[:, None] * G, residual)
            along = G @ trial
            trial_loss, trial_slope = _evaluate(model, batch, scores, along)
            if not trial_loss + 0.5 * trial @ along < value:
                return a  # what is left is rounding
        a, moved, loss, slope = trial, along, trial_loss, trial_slope
        if decrement <= ENOUGH * len(batch):
            return a
    return a


def _solve_for_one(score: float, G: float, weight: float, target: float) -> Array:
    """Return a = w(y − p(u)) with u = score + Ga, compiled: a stream may come row by row."""
    q = G * weight
    # p = σ(−v) with v = −u.
    p, _ = kernels.dual.logistic_step(-score, -score - q * target, q)
    return np.array([weight * (target - p)])


def _newton_step(HG: Array, residual: Array) -> Array:
    """Return −(I + HG)⁻¹ residual; HG is overwritten."""
    HG.flat[:: len(HG) + 1] += 1.0
    try:
        return -np.linalg.solve(HG, residual)
    except np.linalg.LinAlgError:  # on wild scales rounding hides the one on the diagonal
        return -np.linalg.lstsq(HG, residual, rcond=None)[0]


def solve_in_parameters(model: RowModel[Any], batch: Any, start: Array, A: Array, classes: int = 1) -> Array:
    """Return argmin ½‖θ − start‖²_A + ℓ_b(θ), for a dense precision A of so many classes."""
    δ = np.zeros_like(start)
    scores = model.scores(start, batch)
    loss, residual = model.loss_and_residual(scores, batch)
    for _ in range(ITERATIONS):
        Aδ = A @ δ
        gradient = Aδ + model.lift(residual, batch)
        H = A + model.hessian_factors(scores, batch).matrix()
        step = -steady_factor(H, classes)(gradient)
        decrement = -float(gradient @ step)
        value, Astep, move = loss + 0.5 * δ @ Aδ, A @ step, model.potentials(step, batch)
        for length in 0.5 ** np.arange(HALVINGS):
            trial_loss, trial_residual = model.loss_and_residual(scores + length * move, batch)
            quadratic = 0.5 * (δ + length * step) @ (Aδ + length * Astep)
            if trial_loss + quadratic <= _enough(value, length * decrement):
                break
        else:
            bounded = A + model.bound_factors(scores, batch).matrix()
            step = -steady_factor(bounded, classes)(gradient)
            length, move = 1.0, model.potentials(step, batch)
            trial_loss, trial_residual = model.loss_and_residual(scores + move, batch)
            if not trial_loss + 0.5 * (δ + step) @ (A @ (δ + step)) < value:
                break  # what is left is rounding
        δ, scores, loss, residual = δ + length * step, scores + length * move, trial_loss, trial_residual
        if decrement <= ENOUGH * len(batch):
            break
    return start + δ


def _enough(value: float, promised: float) -> float:
    """Return what a step has to reach: Armijo's share of what the slope promises, to rounding."""
    return value - SUFFICIENT * max(promised, 0.0) + 1e-13 * abs(value)


def _evaluate(model: RowModel[Any], batch: Any, scores: Array, moved: Array) -> tuple[float, Array]:
    loss, residual = model.loss_and_residual(scores + moved.reshape(scores.shape), batch)
    return loss, residual.ravel()

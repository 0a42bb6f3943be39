"""In which units steps of latent classes are measured: |H|^½, or of many parameters the diagonal of a curvature.

Latent classes of many parameters: quasi-Newton steps, for which no matrix is made.

SciPy's L-BFGS in units of the curvature that parameters would have if classes were known. The units are found anew
where it comes to rest; saddles are left.

Saddles of the likelihood of latent classes, and how they are left.

Latent classes whose tastes or logits of membership have no end: no choice speaks against larger ones.

Where latent classes start: people are clustered by their tastes, or divided by what is known of them.

How latent classes are fitted from a start: bounds first, then Newton's steps on the marginal likelihood.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import optimize
from scipy.linalg import eigh

from majorant.choice.latent_classes import LatentClasses, Panel, Parameters
from majorant.core import solver
from majorant.core.checks import Array

# Of more parameters no Hessian is factorised: that takes longer than the steps it saves.
LARGE = 1000
# Curvature below this share of the largest, coordinates scaled, is raised to it.
LEAST_CURVATURE = 1e-8
# The longest step, in units in which scores change by about that much.
LONGEST = 5.0


def is_large(state: LatentClasses) -> bool:
    """Return whether a Hessian is too large to be factorised at every step."""
    return state.at.flat().size > LARGE


def units(state: LatentClasses) -> Array:
    """Return the roots of what curvatures of the parameters would be if classes were known."""
    diagonal = state.curvatures
    return np.sqrt(np.maximum(diagonal, LEAST_CURVATURE**2 * max(float(diagonal.max()), 1e-300)))


def whitened(state: LatentClasses, rows: Array) -> Array:
    """Return rows G of gradients as GR, with RRᵀ = |H|⁻¹."""
    return rows / units(state) if is_large(state) else np.asarray(rows @ _root(state))


def solved(state: LatentClasses, rows: Array) -> Array:
    """Return |H|⁻¹g for rows g."""
    if is_large(state):
        return np.asarray(rows / units(state) ** 2)
    R = _root(state)
    return np.asarray(rows @ R @ R.T)


def _root(state: LatentClasses) -> Array:
    """Return R with RRᵀ = |H|⁻¹: eigenvalues without their sign, coordinates scaled, and none too small."""
    scale = units(state)
    values, vectors = eigh(state.hessian / np.outer(scale, scale))
    size = np.maximum(np.abs(values), LEAST_CURVATURE * max(float(np.abs(values).max()), 1e-300))
    return np.asarray(vectors / np.sqrt(size) / scale[:, None])


def reach(state: LatentClasses, direction: Array) -> float:
    """Return about how far a step moves scores: the largest root mean square over classes, or logit of membership.

    What is all but certain, of probability p, counts for √(4p(1 − p)): it may move as far as it likes.
    """
    steps = direction[: state.at.tastes.size].reshape(state.at.tastes.shape)
    X, P = state.panel.features, state.probabilities
    of_tastes = np.sqrt((((X - X.mean(axis=0)) @ steps.T) ** 2 * 4.0 * P * (1.0 - P)).mean(axis=0)).max()
    members = direction[steps.size :].reshape(-1, state.panel.covariates.shape[1])
    π = np.exp(state.log_priors[:, 1:])
    of_members = (np.abs(state.panel.covariates @ members.T) * np.sqrt(4.0 * π * (1.0 - π))).max(initial=0.0)
    return float(max(of_tastes, of_members))


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


# An eigenvalue of the scaled Hessian below which a point is a saddle.
NEGATIVE = -1e-6
# A gain below this share of the loss is none.
NEGLIGIBLE = 1e-12
SADDLE_HALVINGS = 40
# How far gradients are compared, as a share of a unit that scores change by.
NEAR = 1e-4


def leave_saddle(state: LatentClasses) -> LatentClasses | None:
    """Return a state with a smaller loss along the direction of most negative curvature, None if there is none."""
    value, direction = least_curvature(state)
    if not is_negative(state, value):
        return None
    direction = direction * (LONGEST / max(reach(state, direction), 1e-300))
    for _ in range(SADDLE_HALVINGS):
        for sign in (1.0, -1.0):
            there = state.there(state.at.moved(sign * direction))
            if there.loss < state.loss - NEGLIGIBLE * abs(state.loss):
                return there
        direction = 0.5 * direction
    return None


def is_negative(state: LatentClasses, curvature: float) -> bool:
    """Return whether the least curvature is told from none: differences of gradients tell less than a Hessian."""
    return curvature < (solver.NEGATIVE if is_large(state) else NEGATIVE)


def least_curvature(state: LatentClasses) -> tuple[float, Array]:
    """Return the least eigenvalue of the Hessian in the units of the parameters, and its vector in theirs."""
    scale = units(state)
    if not is_large(state):
        values, vectors = eigh(state.hessian / np.outer(scale, scale), subset_by_index=[0, 0])
        return float(values[0]), np.asarray(vectors[:, 0] / scale)

    def multiplied(q: Array) -> Array:
        length = NEAR / max(reach(state, q / scale), 1e-300)
        there = state.there(state.at.moved(length * q / scale))
        return np.asarray((there.gradient - state.gradient) / length / scale)

    values, Q, W = solver.lanczos(multiplied, len(scale))
    if not len(values):
        return 0.0, np.zeros(len(scale))
    return float(values[0]), np.asarray(W[:, 0] @ Q / scale)


# A class whose people choose with a log-likelihood so near to zero is separated.
SEPARATED = 1e-6
# A direction in which so little is left of the curvature at zero is one in which tastes run off. What stops a run is a
# gain that is far smaller; a single choice of n that speaks against it leaves about 1/n.
LOST = 1e-8
# Of the curvature of all people, added to both: a class of few may have none of its own in some direction.
SHARED = 1e-12
# How much of a direction a column has to have for being named, columns scaled.
NAMED = 0.05


def separated_classes(state: LatentClasses) -> list[int]:
    """Return the classes that explain completely what their people chose."""
    return np.flatnonzero(state.surprises <= SEPARATED).tolist()


def runaway_columns(state: LatentClasses, T: Array | None = None) -> dict[int, list[int]]:
    """Return by class the columns along which its choices are all but certain: quasi-complete separation.

    Compared are Σ w Var_p(f) at the estimates and at zero. That is no proof, as a program of linear inequalities would
    be; but who belongs to a class is not certain either. Features are columns XT, if T is a matrix.
    """
    zero = state.there(Parameters(np.zeros_like(state.at.tastes), state.at.membership))
    found = {c: _named(_lost_tastes(state, zero, c), T) for c in range(len(state))}
    return {c: columns for c, columns in found.items() if columns}


def runaway_covariates(state: LatentClasses) -> list[int]:
    """Return the covariates along which membership is all but certain, as tastes in :func:`runaway_columns`.

    The constant, covariate 0, is none: a class that loses everyone is dropped. Memberships are compared with those that
    are the same for all people.
    """
    n, q = state.at.membership.shape
    if n == 1 or q == 1:
        return []
    alike = np.zeros((n, q))
    alike[:, 0] = np.log(np.maximum(state.shares, 1e-300) / max(float(state.shares[0]), 1e-300))
    then = state.there(Parameters(state.at.tastes, alike)).membership_curvature()
    lost = _lost(state.membership_curvature(), then, SHARED * np.abs(np.diag(then)))
    sizes = np.abs(lost).reshape(n - 1, q, -1).max(axis=0)
    return [int(j) for j in np.flatnonzero((sizes > NAMED * sizes.max(axis=0, initial=0.0)).any(axis=1)) if j > 0]


def _lost_tastes(state: LatentClasses, zero: LatentClasses, c: int) -> Array:
    everyone = np.sum([np.diag(zero.class_curvature(k, zero)) for k in range(len(state))], axis=0)
    return _lost(state.class_curvature(c, state), state.class_curvature(c, zero), SHARED * everyone)


def _lost(now: Array, then: Array, least: Array) -> Array:
    """Return the directions, as columns in units of the curvature then, in which next to none of it is left now."""
    floor = np.diag(np.maximum(least, 1e-300))
    scale = np.sqrt(np.diag(then + floor))
    both = np.outer(scale, scale)
    values, vectors = eigh((now + floor) / both, (then + floor) / both)
    return np.asarray(vectors[:, values < LOST])


def _named(lost: Array, T: Array | None) -> list[int]:
    """Return the columns that directions consist of."""
    if T is not None and T.ndim == 2:
        lost = (T @ lost) * np.linalg.norm(np.linalg.inv(T), axis=0)[:, None]
    sizes = np.abs(lost)
    return np.flatnonzero((sizes > NAMED * sizes.max(axis=0, initial=0.0)).any(axis=1)).tolist()


LLOYD_STEPS = 5
# The standard deviation of logits that are drawn.
KNOWN = 3.0


def starts(pooled: LatentClasses, classes: int, count: int, seed: int) -> list[LatentClasses]:
    """Return starts: people clustered by what they would change of the pooled tastes, from random centres.

    Person i's score at the pooled estimates, through the root of the Hessian, says where i's own tastes are; k-means
    from random people breaks the symmetry between classes. Every second start draws memberships instead: by random
    logits of what is known of people, who are divided by these; or, if nothing is known, random shares of the clusters.
    """
    scores = pooled.scores()
    # Who made many choices stands farther out only for that.
    many = np.bincount(pooled.panel.person, minlength=len(pooled.panel))
    points = whitened(pooled, scores / (pooled.panel.weight * np.sqrt(many))[:, None])
    changes = solved(pooled, scores)[:, : pooled.at.tastes.shape[1]]
    generators = [np.random.default_rng([seed, number]) for number in range(count)]
    found = []
    for number, rng in enumerate(generators):
        # Every second start has memberships of its own: from other ones the likelihood may lead to another maximum.
        logits = _drawn_logits(pooled.panel.covariates, classes, rng) if number % 2 else None
        if logits is None or logits.shape[1] == 1:
            which = _clustered(points, classes, rng)
        else:
            which = (pooled.panel.covariates @ logits.T + rng.gumbel(size=(len(points), classes))).argmax(axis=1)
        found.append(_start_of(pooled, changes, which, classes, logits))
    return found


def _drawn_logits(Z: Array, classes: int, rng: np.random.Generator) -> Array:
    """Return random logits of membership (classes × q), the first of which are zero; covariates count alike."""
    spread = np.where(np.arange(Z.shape[1]) > 0, Z.std(axis=0), 1.0)
    size = np.where(np.arange(Z.shape[1]) > 0, KNOWN / np.sqrt(max(Z.shape[1] - 1, 1)), 1.0)
    logits = rng.normal(size=(classes, Z.shape[1])) * size / spread
    logits[:, 0] -= logits[:, 1:] @ Z[:, 1:].mean(axis=0)
    return logits - logits[0]


def _clustered(points: Array, classes: int, rng: np.random.Generator) -> Array:
    """Return a class for each person by a few steps of k-means, from people far from each other."""
    centres = points[[rng.integers(len(points))]]
    while len(centres) < classes:
        nearest = ((points[:, None] - centres) ** 2).sum(axis=2).min(axis=1)
        chances = nearest / nearest.sum() if nearest.sum() > 0 else None
        centres = np.vstack([centres, points[rng.choice(len(points), p=chances)]])
    for _ in range(LLOYD_STEPS):
        which = ((points[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
        centres = np.stack(
            [points[which == c].mean(axis=0) if (which == c).any() else centres[c] for c in range(classes)]
        )
    return ((points[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)


def _start_of(pooled: LatentClasses, changes: Array, which: Array, classes: int, logits: Array | None) -> LatentClasses:
    """Return one Newton step of each class from the pooled tastes, with the people in it counted for more.

    Memberships have these logits; if none are given, the shares of the classes.
    """
    panel = pooled.panel
    if logits is None:
        shares = np.bincount(which, minlength=classes) + 1.0
        logits = np.zeros((classes, panel.covariates.shape[1]))
        logits[:, 0] = np.log(shares / shares[0])
    tastes = np.repeat(pooled.at.tastes, classes, axis=0)
    for c in range(classes):
        members = which == c
        part = max(float(panel.weight[members].sum() / panel.weight.sum()), 0.1 / classes)
        step = changes[members].sum(axis=0) / part
        tastes[c] -= np.where(np.isfinite(step), step, 0.0)  # where choices are separated there may be no such step
    return pooled.there(Parameters(tastes, logits))


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

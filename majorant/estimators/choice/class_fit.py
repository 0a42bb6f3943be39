"""How latent classes are fitted: several starts, bounds first, then Newton's steps on the marginal likelihood."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import eigh

from majorant._checks import Array
from majorant.models.latent_classes import LatentClasses, Panel, Parameters

# Steps along bounds before Newton's: they lead into a basin, and Newton's to its bottom.
BOUND_STEPS = 12
# Curvature below this share of the largest, coordinates scaled, is raised to it.
LEAST_CURVATURE = 1e-8
# An eigenvalue of the scaled Hessian below which a point is a saddle.
NEGATIVE = -1e-6
# Armijo's condition, and how often a step is halved.
SUFFICIENT, HALVINGS = 1e-4, 40
# The longest step, in units in which scores change by about that much.
LONGEST = 5.0
# A step that promises less than this share of the loss is the last one: Newton's are far better than they promise, but
# for logits of classes that lose everyone, which run off by one a step.
NEGLIGIBLE = 1e-12
# A class whose share is smaller has no one in it.
EMPTY = 1e-6
LLOYD_STEPS = 5


@dataclass(frozen=True, eq=False)
class Found:
    """Where one start has led, and the loss on the way."""

    state: LatentClasses
    losses: tuple[float, ...]

    @cached_property
    def decrement(self) -> float:
        """The length of the gradient in the metric of the Hessian: about the distance left, in standard errors."""
        return float(np.linalg.norm(_root(self.state).T @ self.state.gradient))

    def converged(self, tol: float) -> bool:
        """Return whether no step worth speaking of is left: the loss could be half the decrement squared lower."""
        return self.decrement**2 <= tol * max(abs(self.state.loss), 1.0)


def fit_from(start: LatentClasses, *, tol: float, max_iter: int) -> Found:
    """Return where bounds, and Newton's steps after them, lead; the loss never rises."""
    state, losses = start, [start.loss]
    for _ in range(min(BOUND_STEPS, max_iter)):
        following = state.there(state.bound_minimizer())
        if not following.loss < losses[-1]:  # flat to the last bit, or not finite
            break
        state = following
        losses.append(state.loss)
    for _ in range(max_iter - len(losses) + 1):
        stepped, decrement = newton_step(state)
        last = decrement <= max(tol**2, NEGLIGIBLE * max(abs(state.loss), 1.0))
        if stepped is None:
            stepped, last = leave_saddle(state), False
        if stepped is None:
            break
        state = stepped
        losses.append(state.loss)
        if last and leave_saddle(state) is None:
            break
    return Found(state, tuple(losses))


def newton_step(state: LatentClasses) -> tuple[LatentClasses | None, float]:
    """Return the state after a safeguarded Newton step, None if none decreases the loss, and the decrement squared.

    Negative curvature is turned around, so that saddles are left along it; steps are halved until the loss decreases.
    """
    g, R = state.gradient, _root(state)
    direction = -R @ (R.T @ g)
    slope = float(g @ direction)
    if not slope < 0:
        return None, 0.0
    length = min(1.0, LONGEST / max(_reach(state, direction), 1e-300))
    for _ in range(HALVINGS):
        there = state.there(state.at.moved(length * direction))
        if there.loss <= state.loss + SUFFICIENT * length * slope and there.loss < state.loss:
            return there, -slope
        length *= 0.5
    return None, -slope


def leave_saddle(state: LatentClasses) -> LatentClasses | None:
    """Return a state with a smaller loss along the direction of most negative curvature, None if there is none."""
    scale = _scale(state)
    values, vectors = eigh(state.hessian / np.outer(scale, scale), subset_by_index=[0, 0])
    if values[0] > NEGATIVE:
        return None
    direction = vectors[:, 0] / scale
    direction *= LONGEST / max(_reach(state, direction), 1e-300)
    for _ in range(HALVINGS):
        for sign in (1.0, -1.0):
            there = state.there(state.at.moved(sign * direction))
            if there.loss < state.loss - NEGLIGIBLE * abs(state.loss):
                return there
        direction *= 0.5
    return None


def _scale(state: LatentClasses) -> Array:
    """Return units of the parameters: what their curvature would be if classes were known."""
    diagonal = np.diag(state.complete)
    return np.sqrt(np.maximum(diagonal, LEAST_CURVATURE**2 * max(float(diagonal.max()), 1e-300)))


def _root(state: LatentClasses) -> Array:
    """Return R with RRᵀ = |H|⁻¹: eigenvalues without their sign, coordinates scaled, and none too small."""
    scale = _scale(state)
    values, vectors = eigh(state.hessian / np.outer(scale, scale))
    size = np.maximum(np.abs(values), LEAST_CURVATURE * max(float(np.abs(values).max()), 1e-300))
    return vectors / np.sqrt(size) / scale[:, None]


def _reach(state: LatentClasses, direction: Array) -> float:
    """Return about how far a step moves scores: the largest root mean square over classes and memberships."""
    steps = direction[: state.at.tastes.size].reshape(state.at.tastes.shape)
    X = state.panel.features
    spread = X - X.mean(axis=0)
    of_tastes = np.sqrt(((spread @ steps.T) ** 2).mean(axis=0)).max()
    members = direction[steps.size :].reshape(-1, state.panel.covariates.shape[1])
    of_members = np.abs(state.panel.covariates @ members.T).max(initial=0.0)
    return float(max(of_tastes, of_members))


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


# --- where to start ---------------------------------------------------------------------------------------


def one_class(panel: Panel, ridge: float, *, tol: float, max_iter: int) -> Found:
    """Return the fit of one class, which has one optimum."""
    d, q = panel.features.shape[1], panel.covariates.shape[1]
    start = LatentClasses(panel, Parameters(np.zeros((1, d)), np.zeros((1, q))), ridge)
    return fit_from(start, tol=tol, max_iter=max_iter)


def starts(pooled: LatentClasses, classes: int, count: int, seed: int) -> Iterator[LatentClasses]:
    """Yield starts: people clustered by what they would change of the pooled tastes, from random centres.

    Person i's score at the pooled estimates, through the root of the Hessian, says where i's own tastes are; k-means
    from random people breaks the symmetry between classes.
    """
    whitened = (pooled.scores() / pooled.panel.weight[:, None]) @ _root(pooled)
    # Who made many choices stands farther out only for that.
    many = np.bincount(pooled.panel.person, minlength=len(pooled.panel))
    points = whitened / np.sqrt(many)[:, None]
    for number in range(count):
        rng = np.random.default_rng([seed, number])
        yield _start_of(pooled, _clustered(points, classes, rng), classes)


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


def _start_of(pooled: LatentClasses, which: Array, classes: int) -> LatentClasses:
    """Return one Newton step of each class from the pooled tastes, with the people in it counted for more."""
    panel, d = pooled.panel, pooled.at.tastes.shape[1]
    shares = np.bincount(which, minlength=classes) + 1.0
    membership = np.zeros((classes, panel.covariates.shape[1]))
    membership[:, 0] = np.log(shares / shares[0])
    tastes = np.repeat(pooled.at.tastes, classes, axis=0)
    R, scores = _root(pooled), pooled.scores()
    for c in range(classes):
        members = which == c
        part = max(float(panel.weight[members].sum() / panel.weight.sum()), 0.1 / classes)
        tastes[c] -= (R @ (R.T @ scores[members].sum(axis=0)))[:d] / part
    return LatentClasses(panel, Parameters(tastes, membership), pooled.ridge)

"""Where latent classes start: people are clustered by their tastes, or divided by what is known of them."""

from __future__ import annotations

import numpy as np

from majorant._checks import Array
from majorant.estimators.choice.class_metric import solved, whitened
from majorant.models.latent_classes import LatentClasses, Parameters

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

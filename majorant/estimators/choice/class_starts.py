"""Where latent classes start: people are clustered by what they would change of tastes that all share."""

from __future__ import annotations

import numpy as np

from majorant._checks import Array
from majorant.estimators.choice.class_metric import solved, whitened
from majorant.models.latent_classes import LatentClasses, Parameters

LLOYD_STEPS = 5


def starts(pooled: LatentClasses, classes: int, count: int, seed: int) -> list[LatentClasses]:
    """Return starts: people clustered by what they would change of the pooled tastes, from random centres.

    Person i's score at the pooled estimates, through the root of the Hessian, says where i's own tastes are; k-means
    from random people breaks the symmetry between classes.
    """
    scores = pooled.scores()
    # Who made many choices stands farther out only for that.
    many = np.bincount(pooled.panel.person, minlength=len(pooled.panel))
    points = whitened(pooled, scores / (pooled.panel.weight * np.sqrt(many))[:, None])
    changes = solved(pooled, scores)[:, : pooled.at.tastes.shape[1]]
    generators = [np.random.default_rng([seed, number]) for number in range(count)]
    return [_start_of(pooled, changes, _clustered(points, classes, rng), classes) for rng in generators]


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


def _start_of(pooled: LatentClasses, changes: Array, which: Array, classes: int) -> LatentClasses:
    """Return one Newton step of each class from the pooled tastes, with the people in it counted for more."""
    panel = pooled.panel
    shares = np.bincount(which, minlength=classes) + 1.0
    membership = np.zeros((classes, panel.covariates.shape[1]))
    membership[:, 0] = np.log(shares / shares[0])
    tastes = np.repeat(pooled.at.tastes, classes, axis=0)
    for c in range(classes):
        members = which == c
        part = max(float(panel.weight[members].sum() / panel.weight.sum()), 0.1 / classes)
        tastes[c] -= changes[members].sum(axis=0) / part
    return LatentClasses(panel, Parameters(tastes, membership), pooled.ridge)

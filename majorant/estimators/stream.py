"""What ``partial_fit`` remembers from call to call: parameters, a metric, and where columns are measured from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from majorant._checks import Array
from majorant._minimize import numerics
from majorant.data import Labelled
from majorant.models.class_space import ClassModel
from majorant.objective import Objective
from majorant.solvers import ProximalMajorization
from majorant.solvers.line_search import best_step
from majorant.solvers.metrics import Metric

# Rows of one label in a row: they look sorted if there are so many, and it is as unlikely as that.
LONG_RUN = 50
UNLIKELY = 1e-6
NO_RUN = (0, 0)


@dataclass(frozen=True, eq=False)
class Stream:
    """A stream after some chunks. Each chunk makes a new one: a call that fails has changed nothing."""

    model: ClassModel
    settings: dict[str, Any]  # of the estimator, when it began
    ridge: Array
    theta: Array
    metric: Metric
    rows: int  # of a mini-batch
    centre: Array | None
    counts: Array  # of the labels, up to those of the run
    run: tuple[int, int] = NO_RUN  # a label, and how many rows at the end have had no other
    chunks: int = 0
    was_sorted: bool = False  # and has been said to be

    @classmethod
    def begin(cls, model: ClassModel, data: Labelled, ridge: Array, settings: dict[str, Any]) -> Stream:
        """Return the prior, for chunks like this one."""
        solver = ProximalMajorization(shuffle=False)
        objective = Objective(model, data, ridge=ridge)
        rows = solver.default_rows(objective)
        prior = solver.prior(objective, min(rows, len(data)))
        counts = np.zeros(max(model.coefficient_rows, 2))
        return cls(model, settings, ridge, np.zeros(objective.size), prior, rows, data.centre, counts)

    def after(self, data: Labelled, rng: np.random.Generator | None) -> Stream:
        """Return the stream after one more chunk, its rows in random order if there is a generator for it."""
        with numerics(1):
            theta, metric = self.theta, self.metric.copy()
            for batch in (data if rng is None else data.take(rng.permutation(len(data)))).blocks(self.rows):
                theta = metric.step(self.model, theta, batch)
            theta = self._look_back(data, theta)
        known = self.was_sorted or self.looks_sorted()
        return replace(self._having_seen(data.y), theta=theta, metric=metric, chunks=self.chunks + 1, was_sorted=known)

    def looks_sorted(self) -> bool:
        """Return whether so many rows in a row have had one label that it can hardly be chance."""
        label, length = self.run
        share = (self.counts[label] + 1) / (self.counts.sum() + len(self.counts))
        return length >= LONG_RUN and share**length < UNLIKELY

    def precision(self) -> Array:
        """Return the precision of a Laplace approximation, whatever was kept of it."""
        return self.metric.precision()

    def _look_back(self, data: Labelled, theta: Array) -> Array:
        """Return the parameters, or better ones on the way there if the chunk's own loss has risen."""
        before, after = (self.model.loss(self.model.scores(θ, data), data) for θ in (self.theta, theta))
        if after <= before:
            return theta
        ray = Objective(self.model, data, ridge=self.ridge).ray(self.theta, theta - self.theta)
        return ray.at(min(best_step(ray), 1.0))

    def _having_seen(self, labels: Array) -> Stream:
        run, counts = self.run, self.counts.copy()
        label = int(labels[0])
        if label == run[0] and (labels == label).all():
            return replace(self, run=(label, run[1] + len(labels)))
        counts[run[0]] += run[1]
        if (labels == label).all():
            return replace(self, counts=counts, run=(label, len(labels)))
        return replace(self, counts=counts + np.bincount(labels, minlength=len(counts)), run=NO_RUN)

"""What is minimised in an experiment: rows, a 90/10 split, the model of the paper, and where a run begins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from majorant import datasets
from majorant._checks import Array
from majorant._minimize import held_out
from majorant.data import Labelled
from majorant.experiments.table import Experiment
from majorant.models import Model, Multinomial
from majorant.objective import Objective

TRAINING_SHARE = 0.9
SPLIT_SEED = 0
# Random starts give scores of about this size, whatever the scale of the features: "close to the origin".
START_SCORES = 0.01


@dataclass(frozen=True, eq=False)
class Problem:
    """The training objective, what is measured besides, and the typical length of a row."""

    objective: Objective
    metrics: Mapping[str, Callable[[Array], float]]
    row_length: float

    def start(self, seed: int) -> Array:
        """Return a random start near the origin."""
        rng = np.random.default_rng([seed, 1])
        return rng.normal(size=self.objective.size) * START_SCORES / self.row_length


def prepare(experiment: Experiment) -> Problem:
    """Load the data of an experiment and split them; the same split serves every run."""
    X, y = datasets.load(experiment.dataset)
    order = np.random.default_rng(SPLIT_SEED).permutation(len(y))[: experiment.rows]
    X, y = _scaled(X[order], experiment.scale), y[order]
    cut = round(TRAINING_SHARE * len(y))
    train, test = Labelled(X[:cut], y[:cut]), Labelled(X[cut:], y[cut:])
    model = Multinomial(int(y.max()) + 1, order="given")
    return pose(model, train, test, ridge=experiment.ridge, training=experiment.training)


def pose(model: Model[Any], train: Labelled, test: Labelled, *, ridge: float, training: bool = True) -> Problem:
    """Return a problem; ``training`` says whether the fit of the training rows is measured too."""
    metrics = held_out(model, test)
    if training:
        metrics |= held_out(model, train, prefix="train_")
    return Problem(Objective(model, train, ridge=ridge), metrics, _row_length(train))


def _scaled(X: Any, scale: float) -> Any:
    if scale == 1.0:
        return X
    factors = np.append(np.full(X.shape[1] - 1, scale), 1.0)
    return X @ sp.diags_array(factors) if sp.issparse(X) else X * factors


def _row_length(data: Labelled) -> float:
    return data.design.frobenius_norm() / float(np.sqrt(len(data)))

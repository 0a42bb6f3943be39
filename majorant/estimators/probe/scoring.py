"""How well a fit does on rows that it has not seen, and when a sweep has clearly passed its best."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from majorant._checks import Array
from majorant.estimators.probe.features import in_chunks, losses_and_best, take
from majorant.estimators.probe.held_out import Split

Metric: TypeAlias = str | Callable[[Array, Array], float]
NAMED = ("accuracy", "balanced_accuracy", "loss")
# Standard errors by which a score has to be below the best one to be worse beyond chance.
CLEARLY = 2.0


def check_metric(metric: Any) -> None:
    """Refuse what is neither a known name nor a function."""
    if not (callable(metric) or (isinstance(metric, str) and metric in NAMED)):
        raise ValueError(f"metric must be one of {', '.join(map(repr, NAMED))} or a function, got {metric!r}")


def name_of(metric: Metric) -> str:
    """Return what a metric is called."""
    return metric if isinstance(metric, str) else getattr(metric, "__name__", repr(metric))


@dataclass(frozen=True, eq=False)
class Score:
    """A score (higher is better), the mean held-out loss, and what each row adds to the score, where it is a mean.

    A score that is NaN is below all others.
    """

    value: float
    loss: float
    of_rows: Array | None

    def beats(self, other: Score | None) -> bool:
        """Return whether it is better; of equal scores, which few rows have often, the lower loss is."""
        return other is None or (self._rank, -self.loss) > (other._rank, -other.loss)

    def is_clearly_below(self, best: Score) -> bool:
        """Return whether it is worse beyond chance, row by row: the same rows were scored."""
        if self.of_rows is None or best.of_rows is None:
            return self._rank < best._rank
        apart = best.of_rows - self.of_rows
        return bool(apart.mean() > CLEARLY * apart.std() / np.sqrt(len(apart)))

    @property
    def _rank(self) -> float:
        return -np.inf if np.isnan(self.value) else self.value


def score(model: Any, split: Split, metric: Metric) -> Score:
    """Return how well a fitted model does on the rows that are held out."""
    losses, best = np.empty(len(split.codes)), np.empty(len(split.codes), dtype=np.int64)
    for some in in_chunks(len(losses), max(len(split.classes), split.X_held.shape[1])):
        found = model.decision_function(take(split.X_held, some))
        losses[some], best[some] = losses_and_best(found, split.codes[some])
    if callable(metric):
        found = metric(split.held_labels, split.classes[best])
        try:
            return Score(float(found), float(losses.mean()), None)
        except (TypeError, ValueError):
            raise ValueError(f"metric must return a number, got {found!r:.80} from {name_of(metric)}") from None
    of_rows = _of_rows(metric, losses, best == split.codes, split.codes)
    return Score(float(of_rows.mean()), float(losses.mean()), of_rows)


def _of_rows(metric: str, losses: Array, right: Array, codes: Array) -> Array:
    """Return what each row adds to a score that is their mean."""
    if metric == "loss":
        return -losses
    if metric == "accuracy":
        return right.astype(np.float64)
    sizes = np.bincount(codes)
    return right * (len(codes) / np.count_nonzero(sizes) / sizes[codes])


@dataclass
class Turning:
    """Tells when a sweep has passed its best: so many scores in a row are worse than the best one beyond chance."""

    patience: int | None
    best: Score | None = None
    _below: int = 0

    def add(self, found: Score) -> bool:
        """Take down a score; return whether it is the best so far."""
        better = found.beats(self.best)
        self._below = self._below + 1 if self.best is not None and found.is_clearly_below(self.best) else 0
        self.best = found if better or self.best is None else self.best
        return better

    @property
    def is_over(self) -> bool:
        """Whether nothing better is to come."""
        return self.patience is not None and self._below >= self.patience

"""Fitting rows that are not in memory, and predicting them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np

from majorant._checks import Array
from majorant._threads import sharing
from majorant.estimators.fitting import warn_outside
from majorant.estimators.named import ONE_AFTER_THE_OTHER
from majorant.estimators.placing import Here, How, Place, place_of, refuse_beside
from majorant.estimators.settings import check_class_weight
from majorant.estimators.sklearn_callbacks import StepTasks
from majorant.estimators.sweep import Sweep
from majorant.estimators.threads import fit_threads
from majorant.objective import Objective
from majorant.objective.together import Group, ReadTogether, all_together
from majorant.passes import PassLine
from majorant.sources import Source
from majorant.sources.encoding import Encoding
from majorant.sources.survey import Survey

# Passes over rows that have to be read are worth sharing, however few they are.
LARGE = 2**62
# Fits that share a read: their scores are all kept.
TOGETHER = 16
# Solvers that visit rows as they come want a row's place to tell less of its label than this.
SORTED = 0.3
Classifier = TypeVar("Classifier", bound=Any)


class FitSource:
    """``fit`` of a source, for a linear classifier."""

    def _fit_source(self: Classifier, source: Source, how: How, **beside: Any) -> Classifier:
        """Fit to all rows of a source: a first look, then as many passes as it takes."""
        refuse_beside(**beside)
        sweep = Sweep() if self._sweep is None else self._sweep
        line = PassLine() if self.verbose and source.watcher is None else None
        how = how._replace(line=line if line is not None and line.is_seen else None)
        with sharing(fit_threads(self.n_jobs, LARGE)):
            place = sweep.seen(place_of(source, how.executor, None if line is None else line.watch))
            self._take_note(source, place.survey)
            self._warn_of_sorted(place)
            if line is not None:
                line.begin("fitting", place.survey.rows)
            self._solve_at(place, sweep, lambda: self._objective_at(place), how)
        return self

    def _solve_at(self: Any, place: Place, sweep: Sweep, make: Callable[[], Objective], how: How) -> None:
        """Fit rows that have been looked at; those of one class as they are fitted in memory."""
        tasks = StepTasks(self, None, lambda: np.empty(0), self._attributes)
        of_class, found = class_weights(self.class_weight, place.survey), place.survey.weights
        weighs = np.flatnonzero(found if of_class is None else found * of_class)
        if self._is_free and len(weighs) == 1:
            self._fit_one_class(tasks, int(weighs[0]), 0.0)
        else:
            self._solve(sweep.under(self._ridge, make), sweep, tasks, how)

    def _warn_of_sorted(self: Any, place: Place) -> None:
        """Say so if rows are to be visited one after the other, stand sorted by their labels, and stay so."""
        if self.solver not in ONE_AFTER_THE_OTHER or not isinstance(place, Here) or place.spool.is_open:
            return
        told = place.outline.told_by_chunk(self.classes_)
        if told > SORTED:
            warn_outside(
                f"rows seem to be sorted by label (where a row stands tells {told:.0%} of its label), and "
                f"solver={self.solver!r} visits them in the order of the source, as the disk has no room for a copy: "
                "it may end far from the optimum; point TMPDIR at a larger disk, shuffle the rows, or use "
                "solver='auto', to which their order does not matter"
            )

    def _objective_at(self: Any, place: Place) -> Objective:
        data, reducer = place.put(self._encoding(place.survey))
        return Objective(self._model(), data, ridge=self._ridge(), reducer=reducer)

    def _take_note(self: Any, source: Source, found: Survey) -> None:
        """Set what is known of rows and labels once all have been looked at."""
        self.n_features_in_ = found.columns
        self.__dict__.pop("feature_names_in_", None)
        names = found.named if source.feature_names is None else source.feature_names
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        self._dtype = found.dtype
        self._set_classes(found.names)

    def _encoding(self: Any, found: Survey) -> Encoding:
        return Encoding(
            classes=self.classes_,
            class_weights=class_weights(self.class_weight, found),
            columns=found.columns,
            dtype=found.dtype,
            constant=bool(self.fit_intercept),
            centre=found.centre() if self._is_free else None,
            total=found.rows,
        )


def fit_together(source: Source, models: Sequence[Any]) -> Iterator[tuple[int, Any]]:
    """Yield the number of every model and the model, fitted to the same source: some at a time share every read."""
    place: Place | None = None
    for begin in range(0, len(models), TOGETHER):
        some = models[begin : begin + TOGETHER]
        with sharing(fit_threads(some[0].n_jobs, LARGE)):
            place = place_of(source, None)() if place is None else place
            _fit_members(source, place, some)
        yield from enumerate(some, begin)


def _fit_members(source: Source, place: Place, models: Sequence[Any]) -> None:
    group = Group(len(models))
    for model in models:
        model._check_settings()
        model._take_note(source, place.survey)
    data, reducer = place.put(models[0]._encoding(place.survey))

    def fit(model: Any) -> None:
        make = partial(Objective, model._model(), data, ridge=model._ridge(), reducer=ReadTogether(reducer, group))
        model._solve_at(place, Sweep(), make, How())

    all_together([partial(fit, model) for model in models], group)


def class_weights(class_weight: Any, found: Survey) -> Array | None:
    """Return the weight of each class, of rows of which only totals are known."""
    if class_weight is None:
        return None
    if not isinstance(class_weight, Mapping) and class_weight != "balanced":
        raise ValueError(f"class_weight must be a dict, 'balanced' or None, got {class_weight!r}")
    if not isinstance(class_weight, Mapping):
        weighs = found.weights > 0  # a balance is of classes that have a weight
        balanced = found.weights.sum() / (weighs.sum() * np.where(weighs, found.weights, 1.0))
        return np.where(weighs, balanced, 0.0)
    unknown = [label for label in class_weight if label not in found.names]
    if unknown:
        raise ValueError(f"class_weight names classes that no row has: {unknown}; there are {found.names.tolist()}")
    check_class_weight(class_weight)
    return np.array([float(class_weight.get(name, 1.0)) for name in found.names.tolist()])

"""Fitting rows that are not in memory, and predicting them."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from majorant._checks import Array
from majorant._threads import sharing
from majorant.estimators.placing import Place, place_of, refuse_beside
from majorant.estimators.sklearn_callbacks import StepTasks
from majorant.estimators.sweep import Sweep
from majorant.estimators.threads import fit_threads
from majorant.objective import Objective
from majorant.sources import Source
from majorant.sources.encoding import Encoding
from majorant.sources.survey import Survey

# Passes over rows that have to be read are worth sharing, however few they are.
LARGE = 2**62
Classifier = TypeVar("Classifier", bound=Any)


class FitSource:
    """``fit`` of a source, for a linear classifier."""

    def _fit_source(self: Classifier, source: Source, executor: Any = None, **beside: Any) -> Classifier:
        """Fit to all rows of a source: a first look, then as many passes as it takes."""
        refuse_beside(**beside)
        sweep = Sweep() if self._sweep is None else self._sweep
        with sharing(fit_threads(self.n_jobs, LARGE)):
            place = sweep.seen(place_of(source, executor))
            self._take_note(source, place.survey)
            objective = sweep.under(self._ridge, lambda: self._objective_at(place))
            self._solve(objective, sweep, StepTasks(self, None, lambda: np.empty(0), self._attributes))
        return self

    def _objective_at(self: Any, place: Place) -> Objective:
        data, reducer = place.put(self._encoding(place.survey))
        return Objective(self._model(), data, ridge=self._ridge(), reducer=reducer)

    def _take_note(self: Any, source: Source, found: Survey) -> None:
        """Set what is known of rows and labels once all have been looked at."""
        self.n_features_in_ = found.columns
        self.__dict__.pop("feature_names_in_", None)
        if source.feature_names is not None:
            self.feature_names_in_ = np.array(source.feature_names, dtype=object)
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


def class_weights(class_weight: Any, found: Survey) -> Array | None:
    """Return the weight of each class, of rows of which only totals are known."""
    if class_weight is None:
        return None
    if isinstance(class_weight, str):
        return float(found.weights.sum()) / (len(found.names) * found.weights)
    unknown = [label for label in class_weight if label not in found.names]
    if unknown:
        raise ValueError(f"class_weight names classes that no row has: {unknown}; there are {found.names.tolist()}")
    return np.array([float(class_weight.get(name, 1.0)) for name in found.names.tolist()])

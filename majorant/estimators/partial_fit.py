"""Learning from one chunk of rows at a time."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from scipy.sparse import issparse

from majorant._checks import Array, refuse_null_ending
from majorant._solution import Fitted, stream_result
from majorant._threads import numerics
from majorant.data import Labelled
from majorant.estimators.atomic import all_or_nothing
from majorant.estimators.fitting import warn_outside
from majorant.estimators.recentring import FEW
from majorant.estimators.settings import take_rows
from majorant.estimators.stream import Stream

# What a stream cannot change its mind about.
SETTLED = ("C", "penalty", "fit_intercept", "penalize_intercept", "feature_penalty", "solver", "intercept_scaling")
Classifier = TypeVar("Classifier", bound=Any)


class PartialFit:
    """``partial_fit``, for a linear classifier that says how it reads rows, weights and settings."""

    def partial_fit(self: Classifier, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Classifier:
        """Learn from one more chunk of rows, by the proximal solver, without keeping them.

        A later chunk may lack classes. Rows fed twice count twice. Memory does not depend on how many rows were seen.
        ``gap_`` is NaN: nothing certifies a stream. After ``fit`` a stream starts afresh, from zero: a fit gathers no
        precision to go on from.

        **Order matters.** Rows of a call are visited in random order (``shuffle``, ``random_state``), so within a call
        theirs does not. But a chunk of one class alone is fitted perfectly and hardly remembered: on 20,000 rows sorted
        by label a stream of 20 calls ends at an accuracy of 0.50, and of 0.79 shuffled. A warning says so when it
        happens; shuffle the rows, or see that every call has all classes.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n_samples, n_features)
        y : array of labels, shape (n_samples,)
        classes : array of labels, optional
            All that will ever come; needed at the first call.
        sample_weight : array of shape (n_samples,), optional

        Returns
        -------
        estimator
            As far as it has learnt.

        Examples
        --------
        >>> import majorant
        >>> X, y = majorant.datasets.load("ecoli")
        >>> order, model = np.random.default_rng(0).permutation(len(y)), majorant.LogisticRegression(solver="proximal")
        >>> for rows in np.array_split(order, 4):
        ...     model = model.partial_fit(X[rows], y[rows], classes=range(8))
        >>> round(model.score(X, y), 1), model.result_.outcome.value
        (0.8, 'stopped')
        """
        with all_or_nothing(self):
            self._check_settings()
            first = not hasattr(self, "_stream")
            self._check_stream(first)
            X, y = self._validate(X, y, reset=first)
            known = self._stream_classes(classes, first)
            unknown = np.setdiff1d(y, known)
            if len(unknown):
                raise ValueError(f"y holds classes that were not named at the first call: {unknown}; got {known}")
            self._set_classes(known)
            if not first and np.shape(sample_weight) == np.shape(y) and not np.any(sample_weight):
                return self  # rows that weigh nothing teach nothing
            weight = self._weights(sample_weight, X, y)
            if weight is not None and not weight.all():
                X, y, weight = take_rows(np.flatnonzero(weight), X, y, weight)
            if len(y):
                self._learn(X, np.searchsorted(known, y), weight)
        return self

    def _check_stream(self: Any, first: bool) -> None:
        if np.isinf(self._strength):
            raise ValueError("partial_fit needs a penalty to start from, got C=np.inf; use a large C")
        if self.class_weight == "balanced":
            raise ValueError("class_weight='balanced' is not known in a stream; pass a dict of weights to partial_fit")
        for name, value in ({} if first else self._stream.settings).items():
            if not np.array_equal(value, getattr(self, name)):
                raise ValueError(
                    f"{name} was {value!r} when the stream began, got {getattr(self, name)!r}; a stream keeps its "
                    "settings: clone the estimator to start another"
                )

    def _stream_classes(self: Any, classes: Any, first: bool) -> Array:
        if classes is None and not hasattr(self, "classes_"):
            raise ValueError("classes must be passed on the first call to partial_fit: a chunk may not hold them all")
        refuse_null_ending("classes", classes)
        named = self.classes_ if classes is None else np.unique(classes)
        if not first and not np.array_equal(named, self.classes_):
            raise ValueError(f"classes={named} differ from those of the first call, {self.classes_}")
        return named

    def _learn(self: Any, X: Any, labels: Array, weight: Array | None) -> None:
        with numerics(1):
            before = self._stream_before(X, labels, weight)
            data = self._chunk(X, labels, weight, before.centre)
            self._centre = data.centre
            rng = np.random.default_rng([self._seed(), before.chunks]) if self.shuffle else None
            self._stream = before.after(data, rng)
        said = stream_result(self._stream.chunks, self._stream.foreseen.in_words())
        self._publish(Fitted(self._stream.theta, said, self._stream.chunks, {}))
        for text in self._stream.warnings[len(before.warnings) :]:
            warn_outside(text)

    def _stream_before(self: Any, X: Any, labels: Array, weight: Array | None) -> Stream:
        """Return the stream as it meets these rows: begun if need be, its columns measured from near where they are."""
        if not hasattr(self, "_stream"):
            self._forget_fit()
            # Of a few sparse rows every column that occurs would be far from zero.
            center = self._is_free and not (issparse(X) and len(labels) < FEW)
            like, settings = self._chunk(X, labels, weight, center), {name: getattr(self, name) for name in SETTLED}
            self._stream = Stream.begin(self._model(), like, self._ridge(), settings)
        return self._stream.having_seen(X, weight) if self._is_free else self._stream

    def _chunk(self: Any, X: Any, labels: Array, weight: Array | None, center: Any) -> Labelled:
        """Return rows measured from a centre, in double precision: rounding errors would add up as rows do."""
        X = X.astype(np.float64, copy=False)
        return Labelled(X, labels, weight, constant=self.fit_intercept, center=False if center is None else center)

"""Predictions for sources: chunk by chunk, as they are read."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from majorant._checks import Array
from majorant.estimators.placing import refuse_beside
from majorant.sources import Chunk, Source
from majorant.sources.ahead import read_ahead
from majorant.sources.survey import refuse_non_finite

Method = TypeVar("Method", bound=Callable[..., Array])


def chunkwise(method: Method) -> Method:
    """Let a method of rows take a source as well: what it returns for each chunk is put together."""

    @wraps(method)
    def of_rows_or_source(self: Any, X: Any, *args: Any, **kwargs: Any) -> Array:
        if not isinstance(X, Source):
            return method(self, X, *args, **kwargs)
        if kwargs.get("offset") is not None or (args and args[0] is not None):
            raise ValueError("offset must be left out: a source has none")
        found = [method(self, chunk.X, *args, **kwargs) for chunk in fitting_chunks(self, X)]
        if not found:
            raise ValueError("there are no rows to predict: every piece of the source is empty")
        return np.concatenate(found)

    return of_rows_or_source  # type: ignore[return-value]


def accuracy(classifier: Any, source: Source, **beside: Any) -> float:
    """Return the share of rows, by weight, whose label is the likeliest one."""
    refuse_beside(**beside)
    hits = total = 0.0
    for chunk in fitting_chunks(classifier, source):
        if chunk.labels is None:
            raise chunk.refuse("there are no labels to compare predictions with")
        weight = np.ones(len(chunk)) if chunk.weight is None else chunk.weight
        right = classifier.predict(chunk.X) == chunk.labels.names[chunk.labels.codes]
        hits, total = hits + float(weight @ right), total + float(weight.sum())
    if not total:
        raise ValueError("there are no rows to score, or none that weighs anything")
    return hits / total


def fitting_chunks(classifier: Any, source: Source) -> Iterator[Chunk]:
    """Yield the chunks of a source, read ahead, with the columns of the fit."""
    check_is_fitted(classifier, "coef_")
    _check_names(classifier, source)
    with warnings.catch_warnings():  # names have been compared
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        for chunk in read_ahead(source.chunks):
            fitting = _fitted_width(chunk, classifier.n_features_in_)
            _refuse_other_names(classifier, fitting)
            refuse_non_finite(fitting)
            if len(fitting):
                yield fitting


def _check_names(classifier: Any, source: Source) -> None:
    ours = getattr(classifier, "feature_names_in_", None)
    if ours is not None and source.feature_names is not None and list(ours) != list(source.feature_names):
        different = next((a for a, b in zip(ours, source.feature_names, strict=False) if a != b), "")
        raise ValueError(
            f"the columns must be those of the fit, in the same order: {len(ours)} with {different!r} among them, got "
            f"{len(source.feature_names)}; pass features={list(ours)[:3]}…"
        )


def _refuse_other_names(classifier: Any, chunk: Chunk) -> None:
    ours = getattr(classifier, "feature_names_in_", None)
    if ours is not None and chunk.columns is not None and tuple(ours) != chunk.columns:
        other = next(name for name, our in zip(chunk.columns, ours, strict=True) if name != our)
        raise chunk.refuse(f"column {other!r} stands where another one did in the fit")


def _fitted_width(chunk: Chunk, columns: int) -> Chunk:
    """Return a chunk whose unwritten columns are zero, and without those that were never seen."""
    if chunk.X.shape[1] == columns:
        return chunk
    if not chunk.open_ended:
        raise chunk.refuse(f"there are {chunk.X.shape[1]} columns, but the model was fitted to {columns}")
    X = chunk.X[:, :columns] if chunk.X.shape[1] > columns else chunk.X
    wide = sp.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], columns))
    return Chunk(wide, chunk.labels, chunk.weight, chunk.where, chunk.first)

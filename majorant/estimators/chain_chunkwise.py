"""Labels of sequences that need not fit in memory, and how many of them are right, chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from itertools import chain
from typing import Any, TypeVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from majorant.data.tokens import split_rows
from majorant.estimators.chain_features import any_token_weights, check_lengths
from majorant.estimators.chain_source import is_source, source_of
from majorant.estimators.chain_survey import named
from majorant.estimators.placing import refuse_beside
from majorant.sources.sequences import Item

Method = TypeVar("Method", bound=Callable[..., list[Any]])


def chunkwise(method: Method) -> Method:
    """Let a method of sequences take a source as well: what it returns for each chunk is put together."""

    @wraps(method)
    def of_sequences_or_source(self: Any, X: Any, lengths: Any = None) -> list[Any]:
        if not is_source(X):
            return method(self, X, lengths)
        refuse_beside(lengths=lengths)
        return list(chain.from_iterable(of_each_chunk(self, X, lambda item: method(self, item[0]))))

    return of_sequences_or_source  # type: ignore[return-value]


def of_each_chunk(model: Any, X: Any, function: Callable[[Item], Any]) -> Iterator[Any]:
    """Yield what a function makes of each chunk of a source; its errors name the place."""
    check_is_fitted(model, "_weights")
    for piece in source_of(X).pieces():
        for where, item in piece.items():
            with named(where):
                found = function(item)
            yield found


def share_right(model: Any, X: Any, y: Any, sample_weight: Any, lengths: Any) -> float:
    """Return the share of tokens that a model labels right, by weight."""
    if is_source(X):
        refuse_beside(y=y, sample_weight=sample_weight, lengths=lengths)
        found = list(of_each_chunk(model, X, lambda item: _right_and_all(model, *item)))
    else:
        found = [_right_and_all(model, X if lengths is None else split_rows(X, lengths), y, sample_weight)]
    right, total = (sum(each) for each in zip(*found, strict=True)) if found else (0.0, 0.0)
    if not total > 0:
        raise ValueError("there is no token of positive weight to score")
    return right / total


def _right_and_all(model: Any, X: Any, y: Any, sample_weight: Any) -> tuple[float, float]:
    """Return the weight of the tokens that are labelled right, and of all."""
    if y is None:
        raise ValueError("there are no labels to compare predictions with")
    X, y = list(X), [list(labels) for labels in y]
    check_lengths(X, y)
    starts = np.concatenate([[0], np.cumsum([len(labels) for labels in y], dtype=np.int64)])
    pairs = zip(chain.from_iterable(model.predict(X)), chain.from_iterable(y), strict=True)
    right = np.array([found == true for found, true in pairs], dtype=float)
    weight = any_token_weights(sample_weight, starts)
    if weight is None:
        return float(right.sum()), float(len(right))
    return float((weight * right).sum()), float(weight.sum())

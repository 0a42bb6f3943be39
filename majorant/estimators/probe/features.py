"""What a probe asks of its features: the only place that knows arrays from sparse matrices and tensors.

PyTorch is never imported here: whoever has a tensor has it loaded.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from scipy.special import logsumexp
from sklearn.utils.validation import validate_data

from majorant._checks import Array, refuse_null_ending
from majorant.design import Design, Moments
from majorant.estimators.tensors import is_on_device, is_tensor, read_tensor, read_tensors, to_array
from majorant.sources import Source
from majorant.sources.dask import is_dask

# Numbers that are looked at together: scores of some rows, or the rows themselves.
TOGETHER = 2**24


def labels_of(y: Any) -> Array:
    """Return labels as an array, wherever they are."""
    return np.asarray(to_array(y))


def read_rows(estimator: Any, X: Any, y: Any) -> tuple[Any, Array]:
    """Return features as they are, if they can be used, and labels as an array.

    Neither is copied that has a usable type already: half precision stays what it is.
    """
    refuse_what_cannot_be_split(X)
    refuse_null_ending("y", y)
    if is_on_device(X):
        return X, read_tensors(estimator, X, to_array(y), reset=True)[1]
    return validate_data(estimator, X, to_array(y), **_as_they_are())


def read_more(estimator: Any, X: Any) -> Any:
    """Return further features with the columns of the first ones."""
    refuse_what_cannot_be_split(X)
    if not is_on_device(X):
        return validate_data(estimator, X, reset=False, **_as_they_are())
    read_tensor(estimator, X, reset=False)
    return X


def refuse_what_cannot_be_split(X: Any) -> None:
    """Refuse rows that are read in passes: a probe picks some of them."""
    if isinstance(X, Source) or is_dask(X):
        raise TypeError(
            f"X must be rows that a probe can pick from, got {type(X).__name__}; LogisticRegressionCV reads sources"
        )


def take(X: Any, rows: Array | slice) -> Any:
    """Return some rows; a slice of them is no copy."""
    if isinstance(X, Design):
        return X.part(rows)
    if is_tensor(X) and not isinstance(rows, slice):
        return X[sys.modules["torch"].as_tensor(rows, device=X.device)]
    return X[rows]


def in_chunks(rows: int, columns: int) -> Iterator[slice]:
    """Yield stretches of rows that are looked at together."""
    together = max(TOGETHER // max(columns, 1), 1)
    for begin in range(0, rows, together):
        yield slice(begin, min(begin + together, rows))


def moments(X: Any) -> Moments:
    """Return mean and variance of each column, in double precision; X is neither copied nor made dense."""
    rows, columns = X.shape
    if isinstance(X, Design):
        return Moments(rows, float(rows), *X.moments(np.ones(rows)))
    return reduce(add, (_moments(X[some]) for some in in_chunks(rows, columns)))


def _moments(X: Any) -> Moments:
    if not is_tensor(X):
        return Moments.of(X if X.dtype in (np.float32, np.float64) else X.astype(np.float64), None)
    wide = X.double()
    mean = wide[0] + (wide - wide[0]).mean(0)  # which is exact for a constant column
    variance = (wide - mean).square_().mean(0)
    return Moments(len(X), float(len(X)), mean.cpu().numpy(), variance.cpu().numpy())


def losses_and_best(scores: Any, codes: Array) -> tuple[Array, Array]:
    """Return −log p(y_j|x_j) and the likeliest class of each row, from its scores.

    Of two classes there is one score, which speaks for the second.
    """
    if is_tensor(scores):
        return _losses_and_best_of_tensor(scores, codes)
    scores = np.asarray(scores, dtype=np.float64)
    if scores.ndim == 1:
        return np.logaddexp(0.0, scores) - codes * scores, (scores > 0).astype(np.int64)
    return logsumexp(scores, axis=1) - scores[np.arange(len(codes)), codes], scores.argmax(axis=1)


def _losses_and_best_of_tensor(scores: Any, codes: Array) -> tuple[Array, Array]:
    """Return the same of scores on a device: two numbers a row leave it."""
    torch = sys.modules["torch"]
    y = torch.as_tensor(codes, device=scores.device)
    wide = torch.stack([torch.zeros_like(scores), scores], 1) if scores.ndim == 1 else scores
    wide = wide.float() if wide.element_size() < 4 else wide
    losses = torch.nn.functional.cross_entropy(wide, y, reduction="none")
    return losses.double().cpu().numpy(), wide.argmax(1).cpu().numpy()


def _as_they_are() -> dict[str, Any]:
    return {"accept_sparse": "csr", "dtype": "numeric"}

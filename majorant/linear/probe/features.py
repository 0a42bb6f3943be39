"""What a probe asks of its features: the only place that knows arrays from sparse matrices and tensors.

PyTorch is never imported here: whoever has a tensor has it loaded.

Which rows a probe is fitted to, and which score it.

What the last steps foretell that there is left to gain: an estimate, where certificates say nothing.

Of a tiny λ and many parameters a certificate takes far more passes than the fit; to compare scores it is not needed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from math import nan
from operator import add
from typing import Any

import numpy as np
from scipy.special import logsumexp
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from majorant.callbacks import Callback, Fit
from majorant.core.affine import Moments
from majorant.core.checks import Array, refuse_null_ending
from majorant.core.matrix import Design
from majorant.device.estimators import is_on_device, is_tensor, read_tensor, read_tensors, to_array
from majorant.sources.base import Source
from majorant.sources.chunks import is_dask

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


@dataclass(frozen=True, eq=False)
class Split:
    """Rows to fit, with their labels, and rows to score, with the numbers of their classes."""

    X: Any
    y: Array
    X_held: Any
    codes: Array
    classes: Array

    @property
    def held_labels(self) -> Array:
        """The labels of the rows that score."""
        return self.classes[self.codes]


def split_rows(estimator: Any, X: Any, y: Array, validation: Any) -> Split:
    """Return the split that ``validation`` asks for: a share of each class, some of the rows, or rows of their own."""
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"y must hold at least two classes, got only one class: {classes.tolist()[0]!r}")
    if is_pair(validation):
        X_held = read_more(estimator, validation[0])
        return Split(X, y, X_held, _codes_of(labels_of(validation[1]), classes, X_held.shape[0]), classes)
    if isinstance(validation, float | int) and not isinstance(validation, bool):
        held = draw(codes, validation, estimator.random_state)
    else:
        held = read_index(validation, len(y))
    _refuse_lost_classes(classes, codes[~held])
    fitted, scored = np.flatnonzero(~held), np.flatnonzero(held)
    return Split(take(X, _narrow(fitted)), y[fitted], take(X, _narrow(scored)), codes[scored], classes)


def is_pair(validation: Any) -> bool:
    """Return whether rows of their own are given, features and labels."""
    if not (isinstance(validation, tuple) and len(validation) == 2):
        return False
    return len(getattr(validation[0], "shape", ()) or np.shape(validation[0])) == 2


def draw(codes: Array, share: float, random_state: Any) -> Array:
    """Return a mask of that share of the rows of each class; a row of each stays.

    Rows are put in order by class, at random within each, and every (1/share)-th is taken: classes of any size have
    their share, on average.

    Examples
    --------
    >>> held = draw(np.repeat([0, 1], [80, 20]), 0.1, 0)
    >>> held[:80].sum(), held[80:].sum()
    (np.int64(8), np.int64(2))
    """
    if not 0 < share < 1:
        raise ValueError(f"validation must be a share between 0 and 1, rows, or (X, y), got {share!r}")
    random, rows = check_random_state(random_state), len(codes)
    order = np.lexsort((random.uniform(size=rows), codes))
    ends = np.floor((np.arange(rows + 1) + random.uniform()) * share)
    held = np.zeros(rows, dtype=bool)
    held[order] = np.diff(ends) > 0
    first = order[np.flatnonzero(np.diff(codes[order], prepend=-1))]  # a row of each class, any
    held[first[np.bincount(codes, held) == np.bincount(codes)]] = False
    return held if held.any() else _one_row(codes, order)


def _one_row(codes: Array, order: Array) -> Array:
    """Return a mask of one row of the largest class, where a share is less than one."""
    sizes = np.bincount(codes)
    if sizes.max() < 2:
        raise ValueError("validation needs a class with two rows, one to fit and one to score; pass X_val and y_val")
    held = np.zeros(len(codes), dtype=bool)
    held[order[codes[order] == sizes.argmax()][0]] = True
    return held


def read_index(validation: Any, rows: int) -> Array:
    """Return a mask of the rows that an index names: numbers, a mask or a slice."""
    held = np.zeros(rows, dtype=bool)
    index = validation if isinstance(validation, slice) else labels_of(validation)
    usable = isinstance(index, slice) or (index.ndim == 1 and index.dtype.kind in "iub")
    try:
        if usable:
            held[index] = True
    except IndexError as problem:
        raise ValueError(f"validation must name rows of X, of which there are {rows}: {problem}") from None
    if not usable or not held.any():
        raise ValueError(f"validation must be a share between 0 and 1, rows, or (X, y), got {validation!r:.80}")
    return held


def _narrow(rows: Array) -> Array | slice:
    """Return rows as a slice, which is no copy, if they are one."""
    whole = len(rows) and rows[-1] - rows[0] == len(rows) - 1
    return slice(int(rows[0]), int(rows[-1]) + 1) if whole else rows


def _codes_of(labels: Array, classes: Array, rows: int) -> Array:
    if labels.shape != (rows,):
        raise ValueError(f"y_val must have one label for each row of X_val ({rows}), got shape {labels.shape}")
    if not rows:
        raise ValueError("X_val must have rows to score, got none")
    unknown = np.setdiff1d(labels, classes)
    if len(unknown):
        raise ValueError(f"y_val holds classes that y lacks: {unknown.tolist()[:5]}; there is nothing to learn of them")
    return np.searchsorted(classes, labels)


def _refuse_lost_classes(classes: Array, left: Array) -> None:
    lost = classes[np.bincount(left, minlength=len(classes)) == 0]
    if len(lost):
        raise ValueError(f"validation takes all rows of classes {lost.tolist()[:5]}; leave one of each to fit")


# Of the tolerance that two estimates in a row have to be below: they are no bounds.
SHARE = 0.1


def foretold(values: Any) -> float:
    """Return what is left to gain relative to F if gains go on to shrink as the last two did; NaN if they do not.

    With gains a then b that is b·(b/a)/(1 − b/a), the rest of a geometric series.

    Examples
    --------
    >>> foretold([1.5, 1.25, 1.125])
    0.1111111111111111
    """
    if len(values) < 3:
        return nan
    before, last = float(values[-3] - values[-2]), float(values[-2] - values[-1])
    if not 0 < last < before:
        return 0.0 if last == 0 else nan
    return last * last / (before - last) / abs(float(values[-1]))


@dataclass
class NearEnough(Callback):
    """Stops a fit when two steps in a row foretell that less than the tolerance is left to gain."""

    tol: float
    _values: list[float] = field(default_factory=list, init=False)
    _before: float = field(default=nan, init=False)

    def start(self, fit: Fit) -> None:
        """Forget the fit before."""
        self._values, self._before = [], nan

    def __call__(self, row: Mapping[str, float], theta: Array) -> bool:
        """Return whether to stop."""
        self._values.append(row["objective"])
        now, before = foretold(self._values), self._before
        self._before = now
        return now <= SHARE * self.tol and before <= SHARE * self.tol

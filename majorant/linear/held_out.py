"""Held-out validation of a linear probe: the split of the rows, scores of a fit, and when to stop a sweep over C.

Rows are arrays, sparse matrices or tensors, and are not copied. PyTorch is never imported here: who brings a tensor has
imported it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from math import nan
from operator import add
from typing import Any, TypeAlias

import numpy as np
from scipy.special import logsumexp
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from majorant.callbacks import Callback, Fit
from majorant.core.affine import Moments
from majorant.core.checks import Array, refuse_null_ending
from majorant.core.matrix import Design
from majorant.device.estimators import is_on_device, is_tensor, read_tensor, read_tensors, to_array
from majorant.estimators.fitting import NEGLIGIBLE
from majorant.sources.base import Source, is_dask

# Numbers that are computed with at a time: scores of some rows, or the rows themselves.
TOGETHER = 2**24

Metric: TypeAlias = str | Callable[[Array, Array], float]


def read_rows(estimator: Any, X: Any, y: Any = None, *, reset: bool = True) -> tuple[Any, Array | None]:
    """Return features as they are, if they can be used, and labels, if there are any, as an array.

    Neither is copied that has a usable type already: half precision stays what it is.
    """
    if isinstance(X, Source) or is_dask(X):
        raise TypeError(
            f"X must be rows that a probe can pick from, got {type(X).__name__}; LogisticRegressionCV reads sources"
        )
    if is_on_device(X):
        if reset:
            return X, read_tensors(estimator, X, to_array(y), reset=True)[1]
        read_tensor(estimator, X, reset=False)
        return X, None
    if not reset:
        return validate_data(estimator, X, reset=False, accept_sparse="csr", dtype="numeric"), None
    refuse_null_ending("y", y)
    X, y = validate_data(estimator, X, to_array(y), accept_sparse="csr", dtype="numeric")
    return X, y


def take(X: Any, rows: Array | slice) -> Any:
    """Return the given rows; a slice of rows is no copy."""
    if isinstance(X, Design):
        return X.part(rows)
    if is_tensor(X) and not isinstance(rows, slice):
        return X[sys.modules["torch"].as_tensor(rows, device=X.device)]
    return X[rows]


def in_chunks(rows: int, columns: int) -> Iterator[slice]:
    """Yield slices of rows that are computed with at a time."""
    size = max(TOGETHER // max(columns, 1), 1)
    for begin in range(0, rows, size):
        yield slice(begin, min(begin + size, rows))


def moments(X: Any) -> Moments:
    """Return mean and variance of each column, in double precision; X is neither copied nor made dense."""
    rows, columns = X.shape
    if isinstance(X, Design):
        return Moments(rows, float(rows), *X.moments(np.ones(rows)))

    def of(X: Any) -> Moments:
        if not is_tensor(X):
            return Moments.of(X if X.dtype in (np.float32, np.float64) else X.astype(np.float64), None)
        wide = X.double()
        mean = wide[0] + (wide - wide[0]).mean(0)  # which is exact for a constant column
        variance = (wide - mean).square_().mean(0)
        return Moments(len(X), float(len(X)), mean.cpu().numpy(), variance.cpu().numpy())

    return reduce(add, (of(X[chunk]) for chunk in in_chunks(rows, columns)))


def losses_and_best(scores: Any, codes: Array) -> tuple[Array, Array]:
    """Return −log p(y_j|x_j) and the likeliest class of each row, from its scores.

    Of two classes there is one score, which speaks for the second. Of scores on a device, two numbers a row leave it.
    """
    if is_tensor(scores):
        torch = sys.modules["torch"]
        y = torch.as_tensor(codes, device=scores.device)
        wide = torch.stack([torch.zeros_like(scores), scores], 1) if scores.ndim == 1 else scores
        wide = wide.float() if wide.element_size() < 4 else wide
        losses = torch.nn.functional.cross_entropy(wide, y, reduction="none")
        return losses.double().cpu().numpy(), wide.argmax(1).cpu().numpy()
    scores = np.asarray(scores, dtype=np.float64)
    if scores.ndim == 1:
        return np.logaddexp(0.0, scores) - codes * scores, (scores > 0).astype(np.int64)
    return logsumexp(scores, axis=1) - scores[np.arange(len(codes)), codes], scores.argmax(axis=1)


# --- which rows score ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Split:
    """Rows to fit, with their labels, and rows to score, with the numbers of their classes."""

    X: Any
    y: Array
    X_held: Any
    codes: Array
    classes: Array


def split_rows(estimator: Any, X: Any, y: Array, validation: Any) -> Split:
    """Return the split that ``validation`` asks for: a share of each class, some of the rows, or rows of their own."""
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"y must hold at least two classes, got only one class: {classes.tolist()[0]!r}")

    # Rows of their own, features and labels.
    is_pair = isinstance(validation, tuple) and len(validation) == 2
    if is_pair and len(getattr(validation[0], "shape", ()) or np.shape(validation[0])) == 2:
        X_held, labels = read_rows(estimator, validation[0], reset=False)[0], np.asarray(to_array(validation[1]))
        rows = X_held.shape[0]
        if labels.shape != (rows,):
            raise ValueError(f"y_val must have one label for each row of X_val ({rows}), got shape {labels.shape}")
        if not rows:
            raise ValueError("X_val must have rows to score, got none")
        unknown = np.setdiff1d(labels, classes).tolist()[:5]
        if unknown:
            raise ValueError(f"y_val holds classes that y lacks: {unknown}; there is nothing to learn of them")
        return Split(X, y, X_held, np.searchsorted(classes, labels), classes)

    # A share of each class, or rows of X.
    if isinstance(validation, float | int) and not isinstance(validation, bool):
        held = draw(codes, validation, estimator.random_state)
    else:  # numbers, a mask or a slice
        held = np.zeros(len(y), dtype=bool)
        index = validation if isinstance(validation, slice) else np.asarray(to_array(validation))
        usable = isinstance(index, slice) or (index.ndim == 1 and index.dtype.kind in "iub")
        try:
            if usable:
                held[index] = True
        except IndexError as problem:
            raise ValueError(f"validation must name rows of X, of which there are {len(y)}: {problem}") from None
        if not usable or not held.any():
            raise ValueError(f"validation must be a share between 0 and 1, rows, or (X, y), got {validation!r:.80}")
    lost = classes[np.bincount(codes[~held], minlength=len(classes)) == 0].tolist()
    if lost:
        raise ValueError(f"validation takes all rows of classes {lost[:5]}; leave one of each to fit")
    fitted, scored = np.flatnonzero(~held), np.flatnonzero(held)
    return Split(take(X, as_slice(fitted)), y[fitted], take(X, as_slice(scored)), codes[scored], classes)


def as_slice(rows: Array) -> Array | slice:
    """Return rising numbers of rows as a slice, which is no copy, if they are one."""
    is_slice = len(rows) and rows[-1] - rows[0] == len(rows) - 1
    return slice(int(rows[0]), int(rows[-1]) + 1) if is_slice else rows


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
    if not held.any():  # a row of the largest class, where a share is less than one
        sizes = np.bincount(codes)
        if sizes.max() < 2:
            raise ValueError(
                "validation needs a class with two rows, one to fit and one to score; pass X_val and y_val"
            )
        held[order[codes[order] == sizes.argmax()][0]] = True
    return held


# --- scores -------------------------------------------------------------------------------------------------


def name_of(metric: Metric) -> str:
    """Return the name of a metric."""
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
        return bool(apart.mean() > 2 * apart.std() / np.sqrt(len(apart)))  # two standard errors

    @property
    def _rank(self) -> float:
        return -np.inf if np.isnan(self.value) else self.value


def score(model: Any, split: Split, metric: Metric) -> Score:
    """Return the score of a fitted model on the held-out rows."""
    codes = split.codes
    losses, best = np.empty(len(codes)), np.empty(len(codes), dtype=np.int64)
    for rows in in_chunks(len(losses), max(len(split.classes), split.X_held.shape[1])):
        scores = model.decision_function(take(split.X_held, rows))
        losses[rows], best[rows] = losses_and_best(scores, codes[rows])
    if callable(metric):
        value = metric(split.classes[codes], split.classes[best])
        try:
            return Score(float(value), float(losses.mean()), None)
        except (TypeError, ValueError):
            raise ValueError(f"metric must return a number, got {value!r:.80} from {name_of(metric)}") from None
    right, of_rows = best == codes, -losses
    if metric == "accuracy":
        of_rows = right.astype(np.float64)
    elif metric == "balanced_accuracy":
        sizes = np.bincount(codes)
        of_rows = right * (len(codes) / np.count_nonzero(sizes) / sizes[codes])
    return Score(float(of_rows.mean()), float(losses.mean()), of_rows)


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


def foretold(values: Any) -> float:
    """Return the remaining decrease relative to F if decreases go on to shrink as the last two did, else NaN.

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
        self._values, self._before = [], nan

    def __call__(self, row: Mapping[str, float], theta: Array) -> bool:
        self._values.append(row["objective"])
        now, before = foretold(self._values), self._before
        self._before = now
        return now <= NEGLIGIBLE * self.tol and before <= NEGLIGIBLE * self.tol

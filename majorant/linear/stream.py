"""What ``partial_fit`` remembers from call to call: parameters, their precision, where columns are measured from.

Measuring the columns of a stream from elsewhere, once it turns out that they are far from where it began.

The intercept of a stream has a weak prior, centred at zero. That is harmless where columns are measured from near their
means; far from them the intercept would have to be large. With b' = b + WΔ for a centre moved by Δ, precision and
parameters change by a congruence, and the prior of the old intercept gives way to that of the new one.
"""

from __future__ import annotations

import warnings
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from majorant.core.affine import Moments
from majorant.core.checks import Array
from majorant.core.class_model import ClassModel
from majorant.core.curvature import steady_factor
from majorant.core.labelled import Labelled
from majorant.core.line_search import best_step
from majorant.core.objective import Objective
from majorant.core.proximal import Memory, ProximalStream, prior_precision

# Rows of one label in a row: they look sorted if there are so many, and it is as unlikely as that.
LONG_RUN = 50
UNLIKELY = 1e-6
NO_RUN = (0, 0)
# Rows that may be forgotten.
AT_FIRST = 200
# Rows after which what was foreseen counts half.
HALF_LIFE, HALF_LIFE_PER_PARAMETER = 500.0, 20.0
# Rows that tell: of as few as there are parameters, any stream makes too much.
ENOUGH_ROWS, ROWS_PER_PARAMETER = 200.0, 10.0
# How much worse than even odds is worth a warning, and is so even if there were few rows for the parameters.
WORSE, FAR_WORSE = 1.25, 2.0

SORTED = (
    "so many rows in a row have had one label that they look sorted by it: a stream forgets most of what it learns "
    "from such rows; shuffle them, or pass chunks that hold all classes"
)
LOST = (
    "rows were foreseen worse than by even odds before they were learnt: columns with heavy tails or of wild scales "
    "lead a stream astray; transform or standardise them, or pass larger chunks"
)


@dataclass(frozen=True)
class Foreseen:
    """How well rows were foreseen before they were learnt, those of long ago counting less."""

    loss: float = 0.0
    at_even_odds: float = 0.0
    weight: float = 0.0
    rows: float = 0.0

    def and_then(self, loss: float, at_even_odds: float, weight: float, rows: int, half_life: float) -> Foreseen:
        """Return the account after more rows."""
        kept = 0.5 ** (rows / half_life)
        return Foreseen(
            kept * self.loss + loss,
            kept * self.at_even_odds + at_even_odds,
            kept * self.weight + weight,
            kept * self.rows + rows,
        )

    def in_words(self) -> str:
        """Return a clause about it, or nothing before there is anything to say."""
        if not self.weight:
            return ""
        loss, even = self.loss / self.weight, self.at_even_odds / self.weight
        return f"the latest rows were foreseen with a log loss of {loss:.3g} each (even odds: {even:.3g}); "

    def is_worse_than_nothing(self, parameters: int) -> bool:
        """Return whether even odds would have been better by far, on rows enough to tell."""
        if self.loss > FAR_WORSE * self.at_even_odds:
            return self.rows >= ENOUGH_ROWS
        enough = ENOUGH_ROWS + ROWS_PER_PARAMETER * parameters
        return self.rows >= enough and self.loss > WORSE * self.at_even_odds


@dataclass(frozen=True, eq=False)
class Stream:
    """A stream after some chunks. Each chunk makes a new one: a call that fails has changed nothing."""

    model: ClassModel
    settings: dict[str, Any]  # of the estimator, when it began
    ridge: Array
    learnt: ProximalStream
    centre: Array | None
    counts: Array  # of the labels, up to those of the run
    run: tuple[int, int] = NO_RUN  # a label, and how many rows the latest chunks had that had no other
    chunks: int = 0
    foreseen: Foreseen = Foreseen()
    moments: Moments | None = None
    looked_at: int = 0  # how many rows there were when centres were last compared with means
    warnings: tuple[str, ...] = ()  # that were due, each once

    @classmethod
    def begin(cls, model: ClassModel, data: Labelled, ridge: Array, settings: dict[str, Any]) -> Stream:
        """Return the prior, for chunks like this one."""
        counts = np.zeros(max(model.coefficient_rows, 2))
        return cls(model, settings, ridge, ProximalStream.begin(model, data, ridge), data.centre, counts)

    @property
    def theta(self) -> Array:
        """The parameters."""
        return self.learnt.theta

    @property
    def memory(self) -> Memory:
        """What is remembered of the rows."""
        return self.learnt.memory

    def having_seen(self, X: Any, weight: Array | None) -> Stream:
        """Return the stream that knows where the columns of these rows are, and measures all from near there.

        Means are compared with centres whenever the rows have doubled.
        """
        now = Moments.of(X, weight)
        moments = now if self.moments is None else self.moments + now
        stream = replace(self, moments=moments)
        if moments.rows < max(2 * self.looked_at, FEW):
            return stream
        centre = np.zeros(X.shape[1]) if self.centre is None else self.centre
        better = better_centre(moments, centre)
        stream = replace(stream, looked_at=moments.rows)
        if better is None:
            return stream
        if is_hopeless(moments, better - centre):
            return stream._begun_again(better)
        if not self.memory.movable:  # but there is little to lose at first
            return stream._begun_again(better) if moments.rows < AT_FIRST else stream
        return stream._measured_from(better, better - centre)

    def _begun_again(self, centre: Array) -> Stream:
        """Return the prior, from another centre: what was learnt from where nothing could be seen is forgotten."""
        prior, p = prior_precision(self.ridge), len(centre) + 1
        shape = self.memory.precision.compact().ndim
        blocks = np.stack([np.diag(each) for each in prior.reshape(-1, p)]) if shape == 3 else np.diag(prior)
        memory = self.memory.of(prior.copy() if shape == 1 else blocks)
        return replace(self, centre=centre, learnt=self._learnt(np.zeros_like(self.theta), memory), foreseen=Foreseen())

    def _measured_from(self, centre: Array, shift: Array) -> Stream:
        n, p = self.model.coefficient_rows, len(shift) + 1
        A = self.memory.precision.compact()
        prior = prior_precision(self.ridge)[-1]
        old, new = moved_precision(A if A.ndim == 3 else A.reshape(n, p, n, p), prior, shift)
        theta = moved_parameters(old, new, self.theta, shift)
        return replace(self, centre=centre, learnt=self._learnt(theta, self.memory.of(new.reshape(A.shape))))

    def _learnt(self, theta: Array, memory: Memory) -> ProximalStream:
        return replace(self.learnt, theta=theta, memory=memory)

    def after(self, data: Labelled, rng: np.random.Generator | None) -> Stream:
        """Return the stream after one more chunk, its rows in random order if there is a generator for it."""
        learnt = self.learnt.learn(data if rng is None else data.take(rng.permutation(len(data))))
        before, after = (self.model.loss(self.model.scores(θ, data), data) for θ in (self.theta, learnt.theta))
        if after > before:
            learnt = replace(learnt, theta=self._look_back(data, learnt.theta))
        seen = replace(self._with_labels(data.y), foreseen=self._foreseen(data, before))
        said = (*self.warnings, *(text for text in seen._due() if text not in self.warnings))
        return replace(seen, learnt=learnt, chunks=self.chunks + 1, warnings=said)

    def _due(self) -> list[str]:
        """Return what is due now: rows that look sorted are reason enough to foresee others badly."""
        if self.looks_sorted() or SORTED in self.warnings:
            return [SORTED]
        return [LOST] if self.foreseen.is_worse_than_nothing(len(self.theta)) else []

    def _foreseen(self, data: Labelled, loss: float) -> Foreseen:
        if not self.chunks:  # there was nothing to foresee the first chunk by
            return self.foreseen
        weight = float(len(data) if data.weight is None else data.weight.sum())
        even = weight * float(np.log(len(self.counts)))
        half_life = HALF_LIFE + HALF_LIFE_PER_PARAMETER * len(self.theta)
        return self.foreseen.and_then(loss, even, weight, len(data), half_life)

    def looks_sorted(self) -> bool:
        """Return whether so many rows in a row have had one label that it can hardly be chance."""
        label, length = self.run
        share = (self.counts[label] + 1) / (self.counts.sum() + len(self.counts))
        return length >= LONG_RUN and share**length < UNLIKELY

    def _look_back(self, data: Labelled, theta: Array) -> Array:
        """Return better parameters on the way there, where the chunk's own loss has risen."""
        ray = Objective(self.model, data, ridge=self.ridge).ray(self.theta, theta - self.theta)
        return ray.at(min(best_step(ray), 1.0))

    def _with_labels(self, labels: Array) -> Stream:
        run, counts = self.run, self.counts.copy()
        label = int(labels[0])
        if label == run[0] and (labels == label).all():
            return replace(self, run=(label, run[1] + len(labels)))
        counts[run[0]] += run[1]
        if (labels == label).all():
            return replace(self, counts=counts, run=(label, len(labels)))
        return replace(self, counts=counts + np.bincount(labels, minlength=len(counts)), run=NO_RUN)


# Standard deviations between a column's mean and its centre that are too many.
TOO_FAR = 10.0
# And those beyond which what was learnt has no digits left to be moved.
HOPELESS = 1e6
# Fewer rows do not tell where a column is.
FEW = 50


def is_hopeless(moments: Moments, shift: Array) -> bool:
    """Return whether columns are so far away that nothing could be learnt of them from there."""
    return bool((np.abs(shift) > HOPELESS * np.sqrt(moments.variance)).any())


def better_centre(moments: Moments, centre: Array) -> Array | None:
    """Return the centre with what is too far away moved to its mean; nothing if all is near."""
    far = np.abs(moments.mean - centre) > TOO_FAR * np.sqrt(moments.variance)
    return np.where(far, moments.mean, centre) if far.any() else None


def moved_precision(A: Array, prior: float, shift: Array) -> tuple[Array, Array]:
    """Return the precision of parameters of columns measured from a centre moved by ``shift``, old prior and new.

    ``A`` is (n, p, n, p), or (n, p, p) for one block per class; the last parameter of a class is its intercept.
    """
    T = np.eye(len(shift) + 1)
    T[-1, :-1] = -shift
    old = np.einsum("ij,cjek->ciek", T.T, A) @ T if A.ndim == 4 else T.T @ A @ T
    new, classes, last = old.copy(), np.arange(len(A)), len(shift)
    own = (classes, slice(None), classes) if A.ndim == 4 else (classes,)
    new[own] -= prior * np.outer(T[-1], T[-1])
    if A.ndim == 4:
        new[classes, last, classes, last] += prior
    else:
        new[:, last, last] += prior
    return old, new


def moved_parameters(old: Array, new: Array, theta: Array, shift: Array) -> Array:
    """Return θ under the new prior: what was learnt from rows, the information Aθ, is the same under both."""
    W = theta.reshape(len(old), -1).copy()
    W[:, -1] += W[:, :-1] @ shift
    if old.ndim == 3:
        return np.concatenate([_solve(B, A @ w, 1) for A, B, w in zip(old, new, W, strict=True)])
    d = W.size
    return _solve(new.reshape(d, d), old.reshape(d, d) @ W.ravel(), len(old))


def _solve(A: Array, b: Array, classes: int) -> Array:
    return steady_factor(A, classes)(b)


STREAM = "stream"


def take_up(model: Any, part: Any) -> None:
    """Give a loaded model its stream."""
    stream = part.get("state") if isinstance(part, dict) else None
    if not isinstance(stream, Stream) or not _suits(stream, *model.coef_.shape):
        raise ValueError("its stream is damaged: it is none of this model")
    if part.get("dtype") not in ("<f4", "<f8", ">f4", ">f8"):
        raise ValueError(f"data are in single or in double precision, got {part.get('dtype')!r:.80}")
    model._stream, model._centre, model._dtype = stream, stream.centre, np.dtype(part["dtype"])
    _rehearse(model)


def _rehearse(model: Any) -> None:
    """Refuse a stream that could not go on, by a chunk of a row of each class that a copy learns."""
    classes, moments = model.classes_, model._stream.moments
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            where = np.zeros(model.n_features_in_) if moments is None else moments.mean
            copy = deepcopy(model).set_params(**model._stream.settings)
            copy.partial_fit(np.tile(where, (len(classes), 1)).astype(model._dtype), classes)
            goes_on = _suits(copy._stream, *model.coef_.shape) and bool(np.isfinite(copy.coef_).all())
    except Exception as problem:
        raise ValueError(
            f"its stream is damaged: it cannot go on ({type(problem).__name__}: {problem!s:.200})"
        ) from None
    if not goes_on:
        raise ValueError("its stream is damaged: it goes on to numbers that are not finite")


def _suits(stream: Stream, rows: int, columns: int) -> bool:
    """Return whether a stream has parameters, and is measured from a centre, as a model of this shape would."""
    if not isinstance(stream.learnt, ProximalStream) or not isinstance(stream.settings, dict):
        return False
    size = rows * (columns + bool(stream.settings.get("fit_intercept")))
    return _are_numbers(stream.learnt.theta, size) and (stream.centre is None or _are_numbers(stream.centre, columns))


def _are_numbers(values: Any, size: int) -> bool:
    is_vector = isinstance(values, np.ndarray) and values.dtype.kind == "f" and values.shape == (size,)
    return is_vector and bool(np.isfinite(values).all())


# What a stream cannot change its mind about.
SETTLED = ("C", "penalty", "fit_intercept", "penalize_intercept", "feature_penalty", "solver", "intercept_scaling")

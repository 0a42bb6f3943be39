"""Linear classifiers that learn from one chunk of rows at a time: ``partial_fit``, and the stream behind it.

A stream is parameters, their precision (:class:`~majorant.core.proximal.ProximalStream`), and the centre that columns
are measured from. Its intercept has a weak prior, centred at zero. That is harmless where columns are measured from
near their means; far from them the intercept would have to be large. With b' = b + WΔ for a centre moved by Δ,
precision and parameters change by a congruence, and the prior of the old intercept gives way to that of the new one.
"""

from __future__ import annotations

import warnings
from copy import deepcopy
from dataclasses import astuple, dataclass, replace
from math import sqrt
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
from majorant.core.rounding import CLEAR
from majorant.core.threads import all_finite

# Fewer rows do not tell where a column is, nor whether labels are sorted; and have taught little that could be lost.
FEW, ENOUGH = 50, 200

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
    """Log loss of rows before they were learnt, and that of even odds; rows of long ago count less."""

    loss: float = 0.0
    at_even_odds: float = 0.0
    weight: float = 0.0
    rows: float = 0.0

    def in_words(self) -> str:
        """Return a clause about it, or nothing before there is anything to say."""
        if not self.weight:
            return ""
        loss, even = self.loss / self.weight, self.at_even_odds / self.weight
        return f"the latest rows were foreseen with a log loss of {loss:.3g} each (even odds: {even:.3g}); "


@dataclass(frozen=True, eq=False)
class Stream:
    """A stream after some chunks. Each chunk makes a new one: a call that fails has changed nothing."""

    model: ClassModel
    settings: dict[str, Any]  # of the estimator, when it began
    ridge: Array
    learnt: ProximalStream
    centre: Array | None
    counts: Array  # of the labels, up to those of the run
    run: tuple[int, int] = (0, 0)  # a label, and how many rows the latest chunks had that had no other
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
        """The precision of the parameters."""
        return self.learnt.memory

    def centred_for(self, X: Any, weight: Array | None) -> Stream:
        """Return the stream with the moments of these rows, and all columns measured from near their means.

        Means are compared with centres whenever the rows have doubled.
        """
        moments = Moments.of(X, weight)
        moments = moments if self.moments is None else self.moments + moments
        stream = replace(self, moments=moments)
        if moments.rows < max(2 * self.looked_at, FEW):
            return stream
        stream = replace(stream, looked_at=moments.rows)
        before = np.zeros(X.shape[1]) if self.centre is None else self.centre
        centre = better_centre(moments, before)
        if centre is None:
            return stream

        # From so far away nothing could be learnt, and a diagonal cannot be moved: at first little is lost with it.
        shift, p = centre - before, len(centre) + 1
        hopeless = bool((CLEAR * np.abs(shift) > np.sqrt(moments.variance)).any())
        A, prior = self.memory.precision.compact(), prior_precision(self.ridge)
        if hopeless or (not self.memory.movable and moments.rows < ENOUGH):
            blocks = np.stack([np.diag(part) for part in prior.reshape(-1, p)]) if A.ndim == 3 else np.diag(prior)
            new, theta = prior.copy() if A.ndim == 1 else blocks, np.zeros_like(self.theta)
            stream = replace(stream, foreseen=Foreseen())
        elif not self.memory.movable:
            return stream
        else:
            n = self.model.coefficient_rows
            old, new = moved_precision(A if A.ndim == 3 else A.reshape(n, p, n, p), prior[-1], shift)
            theta, new = moved_parameters(old, new, self.theta, shift), new.reshape(A.shape)
        return replace(stream, centre=centre, learnt=replace(self.learnt, theta=theta, memory=self.memory.of(new)))

    def after(self, data: Labelled, rng: np.random.Generator | None) -> Stream:
        """Return the stream after one more chunk, its rows in random order if there is a generator for it."""
        learnt = self.learnt.learn(data if rng is None else data.take(rng.permutation(len(data))))
        before, after = (self.model.loss(self.model.scores(θ, data), data) for θ in (self.theta, learnt.theta))
        if after > before:  # the best parameters on the way there
            step = learnt.theta - self.theta
            ray = Objective(self.model, data, ridge=self.ridge).ray(self.theta, step)
            learnt = replace(learnt, theta=self.theta + min(best_step(ray), 1.0) * step)

        # Rows in a row that have one label.
        (label, length), counts = self.run, self.counts.copy()
        alone = bool((data.y == data.y[0]).all())
        if alone and int(data.y[0]) == label:
            run = label, length + len(data)
        else:
            counts[label] += length
            run = (int(data.y[0]), len(data)) if alone else (0, 0)
            counts += 0 if alone else np.bincount(data.y, minlength=len(counts))
        share = (counts[run[0]] + 1) / (counts.sum() + len(counts))
        sorted_by_label = run[1] >= FEW and share ** run[1] < 1e-6  # the probability of such a run by chance

        # Losses before rows were learnt; there was nothing to foresee the first chunk by.
        # Ten rows per parameter beyond those: of as few as there are parameters any stream makes too much.
        enough, foreseen = ENOUGH + 10 * len(self.theta), self.foreseen
        if self.chunks:
            weight = float(len(data) if data.weight is None else data.weight.sum())
            kept = 0.5 ** (len(data) / (2 * enough))
            new = before, weight * float(np.log(len(counts))), weight, len(data)
            foreseen = Foreseen(*(kept * old + more for old, more in zip(astuple(foreseen), new, strict=True)))
        worst = (1 + 0.5 * sqrt(enough / max(foreseen.rows, 1.0))) * foreseen.at_even_odds  # few rows tell little
        worse = foreseen.rows >= ENOUGH and foreseen.loss > worst

        # Rows that look sorted are reason enough to foresee others badly.
        due = (SORTED,) if sorted_by_label or SORTED in self.warnings else (LOST,) if worse else ()
        said = (*self.warnings, *(text for text in due if text not in self.warnings))
        chunks = self.chunks + 1
        return replace(self, learnt=learnt, counts=counts, run=run, chunks=chunks, foreseen=foreseen, warnings=said)


def better_centre(moments: Moments, centre: Array) -> Array | None:
    """Return the centre with what is too far away moved to its mean; nothing if all is near."""
    far = np.abs(moments.mean - centre) > 10 * np.sqrt(moments.variance)
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
        return np.concatenate([steady_factor(B)(A @ w) for A, B, w in zip(old, new, W, strict=True)])
    d = W.size
    return steady_factor(new.reshape(d, d), len(old))(old.reshape(d, d) @ W.ravel())


STREAM = "stream"  # the part of a model's file that holds it


def take_up(model: Any, part: Any) -> None:
    """Give a loaded model its stream; one that is damaged, or could not go on, is refused."""
    stream = part.get("state") if isinstance(part, dict) else None
    if not isinstance(stream, Stream) or not _suits(stream, *model.coef_.shape):
        raise ValueError("its stream is damaged: it is none of this model")
    if part.get("dtype") not in ("<f4", "<f8", ">f4", ">f8"):
        raise ValueError(f"data are in single or in double precision, got {part.get('dtype')!r:.80}")
    model._stream, model._centre, model._dtype = stream, stream.centre, np.dtype(part["dtype"])

    # A copy learns a chunk of a row of each class.
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            where = np.zeros(model.n_features_in_) if stream.moments is None else stream.moments.mean
            copy = deepcopy(model).set_params(**stream.settings)
            copy.partial_fit(np.tile(where, (len(model.classes_), 1)).astype(model._dtype), model.classes_)
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
    vectors = [(stream.learnt.theta, rows * (columns + bool(stream.settings.get("fit_intercept"))))]
    if stream.centre is not None:
        vectors.append((stream.centre, columns))
    return all(
        isinstance(vector, np.ndarray) and vector.dtype.kind == "f" and vector.shape == (size,) and all_finite(vector)
        for vector, size in vectors
    )

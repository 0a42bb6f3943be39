"""Cross-validation of rows that are not in memory: every k-th row is a fold, and all values of C share every read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from majorant._checks import Array
from majorant.estimators.chunkwise import fitting_chunks
from majorant.estimators.logistic_path import walk_rows
from majorant.sources import Chunk, Piece, Source
from majorant.sources.survey import only_rows

SCORINGS = ("accuracy", "neg_log_loss")
DEFAULT_FOLDS = 5


@dataclass(frozen=True, eq=False)
class FoldOf(Source):
    """The rows of a source that are in a fold, or those that are not: fold f has the rows f, f + k and so on."""

    source: Source
    folds: int
    fold: int
    held_out: bool

    @property
    def feature_names(self) -> Sequence[str] | None:
        """Those of the source."""
        return self.source.feature_names

    def pieces(self) -> Sequence[Piece]:
        """Return those of the source, each without some of its rows."""
        return [FoldOfPiece(piece, self.folds, self.fold, self.held_out) for piece in self.source.pieces()]


@dataclass(frozen=True, eq=False)
class FoldOfPiece:
    """Some rows of a piece."""

    piece: Piece
    folds: int
    fold: int
    held_out: bool

    def read(self) -> Iterator[Chunk]:
        """Yield them."""
        first = 0
        for chunk in self.piece.read():
            inside = (first + np.arange(len(chunk))) % self.folds == self.fold
            first += len(chunk)
            yield only_rows(chunk, np.flatnonzero(inside == self.held_out))


def check_folds(cv: Any) -> int:
    """Return how many folds there are."""
    if cv is None:
        return DEFAULT_FOLDS
    if isinstance(cv, int | np.integer) and not isinstance(cv, bool) and cv >= 2:
        return int(cv)
    raise ValueError(
        f"cv must be a number of folds of at least 2 for a source, whose rows are split by position: {cv!r}"
    )


def additive_score(scoring: Any) -> str:
    """Return the name of a score that adds up over rows."""
    if scoring is None:
        return "accuracy"
    if scoring not in SCORINGS:
        raise ValueError(f"scoring must be {' or '.join(map(repr, SCORINGS))} for a source, got {scoring!r}")
    return str(scoring)


def fold_path(
    source: Source, grid: Array, settings: dict[str, Any], scoring: str, folds: int, fold: int
) -> tuple[Array, Array, Array]:
    """Return coefficients, scores and steps along the grid, of one fold."""
    train, test = (FoldOf(source, folds, fold, held_out) for held_out in (False, True))
    models = [model for _, model in sorted(walk_rows(grid, settings, train, None), key=lambda found: found[0])]
    paths = [
        np.hstack([model.coef_, model.intercept_[:, None]] if model.fit_intercept else [model.coef_])
        for model in models
    ]
    steps = np.array([model.n_iter_[0] for model in models], dtype=np.int32)
    return np.stack(paths), mean_scores(models, test, scoring), steps


def mean_scores(models: Sequence[Any], source: Source, scoring: str) -> Array:
    """Return the mean score of each model over the rows of a source, in one read."""
    sums, total = np.zeros(len(models)), 0.0
    for chunk in fitting_chunks(models[0], source):
        weight = np.ones(len(chunk)) if chunk.weight is None else chunk.weight
        sums += [float(weight @ _score_rows(model, chunk, scoring)) for model in models]
        total += float(weight.sum())
    return sums / total if total else np.full(len(models), np.nan)


def _score_rows(model: Any, chunk: Chunk, scoring: str) -> Array:
    assert chunk.labels is not None
    names = chunk.labels.names[chunk.labels.codes]
    if scoring == "accuracy":
        return (model.predict(chunk.X) == names).astype(np.float64)
    place = np.searchsorted(model.classes_, names)
    known = model.classes_[np.minimum(place, len(model.classes_) - 1)] == names
    log = model.predict_log_proba(chunk.X)[np.arange(len(chunk)), np.where(known, place, 0)]
    return np.where(known, log, -np.inf)

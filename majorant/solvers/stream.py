"""A stream of rows, learnt by proximal steps: what the proximal solver and ``partial_fit`` have in common."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from majorant._checks import Array
from majorant.curvature import Block, Dense, Diagonal, Growing
from majorant.solvers.memory import ByClass, ByColumn, Memory, Whole, WholeByRow

SHAPES = ("auto", "whole", "block", "diagonal")
# A d×d matrix is best while it is affordable; then one p×p block per class; then the diagonal.
LARGEST_WHOLE = 1_000
LARGEST_BLOCK = 2_000
# Rows of a mini-batch, and scores of one where the inner problem couples the classes of every row.
DEFAULT_ROWS = 100
COUPLED_SCORES = 400
# The prior of a parameter that is not penalised: the stream needs one, the finish does not.
WEAK_PRIOR = 1e-3


@dataclass(frozen=True, eq=False)
class ProximalStream:
    """Parameters, and what is remembered of the rows that led to them. Learning makes another one."""

    model: Any
    theta: Array
    memory: Memory
    rows: int  # of a mini-batch

    @classmethod
    def begin(cls, model: Any, like: Any, ridge: Array, shape: str = "auto") -> ProximalStream:
        """Return the prior, for chunks of rows that look like these."""
        rows = default_rows(model, like, shape)
        memory = prior_memory(model, like, ridge, min(rows, len(like)), shape)
        return cls(model, np.zeros(len(ridge)), memory, rows)

    def learn(self, data: Any) -> ProximalStream:
        """Return the stream after more rows, mini-batch by mini-batch, as they stand."""
        # Curvatures add up, and so would the rounding errors of single precision.
        batches = data.widened().batches(self.rows)
        theta, memory = self.memory.learn(self.model, self.theta, batches)
        return replace(self, theta=theta, memory=memory)


def prior_memory(model: Any, like: Any, ridge: Array, rows: int, shape: str = "auto") -> Memory:
    """Return what is remembered before any row is seen, suited to mini-batches of that many rows."""
    prior, shape = prior_precision(ridge), chosen_shape(model, like, shape)
    if shape == "diagonal":
        return ByColumn(Diagonal(prior.copy(), majorizes=False))
    if shape == "block":
        each = prior.reshape(model.classes(like), -1)
        return ByClass(Block(tuple(Growing(np.diag(part)) for part in each)))
    classes = model.redundancy(like)
    if rows * model.scores_per_row(like) >= len(prior):
        return Whole(Dense(np.diag(prior), majorizes=False), classes)
    return WholeByRow(Growing(np.diag(prior), classes))


def prior_precision(ridge: Array) -> Array:
    """Return the penalty, and a weak prior where there is none."""
    weakest = np.min(ridge[ridge > 0], initial=np.inf)
    return np.where(ridge > 0, ridge, min(weakest, WEAK_PRIOR))


def default_rows(model: Any, like: Any, shape: str = "auto") -> int:
    """Return the rows of a mini-batch for data of this shape, however many there will be."""
    n = model.scores_per_row(like)
    coupled = n > 1 and chosen_shape(model, like, shape) != "whole"
    return max(COUPLED_SCORES // n, 2) if coupled else DEFAULT_ROWS


def chosen_shape(model: Any, like: Any, shape: str) -> str:
    """Return the shape of the precision: the one asked for, or the best that is affordable."""
    size, classes = model.n_parameters(like), model.classes(like)
    if not classes:
        return _only_whole(model, size, shape)
    if shape != "auto":
        return shape
    if size <= LARGEST_WHOLE:
        return "whole"
    if size // classes > LARGEST_BLOCK:
        return "diagonal"
    return "whole" if classes == 1 else "block"


def _only_whole(model: Any, size: int, shape: str) -> str:
    name = type(model).__name__
    if shape in ("block", "diagonal"):
        raise ValueError(f"curvature={shape!r} needs a model with classes; {name} has only 'whole'")
    if size > 10 * LARGEST_WHOLE:
        raise ValueError(f"{name} with {size} parameters is too wide for a whole precision; use LBFGS")
    return "whole"

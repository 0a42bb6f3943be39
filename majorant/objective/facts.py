"""What can be said of a problem whatever its parameters; found when it is first asked for."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from majorant._checks import Array
from majorant._lazy import lazy
from majorant.curvature import Pattern
from majorant.data.base import Data
from majorant.models import Model
from majorant.models.answers import WithIntercept
from majorant.models.rounding import Magnitudes
from majorant.objective.intercept import ClassTotals
from majorant.objective.penalty import Penalty
from majorant.objective.reduce import Blocks, Reducer, Task
from majorant.objective.tasks import ColumnSquares, Convexity, Several, SizeOf

# Data in single precision are widened so many scalars at a time.
WIDENED = 2**22
# Sets of scores that are kept at a time: where a ray begins, where it has led, and how they change along it.
ALONG_A_RAY = 3


class Facts:
    """A model, data in blocks, a penalty, and what follows from them."""

    def __init__(self, model: Model[Any], data: Data, penalty: Penalty, reducer: Reducer) -> None:
        self._model, self._data, self._penalty, self._reducer = model, data, penalty, reducer
        self.like = data.like
        self.blocks = reducer.spread(data, model.block_rows(self.like, len(data)))
        self._is_here = data.whole is not None
        dtype = model.precision(self.like)
        self.narrow, self.precision = bool(dtype != np.float64), dtype
        self.epsilon = model.as_rows().design(self.like).epsilon if model.has_rows else float(np.finfo(dtype).eps)
        self.remembered: dict[Any, Any] = {}  # what others have made of the data, whatever the penalty
        self.keeps_scores = model.keeps_scores and self.blocks.keep(ALONG_A_RAY * self._scores_of_all())
        self.keeps_scores_once = self.keeps_scores or (model.keeps_scores and self.blocks.keep(self._scores_of_all()))

    def under(self, penalty: Penalty) -> Facts:
        """Return what follows with another penalty: all that is known, unless other parameters are penalised."""
        before = self._penalty
        alike = np.array_equal(penalty.penalised, before.penalised)
        if not (alike and np.array_equal(penalty.strength > 0, before.strength > 0)):
            return Facts(self._model, self._data, penalty, self._reducer)
        other = copy(self)
        other._penalty = penalty
        return other

    def _scores_of_all(self) -> int:
        per_row = self._model.as_rows().scores_per_row(self.like) if self._model.has_rows else 1
        return per_row * len(self._data)

    @lazy
    def _at_first_sight(self) -> tuple[Any, ...]:
        """What a look at the rows tells, one look for all of it: they have to be read, or workers to be asked."""
        looks: tuple[Task, ...] = (Convexity(self._model), SizeOf(self._model))
        # With workers labels are no nearer than rows.
        counts = () if self.intercept is None or not self.blocks.delay else (ClassTotals(self.intercept),)
        return self.blocks.total(Several((*looks, *counts)))

    @lazy
    def convex(self) -> bool:
        """Whether the loss is convex on all blocks."""
        found = self.blocks.total(Convexity(self._model)) if self._is_here else self._at_first_sight[0]
        return bool(found.value > 0)

    @lazy
    def intercept(self) -> WithIntercept | None:
        """The model, if what is unpenalised is an intercept and nothing else."""
        return self._model.with_intercept(self.like, self._penalty.penalised)

    @lazy
    def certifiable(self) -> bool:
        """Whether the distance to the optimum can be bounded: F has to be strongly convex in all but an intercept."""
        if self._penalty.everywhere:
            return self.convex
        return self._penalty.strong and self.intercept is not None and self.convex

    @lazy
    def may_be_unbounded(self) -> bool:
        """Whether F may have no minimum. Free intercepts have one as soon as two classes were observed."""
        if self.intercept is None:
            return not self._penalty.penalised.all()
        return int((self.class_totals > 0).sum()) < 2

    @lazy
    def pattern(self) -> Pattern | None:
        """Blocks of parameters that never meet in an outcome, if there are such and the rows are here."""
        return None if self._data.whole is None else self._model.pattern(self._data.whole)

    @lazy
    def class_totals(self) -> Array:
        """How much of each class was observed, of a model with a free intercept."""
        assert self.intercept is not None
        return self._at_first_sight[2] if self.blocks.delay else self.blocks.total(ClassTotals(self.intercept))

    @lazy
    def likely_intercept(self) -> Array | None:
        """Free intercepts that make every class as likely as it was observed, where coefficients are zero."""
        return None if self.intercept is None else self.intercept.likely_intercepts(self.class_totals, self.like)

    @lazy
    def magnitudes(self) -> Magnitudes | None:
        """How large the numbers are that a gradient is summed from."""
        return self.blocks.total(SizeOf(self._model)) if self._is_here else self._at_first_sight[1]

    @lazy
    def magnitudes_by_column(self) -> Magnitudes:
        """The same, columns apart."""
        assert self.magnitudes is not None
        if self.magnitudes.columns is not None:
            return self.magnitudes
        squares = self.blocks.total(ColumnSquares(self._model))
        return replace(self.magnitudes, columns=np.sqrt(squares))

    def diagonal_if_alike(self, theta: Array) -> Array | None:
        """Return the diagonal of the Hessian, without a look at the rows, if all of them have the same scores."""
        weights = self._model.weights_if_alike(theta, self.like) if self._is_here else None
        sizes = None if weights is None else self.magnitudes
        if weights is None or sizes is None or sizes.columns is None:
            return None
        return np.outer(weights, sizes.columns**2).ravel()

    @lazy
    def small_blocks(self) -> Blocks:
        """Blocks that can be widened one at a time; those that there are where nothing is to be widened."""
        if not (self.narrow and self._model.has_rows):
            return self.blocks
        width = self._model.as_rows().design(self.like).shape[1]
        return self._reducer.spread(self._data, max(WIDENED // width, 1))

"""What stochastic solvers share: which rows come next, and how often to report."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from majorant._checks import whole
from majorant._docstrings import with_parameters_of
from majorant.data.base import Order
from majorant.objective import Objective
from majorant.solvers.base import State, SteppingSolver


@dataclass(frozen=True, eq=False, kw_only=True)
class StochasticState(State):
    """A state after so many draws. F and its gradient are left to whoever asks: the solver never sees them."""

    visited: int = 0


S = TypeVar("S", bound=StochasticState)


@dataclass(frozen=True, kw_only=True)
class StochasticSolver(SteppingSolver[S]):
    """Visits mini-batches. A pass is as many draws as there are rows; a step ends where a report is due.

    Parameters
    ----------
    batch_size : int
        Rows m of a mini-batch; the last one of a pass may be smaller.
    replacement : bool
        Whether rows are drawn with replacement. Without, each pass visits every row once.
    shuffle : bool
        Whether the order of the rows is drawn anew for each pass; False visits them as they stand.
    seed : int
        Of what is drawn: the same seed gives the same run, whole or resumed.
    report_every : float
        Passes between two entries of the trace, at most 1.
    """

    batch_size: int | None = 1
    replacement: bool = False
    shuffle: bool = True
    seed: int = 0
    report_every: float = 1.0

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        cls.__doc__ = with_parameters_of(StochasticSolver.__doc__, cls.__doc__)

    def __post_init__(self) -> None:
        if self.batch_size is not None:
            whole("batch_size", self.batch_size, least=1)
        if not 0 < self.report_every <= 1:
            raise ValueError(f"report_every must be above 0 and at most 1 pass, got {self.report_every}")

    @abstractmethod
    def visit(self, objective: Objective, state: S, rows: Any) -> S:
        """Return the state after visiting ``rows``, mini-batch by mini-batch; all are of one pass."""

    def rows_per_batch(self, objective: Objective) -> int:
        """Return m, refusing more rows than there are."""
        m, t = self.batch_size or 1, objective.rows
        if m > t:
            raise ValueError(f"batch_size must not exceed the number of rows ({t}), got {m}")
        return m

    def begin_pass(self, objective: Objective, state: S) -> S:
        """Return the state as the next pass finds it."""
        return state

    def step(self, objective: Objective, state: S) -> S:
        """Return the state at the next report, or at the end of the pass if that is sooner."""
        objective.model.as_rows()
        t, m = objective.rows, self.rows_per_batch(objective)
        passes, position = divmod(state.visited, t)
        if position == 0:
            state = self.begin_pass(objective, state)
        order = Order(self.seed, self.shuffle, self.replacement)
        end = min(position + self._rows_per_report(t, m), t)
        for rows in objective.visits(order, passes, position, end, m):
            state = self.visit(objective, state, rows)
            state = replace(state, visited=state.visited + len(rows), point=None)
            objective.spend(passes=len(rows) / t)
        return state

    def _rows_per_report(self, t: int, m: int) -> int:
        batches = round(self.report_every * t / m)
        return max(batches, 1) * m if self.report_every < 1 else t

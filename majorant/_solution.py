"""What a fit returns: parameters, an outcome with its sentence, and a trace of how it got there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np

from majorant._checks import Array
from majorant._html import paragraph, table

SHOWN = 20  # rows of a trace in a notebook


class Outcome(Enum):
    """Why a fit stopped.

    Examples
    --------
    >>> import majorant
    >>> majorant.LogisticRegression().fit([[0.0], [1.0], [2.0]], [0, 1, 0]).result_.outcome
    <Outcome.CONVERGED: 'converged'>
    """

    CONVERGED = "converged"
    STATIONARY = "stationary"  # of a loss that is not convex
    ESTIMATED = "estimated"  # nothing certifies it, but the metric of the steps says so
    STEP_LIMIT = "step limit"
    STALLED = "stalled"
    STOPPED = "stopped"
    NON_FINITE = "non-finite"
    UNBOUNDED = "unbounded"


@dataclass(frozen=True)
class Result:
    """An outcome, a sentence about it, and how far from the optimum the fit is certified to be.

    Where the loss is not convex a fit that has reached its tolerance is *stationary*, and no more is said. Of many
    parameters on a device it may be *estimated* to have: steps are predicted to gain next to nothing, but the
    certificate is loose.

    Parameters
    ----------
    outcome : Outcome
        Why it stopped.
    message : str
        The sentence; ``str`` gives it.
    gap : float
        Bounds (F(θ) − F*) / F(θ); NaN where there is no certificate: a parameter other than the intercept is
        unpenalised, the loss is not convex, or F has no minimum.
    account : pairs of int and str
        What steps were scaled by, and from which step on.
    estimate : float
        Of the gap, where the outcome is one.

    Examples
    --------
    >>> import majorant
    >>> X, y = majorant.datasets.load("ecoli")
    >>> result = majorant.LogisticRegression().fit(X, y).result_
    >>> print(result)
    converged in ... steps; certified to be within ... of the optimum (relative)
    >>> result.converged, result.gap < 1e-8
    (True, True)
    """

    outcome: Outcome
    message: str
    gap: float
    account: tuple[tuple[int, str], ...] = field(default=(), compare=False)
    estimate: float = field(default=float("nan"), compare=False)

    @property
    def converged(self) -> bool:
        """Whether the fit reached its tolerance."""
        return self.outcome in (Outcome.CONVERGED, Outcome.STATIONARY, Outcome.ESTIMATED)

    def __str__(self) -> str:
        return self.message

    def _repr_html_(self) -> str:
        account = [(str(step), words) for step, words in self.account]
        return paragraph(self.message) + (table(("from step", "steps are made with"), account) if account else "")


def stream_result(chunks: int, more: str = "") -> Result:
    """Return what can be said of a stream."""
    sentence = f"learnt from {chunks} chunks in one pass; {more}nothing certifies a stream"
    return Result(Outcome.STOPPED, sentence, float("nan"))


class Trace(Mapping[str, Array]):
    """One array per column, one entry per step, the starting point first.

    Columns: ``step``, ``passes`` over the data, ``curvatures`` evaluated, ``seconds`` and ``cpu_seconds`` (of the
    process), ``objective``, ``gradient_norm``, ``gap``, and whatever metrics were asked for. Seconds begin when data
    have been read and checked, and hold all that follows, certificates included; the last entry also holds what it took
    to end. Not counted are metrics, callbacks, and F and ∇F where a stochastic solver does not need them.

    Examples
    --------
    >>> trace = Trace.of({"step": np.arange(3), "objective": np.array([4.0, 2.0, 1.0])})
    >>> trace
    Trace(3 entries of step, objective)
    >>> trace["objective"]
    array([4., 2., 1.])
    """

    def __init__(self) -> None:
        self._columns: dict[str, list[float]] = {}

    @classmethod
    def of(cls, columns: Mapping[str, Array]) -> Trace:
        """Return the trace of these columns.

        Parameters
        ----------
        columns : mapping of names to arrays of one length

        Returns
        -------
        Trace
        """
        trace = cls()
        trace._columns = {name: values.tolist() for name, values in columns.items()}
        return trace

    @property
    def entries(self) -> int:
        """How many steps there are."""
        return len(next(iter(self._columns.values()), []))

    def first(self, entries: int) -> dict[str, Array]:
        """Return the first entries of every column.

        Parameters
        ----------
        entries : int
            How many.

        Returns
        -------
        dict of arrays

        Examples
        --------
        >>> trace = Trace.of({"step": np.arange(3), "objective": np.array([4.0, 2.0, 1.0])})
        >>> trace.first(2)["objective"]
        array([4., 2.])
        """
        return {name: np.array(values[:entries], dtype=np.float64) for name, values in self._columns.items()}

    def append(self, row: Mapping[str, float]) -> None:
        """Add one step.

        Parameters
        ----------
        row : mapping of names to numbers
            With the same names each time.

        Examples
        --------
        >>> trace = Trace()
        >>> trace.append({"step": 0, "objective": 4.0})
        >>> trace
        Trace(1 entries of step, objective)
        """
        if not self._columns:
            self._columns = {name: [] for name in row}
        for name, value in row.items():
            self._columns[name].append(value)

    def correct(self, row: Mapping[str, float]) -> None:
        """Write other numbers to the last step.

        Parameters
        ----------
        row : mapping of names to numbers

        Examples
        --------
        >>> trace = Trace.of({"step": np.arange(3), "objective": np.array([4.0, 2.0, 1.0])})
        >>> trace.correct({"objective": 0.5})
        >>> trace["objective"]
        array([4. , 2. , 0.5])
        """
        for name, value in row.items():
            self._columns[name][-1] = value

    def __getitem__(self, name: str) -> Array:
        if name not in self._columns:
            raise KeyError(f"{name!r}; the trace has {', '.join(self._columns)}")
        return np.asarray(self._columns[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        return f"Trace({self.entries} entries of {', '.join(self._columns)})"

    def _repr_html_(self) -> str:
        columns = [[f"{value:.6g}" for value in values] for values in self._columns.values()]
        rows = list(zip(*columns, strict=True))
        if len(rows) > SHOWN:
            rows = [*rows[: SHOWN // 2], ("…",) * len(columns), *rows[-SHOWN // 2 :]]
        return table(tuple(self._columns), rows)


@dataclass(frozen=True, eq=False)
class Progress:
    """How far a run has come: all that ``minimize`` needs to go on as if it had never stopped.

    ``trace`` ends before the entry of ``state``, which is the first that a run from here records; ``value`` and
    ``gradient`` are F and ∇F there, by which other data are told.
    """

    solver: Any
    state: Any
    cuts: Any
    trace: dict[str, Array]
    steps: int
    passes: float
    curvatures: int
    seconds: float
    cpu_seconds: float
    stopping: tuple[Any, ...]  # what it takes to judge states as they would have been
    value: float
    gradient: Array
    memories: tuple[Any, ...] = ()  # of callbacks
    saddles: int = 0  # that were left


class AnotherRunError(ValueError):
    """Data or a solver that are not those of the run that is to go on."""


@dataclass(frozen=True, eq=False)
class Solution:
    """What :func:`minimize` returns, and from which it can go on.

    Parameters
    ----------
    params : array of shape (d,)
        θ.
    result : Result
        The outcome, its sentence, and the certified gap.
    trace : Trace
        How it got there.
    state, solver
        The solver, and where it stands.
    cuts
        What all states say of the least F, where more than the last one does.
    certificate
        Of the parameters.
    stopping
        What it takes to judge states as this run would have, the last one included.

    Examples
    --------
    >>> import majorant
    >>> X, y = majorant.datasets.load("ecoli")
    >>> F = majorant.Objective(majorant.Multinomial(8), majorant.Labelled(X, y), ridge=1.0)
    >>> begun = majorant.minimize(F, max_steps=2)
    >>> majorant.minimize(F, start=begun).result.converged
    True
    """

    params: Array
    result: Result
    trace: Trace
    state: Any
    solver: Any
    cuts: Any = None
    certificate: Any = None
    stopping: Any = None

    def _repr_html_(self) -> str:
        solver = paragraph(f"{self.solver!r}, {len(self.params):,} parameters")
        return f"{self.result._repr_html_()}{solver}{self.trace._repr_html_()}"


@dataclass(frozen=True, eq=False)
class Fitted:
    """What an estimator publishes of a fit: parameters, the result, the steps made, and the trace as arrays."""

    params: Array
    result: Result
    steps: int
    trace: dict[str, Array]
    solution: Solution | None = None  # that it was made from

    @classmethod
    def of(cls, solution: Solution) -> Fitted:
        """Return what there is to publish of a solution."""
        trace = {name: solution.trace[name] for name in solution.trace}
        return cls(solution.params, solution.result, int(trace["step"][-1]) if trace else 0, trace, solution)

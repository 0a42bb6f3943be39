"""Tables and sentences as HTML, for notebooks. Colours are left to those, so that dark ones stay readable.

What a fit returns: parameters, an outcome with its sentence, and a trace of how it got there.

What is known of the optimum, in words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from html import escape
from typing import Any

import numpy as np

from majorant.core.certificates import Certificate
from majorant.core.checks import Array
from majorant.core.objective import Objective
from majorant.core.separation import Separation
from majorant.core.solver import GRADIENTS


def paragraph(text: str, *, bold: bool = False) -> str:
    """Return a paragraph of text.

    Examples
    --------
    >>> paragraph("0 < 1")
    '<p>0 &lt; 1</p>'
    """
    return f"<p><b>{escape(text)}</b></p>" if bold else f"<p>{escape(text)}</p>"


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, marked: int | None = None) -> str:
    """Return a table of text; the row that is marked is set in bold, and so is a first column that has no heading.

    Examples
    --------
    >>> table(("", "n"), [("a", "1"), ("b", "2")])
    '<table><thead><tr><th></th><th>n</th></tr></thead><tbody><tr><th>a</th><td>1</td></tr><tr>...</tr></tbody></table>'
    """
    named = bool(header) and not header[0]
    head = f"<thead>{_row(header, len(header))}</thead>" if header else ""
    body = "".join(_row(row, len(row) if k == marked else int(named)) for k, row in enumerate(rows))
    return f"<table>{head}<tbody>{body}</tbody></table>"


def aligned(rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """Return a table as lines of text: the first ``left`` columns flush left, numbers flush right.

    Examples
    --------
    >>> print(aligned([("", "estimate"), ("price", "-1.5")]))
           estimate
    price      -1.5
    """
    cells = list(rows)
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    flush = [str.ljust] * left + [str.rjust] * (len(widths) - left)
    lines = ([side(cell, width) for side, cell, width in zip(flush, row, widths, strict=True)] for row in cells)
    return "\n".join("  ".join(line).rstrip() for line in lines)


def _row(cells: Sequence[str], bold: int) -> str:
    tags = ["th"] * bold + ["td"] * (len(cells) - bold)
    return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for tag, cell in zip(tags, cells, strict=True)) + "</tr>"


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
    >>> result.converged, result.gap < 1e-6
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

    __repr__ = __str__

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

    def __repr__(self) -> str:
        return f"{len(self.params):,} parameters: {self.result}"

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
        trace = solution.trace.first(solution.trace.entries)
        return cls(solution.params, solution.result, int(trace["step"][-1]) if trace else 0, trace, solution)


# So many columns are named.
NAMED = 8


def counted(number: float, noun: str) -> str:
    """Return a number of things in words.

    Examples
    --------
    >>> counted(1, "step"), counted(0.5, "pass"), counted(20, "step")
    ('1 step', '0.5 passes', '20 steps')
    """
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{number:.15g} {noun if number == 1 else plural}"


def about_the_gap(found: Certificate, objective: Objective) -> str:
    """Return what a certificate says, after semicolons: the gap, how near every coefficient is, and what exists."""
    said, penalty = f"; certified to be within {found.gap:.1e} of the optimum (relative)", objective.penalty
    if found.region is None:
        return said
    said += f"; every coefficient is within {found.region.radius:.1e} standard errors of the optimum"
    if found.region.share < 1:
        said += f" (as {found.region.share:.0%} of the rows would have them)"
    if found.region.flat.size:
        names = columns_of(objective, found.region.undetermined)
        which = "the maximum-likelihood estimate" if not penalty.penalised.any() else "the optimum"
        several = names.startswith("columns") or " and " in names
        why = "which depend on each other" if several else "which changes no probability"
        return f"{said}, but those of {names}, {why}: {which} exists (proved), but is not unique"
    if not penalty.penalised.any():
        return f"{said}; a unique maximum-likelihood estimate exists (proved)"
    return said if penalty.everywhere else f"{said}; a unique optimum exists (proved)"


def about_separation(objective: Objective, found: Separation | None) -> str:
    """Return why there is no optimum; without a separation to name columns of, it is complete."""
    if found is None:
        return (
            "the data are completely separated and the parameters that separate them are not penalised, so the "
            "likelihood grows for ever as they do; penalise them"
        )
    how, names = "completely" if found.complete else "quasi-completely", columns_of(objective, found.parameters)
    what = "optimum" if objective.penalty.penalised.any() else "maximum-likelihood estimate"
    return (
        f"the data are {how} separated along {names}: no {what} exists, since the likelihood grows for ever as these "
        "parameters do, which are not penalised; penalise them"
    )


def about_saddles(left: int, *, is_saddle: bool) -> str:
    """Return what a look for negative curvature has found, and how many saddles were left before it."""
    before = "" if not left else f"left {'a saddle' if left == 1 else f'{left} saddles'}; "
    if is_saddle:
        return f"; {before}this is a saddle as well: another start may lead further"
    return f"; {before}{GRADIENTS} gradients found no negative curvature here: no saddle, as far as they tell"


def columns_of(objective: Objective, parameters: Array) -> str:
    """Return the columns that some parameters belong to, as words: by their names, or by their numbers."""
    p = objective.size // max(objective.model.redundancy(objective.like), 1)
    which = np.unique(np.flatnonzero(parameters) % p)
    last = p - 1 if getattr(objective.like, "constant", False) else p
    called = range(last) if objective.columns is None else objective.columns
    names = [str(called[column]) for column in which if column < last][:NAMED]
    if len(which) > len(names) + (last in which):
        names.append("…")
    words = [f"column {names[0]}" if len(names) == 1 else f"columns {', '.join(names)}"] if names else []
    return " and ".join([*words, *(["the intercept"] if last in which and last < p else [])])

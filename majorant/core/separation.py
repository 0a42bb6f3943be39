"""Whether data without a penalty have a maximum-likelihood estimate: a linear program knows.

F has no minimum if and only if some direction v, zero where parameters are penalised, never lowers what was observed
against any other outcome, (f_j(y_j) − f_j(y'))ᵀv ≥ 0 for all j and y', and raises it somewhere: *quasi-complete*
separation, *complete* where it does so everywhere. (Albert & Anderson, *On the existence of maximum likelihood
estimates in logistic regression models*, 1984.) With these comparisons as the rows of D, the program

    maximise Σ_k (Dv)_k   subject to   Dv ≥ 0,  |v_i| ≤ 1

has a positive answer if there is one. It is solved again for those comparisons that have not been raised, until none
can be: the sum of the answers raises all that can be raised at all. Of the directions that do so the shortest, in the
sum of magnitudes, tells along which columns estimates run off. Programs begin with few constraints, and get those that
are violated most, until none is: d columns take a few times d rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from majorant.core.checks import Array
from majorant.core.choices import Choices
from majorant.core.labelled import Labelled
from majorant.core.objective import Objective

# Non-zeros of a program that is solved in seconds, and its columns squared times what a constraint has; how often
# constraints are added.
LARGEST, MOST_WORK, ROUNDS = 10_000_000, 6_000_000, 200
# Of constraints, and of what counts as a part of a direction, relative to its largest; and the largest tolerance of
# constraints where features have rounding errors.
TOLERANCE, PART, LOOSEST = 1e-9, 1e-7, 1e-3


@dataclass(frozen=True, eq=False)
class Separation:
    """A direction along which F falls for ever, and whether it separates every row.

    ``scale`` are the norms of the columns: parts of a direction are compared times these, whatever the columns' units.
    """

    direction: Array
    complete: bool
    scale: Array

    @property
    def parameters(self) -> Array:
        """Which parameters run off."""
        size = np.abs(self.direction) * self.scale
        return size > PART * size.max()


@dataclass(frozen=True, eq=False)
class Outcomes:
    """All outcomes of all rows: features, which row each belongs to, whether it was observed, and can happen at all."""

    features: sp.csr_array
    row: Array
    observed: Array
    possible: Array


@dataclass(frozen=True, eq=False)
class Comparisons:
    """f_j(y_j) − f_j(y') as rows: those that must not fall, and those of outcomes that were both observed."""

    at_least: sp.csr_array
    equal: sp.csr_array


def suits(F: Objective) -> bool:
    """Return whether the program can be written down, and is small enough to be solved in seconds."""
    whole, known = F.whole, F.model.has_rows and F.model.spreads(np.zeros((F.size, 1)), F.like) is not None
    if whole is None or not known or not F.convex or not isinstance(whole, Labelled | Choices):
        return False
    design, classes = F.model.as_rows().design(whole), max(F.model.classes(F.like), 1)
    stored = design.density * design.shape[1]
    return stored * design.shape[0] * 2 * classes <= LARGEST and F.size**2 * stored * min(classes, 2) <= MOST_WORK


def find(F: Objective, *, complete: bool = False, rounding: float = 0.0) -> Separation | None:
    """Return how the data are separated along what is not penalised; None if they are not.

    Where separation is known to be ``complete``, only the columns are looked for. Features may be off by ``rounding``,
    relative to their size.
    """
    free = np.flatnonzero(~F.penalty.penalised)
    if not len(free):
        return None
    found = _compared(_outcomes(F), free)
    columns = _norms(found.at_least, 0)
    D, E = (sp.csr_array(each @ sp.diags_array(1 / columns)) for each in (found.at_least, found.equal))
    rows = _norms(D, 1)
    tolerance = TOLERANCE
    if rounding:  # a short row has the rounding errors of a long one
        kept = rows > rounding / LOOSEST * rows.max()
        D, rows = sp.csr_array(sp.diags_array(kept.astype(float)) @ D), np.where(kept, rows, rows.max())
        tolerance = min(max(TOLERANCE, rounding * float(rows.max() / rows.min())), LOOSEST)
    D, E = (sp.csr_array(sp.diags_array(1 / each) @ matrix) for each, matrix in ((rows, D), (_norms(E, 1), E)))
    raised = np.ones(D.shape[0], dtype=bool) if complete else _raised(D, E, tolerance)
    if raised is None or not raised.any():
        return None
    v = _shortest(D, E, raised * (rows.min() / rows), tolerance)  # as far as the rows are long
    if v is None:
        return None
    direction, scale = np.zeros(F.size), np.ones(F.size)
    direction[free], scale[free] = v / columns, columns
    return Separation(direction, bool(raised.all()) and not E.shape[0], scale)


def _norms(D: sp.csr_array, axis: int) -> Array:
    norms = np.sqrt(np.asarray(D.power(2).sum(axis=axis)).ravel())
    return np.where(norms > 0, norms, 1.0)


# --- the programs -------------------------------------------------------------------------------------------


def _raised(D: sp.csr_array, E: sp.csr_array, tolerance: float) -> Array | None:
    """Return which comparisons some direction raises; None if a program was not solved."""
    raised = np.zeros(D.shape[0], dtype=bool)
    while not raised.all():
        cost = -np.asarray(D[~raised].sum(axis=0)).ravel()
        v = _solved(cost / max(np.abs(cost).max(), 1.0), D, np.zeros(len(raised)), E, (-1.0, 1.0), tolerance)
        if v is None:
            return None
        more = ~raised & (D @ v > max(PART, 100 * tolerance))
        if not more.any():
            break
        raised |= more
    return raised


def _shortest(D: sp.csr_array, E: sp.csr_array, least: Array, tolerance: float) -> Array | None:
    """Return the direction with the least Σ|v_i| that raises comparisons by so much at least, as v = a − b."""
    d = D.shape[1]
    twice = [sp.hstack([each, -each], format="csr") for each in (D, E)]
    found = _solved(np.ones(2 * d), twice[0], least, twice[1], (0.0, None), tolerance)
    return None if found is None else found[:d] - found[d:]


def _solved(
    cost: Array, D: sp.csr_array, least: Array, E: sp.csr_array, bounds: tuple[float, float | None], tolerance: float
) -> Array | None:
    """Return the v of least cost with Dv ≥ least, Ev = 0 and bounds, by the constraints that matter."""
    from scipy.optimize import linprog  # which takes long to load, for what few fits ask

    m, d = D.shape
    chosen = np.zeros(m, dtype=bool)
    chosen[np.arange(min(4 * d + 50, m)) * m // max(min(4 * d + 50, m), 1)] = True
    equal = {"A_eq": E, "b_eq": np.zeros(E.shape[0])} if E.shape[0] else {}
    options = {"primal_feasibility_tolerance": tolerance, "dual_feasibility_tolerance": TOLERANCE}
    for _ in range(ROUNDS):
        found = linprog(
            cost, A_ub=-D[chosen], b_ub=-least[chosen], **equal, bounds=bounds, method="highs", options=options
        )
        if found.status != 0:
            return None
        missing = np.where(chosen, 0.0, least - D @ found.x)
        if missing.max(initial=0.0) <= tolerance * max(float(np.abs(found.x).max(initial=0.0)), 1.0):
            return np.asarray(found.x)
        worst = np.argsort(-missing)[: 2 * d + 50]
        chosen[worst[missing[worst] > 0]] = True
    return None


# --- what is compared ---------------------------------------------------------------------------------------


def _compared(outcomes: Outcomes, free: Array) -> Comparisons:
    """Return the first observed outcome of each row against all others that can happen."""
    seen = np.flatnonzero(outcomes.observed)
    rows, first = np.unique(outcomes.row[seen], return_index=True)
    of_row = np.full(int(outcomes.row.max()) + 1, -1)
    of_row[rows] = seen[first]
    against = of_row[outcomes.row]
    others = np.flatnonzero((against >= 0) & (against != np.arange(len(against))) & outcomes.possible)
    Φ = outcomes.features[:, free]
    D = sp.csr_array(Φ[against[others]] - Φ[others])
    both = outcomes.observed[others]
    return Comparisons(sp.csr_array(D[~both]), sp.csr_array(D[both]))


def _outcomes(F: Objective) -> Outcomes:
    """Return the outcomes of all rows that count; of a score against zero both are written out."""
    assert F.whole is not None
    data, model = F.whole.here(), F.model.as_rows()
    X, target = sp.csr_array(model.design(data).csr().astype(np.float64)), model.targets(data)
    if isinstance(data, Choices):
        row = np.repeat(np.arange(len(data)), data.sizes)
        possible = np.ones(len(row), dtype=bool) if data.log_measure is None else ~np.isneginf(data.log_measure)
        features = X
    elif model.against_zero:
        features = sp.vstack([sp.csr_array(X.shape), X], format="csr")
        row, target = np.tile(np.arange(len(data)), 2), np.concatenate([1 - target, target])
        possible = np.ones(len(row), dtype=bool)
    else:
        n = model.classes(data)
        features = sp.kron(sp.eye_array(n), X, format="csr")
        row, offset = np.tile(np.arange(len(data)), n), getattr(data, "offset", None)
        possible = np.ones(len(row), dtype=bool) if offset is None else ~np.isneginf(offset).ravel()
    counts = np.ones(len(row), dtype=bool) if data.weight is None else data.weight[row] > 0
    return Outcomes(sp.csr_array(features), row, (target > 0) & counts, possible & counts)

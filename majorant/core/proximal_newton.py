"""Proximal Newton on working sets: F with an ℓ1 penalty, of which most coefficients are zero.

A step (:meth:`ProximalNewton.step`) takes a working set W: all coefficients that are not zero, and as many of those
whose gradient exceeds λ1 most. On W it makes Newton steps, each in four parts, until the violation of the optimality
conditions on W is a third of that outside:

1. the quadratic model of the loss at the scores so far. Where rows saturate its curvature vanishes: after a move that
   was large, or failed, that of the bound stands in, which dominates the loss everywhere;
2. coordinate descent on the model and the penalty. It goes column by column on residuals, until that has cost as much
   as the matrix of the model on W; then on the matrix, with Newton's step on the support once signs settle. A free
   intercept is eliminated exactly;
3. a line search along the move, on scores: no rows are read;
4. the gradient on W.

Then the gradient of all coefficients tells whether others have to join. Data whose columns are not in memory, or models
without a column for each coefficient, take the matrix of all coefficients instead, if these are few.

References
----------
Lee, Sun & Saunders, *Proximal Newton-type methods for minimizing composite functions*, 2014.
Yuan, Ho & Lin, *An improved GLMNET for ℓ1-regularized logistic regression*, 2012.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from majorant.core import kernels
from majorant.core.certificates import LARGEST
from majorant.core.checks import Array, lazy
from majorant.core.class_model import ClassModel
from majorant.core.curvature import Dense
from majorant.core.line_search import Point, gradient_there
from majorant.core.matrix import CsrDesign, DenseDesign
from majorant.core.model import weights_of
from majorant.core.objective import Objective
from majorant.core.penalty import ElasticNet, soft_threshold
from majorant.core.rows import LocalBlocks, OneBlock
from majorant.core.solver import MATTERS, State, SteppingSolver, improves, known

# Coefficients that a working set has at least, and Newton steps on it at most.
LEAST, STEPS = 100, 20
# The violation that is left on a working set, relative to that outside; where there is none, to what it was.
OUTSIDE, INSIDE = 0.3, 0.01
# How exactly a model is minimised, relative to its violation: by sweeps over columns, and on its matrix.
BY_SWEEPS, ON_MATRIX = 0.1, 1e-3
# Nanoseconds for an entry of a column in a sweep, for a pair of entries of a sparse row, for an entry of a matrix, and
# for a product of matrices.
SWEPT, PAIR, ENTRY, PRODUCT = 2.0, 2.0, 6.0, 0.15
# Sweeps that a matrix may cost to be found at once; sweeps at most; coordinates of the largest matrix.
AT_ONCE, MOST_SWEEPS, LARGEST_MATRIX = 8.0, 100, 5_000
# How often a fit visits each stored number, about: of small data too few times for compiled loops to be loaded.
VISITS = 64
# A longer change of a score leaves the quadratic model.
FAR = 3.0
# The share of the predicted decrease that a step has to make, and halvings on the way to it.
ENOUGH, HALVINGS = 0.01, 30
# The least variance of an outcome: a coefficient of none would never move again.
LEAST_VARIANCE = 1e-12
# Rounding errors of a gradient, relative to it.
ROUNDED = 1e-13
# What is added to a matrix that may be singular, relative to its diagonal.
JITTER = 1e-10


@dataclass(frozen=True, eq=False)
class ProximalNewtonState(State):
    """What was worked on, and whether the next model is that of the bound."""

    working: Array | None = None
    bounded: bool = False
    of_loss: Array | None = None  # the gradient of the loss, which a slope of zero does not tell

    def carried(self, objective: Objective, theta: Array) -> ProximalNewtonState | None:
        """Return the state under another penalty: the strong rule says which coefficients are worked on first.

        Gradients are taken to change by no more than λ1 does. (Tibshirani et al., *Strong rules for discarding
        predictors in lasso-type problems*, 2012.)
        """
        if self.of_loss is None or not isinstance(objective.penalty, ElasticNet):
            return None
        size, now = np.abs(self.of_loss), objective.penalty.l1
        before = size[(self.theta != 0) & (now > 0)].max(initial=0.0)  # λ1, of the largest factor
        strong = size >= 2 * now - before * now / now.max(initial=1e-300)
        return ProximalNewtonState(np.array(theta), working=np.flatnonzero(strong))


@dataclass(frozen=True)
class ProximalNewton(SteppingSolver[ProximalNewtonState]):
    """Newton's method with coordinate descent on working sets, for penalties with an ℓ1 part. Nothing to tune.

    Examples
    --------
    >>> import majorant
    >>> X, y = majorant.datasets.load("ecoli")
    >>> penalty = majorant.objective.ElasticNet(1.0, 0.0, 64)
    >>> F = majorant.Objective(majorant.Multinomial(8), majorant.Labelled(X, y), ridge=penalty)
    >>> solution = majorant.minimize(F, ProximalNewton())
    >>> solution.result.converged, bool((solution.params == 0).sum() > 32)
    (True, True)
    """

    nonsmooth: ClassVar[bool] = True

    def start(self, objective: Objective, theta: Array) -> ProximalNewtonState:
        """Return the state at θ; at zero with intercepts that make every class as likely as it was observed."""
        if not isinstance(objective.penalty, ElasticNet):
            raise TypeError(f"ProximalNewton needs an ElasticNet penalty, got {type(objective.penalty).__name__}")
        few = objective.size <= LARGEST and objective.model.has_rows and objective.convex
        if not (few or has_columns(objective)):
            raise TypeError(
                f"an ℓ1 penalty needs labelled rows in memory, or no more than {LARGEST} parameters of a convex loss "
                f"whose outcomes can be written out; got {objective.size} of {type(objective.model).__name__}"
            )
        return ProximalNewtonState(objective.with_likely_intercept(np.asarray(theta, dtype=np.float64)))

    def step(self, objective: Objective, state: ProximalNewtonState) -> ProximalNewtonState:
        """Return the state after Newton steps on a working set."""
        here = known(objective, state)
        if not has_columns(objective):
            return self._step_of_all(objective, state, here)
        F, rows, model, penalty = objective, objective.whole, objective.model, objective.penalty
        assert isinstance(model, ClassModel)
        assert isinstance(penalty, ElasticNet)

        # The working set with its columns, and the scores of all rows.
        working, outside = working_set(F, here, state)
        table = Table.of(F, working)
        compiled, share = kernels.worth_compiling(VISITS * table.numbers, table.n), table.share
        weight, theta, S = weights_of(rows), here.theta.copy(), np.concatenate(here.scores, axis=-1)
        loss, residual = model.loss_and_residual(S, rows)
        bounded, slow, aim, moved = state.bounded, False, None, False

        for _ in range(STEPS):
            # The model: the curvature D of each score by itself, and what couples the classes of a row.
            Q = None
            if bounded:
                D = bound_on_scores(model, S, rows)
            elif table.n == 1:
                D = model.class_variances(residual, rows) + LEAST_VARIANCE * weight
            else:
                P = model.hessian_weights(S, rows)
                D, Q = weight * (P * (1.0 - P) + LEAST_VARIANCE), np.sqrt(weight) * P
            x, quadratic = theta[working], Quadratic.of(table, residual, np.ascontiguousarray(D), Q)

            # The violation of the optimality conditions, and how much of it may be left.
            violation = table.violation(x, quadratic.profiled)
            aim = max(OUTSIDE * outside, INSIDE * violation) if aim is None else aim
            if violation <= aim and moved:
                break

            # Coordinate descent: by sweeps, until these have cost as much as the matrix.
            new, of_intercepts, sweeps, affordable = x.copy(), np.zeros(table.n), 0, quadratic.sweeps_for_matrix()
            enough = max(0.3 * aim, ROUNDED * float(np.abs(quadratic.profiled).max(initial=0.0)))
            by_matrix = slow or not compiled or affordable <= AT_ONCE
            if not by_matrix or table.size > LARGEST_MATRIX:
                new, of_intercepts, sweeps, slow = quadratic.swept(
                    x, max(enough, BY_SWEEPS * violation), min(affordable, MOST_SWEEPS)
                )
            if (by_matrix or slow) and table.size <= LARGEST_MATRIX:
                new, of_intercepts = quadratic.minimised(x, new, max(enough, ON_MATRIX * violation), compiled=compiled)
            F.spend(passes=share * (1.0 + sweeps), curvatures=1)

            # Along the move, on scores.
            δ = new - x
            along = table.scores(δ) + of_intercepts[:, None]
            before = table.value(x)
            predicted = min(float(np.vdot(residual, along)) + table.value(new) - before, 0.0)
            slack, a, found = MATTERS * F.rounding(theta, here.value), 1.0, False
            for _ in range(HALVINGS):
                at = new if a == 1.0 else x + a * δ
                there = S + a * along
                loss_there, residual_there = model.loss_and_residual(there, rows)
                found = loss_there + table.value(at) - (loss + before) <= ENOUGH * a * predicted + slack
                if found:
                    break
                a *= 0.5
            if not found and bounded:  # which dominates: nothing is left to gain but rounding
                break
            bounded = not found or a < 1.0 or float(np.abs(along).max(initial=0.0)) > FAR
            if found:
                theta[working] = at
                theta.reshape(table.n, -1)[:, -1] += a * table.of_intercepts(δ, of_intercepts)
                S, loss, residual, moved = there, loss_there, residual_there, True
        if not moved:
            return state.moved_to(here, stalled=True)

        # F, and the gradient of all coefficients.
        F.spend(passes=0.5)
        of_loss, scores = F.blocks.run(partial(gradient_there, model), split_like(here.scores, S, residual))
        point = Point(theta, loss + penalty.value(theta), penalty.slope(theta, of_loss), scores)
        if not improves(F, point, here):
            return state.moved_to(here, stalled=True)
        return ProximalNewtonState.at(point, working=working, bounded=bounded, of_loss=of_loss)

    def _step_of_all(self, objective: Objective, state: ProximalNewtonState, here: Point) -> ProximalNewtonState:
        """Return the state after a Newton step on all coefficients, whose Hessian is found in a pass over the rows."""
        F, θ, penalty = objective, here.theta, objective.penalty
        assert isinstance(penalty, ElasticNet)
        F.spend(passes=1.0)
        of_loss = F.blocks.total(partial(F.model.loss_and_gradient, θ))[1]
        H = F.expand(here, Dense.of, majorizes=state.bounded)[1].as_matrix()
        new, enough = θ.copy(), ON_MATRIX * float(np.abs(here.gradient).max(initial=0.0))
        minimise_on_matrix(H, of_loss.copy(), new, penalty.l1, penalty.l2, enough, kernels.quadratic.descend)
        predicted = min(float(of_loss @ (new - θ)) + penalty.value(new) - penalty.value(θ), 0.0)
        slack, a = MATTERS * F.rounding(θ, here.value), 1.0
        for _ in range(HALVINGS):
            there = F.point(new if a == 1.0 else θ + a * (new - θ))
            if there.value - here.value <= ENOUGH * a * predicted + slack:
                stalled = not improves(F, there, here)
                return ProximalNewtonState.at(here if stalled else there, bounded=a < 1.0, stalled=stalled)
            a *= 0.5
        return state.moved_to(here, bounded=True, stalled=state.bounded)


def has_columns(F: Objective) -> bool:
    """Return whether rows are in memory, and each coefficient is that of a class and a column."""
    model = F.model
    here = F.whole is not None and isinstance(F.blocks, OneBlock | LocalBlocks) and F.keeps_scores
    return here and isinstance(model, ClassModel) and model.is_softmax() and F.whole.design.place is None


def working_set(F: Objective, here: Point, state: ProximalNewtonState) -> tuple[Array, float]:
    """Return the coefficients to work on, and the largest violation among the others.

    A free intercept is none of them: it is eliminated.
    """
    penalty, rows = F.penalty, F.whole
    assert isinstance(penalty, ElasticNet)
    inside = (here.theta != 0) | (penalty.l1 == 0)
    if state.working is not None and state.point is None:  # of a run under another penalty
        inside[state.working] = True
    violated = np.where(inside, 0.0, np.abs(here.gradient))
    inside = inside.reshape(-1, rows.n_features).copy()
    if has_free_intercept(F):
        inside[:, -1] = False
    before = 0 if state.working is None else len(state.working)
    room, others = max(2 * int(inside.sum()), LEAST, before) - int(inside.sum()), np.flatnonzero(violated)
    if len(others) > room:
        others = others[np.argpartition(violated[others], len(others) - room)[len(others) - room :]]
    chosen = inside.ravel()
    chosen[others] = True
    violated[others] = 0.0
    return np.flatnonzero(chosen), float(violated.max(initial=0.0))


def has_free_intercept(F: Objective) -> bool:
    """Return whether the last column is one of ones without a penalty."""
    free = ~F.penalty.penalised.reshape(-1, F.whole.n_features)[:, -1]
    return F.whole.constant and bool(free.all())


@dataclass(frozen=True, eq=False)
class Table:
    """The columns of a working set, and which of them, with which class, each coordinate is.

    ``shift`` is what the columns of the problem are measured from, if these are not: beside a free intercept that makes
    no difference to scores.
    """

    X: Any  # t×c, by columns: an array, or CSC
    shift: Array
    column: Array  # of each coordinate
    classes: Array
    l1: Array
    l2: Array
    n: int
    is_free: bool
    numbers: float  # that all columns store
    weight: Array

    @classmethod
    def of(cls, F: Objective, working: Array) -> Table:
        """Return the table of some coordinates, in order."""
        rows, penalty = F.whole, F.penalty
        assert isinstance(penalty, ElasticNet)
        p, design, is_free = rows.n_features, rows.design, has_free_intercept(F)
        classes, columns = np.divmod(working, p)
        which, column = np.unique(columns, return_inverse=True)
        shift = np.zeros(len(which))
        if isinstance(design, CsrDesign) and (is_free or not design.constant):
            if "columns" not in F.remembered:
                F.remembered["columns"] = sp.csc_array(design.numbers)
            X = F.remembered["columns"][:, which].astype(np.float64)
            shift = shift if design.shift is None else design.shift[which]
        elif isinstance(design, DenseDesign) and (is_free or not design.constant):
            X = np.asfortranarray(design.numbers[:, which], dtype=np.float64)
            if design.shift is not None:
                X -= design.shift[which]
        else:
            X = np.asfortranarray(design.columns(which).dense())
        numbers, n = design.density * design.shape[0] * design.shape[1], F.size // p
        return cls(
            X, shift, column, classes, penalty.l1[working], penalty.l2[working], n, is_free, numbers, weights_of(rows)
        )

    @property
    def size(self) -> int:
        """The number of coordinates."""
        return len(self.column)

    @lazy
    def stored(self) -> float:
        """Entries of the columns of all coordinates."""
        of_column = np.diff(self.X.indptr) if sp.issparse(self.X) else np.full(self.X.shape[1], self.X.shape[0])
        return float(of_column[self.column].sum())

    @property
    def share(self) -> float:
        """What is stored of the columns, relative to all columns and classes."""
        return self.stored / max(self.numbers * self.n, 1.0)

    @lazy
    def squares(self) -> Array:
        """Σ_j w_j x_j² of each coordinate."""
        return self.products_of_squares(np.broadcast_to(self.weight, (self.n, len(self.weight))))

    def products(self, R: Array) -> Array:
        """Return the product of the column of each coordinate and what R (n×t) has for its class."""
        return np.asarray((self.X.T @ R.T)[self.column, self.classes])

    def products_of_squares(self, R: Array) -> Array:
        """Return the same of the squares of columns."""
        squares = self.X.power(2) if sp.issparse(self.X) else self.X * self.X
        return np.asarray((squares.T @ R.T)[self.column, self.classes])

    def scores(self, moves: Array) -> Array:
        """Return what moves of coordinates change scores by (n×t)."""
        M = np.zeros((self.X.shape[1], self.n))
        M[self.column, self.classes] = moves
        return np.ascontiguousarray((self.X @ M).T)

    def of_intercepts(self, moves: Array, intercepts: Array) -> Array:
        """Return how far intercepts move, of columns that are measured from where the problem has them."""
        return intercepts + np.bincount(self.classes, self.shift[self.column] * moves, self.n)

    def value(self, x: Array) -> float:
        """Return the penalty of the coordinates."""
        return float(self.l1 @ np.abs(x)) + 0.5 * float(self.l2 @ (x * x))

    def violation(self, x: Array, slope: Array) -> float:
        """Return the largest violation: how far a proximal step of the length 1/L leads, times L.

        L is a bound on the curvature. A subgradient would jump where a coefficient is next to zero.
        """
        L = 0.25 * self.squares
        moved = soft_threshold(L * x - slope, self.l1) - (L + self.l2) * x
        return float(np.abs(moved).max(initial=0.0))


@dataclass(frozen=True, eq=False)
class Quadratic:
    """The quadratic model of the loss on a working set, free intercepts eliminated.

    On scores it is diag(D + Q²) − qqᵀ with q the column of Q of a row, or D alone: see ``core.kernels.coordinates``.
    """

    table: Table
    residual: Array
    D: Array  # n×t
    Q: Array | None
    slope: Array  # on the coordinates
    of_own: Array  # Σ_j d_j x_j of each coordinate
    totals: Array  # Σ_j d_j of each class, zero where there is no intercept
    sums: Array  # Σ_j r_j of each class

    @classmethod
    def of(cls, table: Table, residual: Array, D: Array, Q: Array | None) -> Quadratic:
        """Return the model at residuals."""
        totals = D.sum(axis=1) if table.is_free else np.zeros(table.n)
        of_own = table.products(D) if table.is_free else np.zeros(table.size)
        return cls(table, residual, D, Q, table.products(residual), of_own, totals, residual.sum(axis=1))

    @property
    def profiled(self) -> Array:
        """The slope where each intercept is at its best by itself."""
        if not self.table.is_free:
            return self.slope
        return self.slope - self.of_own * (self.sums / self.totals)[self.table.classes]

    def sweeps_for_matrix(self) -> float:
        """Return how many sweeps cost as much as the matrix."""
        table, (n, t) = self.table, self.D.shape
        coupled = 1.0 if self.Q is None else 2.0
        sweep = SWEPT * coupled * (table.stored + 4 * n * t) + 1.0
        # Besides products of rows: to write and read the matrix a few times, and a factor of half of it.
        of_size = ENTRY * table.size**2 + PRODUCT * (0.5 * table.size) ** 3 / 3
        if not sp.issparse(table.X):
            return (PRODUCT * t * table.size**2 + of_size) / sweep
        of_column = np.bincount(table.column, minlength=table.X.shape[1]).astype(np.float64)
        of_row = np.bincount(table.X.indices, np.repeat(of_column, np.diff(table.X.indptr)), t)
        return (PAIR * 0.5 * float(of_row @ of_row) + of_size) / sweep

    def swept(self, x: Array, enough: float, most: float) -> tuple[Array, Array, int, bool]:
        """Return coordinates and intercepts after sweeps over columns, how many there were, and whether that was all.

        They end once no coordinate was further from its best than ``enough``, as a gradient, or after the most.
        """
        table, (n, t) = self.table, self.D.shape
        sparse = sp.issparse(table.X)
        data = table.X.data if sparse else table.X.reshape(-1, order="F")
        starts = table.X.indptr.astype(np.int64) if sparse else np.arange(table.X.shape[1] + 1) * t
        of_class = np.searchsorted(table.classes, np.arange(n + 1))
        columns = kernels.coordinates.Columns(
            data, table.X.indices if sparse else np.zeros(0, dtype=np.int32), starts, table.column, of_class
        )
        coupled, Q = self.Q is not None, np.zeros((1, 1)) if self.Q is None else self.Q
        curvature = table.products_of_squares(self.D)
        curvature -= np.divide(self.of_own**2, self.totals[table.classes], out=np.zeros(len(x)), where=self.of_own != 0)
        new, V, s, moved = x.copy(), self.residual.copy(), np.zeros(t), np.zeros(n)
        R, z, sweeps = np.empty(t), np.empty(t), 0
        while sweeps < most:
            sweeps += 1
            largest = kernels.coordinates.sweep(
                columns,
                self.D,
                Q,
                coupled,
                self.of_own,
                curvature,
                self.totals,
                table.l1,
                table.l2,
                new,
                V,
                s,
                R,
                z,
                moved,
            )
            if largest <= enough:
                return new, moved, sweeps, False
        return new, moved, sweeps, True

    def minimised(self, x: Array, start: Array, enough: float, *, compiled: bool) -> tuple[Array, Array]:
        """Return coordinates and intercepts of the minimum, which is found on the matrix of the model."""
        table, n = self.table, self.table.n
        G, C = self.matrix(compiled=compiled)
        slope, H = self.slope.copy(), None
        if table.is_free:
            H = np.diag(self.totals)
            if self.Q is not None:
                H -= self.Q @ self.Q.T
                np.fill_diagonal(H, self.totals)
                H += self.totals.mean() / n  # all intercepts may move together
            inverse = np.linalg.pinv(H, hermitian=True)
            G -= C @ inverse @ C.T
            slope -= C @ (inverse @ self.sums)
        new = start.copy()
        slope += G @ (new - x)
        descend = kernels.coordinates.descend if compiled else kernels.quadratic.descend
        minimise_on_matrix(G, slope, new, table.l1, table.l2, enough, descend)
        if not table.is_free:
            return new, np.zeros(n)
        return new, -inverse @ (self.sums + C.T @ (new - x))

    def matrix(self, *, compiled: bool) -> tuple[Array, Array]:
        """Return the matrix of the coordinates (m×m), and what it has between them and intercepts (m×n)."""
        table, D, Q, m = self.table, self.D, self.Q, self.table.size
        X, of, n = table.X[:, table.column], table.classes, table.n
        C = np.zeros((m, n))
        if compiled and sp.issparse(X):
            X, G = sp.csr_array(X), np.zeros((m, m))
            one = np.zeros((1, 1)) if Q is None else Q
            starts = X.indptr.astype(np.int64)
            kernels.coordinates.add_gram(X.data, X.indices, starts, of, D, one, Q is not None, G)
            if Q is not None and table.is_free:
                weighted = X.copy()
                weighted.data *= Q[of[X.indices], np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))]
                C = -np.asarray(weighted.T @ Q.T)
        else:
            A = X.toarray() if sp.issparse(X) else X
            G = np.zeros((m, m))
            if Q is not None:
                weighted = A * Q[of].T
                G = -(weighted.T @ weighted)
                C = -(weighted.T @ Q.T)
            for k in range(n):
                own = of == k
                A_k = A if n == 1 else A[:, own]
                G[np.ix_(own, own)] = A_k.T @ (A_k * D[k][:, None])
        C[np.arange(m), of] = self.of_own
        return G, C


def minimise_on_matrix(G: Array, slope: Array, x: Array, l1: Array, l2: Array, enough: float, descend: Any) -> None:
    """Minimise a quadratic with kinks from x, in place: coordinate descent, and Newton's steps on the support.

    ``slope`` is the gradient of the quadratic at x. A step on the support ends where the first sign changes.
    """
    m = len(x)
    for _ in range(MOST_SWEEPS):
        support = np.flatnonzero((x != 0) | (l1 == 0))
        # A factor costs as much as a few sweeps, of many coefficients as more.
        sweeps = 2 + int(len(support) ** 3 / (30.0 * max(m, 1) ** 2))
        if descend(G, slope, x, l1, l2, enough, sweeps) <= enough:
            return
        support = np.flatnonzero((x != 0) | (l1 == 0))
        A, z, kinks = G[np.ix_(support, support)], x[support], l1[support]
        A.flat[:: len(A) + 1] += l2[support] + JITTER * np.abs(np.diagonal(A)) + 1e-300
        try:
            step = -cho_solve(cho_factor(A, lower=True), slope[support] + kinks * np.sign(z) + l2[support] * z)
        except LinAlgError:
            continue
        crosses = (kinks > 0) & (z * (z + step) < 0)
        lengths = np.abs(z[crosses] / step[crosses])
        a = float(lengths.min(initial=1.0))
        moved = z + a * step
        if a < 1:
            moved[np.flatnonzero(crosses)[lengths <= a]] = 0.0
        slope += G[:, support] @ (moved - z)
        x[support] = moved


def bound_on_scores(model: ClassModel, scores: Array, rows: Any) -> Array:
    """Return a curvature of each score by itself that dominates that of the loss everywhere (n×t), times weights.

    Of one score it is that of Algorithm 1; of several the largest eigenvalue of Böhning's matrix.
    """
    factors: Any = model.bound_factors(scores, rows)
    if len(scores) == 1:
        return np.asarray(weights_of(rows) * factors.matrices(scores)[0])
    return np.tile(weights_of(rows) * float(np.linalg.eigvalsh(factors.fixed_classes)[-1]), (len(scores), 1))


def split_like(scores: list[Array], *arrays: Array) -> list[tuple[Array, ...]]:
    """Return arrays whose last axis runs over all rows, cut as the scores of blocks are."""
    ends = np.cumsum([each.shape[-1] for each in scores])[:-1]
    parts = ([np.ascontiguousarray(part) for part in np.split(array, ends, axis=-1)] for array in arrays)
    return list(zip(*parts, strict=True))

"""The inner problem of the proximal solver: argmin ½‖θ − θ_i‖²_A + ℓ_b(θ) over one mini-batch.

In *score space*, with M = A⁻¹ and G = ΦMΦᵀ, the solution is θ_i + MΦᵀa with a = −ℓ'(u), u = u₀ + Ga, and a minimises
Φ(a) = ½aᵀGa + ℓ(u₀ + Ga). In *parameter space* it is minimised as it stands. Both by damped Newton: a full step unless
that fails to decrease enough, and a step of Böhning's bound where halving it has not helped either.

What the proximal solver remembers of the rows it has seen: the precision of a sequential Laplace approximation.

For each mini-batch b it solves argmin ½‖θ' − θ‖²_A + ℓ_b(θ'), then adds the Hessian of ℓ_b at the new point to A, as
far as the shape of A allows: whole, one block per class, or the diagonal. The solution is looked for among parameters
or among scores (``majorant.core.proximal``), whichever are fewer.

==============  ==================  ========================================================
memory          curvature           best where
==============  ==================  ========================================================
``Whole``       Dense               a batch has at least d scores
``WholeByRow``  Growing             batches are small
``ByClass``     Block of Growing    d×d is too much, p×p is not; nearly as good
``ByColumn``    Diagonal            data are too wide for matrices
==============  ==================  ========================================================

A stream of rows, learnt by proximal steps: what the proximal solver and ``partial_fit`` have in common.

How the proximal solver goes on after its pass: by quasi-Newton steps, in the metric that it remembers.

Early batches are remembered where θ was far from the optimum: on columns of wild scales that is far too stiff in some
directions, and L-BFGS pairs cannot mend them all. Then a better metric is bought, by the rule of
``majorant.core.policy``.

Proximal stochastic majorization: one pass, no step size, then full-gradient steps scaled by what it has learnt.

For each mini-batch b, **solve** instead of linearising, and remember the curvature where that led:

    θ ← argmin ½‖θ' − θ‖²_A + ℓ_b(θ'),        A ← A + Hessian of ℓ_b at the new θ,        A₀ = λI, θ₀ = 0.

The penalty enters once, as the prior: so the first proximal term is centred at zero wherever one would like to start.
A is the precision of a sequential Laplace approximation of the posterior. With the bound's curvature instead of the
Hessian the early anchors are too stiff and never forgotten; with a linearised step the Hessian can blow up. Later
passes would count rows twice; instead, quasi-Newton steps on the whole objective finish from here, scaled by A⁻¹ for as
long as that serves (``majorant.core.proximal``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from majorant.core import kernels
from majorant.core.certificates import LARGEST, KnownHessian
from majorant.core.checks import Array, one_of, whole
from majorant.core.curvature import Block, Curvature, Dense, Diagonal, Solve, steady_factor
from majorant.core.intercept import HALVINGS, STEPS
from majorant.core.line_search import best_step
from majorant.core.objective import Objective
from majorant.core.policy import WINDOW, Plan, QuasiNewton, QuasiNewtonState
from majorant.core.preconditioners import DIAGONALS, Unridged
from majorant.core.solver import known
from majorant.core.stochastic import StochasticSolver, StochasticState
from majorant.core.structured import Growing

if TYPE_CHECKING:
    from majorant.core.model import RowModel

# Newton stops when another step would gain less than this, per row of the batch.
ENOUGH = 1e-7


def solve_in_scores(model: RowModel[Any], batch: Any, scores: Array, G: Array) -> Array:
    """Return a (flat) for the scores u₀ at θ_i and the dense Gram matrix G (scores × scores)."""
    weights = model.score_weights(batch)
    if scores.size == 1 and model.against_zero:
        return _solve_for_one(
            float(scores.ravel()[0]), float(G[0, 0]), float(weights[0]), float(model.targets(batch)[0])
        )
    a, moved = np.zeros(scores.size), np.zeros(scores.size)  # moved = Ga: scores of −∞ stay where they are
    loss, slope = _evaluate(model, batch, scores, moved)
    for _ in range(STEPS):
        residual, value = a + slope, loss + 0.5 * float(a @ moved)
        step = _newton_step(model.hessian_times(scores.ravel() + moved, batch, G), residual)
        Gstep = G @ step
        decrement = -float(residual @ Gstep)
        for length in 0.5 ** np.arange(HALVINGS):
            trial, along = a + length * step, moved + length * Gstep
            trial_loss, trial_slope = _evaluate(model, batch, scores, along)
            if trial_loss + 0.5 * trial @ along <= _enough(value, length * decrement):
                break
        else:
            # H ⪯ ½W for any scores, so this step cannot rise; as a first resort it would creep.
            trial = a + _newton_step(0.5 * weights[:, None] * G, residual)
            along = G @ trial
            trial_loss, trial_slope = _evaluate(model, batch, scores, along)
            if not trial_loss + 0.5 * trial @ along < value:
                return a  # what is left is rounding
        a, moved, loss, slope = trial, along, trial_loss, trial_slope
        if decrement <= ENOUGH * len(batch):
            return a
    return a


def _solve_for_one(score: float, G: float, weight: float, target: float) -> Array:
    """Return a = w(y − p(u)) with u = score + Ga, compiled: a stream may come row by row.

    Of a label it is w times the probability of the other one, σ(−v) with v = ±u, to the digits of that: where G is huge
    a is tiny, and the last digits of p times G are scores of any size.
    """
    q = G * weight
    if target == 1.0:
        other, _ = kernels.dual.logistic_step(score, score, q)
        return np.array([weight * other])
    p, _ = kernels.dual.logistic_step(-score, -score - q * target, q)
    return np.array([weight * (target - p)])


def _newton_step(HG: Array, residual: Array) -> Array:
    """Return −(I + HG)⁻¹ residual; HG is overwritten."""
    HG.flat[:: len(HG) + 1] += 1.0
    try:
        return -np.linalg.solve(HG, residual)
    except np.linalg.LinAlgError:  # on wild scales rounding hides the one on the diagonal
        return -np.linalg.lstsq(HG, residual, rcond=None)[0]


def solve_in_parameters(model: RowModel[Any], batch: Any, start: Array, A: Array, classes: int = 1) -> Array:
    """Return argmin ½‖θ − start‖²_A + ℓ_b(θ), for a dense precision A of so many classes."""
    δ = np.zeros_like(start)
    scores = model.scores(start, batch)
    loss, residual = model.loss_and_residual(scores, batch)
    for _ in range(STEPS):
        Aδ = A @ δ
        gradient = Aδ + model.lift(residual, batch)
        H = A + model.hessian_factors(scores, batch).matrix()
        step = -steady_factor(H, classes)(gradient)
        decrement = -float(gradient @ step)
        value, Astep, move = loss + 0.5 * δ @ Aδ, A @ step, model.potentials(step, batch)
        for length in 0.5 ** np.arange(HALVINGS):
            trial_loss, trial_residual = model.loss_and_residual(scores + length * move, batch)
            quadratic = 0.5 * (δ + length * step) @ (Aδ + length * Astep)
            if trial_loss + quadratic <= _enough(value, length * decrement):
                break
        else:
            bounded = A + model.bound_factors(scores, batch).matrix()
            step = -steady_factor(bounded, classes)(gradient)
            length, move = 1.0, model.potentials(step, batch)
            trial_loss, trial_residual = model.loss_and_residual(scores + move, batch)
            if not trial_loss + 0.5 * (δ + step) @ (A @ (δ + step)) < value:
                break  # what is left is rounding
        δ, scores, loss, residual = δ + length * step, scores + length * move, trial_loss, trial_residual
        if decrement <= ENOUGH * len(batch):
            break
    return start + δ


def _enough(value: float, predicted: float) -> float:
    """Return what a step has to reach: Armijo's share of what the slope predicts, to rounding."""
    # Armijo's share of the decrease that the slope predicts.
    return value - 1e-4 * max(predicted, 0.0) + 1e-13 * abs(value)


def _evaluate(model: RowModel[Any], batch: Any, scores: Array, moved: Array) -> tuple[float, Array]:
    loss, residual = model.loss_and_residual(scores + moved.reshape(scores.shape), batch)
    return loss, residual.ravel()


class Memory(ABC):
    """A positive definite precision A that grows with every mini-batch. Each visit makes a new one."""

    precision: Curvature
    level: ClassVar[int] = 1  # to scale steps by: that of a diagonal

    @abstractmethod
    def learn(self, model: Any, theta: Array, batches: Iterable[Any]) -> tuple[Array, Memory]:
        """Return parameters and memory after proximal steps on some mini-batches."""

    @abstractmethod
    def of(self, A: Array) -> Memory:
        """Return a memory of this kind of another precision, shaped as ``precision.compact()`` is."""

    @property
    def movable(self) -> bool:
        """Whether columns can be measured from elsewhere without a loss: a diagonal has nothing between them."""
        return True


@dataclass(frozen=True, eq=False)
class Whole(Memory):
    """A itself, d×d. The inner problem is solved for parameters."""

    precision: Dense
    classes: int = 1
    level: ClassVar[int] = 3  # that of the Hessian of some rows

    def learn(self, model: Any, theta: Array, batches: Iterable[Any]) -> tuple[Array, Memory]:
        """Step in parameter space."""
        A = self.precision.matrix
        for part in batches:
            complete, batch = model.completed(theta, part)
            theta = solve_in_parameters(complete, batch, theta, A, self.classes)
            A = A + complete.hessian_factors(complete.scores(theta, batch), batch).matrix()
        return theta, self.of(A)

    def of(self, A: Array) -> Memory:
        """Return the memory of another matrix."""
        return Whole(Dense(A, majorizes=False), self.classes)


@dataclass(frozen=True, eq=False)
class WholeByRow(Memory):
    """The whole A and its inverse, d×d. The inner problem is solved for scores."""

    precision: Growing
    level: ClassVar[int] = 3  # that of the Hessian of some rows

    def learn(self, model: Any, theta: Array, batches: Iterable[Any]) -> tuple[Array, Memory]:
        """Step in score space."""
        A = self.precision
        for part in batches:
            complete, batch = model.completed(theta, part)
            Φ = complete.score_rows(batch)
            V, G = A.through(Φ, partial(complete.through, batch=batch))
            scores = complete.scores(theta, batch)
            a = solve_in_scores(complete, batch, scores, G)
            u = scores.ravel() + G @ a
            Q, QM = (complete.hessian_root_times(u, batch, rows) for rows in (Φ, V))
            growth = complete.hessian_root_times(u, batch, complete.hessian_root_times(u, batch, G).T)
            theta, A = theta + a @ V, A.grown(Q, QM, growth)
        return theta, WholeByRow(A)

    def of(self, A: Array) -> Memory:
        """Return the memory of another matrix."""
        return WholeByRow(Growing(A, self.precision.classes))


@dataclass(frozen=True, eq=False)
class ByClass(Memory):
    """One p×p matrix A_c per class, with weights p_c(1 − p_c): n times cheaper than the whole, nearly as good.

    The inner problem still couples the classes.
    """

    precision: Block

    def learn(self, model: Any, theta: Array, batches: Iterable[Any]) -> tuple[Array, Memory]:
        """Step in score space, with a block-diagonal Gram matrix."""
        parts: Any = self.precision.parts
        for chunk in batches:
            complete, batch = model.completed(theta, chunk)
            X = complete.design(batch).dense()
            V, G = map(np.stack, zip(*(part.through(X, partial(np.matmul, X)) for part in parts), strict=True))
            scores = complete.scores(theta, batch)
            a = solve_in_scores(complete, batch, scores, block_diagonal(G)).reshape(len(G), -1)
            root = np.sqrt(complete.class_weights(scores + np.einsum("cij,cj->ci", G, a), batch))
            of_parts = zip(parts, root[:, :, None], V, G, strict=True)
            parts = tuple(part.grown(r * X, r * v, r * g * r.T) for part, r, v, g in of_parts)
            theta = theta + np.einsum("cj,cjp->cp", a, V).ravel()
        return theta, ByClass(Block(tuple(parts), self.precision.majorizes))

    def of(self, A: Array) -> Memory:
        """Return the memory of other blocks."""
        return ByClass(Block(tuple(Growing(part) for part in A)))


@dataclass(frozen=True, eq=False)
class ByColumn(Memory):
    """A diagonal A. Only the columns that occur in a batch are touched."""

    precision: Diagonal

    @property
    def movable(self) -> bool:
        """Return False."""
        return False

    def learn(self, model: Any, theta: Array, batches: Iterable[Any]) -> tuple[Array, Memory]:
        """Step in score space, on the columns that occur."""
        n = model.coefficient_rows
        A, W = self.precision.entries.reshape(n, -1).copy(), theta.reshape(n, -1).copy()
        for part in batches:
            complete, batch = model.completed(W.ravel(), part)
            X, columns = complete.design(batch).occurring()
            V = X / A[:, columns][:, None]
            G = V @ X.T
            scores = complete.scores(W.ravel(), batch)
            a = solve_in_scores(complete, batch, scores, block_diagonal(G)).reshape(n, -1)
            weights = complete.class_weights(scores + np.einsum("cij,cj->ci", G, a), batch)
            A[:, columns] += weights @ X**2
            W[:, columns] += np.einsum("cj,cjp->cp", a, V)
        return W.ravel(), self.of(A.ravel())

    def of(self, A: Array) -> Memory:
        """Return the memory of another diagonal."""
        return ByColumn(Diagonal(A, majorizes=False))


def block_diagonal(G: Array) -> Array:
    """Return the (n, m, m) blocks as one matrix."""
    n, m = G.shape[:2]
    if n == 1:
        return G[0]
    whole = np.zeros((n, m, n, m))
    whole[np.arange(n), :, np.arange(n), :] = G
    return whole.reshape(n * m, n * m)


SHAPES = ("auto", "whole", "block", "diagonal")
# A d×d matrix is best while it is affordable; then one p×p block per class; then the diagonal.
LARGEST_WHOLE = 1_000
# Rows of a mini-batch, and scores of one where the inner problem couples the classes of every row.
DEFAULT_ROWS = 100
COUPLED_SCORES = 400


@dataclass(frozen=True, eq=False)
class ProximalStream:
    """Parameters, and what is remembered of the rows that led to them. Learning makes another one."""

    model: RowModel[Any]
    theta: Array
    memory: Memory
    rows: int  # of a mini-batch

    @classmethod
    def begin(cls, model: RowModel[Any], like: Any, ridge: Array, shape: str = "auto") -> ProximalStream:
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


def prior_memory(model: RowModel[Any], like: Any, ridge: Array, rows: int, shape: str = "auto") -> Memory:
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
    # The prior of a parameter that is not penalised: the stream needs one, the finish does not.
    return np.where(ridge > 0, ridge, min(weakest, 1e-3))


def default_rows(model: RowModel[Any], like: Any, shape: str = "auto") -> int:
    """Return the rows of a mini-batch for data of this shape, however many there will be."""
    n = model.scores_per_row(like)
    coupled = n > 1 and chosen_shape(model, like, shape) != "whole"
    return max(COUPLED_SCORES // n, 2) if coupled else DEFAULT_ROWS


def chosen_shape(model: RowModel[Any], like: Any, shape: str) -> str:
    """Return the shape of the precision: the one asked for, or the best that is affordable."""
    size, classes = model.n_parameters(like), model.classes(like)
    if not classes:
        name = type(model).__name__
        if shape in ("block", "diagonal"):
            raise ValueError(f"curvature={shape!r} needs a model with classes; {name} has only 'whole'")
        if size > 10 * LARGEST_WHOLE:
            raise ValueError(f"{name} with {size} parameters is too wide for a whole precision; use LBFGS")
        return "whole"
    if shape != "auto":
        return shape
    if size <= LARGEST_WHOLE:
        return "whole"
    if size // classes > LARGEST:
        return "diagonal"
    return "whole" if classes == 1 else "block"


@dataclass(frozen=True, eq=False)
class Apart:
    """PA⁻¹P as a function, with P what takes out the mean over classes.

    Softmax scores do not change where all classes move together. Blocks of classes, which know nothing of each other,
    lead there, and the penalty, which alone leads back, is next to nothing beside the curvature of large columns.
    """

    solve: Solve
    classes: int

    def __call__(self, b: Array) -> Array:
        """Return PA⁻¹Pb."""
        return apart(self.solve(apart(b, self.classes)), self.classes)


def apart(theta: Array, classes: int) -> Array:
    """Return θ less its mean over classes: of all that give the same probabilities it is penalised least."""
    if classes == 1:
        return theta
    each = theta.reshape(classes, -1)
    return (each - each.mean(axis=0)).ravel()


def redundancy(objective: Objective) -> int:
    """Return how many classes can move together, 1 where the penalty tells them apart."""
    n, ridge = objective.model.redundancy(objective.like), objective.penalty.prior
    if n == 1 or ridge is None:
        return 1
    each = ridge.reshape(n, -1)
    return n if (each == each[0]).all() else 1


@dataclass(frozen=True, eq=False, kw_only=True)
class ProximalState(StochasticState):
    """What the rows so far have left behind, and the state of the finish once it has begun."""

    memory: Memory
    finish: QuasiNewtonState | None = None
    warm: Array | None = None  # where one wished to start: if it is better, the finish does

    def predicted_decrease(self) -> float:
        """Return the prediction of the next step of the finish."""
        return super().predicted_decrease() if self.finish is None else self.finish.predicted_decrease()

    def hessian(self) -> KnownHessian | None:
        """Return the one that the finish has bought, if it has."""
        return None if self.finish is None else self.finish.hessian()

    def revived(self, objective: Objective) -> ProximalState:
        """Return the state with a finish that sees the data again."""
        return self if self.finish is None else self.changed(finish=self.finish.revived(objective))


@dataclass(frozen=True, kw_only=True)
class ProximalMajorization(StochasticSolver[ProximalState]):
    """One proximal pass over mini-batches, then quasi-Newton steps to the optimum. Nothing to tune.

    Parameters
    ----------
    batch_size : int, optional
        Rows m of a mini-batch. By default 100; where the curvature has one block per class or is diagonal, as many as
        make 400 scores (at least 2). Any m works.
    curvature : {"auto", "whole", "block", "diagonal"}
        What to remember: the d×d precision (chosen while d ≤ 1,000, or ≤ 2,000 for one-row binary), one p×p block
        per class (p ≤ 2,000), or the diagonal.
    memory : int
        Secant pairs of the finishing steps.
    warm_start : bool
        Whether the finish may start at ``start``, where that is better than where the pass has led: half a pass tells.

    Notes
    -----
    The prior is centred at zero, and so the pass starts there whatever ``start`` is, except to resume. An unpenalised
    parameter gets the prior precision min(λ, 10⁻³) during the stream. ``solution.state.memory.precision`` is A.

    Examples
    --------
    >>> import majorant
    >>> X, y = majorant.datasets.load("ecoli")
    >>> F = majorant.Objective(majorant.Multinomial(8), majorant.Labelled(X, y), ridge=1.0)
    >>> one_pass = majorant.minimize(F, ProximalMajorization(), max_passes=1)
    >>> optimum = majorant.minimize(F, ProximalMajorization(), start=one_pass)
    >>> excess = one_pass.trace["objective"][-1] / optimum.trace["objective"][-1] - 1
    >>> bool(excess < 0.02), optimum.result.converged
    (True, True)
    """

    batch_size: int | None = None
    curvature: str = "auto"
    memory: int = 20
    warm_start: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("curvature", self.curvature, SHAPES)
        whole("memory", self.memory, least=0)

    def rows_per_batch(self, objective: Objective) -> int:
        """Return m."""
        if self.batch_size is not None:
            return super().rows_per_batch(objective)
        return min(default_rows(objective.model.as_rows(), objective.like, self.curvature), objective.rows)

    def start(self, objective: Objective, theta: Array) -> ProximalState:
        """Return the prior; θ is remembered until the pass is over."""
        model, prior = objective.model.as_rows(), objective.penalty.as_prior()
        memory = prior_memory(model, objective.like, prior, self.rows_per_batch(objective), self.curvature)
        warm = theta if self.warm_start and theta.any() else None
        # Of a loss that is not convex zero may be a saddle, which a pass from there would never leave.
        first = np.zeros(objective.size) if objective.convex else theta
        return ProximalState(theta=first, memory=memory, warm=warm)

    def step(self, objective: Objective, state: ProximalState) -> ProximalState:
        """Return the next state: of the stream while it lasts, then of the finish."""
        if state.visited >= objective.rows:
            return self._finish(objective, state)
        state = super().step(objective, state)
        if state.visited < objective.rows:
            return state
        return self._look_back(objective, state.changed(theta=apart(state.theta, redundancy(objective))))

    def visit(self, objective: Objective, state: ProximalState, rows: Any) -> ProximalState:
        """Return the state after the mini-batches of ``rows``."""
        stream = ProximalStream(objective.model.as_rows(), state.theta, state.memory, self.rows_per_batch(objective))
        after = stream.learn(rows)
        return replace(state, theta=after.theta, memory=after.memory)

    def _look_back(self, objective: Objective, state: ProximalState) -> ProximalState:
        """Return the state, or a point between zero and it if rows in an adversarial order led above F(0).

        A batch of one class, fitted perfectly, has no curvature left there, and its memory is lost to the next: data
        sorted by label and not shuffled do this. One more pass, for the scores alone, finds out.
        """
        ray = objective.ray(np.zeros(objective.size), state.theta)
        at_zero, length = ray.value_and_slope(0.0)[0], 1.0
        if ray.value_and_slope(length)[0] > at_zero:
            length = best_step(ray)
        while ray.value_and_slope(length)[0] > at_zero:
            length /= 2
        if state.warm is not None and objective.value(state.warm) < ray.value_and_slope(length)[0]:
            return replace(state, theta=state.warm)
        return state if length == 1.0 else replace(state, theta=length * state.theta)

    def _finish(self, objective: Objective, state: ProximalState) -> ProximalState:
        solver, here = QuasiNewton(memory=self.memory, seed=self.seed), known(objective, state)
        if state.finish is None:
            # Diagonals and conjugate gradients are for where no matrix can be had: the memory is better than the first,
            # and in a poor metric the second may take thousands of products. The steps that tell how good the memory is
            # pay for nothing.
            plan = Plan.of(objective, "auto", here)
            matrices = tuple(entry for entry in plan.rungs if entry[0] not in DIAGONALS)
            solve = Apart(state.memory.precision.factorized(), redundancy(objective))
            before = QuasiNewtonState.at(
                here,
                plan=replace(plan, rungs=matrices, product=inf) if matrices else plan,
                factorize=Unridged(solve),
                solve=solve,
                level=state.memory.level,
                budget=-float(WINDOW),
                ridge=objective.penalty.prior,
                account=((0, "the metric of a proximal pass"),),
            )
        else:
            before = state.finish.moved_to(here)
        after = solver.step(objective, before)
        shared = ("theta", "point", "stalled", "account", "remark", "unseen")
        return state.changed(finish=after, **{each: getattr(after, each) for each in shared})

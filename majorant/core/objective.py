"""The objective F(θ) = loss of a model on data + penalty: values, gradients, curvatures, rays and certificates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isfinite, sqrt
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike

from majorant.core import certificates
from majorant.core.bound import QuadraticBound
from majorant.core.certificates import Certificate, bounded_gap, ratio, with_intercepts
from majorant.core.checks import Array, lazy
from majorant.core.curvature import Curvature, Dense, Form
from majorant.core.intercept import profile_intercept
from majorant.core.line_search import Point, Ray
from majorant.core.model import Model
from majorant.core.penalty import Penalty, read_penalty
from majorant.core.remote import RemoteRows
from majorant.core.rounding import SAFETY, Magnitudes
from majorant.core.rows import Blocks, Cached, Data, Recompute, Reducer, Threads, labels_only, least
from majorant.core.structured import Pattern, form
from majorant.core.threads import as_array, norm

T = TypeVar("T")
ONE_THREAD = Threads(1)


@dataclass
class Work:
    """What has been spent: passes over the data, and curvatures evaluated.

    A pass multiplies the data twice, for scores and for a gradient; one product alone is half a pass.
    """

    passes: float = 0.0
    curvatures: int = 0


class shared(lazy[T]):
    """A fact about model and data that is found once for all objectives that differ in ledger or size of penalty."""

    @overload
    def __get__(self, instance: None, owner: type) -> shared[T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: Any, owner: type) -> shared[T] | T:
        if instance is None:
            return self
        if self._name not in instance._known:
            instance._known[self._name] = self._find(instance)
        found: T = instance._known[self._name]
        vars(instance)[self._name] = found
        return found


class Objective:
    """A model, its data and a penalty.

    Parameters
    ----------
    model : Model
        ``Multinomial``, ``Binary``, ``Enumerated`` or ``Chain``.
    data : Labelled, Choices or Sequences
        What the model reads.
    ridge : float, array of shape (d,), or Penalty
        λ ≥ 0, one for all parameters or one for each: the penalty is ½ Σ_i λ_i θ_i². scikit-learn's C is 1/λ (see
        ``majorant.core.model``). Another penalty derives from :class:`majorant.objective.Penalty`.
    reducer : Reducer
        Where blocks of the data are worked on: here, by one thread, or by ``Threads(n)``.

    Attributes
    ----------
    size, rows : int
        Number of parameters d and of rows t.
    blocks : Blocks
        The data, to be summed over; ``like`` is a block that shows what they all look like, ``whole`` all of the data
        as one block, if they are in memory.
    ridge : array of shape (d,)
        A diagonal that dominates the Hessian of the penalty; of a ridge, λ itself.
    intercept : model or None
        The model, if what is unpenalised is the coefficient of the constant column and nothing else.
    narrow : bool
        Whether the data are multiplied in single precision.
    keeps_scores : bool
        Whether scores are few enough to be kept: then F along a ray is found without the rows.
    has_rows_at_hand : bool
        Whether all of the data are in memory, here or with workers who hold them.
    comes_here : bool
        Whether the data can be visited here, row by row; if not, workers keep them.

    Examples
    --------
    >>> from majorant import Binary, Labelled
    >>> F = Objective(Binary(), Labelled([[1.0], [-1.0], [2.0]], [1, 0, 0]), ridge=1.0)
    >>> bound = F.bound([0.5])
    >>> bound(bound.anchor) == F.value(bound.anchor)
    True
    >>> F.value(bound.minimizer()) < F.value(bound.anchor)
    True
    """

    columns: Sequence[str] | None = None  # their names, for what is said of them

    def __init__(
        self, model: Model[Any], data: Data, *, ridge: float | ArrayLike | Penalty, reducer: Reducer = ONE_THREAD
    ) -> None:
        if not isinstance(model, Model):
            raise TypeError(f"model must be a model such as Multinomial(3) or Binary(), got {model!r}")
        model.check(getattr(data, "like", data))
        self.model, self.data, self.reducer, self.work = model, data, reducer, Work()
        self.like, self.whole, self.rows = data.like, data.whole, len(data)
        self.size = model.n_parameters(self.like)
        self.blocks = reducer.spread(data, model.block_rows(self.like, self.rows))
        self.comes_here = not isinstance(data, RemoteRows)
        self.has_rows_at_hand = self.whole is not None or self.blocks.holds_rows
        design = model.design(self.like)
        self.precision = np.dtype(np.float64) if design is None else design.dtype
        self.narrow = bool(self.precision != np.float64)
        self.epsilon = float(np.finfo(np.float64).eps) if design is None else design.epsilon
        scores = self.rows * (model.as_rows().scores_per_row(self.like) if model.has_rows else 1)
        self.keeps_scores = model.keeps_scores and self.blocks.has_room(3 * scores)  # on a ray there are three of each
        self.keeps_scores_once = self.keeps_scores or (model.keeps_scores and self.blocks.has_room(scores))
        self.remembered: dict[Any, Any] = {}  # what others have made of the data, whatever the penalty
        self._known: dict[str, Any] = {}
        self._penalise(read_penalty(ridge, self.size))

    def _penalise(self, penalty: Penalty) -> None:
        self.penalty, self.ridge = penalty, penalty.curvature
        self.intercept = self.model.with_intercept(self.like, penalty.penalised)

    # --- F and its derivatives ----------------------------------------------------------------------------

    def value(self, theta: ArrayLike) -> float:
        """Return F(θ)."""
        θ = self._read(theta)
        self.spend(passes=0.5)
        return float(self.blocks.total(partial(self.model.loss_at, θ))) + self.penalty.value(θ)

    def value_at_zero(self) -> float:
        """Return F(0), which many models know without a look at the data."""
        loss = self.blocks.total(self.model.loss_at_zero)
        if loss is None:
            return self.value(np.zeros(self.size))
        at_zero = 0.0 if self.penalty.prior is not None else self.penalty.value(np.zeros(self.size))
        return float(loss) + at_zero

    def value_and_gradient(self, theta: ArrayLike) -> tuple[float, Array]:
        """Return F(θ) and ∇F(θ)."""
        point = self.point(theta, keep=False)
        return point.value, point.gradient

    def point(self, theta: ArrayLike, *, keep: bool = True) -> Point:
        """Return θ with F, ∇F and, if they are worth keeping, the scores there."""
        θ, scores = self._read(theta), None
        self.spend(passes=1)
        if keep and self.keeps_scores:
            (loss, of_loss), scores = self.blocks.run(partial(self.model.evaluate, θ))
        else:
            loss, of_loss = self.blocks.total(partial(self.model.loss_and_gradient, θ))
        return Point(θ, loss + self.penalty.value(θ), self.penalty.slope(θ, of_loss), scores)

    def expand(self, at: ArrayLike | Point, absorb: Form, *, majorizes: bool) -> tuple[Point, Curvature]:
        """Return a point and the curvature there, in some form: of the bound, or of the loss itself.

        The penalty is left out. Where scores are known this is no pass over the data, only what the curvature costs.
        """
        self.spend(curvatures=1)
        theta = at.theta if isinstance(at, Point) else at
        if self.keeps_scores:
            point = at if isinstance(at, Point) and at.scores is not None else self.point(theta)
            rows, curvature = self.model.curvature_rows(self.like), partial(self.model.curvature, absorb, majorizes)
            return point, self.blocks.total_of_large(curvature, rows, self.size**2, point.scores)
        θ = self._read(theta)
        self.spend(passes=1)
        loss, of_loss, Σ = self.blocks.total(partial(self.model.expansion, θ, absorb, majorizes))
        return Point(θ, loss + self.penalty.value(θ), self.penalty.slope(θ, of_loss)), Σ

    def bound(self, theta: ArrayLike, curvature: str | Form = "dense", rank: int = 10) -> QuadraticBound:
        """Return a quadratic that touches F at θ and lies above it everywhere, in one pass.

        ``curvature`` names a form (see :func:`majorant.curvature.form`) or is one.
        """
        point, Σ = self.expand(theta, form(curvature, rank), majorizes=True)
        return QuadraticBound(point.theta, point.value, point.gradient, Σ, self.ridge)

    def hessian(self, theta: ArrayLike) -> tuple[float, Array, Curvature]:
        """Return F(θ), ∇F(θ) and the Hessian of the loss (without the penalty), in one pass."""
        point, H = self.expand(theta, Dense.of, majorizes=False)
        return point.value, point.gradient, H

    def hessian_diagonal(self, at: Point) -> Array:
        """Return the diagonal of the Hessian of the loss, or something like it to scale steps by."""
        return self.blocks.total(self.model.hessian_diagonal, self.scores(at))

    def class_curvature(self, at: Point) -> tuple[Array, Array]:
        """Return the Hessian between classes, Σ_j B_j, and Σ_j w_j x_j², w_j = tr(B_j)/(n − 1)."""
        return self.blocks.total(self.model.class_curvature, self.scores(at))

    def mean_gram(self, at: Point, dtype: Any) -> tuple[Array, Array]:
        """Return Σ_j B_j and Σ_j w_j x_j x_jᵀ, w_j = tr(B_j)/(n − 1): the factors of a Kronecker product."""
        gram = partial(self.model.mean_gram, dtype=dtype)
        rows, columns = self.model.curvature_rows(self.like), self.size // self.model.classes(self.like)
        found: tuple[Array, Array] = self.blocks.total_of_large(gram, rows, columns**2, self.scores(at))
        return found

    def ray(self, start: ArrayLike | Point, direction: ArrayLike, *, unit_step: bool = False) -> Ray:
        """Return F along θ + aδ as a function of the number a: the data are visited once, evaluating it is free.

        From a point whose scores are known that is half a pass. For a chain every evaluation is a pass.

        Parameters
        ----------
        start : array of shape (d,) or Point
        direction : array of shape (d,)
        unit_step : bool
            Whether a = 1 is likely the best there is: then the gradient there is found in the same visit to the data.
        """
        at = start if isinstance(start, Point) else Point(self._read(start), np.nan, np.empty(0))
        return Ray(self, at, self._read(direction), unit_step=unit_step)

    def scores(self, at: Point) -> Cached:
        """Return the scores of a point, or how they are found again if they are too many to be kept."""
        return Recompute(partial(self.model.scores, at.theta)) if at.scores is None else at.scores

    # --- how far from the optimum -------------------------------------------------------------------------

    def gap(self, theta: ArrayLike, value: float, gradient: Array, reach: float = 0.0) -> float:
        """Return a bound on (F(θ) − F*) / F(θ), rounding errors included.

        NaN where there is none: a parameter is unpenalised, or the loss is not convex.

        F is strongly convex in the norm of the penalty, so F(θ) − F* ≤ ½ Σ_i g_i²/λ_i. Losses are
        non-negative, so F* ≥ 0 and the gap never exceeds one. Rounding errors are those at θ, or at parameters as large
        as ``reach``, if scores were added up from there.
        """
        if not (self.penalty.everywhere and self.convex):
            return float("nan")
        θ = self._read(theta)
        length = norm(θ)
        larger = θ * (reach / length) if reach > length > 0 else θ
        return bounded_gap(self, Point(θ, value, gradient), self.epsilon, larger)

    def estimated_gap(self, at: Point) -> float:
        """Return what a certificate would say without rounding, if F were at its least along unpenalised parameters."""
        penalty, shares = self.penalty, (1.0, 1.0)
        if not penalty.smooth:
            shares = penalty.shares(at.theta, at.gradient, np.zeros(self.size))

        def excess(share: float) -> float:  # what is mixed has an entropy of its own, to first order
            return (1.0 - share) ** 2 * at.value + penalty.excess(at.theta, at.gradient, share=share)

        return ratio(min(map(excess, shares)), at.value)

    def metric(self, at: Point) -> Array:
        """Return the diagonal of a curvature of F that is never negative, to measure gradients by."""
        return np.maximum(self.hessian_diagonal(at), 0.0) + self.ridge

    def predicted_decrease(self, point: Point, metric: Array | None = None) -> float:
        """Return ½ Σ_i g_i²/m_i relative to F, with m the :meth:`metric`: what a step may gain, about.

        It certifies nothing: of a loss that is not convex it says how nearly stationary a point is.
        """
        m, g = self.metric(point) if metric is None else metric, np.abs(point.gradient)
        slope = np.divide(g, np.sqrt(m), out=np.where(g == 0, 0.0, np.inf), where=m > 0)
        with np.errstate(over="ignore"):
            decrease = 0.5 * float(slope @ slope)
        return ratio(decrease, point.value) if isfinite(decrease) else 1.0

    def first_params(self, seed: int = 0) -> Array:
        """Return where to begin if nobody says: zero, or of a latent model a point drawn at random."""
        return self.model.first_params(self.like, seed)

    def certify(self, at: ArrayLike | Point, *, move: bool = True, largest: int = certificates.LARGEST) -> Certificate:
        """Return a point at least as good as θ, and a bound on how far from the optimum it is: the best that is known.

        With every parameter penalised that is θ and its :meth:`gap`. With a free intercept (the constant column of
        ``Labelled``) F is first minimised along it; then strong convexity in the rest gives the same bound. Of few
        parameters a Hessian gives a tighter one, which needs no penalty, and says where the optimum is. Data in single
        precision are multiplied in double precision here, and θ is rounded to what they are fitted in.

        Parameters
        ----------
        at : array of shape (d,) or Point
            θ; a point whose scores are known saves half a pass.
        move : bool
            False keeps θ as it is, and counts what its intercept loses.
        largest : int
            No Hessian is found of more parameters than this; 0 for none at all.
        """
        point = at if isinstance(at, Point) else Point(self._read(at), np.nan, np.empty(0))
        found = certificates.by_strong_convexity(self, point, move=move)
        if not certificates.suits(self, largest):
            return found
        if point.scores is None or not np.array_equal(found.theta, point.theta):
            point = Point(found.theta, found.value, found.gradient)
        return certificates.better(found, certificates.by_self_concordance(self, point))

    def with_best_intercept(self, theta: ArrayLike) -> Array:
        """Return θ with its free intercept, if there is one, moved to where F is least."""
        θ = self._read(theta)
        if self.intercept is None:
            return θ
        self.spend(passes=0.5)
        find = partial(self.model.scores, θ)
        scores = self.blocks.map(find) if self.keeps_scores else Recompute(find)
        return with_intercepts(θ, profile_intercept(self.intercept, self.blocks, scores, self.class_totals).moved)

    def with_likely_intercept(self, theta: Array) -> Array:
        """Return θ, or, if that is zero, free intercepts that make every class as likely as it was observed."""
        likely = None if theta.any() else self.likely_intercept
        return theta if likely is None else with_intercepts(theta, likely)

    def rounding(self, theta: Array, value: float) -> float:
        """Return about how large the rounding errors of F(θ) are, in the precision of the data."""
        least, sizes = (1e-6 if self.narrow else 1e-14) * abs(value), self.magnitudes
        if sizes is None:
            return least
        # Errors of rows are independent: what is found for all together shrinks by the root of their number.
        of_one = SAFETY / sqrt(sizes.rows)
        coarse = of_one * sizes.at_most(theta, self.epsilon)[0]
        if coarse <= 1e-9 * abs(value):  # smaller errors need not be known better
            return max(least, coarse)
        return max(least, of_one * self.magnitudes_by_column.of_loss(as_array(theta), self.epsilon))

    def separated(self, theta: ArrayLike) -> bool:
        """Return whether the unpenalised part of θ separates the data completely: then F has no minimum."""
        free = np.where(self.penalty.penalised, 0.0, self._read(theta))
        return 0 < self.blocks.total(partial(least, partial(self.model.least_margin, free))).value < np.inf

    def same_scores(self, a: Point, b: Point) -> bool:
        """Return whether the scores of two points are the same, row by row."""
        if a.scores is None or b.scores is None:
            return a.scores is b.scores
        return self.blocks.fits(a.scores) and self.blocks.total(differ, a.scores, b.scores) == 0

    # --- facts about model and data -----------------------------------------------------------------------

    @shared
    def _survey(self) -> tuple[Any, ...]:
        """Facts that take a visit to all rows, found in one: they have to be read, or workers to be asked."""
        totals = self.intercept is not None and self.blocks.delay > 0  # for workers labels are no nearer than rows
        return self.blocks.total(partial(survey, self.model, totals))

    @shared
    def convex(self) -> bool:
        """Whether F is convex."""
        found = self._survey[0] if self.whole is None else self.blocks.total(partial(least, self.model.convex))
        return bool(found.value > 0)

    @shared
    def certifiable(self) -> bool:
        """Whether a dual objective bounds F − F*, whatever θ is: all but an intercept is penalised."""
        penalty = self.penalty
        bounded = penalty.coercive and (self.intercept is not None or bool(penalty.penalised.all()))
        return (penalty.everywhere or bounded) and self.convex

    @shared
    def may_be_unbounded(self) -> bool:
        """Whether F may have no minimum. Free intercepts have one as soon as two classes were observed."""
        if self.intercept is None:
            return not self.penalty.penalised.all()
        return int((self.class_totals > 0).sum()) < 2

    @shared
    def pattern(self) -> Pattern | None:
        """Blocks of parameters that never meet in an outcome, if there are such and the rows are here."""
        return None if self.whole is None else self.model.pattern(self.whole)

    @shared
    def class_totals(self) -> Array:
        """How much of each class was observed, of a model with a free intercept."""
        assert self.intercept is not None
        return self._survey[2] if self.blocks.delay else self.blocks.total(self.intercept.class_totals)

    @shared
    def likely_intercept(self) -> Array | None:
        """Free intercepts that make every class as likely as it was observed, where coefficients are zero."""
        return None if self.intercept is None else self.intercept.likely_intercepts(self.class_totals, self.like)

    @shared
    def magnitudes(self) -> Magnitudes | None:
        """How large the numbers are that a gradient is summed from."""
        return self._survey[1] if self.whole is None else self.blocks.total(self.model.magnitudes)

    @shared
    def magnitudes_by_column(self) -> Magnitudes:
        """The same, columns apart."""
        assert self.magnitudes is not None
        if self.magnitudes.columns is not None:
            return self.magnitudes
        return replace(self.magnitudes, columns=np.sqrt(self.blocks.total(self.model.column_squares)))

    @shared
    def small_blocks(self) -> Blocks:
        """Blocks that can be widened to double precision one at a time; the blocks themselves if they are in it."""
        if not (self.narrow and self.model.has_rows):
            return self.blocks
        width = self.model.as_rows().design(self.like).shape[1]
        return self.reducer.spread(self.data, max(2**22 // width, 1))  # 32 MB each

    # --- other objectives ---------------------------------------------------------------------------------

    def sampled(self, rows: int, seed: int) -> Objective:
        """Return the objective of some rows drawn at random, with as much of the penalty."""
        sample = self.data.sample(rows, seed)
        return Objective(self.model, sample, ridge=self.penalty.scaled(len(sample) / self.rows), reducer=self.reducer)

    def narrowed(self) -> Objective | None:
        """Return the objective of the same data in single precision, if they are in memory and not in it yet."""
        narrow = self.data.narrowed()
        if narrow is self.data:
            return None
        return Objective(self.model, narrow, ridge=self.penalty, reducer=self.reducer.of_steps())

    def with_ridge(self, ridge: float | ArrayLike | Penalty) -> Objective:
        """Return the objective of the same model and data with another penalty; what is known of the data is kept."""
        other, before, penalty = self.with_ledger(), self.penalty, read_penalty(ridge, self.size)
        same = np.array_equal(penalty.penalised, before.penalised)
        if not (same and np.array_equal(penalty.strength > 0, before.strength > 0)):
            for name in self._known:
                vars(other).pop(name, None)
            other._known = {}
        other._penalise(penalty)
        return other

    def with_ledger(self) -> Objective:
        """Return the same objective with an account of its own: what one spends, the other does not."""
        other = object.__new__(type(self))
        vars(other).update(vars(self), work=Work())  # ``copy`` takes ten times as long
        return other

    def spend(self, *, passes: float = 0.0, curvatures: int = 0) -> None:
        """Put down what was spent."""
        self.work.passes += passes
        self.work.curvatures += curvatures

    def _read(self, theta: ArrayLike) -> Array:
        """Return the parameters, the same array if they are one: states know their points by it."""
        θ: Array = self.blocks.parameters(theta)
        if θ.shape != (self.size,):
            raise ValueError(f"parameters must have shape ({self.size},), got {θ.shape}")
        return θ


def survey(model: Model[Any], totals: bool, block: Any) -> tuple[Any, ...]:
    """Return whether the loss is convex, magnitudes, and class totals, if they are wanted."""
    found = least(model.convex, block), model.magnitudes(block)
    return (*found, model.class_totals(block)) if totals else found  # type: ignore[attr-defined]


@labels_only
def differ(a: Array | None, b: Array | None, block: Any) -> int:
    """Return whether scores of a block differ, as a number above zero."""
    if a is None or b is None:
        return int(a is not b)
    return int(a.shape != b.shape or bool((abs(a - b) > 1e-9 * (1 + abs(b))).any()))

"""F(θ) = loss of a model on data + ½ Σ_i λ_i θ_i²: all a solver ever sees."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from majorant._bound import QuadraticBound
from majorant._checks import Array
from majorant._profile import profile_intercept
from majorant._ray import DirectRay, Point, Ray
from majorant._ridge import Ridge
from majorant._rounding import SAFETY, Magnitudes
from majorant.curvature import Curvature, Factors, Form, form
from majorant.models import Model, RowModel
from majorant.models.class_space import ClassModel

EPSILON = float(np.finfo(np.float64).eps)
# Data in single precision are widened so many scalars at a time.
WIDENED = 2**22
# A coarse bound on rounding errors is good enough if it makes a gap so much larger.
NEGLIGIBLE = 1.01
# Nor need rounding errors of F be known better that are so small a share of it.
HARMLESS = 1e-9


@dataclass
class Work:
    """What has been spent: passes over the data, and curvatures evaluated.

    A pass multiplies the data twice, for scores and for a gradient; one product alone is half a pass.
    """

    passes: float = 0.0
    curvatures: int = 0


@dataclass(frozen=True, eq=False)
class Certificate:
    """A point, F and ∇F there, and a bound on (F − F*)/F."""

    theta: Array
    value: float
    gradient: Array
    gap: float


class Objective:
    """A model, its data and a ridge penalty.

    Parameters
    ----------
    model : Model
        ``Multinomial``, ``Binary``, ``Enumerated`` or ``Chain``.
    data : Labelled, Choices or Sequences
        What the model reads.
    ridge : float or array of shape (d,)
        λ ≥ 0, one for all parameters or one for each. scikit-learn's C is 1/λ (see ``majorant.models.base``).
    threads : int
        How many blocks of the data are worked on at a time.

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

    def __init__(self, model: Model[Any], data: Any, *, ridge: float | ArrayLike, threads: int = 1) -> None:
        if not isinstance(model, Model):
            raise TypeError(f"model must be a model such as Multinomial(3) or Binary(), got {model!r}")
        model.check(data)
        self.model = model
        self.data = data
        self.size = model.n_parameters(data)
        self.penalty = Ridge(ridge, self.size)
        self.ridge = self.penalty.values
        self.convex = model.convex(data)
        self.blocks = list(data.blocks(model.block_rows(data)))
        self.work = Work()
        self._workers = ThreadPoolExecutor(threads) if threads > 1 and len(self.blocks) > 1 else None

    def on_blocks(self, function: Callable[..., Any], *each: Iterable[Any]) -> list[Any]:
        """Return the function of every block, and of what belongs to it, found side by side where there are threads."""
        return list((self._workers.map if self._workers else map)(function, self.blocks, *each))

    def value(self, theta: ArrayLike) -> float:
        """Return F(θ)."""
        θ = self._read(theta)
        self.work.passes += 0.5
        losses = self.on_blocks(lambda block: self.model.loss(self.model.scores(θ, block), block))
        return float(sum(losses)) + 0.5 * self.penalty.inner(θ, θ)

    def value_and_gradient(self, theta: ArrayLike) -> tuple[float, Array]:
        """Return F(θ) and ∇F(θ)."""
        point = self.point(theta)
        return point.value, point.gradient

    def point(self, theta: ArrayLike) -> Point:
        """Return θ with F, ∇F and, if they are worth keeping, the scores there."""
        θ = self._read(theta)
        self.work.passes += 1
        if not isinstance(self.model, RowModel):
            return self._point_without_scores(θ)
        value, gradient, scores = 0.5 * self.penalty.inner(θ, θ), self.ridge * θ, []
        for S, loss, part in self.on_blocks(lambda block: self._expand_scores(θ, block)):
            value += loss
            gradient += part
            scores.append(S)
        return Point(θ, value, gradient, scores)

    def _point_without_scores(self, θ: Array) -> Point:
        value, gradient = 0.5 * self.penalty.inner(θ, θ), self.ridge * θ
        for loss, part in self.on_blocks(lambda block: self.model.loss_and_gradient(θ, block)):
            value += loss
            gradient += part
        return Point(θ, value, gradient, [])

    def _expand_scores(self, θ: Array, block: Any) -> tuple[Array, float, Array]:
        scores = self.model.scores(θ, block)
        loss, residual = self.model.loss_and_residual(scores, block)
        return scores, loss, self.model.lift(residual, block)

    def bound(self, theta: ArrayLike, curvature: str | Form = "dense", rank: int = 10) -> QuadraticBound:
        """Return a quadratic that touches F at θ and lies above it everywhere, in one pass.

        ``curvature`` names a form (see :func:`majorant.curvature.form`) or is one.
        """
        θ = self._read(theta)
        value, gradient, Σ = self._expand(θ, self.model.bound_factors, form(curvature, rank))
        return QuadraticBound(θ, value, gradient, Σ, self.ridge)

    def hessian(self, theta: ArrayLike) -> tuple[float, Array, Curvature]:
        """Return F(θ), ∇F(θ) and the Hessian of the loss (without the ridge), in one pass."""
        return self._expand(self._read(theta), self.row_model.hessian_factors, form("dense"))

    def ray(self, theta: ArrayLike, direction: ArrayLike, scores: list[Array] | None = None) -> Ray | DirectRay:
        """Return F along θ + aδ as a function of the number a: the data are visited once, evaluating it is free.

        ``scores`` are those of θ, if they are known. For a chain every evaluation is a pass.
        """
        if not isinstance(self.model, RowModel):
            return DirectRay(self, self._read(theta), self._read(direction))
        return Ray(self, self._read(theta), self._read(direction), scores)

    def gap(self, theta: ArrayLike, value: float, gradient: Array) -> float:
        """Return a bound on (F(θ) − F*) / F(θ), rounding errors included.

        NaN where there is none: a parameter is unpenalised, or the loss is not convex.

        F is strongly convex in the norm of the ridge, so F(θ) − F* ≤ ½ Σ_i g_i²/λ_i. Losses are
        non-negative, so F* ≥ 0 and the gap never exceeds one.
        """
        if not (self.penalty.everywhere and self.convex):
            return float("nan")
        return self._bounded_gap(self._read(theta), value, gradient, self.epsilon)

    def estimated_gap(self, value: float, gradient: Array) -> float:
        """Return what :meth:`gap` would be without rounding, if F were at its least along unpenalised parameters."""
        return _share(0.5 * self.penalty.dual_square(gradient), value)

    def certify(self, theta: ArrayLike, *, move: bool = True) -> Certificate:
        """Return a point at least as good as θ, and a bound on how far from the optimum it is.

        With every parameter penalised that is θ and its :meth:`gap`. With a free intercept (the constant column of
        ``Labelled``) F is first minimised along it; then strong convexity in the rest gives the same bound. Data in
        single precision are multiplied in double precision here, and θ is rounded to what they are fitted in.

        Parameters
        ----------
        theta : array of shape (d,)
        move : bool
            False keeps θ as it is, and counts what its intercept loses.
        """
        θ = self._read(theta)
        if not self.certifiable:
            value, gradient = self.value_and_gradient(θ)
            return Certificate(θ, value, gradient, float("nan"))
        θ = θ.astype(self.model.precision(self.data)).astype(np.float64)
        if not self.free_intercept:
            value, gradient = self._precisely(θ)
            return Certificate(θ, value, gradient, self._bounded_gap(θ, value, gradient, EPSILON))
        return self._certify_profiled(θ, move)

    def with_best_intercept(self, theta: ArrayLike) -> Array:
        """Return θ with its free intercept, if there is one, moved to where F is least."""
        θ = self._read(theta)
        if not self.free_intercept:
            return θ
        self.work.passes += 0.5
        scores = [self.model.scores(θ, block) for block in self.blocks]
        return _moved(θ, profile_intercept(cast(ClassModel, self.model), self.blocks, scores).moved)

    def _certify_profiled(self, θ: Array, move: bool) -> Certificate:
        self.work.passes += 1
        model, blocks = cast(ClassModel, self.model), self._precise_blocks()
        scores = [model.scores(θ, self._widened(block)) for block in blocks]
        best = profile_intercept(model, blocks, scores)
        there, penalty = _moved(θ, best.moved), 0.5 * self.penalty.inner(θ, θ)
        value, gradient = best.loss + penalty, self.ridge * there
        for residual, block in zip(best.residuals, blocks, strict=True):
            gradient += model.lift(residual, self._widened(block))
        if np.isinf(best.decrease):
            return Certificate(there, value, gradient, float("nan"))
        # Scores were found at θ, and moved: rounding errors are those of the larger of both.
        larger = np.maximum(np.abs(θ), np.abs(there))
        decrease = best.decrease + self._lost_to_the_centre(there)
        sizes = self._magnitudes
        assert sizes is not None
        # Errors of scores move the best intercept, and that the residuals once more.
        stirred = best.stirred + best.passed_on * sizes.of_residuals(larger, EPSILON)
        gap = self._bounded_gap(larger, value, gradient, EPSILON, decrease, stirred)
        if move:
            return Certificate(there, value, gradient, gap)
        here = sum(model.loss(S, block) for S, block in zip(scores, blocks, strict=True)) + penalty
        off = sizes.of_loss(larger, EPSILON)
        return Certificate(θ, here, gradient, _share(max(here - value, 0.0) + 2 * off + gap * value, here - off))

    def _lost_to_the_centre(self, θ: Array) -> float:
        """Return how much F may rise when the intercept of centred columns is rounded to one of columns as they are."""
        if self.data.centre is None:
            return 0.0
        W = np.abs(θ).reshape(-1, self.data.n_features)
        off = SAFETY * sqrt(self.data.n_features) * EPSILON * (W[:, :-1] @ np.abs(self.data.centre) + W[:, -1])
        weight = len(self.data) if self.data.weight is None else self.data.weight.sum()
        return 0.25 * float(weight * (off @ off))

    def _bounded_gap(
        self, θ: Array, value: float, gradient: Array, epsilon: float, decrease: float = 0.0, stirred: float = 0.0
    ) -> float:
        """Return the gap with what rounding may hide, and what a free intercept may still gain and stir up."""
        plain, sizes = self.penalty.dual_square(gradient), self._magnitudes
        if sizes is None or 0.5 * plain >= value:
            return _share(0.5 * plain, value)
        classes = self.size // sizes.shape[1]
        of_loss, hidden = sizes.at_most(float(np.linalg.norm(θ)), classes, epsilon, stirred)
        root = sqrt(plain) + hidden / sqrt(self.penalty.least)
        coarse = root * root  # infinite where a power would raise
        if coarse <= NEGLIGIBLE * plain and of_loss <= (NEGLIGIBLE - 1) * value:
            return _share(decrease + 0.5 * coarse, value - of_loss)
        exactly = np.abs(gradient) + sizes.of_gradient(θ, epsilon, stirred) + 2 * epsilon * np.abs(self.ridge * θ)
        return _share(decrease + 0.5 * self.penalty.dual_square(exactly), value - sizes.of_loss(θ, epsilon))

    @cached_property
    def _magnitudes(self) -> Magnitudes | None:
        return self.model.magnitudes(self.data)

    def _precisely(self, θ: Array) -> tuple[float, Array]:
        """Return F and ∇F, found in double precision whatever that of the data."""
        self.work.passes += 1
        value, gradient = 0.5 * self.penalty.inner(θ, θ), self.ridge * θ
        for block in self._precise_blocks():
            loss, part = self.model.loss_and_gradient(θ, self._widened(block))
            value, gradient = value + loss, gradient + part
        return value, gradient

    def _precise_blocks(self) -> list[Any]:
        """Return blocks that can be widened one at a time."""
        return list(self.data.blocks(max(WIDENED // self.data.n_features, 1))) if self.narrow else self.blocks

    def _widened(self, block: Any) -> Any:
        return block.widened() if self.narrow else block

    @property
    def row_model(self) -> RowModel[Any]:
        """The model, for solvers that look inside rows; an error if it is one that cannot be looked into."""
        if isinstance(self.model, RowModel):
            return self.model
        raise TypeError(
            f"this needs outcomes that can be written out, which {type(self.model).__name__} has too many of; "
            "use QuasiNewton, BatchMajorization, LBFGS or OnlineMajorization"
        )

    @property
    def free_intercept(self) -> bool:
        """Whether what is unpenalised is the coefficient of the constant column, and nothing else."""
        if not isinstance(self.model, ClassModel) or not self.data.constant:
            return False
        penalised = (self.ridge > 0).reshape(self.model.coefficient_rows, -1)
        return bool(penalised[:, :-1].all() and not penalised[:, -1].any())

    @property
    def certifiable(self) -> bool:
        """Whether :meth:`certify` can bound the distance to the optimum."""
        return self.convex and (self.penalty.everywhere or self.free_intercept)

    @property
    def narrow(self) -> bool:
        """Whether the data are multiplied in single precision."""
        return bool(self.model.precision(self.data) != np.float64)

    @property
    def epsilon(self) -> float:
        """Rounding error of a product, in the precision of the data."""
        return float(np.finfo(self.model.precision(self.data)).eps)

    def rounding(self, theta: Array, value: float) -> float:
        """Return about how large the rounding errors of F(θ) are, in the precision of the data."""
        least, sizes = (1e-6 if self.narrow else 1e-14) * abs(value), self._magnitudes
        if sizes is None:
            return least
        # Errors of rows are independent: what is found for all together shrinks by the root of their number.
        share = SAFETY / sqrt(sizes.shape[0])
        coarse = share * sizes.at_most(float(np.linalg.norm(theta)), self.size // sizes.shape[1], self.epsilon)[0]
        fine = coarse if coarse <= HARMLESS * abs(value) else share * sizes.of_loss(theta, self.epsilon)
        return max(least, fine)

    def separated(self, theta: ArrayLike) -> bool:
        """Return whether the unpenalised part of θ separates the data completely: then F has no minimum."""
        if not isinstance(self.model, RowModel):
            return False
        free = np.where(self.ridge > 0, 0.0, self._read(theta))
        least = min(self._least_margin(free, block) for block in self.blocks)
        return 0 < least < np.inf

    def _expand(
        self, θ: Array, factors: Callable[[Array, Any], Factors], absorb: Form
    ) -> tuple[float, Array, Curvature]:
        self.work.passes += 1
        self.work.curvatures += 1
        value, gradient, Σ = 0.5 * self.penalty.inner(θ, θ), self.ridge * θ, None
        for block in self.blocks:
            scores, loss, slope = self._expand_scores(θ, block)
            value += loss
            gradient += slope
            part = absorb(factors(scores, block))
            Σ = part if Σ is None else Σ + part
        assert Σ is not None
        return value, gradient, Σ

    def _least_margin(self, θ: Array, block: Any) -> float:
        potentials = self.row_model.potentials(θ, block)
        scores = self.model.add_measure(potentials, block)
        # log h moves scores but not their slopes along θ: only potentials count, of outcomes that can happen.
        margins = self.row_model.margins(np.where(np.isneginf(scores), -np.inf, potentials), block)
        if block.weight is not None:
            margins = margins[block.weight > 0]
        return float(margins.min(initial=np.inf))

    def _read(self, theta: ArrayLike) -> Array:
        θ = np.asarray(theta, dtype=np.float64)
        if θ.shape != (self.size,):
            raise ValueError(f"parameters must have shape ({self.size},), got {θ.shape}")
        return θ


def _moved(θ: Array, intercepts: Array) -> Array:
    W = θ.reshape(len(intercepts), -1).copy()
    W[:, -1] += intercepts
    return W.ravel()


def _share(excess: float, value: float) -> float:
    """Return excess/value, at most one; losses are not negative, but for rounding."""
    if excess <= 0:
        return 0.0
    return float(min(excess / value, 1.0)) if value > 0 else 1.0

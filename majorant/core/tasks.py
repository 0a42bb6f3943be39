"""What is done with each block of rows: one pass over the data each, or less where scores were kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from majorant.core.checks import Array
from majorant.core.curvature import Curvature, Factors, Form
from majorant.core.model import Leapt, Model
from majorant.core.rounding import Spreads
from majorant.core.rows import Least, Most, Task


class Scored(NamedTuple):
    """What is kept on the way along a ray."""

    scores: Array
    residual: Array


@dataclass(frozen=True, eq=False)
class Loss:
    """The loss at θ."""

    model: Model[Any]
    theta: Array

    def __call__(self, block: Any) -> tuple[float, None]:
        """Return it."""
        return self.model.loss(self.model.scores(self.theta, block), block), None


@dataclass(frozen=True, eq=False)
class LossAtZero:
    """The loss of parameters of zero, which many models know without looking at the data."""

    model: Model[Any]

    @property
    def reads_rows(self) -> bool:
        """Whether the model is not known to know it."""
        return type(self.model).loss_at_zero is Model.loss_at_zero

    def __call__(self, block: Any) -> tuple[tuple[float, int], None]:
        """Return it, and how many rows had to be looked at."""
        known = self.model.loss_at_zero(block)
        if known is not None:
            return (known, 0), None
        zero = np.zeros(self.model.n_parameters(block))
        return (self.model.loss(self.model.scores(zero, block), block), len(block)), None


@dataclass(frozen=True, eq=False)
class LossAndGradient:
    """Loss and gradient at θ; scores are kept if they are wanted."""

    model: Model[Any]
    theta: Array
    keep: bool

    @property
    def gives_away(self) -> bool:
        """Whether nobody else has the gradients."""
        return self.model.gives_gradients_away

    def __call__(self, block: Any) -> tuple[tuple[float, Array], Array | None]:
        """Return them."""
        if not self.keep:
            return self.model.loss_and_gradient(self.theta, block), None
        loss, gradient, scores = self.model.look(self.theta, block)
        return (loss, gradient), scores


@dataclass(frozen=True, eq=False)
class Scores:
    """The scores at θ, which are kept."""

    model: Model[Any]
    theta: Array

    def __call__(self, block: Any) -> tuple[None, Array]:
        """Keep them."""
        return None, self.model.scores(self.theta, block)


@dataclass(frozen=True, eq=False)
class Potentials:
    """How scores change along a direction, which is kept."""

    model: Model[Any]
    direction: Array

    def __call__(self, block: Any) -> tuple[None, Array]:
        """Keep them."""
        return None, self.model.potentials(self.direction, block)


@dataclass(frozen=True, eq=False)
class Along:
    """Loss and slope at a point of a ray, from scores S and their changes V."""

    reads_rows: ClassVar[bool] = False

    model: Model[Any]
    a: float

    def __call__(self, block: Any, S: Array, V: Array) -> tuple[tuple[float, float], Scored]:
        """Return them, and keep scores and residuals there."""
        scores = self.model.along(S, V, self.a)
        loss, residual = self.model.loss_and_residual(scores, block)
        return (loss, self.model.inner(residual, V)), Scored(scores, residual)


@dataclass(frozen=True, eq=False)
class Leap:
    """Loss, slope and gradient one whole step along a direction, from the scores S before it: one visit to the rows."""

    model: Model[Any]
    direction: Array

    def __call__(self, block: Any, S: Array) -> tuple[tuple[float, float, Array], Leapt]:
        """Return them, and keep the scores there and their changes."""
        loss, slope, gradient, leapt = self.model.leap(self.direction, S, block)
        return (loss, slope, gradient), leapt


class ScoresOf:
    """The scores of a step that was made whole, which are kept alone."""

    reads_rows: ClassVar[bool] = False

    def __call__(self, block: Any, leapt: Leapt) -> tuple[None, Array]:
        """Keep them."""
        return None, leapt.scores


class SlopesOf:
    """How scores have changed along such a step, which is kept alone."""

    reads_rows: ClassVar[bool] = False

    def __call__(self, block: Any, leapt: Leapt) -> tuple[None, Array]:
        """Keep it."""
        return None, leapt.slopes


@dataclass(frozen=True, eq=False)
class Land:
    """The gradient at θ, where scores and residuals have been found; scores are kept."""

    model: Model[Any]
    theta: Array

    @property
    def anew(self) -> Task:
        """How the scores are found of θ."""
        return Scores(self.model, self.theta)

    def __call__(self, block: Any, there: Scored) -> tuple[Array, Array]:
        """Return it."""
        return self.model.lift(there.residual, block), there.scores


@dataclass(frozen=True, eq=False)
class Lift:
    """The gradient that residuals make."""

    model: Model[Any]

    def __call__(self, block: Any, residual: Array) -> tuple[Array, None]:
        """Return it."""
        return self.model.lift(residual, block), None


@dataclass(frozen=True, eq=False)
class Curve:
    """The curvature of the bound or of the loss itself, in some form, at scores that were kept."""

    model: Model[Any]
    majorizes: bool
    absorb: Form

    def __call__(self, block: Any, scores: Array) -> tuple[Curvature, None]:
        """Return it."""
        return self.absorb(self._factors(scores, block)), None

    def _factors(self, scores: Array, block: Any) -> Factors:
        if self.majorizes:
            return self.model.bound_factors(scores, block)
        return self.model.as_rows().hessian_factors(scores, block)


@dataclass(frozen=True, eq=False)
class Expand:
    """Loss, gradient and curvature at θ, in one pass, where scores are too many to be kept."""

    theta: Array
    curve: Curve

    def __call__(self, block: Any) -> tuple[tuple[float, Array, Curvature], None]:
        """Return them."""
        model = self.curve.model
        scores = model.scores(self.theta, block)
        loss, residual = model.loss_and_residual(scores, block)
        return (loss, model.lift(residual, block), self.curve(block, scores)[0]), None


@dataclass(frozen=True, eq=False)
class Bending:
    """What products with a Hessian need of scores, which is kept."""

    reads_rows: ClassVar[bool] = False

    model: Model[Any]

    def __call__(self, block: Any, scores: Array) -> tuple[None, Array]:
        """Keep it."""
        return None, self.model.bending(scores, block)


@dataclass(frozen=True, eq=False)
class HessianTimes:
    """The Hessian times a direction, from what was kept of scores."""

    model: Model[Any]
    direction: Array

    def __call__(self, block: Any, bending: Array) -> tuple[Array, None]:
        """Return it."""
        return self.model.hessian_product(self.direction, bending, block), None


@dataclass(frozen=True, eq=False)
class HessianDiagonal:
    """The diagonal of the Hessian at θ, or at scores that were kept there."""

    model: Model[Any]
    theta: Array

    def __call__(self, block: Any, scores: Array | None = None) -> tuple[Array, None]:
        """Return it."""
        at = self.model.scores(self.theta, block) if scores is None else scores
        return self.model.hessian_diagonal(at, block), None


@dataclass(frozen=True, eq=False)
class ClassCurvature:
    """The Hessian between classes, Σ_j B_j, and the squares of columns, Σ_j w_j x_j²."""

    model: Model[Any]

    def __call__(self, block: Any, scores: Array) -> tuple[tuple[Array, Array], None]:
        """Return them."""
        return self.model.class_curvature(scores, block), None


@dataclass(frozen=True, eq=False)
class MeanGram:
    """Σ_j B_j and Σ_j w_j x_j x_jᵀ at θ, and what labels add."""

    model: Model[Any]
    theta: Array
    dtype: Any
    labels: bool

    def __call__(self, block: Any, scores: Array | None = None) -> tuple[tuple[Array, ...], None]:
        """Return them."""
        known = self.model.scores(self.theta, block) if scores is None else scores
        return self.model.mean_gram(known, block, self.dtype, labels=self.labels), None


@dataclass(frozen=True, eq=False)
class LeastMargin:
    """By how much θ favours what was observed, at least."""

    model: Model[Any]
    theta: Array

    def __call__(self, block: Any) -> tuple[Least, None]:
        """Return it."""
        return Least(self.model.least_margin(self.theta, block)), None


@dataclass(frozen=True, eq=False)
class Spread:
    """How far apart outcomes of a row are, at most."""

    spreads: Spreads
    exactly: bool

    def __call__(self, block: Any) -> tuple[Most, None]:
        """Return it."""
        return Most(self.spreads.exact(block) if self.exactly else self.spreads.coarse(block)), None


@dataclass(frozen=True, eq=False)
class Convexity:
    """Whether the loss is convex, as a number above zero."""

    model: Model[Any]

    def __call__(self, block: Any) -> tuple[Least, None]:
        """Return it."""
        return Least(float(self.model.convex(block))), None


@dataclass(frozen=True, eq=False)
class SizeOf:
    """How large the numbers are that a gradient is summed from."""

    model: Model[Any]

    def __call__(self, block: Any) -> tuple[Any, None]:
        """Return the magnitudes."""
        return self.model.magnitudes(block), None


@dataclass(frozen=True, eq=False)
class ColumnSquares:
    """The same, column by column."""

    model: Model[Any]

    def __call__(self, block: Any) -> tuple[Array, None]:
        """Return the squares."""
        return self.model.column_squares(block), None


@dataclass(frozen=True, eq=False)
class Unlike:
    """Whether scores differ, as a number above zero."""

    reads_rows: ClassVar[bool] = False

    def __call__(self, block: Any, a: Array | None, b: Array | None) -> tuple[int, None]:
        """Return it."""
        if a is None or b is None:
            return int(a is not b), None
        return int(a.shape != b.shape or bool((abs(a - b) > 1e-9 * (1 + abs(b))).any())), None


@dataclass(frozen=True, eq=False)
class Several:
    """Several tasks that need nothing kept, in one visit to the rows."""

    tasks: tuple[Task, ...]

    def __call__(self, block: Any) -> tuple[tuple[Any, ...], None]:
        """Return what adds up of each."""
        return tuple(task(block)[0] for task in self.tasks), None


@dataclass(frozen=True, eq=False)
class Widened:
    """Another task, on rows in double precision."""

    task: Task

    def __call__(self, block: Any, *kept: Any) -> tuple[Any, Any]:
        """Return what that does."""
        return self.task(block.widened(), *kept)

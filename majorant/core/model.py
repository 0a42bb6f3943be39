"""Log-linear models: what solvers ask of a model, and the conventions of the package.

Conventions
-----------
*Objective.* Solvers minimise, with p_j(y) = h_j(y) exp(θᵀf_j(y)) / Z_j(θ),

    F(θ) = Σ_j w_j [ log Z_j(θ) − log h_j(y_j) − θᵀf_j(y_j) ] + (λ/2)‖θ‖².

The paper maximises J = −F. The loss is a weighted **sum** over rows, never a mean, and λ (``ridge``) is not
multiplied by the number of rows.

*Parameters.* One flat vector θ. For :class:`Multinomial` it is the n×p matrix of coefficients, row by row
(f_x(y) = e_y ⊗ x, so d = np); all n rows are kept, as in the paper. For :class:`Binary` it is one row.

*λ and C.* scikit-learn's ``C`` equals 1/λ, for :class:`Multinomial` with n ≥ 3 and for :class:`Binary`. With
``Multinomial(2)`` the optimum has θ = ±w/2, the penalty is (λ/4)‖w‖², and so C = 2/λ.

*Intercept.* ``Labelled(constant=True)`` adds a last column of ones, which is not stored. Its coefficients are penalised
like any other unless their ``ridge`` is 0; then they are a *free* intercept, which certificates know how to treat.

*Scores* are log-potentials log h_j(y) + θᵀf_j(y), class-major (n×t) or flat over outcomes
(:class:`Enumerated`). *Potentials* are scores without log h: they are linear in θ.

Outcomes with hidden parts: p(y|x) = Σ_m p(y, m|x), of which y was seen and m was not.

With S_j the outcomes that agree with what was observed in row j, the loss is

    Σ_j w_j [ log Σ_k h_j(k) exp(θᵀf_j(k)) − log Σ_{k ∈ S_j} h_j(k) exp(θᵀf_j(k)) ],

a difference of log-partitions, and not convex. With posterior weights q_j(k) ∝ h_j(k) exp(θᵀf_j(k)) on S_j Jensen's
inequality bounds the second from below by a line that touches it at θ; Algorithm 1 bounds the first from above. The sum
touches the loss at θ and lies above it: it is the bound of the same model, had the frequencies q been observed. So the
curvature of a latent model is that of its log Z, in all its forms, and every step of a bound decreases the loss.

References
----------
Jebara & Choromanska, *Majorization for CRFs and latent likelihoods*, NIPS 2012.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, NoReturn, Protocol, TypeVar

import numpy as np
from scipy.special import xlogy

from majorant.core.checks import Array
from majorant.core.curvature import Curvature, Factors, Form
from majorant.core.kernels import partition
from majorant.core.matrix import Design
from majorant.core.rounding import EPSILON, Magnitudes, Spreads
from majorant.core.rows import InMemory, labels_only
from majorant.core.structured import Arrow, Pattern
from majorant.core.threads import empty

if TYPE_CHECKING:
    from majorant.core.class_model import ClassModel, SingleLabelRows

Batch = TypeVar("Batch", bound=InMemory)

# Blocks of data, which threads share; they do not depend on their number, so that sums are the same to the last bit.
BLOCKS = 32
# Nanoseconds of a pass over a block: of shorter ones what is done for each block would count. And nanoseconds for each
# parameter, since gradients of blocks have to be added up.
LEAST_WORK, WORK_PER_PARAMETER = 1e6, 40.0


class Model(ABC, Generic[Batch]):
    """A log-linear model p(y|x) ∝ h(y) exp(θᵀf(x, y)): frozen settings, no data, no parameters.

    Four methods make one: :meth:`n_parameters`, :meth:`potentials`, :meth:`loss_and_residual` and :meth:`lift`. With
    these every solver works that needs nothing but gradients. The others are answers to what solvers may ask: they say
    what a model without the structure in question would say. :class:`RowModel` adds what solvers need that look inside
    a row.

    Batches are in memory; methods that take ``like`` ask how data look, and are shown any block of them.
    """

    # Whether scores are few enough to be kept: then F along a ray is found without the data.
    keeps_scores: ClassVar[bool] = True
    # Whether outcomes can be written out row by row, as solvers want them that look inside rows.
    has_rows: ClassVar[bool] = False

    # --- the four methods that make a model ---------------------------------------------------------------

    @abstractmethod
    def n_parameters(self, like: Batch) -> int:
        """Return d."""

    @abstractmethod
    def potentials(self, theta: Array, batch: Batch) -> Array:
        """Return θᵀf_j(y) for every row and outcome, or the parts that they are sums of: an array linear in θ."""

    @abstractmethod
    def loss_and_residual(self, scores: Array, batch: Batch) -> tuple[float, Array]:
        """Return the loss, which is never negative, and its derivative with respect to the scores.

        That is w_j (p_j(y) − 1[y = y_j]).
        """

    @abstractmethod
    def lift(self, residual: Array, batch: Batch) -> Array:
        """Return Σ_j Σ_y residual_j(y) f_j(y) (d): a derivative on scores becomes one on parameters."""

    # --- the loss and its derivatives ---------------------------------------------------------------------

    def check(self, data: Batch) -> None:
        """Raise if the data do not fit the model."""
        if getattr(data, "offset", None) is not None and type(self).add_measure is Model.add_measure:
            raise ValueError(
                f"{type(self).__name__} has no use for an offset: it does not say how to add one to scores"
            )

    def on_tensors(self) -> Model[Any]:
        """Return the model that does the same where rows are tensors, if there is one."""
        raise TypeError(f"{type(self).__name__} does not work on tensors: give it arrays (X.cpu().numpy())")

    def first_params(self, like: Batch, seed: int) -> Array:
        """Return where a fit begins that is given no start: zero, where symmetry does not make that a saddle."""
        return np.zeros(self.n_parameters(like))

    def add_measure(self, potentials: Array, batch: Batch) -> Array:
        """Return the scores: potentials plus log h_j(y)."""
        return potentials

    def scores(self, theta: Array, batch: Batch) -> Array:
        """Return log h_j(y) + θᵀf_j(y) for every row and outcome."""
        return self.add_measure(self.potentials(theta, batch), batch)

    @labels_only
    def loss(self, scores: Array, batch: Batch) -> float:
        """Return Σ_j w_j [log Z_j − score of what was observed]."""
        return self.loss_and_residual(scores, batch)[0]

    def loss_at(self, theta: Array, batch: Batch) -> float:
        """Return the loss at θ."""
        return self.loss(self.scores(theta, batch), batch)

    @labels_only
    def loss_at_zero(self, batch: Batch) -> float | None:
        """Return the loss of parameters of zero, if that is known without a look at the scores."""
        return None

    def loss_and_gradient(self, theta: Array, batch: Batch) -> tuple[float, Array]:
        """Return the loss and its gradient with respect to θ."""
        return self.evaluate(theta, batch)[0]

    def evaluate(self, theta: Array, batch: Batch) -> tuple[tuple[float, Array], Array]:
        """Return the loss and its gradient with respect to θ, and the scores there."""
        scores = self.add_measure(self.potentials(theta, batch), batch)
        loss, residual = self.loss_and_residual(scores, batch)
        return (loss, self.lift(residual, batch)), scores

    def unit_step(
        self, direction: Array, scores: Array, batch: Batch
    ) -> tuple[tuple[float, float, Array], tuple[Array, Array]]:
        """Return loss, slope and gradient at θ + δ from the scores at θ; and the scores there, and how they changed."""
        slopes = self.potentials(direction, batch)
        there = scores + slopes
        loss, residual = self.loss_and_residual(there, batch)
        return (loss, self.inner(residual, slopes), self.lift(residual, batch)), (there, slopes)

    def along(self, scores: Array, slopes: Array, a: float) -> Array:
        """Return the scores so far along a ray."""
        there = np.multiply(slopes, a, out=empty(slopes.shape))
        there += scores
        return there

    def inner(self, a: Array, b: Array) -> float:
        """Return Σ a b over all rows and outcomes."""
        return float(np.vdot(a, b))

    def convex(self, batch: Batch) -> bool:
        """Return whether the loss is convex in θ: without that nothing can be certified."""
        return True

    def completed(self, theta: Array, batch: Batch) -> tuple[Model[Any], Any]:
        """Return a model and data whose loss is convex, less a constant touches this one at θ, and lies above it.

        Where the loss is convex that is the loss itself.
        """
        return self, batch

    def n_observations(self, batch: Batch) -> int:
        """Return how many :meth:`hits` there are: rows, or tokens."""
        return len(batch)

    def hits(self, scores: Array, batch: Batch) -> Array:
        """Return for each row how much of what was observed is the likeliest outcome: 1 or 0, or a frequency."""
        self._has_no("likeliest outcome")

    # --- its curvature ------------------------------------------------------------------------------------

    def curvature(self, absorb: Form, majorizes: bool, scores: Array, batch: Batch) -> Curvature:
        """Return the curvature of the bound (``majorizes``) or of the loss itself in some form."""
        factors = self.bound_factors if majorizes else self.as_rows().hessian_factors
        return absorb(factors(scores, batch))

    def expansion(self, theta: Array, absorb: Form, majorizes: bool, batch: Batch) -> tuple[float, Array, Curvature]:
        """Return loss, gradient and curvature at θ in one pass, where scores are too many to be kept."""
        (loss, gradient), scores = self.evaluate(theta, batch)
        return loss, gradient, self.curvature(absorb, majorizes, scores, batch)

    def bound_factors(self, scores: Array, batch: Batch) -> Factors:
        """Return the curvature factors of the bound of Algorithm 1."""
        self._has_no("bound")

    def hessian_diagonal(self, scores: Array, batch: Batch) -> Array:
        """Return the diagonal of the Hessian of the loss (d), or something like it to scale steps by."""
        return np.full(self.n_parameters(batch), float(len(batch)))

    def has_products(self, like: Batch) -> bool:
        """Return whether :meth:`hessian_product` is there."""
        return False

    @labels_only
    def hessian_weights(self, scores: Array, batch: Batch) -> Array:
        """Return what products with the Hessian at these scores are found from, probabilities say."""
        self._has_no("products with a Hessian")

    def hessian_product(self, direction: Array, weights: Array, batch: Batch) -> Array:
        """Return the Hessian of the loss times a direction (d), from its :meth:`hessian_weights`: no exponentials."""
        self._has_no("products with a Hessian")

    def design(self, batch: Batch) -> Design | None:
        """Return the matrix that parameters are multiplied by, if there is one."""
        return None

    def preconditioner(self, like: Batch) -> Any:
        """Return the metric of quasi-Newton steps (``core.preconditioners``) that only this model has, if there is."""
        return None

    def redundancy(self, like: Batch) -> int:
        """Return how many equal parts of θ can move together without a change of any probability; 1 if none can."""
        return 1

    def classes(self, like: Batch) -> int:
        """Return n if θ is an n×p matrix and f(x, y) = e_y ⊗ x, which some curvatures need; 0 if not."""
        return 0

    def class_curvature(self, scores: Array, batch: Batch) -> tuple[Array, Array]:
        """Return Σ_j B_j, and Σ_j w_j x_j², with w_j what the classes of a row weigh on average."""
        self._has_no("classes")

    def mean_gram(self, scores: Array, batch: Batch, dtype: Any) -> tuple[Array, Array]:
        """Return Σ_j B_j and Σ_j w_j x_j x_jᵀ, with the same w_j."""
        self._has_no("classes")

    def pattern(self, batch: Batch) -> Pattern | None:
        """Return blocks of parameters that never meet in an outcome, where that makes a Hessian much smaller."""
        return None

    def arrow(self, scores: Array, batch: Batch, pattern: Pattern, *, whole: bool) -> Arrow:
        """Return the Hessian of the loss by such blocks: all of it, which keeps a row for each row, or blocks alone."""
        self._has_no("blocks")

    # --- what certificates ask ----------------------------------------------------------------------------

    def magnitudes(self, batch: Batch) -> Magnitudes | None:
        """Return how large the numbers are that a gradient is summed from; None where they are known to be tame."""
        return None

    def column_squares(self, batch: Batch) -> Array:
        """Return for each column of the design how large its sum of products is before anything cancels, squared."""
        self._has_no("design")

    def least_margin(self, theta: Array, batch: Batch) -> float:
        """Return by how much θ favours what was observed over everything else, at least; −∞ where that is unknown."""
        return -np.inf

    def spreads(self, root: Array, like: Batch) -> Spreads | None:
        """Return how far apart outcomes of a row are in a metric, if the loss has the curvature of log Z and no other.

        A third derivative is then at most that many times the second, which certificates rest on; None if it is not
        known to be. The metric is that of a root R: ‖Rᵀ(f_j(y) − f_j(y'))‖.
        """
        return None

    @labels_only
    def lost_to_the_centre(self, theta: Array, batch: Batch, epsilon: float) -> float:
        """Return how much the loss may rise when an intercept is rounded to one of columns that are not centred."""
        return 0.0

    def with_intercept(self, like: Batch, penalised: Array) -> ClassModel | None:
        """Return the model if what is not penalised of θ is an intercept and nothing else, None if it is not."""
        return None

    @labels_only
    def mixed_entropies(self, shares: Array, scores: Array, batch: Batch) -> Array:
        """Return Σ_j w_j [H(μ_j(s)) − s H(p_j)] for each share s, or less; μ_j(s) = (1 − s) observed + s p_j.

        H is concave, and so zero is no more than that.
        """
        return np.zeros(len(shares))

    # --- its rows -----------------------------------------------------------------------------------------

    def block_rows(self, like: Batch, rows: int) -> int:
        """Return how many rows to work on at a time, out of so many."""
        return max(-(-rows // BLOCKS), 1_000)

    def curvature_rows(self, like: Batch) -> int:
        """Return how many rows to find a matrix of curvature from at a time: enough for adding it up to be the less."""
        return 1_000

    def as_rows(self) -> RowModel[Any]:
        """Return the model as one whose outcomes can be written out, or raise."""
        raise TypeError(
            f"this needs outcomes that can be written out, which {type(self).__name__} has too many of; "
            "use QuasiNewton, BatchMajorization, LBFGS or OnlineMajorization"
        )

    def single_label_rows(self, batch: Batch) -> SingleLabelRows | None:
        """Return the batch as compiled loops over rows want it; None if it does not have that form."""
        return None

    def learns_online(self) -> bool:
        """Return whether :meth:`learn` is there."""
        return False

    def learn(self, data: Batch, theta: Array, precision: Array, order: Array, curvature: str) -> tuple[Array, Array]:
        """Return parameters and a diagonal precision after a step at every row, in order."""
        self._has_no("online pass")

    def ascends(self, data: Any) -> bool:
        """Return whether there is a :meth:`dual_ascent` on these data."""
        return False

    def dual_ascent(self, data: Any, ridge: Array, l1: float) -> DualAscent:
        """Return an ascent of the dual objective that moves one row at a time, at θ = 0."""
        self._has_no("dual ascent")

    def _has_no(self, what: str) -> NoReturn:
        raise TypeError(f"{type(self).__name__} has no {what}")


class RowModel(Model[Batch]):
    """A model whose rows have few enough outcomes to be written out."""

    has_rows: ClassVar[bool] = True
    order: str  # in which the bound visits outcomes
    against_zero: bool = False  # whether a score stands against one of zero that is not written

    @abstractmethod
    def scores_per_row(self, like: Batch) -> int:
        """Return how many scores a row has: classes, 1 for one-row binary, the outcomes of the largest set."""

    @abstractmethod
    def design(self, batch: Batch) -> Design:
        """Return the matrix that parameters are multiplied by."""

    @abstractmethod
    def hessian_factors(self, scores: Array, batch: Batch) -> Factors:
        """Return the curvature factors of the loss itself."""

    @abstractmethod
    def margins(self, scores: Array, batch: Batch) -> Array:
        """Return by how much the observed outcome beats the best other one, for each row."""

    @abstractmethod
    def score_rows(self, batch: Batch) -> Array:
        """Return Φ (scores × d), whose rows are the f_j(y) in the order of the flat scores: potentials = Φθ."""

    @abstractmethod
    def through(self, matrix: Array, batch: Batch) -> Array:
        """Return Φ·matrix for a d×k array, without writing Φ out."""

    @abstractmethod
    def center(self, scores: Array, batch: Batch, V: Array) -> tuple[Array, Array]:
        """Return p and V less its mean under p within each row, for V (scores × k) and flat scores.

        With H the Hessian of the loss on scores, HV = w p ∘ centered, and H = RᵀR with RV = √(wp) ∘ centered.
        """

    @abstractmethod
    def row_slices(self, batch: Batch) -> list[slice]:
        """Return for each row where its scores stand among the flat scores."""

    @abstractmethod
    def targets(self, batch: Batch) -> Array:
        """Return what was observed as flat frequencies, so that the residual is w (p − target)."""

    @abstractmethod
    def score_weights(self, batch: Batch) -> Array:
        """Return the weight of the row of each flat score."""

    def row_target(self, target: Array, scores: Array) -> Array:
        """Return the frequencies of one row, of its :meth:`targets`: of hidden parts, what its scores make of them."""
        return target

    def row_gradients(self, scores: Array, batch: Batch) -> Array:
        """Return the gradient of the loss of each row (t×d), its weight included."""
        residual, Φ = self.loss_and_residual(scores, batch)[1].ravel(), self.score_rows(batch)
        return np.stack([residual[flat] @ Φ[flat] for flat in self.row_slices(batch)])

    def as_rows(self) -> RowModel[Any]:
        return self

    @labels_only
    def mixed_entropies(self, shares: Array, scores: Array, batch: Batch) -> Array:
        weight, residual = self.score_weights(batch), self.loss_and_residual(scores, batch)[1].ravel()
        toward = np.divide(residual, weight, out=np.zeros_like(residual), where=weight > 0)
        observed = self.targets(batch)

        def entropy(share: float) -> float:
            p = np.clip(observed + share * toward, 0.0, 1.0)
            terms = -xlogy(p, p) - xlogy(1.0 - p, 1.0 - p) if self.against_zero else -xlogy(p, p)
            return float(weight @ terms)

        # Entries of p are off by a few ε, and p log p by log ε times as much.
        whole, off = entropy(1.0), 80 * EPSILON * float(weight.sum())
        mixed = np.array([entropy(share) for share in shares.tolist()])
        return np.maximum(mixed - shares * whole - 16 * EPSILON * (mixed + whole) - off, 0.0)

    def block_rows(self, like: Batch, rows: int) -> int:
        least = max(LEAST_WORK, WORK_PER_PARAMETER * self.n_parameters(like)) / self.row_work(like)
        usual = max(min(-(-rows // BLOCKS), 2**18 // self.scores_per_row(like)), 1)  # 2 MB of scores stay in cache
        if usual >= least:
            return usual
        return -(-rows // max(round(rows / least), 1))  # or what is left over would be a block that is not worth it

    def row_work(self, like: Batch) -> float:
        """Return about how many nanoseconds a row takes in a pass."""
        design = self.design(like)
        return self.scores_per_row(like) * (2.0 * design.density * design.shape[1] + 10.0)

    def least_margin(self, theta: Array, batch: Batch) -> float:
        potentials = self.potentials(theta, batch)
        scores = self.add_measure(potentials, batch)
        # log h moves scores but not their slopes along θ: only potentials count, of outcomes that can happen.
        margins = self.margins(np.where(np.isneginf(scores), -np.inf, potentials), batch)
        if batch.weight is not None:
            margins = margins[batch.weight > 0]
        return float(margins.min(initial=np.inf))

    def hessian_times(self, scores: Array, batch: Batch, V: Array) -> Array:
        """Return HV, with H the Hessian of the loss with respect to the flat scores."""
        p, centered = self.center(scores, batch, V)
        return (p * self.score_weights(batch))[:, None] * centered

    def hessian_root_times(self, scores: Array, batch: Batch, V: Array) -> Array:
        """Return RV with RᵀR = H."""
        p, centered = self.center(scores, batch, V)
        return np.sqrt(p * self.score_weights(batch))[:, None] * centered


def require_data(model: Model[Any], data: object, kind: type) -> None:
    """Raise a sentence where a model is given data of another kind."""
    if not isinstance(data, kind):
        raise TypeError(f"{type(model).__name__} reads {kind.__name__} data, got {type(data).__name__}")


def weights_of(batch: InMemory) -> Array:
    """Return the weight of each row, one where there are none."""
    return np.ones(len(batch)) if batch.weight is None else batch.weight


def total_weight(batch: InMemory) -> float:
    """Return the weight of all rows together."""
    return float(len(batch) if batch.weight is None else batch.weight.sum())


def weighted_sum(values: Array, weight: Array | None) -> float:
    """Return Σ_j w_j values_j."""
    return float(np.sum(values) if weight is None else weight @ values)


def weigh(values: Array, weight: Array | None) -> Array:
    """Return values whose last axis runs over rows, times the weight of each row."""
    return values if weight is None else values * weight


class AlongIntercepts(NamedTuple):
    """A loss and its derivatives along intercepts; v = w p(1 − p) is that of each score."""

    loss: float
    slope: Array  # (n,)
    hessian: Array | None  # (n, n)
    squares: float  # Σ v²


class DualAscent(Protocol):
    """Dual variables of every row, and θ, which follows them: θ = Σ_j w_j (observed − expected)/λ."""

    @property
    def lengths(self) -> Array:
        """How much work each row is."""

    @property
    def gains(self) -> Array:
        """What a visit to each row would add to the dual objective, roughly; who skips one may let it grow."""

    @property
    def selects(self) -> bool:
        """Whether a round that visits some of the rows costs less than one that visits all."""

    @property
    def moved(self) -> float:
        """What moving the centre of a proximal term gained in the last round, roughly; zero without such a term."""

    @property
    def value(self) -> float:
        """The dual objective, roughly."""

    @property
    def rounds(self) -> int:
        """How many rounds of visits there were."""

    def visit(self, order: Array, snapshots: int = 1) -> bool:
        """Move these rows in place, one after the other; return whether all numbers stayed finite."""

    def take_up(self, other: Any) -> None:
        """Go on from where another one was, which was read from a file and knows no rows."""

    def average(self) -> Array:
        """Return the mean of θ over the last visits, looked at so many times."""

    def hessian_diagonal(self) -> Array:
        """Return the diagonal of the Hessian of the loss, roughly."""


# --- models with hidden parts -------------------------------------------------------------------------------


class Latent(RowModel[Batch]):
    """What models with hidden parts share; it stands before the model of whole outcomes among the bases.

    Three methods make one of that: :meth:`loss_and_residual`, whose residual is w (p − q), :meth:`posterior`, and
    :meth:`complete`. Curvatures are those of log Z: the bound's majorizes, the Hessian's is positive where that of the
    loss need not be.
    """

    @abstractmethod
    def posterior(self, scores: Array, batch: Batch) -> Array:
        """Return q, shaped as scores are: the probabilities of outcomes given what was observed of them."""

    @abstractmethod
    def complete(self, posterior: Array, batch: Batch) -> tuple[Model[Any], Any]:
        """Return the model of whole outcomes, and data in which they were observed with these frequencies."""

    def convex(self, batch: Batch) -> bool:
        """Return False: the loss is a difference of convex functions."""
        return False

    def completed(self, theta: Array, batch: Batch) -> tuple[Model[Any], Any]:
        """Return the model and data of the bound by Jensen's inequality at θ."""
        return self.complete(self.posterior(self.scores(theta, batch), batch), batch)

    def loss_at_zero(self, batch: Batch) -> float | None:
        """Return None: that takes a look at what was observed."""
        return None

    def row_target(self, target: Array, scores: Array) -> Array:
        """Return q of one row, for targets that are positive where an outcome agrees with what was observed."""
        return partition.posterior(scores[:, None], target[:, None] > 0)[1][:, 0]

    def first_params(self, like: Batch, seed: int) -> Array:
        """Return random parameters whose scores are about as large as one, on whatever scale columns are.

        At zero all states of a label are alike, and no gradient would ever tell them apart.
        """
        design, weight = self.design(like), self.score_weights(like)[: self.design(like).shape[0]]
        squares = design.pull_back_squares(weight[None])[0] / weight.sum()
        # Scores of a random start differ from row to row by about this much: enough for states to be told apart.
        scale = np.divide(1.0, np.sqrt(squares * len(squares)), out=np.zeros_like(squares), where=squares > 0)
        W = np.random.default_rng(seed).normal(size=(self.n_parameters(like) // len(scale), len(scale)))
        return (W * scale).ravel()

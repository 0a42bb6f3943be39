"""What is got of a model that answers: steps made whole, dual variables, rows with one label each, a free intercept."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from majorant._checks import Array
from majorant.kernels.sparse import Csr


class Leapt(NamedTuple):
    """What is kept of a step that was made whole: scores there, and how they have changed."""

    scores: Array
    slopes: Array


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


class HardRows(Protocol):
    """Rows with one label each, and a coefficient vector for each of n labels (or one, against zero)."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of X."""

    @property
    def y(self) -> Array:
        """The labels."""

    @property
    def weight(self) -> Array:
        """Of each row."""

    @property
    def offset(self) -> Array:
        """What is added to the scores, (n, t)."""

    @property
    def plain(self) -> bool:
        """Whether scores are products of W and X alone."""

    @property
    def centre(self) -> Array | None:
        """Where the columns of the model are measured from, if not from zero as they are here."""

    @property
    def is_sparse(self) -> bool:
        """Whether what is stored of X are its non-zeros."""

    @property
    def constant(self) -> bool:
        """Whether the last column is one of ones."""

    def dense(self) -> Array:
        """Return X as an array."""

    def nonzeros(self) -> Csr:
        """Return X by its non-zeros as :meth:`csr` does, without the column of ones: nothing is copied for it."""

    def csr(self) -> Csr:
        """Return X by its non-zeros, in double precision, columns measured from zero."""


class AlongIntercepts(NamedTuple):
    """A loss and its derivatives along intercepts; v = w p(1 − p) is that of each score."""

    loss: float
    slope: Array  # (n,)
    hessian: Array | None  # (n, n)
    squares: float  # Σ v²


class WithIntercept(Protocol):
    """What a free intercept needs of a model: its derivatives along scores that move class by class."""

    @property
    def coefficient_rows(self) -> int:
        """Intercepts n."""

    def loss(self, scores: Array, batch: Any) -> float:
        """Return the loss."""

    def loss_and_residual(self, scores: Array, batch: Any) -> tuple[float, Array]:
        """Return the loss and its derivative with respect to the scores (n×t)."""

    def farthest(self, scores: Array) -> float:
        """Return the largest finite |score|."""

    def along_intercepts(
        self, scores: Array, intercepts: Array, batch: Any, *, curved: bool
    ) -> tuple[AlongIntercepts, Array]:
        """Return the loss and more where intercepts have moved, its Hessian if ``curved``, and residuals."""

    def between_classes(self, residual: Array, batch: Any) -> tuple[Array, Array]:
        """Return the Hessian along the intercepts (n×n), and the diagonal of the Hessian on scores (n×t)."""

    def class_totals(self, batch: Any) -> Array:
        """Return how much of each class was observed."""

    def likely_intercepts(self, totals: Array, like: Any) -> Array | None:
        """Return intercepts that make every class as likely as it was observed, where coefficients are zero."""

    def lost_to_the_centre(self, theta: Array, batch: Any, epsilon: float) -> float:
        """Return how much the loss may rise when an intercept is rounded to one of columns that are not centred."""

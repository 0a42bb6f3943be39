"""Inference: covariances of maximum-likelihood estimates, derived quantities, likelihood-ratio tests and summaries.

With H the Hessian of the penalised loss at the estimates and s_j = w_j ∂(−log p_j)/∂θ the score of row j,

========  ====================================================================================================
kind      covariance
========  ====================================================================================================
hessian   H⁻¹: right if the model is
robust    H⁻¹ (Σ_j s_j s_jᵀ) H⁻¹: also if the model is wrong, as long as rows are independent (the sandwich)
cluster   H⁻¹ (Σ_g S_g S_gᵀ) H⁻¹ · G/(G − 1), S_g = Σ_{j in g} s_j: also if rows of a cluster depend on each other
========  ====================================================================================================

Covariances come from analytic derivatives. Functions of estimates have standard errors by the delta method:
var g(θ) ≈ ∇gᵀ cov(θ) ∇g.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import LinAlgError
from scipy.special import chdtrc, ndtr, ndtri

from majorant.core.checks import Array, needed, one_of
from majorant.core.curvature import Factor, has_clear_pivots, lower_factor, root_by_eigenvalues
from majorant.core.model import RowModel
from majorant.core.result import aligned, paragraph, table
from majorant.core.rounding import CLEAR
from majorant.core.rows import InMemory

KINDS = ("hessian", "robust", "cluster")


def covariance(H: Array, scores: Array | None, kind: str, clusters: Array | None = None) -> Array:
    """Return the covariance of estimates.

    Parameters
    ----------
    H : array of shape (d, d)
        The Hessian of the penalised loss.
    scores : array of shape (t, d)
        The gradient of each row, weight included; not needed for "hessian".
    kind : {"hessian", "robust", "cluster"}
        See the table above.
    clusters : array of shape (t,)
        What each row belongs to; for "cluster".
    """
    bread = inverse(H)
    if one_of("kind", kind, KINDS) == "hessian":
        return bread
    assert scores is not None
    if kind == "robust":
        return _sandwich(bread, scores.T @ scores)
    numbers, count = _numbered(clusters, len(scores))
    sums = np.zeros((count, scores.shape[1]))
    np.add.at(sums, numbers, scores)
    return _sandwich(bread, sums.T @ sums * (count / (count - 1)))


def through(T: Array, found: Array) -> Array:
    """Return T found Tᵀ, the covariance of Tθ; variances may be infinite."""
    unknown = np.isinf(np.diag(found))
    moved = T @ np.where(np.isfinite(found), found, 0.0) @ T.T
    touched = np.abs(T[:, unknown]).sum(axis=1) > 0
    moved[touched, touched] = np.inf
    return moved


def in_columns(T: Array | None, found: Array) -> Array:
    """Return the covariance of θ = Tφ from that of φ; T is a matrix, a diagonal as a vector, or None for φ itself."""
    if T is None:
        return found
    with np.errstate(over="ignore", invalid="ignore"):
        return _known(found * np.outer(T, T) if T.ndim == 1 else through(T, found))


def _sandwich(bread: Array, meat: Array) -> Array:
    """Return bread · meat · bread; what has an infinite variance in the one has it in the other."""
    unknown = np.isinf(np.diag(bread))
    finite = np.where(np.isfinite(bread), bread, 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        found = finite @ meat @ finite
    found[unknown, unknown] = np.inf
    return _known(found)


def _known(found: Array) -> Array:
    """Return a covariance with infinite variances, and no covariances, of what is too large for a number."""
    unknown = ~np.isfinite(np.diag(found))
    if unknown.any():
        found[unknown] = found[:, unknown] = 0.0
        found[unknown, unknown] = np.inf
    return found


def inverse(H: Array) -> Array:
    """Return H⁻¹; along directions in which H is flat nothing is known, and variances there are infinite."""
    try:
        L = lower_factor(H)
        if has_clear_pivots(L, np.diagonal(H)):
            return Factor(L).inverse()
    except LinAlgError:
        pass
    scale = np.sqrt(np.where(np.diag(H) > 0, np.diag(H), 1.0))
    root, flat = root_by_eigenvalues(H / np.outer(scale, scale))
    touched = np.flatnonzero(np.abs(flat).max(axis=1, initial=0.0) > CLEAR)
    with np.errstate(over="ignore", invalid="ignore"):
        found = (root @ root.T) / np.outer(scale, scale)
    found[touched, touched] = np.inf
    return _known(found)


def row_scores(model: RowModel[Any], theta: Array, batch: InMemory) -> Array:
    """Return the gradient of the loss of each row (t×d), some rows at a time."""
    rows = max(2**22 // (len(theta) * max(model.scores_per_row(batch), 1)), 1)  # 32 MB at a time
    parts = [model.row_gradients(model.scores(theta, block), block) for block in batch.batches(rows)]
    return np.concatenate(parts)


def _numbered(clusters: ArrayLike | None, rows: int) -> tuple[Array, int]:
    if clusters is None:
        raise ValueError("kind='cluster' needs cluster=…: what each row belongs to, such as a person")
    values = np.asarray(clusters)
    if values.shape != (rows,):
        raise ValueError(f"cluster must have one entry per observation ({rows}), got shape {values.shape}")
    try:
        names, numbers = np.unique(values, return_inverse=True)
    except TypeError:
        raise ValueError("cluster must be of one type, such as numbers or strings, got a mixture") from None
    if len(names) < 2:
        raise ValueError(f"cluster must name at least two clusters, got only {names.tolist()}")
    return numbers, len(names)


@dataclass(frozen=True)
class Derived:
    """A number found from estimates, and its standard error.

    Examples
    --------
    >>> print(Derived("time / cost", 1.2, 0.1))
    time / cost = 1.2 (std. err. 0.1, 95 % interval 1.004 to 1.396)
    """

    name: str
    estimate: float
    std_error: float

    @property
    def z(self) -> float:
        """The estimate in standard errors."""
        return self.estimate / self.std_error if self.std_error > 0 else 0.0

    @property
    def p(self) -> float:
        """The two-sided p-value of it being zero."""
        return float(2.0 * ndtr(-abs(self.z)))

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return a confidence interval."""
        reach = float(ndtri(0.5 + 0.5 * level)) * self.std_error
        return self.estimate - reach, self.estimate + reach

    def __str__(self) -> str:
        low, high = self.interval()
        error = f"std. err. {self.std_error:.4g}, 95 % interval {low:.4g} to {high:.4g}"
        return f"{self.name} = {self.estimate:.6g} ({error})"


def ratio(name: str, params: Array, covariance: Array, above: int, below: int, sign: float = 1.0) -> Derived:
    """Return sign · θ_above / θ_below and its standard error."""
    top, bottom = float(params[above]), float(params[below])
    if bottom == 0:
        raise ValueError(f"{name} is not defined: the coefficient below the line is zero")
    slope = np.zeros(len(params))
    slope[above] += sign / bottom
    slope[below] -= sign * top / bottom**2
    variance = float(slope @ covariance @ slope) if np.isfinite(covariance).all() else float("inf")
    return Derived(name, sign * top / bottom, float(np.sqrt(max(variance, 0.0))))


@dataclass(frozen=True)
class LikelihoodRatio:
    """2 (ℓ_larger − ℓ_smaller), χ² with as many degrees of freedom as there are more parameters.

    Examples
    --------
    >>> print(LikelihoodRatio(12.0, 2))
    likelihood ratio 12 on 2 degrees of freedom, p = 0.00248
    """

    statistic: float
    degrees: int

    @property
    def p(self) -> float:
        """How likely so large a ratio is if the smaller model is right."""
        return float(chdtrc(self.degrees, max(self.statistic, 0.0)))

    def __str__(self) -> str:
        return f"likelihood ratio {self.statistic:.6g} on {self.degrees} degrees of freedom, p = {self.p:.3g}"


def likelihood_ratio(one: Facts, other: Facts) -> LikelihoodRatio:
    """Return the test between two nested fits to the same observations, in either order."""
    smaller, larger = sorted((one, other), key=lambda facts: facts.parameters)
    if smaller.parameters == larger.parameters:
        raise ValueError(f"nested models differ in their parameters, got {larger.parameters} of both")
    if abs(smaller.observations - larger.observations) > 1e-9 * larger.observations:
        got = f"{smaller.observations:g} and {larger.observations:g}"
        raise ValueError(f"a likelihood-ratio test needs fits to the same observations, got {got} of them")
    if smaller.unit != larger.unit:
        raise ValueError(
            f"a likelihood-ratio test is between fits of one kind, got {smaller.unit} and {larger.unit}: hidden "
            "classes are not nested in its sense; compare AIC or BIC"
        )
    # Parameters of zero make all models of the same data the same one.
    nulls = smaller.null_log_likelihood, larger.null_log_likelihood
    if abs(nulls[0] - nulls[1]) > 1e-6 * max(map(abs, nulls)):
        raise ValueError(
            "a likelihood-ratio test needs fits to the same alternatives and offsets, but log-likelihoods at zero are "
            f"{nulls[0]:g} and {nulls[1]:g}"
        )
    statistic = 2.0 * (larger.log_likelihood - smaller.log_likelihood)
    if statistic < -1e-6 * abs(larger.log_likelihood):
        raise ValueError(
            f"the larger model has the lower log-likelihood ({larger.log_likelihood:g} against "
            f"{smaller.log_likelihood:g}): they are not nested, or not both at their maximum"
        )
    return LikelihoodRatio(max(statistic, 0.0), larger.parameters - smaller.parameters)


HEADINGS = ("estimate", "std. err.", "z", "p", "low", "high")
FRAME_COLUMNS = ("estimate", "std_err", "z", "p", "low", "high")


@dataclass(frozen=True)
class Facts:
    """Statistics of a fit: log-likelihoods, observations, parameters, AIC, BIC and ρ²."""

    log_likelihood: float
    null_log_likelihood: float  # of parameters of zero
    observations: float
    parameters: int
    unit: str = "observations"  # what is independent of each other

    @property
    def aic(self) -> float:
        """2k − 2ℓ."""
        return 2.0 * self.parameters - 2.0 * self.log_likelihood

    @property
    def bic(self) -> float:
        """k log n − 2ℓ."""
        return self.parameters * float(np.log(self.observations)) - 2.0 * self.log_likelihood

    @property
    def rho_squared(self) -> float:
        """McFadden's 1 − ℓ/ℓ₀, against parameters of zero."""
        return 1.0 - self.log_likelihood / self.null_log_likelihood if self.null_log_likelihood else 0.0

    @property
    def adjusted_rho_squared(self) -> float:
        """1 − (ℓ − k)/ℓ₀."""
        shortened = self.log_likelihood - self.parameters
        return 1.0 - shortened / self.null_log_likelihood if self.null_log_likelihood else 0.0

    def lines(self) -> list[tuple[str, str]]:
        """Return names and values as they are printed."""
        return [
            (self.unit, f"{self.observations:g}"),
            ("parameters", str(self.parameters)),
            ("log-likelihood", f"{self.log_likelihood:.6f}"),
            ("null log-likelihood", f"{self.null_log_likelihood:.6f}"),
            ("ρ²", f"{self.rho_squared:.4f} (adjusted {self.adjusted_rho_squared:.4f})"),
            ("AIC", f"{self.aic:.3f}"),
            ("BIC", f"{self.bic:.3f}"),
        ]


@dataclass(frozen=True, eq=False)
class Summary:
    """Estimates with standard errors, z, two-sided p and a confidence interval, and what is said of the fit.

    ``str`` gives text, notebooks show HTML, :meth:`to_frame` returns a pandas data frame.
    """

    title: str
    names: tuple[str, ...]
    estimates: Array
    std_errors: Array
    level: float
    facts: Facts
    notes: tuple[str, ...] = field(default=())

    @property
    def z(self) -> Array:
        """Estimates in standard errors."""
        return np.divide(self.estimates, self.std_errors, out=np.zeros(len(self.names)), where=self.std_errors > 0)

    @property
    def p(self) -> Array:
        """Two-sided p-values of estimates being zero."""
        return 2.0 * ndtr(-np.abs(self.z))

    @property
    def interval(self) -> Array:
        """The confidence interval of each estimate (k×2)."""
        reach = ndtri(0.5 + 0.5 * self.level) * self.std_errors
        return np.stack([self.estimates - reach, self.estimates + reach], axis=1)

    @property
    def params(self) -> Array:
        """The estimates, by the name that statsmodels has for them."""
        return self.estimates

    @property
    def bse(self) -> Array:
        """The standard errors, by the name that statsmodels has for them."""
        return self.std_errors

    @property
    def llf(self) -> float:
        """The log-likelihood ℓ."""
        return self.facts.log_likelihood

    @property
    def aic(self) -> float:
        """2k − 2ℓ."""
        return self.facts.aic

    @property
    def bic(self) -> float:
        """k log n − 2ℓ."""
        return self.facts.bic

    def rows(self) -> list[tuple[float, ...]]:
        """Return the numbers of the table."""
        low, high = self.interval.T
        columns = (self.estimates, self.std_errors, self.z, self.p, low, high)
        return [tuple(float(number) for number in row) for row in zip(*columns, strict=True)]

    def to_frame(self) -> Any:
        """Return the table as a pandas data frame, one row for each parameter."""
        frames = needed("pandas", "to_frame()", "frames")
        return frames.DataFrame(self.rows(), index=list(self.names), columns=list(FRAME_COLUMNS))

    def __str__(self) -> str:
        cells = [("", *self._headings()), *zip(self.names, *zip(*self._cells(), strict=True), strict=True)]
        facts = (f"{name + ':':<21}{value}" for name, value in self.facts.lines())
        return "\n".join([self.title, *facts, "", aligned(cells), *self.notes])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = [(name, *cells) for name, cells in zip(self.names, self._cells(), strict=True)]
        notes = map(paragraph, self.notes)
        shown = table((), self.facts.lines()), table(("", *self._headings()), rows)
        return "".join([paragraph(self.title, bold=True), *shown, *notes])

    def _headings(self) -> tuple[str, ...]:
        tail = 50.0 * (1.0 - self.level)
        return (*HEADINGS[:4], f"{tail:g} %", f"{100 - tail:g} %")

    def _cells(self) -> list[tuple[str, ...]]:
        return [
            (
                *(f"{estimate:.6g}", f"{error:.6g}", f"{z:.3f}", "<1e-4" if p < 1e-4 else f"{p:.4f}"),
                *(f"{low:.6g}", f"{high:.6g}"),
            )
            for estimate, error, z, p, low, high in self.rows()
        ]


def summarise(
    title: str,
    names: Sequence[str],
    estimates: Array,
    covariance: Array,
    facts: Facts,
    *,
    level: float = 0.95,
    notes: Sequence[str] = (),
) -> Summary:
    """Return the table of estimates with this covariance, or, of many, with these variances."""
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level!r}; 0.95 is usual")
    errors = np.sqrt(np.maximum(np.diag(covariance) if covariance.ndim == 2 else covariance, 0.0))
    return Summary(title, tuple(names), np.asarray(estimates), errors, level, facts, tuple(notes))

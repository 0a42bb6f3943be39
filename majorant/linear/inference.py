"""How sure a logistic regression is of its coefficients: Laplace's approximation, and standard errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.linalg import block_diag
from scipy.special import expit, logit, ndtri, softmax, xlogy

from majorant.core import separation
from majorant.core.checks import Array
from majorant.core.labelled import Labelled
from majorant.core.objective import Objective

if TYPE_CHECKING:
    from majorant.inference import Facts
    from majorant.likelihood import Firth, FirthBinary
    from majorant.resampling import Bootstrap

SOURCES = {
    "hessian": "standard errors from the inverse Hessian",
    "robust": "robust standard errors (sandwich over rows)",
    "cluster": "standard errors robust to dependence within clusters",
}


@dataclass(frozen=True, eq=False)
class Posterior:
    """The covariance of coefficients and intercepts, class by class, of columns measured from a centre.

    Far from zero an intercept and its coefficients are all but the same: their covariance would have no digits left.
    """

    covariance: Array
    classes: int
    centre: Array | None

    @classmethod
    def of(cls, precision: Array, classes: int, centre: Array | None, free: Array | None = None) -> Posterior:
        """Invert a precision: a d×d matrix, one block per class, or a diagonal.

        Of ``free`` columns, which nothing but a stream's own prior holds, softmax coefficients are known only up to a
        number that all share: that direction is left out.
        """
        if precision.ndim == 1:
            whole = np.diag(precision)
        else:
            whole = precision if precision.ndim == 2 else block_diag(*precision)
        covariance = np.linalg.pinv(whole, hermitian=True)
        if classes > 1 and free is not None and free.any():
            C = covariance.reshape(classes, len(free), classes, len(free))
            C[:, free] -= C[:, free].mean(axis=0)
            C[:, :, :, free] -= C[:, :, :, free].mean(axis=2, keepdims=True)
        return cls(covariance, classes, centre)

    def uncentred(self) -> Array:
        """Return the covariance that belongs to columns measured from zero."""
        if self.centre is None:
            return self.covariance
        C = self._by_class().copy()
        C[:, -1] -= np.einsum("i,ciek->cek", self.centre, C[:, :-1])
        C[:, :, :, -1] -= np.einsum("i,cjei->cje", self.centre, C[:, :, :, :-1])
        return C.reshape(self.covariance.shape)

    def score_variances(self, X: Any, *, constant: bool) -> Array:
        """Return the variance of each score (t×n), of more than one class that of each less their mean."""
        center = False if self.centre is None else self.centre
        rows = Labelled(X, np.zeros(X.shape[0], dtype=int), constant=constant, center=center).design.dense()
        C = self._by_class()
        if self.classes > 1:
            C = C - C.mean(axis=0, keepdims=True)
            C = C - C.mean(axis=2, keepdims=True)
        return np.stack([np.einsum("jp,jp->j", rows @ C[c, :, c], rows) for c in range(self.classes)], axis=-1)

    def logit_deviations(self, X: Any, P: Array, *, constant: bool) -> Array:
        """Return the standard deviation of log p/(1 − p) of each class, at probabilities P (t×n, n > 1)."""
        center = False if self.centre is None else self.centre
        rows = Labelled(X, np.zeros(X.shape[0], dtype=int), constant=constant, center=center).design.dense()
        if self.classes == 1:
            found = np.sqrt(np.maximum(np.einsum("jp,jp->j", rows @ self.covariance, rows), 0.0))
            return np.stack([found, found], axis=1)
        C, found = self._by_class(), np.empty(P.shape)
        between = np.einsum("jp,cpeq,jq->jce", rows, C, rows, optimize=True)
        for k in range(self.classes):
            slope = (np.eye(self.classes)[k] - P) / np.maximum(1.0 - P[:, k : k + 1], np.finfo(float).tiny)
            found[:, k] = np.sqrt(np.maximum(np.einsum("jc,jce,je->j", slope, between, slope), 0.0))
        return found

    def _by_class(self) -> Array:
        p = len(self.covariance) // self.classes
        return self.covariance.reshape(self.classes, p, self.classes, p)


class Estimates(NamedTuple):
    """Estimates of maximum likelihood, class by class, intercepts first, their covariance, and facts of the fit."""

    params: Array
    covariance: Array
    facts: Facts


def estimates(
    objective: Objective, W: Array, kind: str, cluster: Any, *, intercept: bool, null_totals: int | None
) -> Estimates:
    """Return the estimates of parameters W, a row per class, with standard errors of a kind.

    Of more than two classes, they are those against the first: softmax coefficients may all move together. Where
    ``null_totals`` is the number of classes, the null model has an intercept for each; otherwise all of it is zero.
    """
    from majorant.inference import Facts, covariance, row_scores, through

    model, data = objective.model.as_rows(), objective.whole
    assert isinstance(data, Labelled)
    centre = model.design(data).centre
    loss, _, H = objective.hessian(W.ravel())
    classes, width = W.shape
    first = width if classes > 1 else 0
    scores = None if kind == "hessian" else row_scores(model, W.ravel(), data)[:, first:]
    of_params = covariance(
        H.as_matrix()[first:, first:], scores, kind, None if cluster is None else np.asarray(cluster)
    )
    params = (W[1:] - W[0] if classes > 1 else W).ravel()
    T = np.kron(np.eye(max(classes - 1, 1)), as_published(width, centre, intercept=intercept))
    weight = float(len(data) if data.weight is None else data.weight.sum())
    if null_totals is None:
        null = objective.value_at_zero()
    else:  # every class is as likely as it was observed
        totals = data.class_totals(null_totals)
        null = float(-xlogy(totals, totals / totals.sum()).sum())
    return Estimates(T @ params, through(T, of_params), Facts(-loss, -null, weight, len(params)))


def as_published(width: int, centre: Array | None, *, intercept: bool) -> Array:
    """Return the matrix that makes parameters of a class as published: the intercept first, columns from zero."""
    T: Array = np.eye(width)
    if intercept:
        if centre is not None:
            T[-1, :-1] -= centre
        T = np.roll(T, 1, axis=0)
    return T


def contrasts(W: Array, centre: Array | None, *, intercept: bool) -> Array:
    """Return the matrix that makes parameters of all classes published ones against the first class."""
    classes, width = W.shape
    T = as_published(width, centre, intercept=intercept)
    if classes == 1:
        return T
    against = np.column_stack([-np.ones(classes - 1), np.eye(classes - 1)])
    return np.kron(against, T)


def flat_directions(objective: Objective, shape: tuple[int, ...]) -> Array:
    """Return orthonormal directions in which all classes move together where nothing is penalised (d×m)."""
    classes, width = shape
    if classes == 1:
        return np.zeros((width, 0))
    free = np.flatnonzero(objective.ridge.reshape(classes, width).max(axis=0) == 0)
    return np.kron(np.full((classes, 1), classes**-0.5), np.eye(width)[:, free])


def bootstrapped(
    objective: Objective,
    W: Array,
    names: Sequence[str],
    T: Array,
    *,
    n: int,
    cluster: Any,
    kind: str,
    seed: int,
) -> Bootstrap:
    """Return replicates of Tθ by weights of the rows."""
    from majorant.inference import inverse, row_scores
    from majorant.likelihood import Likelihood
    from majorant.resampling import Observations, Replicate, bootstrap

    model, data, theta = objective.model.as_rows(), objective.whole, W.ravel()
    assert isinstance(data, Labelled)
    base = np.ones(len(data)) if data.weight is None else data.weight
    likelihood = Likelihood(objective, flat_directions(objective, W.shape))

    def reweighed(weights: Array) -> Objective:
        return Objective(objective.model, data.reweighed(base * weights), ridge=objective.penalty)

    def separated(other: Objective) -> bool:
        return separation.suits(other) and separation.find(other) is not None

    fit_params = likelihood.refit(theta, reweighed, separated)

    def fit(weights: Array) -> Replicate:
        found = fit_params(weights)
        return found if found.estimates is None else Replicate(T @ found.estimates, found.within)

    def influences() -> Iterator[tuple[slice, Array]]:
        through = -(T @ inverse(likelihood.expand(theta)[2])).T
        yield slice(0, len(data)), row_scores(model, theta, data) @ through

    observed = Observations(np.ones(len(data)))
    return bootstrap(names, T @ theta, observed, fit, influences, n=n, cluster=cluster, kind=kind, seed=seed)


def firth(objective: Objective) -> Firth | FirthBinary:
    """Return the likelihood with Jeffreys' prior; of more than two classes the first one has coefficients of zero."""
    from majorant.likelihood import Firth, FirthBinary

    data, classes = objective.whole, objective.model.classes(objective.like)
    assert isinstance(data, Labelled)
    X = objective.model.as_rows().design(data).dense().astype(np.float64)
    weight = np.ones(len(X)) if data.weight is None else data.weight
    if classes <= 1:
        share = data.y[1] if data.soft else data.y.astype(np.float64)
        offset = np.zeros(len(X)) if data.offset is None else data.offset.ravel()
        return FirthBinary(X, share, weight, offset)
    n, p = X.shape
    features = np.zeros((n, classes, (classes - 1) * p))
    for c in range(1, classes):
        features[:, c, (c - 1) * p : c * p] = X
    share = data.y.T if data.soft else np.eye(classes)[data.y]
    log_h = None if data.offset is None else data.offset.T.ravel()
    amount = (share * weight[:, None]).ravel()
    return Firth(features.reshape(n * classes, -1), classes * np.arange(n), amount, log_h)


def columns_of(argument: str, given: Any, features: Sequence[str]) -> list[int]:
    """Return the numbers of columns that an argument names, numbers or marks by a mask."""
    if isinstance(given, str) or not np.iterable(given):
        raise ValueError(f"{argument} must be a list of columns, by name or by number, got {given!r:.80}")
    listed = list(given)
    if listed and all(isinstance(column, bool | np.bool_) for column in listed):
        if len(listed) != len(features):
            raise ValueError(f"{argument} must mark each of the {len(features)} columns, got {len(listed)} marks")
        return np.flatnonzero(listed).tolist()
    places = []
    for column in listed:
        if isinstance(column, str) and column in features:
            places.append(features.index(column))
        elif isinstance(column, int | np.integer) and 0 <= column < len(features):
            places.append(int(column))
        else:
            raise ValueError(f"{argument} must list columns by name or by number, got {column!r:.80} among them")
    return places


def average_effects(
    X: Array,
    coef: Array,
    intercept: Array,
    offset: Array | None,
    weight: Array | None,
    discrete: Sequence[int],
) -> Array:
    """Return mean derivatives of the probabilities of classes by columns (K×p), of discrete ones from 0 to 1."""

    def probabilities(rows: Array) -> Array:
        scores = rows @ coef.T + intercept
        if offset is not None:
            scores = scores + offset
        if len(coef) == 1:
            return np.column_stack([expit(-scores), expit(scores)])
        return softmax(scores, axis=1)

    P = probabilities(X)
    B = np.vstack([np.zeros(coef.shape[1]), coef]) if len(coef) == 1 else coef
    effects = np.empty(B.shape)
    for c in range(len(B)):
        effects[c] = np.average(P[:, [c]] * (B[c] - P @ B), axis=0, weights=weight)
    for k in discrete:
        ends = []
        for value in (0.0, 1.0):
            rows = X.copy()
            rows[:, k] = value
            ends.append(np.average(probabilities(rows), axis=0, weights=weight))
        effects[:, k] = ends[1] - ends[0]
    return effects


def interval_of_probabilities(P: Array, deviations: Array, level: float) -> tuple[Array, Array]:
    """Return the ends of intervals of probabilities, which are symmetric in log p/(1 − p)."""
    middle, reach = logit(P), float(ndtri(0.5 + 0.5 * level)) * deviations
    return expit(middle - reach), expit(middle + reach)

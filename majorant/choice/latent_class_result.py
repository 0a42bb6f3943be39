"""What is said of a fit of latent classes.

How many classes: fits side by side.

What a fitted latent class model says of its parameters.

What fitted latent classes foretell: choices, and who belongs to which class.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from majorant.choice.latent_class_fit import (
    Found,
    is_large,
    is_negative,
    least_curvature,
    runaway_columns,
    runaway_covariates,
    separated_classes,
)
from majorant.choice.latent_classes import LatentClasses, Panel, Parameters
from majorant.choice.sets import People, Situations, flagged_largest, named, read_covariates, read_people
from majorant.core.checks import Array, needed, one_of
from majorant.core.result import Outcome, Result, counted, table
from majorant.inference import Summary, covariance, in_columns, summarise

# Log-likelihoods that differ by less are the same maximum.
SAME = 1e-6
# What could still be gained, relatively, where no step gains anything in this precision.
PRECISION = 1e-14


def told(
    best: Found,
    ends: Array,
    features: Sequence[str],
    covariates: Sequence[str] = (),
    T: Array | None = None,
    *,
    asked: int,
    tol: float,
    max_iter: int,
) -> Result:
    """Return the outcome of the best of several starts, which ended at these log-likelihoods, and its sentence.

    ``features`` are the names of columns X; the fit is to XT.
    """
    outcome = _outcome(best, tol, max_iter, concave=asked == 1)
    endless = "" if np.any(best.state.ridge) else _about_separation(best, features, T)
    endless += "" if np.any(best.state.membership_ridge) else _about_membership(best, covariates)
    how = {Outcome.STALLED: "stalled after", Outcome.STEP_LIMIT: "stopped at the limit of"}
    verb = "stopped after" if endless else how.get(outcome, "stationary after")
    metric = "curvatures of single parameters" if is_large(best.state) else "the Hessian"
    steps = counted(len(best.losses) - 1, "step")
    sentence = f"{verb} {steps}: the gradient is {best.decrement:.1e} in the metric of {metric}"
    if asked > 1:
        sentence += _about_starts(ends) + _about_curvature(best)
    if len(best.state) < asked:
        sentence += f"; {asked - len(best.state)} of {asked} classes had no one in them"
    return Result(Outcome.UNBOUNDED if endless else outcome, sentence + endless, float("nan"))


def _outcome(best: Found, tol: float, max_iter: int, *, concave: bool) -> Outcome:
    if best.converged(max(tol, PRECISION)):
        return Outcome.CONVERGED if concave else Outcome.STATIONARY
    return Outcome.STEP_LIMIT if len(best.losses) > max_iter else Outcome.STALLED


def _about_starts(ends: Array) -> str:
    same = int((ends.max() - ends <= SAME * max(abs(ends.max()), 1.0)).sum())
    span = f"{ends.min():.3f} to {ends.max():.3f}"
    return f"; best of {len(ends)} starts, {same} of which ended there (log-likelihoods from {span})"


def _about_curvature(best: Found) -> str:
    if is_negative(best.state, least_curvature(best.state)[0]):
        return "; it is a saddle: the likelihood is not concave, and another start may lead further"
    how = "a few gradients found no negative curvature" if is_large(best.state) else "no curvature is negative"
    return f"; {how} there, but the likelihood is not concave: nothing certifies that there is no better maximum"


def _about_separation(best: Found, features: Sequence[str], T: Array | None) -> str:
    """Return which classes have tastes without end, in words; none is no words."""
    remedy = "use a finite C, or ask for fewer classes"
    complete = separated_classes(best.state)
    if complete:
        which = ", ".join(str(c + 1) for c in complete)
        return (
            f"; choices of class {which} are completely separated, so the likelihood grows for ever as its "
            f"coefficients do; {remedy}"
        )
    partly = runaway_columns(best.state, T)
    if not partly:
        return ""
    along = ", ".join(
        f"{' and '.join(named(features[column]) for column in columns[:10])} in class {c + 1}"
        for c, columns in partly.items()
    )
    how = "quasi-completely separated, as far as can be told,"
    return f"; choices are {how} along {along}: coefficients there have no end; {remedy}"


def _about_membership(best: Found, covariates: Sequence[str]) -> str:
    """Return which covariates tell the classes of people without exception, in words; none is no words."""
    columns = runaway_covariates(best.state)
    if not columns:
        return ""
    which = " and ".join(named(covariates[column - 1]) for column in columns[:10])
    return (
        f"; membership is separated by {which}, as far as can be told: it decides who is of which class, so the "
        f"likelihood grows for ever as its coefficients of membership do; use a finite membership_C, or leave it out"
    )


COLUMNS = ("classes", "parameters", "log_likelihood", "aic", "bic", "smallest_share", "starts_at_best")


@dataclass(frozen=True, eq=False)
class Comparison:
    """Fits with several numbers of classes: ``str`` and notebooks give a table, ``to_frame()`` a pandas data frame."""

    fits: tuple[Any, ...]

    @property
    def best(self) -> Any:
        """The fit with the least BIC."""
        return min(self.fits, key=lambda fit: fit.bic_)

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the numbers of the table."""
        return [
            (
                fit.n_classes_,
                fit._facts.parameters,
                fit.log_likelihood_,
                fit.aic_,
                fit.bic_,
                float(fit.shares_.min()),
                int(np.isclose(fit.start_log_likelihoods_, fit.start_log_likelihoods_.max(), rtol=1e-6).sum()),
            )
            for fit in self.fits
        ]

    def to_frame(self) -> Any:
        """Return the table as a pandas data frame."""
        frames = needed("pandas", "to_frame()", "frames")
        return frames.DataFrame(self.rows(), columns=list(COLUMNS)).set_index("classes")

    def __str__(self) -> str:
        cells = [COLUMNS, *self._cells()]
        widths = [max(len(row[i]) for row in cells) for i in range(len(COLUMNS))]
        return "\n".join("  ".join(map(str.rjust, row, widths)) for row in cells)

    def _repr_html_(self) -> str:
        return table(COLUMNS, self._cells(), marked=self.fits.index(self.best))

    def _cells(self) -> list[tuple[str, ...]]:
        return [tuple(f"{v:.4f}" if isinstance(v, float) else str(v) for v in row) for row in self.rows()]


class ByClasses:
    """``compare``, for an estimator with ``n_classes``."""

    def compare(
        self: Any, n_classes: Iterable[int], X: Any, y: Any, groups: Any, persons: Any = None, **more: Any
    ) -> Comparison:
        """Return fits with these numbers of classes, and a table of their log-likelihoods, AIC and BIC.

        Parameters
        ----------
        n_classes : iterable of int
        X, y, groups, persons, **more
            As for :meth:`fit`.

        Returns
        -------
        Comparison
            Printed it is a table; ``fits`` are the models, ``best`` is the one with the least BIC.
        """
        numbers = list(n_classes)
        if not numbers:
            raise ValueError("n_classes must hold at least one number of classes, such as range(1, 5)")
        fits = (clone(self).set_params(n_classes=n).fit(X, y, groups, persons, **more) for n in numbers)
        return Comparison(tuple(fits))


SOURCES = {
    "hessian": "standard errors from the inverse Hessian of the marginal likelihood",
    "robust": "robust standard errors (sandwich over people)",
}


class LatentInference:
    """``covariance`` and ``summary``, for latent classes."""

    def covariance(self: Any, kind: str = "hessian") -> Array:
        """Return the covariance of all parameters.

        Where parameters cannot be told from the data (two classes that are the same), variances are infinite.

        Parameters
        ----------
        kind : {"hessian", "robust"}
            The inverse of the exact Hessian of the marginal likelihood, or the sandwich over people.

        Returns
        -------
        array of shape (d, d)
            In the order of ``param_names_``.
        """
        check_is_fitted(self, "coef_")
        if one_of("kind", kind, tuple(SOURCES)) == "hessian":
            return in_columns(self._basis, covariance(self._hessian, None, "hessian"))
        if self._state is None:
            if self._robust is not None:
                return self._robust
            raise ValueError("kind='robust' needs the data of the fit, which files and pickles do not hold: fit again")
        return in_columns(self._basis, covariance(self._hessian, self._state.scores(), "robust"))

    def summary(self: Any, kind: str = "hessian", level: float = 0.95) -> Summary:
        """Return the table of estimates, standard errors, z, p and intervals, and what is said of the fit.

        Parameters
        ----------
        kind : {"hessian", "robust"}
            As for :meth:`covariance`.
        level : float
            Of the confidence intervals.

        Returns
        -------
        Summary
            Printed it is text, notebooks show HTML, ``to_frame()`` returns a pandas data frame.
        """
        params = np.concatenate([self.coef_.ravel(), self.membership_.ravel()])
        shares = ", ".join(f"{share:.4f}" for share in self.shares_)
        notes = [f"shares of the classes: {shares}", SOURCES[kind], str(self.result_)]
        if np.isfinite(self.C) or np.isfinite(self.membership_C):
            penalties = f"C = {self.C:g}, membership_C = {self.membership_C:g}"
            notes.append(f"penalised ({penalties}): estimates are drawn towards zero, and so are standard errors")
        found, title = self.covariance(kind), f"Latent class logit, {self.n_classes_} classes"
        return summarise(title, self.param_names_, params, found, self._facts, level=level, notes=notes)


# Probabilities of the classes have to sum to one so nearly.
SUMS_TO_ONE = 1e-6


class LatentPrediction:
    """``predict``, ``predict_proba``, ``class_proba``, ``predict_membership`` and ``score``, for latent classes."""

    def class_proba(self: Any, X: Any, groups: Any, *, offset: Any = None) -> Array:
        """Return the probability of each row within its group in each class.

        Parameters
        ----------
        X, groups, offset
            As for :meth:`fit`.

        Returns
        -------
        array of shape (n_rows, ``n_classes_``)
        """
        check_is_fitted(self, "coef_")
        table = Situations.read(self, X, groups, reset=False)
        sets = table.unobserved(offset)
        scores = sets.design.times(self.coef_.T) + (0.0 if sets.log_measure is None else sets.log_measure[:, None])
        top = np.repeat(np.maximum.reduceat(scores, table.starts), table.sizes, axis=0)
        e = np.exp(scores - top)
        return table.as_given(e / np.repeat(np.add.reduceat(e, table.starts), table.sizes, axis=0))

    def predict_proba(
        self: Any, X: Any, groups: Any = None, *, membership: Any = None, weights: Any = None, offset: Any = None
    ) -> Array:
        """Return the probability of each row within its group, averaged over classes.

        Parameters
        ----------
        X, groups, offset
            As for :class:`~majorant.ConditionalLogit`.
        membership : array, optional
            What is known of the people, as in the fit.
        weights : array of shape (n_rows, ``n_classes_``), optional
            Probabilities of the classes for the person of each row, such as posteriors; instead of those that the
            membership model gives.

        Returns
        -------
        array of shape (n_rows,)
        """
        of_classes = self.class_proba(X, groups, offset=offset)
        table = Situations.read(self, X, groups, reset=False)
        if weights is None:
            Z, _ = read_covariates(membership, len(of_classes), self._covariates)
            table.of_groups("membership", Z)
            weights = _softmax(np.column_stack([np.ones(len(Z)), Z]) @ self._parameters().membership.T)
        else:
            weights = _read_distributions(weights, of_classes.shape)
            table.of_groups("weights", weights)
        return (of_classes * weights).sum(axis=1)

    def predict(self: Any, X: Any, groups: Any = None, *, membership: Any = None, offset: Any = None) -> Array:
        """Return which row of each group is likeliest.

        Parameters
        ----------
        X, groups, membership, offset
            As for :meth:`fit`.

        Returns
        -------
        array of shape (n_rows,)
            1 for the likeliest row of each group, 0 for the others.
        """
        p = self.predict_proba(X, groups, membership=membership, offset=offset)
        table = Situations.read(self, X, groups, reset=False)
        return table.as_given(flagged_largest(table.sorted(p), table.starts, table.sizes))

    def predict_membership(
        self: Any, X: Any, y: Any, groups: Any, persons: Any = None, *, membership: Any = None, offset: Any = None
    ) -> tuple[Array, Array]:
        """Return how likely each person is of each class, given what was chosen.

        Parameters
        ----------
        X, y, groups, persons, membership, offset
            As for :meth:`fit`.

        Returns
        -------
        persons : array of shape (n_persons,)
        posterior : array of shape (n_persons, ``n_classes_``)
        """
        people = self._read(X, y, groups, persons, membership, offset, None)
        return people.names, self._on(people.panel).posteriors

    def score(
        self: Any,
        X: Any,
        y: Any,
        groups: Any = None,
        persons: Any = None,
        *,
        membership: Any = None,
        offset: Any = None,
        sample_weight: Any = None,
    ) -> float:
        """Return the mean log-likelihood of a person.

        Parameters
        ----------
        X, y, groups, persons, membership, offset, sample_weight
            As for :meth:`fit`.

        Returns
        -------
        float
            At most 0.
        """
        people = self._read(X, y, groups, persons, membership, offset, sample_weight)
        return float(np.average(self._on(people.panel).log_likelihoods, weights=people.panel.weight))

    def _read(
        self: Any, X: Any, y: Any, groups: Any, persons: Any, membership: Any, offset: Any, weight: Any
    ) -> People:
        check_is_fitted(self, "coef_")
        table = Situations.read(self, X, groups, reset=False)
        return read_people(table, y, persons, membership, offset, weight, self._covariates)

    def _parameters(self: Any) -> Parameters:
        zeros = np.zeros((1, 1 + len(self._covariates)))
        return Parameters(self.coef_, np.vstack([zeros, self.membership_]))

    def _on(self: Any, panel: Panel) -> LatentClasses:
        return LatentClasses(panel, self._parameters())


def _softmax(logits: Array) -> Array:
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def _read_distributions(weights: Any, shape: tuple[int, ...]) -> Array:
    each = np.asarray(weights, dtype=np.float64)
    if each.shape != shape:
        raise ValueError(f"weights must have shape {shape}, got {each.shape}")
    wrong = ~((each >= 0).all(axis=1) & (np.abs(each.sum(axis=1) - 1.0) <= SUMS_TO_ONE))
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(f"weights must be probabilities of the classes, got {each[row].tolist()} at row {row}")
    return each

"""``LatentClassLogit``: people of hidden classes, each with a conditional logit of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy.linalg import LinAlgError, block_diag
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from majorant.choice.basis import NAMED, ROUNDING, may_be_collinear, of_columns, orthonormal, ridge_of
from majorant.choice.frames import LongLayout, column_of, numbers_of, refuse_none
from majorant.choice.inference import ChoiceEstimator, Polished, polished
from majorant.choice.latent_classes import (
    NEGLIGIBLE,
    Expected,
    LatentClasses,
    Panel,
    runaway_directions,
    starts,
)
from majorant.choice.sets import (
    People,
    Situations,
    flagged_largest,
    named,
    read_covariates,
    read_people,
    refuse_constant,
    refuse_nothing_to_choose,
)
from majorant.core.checks import Array, needed, whole
from majorant.core.curvature import Dense, lower_factor
from majorant.core.objective import Objective
from majorant.core.policy import QuasiNewton
from majorant.core.result import Fitted, Outcome, Result, aligned, counted, table
from majorant.core.run import minimize_from
from majorant.core.threads import sharing
from majorant.estimators import saving
from majorant.estimators.base import check_jobs, check_number, check_strength, fit_threads
from majorant.estimators.fitting import is_unwanted, warn_outside
from majorant.estimators.saving import LABELS, Field, Notes, Written, all_or_nothing, are_any, are_rising
from majorant.inference import Facts, Summary, summarise

ARRAYS = ("coef_", "membership_", "shares_", "start_log_likelihoods_", "memberships_")
SOURCES = {
    "hessian": "standard errors from the inverse Hessian of the marginal likelihood",
    "robust": "robust standard errors (sandwich over people)",
}


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
        return aligned([COLUMNS, *self._cells()], left=0)

    def _repr_html_(self) -> str:
        return table(COLUMNS, self._cells(), marked=self.fits.index(self.best))

    def _cells(self) -> list[tuple[str, ...]]:
        return [tuple(f"{v:.4f}" if isinstance(v, float) else str(v) for v in row) for row in self.rows()]


def _parameters(lengths: dict[str, int]) -> int:
    """Return the number of parameters: tastes of each class, and logits of membership in all but the first."""
    if not lengths["known"]:
        raise ValueError("the array 'membership' lacks the column of the constant")
    return lengths["classes"] * lengths["features"] + (lengths["classes"] - 1) * lengths["known"]


class LatentClassLogit(ChoiceEstimator):
    """Latent class conditional logit: every person belongs to one hidden class in all their choices.

    p_i = Σ_c π_c(z_i) Π_t P_c(y_it), with a conditional logit P_c for each class, and membership π by softmax on what
    is known of a person. Fitted by maximum likelihood from several starts: quasi-Newton steps, and at the end Newton's
    with the exact Hessian of the marginal likelihood; saddles are left. The problem is not convex: the best of the
    starts is kept, the spread of all of them reported, and nothing certifies that there is no better one.

    Parameters
    ----------
    n_classes : int
    C : float
        Inverse of an ℓ2 penalty on the coefficients of the classes; ``np.inf``, the default, for maximum likelihood.
    membership_C : float
        Inverse of an ℓ2 penalty on what covariates do to membership, ½/membership_C Σ (γ_c − γ̄)² over classes c and
        covariates (γ̄ is the mean over classes); constants are not penalised. ``np.inf``, the default, for none. Needed
        where a covariate tells the classes of all people, which a warning says.
    n_init : int
        Starts. Half of them cluster people by their tastes; the others divide people at random by what is known of them
        (if nothing is known, shares of the classes are drawn).
    tol : float
        Where to stop: what a step could gain, as a share of the log-likelihood.
    max_iter : int
        Steps of a start.
    random_state : int, RandomState or None
        Seed of the starts; None is 0.
    n_jobs : int or None
        Threads, which share the starts; all cores if −1. If None, as for :class:`~majorant.LogisticRegression`.
        Estimates are the same for any number.

    Attributes
    ----------
    coef_ : array of shape (``n_classes_``, n_features)
        Tastes of each class, the largest class first.
    membership_ : array of shape (``n_classes_`` − 1, 1 + n_covariates)
        Logits of membership in classes 2, 3, … against class 1: constant, then covariates.
    shares_ : array of shape (``n_classes_``,)
        Mean probabilities of membership.
    n_classes_ : int
        Fewer than asked for if no one is in some class.
    people_, memberships_ : arrays
        Who was fitted to, and the posterior probability of each class for each of them.
    log_likelihood_, null_log_likelihood_, aic_, bic_ : float
        BIC counts people, who are what is independent of each other.
    start_log_likelihoods_ : array of shape (n_init,)
        Where the starts ended, the penalty taken off.
    n_iter_, result_, trace_
        Of the best start: steps, why it stopped, log-likelihoods on the way.

    Examples
    --------
    >>> import numpy as np
    >>> import majorant
    >>> rng = np.random.default_rng(0)
    >>> tastes = np.repeat([[2.0, 0.0], [-2.0, 1.0]], 30, axis=0)  # sixty people, six choices of two each
    >>> X = rng.normal(size=(60, 6, 2, 2))
    >>> utility = np.einsum("itad,id->ita", X, tastes) + rng.gumbel(size=(60, 6, 2))
    >>> chosen = utility == utility.max(axis=2, keepdims=True)
    >>> trip, person = np.repeat(np.arange(360), 2), np.repeat(np.arange(60), 12)
    >>> X, chosen = X.reshape(-1, 2), chosen.ravel()
    >>> model = majorant.LatentClassLogit(2).fit(X, chosen, trip, person)
    >>> sorted(model.coef_[:, 0].round().tolist())
    [-2.0, 2.0]

    What they choose, each class by itself and both together, and who is of which class:

    >>> model.class_proba(X, trip).shape, model.predict_proba(X, trip).shape, int(model.predict(X, trip).sum())
    ((720, 2), (720,), 360)
    >>> people, posterior = model.predict_membership(X, chosen, trip, person)
    >>> bool(abs(posterior.round().mean(axis=0) - 0.5).max() < 0.1), round(model.score(X, chosen, trip, person), 1)
    (True, -2.7)

    Standard errors, and how many classes there are:

    >>> model.summary().names[:2], model.covariance().shape
    (('class 1: x0', 'class 1: x1'), (5, 5))
    >>> majorant.LatentClassLogit(n_init=2).compare([1, 2], X, chosen, trip, person).best.n_classes_
    2
    """

    coef_: Array
    membership_: Array
    shares_: Array
    _covariates: list[str]
    _features: list[str]
    _state: tuple[LatentClasses, Panel, Array] | None = None  # the model, what it was fitted to, and its parameters
    _unsaved: ClassVar[tuple[str, ...]] = ("_state",)
    _fields: ClassVar[dict[str, Field]] = {
        "coef": Field("f", ("classes", "features")),
        "membership": Field("f", (lambda lengths: lengths["classes"] - 1, "known")),
        "shares": Field("f", ("classes",)),
        "start_log_likelihoods": Field("f", ("starts",), are_any),
        "people": Field(LABELS, ("people",), are_rising),
        "memberships": Field("f", ("people", "classes")),
        "hessian": Field("f", (_parameters, _parameters)),
        "robust": Field("f", (_parameters, _parameters), are_any, needed=False),
        "basis": Field("f", (_parameters, _parameters), needed=False),
        **saving.names_fields(lambda lengths: lengths["features"] + lengths["known"] - 1),
    }

    def __init__(
        self,
        n_classes: int = 2,
        *,
        C: float = np.inf,
        membership_C: float = np.inf,
        n_init: int = 10,
        tol: float = 1e-8,
        max_iter: int = 500,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_classes = n_classes
        self.C = C
        self.membership_C = membership_C
        self.n_init = n_init
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs

    @classmethod
    def from_long(
        cls,
        df: Any,
        *,
        choice: str,
        group: str,
        person: str | None = None,
        alternative: str | None = None,
        features: Sequence[str] = (),
        by_alternative: Sequence[str] = (),
        base: Any = None,
        constants: bool | None = None,
        availability: str | None = None,
        membership: Sequence[str] = (),
        sample_weight: str | None = None,
        offset: str | None = None,
        **settings: Any,
    ) -> Self:
        """Return a model fitted to a data frame with one row for each alternative of each choice situation.

        Later calls, such as ``predict_proba``, take X with a column for each coefficient of a class.

        Parameters
        ----------
        df : data frame
            Of pandas or polars.
        person : str, optional
            The column that says who made a choice; if not given, every choice is another person's.
        membership : list of str
            Columns of what is known of people: the same in all rows of a person.
        sample_weight : str, optional
            The column of weights of people.
        choice, group, alternative, features, by_alternative, base, constants, availability, offset
            As for :meth:`~majorant.ConditionalLogit.from_long`.
        **settings
            Of the estimator, such as ``n_classes=``.

        Returns
        -------
        estimator
            Fitted.

        Examples
        --------
        >>> import pandas as pd
        >>> from majorant import LatentClassLogit
        >>> rng = np.random.default_rng(0)
        >>> row, price = np.arange(240), rng.normal(size=240)
        >>> trips = pd.DataFrame({"price": price, "trip": row // 2, "who": row // 12})
        >>> taste = np.where(trips.who % 2, 3.0, -3.0)  # of every second person the opposite
        >>> utility = (taste * trips.price + rng.gumbel(size=240)).to_numpy().reshape(-1, 2)
        >>> trips["chosen"] = (utility == utility.max(axis=1, keepdims=True)).ravel().astype(int)
        >>> columns = dict(choice="chosen", group="trip", person="who", features=["price"])
        >>> LatentClassLogit.from_long(trips, **columns, n_init=2).shares_.round(1)
        array([0.5, 0.5])
        """
        layout = LongLayout.learn(
            df, choice, group, alternative, features, by_alternative, base, constants, availability, offset
        )
        model = cls(**settings)
        with all_or_nothing(model):
            model._check_settings()
            refuse_none(layout.terms)
            model.n_features_in_ = len(layout.names)
            persons = None if person is None else column_of(df, person, "person")
            known = [numbers_of(df, name, "membership") for name in membership]
            Z = np.column_stack(known) if known else None
            weights = None if sample_weight is None else numbers_of(df, sample_weight, "sample_weight")
            table, measure = layout.situations(df), layout.measure(df)
            people = read_people(table, layout.chosen(df), persons, Z, measure, weights)
            model._fit_people(replace(people, covariates=[str(name) for name in membership]), layout.names)
        model._warn()
        return model

    def fit(
        self,
        X: Any,
        y: Any = None,
        groups: Any = None,
        persons: Any = None,
        *,
        membership: Any = None,
        offset: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """Fit to rows X, one for each alternative of each choice situation.

        Parameters
        ----------
        X, y, groups, offset
            As for :class:`~majorant.ConditionalLogit`.
        persons : array of shape (n_rows,), optional
            Who made the choice; if not given, every choice is another person's.
        membership : array or data frame of shape (n_rows, n_covariates), optional
            What is known of the person: the same for all rows of one.
        sample_weight : array of shape (n_rows,), optional
            Weights of people: the same for all rows of one.

        Returns
        -------
        estimator
            Fitted.
        """
        with all_or_nothing(self):
            self._check_settings()
            table = Situations.read(self, X, groups, reset=True)
            people = read_people(table, y, persons, membership, offset, sample_weight)
            self._fit_people(people, self._column_names())
        self._warn()
        return self

    def class_proba(self, X: Any, groups: Any, *, offset: Any = None) -> Array:
        """Return the probability of each row within its group in each class.

        Parameters
        ----------
        X, groups, offset
            As for :meth:`fit`.

        Returns
        -------
        array of shape (n_rows, ``n_classes_``)
        """
        table = self._situations(X, groups)
        sets = table.unobserved(offset)
        return table.as_given(np.stack([self._probabilities(sets, taste) for taste in self.coef_], axis=1))

    def predict_proba(
        self, X: Any, groups: Any = None, *, membership: Any = None, weights: Any = None, offset: Any = None
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
        of_classes, table = self.class_proba(X, groups, offset=offset), self._situations(X, groups)
        if weights is None:
            Z, _ = read_covariates(membership, len(of_classes), self._covariates)
            table.of_groups("membership", Z)
            logits = np.column_stack([np.ones(len(Z)), Z]) @ np.vstack([np.zeros(1 + Z.shape[1]), self.membership_]).T
            weights = np.exp(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))
        else:
            weights = np.asarray(weights, dtype=np.float64)
            if weights.shape != of_classes.shape:
                raise ValueError(f"weights must have shape {of_classes.shape}, got {weights.shape}")
            wrong = ~((weights >= 0).all(axis=1) & (np.abs(weights.sum(axis=1) - 1.0) <= NEGLIGIBLE))
            if wrong.any():
                row, given = int(wrong.argmax()), weights[wrong.argmax()].tolist()
                raise ValueError(f"weights must be probabilities of the classes, got {given} at row {row}")
            table.of_groups("weights", weights)
        return (of_classes * weights).sum(axis=1)

    def predict(self, X: Any, groups: Any = None, *, membership: Any = None, offset: Any = None) -> Array:
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
        p, table = self.predict_proba(X, groups, membership=membership, offset=offset), self._situations(X, groups)
        return table.as_given(flagged_largest(table.sorted(p), table.starts, table.sizes))

    def predict_membership(
        self, X: Any, y: Any, groups: Any, persons: Any = None, *, membership: Any = None, offset: Any = None
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
        people, expected = self._expected(X, y, groups, persons, membership, offset, None)
        return people.names, expected.posteriors

    def score(
        self,
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
        people, expected = self._expected(X, y, groups, persons, membership, offset, sample_weight)
        return float(np.average(expected.log_likelihoods, weights=people.panel.weight))

    def compare(
        self, n_classes: Iterable[int], X: Any, y: Any, groups: Any, persons: Any = None, **more: Any
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

    def covariance(self, kind: str = "hessian") -> Array:
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

        def scores() -> Array:
            assert self._state is not None
            model, panel, theta = self._state
            n, d, q = model.n_classes, panel.features.shape[1], panel.covariates.shape[1]
            of_people = model.row_gradients(model.scores(theta, panel), panel)
            return np.delete(of_people, np.s_[n * d : n * d + q], axis=1)  # without the logits of class 1

        return self._covariance(kind, tuple(SOURCES), None if self._state is None else scores)

    def summary(self, kind: str = "hessian", level: float = 0.95) -> Summary:
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
        found = self.covariance(kind)
        notes = [f"shares of the classes: {shares}", SOURCES[kind], str(self.result_)]
        if np.isfinite(self.C) or np.isfinite(self.membership_C):
            penalties = f"C = {self.C:g}, membership_C = {self.membership_C:g}"
            notes.append(f"penalised ({penalties}): estimates are drawn towards zero, and so are standard errors")
        title = f"Latent class logit, {self.n_classes_} classes"
        return summarise(title, self.param_names_, params, found, self._facts, level=level, notes=notes)

    # --- what the methods above are made of ---------------------------------------------------------------

    def _expected(
        self, X: Any, y: Any, groups: Any, persons: Any, membership: Any, offset: Any, weight: Any
    ) -> tuple[People, Expected]:
        """Return people, and what is expected of them at the estimates."""
        table = self._situations(X, groups)
        people = read_people(table, y, persons, membership, offset, weight, self._covariates)
        model, zeros = LatentClasses(len(self.coef_)), np.zeros(1 + len(self._covariates))
        theta = np.concatenate([self.coef_.ravel(), zeros, self.membership_.ravel()])
        return people, model.expect(model.scores(theta, people.panel), people.panel)

    def _check_settings(self) -> None:
        for name in ("n_classes", "n_init", "max_iter"):
            whole(name, getattr(self, name), least=1)
        check_strength(self.C)
        check_strength(self.membership_C, "membership_C")
        check_number("tol", self.tol, least=0.0)
        check_jobs(self.n_jobs)

    def _fit_people(self, people: People, names: list[str]) -> None:
        refuse_nothing_to_choose(people.panel.choices.sets)
        refuse_constant(people)
        if self.n_classes > len(people.names):
            raise ValueError(f"n_classes={self.n_classes} classes need as many people, got {len(people.names)}")
        self._features, self._covariates = names, people.covariates
        numbers = people.panel.features.size * self.n_classes * self.n_init
        with sharing(fit_threads(self.n_jobs, numbers)):
            # Columns XT and covariates ZM of about one; of columns XT that are nearly collinear, orthonormal ones.
            panel, T, M = people.in_units(names)
            if np.isinf(self.C):
                pooled = self._objective(panel, 1, T, M)
                d = panel.features.shape[1]
                H = pooled.hessian(np.zeros(pooled.size))[2].as_matrix()[:d, :d]
                other = orthonormal(panel.choices.sets, names) if may_be_collinear(H, np.zeros(d)) else None
                if other is not None:
                    panel = replace(panel, choices=replace(panel.choices, sets=other[0]))
                    T = T[:, None] * other[1]
            self._fit_panel(people, panel, T, M)

    def _objective(self, panel: Panel, classes: int, T: Array, M: Array) -> Objective:
        of_members = ridge_of(self.membership_C, np.diag(M)) * (np.arange(len(M)) > 0)  # constants are not penalised
        of_tastes = np.broadcast_to(ridge_of(self.C, T), panel.features.shape[1:])
        ridge = np.concatenate([np.tile(of_tastes, classes), np.tile(of_members, classes)])
        return Objective(LatentClasses(classes), panel, ridge=ridge)

    def _fit_panel(self, people: People, panel: Panel, T: Array, M: Array) -> None:
        # The decrease of a step is predicted in the metric of a diagonal, hence the smaller tolerance.
        limits: dict[str, Any] = {"tol": 1e-3 * self.tol, "max_steps": self.max_iter, "saddles": self.max_iter}

        # One class, which has one optimum; then as many as were asked for, from several starts.
        F, d = self._objective(panel, 1, T, M), panel.features.shape[1]
        null = F.value_at_zero()
        runs = minimize_from(F, QuasiNewton(), [np.zeros(F.size)], **limits)
        if self.n_classes > 1:
            found = polished(F, Fitted.of(runs.best))
            assert found.hessian is not None
            seed = 0 if self.random_state is None else int(check_random_state(self.random_state).randint(2**31))
            begin = starts(panel, found.theta[:d], found.hessian[:d, :d], self.n_classes, self.n_init, seed)
            F = self._objective(panel, self.n_classes, T, M)
            runs = minimize_from(F, QuasiNewton(), begin, **limits)
        fitted, ends = Fitted.of(runs.best), runs.objectives

        # The largest class first. Classes that no one is in are left out, and the others fitted again.
        while True:
            model, theta = LatentClasses(F.size // (d + len(M))), fitted.params
            expected = model.expect(model.scores(theta, panel), panel)
            shares = panel.weight @ expected.priors / panel.weight.sum()
            order = np.argsort(-shares, kind="stable")
            full = order[shares[order] > NEGLIGIBLE]
            theta = np.concatenate([part[full].ravel() for part in model.split(theta, panel)])
            if len(full) == model.n_classes:
                fitted = replace(fitted, params=theta)
                break
            F = self._objective(panel, len(full), T, M)
            fitted = Fitted.of(minimize_from(F, QuasiNewton(), [theta], **limits).best)
        self._publish(people, F, fitted, ends, null, T, M)

    def _publish(
        self, people: People, F: Objective, fitted: Fitted, ends: Array, null: float, T: Array, M: Array
    ) -> None:
        panel, found = F.data, polished(F, fitted)
        model, d, q = F.model, len(T), len(M)
        assert isinstance(panel, Panel)
        assert isinstance(model, LatentClasses)
        assert found.hessian is not None
        n, theta = model.n_classes, found.theta
        expected = model.expect(model.scores(theta, panel), panel)
        tastes, membership = model.split(theta, panel)
        self.coef_, self.membership_ = of_columns(T, tastes), of_columns(M, membership[1:] - membership[0])
        self.n_classes_, self.people_, self.memberships_ = n, people.names, expected.posteriors
        self.shares_ = panel.weight @ expected.priors / panel.weight.sum()

        # Of membership all but class 1 are parameters; a ridge on logits is one on what they differ from their mean.
        own = np.r_[0 : n * d, n * d + q : F.size]
        H = found.hessian[np.ix_(own, own)]
        H[n * d :, n * d :] -= np.kron(np.full((n - 1, n - 1), 1.0 / n), np.diag(F.ridge[n * d : n * d + q]))
        self._hessian, self._state, self._robust = H, (model, panel, theta), None
        self._basis = block_diag(*[np.diag(T) if T.ndim == 1 else T] * n, *[M] * (n - 1))
        self.log_likelihood_, self.null_log_likelihood_ = float(panel.weight @ expected.log_likelihoods), -null
        self.start_log_likelihoods_ = -ends
        self._facts = Facts(self.log_likelihood_, -null, float(panel.weight.sum()), len(H), unit="people")
        self.aic_, self.bic_ = self._facts.aic, self._facts.bic
        self.param_names_ = self._names()
        self.n_iter_, self.trace_ = fitted.steps, fitted.trace
        self.result_ = self._told(F, fitted, found, expected, ends, T)

    def _told(self, F: Objective, fitted: Fitted, found: Polished, expected: Expected, ends: Array, T: Array) -> Result:
        """Return the outcome, and a sentence: of the gradient, the starts, the curvature, and estimates without end."""
        model, panel, H, gradient = F.model, F.data, found.hessian, found.gradient
        assert isinstance(model, LatentClasses)
        assert isinstance(panel, Panel)
        assert H is not None
        assert gradient is not None
        n, asked = model.n_classes, self.n_classes

        # Nothing is left to gain if a Newton step promises next to nothing, whatever the run says in another metric.
        decrement = float(gradient @ Dense(H, majorizes=False).solve(gradient))
        if decrement <= max(self.tol, ROUNDING) * max(abs(found.value), 1.0):
            outcome, how = Outcome.CONVERGED if asked == 1 else Outcome.STATIONARY, "stationary after"
        elif fitted.result.outcome is Outcome.STEP_LIMIT:
            outcome, how = Outcome.STEP_LIMIT, "stopped at the limit of"
        else:
            outcome, how = Outcome.STALLED, "stalled after"
        gradient_said = f": the gradient is {np.sqrt(max(decrement, 0.0)):.1e} in the metric of the Hessian"
        sentences = ""
        if asked > 1:
            same = int((ends - ends.min() <= NEGLIGIBLE * max(abs(ends.min()), 1.0)).sum())
            span = f"{-ends.max():.3f} to {-ends.min():.3f}"
            sentences += f"; best of {len(ends)} starts, {same} of which ended there (log-likelihoods from {span})"
            metric = F.metric(F.point(found.theta))
            scale = np.sqrt(np.maximum(metric, np.sqrt(np.finfo(np.float64).eps) * metric.max()))
            try:
                lower_factor(H / np.outer(scale, scale) + NEGLIGIBLE * np.eye(len(H)))
                sentences += "; no curvature is negative there, but the likelihood is not concave: "
                sentences += "nothing certifies that there is no better maximum"
            except LinAlgError:
                sentences += "; it is a saddle: the likelihood is not concave, and another start may lead further"
        if n < asked:
            sentences += f"; {asked - n} of {asked} classes had no one in them"
        endless = self._without_end(model, panel, expected, T)
        if endless:
            outcome, how = Outcome.UNBOUNDED, "stopped after"
        sentence = f"{how} {counted(fitted.steps, 'step')}{gradient_said}{sentences}{endless}"
        return Result(outcome, sentence, float("nan"))

    def _without_end(self, model: LatentClasses, panel: Panel, expected: Expected, T: Array) -> str:
        """Return a sentence on the classes with infinite tastes and the covariates that separate membership."""
        clauses, remedy = "", "use a finite C, or ask for fewer classes"
        *of_tastes, of_membership = runaway_directions(model, expected, panel)
        if np.isinf(self.C):
            # Classes whose tastes explain completely what their people chose.
            members = panel.weight[:, None] * expected.posteriors
            totals = np.maximum(members.sum(axis=0), np.finfo(float).tiny)
            complete = np.flatnonzero(-(members * expected.log_choices).sum(axis=0) / totals <= NEGLIGIBLE).tolist()
            found = [(c, _named(lost, T)) for c, lost in enumerate(of_tastes)]
            partly = [
                f"{' and '.join(named(self._features[column]) for column in columns[:10])} in class {c + 1}"
                for c, columns in found
                if len(columns)
            ]
            if complete:
                clauses += (
                    f"; choices of class {', '.join(str(c + 1) for c in complete)} are completely separated, so the "
                    f"likelihood grows for ever as its coefficients do; {remedy}"
                )
            elif partly:
                clauses += (
                    "; choices are quasi-completely separated, as far as can be told, along "
                    f"{', '.join(partly)}: coefficients there have no end; {remedy}"
                )
        if np.isinf(self.membership_C) and model.n_classes > 1:
            by_covariate = np.abs(of_membership).reshape(model.n_classes - 1, panel.covariates.shape[1], -1).max(axis=0)
            # The constant is none: a class that loses everyone is left out.
            which = [named(self._covariates[j - 1]) for j in _named(by_covariate) if j > 0]
            if which:
                clauses += (
                    f"; membership is separated by {' and '.join(which[:10])}, as far as can be told: it decides who "
                    "is of which class, so the likelihood grows for ever as its coefficients of membership do; use a "
                    "finite membership_C, or leave it out"
                )
        return clauses

    def _warn(self) -> None:
        if is_unwanted(self.result_, 0.0):
            warn_outside(f"{self.result_}.", ConvergenceWarning)

    def _names(self) -> list[str]:
        classes = range(1, self.n_classes_ + 1)
        tastes = [f"class {c}: {name}" for c in classes for name in self._features]
        known = ["(Intercept)", *self._covariates]
        return tastes + [f"membership {c}: {name}" for c in classes if c > 1 for name in known]

    def _written(self, notes: Notes) -> Written:
        facts, arrays = self._common(notes)
        arrays |= {name.rstrip("_"): getattr(self, name) for name in ARRAYS} | {"people": saving.plain(self.people_)}
        arrays |= saving.packed([*self._features, *self._covariates])
        return facts | {"features": len(self._features)}, arrays

    def _restore(self, path: Any, facts: dict[str, Any], arrays: dict[str, Array]) -> None:
        for name in ARRAYS:
            setattr(self, name, arrays[name.rstrip("_")])
        names, count = saving.unpacked(arrays), self.coef_.shape[1]
        self._features, self._covariates, self.people_ = names[:count], names[count:], arrays["people"]
        self._restore_common(facts, arrays, self._features, len(arrays["hessian"]))
        self.aic_, self.bic_ = self._facts.aic, self._facts.bic
        self.n_classes_ = len(self.coef_)
        self.param_names_ = self._names()


def _named(directions: Array, T: Array | None = None) -> Array:
    """Return the columns that directions consist of; features are columns XT, if T is a matrix."""
    if T is not None and T.ndim == 2:
        directions = (T @ directions) * np.linalg.norm(np.linalg.inv(T), axis=0)[:, None]
    sizes = np.abs(directions)
    return np.flatnonzero((sizes > NAMED * sizes.max(axis=0, initial=0.0)).any(axis=1))

"""Latent class models as files.

Latent class models from long data frames, pandas or polars.

``LatentClassLogit``: people of hidden classes, each with a conditional logit of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy.linalg import block_diag
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from majorant.choice.basis import may_be_collinear, of_columns, orthonormal, ridge_of
from majorant.choice.conditional_logit import facts_from
from majorant.choice.frames import LongLayout, column_of, numbers_of, refuse_none
from majorant.choice.latent_class_fit import Found, fit_from, one_class, starts, without_empty
from majorant.choice.latent_class_result import ByClasses, LatentInference, LatentPrediction, told
from majorant.choice.latent_classes import LatentClasses, Panel, Parameters
from majorant.choice.sets import People, Situations, read_people, refuse_constant, refuse_nothing_to_choose
from majorant.core.checks import Array, whole
from majorant.core.result import Result
from majorant.core.threads import mapped, sharing
from majorant.estimators import saving
from majorant.estimators.base import Estimator, check_jobs, check_number, check_strength, fit_threads
from majorant.estimators.fitting import is_unwanted, warn_outside
from majorant.estimators.saving import LABELS, Field, Notes, Saved, Written, all_or_nothing, are_any, are_rising
from majorant.inference import Facts

ARRAYS = ("coef_", "membership_", "shares_", "start_log_likelihoods_", "memberships_")


def _parameters(lengths: dict[str, int]) -> int:
    """Return how many parameters there are: tastes of each class, and logits of membership in all but the first."""
    if not lengths["known"]:
        raise ValueError("the array 'membership' lacks the column of the constant")
    return lengths["classes"] * lengths["features"] + (lengths["classes"] - 1) * lengths["known"]


class LatentFiles(Saved):
    """``save`` and ``load``, for latent classes."""

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

    def _written(self: Any, notes: Notes) -> Written:
        arrays = {name.rstrip("_"): getattr(self, name) for name in ARRAYS}
        arrays |= {"hessian": self._hessian, "people": saving.plain(self.people_)}
        if self._basis is not None:
            arrays["basis"] = self._basis
        arrays |= saving.packed([*self._features, *self._covariates])
        if self._state is not None or self._robust is not None:
            arrays["robust"] = self.covariance("robust")
        facts = saving.facts_of(self, notes) | {"facts": asdict(self._facts), "features": len(self._features)}
        facts["named_columns"] = hasattr(self, "feature_names_in_")
        return facts, arrays

    def _restore(self: Any, path: Any, facts: dict[str, Any], arrays: dict[str, Array]) -> None:
        saving.restore_ending(self, facts)
        for name in ARRAYS:
            setattr(self, name, arrays[name.rstrip("_")])
        names, count = saving.unpacked(arrays), self.coef_.shape[1]
        self._features, self._covariates = names[:count], names[count:]
        self.people_, self._hessian, self._robust = arrays["people"], arrays["hessian"], arrays.get("robust")
        self._basis = arrays.get("basis")
        self._facts = facts_from(saving.fact(facts, "facts", dict), len(self._hessian))
        self.log_likelihood_ = self._facts.log_likelihood
        self.null_log_likelihood_ = self._facts.null_log_likelihood
        self.aic_, self.bic_ = self._facts.aic, self._facts.bic
        self.n_classes_, self.n_features_in_ = len(self.coef_), count
        self.param_names_ = self._names()
        if saving.fact(facts, "named_columns", bool):
            self.feature_names_in_ = saving.names_of(self._features)


class LatentFrames:
    """``from_long``, for latent classes."""

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
            df,
            choice=choice,
            group=group,
            alternative=alternative,
            features=features,
            by=by_alternative,
            base=base,
            constants=constants,
            availability=availability,
            offset=offset,
        )
        return cls(**settings)._fit_frame(layout, df, person, membership, sample_weight)

    def _fit_frame(
        self: Any, layout: LongLayout, df: Any, person: str | None, membership: Sequence[str], weight: str | None
    ) -> Any:
        with all_or_nothing(self):
            self._check_settings()
            refuse_none(layout.terms)
            self.n_features_in_ = len(layout.names)
            self._fit_people(_people(layout, df, person, membership, weight), layout.names)
        self._warn()
        return self


def _people(layout: LongLayout, df: Any, person: str | None, membership: Sequence[str], weight: str | None) -> People:
    """Return who chose what."""
    persons = None if person is None else column_of(df, person, "person")
    known = [numbers_of(df, name, "membership") for name in membership]
    weights = None if weight is None else numbers_of(df, weight, "sample_weight")
    Z = np.column_stack(known) if known else None
    people = read_people(layout.situations(df), layout.chosen(df), persons, Z, layout.measure(df), weights)
    return replace(people, covariates=[str(name) for name in membership])


class LatentClassLogit(
    LatentPrediction,
    LatentInference,
    ByClasses,
    LatentFiles,
    LatentFrames,
    Estimator,
):
    """Latent class conditional logit: every person belongs to one hidden class in all their choices.

    p_i = Σ_c π_c(z_i) Π_t P_c(y_it), with a conditional logit P_c for each class, and membership π by softmax on what
    is known of a person. Fitted by maximum likelihood from several starts: bounds first, which never raise the loss,
    then Newton's steps with the exact Hessian of the marginal likelihood (of more than 1,000 parameters quasi-Newton
    steps from the beginning); saddles are left. The problem is not convex: the best of the starts is kept, the spread
    of all of them reported, and nothing certifies that there is no better one.

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
        Newton's decrement at which to stop.
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
    param_names_: list[str]
    shares_: Array
    result_: Result
    n_iter_: int
    _facts: Facts
    _covariates: list[str]
    _features: list[str]
    _hessian: Array  # of the columns and covariates that were fitted to
    _basis: Array | None = None  # what makes parameters of theirs; None if they are the same
    _robust: Array | None = None  # of a loaded model
    _state: LatentClasses | None = None  # files and pickles do not hold it

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
            names = getattr(self, "feature_names_in_", [f"x{i}" for i in range(self.n_features_in_)])
            self._fit_people(people, [str(name) for name in names])
        self._warn()
        return self

    # --- what the methods above are made of ---------------------------------------------------------------

    def _check_settings(self) -> None:
        for name in ("n_classes", "n_init", "max_iter"):
            whole(name, getattr(self, name), least=1)
        check_strength(self.C)
        check_strength(self.membership_C, "membership_C")
        check_number("tol", self.tol, least=0.0)
        check_jobs(self.n_jobs)

    def _fit_people(self, people: People, names: list[str]) -> None:
        refuse_nothing_to_choose(people.panel.sample.sets)
        refuse_constant(people)
        if self.n_classes > len(people.names):
            raise ValueError(f"n_classes={self.n_classes} classes need as many people, got {len(people.names)}")
        self._features, self._covariates = names, people.covariates
        numbers = people.panel.features.size * self.n_classes * self.n_init
        with sharing(fit_threads(self.n_jobs, numbers)):
            self._fit_panel(people)

    def _warn(self) -> None:
        if is_unwanted(self.result_, 0.0):
            warn_outside(f"{self.result_}.", ConvergenceWarning)

    def _fit_panel(self, people: People) -> None:
        panel, T, M = people.in_units(self._features)
        settings: dict[str, Any] = {"tol": self.tol, "max_iter": self.max_iter}
        if np.isinf(self.C):
            panel, T = self._independent(panel, T)
        members = ridge_of(self.membership_C, np.diag(M)) * (np.arange(len(M)) > 0)  # constants are not penalised
        pooled = one_class(panel, ridge_of(self.C, T), members, **settings)
        if self.n_classes == 1:
            found = [pooled]
        else:
            each = starts(pooled.state, self.n_classes, self.n_init, self._seed())
            found = mapped(lambda start: fit_from(start, **settings), each)
        ends = np.array([one.state.loss for one in found])
        best = without_empty(found[int(ends.argmin())], **settings)
        self._publish(people, best, -ends, pooled.losses[0], T, M)

    def _independent(self, panel: Panel, T: Array) -> tuple[Panel, Array]:
        """Return a panel whose columns XT are not nearly collinear, and T; columns that are collinear are refused."""
        d, q = panel.features.shape[1], panel.covariates.shape[1]
        zero = LatentClasses(panel, Parameters(np.zeros((1, d)), np.zeros((1, q))))
        other = None
        if may_be_collinear(zero.hessian, np.zeros(d)):
            other = orthonormal(panel.sample.sets, self._features)
        if other is None:
            return panel, T
        return replace(panel, sample=replace(panel.sample, sets=other[0])), T[:, None] * other[1]

    def _publish(self, people: People, best: Found, ends: Array, null: float, T: Array, M: Array) -> None:
        state = best.state
        self._state, self._robust = state, None
        self.coef_, self.membership_ = of_columns(T, state.at.tastes), of_columns(M, state.at.membership[1:])
        self.n_classes_, self.shares_ = len(state), state.shares
        self.people_, self.memberships_ = people.names, state.posteriors
        self._hessian = state.hessian
        self._basis = block_diag(*[np.diag(T) if T.ndim == 1 else T] * len(state), *[M] * (len(state) - 1))
        self.log_likelihood_ = float(people.panel.weight @ state.log_likelihoods)
        self.null_log_likelihood_, self.start_log_likelihoods_ = -null, ends
        self._facts = Facts(
            self.log_likelihood_, -null, float(people.panel.weight.sum()), state.at.flat().size, unit="people"
        )
        self.aic_, self.bic_ = self._facts.aic, self._facts.bic
        self.param_names_ = self._names()
        self.n_iter_ = len(best.losses) - 1
        self.trace_ = {"step": np.arange(len(best.losses)), "objective": np.array(best.losses)}
        self.result_ = told(
            best, ends, self._features, self._covariates, T, asked=self.n_classes, tol=self.tol, max_iter=self.max_iter
        )

    def _names(self) -> list[str]:
        classes = range(1, self.n_classes_ + 1)
        tastes = [f"class {c}: {name}" for c in classes for name in self._features]
        known = ["(Intercept)", *self._covariates]
        return tastes + [f"membership {c}: {name}" for c in classes if c > 1 for name in known]

    def _seed(self) -> int:
        return 0 if self.random_state is None else int(check_random_state(self.random_state).randint(2**31))

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_state"}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags

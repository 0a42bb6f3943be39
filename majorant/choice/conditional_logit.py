"""``ConditionalLogit``: discrete choice by maximum likelihood, with what econometricians ask of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import NoneType
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from majorant.callbacks import Fit, ProgressLine
from majorant.choice.basis import (
    ROUNDING,
    elasticity_table,
    errors_of_columns,
    in_units,
    may_be_collinear,
    observation_scores,
    of_columns,
    orthonormal,
    refuse_collinear,
    ridge_of,
)
from majorant.choice.enumerated import Enumerated
from majorant.choice.frames import (
    FrameLayout,
    LongLayout,
    WideLayout,
    as_json,
    layout_from,
    refuse_none,
)
from majorant.choice.inference import ChoiceEstimator, Polished, curved, polished, variances_of
from majorant.choice.sets import Situations, flagged_largest, refuse_missing, refuse_nothing_to_choose
from majorant.core import certificates, separation
from majorant.core.certificates import Certificate, KnownHessian
from majorant.core.checks import Array, one_of, whole
from majorant.core.choices import Choices, Sample
from majorant.core.line_search import Point
from majorant.core.matrix import DenseDesign
from majorant.core.objective import Objective
from majorant.core.penalty import ElasticNet
from majorant.core.policy import QuasiNewton
from majorant.core.proximal_newton import ProximalNewton
from majorant.core.result import Fitted, Outcome, Result, about_separation, about_the_gap, counted
from majorant.core.rows import Threads
from majorant.core.solver import LBFGS, BatchMajorization, Newton
from majorant.core.structured import Arrow
from majorant.core.threads import sharing, threads
from majorant.estimators import saving
from majorant.estimators.base import check_jobs, check_number, check_strength, fit_threads
from majorant.estimators.fitting import STUCK, errors_of, is_unwanted, publish, run, warn
from majorant.estimators.saving import Field, Notes, Written, all_or_nothing, are_any, are_counts
from majorant.inference import (
    KINDS,
    Derived,
    Facts,
    LikelihoodRatio,
    Summary,
    likelihood_ratio,
    ratio,
    summarise,
)
from majorant.likelihood import Firth, Likelihood, profile_interval, stationary_point
from majorant.resampling import Bootstrap, Observations, Replicate, bootstrap

SOURCES = {
    "hessian": "standard errors from the inverse Hessian",
    "robust": "robust standard errors (sandwich over choice situations)",
    "cluster": "standard errors robust to dependence within clusters",
}
SOLVERS = ("auto", "newton", "bbm", "lbfgs")
# Of so many parameters a Hessian costs about as much as a few passes over usual data: Newton's steps are then the best.
FEW = 300


class ConditionalLogit(ChoiceEstimator):
    """Conditional (multinomial) logit: p(a | situation) = exp(θᵀx_a) / Σ_b exp(θᵀx_b), by maximum likelihood.

    Data are in long format: one row of X for each available alternative of each choice situation. Situations may
    have any number of alternatives, and their rows may stand anywhere. Equal choice sets are put together.

    Parameters
    ----------
    C : float
        Inverse of a penalty; ``np.inf``, the default, for maximum likelihood.
    l1_ratio : float
        Which share of the penalty is ℓ1, as in :class:`~majorant.LogisticRegression`: with 1 and a finite C most
        coefficients are zero. Up to 2,000 coefficients; there are no standard errors then.
    penalty : "firth" or None
        "firth" is Jeffreys' prior, with ``C=np.inf``: estimates are less biased, and finite where choices are
        separated.
    solver : {"auto", "newton", "bbm", "lbfgs"}
        "auto" makes Newton's steps with the exact Hessian if parameters are few, else quasi-Newton steps; "bbm" is
        batch majorization.
    tol : float
        Where to stop: the gradient relative to the one at zero, or with a penalty the certified distance from the
        optimum. With Newton's steps the last ones are made to machine precision.
    max_iter : int
        Steps.
    n_jobs : int or None
        Threads, as in :class:`~majorant.LogisticRegression`.
    verbose : int
        1 shows a line of progress on standard error.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
    param_names_ : list of str
        What the coefficients belong to.
    log_likelihood_, null_log_likelihood_ : float
        At the estimates, and at zero.
    n_groups_ : int
        Choice situations.
    coef_error_ : array of shape (n_features,)
        How far each coefficient is from that of the exact optimum, at most; infinite where nothing is known.
    n_iter_, result_, gap_, trace_
        As in :class:`~majorant.LogisticRegression`.

    Examples
    --------
    A hundred travellers choose between three trips; columns are price and hours.


    >>> import numpy as np
    >>> import majorant
    >>> rng = np.random.default_rng(0)
    >>> X, traveller = rng.uniform(1, 5, size=(300, 2)), np.repeat(np.arange(100), 3)
    >>> utility = (X @ [-0.5, -1.0] + rng.gumbel(size=300)).reshape(100, 3)
    >>> chosen = (utility == utility.max(axis=1, keepdims=True)).ravel()
    >>> model = majorant.ConditionalLogit().fit(X, chosen, traveller)
    >>> model.predict_proba(X, traveller)[:3].round(2), model.predict(X, traveller)[:3]
    (array([0.18, 0.8 , 0.02]), array([0, 1, 0]))
    >>> round(model.score(X, chosen, traveller), 2)  # a guess between three: log 1/3 = -1.10
    -0.84

    What the estimates are worth, and what one more hour is worth in money:

    >>> model.coef_.round(2), model.summary().std_errors.round(2), np.sqrt(np.diag(model.covariance("robust"))).round(2)
    (array([-0.23, -0.91]), array([0.13, 0.15]), array([0.14, 0.14]))
    >>> hour = model.wtp("x1", cost="x0")
    >>> round(hour.estimate, 1), [round(end, 1) for end in hour.interval(0.95)]
    (-3.9, [-8.1, 0.4])

    >>> model.conf_int().round(2), model.bootstrap(100).std_errors.round(2)
    (array([[-0.48,  0.03],
           [-1.23, -0.62]]), array([0.14, 0.16]))

    By how many percent a trip is chosen less if its price rises by one, and others more; whether price matters at all:

    >>> model.elasticities("x0", X, traveller)[0].round(2)
    array([-0.68,  0.15])
    >>> model.likelihood_ratio_test(majorant.ConditionalLogit().fit(X[:, 1:], chosen, traveller)).degrees
    1
    """

    coef_: Array
    coef_error_: Array
    gap_: float
    n_groups_: int
    _variances: Array | None = None  # where the Hessian is too large
    _sample: Sample | None = None  # what was fitted to
    _table: Situations | None = None
    _layout: FrameLayout | None = None  # of the data frame that was fitted to
    _unsaved: ClassVar[tuple[str, ...]] = ("_sample", "_table")
    _fields: ClassVar[dict[str, Field]] = {
        "coef": Field("f", ("parameters",)),
        "coef_error": Field("f", ("parameters",), are_counts, needed=False),  # older files have none
        **saving.names_fields("parameters"),
        "variances": Field("f", ("parameters",), are_any, needed=False),
        "hessian": Field("f", ("parameters", "parameters"), needed=False),
        "robust": Field("f", ("parameters", "parameters"), are_any, needed=False),
        "basis": Field("f", ("parameters", "parameters"), needed=False),
    }

    def __init__(
        self,
        *,
        C: float = np.inf,
        l1_ratio: float = 0.0,
        penalty: str | None = None,
        solver: str = "auto",
        tol: float = 1e-8,
        max_iter: int = 1000,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.l1_ratio = l1_ratio
        self.penalty = penalty
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.verbose = verbose

    @classmethod
    def from_long(
        cls,
        df: Any,
        *,
        choice: str,
        group: str,
        alternative: str | None = None,
        features: Sequence[str] = (),
        by_alternative: Sequence[str] = (),
        base: Any = None,
        constants: bool | None = None,
        availability: str | None = None,
        sample_weight: str | None = None,
        offset: str | None = None,
        **settings: Any,
    ) -> Self:
        """Return a model fitted to a data frame with one row for each alternative of each choice situation.

        Parameters
        ----------
        df : data frame
            Of pandas or polars.
        choice, group, alternative : str
            Columns: 1 (or True) where a row was chosen, the choice situation, and which alternative a row is.
        features : list of str
            Columns with one coefficient for all alternatives.
        by_alternative : list of str
            Columns with a coefficient for each alternative; of one that is constant within every group (an income,
            say) for each but the base.
        base : label, optional
            The alternative that others are compared with; the first if not given.
        constants : bool, optional
            Whether alternatives but the base have a constant; if not given, they do where ``alternative`` is.
        availability, sample_weight, offset : str, optional
            Columns: 0 where an alternative was not available, weights of situations, numbers added to θᵀx.
        **settings
            Of the estimator, such as ``C=``.

        Returns
        -------
        estimator
            Fitted; from now on it takes data frames like this one.

        Examples
        --------
        >>> import pandas as pd
        >>> from majorant import ConditionalLogit
        >>> trips = pd.DataFrame(
        ...     {
        ...         "trip": [1, 1, 2, 2, 3, 3, 4, 4],
        ...         "mode": ["car", "bus"] * 4,
        ...         "price": [9, 4, 8, 2, 7, 6, 5, 4],
        ...         "chosen": [1, 0, 0, 1, 1, 0, 0, 1],
        ...     }
        ... )
        >>> columns = dict(choice="chosen", group="trip", alternative="mode", features=["price"])
        >>> model = ConditionalLogit.from_long(trips, **columns)
        >>> model.param_names_, model.predict(trips)
        (['(Intercept):car', 'price'], array([0, 1, 0, 1, 1, 0, 1, 0]))
        """
        layout = LongLayout.learn(
            df, choice, group, alternative, features, by_alternative, base, constants, availability, offset
        )
        return cls(**settings)._fit_frame(layout, df, sample_weight)

    @classmethod
    def from_wide(
        cls,
        df: Any,
        *,
        choice: str,
        alternatives: Any,
        varying: Mapping[str, Mapping[Any, Any]] | None = None,
        by_alternative: Sequence[str] = (),
        fixed: Sequence[str] = (),
        availability: Mapping[Any, str] | None = None,
        base: Any = None,
        constants: bool = True,
        sample_weight: str | None = None,
        **settings: Any,
    ) -> Self:
        """Return a model fitted to a data frame with one row for each choice situation.

        Situations that look alike are written out once, however many there are.

        Parameters
        ----------
        df : data frame
            Of pandas or polars.
        choice : str
            The column that says what was chosen.
        alternatives : list, or dict
            What may be chosen, as that column has it; a dict gives names to the alternatives.
        varying : dict of dicts, optional
            For the name of each coefficient, and each alternative that it is for, a column, or a number where all
            situations are alike: ``{"time": {"car": "CAR_TT", "train": "TRAIN_TT"}}``.
        by_alternative : list of str
            Names in ``varying`` with a coefficient for each alternative instead of one for all.
        fixed : list of str
            Columns that describe the situation or the person: a coefficient for each alternative but the base.
        availability : dict, optional
            For alternatives that are not always available, the column that is 0 where they are not.
        base : label, optional
            The alternative that others are compared with; the first if not given.
        constants : bool
            Whether alternatives but the base have a constant.
        sample_weight : str, optional
            The column of weights.
        **settings
            Of the estimator, such as ``C=``.

        Returns
        -------
        estimator
            Fitted; from now on it takes data frames like this one.

        Examples
        --------
        >>> import pandas as pd
        >>> from majorant import ConditionalLogit
        >>> trips = pd.DataFrame({"went": ["car", "bus"] * 2, "car_price": [9, 8, 7, 5], "bus_price": [4, 2, 6, 4]})
        >>> price = {"car": "car_price", "bus": "bus_price"}
        >>> model = ConditionalLogit.from_wide(trips, choice="went", alternatives=list(price), varying={"price": price})
        >>> model.param_names_, model.predict_proba(trips).shape
        (['(Intercept):bus', 'price'], (4, 2))
        """
        layout = WideLayout.learn(
            choice, alternatives, varying or {}, by_alternative, fixed, availability or {}, base, constants
        )
        return cls(**settings)._fit_frame(layout, df, sample_weight)

    def _fit_frame(self, layout: FrameLayout, df: Any, weight: str | None) -> Self:
        with all_or_nothing(self):
            self._check_settings()
            refuse_none(layout.terms)
            sample, table = layout.sample(df, weight)
            self.n_features_in_ = len(layout.names)
            self._fit_sample(sample, layout.names)
            self._layout, self._table = layout, None if table is None else replace(table, X=None)
        return self

    def fit(self, X: Any, y: Any = None, groups: Any = None, *, offset: Any = None, sample_weight: Any = None) -> Self:
        """Fit to rows X, one for each alternative.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n_rows, n_features)
        y : array of shape (n_rows,)
            1 or True at the chosen row of each group, or shares that sum to one in each.
        groups : array of shape (n_rows,)
            The choice situation of each row. One with a single alternative adds nothing to the log-likelihood.
        offset : array of shape (n_rows,), optional
            Added to θᵀx; -inf for an alternative that is not available.
        sample_weight : array of shape (n_rows,), optional
            Weights of the situations: the same for all rows of one.

        Returns
        -------
        estimator
            Fitted.
        """
        with all_or_nothing(self):
            self._check_settings()
            table = Situations.read(self, X, groups, reset=True)
            data = table.choices(y, offset, sample_weight)
            self._layout = None
            self._fit_sample(Sample.of(data), self._column_names())
            self._table = replace(table, X=None)
        return self

    def predict_proba(self, X: Any, groups: Any = None, *, offset: Any = None) -> Array:
        """Return the probability of each row within its group.

        A model that was made by :meth:`from_long` or :meth:`from_wide` takes a data frame like its own instead.

        Parameters
        ----------
        X, groups, offset
            As for :meth:`fit`, or a data frame alone.

        Returns
        -------
        array of shape (n_rows,)
            Of a wide data frame, a row for each of its rows and a column for each alternative.
        """
        check_is_fitted(self, "coef_")
        if groups is None and isinstance(self._layout, WideLayout):
            return self._of_wide(X, self._layout, offset)
        table, sets = self._sets(X, groups, offset)
        return table.as_given(self._probabilities(sets, self.coef_))

    def predict(self, X: Any, groups: Any = None, *, offset: Any = None) -> Array:
        """Return which row of each group is likeliest.

        Parameters
        ----------
        X, groups, offset
            As for :meth:`fit`, or a data frame alone.

        Returns
        -------
        array of shape (n_rows,)
            1 for the likeliest row of each group, 0 for the others; of a wide data frame, the alternative.
        """
        check_is_fitted(self, "coef_")
        if groups is None and isinstance(self._layout, WideLayout):
            return np.array(self._layout.values)[self._of_wide(X, self._layout, offset).argmax(axis=1)]
        table, sets = self._sets(X, groups, offset)
        return table.as_given(flagged_largest(self._probabilities(sets, self.coef_), table.starts, table.sizes))

    def score(
        self, X: Any, y: Any = None, groups: Any = None, *, offset: Any = None, sample_weight: Any = None
    ) -> float:
        """Return the mean log-likelihood of a choice situation.

        A model that was made by :meth:`from_long` or :meth:`from_wide` takes a data frame like its own instead.

        Parameters
        ----------
        X, y, groups, offset
            As for :meth:`fit`, or a data frame alone.
        sample_weight : array of shape (n_rows,), optional
            Weights of situations; of a data frame, the name of their column.

        Returns
        -------
        float
            At most 0.
        """
        check_is_fitted(self, "coef_")
        if groups is None and y is None and self._layout is not None:
            _refuse_offset(offset)
            data = self._layout.sample(X, sample_weight)[0].sets
        else:
            data = self._situations(X, groups).choices(y, offset, sample_weight)
        model = Enumerated()
        total = len(data) if data.weight is None else data.weight.sum()
        return -model.loss(model.scores(self.coef_, data), data) / float(total)

    def covariance(self, kind: str = "hessian", cluster: Any = None) -> Array:
        """Return the covariance of the coefficients, from analytic derivatives.

        Parameters
        ----------
        kind : {"hessian", "robust", "cluster"}
            The inverse Hessian, the sandwich over choice situations, or over clusters of them (with the factor
            G/(G − 1) of G clusters, as usual).
        cluster : array, optional
            With "cluster": what each row of the fit, or each choice situation, belongs to, such as a person.

        Returns
        -------
        array of shape (d, d)
            In the order of ``param_names_``.
        """
        check_is_fitted(self, "coef_")
        self._refuse_l1()
        if self.penalty == "firth" and kind != "hessian":
            raise ValueError(f"kind must be 'hessian' with penalty='firth', got {kind!r}")
        if self._hessian is None:
            errors = "there are no standard errors" if self._variances is None else "summary() has standard errors"
            raise ValueError(f"{len(self.coef_)} parameters are too many for a covariance matrix: {errors}")
        if self._sample is None:
            return self._covariance(kind, KINDS, None)
        T, sample, theta, clusters = self._basis, self._sample, self.coef_, None
        if cluster is not None and kind == "cluster":
            clusters = np.asarray(cluster)
            if clusters.ndim == 1:
                refuse_missing("cluster", clusters, "what each row, or each choice situation, belongs to", "position")
            if self._table is not None and clusters.shape != (len(sample),):
                clusters = self._table.of_groups("cluster", clusters)

        def scores() -> Array:
            of_columns = observation_scores(sample, theta)
            return of_columns if T is None else of_columns * T if T.ndim == 1 else of_columns @ T

        return self._covariance(kind, KINDS, scores, clusters)

    def summary(self, kind: str = "hessian", cluster: Any = None, level: float = 0.95) -> Summary:
        """Return the table of estimates, standard errors, z, p and intervals, and what is said of the fit.

        Parameters
        ----------
        kind, cluster
            Where standard errors come from, as for :meth:`covariance`.
        level : float
            Of the confidence intervals.

        Returns
        -------
        Summary
            Printed it is text, notebooks show HTML, ``to_frame()`` returns a pandas data frame.
        """
        self._refuse_l1()
        alone = self._hessian is None and self._variances is not None and kind == "hessian"
        found = self.covariance(kind, cluster) if not alone else self._variances
        assert found is not None
        notes = [SOURCES[kind], str(self.result_)]
        if self.penalty == "firth":
            notes.insert(0, "Firth's penalty: estimates maximise the likelihood times Jeffreys' prior")
        if np.isfinite(self.C):
            notes.append(f"penalised (C = {self.C:g}): estimates are drawn towards zero, and so are standard errors")
        return summarise(
            "Conditional logit", self.param_names_, self.coef_, found, self._facts, level=level, notes=notes
        )

    def conf_int(self, *, kind: str = "profile", level: float = 0.95) -> Array:
        """Return confidence intervals of the coefficients.

        Parameters
        ----------
        kind : {"profile", "wald"}
            All values that a likelihood-ratio test does not reject, with an infinite end where there is none; or
            estimates and multiples of their standard errors.
        level : float
            Of the intervals.

        Returns
        -------
        array of shape (d, 2)
            In the order of ``param_names_``.
        """
        if one_of("kind", kind, ("profile", "wald")) == "wald":
            return self.summary(level=level).interval
        if not 0 < level < 1:
            raise ValueError(f"level must lie between 0 and 1, got {level!r}; 0.95 is usual")
        if np.isfinite(self.C):
            raise ValueError(f"profile intervals are those of maximum likelihood: fit with C=np.inf, got C={self.C!r}")
        sets, T, phi = self._near()
        plain = Likelihood(Objective(Enumerated(), sets, ridge=0.0), np.zeros((len(phi), 0)))
        expand = plain.expand if self.penalty is None else firth(sets).expand
        return np.array([profile_interval(expand, phi, row, level) for row in T])

    def bootstrap(self, n: int = 1000, *, cluster: Any = None, kind: str = "multinomial", seed: int = 0) -> Bootstrap:
        """Return coefficients of resampled choice situations, by weights: a few Newton steps each, certified.

        Parameters
        ----------
        n : int
            Replicates.
        cluster : array, optional
            What each row of the fit, or each choice situation, belongs to, such as a person: clusters are then drawn.
        kind : {"multinomial", "bayesian", "jackknife"}
            Draws with replacement, exponential weights, or every situation (or cluster) left out once.
        seed : int
            Where random numbers begin.

        Returns
        -------
        Bootstrap
            In the order of ``param_names_``.
        """
        if self.penalty is not None:
            raise ValueError("bootstrap() is of fits without Firth's penalty, got penalty='firth'")
        sets, T, phi = self._near()
        sample, theta, V = self._sample, self.coef_, self.covariance()
        assert sample is not None
        # Observations that chose the same outcome of the same set are the same one, if none has a weight.
        if sample.chosen is not None and sample.weight is None:
            repeats = np.bincount(sample.chosen, minlength=int(sets.indptr[-1])).astype(np.float64)
            observations = Observations(repeats, sample.chosen)
        else:
            observations = Observations(np.ones(len(sample)))
        base = np.ones(len(sample)) if sample.weight is None else sample.weight

        def reweighed(weights: Array) -> Objective:
            if sample.chosen is None:
                return Objective(Enumerated(), sets.reweighed(base * weights), ridge=ridge)
            amount = weights
            if sample.weight is not None:
                amount = np.bincount(sample.chosen, base * weights, minlength=int(sets.indptr[-1]))
            total = np.add.reduceat(amount, sets.indptr[:-1])
            of_outcome = np.repeat(total, sets.sizes)
            target = np.where(of_outcome > 0, amount / np.where(of_outcome > 0, of_outcome, 1.0), sets.target)
            return Objective(Enumerated(), sets.completed(target).reweighed(total), ridge=ridge)

        ridge = ridge_of(self.C, self._basis)
        of_all = Objective(Enumerated(), sets, ridge=ridge)
        refit = Likelihood(of_all, np.zeros((len(phi), 0))).refit(
            phi, reweighed, lambda other: separation.suits(other) and separation.find(other) is not None
        )

        def fit(weights: Array) -> Replicate:
            found = refit(weights)
            return found if found.estimates is None else Replicate(T @ found.estimates, found.within)

        def influences() -> Iterator[tuple[slice, Array]]:
            if len(observations.repeats) == len(sample) and observations.unit_of is None:
                yield slice(0, len(sample)), -observation_scores(sample, theta) @ V
                return
            done = 0
            for some in sample.sets.batches(max(2**20 // (len(theta) * int(sets.sizes.max())), 1)):
                X, p = some.design.dense(), self._probabilities(some, theta)
                means = np.repeat(np.add.reduceat(p[:, None] * X, some.indptr[:-1]), some.sizes, axis=0)
                yield slice(done, done + len(X)), (X - means) @ V
                done += len(X)

        if cluster is not None:
            cluster = np.asarray(cluster)
            if self._table is not None and cluster.shape != (len(sample),):
                cluster = self._table.of_groups("cluster", cluster)
        with sharing(fit_threads(self.n_jobs, int(sets.indptr[-1]) * len(theta) * n)):
            return bootstrap(
                self.param_names_,
                theta,
                observations,
                fit,
                influences,
                n=n,
                cluster=cluster,
                kind=kind,
                seed=seed,
            )

    def _near(self) -> tuple[Choices, Array, Array]:
        """Return the sets with the columns XT that were fitted to, T as a matrix, and the estimates for them."""
        check_is_fitted(self, "coef_")
        self._refuse_l1()
        if self._hessian is None:
            raise ValueError(f"{len(self.coef_)} parameters are too many for this: it takes a Hessian")
        if self._sample is None:
            raise ValueError("this needs the data of the fit, which files and pickles do not hold: fit again")
        sets, T = self._sample.sets, self._basis
        if T is None:
            return sets, np.eye(len(self.coef_)), self.coef_
        if T.ndim == 1:
            return in_units(sets, self.param_names_)[0], np.diag(T), self.coef_ / T
        return sets.with_features(DenseDesign(sets.centred() @ T)), T, np.linalg.solve(T, self.coef_)

    def wtp(self, attribute: str, cost: str, kind: str = "hessian", cluster: Any = None) -> Derived:
        """Return the willingness to pay for one more unit of an attribute, −θ_attribute/θ_cost, by the delta method.

        Parameters
        ----------
        attribute, cost : str
            Coefficients by their names in ``param_names_``.
        kind, cluster
            As for :meth:`covariance`.

        Returns
        -------
        Derived
            ``estimate``, ``std_error``, ``z``, ``p`` and ``interval(level)``.
        """
        above, below = self._place(attribute), self._place(cost)
        name = f"-{attribute} / {cost}"
        return ratio(name, self.coef_, self.covariance(kind, cluster), above, below, sign=-1.0)

    def likelihood_ratio_test(self, other: Any) -> LikelihoodRatio:
        """Return the test between this fit and another one, one of which is a special case of the other.

        Parameters
        ----------
        other : ConditionalLogit
            Fitted to the same choices; both without a penalty (``C=np.inf``).

        Returns
        -------
        LikelihoodRatio
            ``statistic``, ``degrees`` of freedom and ``p``.
        """
        for fitted in (self, other):
            check_is_fitted(fitted, "coef_")
            if np.isfinite(fitted.C):
                raise ValueError(f"a likelihood-ratio test needs fits without a penalty (C=np.inf), got C={fitted.C!r}")
        return likelihood_ratio(self._facts, other._facts)

    def elasticities(
        self, feature: str, X: Any, groups: Any = None, alternatives: Any = None, *, offset: Any = None
    ) -> Any:
        """Return by how many percent probabilities change if a feature rises by one percent.

        Parameters
        ----------
        feature : str
            A coefficient by its name in ``param_names_``.
        X, groups, offset
            As for ``predict_proba``; a data frame alone where the model was made from one.
        alternatives : array of shape (n_rows,), optional
            What each row is an alternative of.

        Returns
        -------
        array of shape (n_rows, 2), or (names, array of shape (n, n))
            For each row its own elasticity, and that of every other alternative of its group with respect to the
            feature of this row. With alternatives (or a data frame that names them) a table E[a, b]: the change of the
            share of b when the feature of a rises, averaged with the probabilities of b as weights.
        """
        check_is_fitted(self, "coef_")
        place, layout = self._place(feature), self._layout if groups is None else None
        labels: Array | None = None
        if isinstance(layout, WideLayout):
            _refuse_offset(offset)
            sets, ids, labels = layout.rows(X)
        else:
            table, sets = self._sets(X, groups, offset)
            ids = table.sorted_ids
            alternatives = layout.labels(X) if isinstance(layout, LongLayout) else alternatives
            if alternatives is not None:
                labels = table.sorted(np.asarray(alternatives))
        p, x = self._probabilities(sets, self.coef_), sets.design.dense()[:, place]
        if labels is None:
            effect = self.coef_[place] * x  # ∂log p_a/∂log x_a = βx_a(1 − p_a), and −βx_a p_a of every other
            return table.as_given(np.stack([effect * (1.0 - p), -effect * p], axis=1))
        return elasticity_table(p, x, self.coef_[place], labels, ids)

    def _sets(self, X: Any, groups: Any, offset: Any) -> tuple[Situations, Choices]:
        """Return rows of arrays, or of a long data frame, and their choice sets, in which nothing is chosen."""
        if groups is None and isinstance(self._layout, LongLayout):
            _refuse_offset(offset)
            table, offset = self._layout.situations(X), self._layout.measure(X)
        else:
            table = self._situations(X, groups)
        return table, table.unobserved(offset)

    def _of_wide(self, frame: Any, layout: WideLayout, offset: Any) -> Array:
        """Return the probabilities of the alternatives of a wide data frame, one column for each."""
        _refuse_offset(offset)
        first, numbers = layout.distinct(frame)
        return self._probabilities(layout.sets(frame, first), self.coef_).reshape(len(first), -1)[numbers]

    def _place(self, name: str) -> int:
        check_is_fitted(self, "coef_")
        if name not in self.param_names_:
            raise ValueError(f"there is no coefficient {name!r}; there are {', '.join(self.param_names_)}")
        return int(self.param_names_.index(name))

    # --- what the methods above are made of ---------------------------------------------------------------

    def _check_settings(self) -> None:
        check_strength(self.C)
        if self.penalty not in (None, "firth"):
            raise ValueError(f"penalty must be 'firth' or None, got {self.penalty!r}; C is that of an ℓ2 penalty")
        if self.penalty == "firth" and np.isfinite(self.C):
            raise ValueError(f"penalty='firth' takes the place of an ℓ2 penalty: set C=np.inf, got C={self.C!r}")
        if not check_number("l1_ratio", self.l1_ratio, least=0.0) <= 1:
            raise ValueError(f"l1_ratio must be a number between 0 and 1, got {self.l1_ratio!r}")
        if self.l1_ratio and (np.isinf(self.C) or self.penalty is not None or self.solver != "auto"):
            raise ValueError(
                f"l1_ratio={self.l1_ratio!r} needs a finite C, penalty=None and solver='auto', got C={self.C!r}, "
                f"penalty={self.penalty!r}, solver={self.solver!r}"
            )
        one_of("solver", self.solver, SOLVERS)
        check_number("tol", self.tol, least=0.0)
        whole("max_iter", self.max_iter, least=0)
        check_jobs(self.n_jobs)
        if not isinstance(self.verbose, bool | np.bool_):
            whole("verbose", self.verbose, least=0)

    def _refuse_l1(self) -> None:
        if self.l1_ratio:
            raise ValueError(
                "an ℓ1 penalty leaves estimates no standard errors: they are biased, and the same choices selected the "
                "zeros; refit the columns that were selected with l1_ratio=0 and C=np.inf on other choices"
            )

    def _fit_sample(self, sample: Sample, names: list[str]) -> None:
        refuse_nothing_to_choose(sample.sets)
        self.param_names_, self._sample, self._table, self._robust = names, sample, None, None
        with sharing(fit_threads(self.n_jobs, int(sample.sets.indptr[-1]) * len(names))):
            sets, T = in_units(sample.sets, names)
            fit = self._fitted_firth if self.penalty else self._fitted_l1 if self.l1_ratio else self._fitted
            best, found, objective = fit(sets, T)

            # Columns that are nearly collinear are made orthonormal, and fitted again; those that are collinear are
            # refused. If the optimum is proved to be unique, none is.
            certificate = None if best.solution is None else best.solution.certificate
            is_unique = certificate is not None and certificate.region is not None and not certificate.region.flat.size
            other = None
            if np.isfinite(self.C) or self.penalty is not None:
                pass  # the penalty tells columns apart, or they have been looked at
            elif found.hessian is not None:
                squares = np.zeros(objective.size) if is_unique else sets.design.column_norms() ** 2
                other = orthonormal(sets, names) if may_be_collinear(found.hessian, squares) else None
            elif found.variances is not None and np.isinf(found.variances).any():
                at_zero = curved(objective, np.zeros(objective.size))
                assert at_zero is not None
                assert isinstance(at_zero[2], Arrow)
                unknown = np.flatnonzero(np.isinf(variances_of(at_zero[2], objective.ridge)))
                refuse_collinear([unknown] if len(unknown) else [], names)
            if other is not None:
                T = other[1] if T is None else T[:, None] * other[1]
                best, found, objective = self._fitted(other[0], T)
                best = _unless_separated(objective, best, found, other[1])

        self._hessian, self._variances, self._basis = found.hessian, found.variances, T
        if found.variances is not None and T is not None:
            self._variances = found.variances * T**2
        self.log_likelihood_ = objective.penalty.value(found.theta) - found.value
        self.null_log_likelihood_, self.n_groups_ = -objective.value_at_zero(), len(sample)
        self._facts = Facts(self.log_likelihood_, self.null_log_likelihood_, sample.total, objective.size)
        publish(self, best)
        self.coef_ = of_columns(T, found.theta)
        if best.solution is None:
            self.coef_error_ = np.full(len(self.coef_), np.inf)
        else:
            errors = errors_of(best, objective.ridge, 1, None, {"coef_": found.theta[None]})["coef_error_"][0]
            self.coef_error_ = errors_of_columns(T, errors, self.coef_)
        if is_unwanted(best.result, max(self.tol, STUCK if self.l1_ratio else 0.0)):
            warn(best.result)

    def _fitted_firth(self, sets: Choices, T: Array | None) -> tuple[Fitted, Polished, Objective]:
        """Return the fit to columns XT with Jeffreys' prior."""
        objective = Objective(Enumerated(), sets, ridge=0.0)
        theta, F, H, steps, left = stationary_point(
            firth(sets).expand, np.zeros(objective.size), max_iter=self.max_iter
        )
        if not np.isfinite(F):
            orthonormal(sets, self.param_names_)
            raise ValueError("columns are nearly collinear within every group: drop one of them, or use a finite C")
        near, words = left <= self.tol, f"{counted(steps, 'step')}: the next one is {left:.0e} standard errors"
        outcome = Outcome.STATIONARY if near else Outcome.STEP_LIMIT
        result = Result(outcome, f"{'stationary' if near else 'stopped'} after {words}", float("nan"))
        return Fitted(theta, result, steps, {}), Polished(theta, objective.value(theta), H), objective

    def _fitted_l1(self, sets: Choices, T: Array | None) -> tuple[Fitted, Polished, Objective]:
        """Return the fit to columns XT with an ℓ1 penalty; θ = Tφ is penalised, and not φ."""
        units = np.ones(sets.design.shape[1]) if T is None else np.abs(T)
        penalty = ElasticNet(self.l1_ratio / self.C * units, (1.0 - self.l1_ratio) / self.C * units**2, len(units))
        objective = Objective(Enumerated(), sets, ridge=penalty, reducer=Threads(threads()))
        fitted = run(
            objective,
            ProximalNewton(),
            Fit(objective.model, _refuse_call, _refuse_call),
            [ProgressLine()] if self.verbose else [],
            tol=self.tol,
            max_steps=self.max_iter,
        )
        return fitted, Polished(fitted.params, objective.value(fitted.params)), objective

    def _fitted(self, sets: Choices, T: Array | None) -> tuple[Fitted, Polished, Objective]:
        """Return the fit to columns XT, certified where Newton's last steps led, if that certificate says more."""
        objective = Objective(Enumerated(), sets, ridge=ridge_of(self.C, T), reducer=Threads(threads()))
        objective.columns = self.param_names_
        solvers: dict[str, Any] = {"newton": Newton, "bbm": BatchMajorization, "lbfgs": LBFGS}
        auto = Newton if objective.size <= FEW else QuasiNewton
        fitted = run(
            objective,
            solvers.get(self.solver, auto)(),
            Fit(objective.model, _refuse_call, _refuse_call),
            [ProgressLine()] if self.verbose else [],
            tol=self.tol,
            gradient_tol=self.tol,
            max_steps=self.max_iter,
        )
        found = polished(objective, fitted)
        certified = None if found.theta is fitted.params else _certified(objective, fitted, found)
        if certified is not None and certified.gap <= fitted.result.gap:
            fitted = _with_certificate(objective, fitted, found, certified)
        return fitted, found, objective

    def _written(self, notes: Notes) -> Written:
        facts, arrays = self._common(notes)
        arrays |= {"coef": self.coef_, "coef_error": self.coef_error_, **saving.packed(self.param_names_)}
        if self._variances is not None:
            arrays["variances"] = self._variances
        facts["groups"] = self.n_groups_
        facts["layout"] = None if self._layout is None else as_json(self._layout)
        return facts, arrays

    def _restore(self, path: Any, facts: dict[str, Any], arrays: dict[str, Array]) -> None:
        self.coef_, self.param_names_ = arrays["coef"], saving.unpacked(arrays)
        self._restore_common(facts, arrays, self.param_names_, len(self.coef_))
        self.gap_, self._variances = self.result_.gap, arrays.get("variances")
        self.coef_error_ = arrays.get("coef_error", np.full(len(self.coef_), np.inf))
        self.n_groups_ = saving.whole_fact(facts, "groups")
        layout = saving.fact(facts, "layout", dict, NoneType)
        self._layout = None if layout is None else layout_from(layout, self.param_names_)


def _refuse_call(*arguments: Any) -> Any:
    raise TypeError("conditional logit takes no validation data and writes no checkpoints: save() the fitted model")


def firth(sets: Choices) -> Firth:
    """Return the likelihood of choices with Jeffreys' prior."""
    weight = 1.0 if sets.weight is None else np.repeat(sets.weight, sets.sizes)
    return Firth(sets.design.dense().astype(np.float64), sets.indptr[:-1], sets.target * weight, sets.log_measure)


def _refuse_offset(offset: Any) -> None:
    if offset is not None:
        raise ValueError(
            "offset is for arrays: a model of data frames takes it from the column that from_long(…, offset=) named"
        )


def _unless_separated(objective: Objective, fitted: Fitted, found: Polished, T: Array) -> Fitted:
    """Return the fit to orthonormal columns XT with what is proved of all columns that rounding may stand for.

    Rounding of the orthonormal columns may end a separation of X, or make one: where nothing is proved of all columns
    so near, nothing is known of an optimum.
    """
    if fitted.result.outcome is Outcome.UNBOUNDED:
        return fitted
    assert isinstance(objective.data, Choices)
    assert fitted.solution is not None
    back, account = np.linalg.inv(T), fitted.result.account
    rounding = ROUNDING * float(np.linalg.norm(back, 2) * np.linalg.norm(T, 2))
    apart = separation.find(objective, rounding=rounding) if separation.suits(objective) else None
    if apart is not None:
        apart = separation.Separation(T @ apart.direction, apart.complete, np.ones(len(T)))
        result = Result(Outcome.UNBOUNDED, about_separation(objective, apart), float("nan"), account)
    else:
        norms = np.sqrt(objective.data.design.shape[0]) * np.linalg.norm(back, axis=0)  # of the columns X
        certified = _certified(objective, fitted, found, ROUNDING * norms @ np.abs(T))
        if certified is not None and certified.gap <= 1:
            converged = fitted.result.converged
            return _with_certificate(objective, fitted, found, certified) if converged else fitted
        if not fitted.result.converged and np.isnan(fitted.result.gap):
            return fitted
        sentence = (
            f"stopped after {counted(fitted.steps, 'step')}: columns are so nearly collinear within every group that "
            "rounding hides whether a maximum-likelihood estimate exists"
        )
        result = Result(Outcome.STALLED, sentence, float("nan"), account, fitted.result.estimate)
    return replace(fitted, result=result, solution=replace(fitted.solution, certificate=None))


def _certified(objective: Objective, fitted: Fitted, found: Polished, off: Array | None = None) -> Certificate | None:
    """Return the certificate of polished parameters; None if there is none, or the Hessian is not known."""
    if fitted.solution is None or not certificates.suits(objective):
        return None
    if found.hessian is None or found.gradient is None:
        return None
    of_loss = KnownHessian(found.theta, found.hessian - np.diag(objective.ridge))
    point = Point(found.theta, found.value, found.gradient)
    return certificates.by_self_concordance(objective, point, known=of_loss, off=off)


def _with_certificate(objective: Objective, fitted: Fitted, found: Polished, certified: Certificate) -> Fitted:
    """Return the fit at its polished parameters, and what a certificate says of these."""
    assert fitted.solution is not None
    sentence = f"converged in {counted(fitted.steps, 'step')}{about_the_gap(certified, objective)}"
    result = replace(fitted.result, message=sentence, gap=certified.gap)
    return replace(fitted, params=found.theta, result=result, solution=replace(fitted.solution, certificate=certified))

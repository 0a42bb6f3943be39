"""``ConditionalLogit``: discrete choice by maximum likelihood, with what econometricians ask of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from majorant._checks import Array, one_of, whole
from majorant._solution import Fitted, Outcome, Result
from majorant._threads import sharing, threads
from majorant.callbacks import Fit, ProgressLine
from majorant.data import Choices
from majorant.data.collapsing import Sample
from majorant.estimators.accuracy import errors_of
from majorant.estimators.atomic import all_or_nothing
from majorant.estimators.choice.basis import ROUNDING, errors_of_columns, in_units, of_columns, orthonormal, ridge_of
from majorant.estimators.choice.files import ChoiceFiles
from majorant.estimators.choice.frames import ChoiceFrames
from majorant.estimators.choice.inference import ChoiceInference
from majorant.estimators.choice.polishing import (
    Polished,
    certified_of_all,
    is_unique,
    polished,
    recertified,
    refuse_flat_blocks,
)
from majorant.estimators.choice.sets import Situations, flagged_largest, refuse_nothing_to_choose
from majorant.estimators.fitting import is_unwanted, publish, run, warn
from majorant.estimators.notebook import InNotebooks
from majorant.estimators.settings import check_jobs, check_number, check_strength
from majorant.estimators.threads import fit_threads
from majorant.inference.choices import probabilities
from majorant.inference.summary import Facts
from majorant.models import Enumerated
from majorant.objective import Objective, Threads, separation
from majorant.run import about_separation
from majorant.solvers import LBFGS, BatchMajorization, Newton, QuasiNewton, Solver

SOLVERS = ("auto", "newton", "bbm", "lbfgs")
# Of so many parameters a Hessian costs about as much as a few passes over usual data: Newton's steps are then the best.
FEW = 300


class ConditionalLogit(ChoiceInference, ChoiceFiles, ChoiceFrames, InNotebooks, BaseEstimator):  # type: ignore[misc]
    """Conditional (multinomial) logit: p(a | situation) = exp(θᵀx_a) / Σ_b exp(θᵀx_b), by maximum likelihood.

    Data are in long format: one row of X for each available alternative of each choice situation. Situations may
    have any number of alternatives, and their rows may stand anywhere. Equal choice sets are put together.

    Parameters
    ----------
    C : float
        Inverse of an ℓ2 penalty; ``np.inf``, the default, for maximum likelihood.
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

    By how many percent a trip is chosen less if its price rises by one, and others more; whether price matters at all:

    >>> model.elasticities("x0", X, traveller)[0].round(2)
    array([-0.68,  0.15])
    >>> model.likelihood_ratio_test(majorant.ConditionalLogit().fit(X[:, 1:], chosen, traveller)).degrees
    1
    """

    coef_: Array
    coef_error_: Array
    result_: Result
    gap_: float
    n_iter_: int
    param_names_: list[str]
    log_likelihood_: float
    null_log_likelihood_: float
    n_groups_: int
    notes_: dict[str, Any] | None  # of a loaded model
    _facts: Facts
    _hessian: Array | None  # of the penalised loss, for columns XT
    _variances: Array | None = None  # where that is too large
    _basis: Array | None = None  # T, a diagonal or a matrix; None for the columns of X
    _robust: Array | None = None  # of a loaded model
    _sample: Sample | None = None  # what was fitted to; files and pickles do not hold it
    _table: Situations | None = None

    def __init__(
        self,
        *,
        C: float = np.inf,
        solver: str = "auto",
        tol: float = 1e-8,
        max_iter: int = 1000,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.verbose = verbose

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
            names = getattr(self, "feature_names_in_", [f"x{i}" for i in range(self.n_features_in_)])
            self._layout = None
            self._fit_sample(Sample.of(data), [str(name) for name in names])
            self._table = table.without_rows()
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
        if groups is None and self._layout is not None:
            self._refuse_offset(offset)
            return self._layout.arranged(X, self._probabilities_of)
        table = Situations.read(self, X, groups, reset=False)
        return table.as_given(self._probabilities_of(table.unobserved(offset)))

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
        if groups is None and self._layout is not None:
            self._refuse_offset(offset)
            return self._layout.likeliest(X, self._probabilities_of)
        table = Situations.read(self, X, groups, reset=False)
        p = self._probabilities_of(table.unobserved(offset))
        return table.as_given(flagged_largest(p, table.starts, table.sizes))

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
            self._refuse_offset(offset)
            data = self._layout.sample(X, sample_weight)[0].sets
        else:
            data = Situations.read(self, X, groups, reset=False).choices(y, offset, sample_weight)
        model = Enumerated()
        total = len(data) if data.weight is None else data.weight.sum()
        return -model.loss(model.scores(self.coef_, data), data) / float(total)

    # --- what the methods above are made of ---------------------------------------------------------------

    def _check_settings(self) -> None:
        check_strength(self.C)
        one_of("solver", self.solver, SOLVERS)
        check_number("tol", self.tol, least=0.0)
        whole("max_iter", self.max_iter, least=0)
        check_jobs(self.n_jobs)
        if not isinstance(self.verbose, bool | np.bool_):
            whole("verbose", self.verbose, least=0)

    def _fit_sample(self, sample: Sample, names: list[str]) -> None:
        refuse_nothing_to_choose(sample.sets)
        self.param_names_, self._sample, self._table, self._robust = names, sample, None, None
        with sharing(fit_threads(self.n_jobs, int(sample.sets.indptr[-1]) * len(names))):
            sets, T = in_units(sample.sets, names)
            best, found, objective = self._fitted(sets, T)
            other = self._independent(objective, found, known=is_unique(best))
            if other is not None:
                T = other[1] if T is None else T[:, None] * other[1]
                best, found, objective = self._fitted(other[0], T)
                best = _unless_separated(objective, best, found, other[1])
        self._hessian, self._variances, self._basis = found.hessian, found.variances, T
        if found.variances is not None and T is not None:
            self._variances = found.variances * T**2
        self._say_facts(objective, found)
        publish(self, best)
        self.coef_ = of_columns(T, found.theta)
        errors = errors_of(best, objective.ridge, 1, None, {"coef_": found.theta[None]})["coef_error_"][0]
        self.coef_error_ = errors_of_columns(T, errors, self.coef_)
        if is_unwanted(best.result, self.tol):
            warn(best.result)

    def _fitted(self, sets: Choices, T: Array | None) -> tuple[Fitted, Polished, Objective]:
        """Return the fit to columns XT."""
        objective = Objective(Enumerated(), sets, ridge=ridge_of(self.C, T), reducer=Threads(threads()))
        objective.columns = self.param_names_
        fitted = self._minimised(objective)
        found = polished(objective, fitted, self.tol)
        return recertified(objective, fitted, found), found, objective

    def _independent(self, objective: Objective, found: Polished, *, known: bool) -> tuple[Choices, Array] | None:
        """Return the sets with orthonormal columns if theirs are nearly collinear; refuse those that are collinear.

        None is collinear if the optimum is ``known`` to be unique.
        """
        sets = objective.data
        assert isinstance(sets, Choices)
        squares = np.zeros(objective.size) if known else sets.design.column_norms() ** 2
        if np.isfinite(self.C) or not found.may_be_collinear(squares):
            return None
        if found.hessian is not None:
            return orthonormal(sets, self.param_names_)
        refuse_flat_blocks(objective, self.param_names_)
        return None

    def _minimised(self, objective: Objective) -> Fitted:
        lines = [ProgressLine()] if self.verbose else []
        fit = Fit(objective.model, _no_more, _no_files)
        solver, tol = self._solver(objective), self.tol
        return run(objective, solver, fit, lines, tol=tol, gradient_tol=tol, max_steps=self.max_iter)

    def _solver(self, objective: Objective) -> Solver[Any]:
        makers = {"newton": Newton, "bbm": BatchMajorization, "lbfgs": LBFGS}
        if self.solver != "auto":
            return makers[self.solver]()
        return Newton() if objective.size <= FEW else QuasiNewton()

    def _say_facts(self, objective: Objective, found: Polished) -> None:
        assert self._sample is not None
        self.log_likelihood_ = objective.penalty.value(found.theta) - found.value
        self.null_log_likelihood_ = -objective.value_at_zero()
        self.n_groups_ = len(self._sample)
        self._facts = Facts(self.log_likelihood_, self.null_log_likelihood_, self._sample.total, objective.size)

    def _probabilities_of(self, data: Choices) -> Array:
        return probabilities(Enumerated().scores(self.coef_, data), data)

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name not in ("_sample", "_table")}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags


def _no_more(X: Any, y: Any) -> Any:
    raise TypeError("conditional logit takes no validation data: compare score() on other situations")


def _no_files(*arguments: Any) -> None:
    raise TypeError("conditional logit is fitted in seconds and writes no checkpoints: save() the fitted model")


def _unless_separated(objective: Objective, fitted: Fitted, found: Polished, T: Array) -> Fitted:
    """Return the fit to orthonormal columns XT, as one without an optimum if the choices are separated.

    Rounding of the orthonormal columns may end a separation of X: what is proved has to hold for all columns so near.
    """
    if fitted.result.outcome is Outcome.UNBOUNDED:
        return fitted
    back = np.linalg.inv(T)
    rounding = ROUNDING * float(np.linalg.norm(back, 2) * np.linalg.norm(T, 2))
    apart = separation.find(objective, rounding=rounding) if separation.suits(objective) else None
    if apart is None:
        assert isinstance(objective.data, Choices)
        norms = np.sqrt(objective.data.design.shape[0]) * np.linalg.norm(back, axis=0)  # of the columns X
        return certified_of_all(objective, fitted, found, ROUNDING * norms @ np.abs(T))
    apart = separation.Separation(T @ apart.direction, apart.complete, np.ones(len(T)))
    result = Result(Outcome.UNBOUNDED, about_separation(objective, apart), float("nan"), fitted.result.account)
    assert fitted.solution is not None
    return replace(fitted, result=result, solution=replace(fitted.solution, certificate=None))

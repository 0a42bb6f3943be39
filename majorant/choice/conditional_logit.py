"""Newton's last steps of a choice model, to machine precision, and the curvature there, for standard errors.

Choice models as files.

``ConditionalLogit``: discrete choice by maximum likelihood, with what econometricians ask of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from types import NoneType
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from majorant.callbacks import Fit, ProgressLine
from majorant.choice.basis import (
    ROUNDING,
    errors_of_columns,
    in_units,
    may_be_collinear,
    of_columns,
    orthonormal,
    probabilities,
    refuse_collinear,
    ridge_of,
)
from majorant.choice.enumerated import Enumerated
from majorant.choice.frames import ChoiceFrames, layout_from
from majorant.choice.inference import ChoiceInference
from majorant.choice.sets import Situations, flagged_largest, refuse_nothing_to_choose
from majorant.core import certificates, separation
from majorant.core.certificates import Certificate, KnownHessian
from majorant.core.checks import Array, one_of, whole
from majorant.core.choices import Choices, Sample
from majorant.core.curvature import Curvature
from majorant.core.descent import LBFGS, BatchMajorization, DescentState, Newton
from majorant.core.line_search import Point
from majorant.core.objective import Objective
from majorant.core.policy import QuasiNewton
from majorant.core.preconditioners import HessianByBlocks
from majorant.core.products import hessian_by_blocks
from majorant.core.result import Fitted, Outcome, Result, about_separation, about_the_gap, counted
from majorant.core.rows import Threads
from majorant.core.solver import Solver
from majorant.core.structured import Arrow
from majorant.core.threads import sharing, threads
from majorant.estimators import saving
from majorant.estimators.base import Estimator, check_jobs, check_number, check_strength, fit_threads
from majorant.estimators.fitting import errors_of, is_unwanted, publish, run, warn
from majorant.estimators.saving import Field, Notes, Saved, Written, all_or_nothing, are_any, are_counts
from majorant.inference import Facts

# Of more parameters no Hessian is kept; by blocks that never meet there are still standard errors.
LARGEST_HESSIAN = 5_000
# Newton's decrement squared, an estimate of twice the log-likelihood that is missing, at which no step is left to make.
POLISHED, STEPS = 1e-15, 3
# Steps that promise more than so many times the tolerance are no last ones.
NEAR = 10.0
# How many times as large as if a parameter were alone its variance may be, until nothing is known of it.
INFLATED = 1e10


@dataclass(frozen=True, eq=False)
class Polished:
    """Parameters, F there, and the Hessian of the penalised loss; of many parameters its inverse diagonal alone."""

    theta: Array
    value: float
    hessian: Array | None = None
    variances: Array | None = None
    gradient: Array | None = None

    def may_be_collinear(self, squares: Array) -> bool:
        """Return whether next to nothing is known of some parameters; ``squares`` are those of their columns."""
        if self.hessian is not None:
            return may_be_collinear(self.hessian, squares)
        return self.variances is not None and bool(np.isinf(self.variances).any())


def polished(objective: Objective, fitted: Fitted, tol: float) -> Polished:
    """Return a fit after Newton's last steps, if it has converged, and what is known of its curvature."""
    theta, λ, known = fitted.params, objective.ridge, _last_of_newton(fitted)
    found = known or curved(objective, theta)
    for _ in range(STEPS):
        if found is None:
            return Polished(theta, objective.value(theta))
        value, gradient, H = found
        solve = H.factorized(λ)
        step = solve(gradient)
        small = fitted.result.converged and POLISHED < gradient @ step < NEAR * tol * abs(value)
        if not small or not objective.value(theta - step) <= value:
            break
        theta = theta - step
        found = curved(objective, theta)
    assert found is not None
    return _described(theta, *found, λ)


def recertified(objective: Objective, fitted: Fitted, found: Polished) -> Fitted:
    """Return the fit at its polished parameters, with a certificate of these, or as it was if that says more."""
    certified = None if found.theta is fitted.params else _certified(objective, fitted, found)
    if certified is None or not certified.gap <= fitted.result.gap:
        return fitted
    return _with_certificate(objective, fitted, found, certified)


def certified_of_all(objective: Objective, fitted: Fitted, found: Polished, off: Array) -> Fitted:
    """Return the fit with a certificate that holds for all columns that are no more than ``off`` from these.

    Where there is none nothing is known of an optimum of the columns that these stand for.
    """
    certified = _certified(objective, fitted, found, off)
    if certified is not None and certified.gap <= 1:
        return _with_certificate(objective, fitted, found, certified) if fitted.result.converged else fitted
    if not fitted.result.converged and np.isnan(fitted.result.gap):
        return fitted
    sentence = (
        f"stopped after {counted(fitted.steps, 'step')}: columns are so nearly collinear within every group that "
        "rounding hides whether a maximum-likelihood estimate exists"
    )
    result = Result(Outcome.STALLED, sentence, float("nan"), fitted.result.account, fitted.result.estimate)
    solution = None if fitted.solution is None else replace(fitted.solution, certificate=None)
    return replace(fitted, result=result, solution=solution)


def _certified(objective: Objective, fitted: Fitted, found: Polished, off: Array | None = None) -> Certificate | None:
    """Return the certificate of polished parameters; None if there is none, or the Hessian is not known."""
    if fitted.solution is None or not certificates.suits(objective):
        return None
    if found.hessian is None or found.gradient is None:
        return None
    of_loss = KnownHessian(found.theta, found.hessian - np.diag(objective.ridge))
    here = Point(found.theta, found.value, found.gradient)
    return certificates.by_self_concordance(objective, here, known=of_loss, off=off)


def _with_certificate(objective: Objective, fitted: Fitted, found: Polished, certified: Certificate) -> Fitted:
    """Return the fit at its polished parameters, and what a certificate says of these."""
    assert fitted.solution is not None
    sentence = f"converged in {counted(fitted.steps, 'step')}{about_the_gap(certified, objective)}"
    result = replace(fitted.result, message=sentence, gap=certified.gap)
    return replace(fitted, params=found.theta, result=result, solution=replace(fitted.solution, certificate=certified))


def is_unique(fitted: Fitted) -> bool:
    """Return whether a certificate proves that there is one optimum and no other: then nothing is unidentified."""
    found = None if fitted.solution is None else fitted.solution.certificate
    return found is not None and found.region is not None and not found.region.flat.size


def curved(objective: Objective, theta: Array) -> tuple[float, Array, Curvature] | None:
    """Return F, its gradient and the Hessian of the loss, if there is a way to have it."""
    if objective.size <= LARGEST_HESSIAN:
        return objective.hessian(theta)
    if not HessianByBlocks().suits(objective):
        return None
    point = objective.point(theta)
    return point.value, point.gradient, hessian_by_blocks(objective, point, whole=True)


def refuse_flat_blocks(objective: Objective, names: Sequence[str]) -> None:
    """Refuse columns of which nothing is known at θ = 0, by the Hessian in blocks."""
    found = curved(objective, np.zeros(objective.size))
    assert found is not None
    assert isinstance(found[2], Arrow)
    unknown = np.flatnonzero(np.isinf(_variances(found[2], objective.ridge)))
    refuse_collinear([unknown] if len(unknown) else [], names)


def _variances(H: Arrow, ridge: Array) -> Array:
    """Return the diagonal of the inverse, infinite where that is so large that nothing is known."""
    found, alone = H.factorized(ridge).inverse_diagonal(), H.diagonal() + ridge
    return np.where((alone > 0) & (found * alone <= INFLATED), found, np.inf)


def _described(theta: Array, value: float, gradient: Array, H: Curvature, ridge: Array) -> Polished:
    if isinstance(H, Arrow):
        return Polished(theta, value, None, _variances(H, ridge), gradient)
    return Polished(theta, value, H.as_matrix() + np.diag(ridge), None, gradient)


def _last_of_newton(fitted: Fitted) -> tuple[float, Array, Curvature] | None:
    """Return F, its gradient and its Hessian at the end of a fit, if Newton's last state knows them."""
    state = None if fitted.solution is None else fitted.solution.state
    if not isinstance(state, DescentState) or state.curvature is None or state.point is None:
        return None
    same = state.point.theta is fitted.params or np.array_equal(state.point.theta, fitted.params)
    return (state.point.value, state.point.gradient, state.curvature) if same else None


class ChoiceFiles(Saved):
    """``save`` and ``load``, for a conditional logit."""

    _fields: ClassVar[dict[str, Field]] = {
        "coef": Field("f", ("parameters",)),
        "coef_error": Field("f", ("parameters",), are_counts, needed=False),  # older files have none
        **saving.names_fields("parameters"),
        "variances": Field("f", ("parameters",), are_any, needed=False),
        "hessian": Field("f", ("parameters", "parameters"), needed=False),
        "robust": Field("f", ("parameters", "parameters"), are_any, needed=False),
        "basis": Field("f", ("parameters", "parameters"), needed=False),
    }

    def _written(self: Any, notes: Notes) -> Written:
        arrays = {"coef": self.coef_, "coef_error": self.coef_error_, **saving.packed(self.param_names_)}
        if self._variances is not None:
            arrays["variances"] = self._variances
        if self._hessian is not None:
            arrays["hessian"] = self._hessian
            if self._basis is not None:
                arrays["basis"] = np.diag(self._basis) if self._basis.ndim == 1 else self._basis
            if self._sample is not None or self._robust is not None:
                arrays["robust"] = self.covariance("robust")
        facts = saving.facts_of(self, notes) | {"facts": asdict(self._facts), "groups": self.n_groups_}
        facts["named_columns"] = hasattr(self, "feature_names_in_")
        facts["layout"] = None if self._layout is None else self._layout.as_json()
        return facts, arrays

    def _restore(self: Any, path: Any, facts: dict[str, Any], arrays: dict[str, Array]) -> None:
        saving.restore_ending(self, facts)
        self.gap_ = self.result_.gap
        self.coef_, self.param_names_ = arrays["coef"], saving.unpacked(arrays)
        self.coef_error_ = arrays.get("coef_error", np.full(len(self.coef_), np.inf))
        self._hessian, self._robust = arrays.get("hessian"), arrays.get("robust")
        self._variances, self._basis = arrays.get("variances"), arrays.get("basis")
        self._facts = facts_from(saving.fact(facts, "facts", dict), len(self.coef_))
        self.log_likelihood_ = self._facts.log_likelihood
        self.null_log_likelihood_ = self._facts.null_log_likelihood
        self.n_groups_, self.n_features_in_ = saving.whole_fact(facts, "groups"), len(self.coef_)
        if saving.fact(facts, "named_columns", bool):
            self.feature_names_in_ = saving.names_of(self.param_names_)
        layout = saving.fact(facts, "layout", dict, NoneType)
        self._layout = None if layout is None else layout_from(layout, self.param_names_)


def facts_from(saved: dict[str, Any], parameters: int) -> Facts:
    """Return what was saved of a fit as a whole, if it is of so many parameters."""
    if saved.keys() != {each.name for each in fields(Facts)} or saved["parameters"] != parameters:
        raise ValueError(f"it says of a fit of {parameters} parameters {saved!r:.80}, which cannot be")
    numbers = ("log_likelihood", "null_log_likelihood", "observations")
    likelihood, null, observations = (float(saving.fact(saved, name, int, float)) for name in numbers)
    if not observations > 0:
        raise ValueError(f"it says that there were {observations} observations")
    return Facts(likelihood, null, observations, parameters, saving.fact(saved, "unit", str))


SOLVERS = ("auto", "newton", "bbm", "lbfgs")
# Of so many parameters a Hessian costs about as much as a few passes over usual data: Newton's steps are then the best.
FEW = 300


class ConditionalLogit(ChoiceInference, ChoiceFiles, ChoiceFrames, Estimator):
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

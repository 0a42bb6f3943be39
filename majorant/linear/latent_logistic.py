"""``LatentLogisticRegression``: a logistic regression whose classes are mixtures of hidden states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf
from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.base import ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from majorant.callbacks import Callback, Fit, ProgressLine
from majorant.core.checks import Array, refuse_null_ending, whole
from majorant.core.kernels.partition import log_partition, log_partition_and_probabilities
from majorant.core.labelled import Labelled
from majorant.core.matrix import DenseDesign
from majorant.core.objective import Objective
from majorant.core.result import Fitted, Outcome, Progress
from majorant.core.rows import Threads
from majorant.core.run import best_of, minimize, with_spread
from majorant.core.threads import mapped, sharing, threads
from majorant.estimators.base import (
    Estimator,
    StepCount,
    check_common_settings,
    check_labels,
    check_strength,
    fit_threads,
    only_class,
    read_offset,
    read_weights,
    take_rows,
    validated,
    with_class_weight,
)
from majorant.estimators.fitting import (
    CallbackSupportMixin,
    Followers,
    StepTasks,
    hand_over,
    is_disappointing,
    named_solver,
    predicted_decrease,
    publish,
    warn,
    with_callbacks,
)
from majorant.estimators.saving import Field, Saving, all_or_nothing, are_any, are_positive, linear_fields, resumed
from majorant.linear.classifier import joined_params, split_params
from majorant.linear.logistic import LogisticRegression
from majorant.linear.multinomial import LatentMultinomial

SOLVERS = ("auto", "bbm", "scipy-lbfgs", "newton", "proximal", "sbm", "sbm-lowrank")
# Settings that a logistic regression without hidden states takes as they are.
SHARED = (
    "C",
    "fit_intercept",
    "penalize_intercept",
    "class_weight",
    "solver",
    "tol",
    "max_iter",
    "warm_start",
    "random_state",
    "n_jobs",
    "verbose",
    "callbacks",
)


def read_states(n_latent: Any, classes: Array) -> tuple[int, ...]:
    """Return the number of states of each class: one for all, one each, or a dict of those that have more than one.

    Examples
    --------
    >>> read_states({"b": 3}, np.array(["a", "b"]))
    (1, 3)
    """
    if isinstance(n_latent, Mapping):
        unknown = [label for label in n_latent if label not in classes.tolist()]
        if unknown:
            raise ValueError(f"n_latent names classes that y does not hold: {unknown}")
        counts = [n_latent.get(label, 1) for label in classes.tolist()]
    elif np.ndim(n_latent) == 0:
        return (whole("n_latent", n_latent, least=1),) * len(classes)
    else:
        counts = np.asarray(n_latent).tolist()
        if np.shape(n_latent) != (len(classes),):
            raise ValueError(f"n_latent must have one number for each of {len(classes)} classes, got {n_latent!r:.80}")
    pairs = zip(counts, classes.tolist(), strict=True)
    return tuple(whole(f"n_latent of class {label!r}", count, least=1) for count, label in pairs)


def read_class_offset(offset: Any, rows: int, classes: int) -> Array | None:
    """Return an offset with a column for each class: of two it is given for the second alone. −inf rules a class out.

    Examples
    --------
    >>> read_class_offset([0.5, 1.5], rows=2, classes=2).tolist()
    [[0.0, 0.5], [0.0, 1.5]]
    """
    given = read_offset(offset, rows, classes)
    if given is None:
        return None
    if given.dtype.kind not in "buif":
        raise ValueError(f"offset must be numeric, got dtype {given.dtype}")
    bad = np.isnan(given) | np.isposinf(given)
    if bad.any():
        raise ValueError(
            f"offset must hold numbers, or −inf for what cannot be, got {given[bad][0]} ({bad.sum()} such)"
        )
    return np.column_stack([np.zeros(rows), given]) if given.ndim == 1 else given


class LatentLogisticRegression(CallbackSupportMixin, ClassifierMixin, Estimator):  # type: ignore[misc]
    """Logistic regression whose classes own hidden states: p(y|x) = Σ_m p(y, m|x), p(y, m|x) ∝ exp(w_{ym}ᵀx + b_{ym}).

    Minimises C Σ_j w_j (−log p(y_j|x_j)) + ½ Σ ‖w_{ym}‖² (the objective reported is that divided by C). With one state
    for every class it *is* :class:`~majorant.LogisticRegression`. With more the loss is not convex: fits from several
    random starts are made, each of which never rises, and the best is kept. It is stationary, and no saddle as far as a
    dozen gradients tell; nothing is certified.

    Parameters
    ----------
    n_latent : int, sequence of int, or dict
        Hidden states of every class, of each class in the order of ``classes_``, or of those classes that have more
        than one.
    C : float
        Inverse of the penalty on the coefficients of every state; ``np.inf`` for none.
    fit_intercept, penalize_intercept : bool
        Whether states have intercepts, and whether these are penalised like coefficients.
    class_weight : dict, "balanced" or None
        As in scikit-learn.
    n_init : int
        Starts. A warm start is one.
    solver : str
        "auto" (quasi-Newton steps scaled by the curvature of log Z), "bbm" (the bound), "newton" (with the Hessian of
        log Z, which is positive), "scipy-lbfgs", "proximal", "sbm", "sbm-lowrank".
    tol : float
        Starts are left when the gradient, in the metric of the curvature, promises to gain less than this share of the
        objective; the best goes on as far as double precision allows, nearly.
    max_iter : int
        Steps of each start; for the stochastic solvers, passes over the data.
    warm_start : bool
        Start from the coefficients of the previous fit, and only there.
    random_state : int, RandomState or None
        Seed of the starts. None is a seed as well: fits are the same every time.
    n_jobs : int or None
        Threads, which share the starts; all cores if −1. If None, as for ``LogisticRegression``. Coefficients are the
        same for any number.
    verbose : int
        1 shows a line of progress on standard error, one start after the other.
    callbacks : list, optional
        As for ``LogisticRegression``; they follow one start after the other.

    Attributes
    ----------
    classes_, n_features_in_
        As in scikit-learn.
    states_ : array of shape (n_classes,)
        Hidden states of each class.
    coef_, intercept_ : arrays of shape (n_states, n_features) and (n_states,)
        Of the states of all classes, those of a class side by side, the one that most of its rows are in first. With
        one state for every class as in ``LogisticRegression``.
    state_shares_ : array of shape (n_states,)
        How much of its class each state stands for, summing to one for each class.
    restarts_ : array of shape (n_init,)
        Objective where each start has led; infinite where it failed.
    n_iter_, trace_, result_
        Of the best start, as for ``LogisticRegression``; the result says how the others compare.
    gap_ : float
        NaN; with one state for every class certified as in ``LogisticRegression``.

    Examples
    --------
    No line separates these, but two for each class do:

    >>> import numpy as np
    >>> import majorant
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = X[:, 0] * X[:, 1] > 0
    >>> model = majorant.LatentLogisticRegression(n_latent=2, C=10.0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95), model.result_.outcome.value
    (True, 'stationary')

    Two states of a class on either side of another class:

    >>> X = np.array([[-3.0], [-2.0], [0.0], [0.1], [2.0], [3.0]])
    >>> y = np.array(["far", "far", "near", "near", "far", "far"])
    >>> model = majorant.LatentLogisticRegression({"far": 2}, C=10.0).fit(X, y)
    >>> model.predict([[-2.5], [0.0], [2.5]])
    array(['far', 'near', 'far'], dtype='<U4')
    >>> model.decision_function([[-2.5], [0.0], [2.5]]) > 0
    array([False,  True, False])
    >>> p = model.predict_proba([[-2.5], [0.0], [2.5]])
    >>> p.round(1)
    array([[1. , 0. ],
           [0.1, 0.9],
           [1. , 0. ]])
    >>> bool(np.allclose(np.exp(model.predict_log_proba([[-2.5], [0.0], [2.5]])), p))
    True

    "far" has two states, on either side, and "near" has one:

    >>> states = model.predict_latent(X)
    >>> bool(states[0] == states[1]), bool(states[0] == states[-1])
    (True, False)
    >>> model.predict_joint_proba(X).shape
    (6, 3)
    """

    def __init__(
        self,
        n_latent: Any = 2,
        *,
        C: float = 1.0,
        fit_intercept: bool = True,
        penalize_intercept: bool = False,
        class_weight: Any = None,
        n_init: int = 5,
        solver: str = "auto",
        tol: float = 1e-8,
        max_iter: int = 1000,
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        callbacks: Any = None,
    ) -> None:
        self.n_latent = n_latent
        self.C = C
        self.fit_intercept = fit_intercept
        self.penalize_intercept = penalize_intercept
        self.class_weight = class_weight
        self.n_init = n_init
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.callbacks = callbacks

    classes_: Array
    coef_: Array
    intercept_: Array
    states_: Array
    state_shares_: Array
    restarts_: Array
    n_features_in_: int
    n_iter_ = StepCount()
    _dtype: Any
    _centre: Array | None = None

    # --- fitting ------------------------------------------------------------------------------------------

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None, *, resume_from: Any = None) -> Self:
        """Fit to rows X with labels y.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n_samples, n_features)
        y : array of labels, shape (n_samples,)
        sample_weight : array of shape (n_samples,), optional
        offset : array, optional
            Added to the scores of all states of a class, as for ``LogisticRegression``: shape (n_samples,) for two
            classes, of which it is that of the second, (n_samples, n_classes) for more.
        resume_from : str or Path, optional
            A file of :class:`~majorant.Checkpoint`, as for ``LogisticRegression``; ``n_init`` has to be 1.

        Returns
        -------
        estimator
            Fitted.
        """
        with all_or_nothing(self):
            self._check_settings()
            if resume_from is not None and self.n_init > 1:
                raise ValueError(f"resume_from goes on with one fit: n_init must be 1, got {self.n_init}")
            refuse_null_ending("y", y)
            rows, y = validated(self, X, y, reset=True)
            check_classification_targets(y)
            check_labels(y)
            classes, labels = np.unique(y, return_inverse=True)
            if len(classes) < 2:
                raise ValueError(f"y must hold at least two classes, got only one class: {classes.tolist()[0]!r}")
            states = read_states(self.n_latent, classes)
            if set(states) == {1}:
                return self._fit_without_states(X, y, sample_weight, offset, resume_from)
            weight = with_class_weight(self.class_weight, classes, y, read_weights(sample_weight, rows))
            is_free = self.fit_intercept and not self.penalize_intercept
            if is_free and only_class(labels if weight is None else labels[weight > 0]) is not None:
                return self._fit_one_class(states, X, y, sample_weight, offset)
            offset = read_class_offset(offset, rows.shape[0], len(classes))
            if weight is not None and not weight.all():  # rows that weigh nothing, whatever they hold, are no rows
                rows, labels, weight, offset = take_rows(np.flatnonzero(weight), rows, labels, weight, offset)
            return self._fit(classes, states, rows, labels, weight, offset, resume_from)

    def _fit_one_class(self, states: tuple[int, ...], X: Any, y: Any, sample_weight: Any, offset: Any) -> Self:
        """Fit rows of one class as without hidden states; those of a class share its intercept."""
        self._fit_without_states(X, y, sample_weight, offset, None)
        if len(self.coef_) < len(states):  # of two classes one score stands against zero
            self.coef_ = np.vstack([-0.5 * self.coef_, 0.5 * self.coef_])
            self.intercept_ = np.append(-0.5 * self.intercept_, 0.5 * self.intercept_)
        self.states_, counts = np.array(states), np.array(states)
        self.coef_ = np.repeat(self.coef_, counts, axis=0)
        self.intercept_ = np.repeat(self.intercept_ - np.log(counts), counts)
        self.intercept_ -= self.intercept_.mean()
        self.state_shares_ = np.repeat(1.0 / counts, counts)
        self.__dict__.pop("coef_error_", None)
        self.__dict__.pop("intercept_error_", None)
        return self

    def _fit_without_states(self, X: Any, y: Any, sample_weight: Any, offset: Any, resume_from: Any) -> Self:
        model = LogisticRegression(**{name: getattr(self, name) for name in SHARED})
        if self.warm_start and hasattr(self, "coef_") and len(self.coef_) == len(self.intercept_):
            model.coef_, model.intercept_, model.classes_ = self.coef_, self.intercept_, self.classes_
        hand_over(self, model)
        model.fit(X, y, sample_weight, offset, resume_from=resume_from)
        for name, value in vars(model).items():
            if name.endswith("_"):
                setattr(self, name, value)
        self.states_ = np.ones(len(self.classes_), dtype=int)
        self.state_shares_ = np.ones(len(self.classes_))
        # Of rows of one class F falls towards zero, and there are no steps.
        self.restarts_ = model.trace_["objective"][-1:] if hasattr(model, "trace_") else np.zeros(1)
        return self

    def _fit(
        self,
        classes: Array,
        states: tuple[int, ...],
        X: Any,
        labels: Array,
        weight: Array | None,
        offset: Array | None,
        resume_from: Any,
    ) -> Self:
        # A class needs a row for each of its states, but a class without rows, as a bootstrap may leave it, is no
        # likelier for its states. A weight of 2 is two rows.
        rows = np.bincount(labels, minlength=len(classes))
        by_weight = rows if weight is None else np.bincount(labels, weights=weight, minlength=len(classes))
        for count, label, found in zip(states, classes.tolist(), np.maximum(rows, by_weight), strict=True):
            if count > max(found, 1) and found > 0:
                raise ValueError(
                    f"n_latent asks for {count} states of class {label!r}, of which there are only {found:g} rows; "
                    "give this class fewer states: n_latent may be a dict of classes"
                )
        # Coefficients and intercepts of the fit before, if it was of the same shape.
        before = None
        if self.warm_start and hasattr(self, "coef_"):
            same = np.array_equal(self.classes_, classes) and tuple(self.states_) == states
            same = same and self.coef_.shape[1] == self.n_features_in_
            if same and np.isfinite(self.coef_).all() and np.isfinite(self.intercept_).all():
                before = self.coef_, self.intercept_
        self.classes_, self.states_, self._dtype = classes, np.array(states), X.dtype
        numbers = (X.nnz if issparse(X) else X.size) * sum(states)
        with sharing(fit_threads(self.n_jobs, numbers * self.n_init)):
            objective = self._objective(X, labels, weight, offset)
            self._centre = objective.model.as_rows().design(objective.like).centre
            saving = Saving(self, objective, self.classes_.tolist)
            interrupted = resumed(resume_from, self, saving)
            tasks = StepTasks(self, X, lambda: classes[labels], self._attributes)
            self._solve(objective, self._starts(objective, before, interrupted), tasks, saving)
        return self

    def _solve(self, objective: Objective, starts: list[Any], tasks: StepTasks, saving: Saving) -> None:
        lines = [ProgressLine()] if self.verbose else []
        callbacks = [*(self.callbacks or ()), *lines, *tasks.followers]
        fit = Fit(objective.model, self._read_more, saving)
        solver = named_solver(self.solver, objective, seed=self._seed(), warm=True)

        def run(start: Array | Progress, tol: float = self.tol, saddles: int = 0) -> tuple[Fitted, float, Followers]:
            """Return a fit, F where it has ended (∞ if it failed), and what knows how far it has come."""
            with Followers(callbacks, fit, start) as followers:
                solution = minimize(
                    objective,
                    solver,
                    start=start,
                    tol=tol,
                    max_steps=self.max_iter,
                    callback=followers,
                    threads=None,
                    saddles=saddles,
                )
            fitted = followers.finish(objective, solution)
            failed = fitted.result.outcome is Outcome.NON_FINITE
            return fitted, inf if failed else objective.with_ledger().value(fitted.params), followers

        # The best of the starts goes on nearly as far as double precision allows.
        runs = [run(start) for start in starts] if callbacks else mapped(run, starts)
        (best, _, followers), self.restarts_ = best_of(runs, lambda run: run[1])
        if best.result.outcome is Outcome.STATIONARY:
            assert followers.progress is not None
            # A far smaller tolerance: rows that are repeated and rows that are weighted then give the same to all
            # digits that matter. Two saddles, at most, are left.
            best, value, _ = run(followers.progress(), 1e-8 * self.tol, 2)
            if not best.result.converged and predicted_decrease(objective, best) <= self.tol:
                best = replace(best, result=replace(best.result, outcome=Outcome.STATIONARY))
            self.restarts_[self.restarts_.argmin()] = value
        else:  # the last of the starts that callbacks have followed need not be the best
            for callback in callbacks:
                if isinstance(callback, Callback):
                    callback.finish(best)
        best = replace(best, result=with_spread(best.result, self.restarts_))
        self._publish(self._in_order(objective, best))
        tasks.end()
        if is_disappointing(objective, best):
            warn(best.result)

    def _in_order(self, objective: Objective, fitted: Fitted) -> Fitted:
        """Return the fit with the states of each class by how many rows they stand for."""
        model, data = objective.model, objective.whole
        assert isinstance(model, LatentMultinomial)
        assert isinstance(data, Labelled)
        Q = model.posterior(model.scores(fitted.params, data), data)
        totals = Q.sum(axis=1) if data.weight is None else Q @ data.weight
        order = np.lexsort((-totals, model.owner))
        of_class = np.add.reduceat(totals, model.first[:-1])
        self.state_shares_ = totals[order] / np.maximum(of_class, np.finfo(float).tiny)[model.owner]
        W = fitted.params.reshape(len(order), -1)[order]
        return replace(fitted, params=W.ravel())

    # --- prediction ---------------------------------------------------------------------------------------

    def decision_function(self, X: Any, offset: Any = None) -> Array:
        """Return log p(y|x) less its mean over classes, (n_samples, n_classes); of two classes, log p(1|x)/p(0|x).

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n_samples, n_features)
        offset : array, optional
            As for ``fit``.

        Returns
        -------
        array of shape (n_samples,) for two classes, (n_samples, n_classes) for more
        """
        scores = self._class_scores(X, offset)
        return (scores[1] - scores[0]) if len(scores) == 2 else (scores - scores.mean(axis=0)).T.copy()

    def predict(self, X: Any, offset: Any = None) -> Array:
        """Return the likeliest class of each row, its states taken together.

        Parameters
        ----------
        X, offset
            As for :meth:`decision_function`.

        Returns
        -------
        array of shape (n_samples,)
            Labels as ``y`` had them.
        """
        likeliest = self._class_scores(X, offset).argmax(axis=0)
        return self.classes_[likeliest]

    def predict_proba(self, X: Any, offset: Any = None) -> Array:
        """Return p(y|x) = Σ_m p(y, m|x).

        Parameters
        ----------
        X, offset
            As for :meth:`decision_function`.

        Returns
        -------
        array of shape (n_samples, n_classes)
            In the order of ``classes_``.
        """
        return log_partition_and_probabilities(self._class_scores(X, offset))[1].T.copy()

    def predict_log_proba(self, X: Any, offset: Any = None) -> Array:
        """Return the logarithms of the probabilities.

        Parameters
        ----------
        X, offset
            As for :meth:`decision_function`.

        Returns
        -------
        array of shape (n_samples, n_classes)
        """
        scores = self._class_scores(X, offset)
        return (scores - log_partition(scores)).T.copy()

    def predict_joint_proba(self, X: Any, offset: Any = None) -> Array:
        """Return p(y, m|x) for every class y and each of its states m.

        Parameters
        ----------
        X, offset
            As for :meth:`decision_function`.

        Returns
        -------
        array of shape (n_samples, states of all classes)
            The states of a class side by side.
        """
        return log_partition_and_probabilities(self._state_scores(X, offset))[1].T.copy()

    def predict_latent(self, X: Any, y: Any = None, offset: Any = None) -> Array:
        """Return which state of its class each row is likeliest in: 0 for the one most rows of the class are in.

        Parameters
        ----------
        X : array, data frame or sparse matrix
        y : array of labels, optional
            The class of each row; if not given, the one that is predicted.
        offset : array, optional
            As in the fit.

        Returns
        -------
        array of shape (n_samples,)
            Numbers of states, counted within each class.
        """
        scores = self._state_scores(X, offset)
        labels = self._class_scores(X, offset).argmax(axis=0) if y is None else self._numbers(y, scores.shape[1])
        model = LatentMultinomial(self.states_)
        others = model.owner[:, None] != labels
        return np.where(others, -np.inf, scores).argmax(axis=0) - model.first[labels]

    def _state_scores(self, X: Any, offset: Any) -> Array:
        """Return scores class-major, (states, n_samples)."""
        check_is_fitted(self, "coef_")
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        scores = np.asarray(safe_sparse_dot(X.astype(np.float64, copy=False), self.coef_.T, dense_output=True))
        scores = (scores + self.intercept_).T
        # One row of coefficients is a score against zero.
        scores = np.concatenate([np.zeros_like(scores), scores]) if len(scores) == 1 else scores
        more = read_class_offset(offset, scores.shape[1], len(self.classes_))
        return scores if more is None else scores + more.T[LatentMultinomial(self.states_).owner]

    def _class_scores(self, X: Any, offset: Any) -> Array:
        """Return the log-sum of the scores of each class, (classes, n_samples)."""
        scores = self._state_scores(X, offset)
        return LatentMultinomial(self.states_).class_scores(scores)

    def _numbers(self, y: Any, rows: int) -> Array:
        labels = np.asarray(y)
        if labels.shape != (rows,):
            raise ValueError(f"y must have one label per row of X ({rows}), got an array of shape {labels.shape}")
        unknown = np.setdiff1d(labels, self.classes_)
        if len(unknown):
            raise ValueError(f"y holds classes that were not fitted: {unknown.tolist()}")
        return np.searchsorted(self.classes_, labels)

    # --- files --------------------------------------------------------------------------------------------

    _fields: ClassVar[dict[str, Field]] = {
        **linear_fields("rows"),
        "states": Field("iu", ("classes",), are_positive),
        "restarts": Field("f", ("restarts",), are_any, needed=False),
        "state_shares": Field("f", ("states",), needed=False),
    }

    def _restore(self, path: Any, facts: dict[str, Any], arrays: dict[str, Array]) -> None:
        rows, states, shares = len(arrays["coef"]), arrays["states"].astype(np.int64), arrays.get("state_shares")
        total = int(states.sum()) if states.max(initial=0) <= max(rows, 2) else 0  # larger ones might overflow
        if len(states) < 2 or rows != (1 if total == 2 else total) or (shares is not None and len(shares) != total):
            raise ValueError(f"the array 'states' does not go with {rows} rows of coefficients")
        if "feature_names" in arrays:
            arrays = arrays | {"feature_names": arrays["feature_names"].astype(object)}
        super()._restore(path, facts, arrays | {"states": states})
        self.n_features_in_ = self.coef_.shape[1]

    # --- what these are made of ---------------------------------------------------------------------------

    def _check_settings(self) -> None:
        check_strength(self.C)
        whole("n_init", self.n_init, least=1)
        check_common_settings(vars(self), SOLVERS)
        if not isinstance(self.n_latent, Mapping | str) and np.ndim(self.n_latent) == 0:
            whole("n_latent", self.n_latent, least=1)
        if self.solver in ("sbm", "sbm-lowrank", "proximal") and np.isinf(self.C):
            raise ValueError(f"solver={self.solver!r} needs a penalty to start from; C=np.inf works with 'auto'")
        if self.solver in ("sbm", "sbm-lowrank") and self.fit_intercept and not self.penalize_intercept:
            raise ValueError(f"solver={self.solver!r} penalises every parameter: set penalize_intercept=True")

    def _objective(self, X: Any, labels: Array, weight: Array | None, offset: Array | None) -> Objective:
        design, free = X if issparse(X) else DenseDesign(X), self.fit_intercept and not self.penalize_intercept
        model = LatentMultinomial(self.states_)
        of_states = None if offset is None else offset[:, model.owner]
        data = Labelled(design, labels, weight, of_states, constant=self.fit_intercept, center=bool(free))
        factors = np.ones(data.n_features)
        factors[-1] = 0.0 if free else 1.0
        # Where threads share the starts, each has one for itself.
        reducer = Threads(threads() if self.n_init == 1 else 1)
        return Objective(model, data, ridge=np.tile(factors / self.C, model.n_classes), reducer=reducer)

    def _starts(
        self, objective: Objective, before: tuple[Array, Array] | None, interrupted: Progress | None
    ) -> list[Any]:
        """Return where fits begin: in a checkpoint, where the fit before has ended, or at random."""
        if interrupted is not None:
            return [interrupted]
        if before is not None:
            coef, intercept = before
            W = joined_params(coef.astype(np.float64), intercept if self.fit_intercept else None, self._centre)
            return [(W - W.mean(axis=0)).ravel()]
        seeds = np.random.SeedSequence(self._seed()).generate_state(self.n_init)
        return [objective.first_params(int(seed)) for seed in seeds]

    def _seed(self) -> int:
        return 0 if self.random_state is None else int(check_random_state(self.random_state).randint(2**31))

    def _attributes(self, theta: Array) -> dict[str, Array]:
        W = theta.reshape(int(self.states_.sum()), -1)
        return split_params(W, self._dtype, constant=bool(self.fit_intercept), centre=self._centre)

    def _publish(self, fitted: Fitted) -> None:
        publish(self, fitted)
        for name, value in self._attributes(fitted.params).items():
            setattr(self, name, value)

    def _read_more(self, X: Any, y: Any) -> Labelled:
        X, y = validated(self, X, y, reset=False)
        center = False if self._centre is None else self._centre
        return Labelled(X, self._numbers(y, X.shape[0]), constant=self.fit_intercept, center=center)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.non_deterministic = False
        return tags

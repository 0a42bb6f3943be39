"""``LogisticRegression``: scikit-learn's, certified, without a step size, and with ``partial_fit``."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets

from majorant.callbacks import Fit, ProgressLine
from majorant.core.affine import FEW, read_csr
from majorant.core.checks import Array, refuse_null_ending
from majorant.core.labelled import CommonGram, Labelled, with_common
from majorant.core.matrix import DenseDesign, Design
from majorant.core.objective import Objective
from majorant.core.remote import RemoteBlocks
from majorant.core.result import Fitted, Outcome, Result
from majorant.core.rows import widened
from majorant.core.solver import Solver
from majorant.core.threads import sharing
from majorant.device.estimators import check_device_solver, is_on_device, read_tensors, to_array
from majorant.estimators.base import (
    StepCount,
    WarmStart,
    check_class_count,
    check_labels,
    check_penalty,
    check_settings,
    distinct,
    fit_threads,
    least_margin,
    only_class,
    read_feature_penalty,
    read_offset,
    read_weights,
    take_rows,
    validated,
    with_class_weight,
)
from majorant.estimators.fitting import (
    StepTasks,
    WithCallbacks,
    errors_of,
    is_unwanted,
    judged_as_published,
    named_solver,
    publish,
    run,
    warn,
    with_callbacks,
)
from majorant.estimators.resuming import Saving, resumed
from majorant.estimators.saving import all_or_nothing
from majorant.estimators.source import FitSource, How, Sweep, check_executor, placed_in_memory
from majorant.linear.classifier import LinearClassifier, SoftLabels, split_params
from majorant.linear.inference import LogisticInference
from majorant.linear.multinomial import Binary, Multinomial
from majorant.linear.stream import Files, PartialFit
from majorant.sources.base import Source
from majorant.sources.chunks import DaskCollections, is_dask

# A fit in single precision that can get no further is worth a warning above this gap.
STUCK = 1e-4
# How often coefficients in single precision are halved that lead above F(0): they are near zero then.
MOST_HALVINGS = 60
# Classes without rows that count are given at least this little a chance, all together.
LEAST_CHANCE = 1e-15


class LogisticRegression(
    WithCallbacks, FitSource, SoftLabels, PartialFit, WarmStart, Files, LogisticInference, LinearClassifier
):
    """ℓ2-regularised logistic regression, binary or multinomial, to a certified distance from the optimum.

    Minimises C Σ_j w_j (−log p(y_j|x_j)) + ½ Σ_i φ_i θ_i² exactly as scikit-learn's estimator does (the objective
    reported is that divided by C); the intercept is not penalised unless asked for.

    Parameters
    ----------
    penalty : "l2" or None
        None for no penalty, whatever C is. Better left out, as scikit-learn has it: ``C=np.inf`` says the same.
    C : float
        Inverse of the penalty; ``np.inf`` for none: maximum likelihood, which then is proved to exist, or not to.
    l1_ratio : float
        Accepted for scikit-learn's sake; only 0 is done here.
    fit_intercept, penalize_intercept : bool
        Whether there is an intercept, and whether it is penalised like a coefficient.
    class_weight : dict, "balanced" or None
        As in scikit-learn.
    solver : str
        "auto" (quasi-Newton steps scaled by a curvature that suits the size), "bbm", "newton", "lbfgs", "proximal" (one
        streaming pass, then finishing steps), or, for comparison, "sbm", "sbm-lowrank", "sgd", "asgd". scikit-learn's
        names are accepted: "newton-cholesky" is "newton"; "newton-cg", "sag", "saga" and "liblinear" are "auto", which
        finds the optimum of theirs. That of "liblinear" is another one, here as there: its intercept is penalised (see
        ``intercept_scaling``), and it takes two classes only. "sgd" and "asgd" take steps on the columns of sparse rows
        as they are, like scikit-learn's ``SGDClassifier``: where their means are far from zero scale them first (every
        other solver, and these on dense rows, measures such columns from their means).
    tol : float
        Certified relative suboptimality at which to stop: (F − F*)/F ≤ tol.
    max_iter : int
        Steps; for the stochastic solvers, passes over the data.
    warm_start : bool
        Start from the coefficients of the previous fit.
    shuffle : bool
        Whether stochastic solvers visit rows in random order.
    random_state : int, RandomState or None
        Seed of that order.
    n_jobs : int or None
        Threads; all cores if −1. If None, as many as BLAS would use here (``OMP_NUM_THREADS``, ``threadpool_limits``),
        one inside a worker of joblib or where rows are few. Coefficients are the same for any number.
    verbose : int
        1 shows a line of progress on standard error.
    feature_penalty : array of shape (n_features,), optional
        Factors φ ≥ 0 on the penalty of each feature.
    dual : bool
        Accepted for scikit-learn's sake, with "liblinear" only: the optimum is the same.
    intercept_scaling : float
        With "liblinear" the intercept b adds ½ (b / intercept_scaling)² to the penalty; without effect otherwise.
    multi_class : str
        Accepted for older code: "auto" and "multinomial" for more than two classes, "auto" and "ovr" for two.
    callbacks : list, optional
        E.g. :class:`~majorant.callbacks.EarlyStopping`, :class:`~majorant.callbacks.Checkpoint`; any function of a
        row of the trace and θ that returns True to stop.

    Attributes
    ----------
    classes_, coef_, intercept_, n_features_in_
        As in scikit-learn.
    n_iter_ : array of shape (1,)
        Steps taken.
    gap_ : float
        Certified bound on (F − F*)/F; NaN where there is none.
    coef_error_, intercept_error_ : arrays like ``coef_`` and ``intercept_``
        How far each is from the exact optimum at most; infinite where nothing is known.
    trace_ : dict of arrays
        Passes, seconds, objective, gradient norm, gap at each step. With a free intercept only the last step is
        certified (``gap_``), and this gap is NaN.
    result_ : Result
        Why the fit stopped, as a sentence.
    n_rounds_ : int
        With workers only: how often all of them were asked for something.

    Examples
    --------
    >>> import majorant
    >>> X, y = majorant.datasets.load("ecoli")
    >>> model = majorant.LogisticRegression().fit(X[:, :-1], y)
    >>> model.gap_ <= 1e-8, round(model.score(X[:, :-1], y), 2)
    (True, 0.83)
    """

    def __init__(
        self,
        penalty: str | None = "deprecated",
        *,
        C: float = 1.0,
        l1_ratio: float = 0.0,
        fit_intercept: bool = True,
        penalize_intercept: bool = False,
        class_weight: Any = None,
        solver: str = "auto",
        tol: float = 1e-8,
        max_iter: int = 1000,
        warm_start: bool = False,
        shuffle: bool = True,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        feature_penalty: Any = None,
        dual: bool = False,
        intercept_scaling: float = 1.0,
        multi_class: str = "deprecated",
        callbacks: Any = None,
    ) -> None:
        self.penalty = penalty
        self.C = C
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.penalize_intercept = penalize_intercept
        self.class_weight = class_weight
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.shuffle = shuffle
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.feature_penalty = feature_penalty
        self.dual = dual
        self.intercept_scaling = intercept_scaling
        self.multi_class = multi_class
        self.callbacks = callbacks

    # --- fitting ------------------------------------------------------------------------------------------

    @with_callbacks
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        offset: Any = None,
        *,
        executor: Any = None,
        resume_from: Any = None,
    ) -> Self:
        """Fit to rows X with labels y.

        Parameters
        ----------
        X : array, data frame, sparse matrix or tensor of shape (n_samples, n_features), or a Source
            A tensor of PyTorch stays on its device, a GPU or not, and so does all that is as large.
            A source (:class:`~majorant.Parquet`, :class:`~majorant.Chunks`, …) brings its own labels and weights, and
            is read pass by pass: it may be larger than memory. So may Dask arrays and data frames.
        y : array of labels, shape (n_samples,)
        sample_weight : array of shape (n_samples,), optional
        offset : array, optional
            Added to the scores: shape (n_samples,) for two classes, (n_samples, n_classes) for more.
        executor : concurrent.futures.Executor or dask.distributed.Client, optional
            Whose workers add up over the rows; each reads its share of a source for itself.
        resume_from : str or Path, optional
            A file of :class:`~majorant.Checkpoint`: go on from there, to the same coefficients and trace as if the fit
            had never stopped. Data and settings have to be the same; ``tol`` and ``max_iter`` may be others.

        Returns
        -------
        estimator
            Fitted.
        """
        with all_or_nothing(self):
            self._check_settings()
            how = How(check_executor(executor), resume_from)
            if is_dask(X):
                return self._fit_source(DaskCollections(X, y, sample_weight), how, offset=offset)
            if isinstance(X, Source):
                return self._fit_source(X, how, y=y, sample_weight=sample_weight, offset=offset)
            y, sample_weight, offset = map(to_array, (y, sample_weight, offset))
            X, y = self._validate(X, y, reset=True, there=True)
            classes, labels = distinct(y)
            self._set_classes(classes)
            return self._fit(X, labels, self._weights(sample_weight, y, y), offset, how)

    def _fit(self, X: Any, labels: Array, weight: Array | None, offset: Any, how: How) -> Self:
        numbers = (X.nnz if issparse(X) else X.shape[0] * X.shape[1]) * len(self.classes_)
        # Where rows are on a device there is nothing to share here, and threads of BLAS would only wait for each other.
        with sharing(1 if isinstance(X, Design) else fit_threads(self.n_jobs, numbers)):
            self._fit_rows(X, labels, weight, offset, how)
        return self

    def _fit_rows(self, X: Any, labels: Array, weight: Array | None, offset: Any, how: How) -> None:
        offset = read_offset(offset, X.shape[0], len(self.classes_))
        if weight is not None and not weight.all():  # rows that weigh nothing, whatever they hold, are no rows
            rows = np.flatnonzero(weight)
            X = X.part(rows) if isinstance(X, Design) else X[rows]
            labels, weight, offset = take_rows(rows, labels, weight, offset)
        only = only_class(labels) if self._is_free else None
        if only is not None and (margin := least_margin(offset, only)) > -np.inf:
            tasks = StepTasks(self, X, lambda: self._names(labels), self._attributes)
            self._fit_one_class(tasks, only, margin)
            return
        sweep = Sweep() if self._sweep is None else self._sweep
        objective = sweep.under(self._ridge, lambda: self._read_objective(X, labels, weight, offset, how.executor))
        tasks = StepTasks(self, X, lambda: self._names(labels), self._attributes)
        self._solve(objective, sweep, tasks, how, offset)

    def _fit_one_class(self, tasks: StepTasks, only: int, margin: float) -> None:
        """Fit rows of one class, of which a free intercept has no optimum: set it so that the class is near certain.

        The loss falls towards zero as the intercept grows, with coefficients of zero; ``tol`` says how near is enough.
        """
        chance = min(max(float(self.tol), LEAST_CHANCE), 0.5)
        score = np.log(len(self.classes_) - 1) - np.log(chance) - min(margin, 0.0)
        W = np.zeros((self._model().coefficient_rows, self.n_features_in_ + 1))
        W[:, -1] = np.where(np.arange(len(W)) == only, score, 0.0) if len(W) > 1 else score * (2 * only - 1)
        message = (
            f"only class {self.classes_.tolist()[only]!r} has rows of positive weight: coefficients are zero, and the "
            f"intercept, which has no finite optimum, leaves all other classes a probability of {chance:.0e} at most"
        )
        self._forget_fit()
        self._centre = None
        self._publish(Fitted(W.ravel(), Result(Outcome.CONVERGED, message, float("nan")), 0, {}))
        self.coef_error_ = np.full(self.coef_.shape, np.inf)
        self.intercept_error_ = np.full(self.intercept_.shape, np.inf)
        tasks.end()

    def _solve(
        self, objective: Objective, sweep: Sweep, tasks: StepTasks, how: How, offset: Array | None = None
    ) -> None:
        centre = objective.model.as_rows().design(objective.like).centre
        saving = Saving(self, objective, self.classes_.tolist)
        before = resumed(how.resume_from, self, saving)
        start = before or sweep.start() or self._first_params(objective, offset, centre)
        self._forget_fit()
        self._centre, objective.columns = centre, getattr(self, "feature_names_in_", None)
        fitted = run(
            objective,
            self._make_solver(objective) if before is None else before.solver,
            Fit(objective.model, self._read_more, saving),
            [*(self.callbacks or ()), *([how.line or ProgressLine()] if self.verbose else ()), tasks],
            start=start,
            tol=self.tol,
            max_steps=self.max_iter,
            certified=self._certifies,
        )
        unwanted = is_unwanted(fitted.result, max(self.tol, STUCK if objective.narrow else 0.0))
        if unwanted and objective.narrow and fitted.result.outcome in (Outcome.STALLED, Outcome.UNBOUNDED):
            fitted = self._in_double(objective, fitted)
        if self._dtype != np.float64:
            fitted = judged_as_published(objective, fitted, self._as_published(fitted.params).ravel(), self.tol)
        self._publish(fitted)
        if isinstance(objective.blocks, RemoteBlocks):
            self.n_rounds_ = objective.blocks.rounds
        sweep.add(fitted.solution)
        tasks.end()
        if unwanted:
            warn(fitted.result, remedy=self._remedy())

    def _read_objective(
        self, X: Any, labels: Array, weight: Array | None, offset: Array | None, executor: Any
    ) -> Objective:
        if issparse(X) and X.shape[0] * X.shape[1] * self._model().coefficient_rows <= FEW:
            X = X.toarray()  # sparse products take longer to be called than these take
        # What was validated need not be looked through again.
        design = X if isinstance(X, Design) else read_csr(X) if issparse(X) else DenseDesign(X)
        data = Labelled(design, labels, weight, offset, constant=self.fit_intercept, center=self._is_free)
        placed = placed_in_memory(with_common(data, self._common), executor, self._model().coefficient_rows)
        return Objective(self._model(), placed.data, ridge=self._ridge(), reducer=placed.reducer)

    def _publish(self, fitted: Fitted) -> None:
        publish(self, fitted)
        found = self._attributes(fitted.params)
        classes = self._model().coefficient_rows
        self.__dict__.update(found, **errors_of(fitted, self._ridge(), classes, self._centre, found))

    def _remedy(self) -> str:
        """Return which arguments penalise what is not penalised."""
        by_column = self.feature_penalty is not None and 0 in np.asarray(self.feature_penalty)
        advice = ["use a finite C"] if np.isinf(self._strength) else []
        advice += ["give feature_penalty positive factors for these columns"] if by_column else []
        return " and ".join(advice) or "set penalize_intercept=True"

    def _in_double(self, objective: Objective, fitted: Fitted) -> Fitted:
        """Return a fit in single precision whose coefficients may be huge and cancel, with F as it is in double.

        Where F is larger than single precision had it, coefficients are shortened as long as that lowers it.
        """

        def value(theta: Array) -> float:
            W = self._as_published(theta)
            loss = partial(widened, partial(objective.model.loss_at, W.ravel()))
            return float(objective.small_blocks.total(loss)) + objective.penalty.value(W.ravel())

        theta, said, at_zero = fitted.params, float(fitted.trace["objective"][-1]), objective.value_at_zero()
        found = value(theta)
        if found <= said + STUCK * max(at_zero - said, 0.0):
            return fitted
        for _ in range(MOST_HALVINGS):
            shorter = value(theta / 2)
            if not (shorter < found or found > at_zero):
                break
            theta, found = theta / 2, shorter
        words = f"; F is {found:.3g} in double precision, not {said:.3g}: give X in double precision"
        gap = fitted.result.gap if theta is fitted.params else float("nan")
        return replace(fitted, params=theta, result=replace(fitted.result, message=f"{fitted.result}{words}", gap=gap))

    def _as_published(self, theta: Array) -> Array:
        """Return the parameters that published coefficients stand for, a row for each class."""
        W = theta.reshape(self._model().coefficient_rows, -1)
        W = W - W.mean(axis=0) if len(W) > 1 else W.copy()
        W[:, : self.n_features_in_] = W[:, : self.n_features_in_].astype(self._dtype)
        return W

    def _forget_fit(self) -> None:
        for name in ("_stream", "_posterior", "trace_", "n_rounds_", "coef_error_", "intercept_error_"):
            self.__dict__.pop(name, None)

    # --- what the methods above are made of ---------------------------------------------------------------

    n_iter_ = StepCount()
    result_: Result
    notes_: dict[str, Any] | None  # of a loaded model
    _dtype: Any
    _sweep: Sweep | None = None  # of the grid that this fit is one of
    _common: CommonGram | None = None  # with fits to other labels of the same rows
    _certifies: bool = True  # or it is only compared with others

    def _check_settings(self) -> None:
        check_penalty(self.penalty, self.l1_ratio, self.C)
        check_settings(self)
        if self.solver in ("sbm", "sbm-lowrank") and self.fit_intercept and not self.penalize_intercept:
            raise ValueError(f"solver={self.solver!r} penalises every parameter: set penalize_intercept=True")
        if np.isinf(self._strength) and self.solver in ("sbm", "sbm-lowrank", "proximal"):
            raise ValueError(f"solver={self.solver!r} needs a penalty to start from; C=np.inf works with 'auto'")

    @property
    def _strength(self) -> float:
        """C, or infinity where there is no penalty."""
        return float("inf") if self.penalty is None else float(self.C)

    def _validate(self, X: Any, y: Any, *, reset: bool, there: bool = False) -> tuple[Any, Array]:
        """Return rows and labels; rows on a device come here, unless they are wanted ``there``."""
        refuse_null_ending("y", y)
        if there and is_on_device(X):
            check_device_solver(self.solver)
            X, y = read_tensors(self, X, y, reset=reset)
        else:
            X, y = validated(self, to_array(X), to_array(y), reset=reset)
        if y.dtype.kind == "f":  # numbers that may be measurements; anything else names classes
            check_classification_targets(y)
        check_labels(y)
        self._dtype = X.dtype if reset else getattr(self, "_dtype", X.dtype)
        return X, y

    def _set_classes(self, classes: Array) -> None:
        if len(classes) < 2:
            raise ValueError(f"y must hold at least two classes, got only one class: {classes.tolist()[0]!r}")
        check_class_count(len(classes), self.solver, self.multi_class)
        self.classes_ = classes

    def _weights(self, sample_weight: Any, X: Any, y: Array) -> Array | None:
        return with_class_weight(self.class_weight, self.classes_, y, read_weights(sample_weight, X))

    def _model(self) -> Binary | Multinomial:
        return Binary() if len(self.classes_) == 2 else Multinomial(len(self.classes_))

    def _ridge(self) -> Array:
        rows, columns = self._model().coefficient_rows, self.n_features_in_ + bool(self.fit_intercept)
        if self.feature_penalty is None and not self._is_free and self.solver != "liblinear":  # one number for all
            return np.broadcast_to(1.0 / self._strength, (rows * columns,))
        ridge = np.empty(columns)
        ridge[: self.n_features_in_] = read_feature_penalty(self.feature_penalty, self.n_features_in_)
        ridge[self.n_features_in_ :] = self._intercept_factor()
        ridge /= self._strength
        return ridge if rows == 1 else np.tile(ridge, rows)

    def _intercept_factor(self) -> float:
        if self.solver == "liblinear":
            return float(self.intercept_scaling) ** -2
        return 1.0 if self.penalize_intercept else 0.0

    def _make_solver(self, objective: Objective) -> Solver[Any]:
        return named_solver(self.solver, objective, seed=self._seed(), shuffle=self.shuffle, warm=bool(self.warm_start))

    def _seed(self) -> int:
        return 0 if self.random_state is None else int(check_random_state(self.random_state).randint(2**31))

    @property
    def _is_free(self) -> bool:
        """Whether there is an intercept without a penalty: columns may then be measured from anywhere."""
        return bool(self.fit_intercept) and self._intercept_factor() == 0

    def _names(self, labels: Array) -> Array:
        return self.classes_[labels if labels.ndim == 1 else labels.argmax(axis=1)]

    def _attributes(self, theta: Array) -> dict[str, Array]:
        """Return coefficients and intercepts."""
        W = theta.reshape(self._model().coefficient_rows, -1)
        return split_params(W, self._dtype, constant=bool(self.fit_intercept), centre=self._centre)

    def _read_more(self, X: Any, y: Any) -> Labelled:
        X, y = self._validate(X, y, reset=False)
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(f"validation labels hold classes that are not trained on: {unknown}")
        labels, center = np.searchsorted(self.classes_, y), False if self._centre is None else self._centre
        return Labelled(X, labels, constant=self.fit_intercept, center=center)

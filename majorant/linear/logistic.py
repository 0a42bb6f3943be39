"""``LogisticRegression``: scikit-learn's, certified, without a step size, and with ``partial_fit``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import inf, log
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from majorant.callbacks import Fit, PassLine, ProgressLine
from majorant.core.affine import read_csr
from majorant.core.checks import Array, one_of, refuse_null_ending
from majorant.core.labelled import CommonGram, Labelled, with_common
from majorant.core.matrix import FEW, DenseDesign, Design
from majorant.core.objective import Objective
from majorant.core.penalty import ElasticNet, Penalty
from majorant.core.result import Fitted, Outcome, Result, Solution, counted, stream_result
from majorant.core.rows import Reducer, Threads
from majorant.core.run import minimize
from majorant.core.threads import all_finite, numerics, sharing, threads
from majorant.device.estimators import check_device_solver, is_on_device, read_tensor, read_tensors, to_array
from majorant.estimators import saving
from majorant.estimators.base import (
    check_class_count,
    check_labels,
    check_penalty,
    check_settings,
    check_strength,
    distinct,
    fit_threads,
    least_margin,
    only_class,
    read_distributions,
    read_feature_penalty,
    read_offset,
    read_weights,
    share_of_l1,
    take_rows,
    validated,
    with_class_weight,
)
from majorant.estimators.fitting import (
    ONE_AFTER_THE_OTHER,
    ROUNDING,
    STUCK,
    CallbackSupportMixin,
    Followers,
    StepTasks,
    as_told_apart,
    errors_of,
    in_double_precision,
    is_unwanted,
    judged_as_published,
    named_solver,
    publish,
    warn,
    warn_outside,
    with_callbacks,
)
from majorant.estimators.saving import Notes, Saving, all_or_nothing, resumed
from majorant.linear.classifier import LARGEST_POSTERIOR, LinearClassifier, split_params
from majorant.linear.inference import (
    SOURCES,
    as_published,
    average_effects,
    bootstrapped,
    columns_of,
    contrasts,
    estimates,
    firth,
    flat_directions,
    interval_of_probabilities,
)
from majorant.linear.multinomial import Binary, Multinomial
from majorant.linear.stream import FEW as FEW_ROWS
from majorant.linear.stream import STREAM, Stream, take_up
from majorant.sources.base import DaskCollections, Source, is_dask

if TYPE_CHECKING:
    from majorant.estimators.source import Surveyed
    from majorant.inference import Summary
    from majorant.resampling import Bootstrap
    from majorant.sources.streamed import Encoding

# How much of its label the place of a row may tell where rows are visited as they come, before that is worth a warning.
SORTED = 0.3
FIRTH = "Firth's penalty: estimates maximise the likelihood times Jeffreys' prior"
# Settings that a stream keeps.
SETTLED = ("C", "penalty", "fit_intercept", "penalize_intercept", "feature_penalty", "solver", "intercept_scaling")


class Sweep:
    """Fits of the same rows under one ridge after another: what each leaves to the next."""

    def __init__(self) -> None:
        self.surveyed: Surveyed | None = None  # of a source, which is read a first time only once
        self._objective: Objective | None = None
        self._solutions: list[tuple[float, Solution]] = []  # the last two, with log λ of each

    def under(self, ridge: Callable[[], Array | Penalty], read: Callable[[], Objective]) -> Objective:
        """Return the objective of the rows under a ridge; rows are read once."""
        self._objective = read() if self._objective is None else self._objective.with_ridge(ridge())
        return self._objective

    def start(self) -> Solution | None:
        """Return the last solution, with the parameters on the line in log λ through the last two."""
        if not self._solutions:
            return None
        (log_before, before), (log_last, last) = self._solutions[0], self._solutions[-1]
        if self._objective is not None and not self._objective.penalty.smooth:  # zeros stay zero
            return last
        size = self._log_ridge()
        if not (abs(log_before) < inf and abs(log_last) < inf and abs(size) < inf) or log_last == log_before:
            return last
        slope = (size - log_last) / (log_last - log_before)
        return replace(last, params=last.params + slope * (last.params - before.params))

    def add(self, solution: Solution | None) -> None:
        """Remember a solution, if it is one to go on from."""
        if solution is not None and all_finite(solution.params):
            self._solutions = [*self._solutions[-1:], (self._log_ridge(), solution)]

    def largest_l1(self) -> float:
        """Return by how much an ℓ1 penalty may be multiplied at most to leave coefficients other than zero.

        All penalised coefficients of the last solution have to be zero.
        """
        assert self._objective is not None
        F, (_, last) = self._objective, self._solutions[-1]
        assert isinstance(F.penalty, ElasticNet)
        of_loss = F.blocks.total(partial(F.model.loss_and_gradient, last.params))[1]
        l1 = F.penalty.l1
        return float((np.abs(of_loss) / np.where(l1 > 0, l1, np.inf)).max())

    def _log_ridge(self) -> float:
        """Return log λ, up to a constant."""
        assert self._objective is not None
        largest = float(self._objective.ridge.max())
        return log(largest) if largest > 0 else -inf


class Problem(NamedTuple):
    """A fit to make: a function that reads its objective, and what callbacks are shown of the rows."""

    read: Callable[[], Objective]
    threads: int  # that share it
    only: tuple[int, float] | None = None  # the one class with weight, and its least margin by offsets
    offset: Array | None = None
    X: Any = None
    labels: Callable[[], Array] = partial(np.empty, 0)
    line: PassLine | None = None


class LogisticRegression(CallbackSupportMixin, LinearClassifier):  # type: ignore[misc]
    """Regularised logistic regression, binary or multinomial, to a certified distance from the optimum.

    Minimises C Σ_j w_j (−log p(y_j|x_j)) + Σ_i φ_i (r|θ_i| + ½ (1 − r) θ_i²), r = ``l1_ratio``, exactly as
    scikit-learn's estimator does (the objective reported is that divided by C); the intercept is not penalised unless
    asked for. With r > 0 coefficients are zero where that is best.

    Parameters
    ----------
    penalty : "l1", "l2", "elasticnet", "firth" or None
        None for no penalty, whatever C is. Better left out, as scikit-learn has it: ``l1_ratio`` and C say the same.
        "firth" is Jeffreys' prior, whatever C is: estimates are less biased, and finite where classes are separated.
    C : float
        Inverse of the penalty; ``np.inf`` for none: maximum likelihood, which then is proved to exist, or not to.
    l1_ratio : float
        Which share of the penalty is ℓ1: 0 for ℓ2, 1 for ℓ1, anything between for an elastic net. More than 0 needs
        rows in memory, or no more than 2,000 parameters. The solvers "auto", "saga" and "liblinear" are then proximal
        Newton on working sets. Several classes under ℓ1 alone may have more than one optimum, all with the same F.
    fit_intercept, penalize_intercept : bool
        Whether there is an intercept, and whether it is penalised like a coefficient.
    class_weight : dict, "balanced" or None
        As in scikit-learn.
    solver : str
        "auto" (whatever is fastest for data of this size), "bbm", "newton", "proximal" (one streaming pass, then
        finishing steps), or, for comparison, "scipy-lbfgs", "sbm", "sbm-lowrank", "sgd", "asgd". scikit-learn's names
        are accepted: "lbfgs", "newton-cg", "sag", "saga" and "liblinear" are "auto", which finds the optimum of theirs,
        and "newton-cholesky" is "newton". "liblinear" has another optimum, as in scikit-learn: its intercept is
        penalised (see ``intercept_scaling``), and it takes two classes only. "sgd" and "asgd" take steps on the columns
        of sparse rows as they are, like scikit-learn's ``SGDClassifier``: scale them first where their means are far
        from zero (every other solver, and these on dense rows, measures such columns from their means).
    tol : float
        Certified relative suboptimality at which to stop: (F − F*)/F ≤ tol. At 1e-6 three digits of every probability
        stand, and no prediction changed in thirteen data sets. Where maximum likelihood ends (``C=np.inf``) estimates
        are within 1e-6 standard errors, whatever ``tol`` is.
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
        How far each is from the exact optimum at most; infinite where nothing is known, as under ℓ1 alone.
    n_nonzero_ : int
        How many coefficients are not zero.
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
    >>> model.gap_ <= 1e-6, round(model.score(X[:, :-1], y), 2)
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
        tol: float = 1e-6,
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
            if executor is not None:
                from majorant.estimators.source import check_executor

                check_executor(executor)
            if is_dask(X):
                X, y, sample_weight = DaskCollections(X, y, sample_weight), None, None
            if isinstance(X, Source):
                problem = self._survey(X, executor, y=y, sample_weight=sample_weight, offset=offset)
            else:
                y, sample_weight, offset = map(to_array, (y, sample_weight, offset))
                X, y = self._validate(X, y, reset=True, there=True)
                classes, labels = distinct(y)
                self._set_classes(classes)
                problem = self._problem(X, labels, self._weights(sample_weight, y, y), offset, executor)
            with sharing(problem.threads):
                return self._fit(problem, resume_from)

    @with_callbacks
    def fit_soft(
        self,
        X: Any,
        P: Any,
        sample_weight: Any = None,
        offset: Any = None,
        classes: Any = None,
        resume_from: Any = None,
    ) -> Self:
        """Fit to rows X with a distribution over the classes for each.

        Parameters
        ----------
        X, sample_weight, offset, resume_from
            As for :meth:`fit`.
        P : array of shape (n_samples, n_classes)
            Probabilities: every row sums to one.
        classes : list of labels, optional
            What the columns of P stand for; if not given, 0, 1, ….

        Returns
        -------
        estimator
            Fitted.

        Examples
        --------
        >>> import majorant
        >>> X, P = [[-1.0], [0.0], [1.0]], [[0.9, 0.1], [0.5, 0.5], [0.1, 0.9]]
        >>> model = majorant.LogisticRegression(C=100.0).fit_soft(X, P, classes=["no", "yes"])
        >>> model.predict_proba([[1.0]]).round(1), model.predict([[2.0]])
        (array([[0.1, 0.9]]), array(['yes'], dtype='<U3'))
        """
        with all_or_nothing(self):
            self._check_settings()
            if self.class_weight is not None:
                raise ValueError("class_weight has no meaning for soft labels; use sample_weight")
            X = validated(self, X, reset=True) if not is_on_device(X) else read_tensor(self, X, reset=True)
            self._dtype = X.dtype
            names, P = read_distributions(to_array(P), classes)
            self._set_classes(names)
            problem = self._problem(X, P, read_weights(sample_weight, X), offset)
            with sharing(problem.threads):
                return self._fit(problem, resume_from)

    def _fit(self, problem: Problem, resume_from: Any = None) -> Self:
        """Minimize the objective of a problem, and publish the solution."""
        self._forget_fit()
        if self.penalty == "firth":
            return self._fit_firth(problem.read())
        if problem.only is not None:
            return self._fit_one_class(problem)

        # The objective, and where to begin.
        sweep = Sweep() if self._sweep is None else self._sweep
        objective = sweep.under(self._penalty, problem.read)
        centre = objective.model.as_rows().design(objective.like).centre
        checkpoint = Saving(self, objective, self.classes_.tolist)
        before = resumed(resume_from, self, checkpoint)
        start = before or sweep.start() or self._first_params(objective, problem.offset, centre)
        self._centre, objective.columns = centre, getattr(self, "feature_names_in_", None)
        solver = (
            before.solver
            if before is not None
            else named_solver(
                self.solver, objective, seed=self._seed(), shuffle=self.shuffle, warm=bool(self.warm_start)
            )
        )

        # Minimize.
        tasks = StepTasks(self, problem.X, problem.labels, self._attributes)
        lines = [problem.line or ProgressLine()] if self.verbose else []
        callbacks = [*(self.callbacks or ()), *lines, *tasks.followers]
        with Followers(callbacks, Fit(objective.model, self._read_more, checkpoint), start) as followers:
            solution = minimize(
                objective,
                solver,
                start=start,
                tol=self.tol,
                max_steps=self.max_iter,
                callback=followers if callbacks else None,
                threads=None,
                certified=self._certifies,
            )
        fitted = followers.finish(objective, solution)

        # Publish; coefficients in single precision are judged as they are rounded.
        result = fitted.result
        # Under ℓ1 a gap is linear in the rounding errors of a gradient, not quadratic.
        rounded = objective.narrow or not objective.penalty.smooth
        unwanted = is_unwanted(result, max(self.tol, STUCK if rounded else 0.0))
        if unwanted and objective.narrow and result.outcome in (Outcome.STALLED, Outcome.UNBOUNDED):
            fitted = in_double_precision(objective, fitted, self._as_published)
        if self._dtype != np.float64:
            fitted = judged_as_published(objective, fitted, self._as_published(fitted.params), self.tol)
        self._publish(fitted)
        rounds = getattr(objective.blocks, "rounds", None)  # of workers
        if rounds is not None:
            self.n_rounds_ = rounds
        sweep.add(fitted.solution)
        tasks.end()
        if unwanted:
            by_column = self.feature_penalty is not None and 0 in np.asarray(self.feature_penalty)
            advice = ["use a finite C"] if np.isinf(self._strength) else []
            advice += ["give feature_penalty positive factors for these columns"] if by_column else []
            warn(fitted.result, remedy=" and ".join(advice) or "set penalize_intercept=True")
        return self

    def _fit_firth(self, objective: Objective) -> Self:
        """Fit by Newton's steps on the likelihood with Jeffreys' prior."""
        from majorant.likelihood import stationary_point

        if objective.whole is None or objective.like.design.place is not None or objective.size > LARGEST_POSTERIOR:
            raise ValueError(
                f"penalty='firth' needs rows in memory and at most {LARGEST_POSTERIOR} parameters: use penalty='l2'"
            )
        likelihood = firth(objective)
        rows = self._model().coefficient_rows
        start = np.zeros(objective.size * max(rows - 1, 1) // rows)
        theta, F, _, steps, left = stationary_point(likelihood.expand, start, max_iter=self.max_iter)
        if not np.isfinite(F):
            raise ValueError(
                "penalty='firth' needs columns that are not collinear: drop one of them, or use a finite C"
            )
        self._centre = objective.model.as_rows().design(objective.like).centre
        W = theta.reshape(max(rows - 1, 1), -1)
        W = np.vstack([np.zeros(W.shape[1]), W]) if rows > 1 else W
        near = left <= max(self.tol, STUCK)
        words = f"after {counted(steps, 'step')}: the next one is {left:.0e} standard errors"
        outcome = Outcome.STATIONARY if near else Outcome.STEP_LIMIT
        result = Result(outcome, f"stationary {words}" if near else f"stopped {words}", float("nan"))
        self._publish(Fitted((W - W.mean(axis=0) if rows > 1 else W).ravel(), result, steps, {}))
        self.coef_error_ = np.full(self.coef_.shape, np.inf)
        self.intercept_error_ = np.full(self.intercept_.shape, np.inf)
        if not near:
            warn(result)
        return self

    def _fit_one_class(self, problem: Problem) -> Self:
        """Fit rows of one class, of which a free intercept has no optimum: set it so that the class is near certain.

        The loss falls towards zero as the intercept grows, with coefficients of zero; ``tol`` says how near is enough.
        """
        assert problem.only is not None
        only, margin = problem.only
        tasks = StepTasks(self, problem.X, problem.labels, self._attributes)
        chance = min(max(float(self.tol), ROUNDING), 0.5)  # of all classes without rows together
        score = np.log(len(self.classes_) - 1) - np.log(chance) - min(margin, 0.0)
        W = np.zeros((self._model().coefficient_rows, self.n_features_in_ + 1))
        W[:, -1] = np.where(np.arange(len(W)) == only, score, 0.0) if len(W) > 1 else score * (2 * only - 1)
        message = (
            f"only class {self.classes_.tolist()[only]!r} has rows of positive weight: coefficients are zero, and the "
            f"intercept, which has no finite optimum, leaves all other classes a probability of {chance:.0e} at most"
        )
        self._centre = None
        self._publish(Fitted(W.ravel(), Result(Outcome.CONVERGED, message, float("nan")), 0, {}))
        self.coef_error_ = np.full(self.coef_.shape, np.inf)
        self.intercept_error_ = np.full(self.intercept_.shape, np.inf)
        tasks.end()
        return self

    def _problem(self, X: Any, labels: Array, weight: Array | None, offset: Any, executor: Any = None) -> Problem:
        """Return the fit of rows in memory, here or on a device, with labels or distributions over the classes."""
        model = self._model()
        # Where rows are on a device there is nothing to share here, and threads of BLAS would only wait for each other.
        numbers = (X.nnz if issparse(X) else X.shape[0] * X.shape[1]) * len(self.classes_)
        threads_of_fit = 1 if isinstance(X, Design) else fit_threads(self.n_jobs, numbers)
        offset = read_offset(offset, X.shape[0], len(self.classes_))
        if weight is not None and not weight.all():  # rows that weigh nothing, whatever they hold, are no rows
            rows = np.flatnonzero(weight)
            X = X.part(rows) if isinstance(X, Design) else X[rows]
            labels, weight, offset = take_rows(rows, labels, weight, offset)
        only = only_class(labels) if self._is_free else None
        margin = -inf if only is None else least_margin(offset, only)

        def read() -> Objective:
            rows = X
            if issparse(rows) and rows.shape[0] * rows.shape[1] * model.coefficient_rows <= FEW:
                rows = rows.toarray()  # sparse products take longer to be called than these take
            # What was validated need not be looked through again.
            design = rows if isinstance(rows, Design) else read_csr(rows) if issparse(rows) else DenseDesign(rows)
            if self._share_of_l1 and design.place is None:  # columns are worked on in double precision
                design = design.widened() if design.dtype != np.float64 else design
            rows_here = Labelled(design, labels, weight, offset, constant=self.fit_intercept, center=self._is_free)
            data: Any = with_common(rows_here, self._common)
            reducer: Reducer = Threads(threads())
            if design.place is not None and self._share_of_l1:
                raise ValueError(
                    f"l1_ratio must be 0 for tensors, whose columns are not at hand, got {self.l1_ratio!r}; "
                    "fit X.cpu().numpy()"
                )
            if design.place is not None and executor is not None:
                raise ValueError("executor must be left out: tensors stay on their device")
            if design.place is not None:
                from majorant.device.blocks import OnDevice

                reducer = OnDevice(design.place, model.coefficient_rows)
            elif executor is not None:
                from majorant.estimators.source import shared_out

                data, reducer = shared_out(data, executor)
            return Objective(model, data, ridge=self._penalty(), reducer=reducer)

        def names() -> Array:
            return self.classes_[labels if labels.ndim == 1 else labels.argmax(axis=1)]

        only_and_margin = None if only is None or margin == -inf else (only, margin)
        return Problem(read, threads_of_fit, only_and_margin, offset, X, names)

    # --- sources ------------------------------------------------------------------------------------------

    def _survey(self, source: Source, executor: Any, **beside: Any) -> Problem:
        """Return the fit of all rows of a source, which is read a first time: labels and columns are then known."""
        from majorant.estimators.source import refuse_beside, surveyed

        refuse_beside(**beside)
        line = PassLine() if self.verbose and source.watcher is None else None
        known = None if self._sweep is None else self._sweep.surveyed
        if known is None:
            with sharing(fit_threads(self.n_jobs, inf)):
                known = surveyed(source, executor, None if line is None else line.watch)
        if self._sweep is not None:
            self._sweep.surveyed = known
        self._take_note(source, known)
        if self.solver in ONE_AFTER_THE_OTHER and known.in_order is not None:
            told = known.in_order.told_by_chunk(self.classes_)
            if told > SORTED:
                warn_outside(
                    f"rows seem to be sorted by label (where a row stands tells {told:.0%} of its label), and "
                    f"solver={self.solver!r} visits them in the order of the source, as the disk has no room for a "
                    "copy: it may end far from the optimum; point TMPDIR at a larger disk, shuffle the rows, or use "
                    "solver='auto', to which their order does not matter"
                )
        if line is not None:
            line.begin("fitting", known.survey.rows)

        def read() -> Objective:
            data, reducer = known.place(self._encoding(known))
            return Objective(self._model(), data, ridge=self._penalty(), reducer=reducer)

        return self._problem_of(known, read)._replace(line=line if line is not None and line.is_seen else None)

    def _take_note(self, source: Source, known: Surveyed) -> None:
        """Set what is known of rows and labels once all have been read."""
        survey = known.survey
        self.n_features_in_, self._dtype = survey.columns, survey.dtype
        self.__dict__.pop("feature_names_in_", None)
        names = survey.column_names if source.feature_names is None else source.feature_names
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        self._set_classes(survey.names)

    def _problem_of(self, known: Surveyed, read: Callable[[], Objective]) -> Problem:
        """Return the fit of rows that have been read once; those of one class are fitted as in memory."""
        from majorant.estimators.source import class_weights

        of_class, weights = class_weights(self.class_weight, known.survey), known.survey.weights
        present = np.flatnonzero(weights if of_class is None else weights * of_class)
        only = (int(present[0]), 0.0) if self._is_free and len(present) == 1 else None
        return Problem(read, fit_threads(self.n_jobs, inf), only)

    def _encoding(self, known: Surveyed) -> Encoding:
        """Return how chunks of the source become labelled rows."""
        from majorant.estimators.source import class_weights
        from majorant.sources.streamed import Encoding

        survey = known.survey
        return Encoding(
            classes=self.classes_,
            class_weights=class_weights(self.class_weight, survey),
            columns=survey.columns,
            dtype=survey.dtype,
            constant=bool(self.fit_intercept),
            centre=survey.centre() if self._is_free else None,
            total=survey.rows,
        )

    # --- streams ------------------------------------------------------------------------------------------

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from one more chunk of rows, by the proximal solver, without keeping them.

        A later chunk may lack classes. Rows fed twice count twice. Memory does not depend on how many rows were seen.
        ``gap_`` is NaN: nothing certifies a stream. After ``fit`` a stream starts afresh, from zero: a fit gathers no
        precision to go on from.

        **Order matters.** Rows of a call are visited in random order (``shuffle``, ``random_state``), so within a call
        theirs does not. But a chunk of one class alone is fitted perfectly and hardly remembered: on 20,000 rows sorted
        by label a stream of 20 calls ends at an accuracy of 0.50, and of 0.79 shuffled. A warning says so when it
        happens; shuffle the rows, or see that every call has all classes.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n_samples, n_features)
        y : array of labels, shape (n_samples,)
        classes : array of labels, optional
            All that will ever come; needed at the first call.
        sample_weight : array of shape (n_samples,), optional

        Returns
        -------
        estimator
            As far as it has learnt.

        Examples
        --------
        >>> import majorant
        >>> X, y = majorant.datasets.load("ecoli")
        >>> order, model = np.random.default_rng(0).permutation(len(y)), majorant.LogisticRegression(solver="proximal")
        >>> for rows in np.array_split(order, 4):
        ...     model = model.partial_fit(X[rows], y[rows], classes=range(8))
        >>> round(model.score(X, y), 1), model.result_.outcome.value
        (0.8, 'stopped')
        """
        with all_or_nothing(self):
            # Settings, which a stream keeps.
            self._check_settings()
            if self._share_of_l1:
                raise ValueError(f"partial_fit has no ℓ1 penalty: set l1_ratio=0, got {self.l1_ratio!r}, or use fit")
            if np.isinf(self._strength):
                raise ValueError("partial_fit needs a penalty to start from, got C=np.inf; use a large C")
            if self.class_weight == "balanced":
                raise ValueError(
                    "class_weight='balanced' is not known in a stream; pass a dict of weights to partial_fit"
                )
            first = not hasattr(self, "_stream")
            for name, value in ({} if first else self._stream.settings).items():
                if not np.array_equal(value, getattr(self, name)):
                    raise ValueError(
                        f"{name} was {value!r} when the stream began, got {getattr(self, name)!r}; a stream keeps its "
                        "settings: clone the estimator to start another"
                    )

            # Rows and classes.
            X, y = self._validate(X, y, reset=first)
            if classes is None and not hasattr(self, "classes_"):
                raise ValueError(
                    "classes must be passed on the first call to partial_fit: a chunk may not hold them all"
                )
            refuse_null_ending("classes", classes)
            known = self.classes_ if classes is None else np.unique(classes)
            if not first and not np.array_equal(known, self.classes_):
                raise ValueError(f"classes={known} differ from those of the first call, {self.classes_}")
            unknown = np.setdiff1d(y, known)
            if len(unknown):
                raise ValueError(f"y holds classes that were not named at the first call: {unknown}; got {known}")
            self._set_classes(known)
            if not first and np.shape(sample_weight) == np.shape(y) and not np.any(sample_weight):
                return self  # rows that weigh nothing teach nothing
            weight = self._weights(sample_weight, X, y)
            if weight is not None and not weight.all():
                X, y, weight = take_rows(np.flatnonzero(weight), X, y, weight)
            if not len(y):
                return self

            # Learn, in double precision: rounding errors would add up as rows do.
            labels, wide = np.searchsorted(known, y), X.astype(np.float64, copy=False)
            with numerics(1):
                if first:
                    self._forget_fit()
                    # Of a few sparse rows every column that occurs would be far from zero.
                    far = self._is_free and not (issparse(X) and len(labels) < FEW_ROWS)
                    like = Labelled(wide, labels, weight, constant=self.fit_intercept, center=far)
                    settings = {name: getattr(self, name) for name in SETTLED}
                    self._stream = Stream.begin(self._model(), like, self._ridge(), settings)
                before = self._stream.centred_for(X, weight) if self._is_free else self._stream
                center = False if before.centre is None else before.centre
                data = Labelled(wide, labels, weight, constant=self.fit_intercept, center=center)
                self._centre = data.centre
                rng = np.random.default_rng([self._seed(), before.chunks]) if self.shuffle else None
                self._stream = stream = before.after(data, rng)
            result = stream_result(stream.chunks, stream.foreseen.in_words())
            self._publish(Fitted(stream.theta, result, stream.chunks, {}))
            for text in stream.warnings[len(before.warnings) :]:
                warn_outside(text)
        return self

    def save(self, path: Any, notes: Notes = None, stream: bool = False) -> None:
        """Write the fitted model to a file that holds data only.

        Callbacks and a random state that is not a number are left out.

        Parameters
        ----------
        path : str or Path
        notes : dict, optional
            Anything that JSON can hold; it travels with the model and comes back as ``notes_``.
        stream : bool
            Whether to write what ``partial_fit`` has gathered as well: the loaded model then goes on as this one would,
            to the last bit. Without it a stream starts afresh there.
        """
        check_is_fitted(self, "coef_")
        if stream and not hasattr(self, "_stream"):
            raise ValueError("stream=True needs a model that has learnt by partial_fit; there is no stream to save")
        parts = {STREAM: {"state": self._stream, "dtype": self._dtype.str}} if stream else {}
        saving.write(path, type(self).__name__, *self._checked(notes), parts)

    def _restore(self, path: Any, facts: dict[str, Any], arrays: dict[str, Array]) -> None:
        super()._restore(path, facts, arrays)
        with saving.Archive.opened(path) as archive:
            rebuild = archive.part(STREAM)
        if rebuild is not None:
            take_up(self, rebuild())

    # --- standard errors ----------------------------------------------------------------------------------

    def summary(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        offset: Any = None,
        *,
        kind: str = "hessian",
        cluster: Any = None,
        level: float = 0.95,
    ) -> Summary:
        """Return the table of estimates, standard errors, z, p and intervals that maximum likelihood is known by.

        For ``C=np.inf``. Of more than two classes, coefficients are those against the first class.

        Parameters
        ----------
        X, y, sample_weight, offset
            The rows of the fit, which models do not keep.
        kind : {"hessian", "robust", "cluster"}
            Where standard errors come from: the inverse Hessian, or the sandwich over rows or clusters of them.
        cluster : array of shape (n_samples,), optional
            With "cluster": what each row belongs to.
        level : float
            Of the confidence intervals.

        Returns
        -------
        Summary
            Printed it is text, notebooks show HTML, ``to_frame()`` returns a pandas data frame.

        Examples
        --------
        >>> import majorant
        >>> X, y = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]], [0, 0, 1, 0, 1, 1]
        >>> model = majorant.LogisticRegression(C=float("inf")).fit(X, y)
        >>> table = model.summary(X, y)
        >>> table.names, table.estimates.round(2), table.std_errors.round(2)
        (('(Intercept)', 'x0'), array([-3.04,  1.21]), array([2.55, 0.91]))
        """
        from majorant.inference import KINDS, summarise

        one_of("kind", kind, KINDS)
        objective, W, names = self._likelihood_of(X, y, sample_weight, offset)
        if self.penalty == "firth" and kind != "hessian":
            raise ValueError(f"kind must be 'hessian' with penalty='firth', got {kind!r}")
        null_totals = len(self.classes_) if self.fit_intercept and offset is None else None
        found = estimates(objective, W, kind, cluster, intercept=bool(self.fit_intercept), null_totals=null_totals)
        notes = [SOURCES[kind], *([FIRTH] if self.penalty == "firth" else []), str(self.result_)]
        return summarise(
            "Logistic regression", names, found.params, found.covariance, found.facts, level=level, notes=notes
        )

    def conf_int(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        offset: Any = None,
        *,
        kind: str = "profile",
        level: float = 0.95,
    ) -> Array:
        """Return confidence intervals of the coefficients in the order of :meth:`summary`.

        For ``C=np.inf`` and ``penalty="firth"``.

        Parameters
        ----------
        X, y, sample_weight, offset
            The rows of the fit, which models do not keep.
        kind : {"profile", "wald"}
            All values that a likelihood-ratio test does not reject, with an infinite end where there is none; or
            estimates and multiples of their standard errors.
        level : float
            Of the intervals.

        Returns
        -------
        array of shape (k, 2)

        Examples
        --------
        >>> import majorant
        >>> X, y = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]], [0, 0, 0, 1, 1, 1]  # separated
        >>> model = majorant.LogisticRegression(penalty="firth").fit(X, y)
        >>> print(model.result_)
        stationary after ... steps: the next one is ... standard errors
        >>> model.coef_.round(2), model.conf_int(X, y).round(2)
        (array([[1.13]]), array([[-15.63,   0.41],
               [  0.  ,   6.07]]))
        """
        from majorant.likelihood import Likelihood, profile_interval

        if one_of("kind", kind, ("profile", "wald")) == "wald":
            return self.summary(X, y, sample_weight, offset, level=level).interval
        if not 0 < level < 1:
            raise ValueError(f"level must lie between 0 and 1, got {level!r}; 0.95 is usual")
        objective, W, _ = self._likelihood_of(X, y, sample_weight, offset)
        centre = objective.model.as_rows().design(objective.like).centre
        if self.penalty == "firth":
            one = as_published(W.shape[1], centre, intercept=bool(self.fit_intercept))
            T, expand = np.kron(np.eye(max(len(W) - 1, 1)), one), firth(objective).expand
            theta = (W[1:] - W[0] if len(W) > 1 else W).ravel()
        else:
            T, theta = contrasts(W, centre, intercept=bool(self.fit_intercept)), W.ravel()
            expand = Likelihood(objective, flat_directions(objective, W.shape)).expand
        return np.array([profile_interval(expand, theta, row, level) for row in T])

    def bootstrap(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        offset: Any = None,
        *,
        n: int = 1000,
        cluster: Any = None,
        kind: str = "multinomial",
        seed: int = 0,
    ) -> Bootstrap:
        """Return coefficients of resampled rows, by weights: a few Newton steps each, certified.

        Parameters
        ----------
        X, y, sample_weight, offset
            The rows of the fit, which models do not keep.
        n : int
            Replicates.
        cluster : array of shape (n_samples,), optional
            What each row belongs to: clusters are then drawn.
        kind : {"multinomial", "bayesian", "jackknife"}
            Draws with replacement, exponential weights, or every row (or cluster) left out once.
        seed : int
            Where random numbers begin.

        Returns
        -------
        Bootstrap
            Coefficients as in :meth:`summary`; with a penalty, of more than two classes, of every class.

        Examples
        --------
        >>> import majorant
        >>> X, y = majorant.datasets.load("ecoli")
        >>> model = majorant.LogisticRegression().fit(X[:, :2], y == 0)
        >>> found = model.bootstrap(X[:, :2], y == 0, n=200)
        >>> found.std_errors.round(2), found.infinitesimal.round(2), found.separated
        (array([0.26, 0.43, 0.37]), array([0.27, 0.43, 0.36]), 0)
        >>> found.interval(0.95, "bca").shape
        (3, 2)
        """
        if self.penalty == "firth":
            raise ValueError("bootstrap() is of fits with penalty='l2' or None, got penalty='firth'")
        objective, W, names = self._likelihood_of(X, y, sample_weight, offset, penalised=True)
        centre = objective.model.as_rows().design(objective.like).centre
        T = contrasts(W, centre, intercept=bool(self.fit_intercept))
        if len(W) > 1 and np.isfinite(self._strength):
            T = np.kron(np.eye(len(W)), as_published(W.shape[1], centre, intercept=bool(self.fit_intercept)))
        with sharing(fit_threads(self.n_jobs, objective.rows * objective.size * n)):
            return bootstrapped(objective, W, names, T, n=n, cluster=cluster, kind=kind, seed=seed)

    def marginal_effects(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        offset: Any = None,
        *,
        discrete: Sequence[int | str] = (),
        kind: str = "hessian",
        cluster: Any = None,
        level: float = 0.95,
    ) -> Summary:
        """Return average marginal effects: mean derivatives of probabilities by columns, by the delta method.

        For ``C=np.inf`` and ``penalty="firth"``.

        Parameters
        ----------
        X, y, sample_weight, offset
            The rows of the fit, which models do not keep.
        discrete : list of int or str
            Columns that are 0 or 1, by number or name: their effects are those of the step from 0 to 1.
        kind, cluster, level
            As for :meth:`summary`.

        Returns
        -------
        Summary
            Of two classes, effects on the probability of the second; of more, of every class.

        Examples
        --------
        >>> import majorant
        >>> X, y = majorant.datasets.load("ecoli")
        >>> model = majorant.LogisticRegression(C=float("inf")).fit(X[:, :2], y == 0)
        >>> effects = model.marginal_effects(X[:, :2], y == 0)
        >>> effects.names, effects.estimates.round(2)
        (('x0', 'x1'), array([-0.87, -1.29]))
        """
        from majorant.inference import KINDS, summarise, through

        one_of("kind", kind, KINDS)
        objective, W, _ = self._likelihood_of(X, y, sample_weight, offset)
        null = len(self.classes_) if self.fit_intercept and offset is None else None
        found = estimates(objective, W, kind, cluster, intercept=bool(self.fit_intercept), null_totals=null)
        rows = self._validate(X, y, reset=False)[0]
        rows = np.asarray(rows.toarray() if issparse(rows) else rows, dtype=np.float64)
        features = [str(name) for name in getattr(self, "feature_names_in_", [f"x{i}" for i in range(rows.shape[1])])]
        places = columns_of("discrete", discrete, features)
        weight = read_weights(sample_weight, rows)
        if offset is not None:
            offset = np.asarray(offset, dtype=np.float64).reshape(len(rows), -1)
        classes, binary = len(self.classes_), len(self.classes_) == 2

        def effects(params: Array) -> Array:
            B = params.reshape(max(classes - 1, 1), -1)
            B = B if binary else np.vstack([np.zeros(B.shape[1]), B])
            b = B[:, 0] if self.fit_intercept else np.zeros(len(B))
            all_of_them = average_effects(rows, B[:, int(self.fit_intercept) :], b, offset, weight, places)
            return all_of_them[1] if binary else all_of_them.ravel()

        # Derivatives by central differences: effects are smooth, and errors are those of the square of a small step.
        errors = np.sqrt(np.maximum(np.diag(found.covariance), 0.0))
        steps = 1e-4 * np.where(np.isfinite(errors) & (errors > 0), errors, 1.0)
        ends = [effects(found.params + side * row) for row in np.diag(steps) for side in (1.0, -1.0)]
        slopes = np.stack([(ends[2 * k] - ends[2 * k + 1]) / (2 * steps[k]) for k in range(len(steps))], axis=1)
        labels = features if binary else [f"{label}: {name}" for label in self.classes_ for name in features]
        notes = [SOURCES[kind], "average marginal effects, by the delta method"]
        return summarise(
            "Marginal effects",
            labels,
            effects(found.params),
            through(slopes, found.covariance),
            found.facts,
            level=level,
            notes=notes,
        )

    def predict_interval(self, X: Any, *, level: float = 0.95) -> tuple[Array, Array]:
        """Return the ends of intervals of the probabilities of classes, from the posterior of the coefficients.

        They are symmetric in log p/(1 − p), by Laplace's approximation.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n_samples, n_features)
        level : float
            Of the intervals.

        Returns
        -------
        low, high : arrays of shape (n_samples, n_classes)

        Examples
        --------
        >>> import majorant
        >>> X, y = majorant.datasets.load("ecoli")
        >>> model = majorant.LogisticRegression().fit(X[:, :2], y == 0)
        >>> covariance = model.posterior_covariance(X[:, :2])
        >>> low, high = model.predict_interval(X[:1, :2])
        >>> low.round(2), model.predict_proba(X[:1, :2]).round(2), high.round(2)
        (array([[0.31, 0.52]]), array([[0.39, 0.61]]), array([[0.48, 0.69]]))
        """
        if not 0 < level < 1:
            raise ValueError(f"level must lie between 0 and 1, got {level!r}; 0.95 is usual")
        posterior = self._known_posterior()
        P = self.predict_proba(X)
        rows = validate_data(self, to_array(X), accept_sparse="csr", dtype=np.float64, reset=False)
        return interval_of_probabilities(
            P, posterior.logit_deviations(rows, P, constant=bool(self.fit_intercept)), level
        )

    def _likelihood_of(
        self, X: Any, y: Any, sample_weight: Any, offset: Any, *, penalised: bool = False
    ) -> tuple[Objective, Array, list[str]]:
        """Return the objective of the rows of a fit, its parameters, and their names as in :meth:`summary`."""
        check_is_fitted(self, "coef_")
        self._check_posterior_size()
        if self._share_of_l1:
            raise ValueError(
                "an ℓ1 penalty leaves estimates no standard errors: they are biased, and the same rows selected the "
                "zeros; refit the columns that were selected, X[:, coef_.any(axis=0)], with C=np.inf on other rows"
            )
        if not (penalised or np.isinf(self._strength)):
            raise ValueError(f"standard errors are those of maximum likelihood: fit with C=np.inf, got C={self.C!r}")
        X, y = self._validate(X, y, reset=False)
        labels = np.searchsorted(self.classes_, y)
        if not np.array_equal(self.classes_[np.minimum(labels, len(self.classes_) - 1)], y):
            raise ValueError(f"y must hold the classes of the fit, {self.classes_.tolist()!r:.80}; got others")
        objective = self._objective(X, labels, self._weights(sample_weight, X, y), offset)
        W = self._params_of_fit(objective.model.as_rows().design(objective.like).centre)
        features = getattr(self, "feature_names_in_", [f"x{i}" for i in range(self.n_features_in_)])
        names = [*(["(Intercept)"] if self.fit_intercept else []), *map(str, features)]
        if len(self.classes_) > 2:
            shown = self.classes_ if np.isfinite(self._strength) else self.classes_[1:]
            names = [f"{label}: {name}" for label in shown for name in names]
        return objective, W, names

    def _objective_on(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> Objective:
        X = validate_data(self, to_array(X), accept_sparse="csr", dtype=np.float64, order="C", reset=False)
        if self.class_weight is not None and y is None:
            raise ValueError("class_weight counts in the posterior: pass y as well")
        weight = self._weights(sample_weight, X, np.full(X.shape[0], self.classes_[0]) if y is None else np.asarray(y))
        # A class that cannot happen cannot be a label.
        labels = np.zeros(X.shape[0], dtype=int) if np.ndim(offset) < 2 else np.argmax(offset, axis=1)
        return self._objective(X, labels, weight, offset)

    def _objective(self, X: Any, labels: Array, weight: Array | None, offset: Any) -> Objective:
        """Return the objective of rows other than those of a fit, or of those again."""
        offset = read_offset(offset, X.shape[0], len(self.classes_))
        data = Labelled(X, labels, weight, offset, constant=self.fit_intercept, center=self._is_free)
        return Objective(self._model(), data, ridge=self._penalty())

    # --- what the methods above are made of ---------------------------------------------------------------

    n_rounds_: int
    _dtype: Any
    _sweep: Sweep | None = None  # of the grid that this fit is one of
    _common: CommonGram | None = None  # with fits to other labels of the same rows
    _certifies: bool = True  # or it is only compared with others

    def _check_settings(self) -> None:
        if self.penalty == "firth":
            if self.l1_ratio not in (0, None) or self.feature_penalty is not None:
                raise ValueError("penalty='firth' is Jeffreys' prior alone: leave l1_ratio and feature_penalty out")
            check_strength(self.C)
        else:
            check_penalty(self.penalty, self.l1_ratio, self.C, self.solver)
        check_settings(self)
        if self.solver in ("sbm", "sbm-lowrank") and self.fit_intercept and not self.penalize_intercept:
            raise ValueError(f"solver={self.solver!r} penalises every parameter: set penalize_intercept=True")
        if np.isinf(self._strength) and self.solver in ("sbm", "sbm-lowrank", "proximal"):
            raise ValueError(f"solver={self.solver!r} needs a penalty to start from; C=np.inf works with 'auto'")

    @property
    def _strength(self) -> float:
        """C, or infinity where there is no penalty."""
        return float("inf") if self.penalty in (None, "firth") else float(self.C)

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

    def _penalty(self) -> Array | ElasticNet:
        share, ridge = self._share_of_l1, self._factors()
        if not share:
            return ridge
        l1 = share * ridge
        if self.solver == "liblinear" and self.fit_intercept:  # λ |b / intercept_scaling|
            l1 = l1.reshape(self._model().coefficient_rows, -1).copy()
            l1[:, -1] = share / self._strength / float(self.intercept_scaling)
        return ElasticNet(l1.ravel(), (1.0 - share) * ridge, len(ridge))

    def _ridge(self) -> Array:
        """Return what is strongly convex of the penalty."""
        share = self._share_of_l1
        return (1.0 - share) * self._factors() if share else self._factors()

    @property
    def _share_of_l1(self) -> float:
        return share_of_l1(self.penalty, self.l1_ratio, self.C)

    def _factors(self) -> Array:
        """Return the strength of the penalty of each parameter: 1/C times ``feature_penalty`` or the intercept's."""
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

    @property
    def _is_free(self) -> bool:
        """Whether there is an intercept without a penalty: columns may then be centred."""
        return bool(self.fit_intercept) and self._intercept_factor() == 0

    def _seed(self) -> int:
        return 0 if self.random_state is None else int(check_random_state(self.random_state).randint(2**31))

    def _first_params(self, objective: Objective, offset: Array | None, centre: Array | None) -> Array | None:
        """Return where a fit begins: zero (None), or where the last fit ended if F is less there."""
        # Offsets, and columns that have moved since, may saturate every row: the intercept follows them.
        zero = None if offset is None else objective.with_best_intercept(np.zeros(objective.size))
        shape = (objective.model.classes(objective.like), self.n_features_in_)
        if not self.warm_start or not hasattr(self, "coef_") or self.coef_.shape != shape:
            return zero
        W = self._params_of_fit(centre)
        if not np.isfinite(W).all():
            return zero
        # Softmax scores may all move together: the solver stays where they sum to zero.
        start = objective.with_best_intercept(as_told_apart(W, has_l1=bool(self._share_of_l1)).ravel())
        better = objective.value(start) < (objective.value_at_zero() if zero is None else objective.value(zero))
        return start if better else zero

    def _attributes(self, theta: Array) -> dict[str, Array]:
        """Return coefficients and intercepts."""
        W = theta.reshape(self._model().coefficient_rows, -1)
        return split_params(
            W, self._dtype, constant=bool(self.fit_intercept), centre=self._centre, has_l1=bool(self._share_of_l1)
        )

    def _as_published(self, theta: Array) -> Array:
        """Return the parameters that published coefficients stand for."""
        W = theta.reshape(self._model().coefficient_rows, -1)
        W = as_told_apart(W, has_l1=bool(self._share_of_l1)).copy()
        W[:, : self.n_features_in_] = W[:, : self.n_features_in_].astype(self._dtype)
        return W.ravel()

    def _publish(self, fitted: Fitted) -> None:
        publish(self, fitted)
        attributes = self._attributes(fitted.params)
        rows, has_l1 = self._model().coefficient_rows, bool(self._share_of_l1)
        errors = errors_of(fitted, self._ridge(), rows, self._centre, attributes, has_l1=has_l1)
        self.__dict__.update(attributes, **errors)

    def _forget_fit(self) -> None:
        for name in ("_stream", "_posterior", "trace_", "n_rounds_", "coef_error_", "intercept_error_"):
            self.__dict__.pop(name, None)

    def _read_more(self, X: Any, y: Any) -> Labelled:
        """Return validation data like those of the fit."""
        X, y = self._validate(X, y, reset=False)
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(f"validation labels hold classes that are not trained on: {unknown}")
        labels, center = np.searchsorted(self.classes_, y), False if self._centre is None else self._centre
        return Labelled(X, labels, constant=self.fit_intercept, center=center)

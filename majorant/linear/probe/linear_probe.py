"""``LinearProbe``: a linear classifier on frozen features, its penalty chosen by a sweep."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import _safe_indexing
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from majorant.core.checks import Array, whole
from majorant.core.labelled import CommonGram
from majorant.core.objective import Objective
from majorant.device.estimators import is_on_device
from majorant.estimators.base import check_labels
from majorant.estimators.fitting import warn_outside
from majorant.estimators.saving import (
    Field,
    Notes,
    Written,
    all_or_nothing,
    are_any,
    are_counts,
    linear_fields,
    naming,
)
from majorant.linear.classifier import LinearClassifier
from majorant.linear.logistic import LogisticRegression
from majorant.linear.path import is_count, read_grid, walk
from majorant.linear.probe.features import NearEnough, Split, foretold, moments, read_rows, split_rows, take
from majorant.linear.probe.scoring import (
    ENDING,
    Metric,
    Row,
    Score,
    SweepTable,
    Turning,
    check_metric,
    linear_layer,
    name_of,
    read_safetensors,
    score,
    write_safetensors,
)

# The grid of DINOv3's evaluation: 10^x for evenly spread x between these.
WEAKEST, STRONGEST = 5.0, -6.0
# To compare scores a fit need not be better than this.
TO_COMPARE = 1e-4
# What the head that is kept has from its fit.
ADOPTED = ("coef_", "intercept_", "coef_error_", "intercept_error_", "gap_", "result_", "trace_", "n_iter_")
OF_A_FIT = ("coef_", "intercept_", "classes_", "n_features_in_")


class LinearProbe(LinearClassifier):
    """ℓ2-regularised logistic regression on frozen features, C chosen on rows that are held out.

    The protocol that is published with embeddings, in one call: fits C Σ_j −log p(y_j|x_j) + ½‖W‖² for every C of a
    grid, from the strongest penalty to the weakest, each warm from the one before; scores them on held-out rows, stops
    when scores have clearly turned, and fits all rows with the best C. There is no learning rate.

    Parameters
    ----------
    Cs : int or list
        The grid, or how many points of it between 10⁻⁶ and 10⁵.
    validation : float, index or (X, y)
        Which rows score: a share of each class, drawn at random; the numbers, a mask or a slice of some rows of X; or
        rows of their own, which are then never trained on.
    refit : bool
        Whether to fit all rows of X with the best C; otherwise the best fit of the sweep is kept.
    standardize : bool
        Whether every column counts as if it had unit variance (and, with an intercept, mean zero). X is neither copied
        nor made dense for it: Σ_i σ_i² w_i² is penalised instead, and ``coef_`` is of the columns as they are.
    metric : {"accuracy", "balanced_accuracy", "loss"} or callable
        What scores: higher is better, so "loss" is the mean log-likelihood; a function is called with labels and
        predictions. Where it returns NaN, C counts as the worst.
    patience : int or None
        The sweep ends when so many scores in a row are below the best by more than two standard errors (of the
        difference, row by row; of a function, by anything); None for the whole grid.
    fit_intercept : bool
        Whether there is an intercept, which is not penalised.
    tol : float
        Certified relative suboptimality of the head, (F − F*)/F ≤ tol. Fits that are only compared end at 1e-4, by a
        certificate or where the last steps foretell that a tenth of that is left to gain.
    max_iter : int
        Steps of each fit.
    random_state : int, RandomState or None
        Which rows are held out.
    n_jobs : int or None
        Threads, as in :class:`LogisticRegression`.
    callback : callable, optional
        Called with each row of the table as it comes; a true answer ends the sweep.

    Attributes
    ----------
    C_ : float
        The best C: of equal scores, the one with the lowest held-out loss.
    scores_ : SweepTable
        For each C that was fitted: score, held-out loss, certified gap, an estimate of it where that is not within
        the tolerance, passes over the rows, seconds. It prints as text or HTML; ``to_frame()`` makes a data frame of
        it, ``scores_["score"]`` is a column.
    classes_, coef_, intercept_, n_features_in_, n_iter_, gap_, result_, trace_
        Of the head, as in :class:`LogisticRegression`.

    Examples
    --------
    >>> import majorant
    >>> X, y = majorant.datasets.load("ecoli")
    >>> probe = majorant.LinearProbe(Cs=12).fit(X[:, :-1], y)
    >>> probe.C_ in probe.scores_["C"], probe.gap_ <= 1e-6
    (True, True)

    The sweep as a picture, the probe as a file, and a probe for each of several label sets; the layer needs PyTorch:

    >>> import tempfile
    >>> probe.plot().get_ylabel()
    'held-out accuracy'
    >>> path = tempfile.mkdtemp() + "/probe.npz"
    >>> probe.save(path)
    >>> majorant.LinearProbe.load(path).C_ == probe.C_
    True
    >>> few = majorant.LinearProbe(Cs=[1.0, 10.0]).fit_many(X, {"all rows": y, "some rows": (slice(0, 336, 4), y[::4])})
    >>> few["some rows"].score(X, y) <= few["all rows"].score(X, y)
    True
    >>> layer = probe.head()  # doctest: +SKIP
    """

    scores_: SweepTable
    _common: CommonGram | None = None  # with probes for other labels of the same rows

    def __init__(
        self,
        Cs: Any = 45,
        *,
        validation: Any = 0.1,
        refit: bool = True,
        standardize: bool = False,
        metric: Metric = "accuracy",
        patience: int | None = 3,
        fit_intercept: bool = True,
        tol: float = 1e-6,
        max_iter: int = 1000,
        random_state: Any = 0,
        n_jobs: int | None = None,
        callback: Callable[[Row], Any] | None = None,
    ) -> None:
        self.Cs = Cs
        self.validation = validation
        self.refit = refit
        self.standardize = standardize
        self.metric = metric
        self.patience = patience
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.callback = callback

    # --- fitting ------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, X_val: Any = None, y_val: Any = None) -> Self:
        """Choose C, then fit all rows.

        Parameters
        ----------
        X : array, data frame, sparse matrix or tensor of shape (n_samples, n_features)
        y : array or tensor of labels, shape (n_samples,)
        X_val, y_val : as X and y, optional
            Rows that score, in the place of ``validation``; they are never trained on.

        Returns
        -------
        estimator
            Fitted.
        """
        with all_or_nothing(self):
            grid = self._read_settings()
            X, y = read_rows(self, X, y)
            check_classification_targets(y)
            check_labels(y)
            self.n_features_in_ = X.shape[1]
            best = self._sweep(grid, X, y, self._validation(X_val, y_val))
            if self.refit:
                best = self._refit(best, X, y)
            self.__dict__.pop("_posterior", None)
            self.__dict__.update({name: value for name, value in vars(best).items() if name in ADOPTED})
        return self

    def fit_many(self, X: Any, labels: Mapping[Any, Any]) -> dict[Any, Self]:
        """Return a probe for each of several label sets of the same features.

        Parameters
        ----------
        X : as in :meth:`fit`
        labels : mapping of names to labels, or to pairs (rows, labels)
            Pairs are of some of the rows: few-shot subsets, or tasks whose labels not every row has.

        Returns
        -------
        dict
            A fitted probe for each name.
        """
        found, common = {}, CommonGram()
        for name, given in labels.items():
            rows, y = given if _is_subset(given) else (None, given)
            try:
                found[name] = clone(self)._fit_sharing(common, X if rows is None else _some(X, rows), y)
            except ValueError as error:
                raise ValueError(f"labels[{name!r}]: {error}") from error
        return found

    def _fit_sharing(self, common: CommonGram, X: Any, y: Any) -> Self:
        """Fit with what fits to the same rows have in common, which no fitted probe keeps."""
        self._common = common
        try:
            return self.fit(X, y)
        finally:
            del self._common

    def _sweep(self, grid: Array, X: Any, y: Array, validation: Any) -> LogisticRegression:
        """Return the best fit of the grid, and publish the table; what was split for it is let go of."""
        split = split_rows(self, X, y, validation)
        self.classes_ = split.classes
        settings = self._settings(split.X, tol=max(self.tol, TO_COMPARE) if self.refit else self.tol)
        if self.refit:  # none of these is kept
            settings["callbacks"] = [NearEnough(settings["tol"])]
        turning, rows, kept = Turning(self.patience), list[Row](), 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the table says how near each fit has come
            for k, model, seconds in _timed(walk(grid, settings, lambda model: self._fit_one(model, split))):
                found = score(model, split, self.metric)
                if turning.add(found):
                    best, kept = model, len(rows)
                rows.append(_row(grid[k], found, model, seconds))
                if (self.callback is not None and self.callback(rows[-1])) or turning.is_over:
                    break
        self._say_what_is_nan(rows)
        self.scores_ = SweepTable(rows, kept)
        return best

    def _say_what_is_nan(self, rows: list[Row]) -> None:
        """Refuse scores that are all NaN, and warn of some."""
        lost, name = [row.C for row in rows if np.isnan(row.score)], name_of(self.metric)
        if len(lost) == len(rows):
            raise ValueError(f"metric {name} returned NaN for every C: no C is better than another")
        if lost:
            warn_outside(f"metric {name} returned NaN for {len(lost)} of {len(rows)} values of C: they count as worst")

    def _fit_one(self, model: LogisticRegression, split: Split) -> None:
        """Fit one of the sweep. On a device a certificate takes as long as the fit, and is left to the last one."""
        model._common = self._common
        model._certifies = not (self.refit and is_on_device(split.X))
        model.fit(split.X, split.y)

    def _refit(self, best: LogisticRegression, X: Any, y: Array) -> LogisticRegression:
        """Return the fit of all rows with the best C, from the best of the sweep on."""
        model = LogisticRegression(**self._settings(X, tol=self.tol), C=best.C, warm_start=True)
        model.__dict__.update({name: value for name, value in vars(best).items() if name in OF_A_FIT})
        return model.fit(X, y)

    def _settings(self, X: Any, tol: float) -> dict[str, Any]:
        """Return the settings of fits to these rows."""
        given = dict(fit_intercept=self.fit_intercept, tol=tol, max_iter=self.max_iter, n_jobs=self.n_jobs)
        return given | (dict(feature_penalty=_spread(X)) if self.standardize else {})

    def _validation(self, X_val: Any, y_val: Any) -> Any:
        if (X_val is None) != (y_val is None):
            missing, other = ("y_val", "X_val") if y_val is None else ("X_val", "y_val")
            raise ValueError(f"{missing} must be given with {other}, got None")
        return self.validation if X_val is None else (X_val, y_val)

    def _check_settings(self) -> None:
        """Refuse settings that mean nothing, whatever the grid is."""
        check_metric(self.metric)
        if self.patience is not None:
            whole("patience", self.patience, least=1)
        for name in ("refit", "standardize"):
            if not isinstance(getattr(self, name), bool | np.bool_):
                raise ValueError(f"{name} must be True or False, got {getattr(self, name)!r}")
        if not (self.callback is None or callable(self.callback)):
            raise ValueError(f"callback must be a function of a row of the table, got {self.callback!r}")
        if not is_count(self.Cs):
            read_grid(self.Cs)
        self._head_for(1.0)._check_settings()

    def _read_settings(self) -> Array:
        """Return the grid, if all settings are in order."""
        self._check_settings()
        grid = probe_grid(self.Cs)
        for C in grid:
            self._head_for(float(C))._check_settings()
        return grid

    def _head_for(self, C: float) -> LogisticRegression:
        return LogisticRegression(
            C=C, fit_intercept=self.fit_intercept, tol=self.tol, max_iter=self.max_iter, n_jobs=self.n_jobs
        )

    def _objective_on(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> Objective:
        model = LogisticRegression(**self._settings(X, tol=self.tol), C=self.C_)
        model.__dict__.update({name: value for name, value in vars(self).items() if name in OF_A_FIT})
        return model._objective_on(X, y, sample_weight, offset)

    # --- what a probe is for ------------------------------------------------------------------------------

    @property
    def C_(self) -> float:
        """The best C."""
        check_is_fitted(self, "scores_")
        return self.scores_.rows[self.scores_.best].C

    def plot(self, ax: Any = None) -> Any:
        """Draw score and held-out loss over C. Needs matplotlib.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; on a new figure if not given.

        Returns
        -------
        matplotlib.axes.Axes
        """
        check_is_fitted(self, "scores_")
        return self.scores_.plot(ax, self.metric if isinstance(self.metric, str) else "score")

    def head(self) -> Any:
        """Return the head as a layer of PyTorch, which is needed.

        Returns
        -------
        torch.nn.Linear
            With an output for each class, also of two.
        """
        check_is_fitted(self, "coef_")
        return linear_layer(self)

    def save(self, path: Any, notes: dict[str, Any] | None = None) -> None:
        """Write the fitted probe to a file that holds data only.

        A name that ends with ``.safetensors`` (which needs that package) makes one that PyTorch reads as well: its
        tensors are ``weight`` and ``bias`` of a ``torch.nn.Linear``, both in the precision of ``coef_``.

        Parameters
        ----------
        path : str or Path
        notes : dict, optional
            Anything that JSON can hold; it travels with the probe and comes back as ``notes_``.
        """
        check_is_fitted(self, "coef_")
        if Path(path).suffix == ENDING:
            write_safetensors(self, path, *self._checked(notes))
        else:
            super().save(path, notes)

    @classmethod
    def load(cls, path: Any) -> Self:
        """Return the probe that :meth:`save` wrote, in either form.

        Parameters
        ----------
        path : str or Path

        Returns
        -------
        estimator
            Fitted, with its ``notes_``.
        """
        if Path(path).suffix != ENDING:
            return super().load(path)
        with naming(path):
            return cls._rebuilt(path, *read_safetensors(path, cls._fields))

    _fields: ClassVar[dict[str, Field]] = {
        **linear_fields(),
        "sweep": Field("f", ("sweep", len(Row._fields)), are_any),
        "best": Field("iu", (), are_counts),
    }

    def _written(self, notes: Notes) -> Written:
        facts, arrays = super()._written(notes)
        return facts, arrays | {"sweep": np.array(self.scores_.rows), "best": np.array(self.scores_.best)}

    def _restore(self, path: Any, facts: dict[str, Any], arrays: dict[str, Array]) -> None:
        super()._restore(path, facts, {name: arrays[name] for name in linear_fields() if name in arrays})
        rows, best = [Row(*row) for row in arrays["sweep"].tolist()], int(arrays["best"])
        if not 0 <= best < len(rows) or not all(row.C > 0 for row in rows):
            raise ValueError(f"the array 'sweep' has {len(rows)} rows, of which row {best} cannot be the best")
        self.scores_ = SweepTable(rows, best)


def probe_grid(Cs: Any) -> Array:
    """Return the grid from the strongest penalty on: so many points between 10⁻⁶ and 10⁵, or those that are given."""
    if is_count(Cs):
        return np.logspace(STRONGEST, WEAKEST, int(Cs))
    return np.sort(read_grid(Cs))


def _timed(fits: Iterable[tuple[int, LogisticRegression]]) -> Iterator[tuple[int, LogisticRegression, float]]:
    """Yield fits, and how many seconds each of them took."""
    started = time.perf_counter()
    for k, model in fits:
        yield k, model, time.perf_counter() - started
        started = time.perf_counter()


def _row(C: float, found: Score, model: LogisticRegression, seconds: float) -> Row:
    trace = model.trace_
    estimates = (foretold(trace["objective"]), model.gap_, model.result_.estimate)
    estimate = np.nan if model.gap_ <= model.tol else float(np.nanmin(estimates, initial=1.0))
    return Row(
        C=float(C),
        score=found.value,
        loss=found.loss,
        gap=model.gap_,
        estimate=estimate,
        passes=float(trace["passes"][-1]),
        seconds=seconds,
    )


def _spread(X: Any) -> Array:
    """Return the variance of each column; a column that is constant counts as it is."""
    variance = moments(X).variance
    return np.where(variance > 0, variance, 1.0)


def _is_subset(given: Any) -> bool:
    """Return whether labels are of some rows; a pair of anything else is refused as labels are."""
    return isinstance(given, tuple) and len(given) == 2 and np.ndim(given[1]) == 1


def _some(X: Any, rows: Any) -> Any:
    """Return some rows of X as it was given, a data frame perhaps."""
    return take(X, rows) if is_on_device(X) else _safe_indexing(X, rows)

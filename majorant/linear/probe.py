"""``LinearProbe``: a linear classifier on frozen features, its penalty chosen by a sweep."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy import sparse
from sklearn import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import _safe_indexing
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from majorant.core.checks import Array, needed, new_axes, whole
from majorant.core.files import replacing
from majorant.core.labelled import CommonGram
from majorant.core.objective import Objective
from majorant.core.result import aligned, table
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
    check_arrays,
    fact,
    linear_fields,
    naming,
    readable,
)
from majorant.linear.classifier import LinearClassifier
from majorant.linear.held_out import (
    Metric,
    NearEnough,
    Turning,
    foretold,
    moments,
    name_of,
    read_rows,
    score,
    split_rows,
    take,
)
from majorant.linear.logistic import LogisticRegression
from majorant.linear.path import is_count, read_grid, walk

# What the head that is kept has from its fit.
ADOPTED = ("coef_", "intercept_", "coef_error_", "intercept_error_", "gap_", "result_", "trace_", "n_iter_")
OF_A_FIT = ("coef_", "intercept_", "classes_", "n_features_in_")


class Row(NamedTuple):
    """One C of a sweep.

    ``gap`` is certified; ``estimate`` is what the last steps foretell that there is left to gain, relative to F, and
    certifies nothing. Either is NaN where it says nothing.
    """

    C: float
    score: float
    loss: float
    gap: float
    estimate: float
    passes: float
    seconds: float


class SweepTable(Mapping[str, Array]):
    """One row for each C that was fitted, from the smallest on; ``table["score"]`` is a column.

    Examples
    --------
    >>> table = SweepTable([Row(0.1, 0.7, 0.9, 1e-5, 1e-6, 4.0, 0.1), Row(1.0, 0.8, 0.6, np.nan, 2e-5, 9.0, 0.2)], 1)
    >>> table["score"]
    array([0.7, 0.8])
    >>> print(table)
         C  score  loss    gap  estimate  passes  seconds
       0.1    0.7   0.9  1e-05     1e-06       4      0.1
    *    1    0.8   0.6            2e-05       9      0.2
    """

    def __init__(self, rows: Sequence[Row], best: int) -> None:
        self.rows, self.best = tuple(rows), best

    @classmethod
    def of(cls, columns: Mapping[str, Array], best: int) -> SweepTable:
        """Return the table of these columns."""
        values = zip(*(columns[name] for name in Row._fields), strict=True)
        return cls([Row(*map(float, row)) for row in values], best)

    def __getitem__(self, name: str) -> Array:
        if name not in Row._fields:
            raise KeyError(f"{name!r}; the table has {', '.join(Row._fields)}")
        return np.array([getattr(row, name) for row in self.rows])

    def __iter__(self) -> Iterator[str]:
        return iter(Row._fields)

    def __len__(self) -> int:
        return len(Row._fields)

    def to_frame(self) -> Any:
        """Return the table as a pandas data frame."""
        return needed("pandas", "to_frame()", "frames").DataFrame(self.rows, columns=list(Row._fields))

    def cells(self) -> list[tuple[str, ...]]:
        """Return the numbers as they are printed."""
        return [tuple("" if np.isnan(value) else f"{value:.4g}" for value in row) for row in self.rows]

    def __str__(self) -> str:
        rows = (("*" if k == self.best else "", *row) for k, row in enumerate(self.cells()))
        return aligned([("", *Row._fields), *rows])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return table(Row._fields, self.cells(), marked=self.best)

    def plot(self, ax: Any = None, metric: str = "score") -> Any:
        """Draw score and held-out loss over C, the best marked; return the axes. Needs matplotlib."""
        axis = new_axes() if ax is None else ax
        C, best = self["C"], self.rows[self.best]
        # Labels have the colours of their curves: a legend would cover one of the two, or the user's title.
        axis.plot(C, self["score"], color="#0072B2", marker="o", ms=3)
        axis.plot([best.C], [best.score], color="#D55E00", marker="o", ls="")
        axis.set(xscale="log", xlabel=f"C (best: {best.C:.3g}, orange)")
        axis.set_ylabel(f"held-out {metric}", color="#0072B2")
        right = axis.twinx()
        right.plot(C, self["loss"], color="#707070", ls="--")
        right.set_ylabel("held-out loss (dashed)", color="#707070")
        return axis


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
            self._check_settings()
            grid = probe_grid(self.Cs)
            for C in grid:
                self._head_for(float(C))._check_settings()
            if (X_val is None) != (y_val is None):
                missing, other = ("y_val", "X_val") if y_val is None else ("X_val", "y_val")
                raise ValueError(f"{missing} must be given with {other}, got None")
            X, y = read_rows(self, X, y)
            check_classification_targets(y)
            check_labels(y)
            self.n_features_in_ = X.shape[1]
            best = self._sweep(grid, X, y, self.validation if X_val is None else (X_val, y_val))
            if self.refit:  # from the best of the sweep on
                head = LogisticRegression(**self._settings(X, tol=self.tol), C=best.C, warm_start=True)
                head.__dict__.update({name: value for name, value in vars(best).items() if name in OF_A_FIT})
                best = head.fit(X, y)
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
            # A pair of anything but rows and labels is refused as labels are.
            is_subset = isinstance(given, tuple) and len(given) == 2 and np.ndim(given[1]) == 1
            rows, y = given if is_subset else (None, given)
            rows_of_X = X if rows is None else take(X, rows) if is_on_device(X) else _safe_indexing(X, rows)
            probe = clone(self)
            probe._common = common
            try:
                found[name] = probe.fit(rows_of_X, y)
            except ValueError as error:
                raise ValueError(f"labels[{name!r}]: {error}") from error
            del probe._common
        return found

    def _sweep(self, grid: Array, X: Any, y: Array, validation: Any) -> LogisticRegression:
        """Return the best fit of the grid, and publish the table; what was split for it is let go of."""
        split = split_rows(self, X, y, validation)
        self.classes_ = split.classes
        settings = self._settings(split.X, tol=max(self.tol, 1e-4) if self.refit else self.tol)
        if self.refit:  # none of these is kept: they are good enough to compare scores
            settings["callbacks"] = [NearEnough(settings["tol"])]

        def fit(model: LogisticRegression) -> None:
            model._common = self._common
            # On a device a certificate takes as long as the fit, and is left to the last one.
            model._certifies = not (self.refit and is_on_device(split.X))
            model.fit(split.X, split.y)

        turning, rows, kept, started = Turning(self.patience), list[Row](), 0, time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the table says how near each fit has come
            for k, model in walk(grid, settings, fit):
                seconds = time.perf_counter() - started
                found = score(model, split, self.metric)
                if turning.add(found):
                    best, kept = model, len(rows)
                estimates = (foretold(model.trace_["objective"]), model.gap_, model.result_.estimate)
                estimate = np.nan if model.gap_ <= model.tol else float(np.nanmin(estimates, initial=1.0))
                passes = float(model.trace_["passes"][-1])
                rows.append(Row(float(grid[k]), found.value, found.loss, model.gap_, estimate, passes, seconds))
                if (self.callback is not None and self.callback(rows[-1])) or turning.is_over:
                    break
                started = time.perf_counter()
        lost, name = [row.C for row in rows if np.isnan(row.score)], name_of(self.metric)
        if len(lost) == len(rows):
            raise ValueError(f"metric {name} returned NaN for every C: no C is better than another")
        if lost:
            warn_outside(f"metric {name} returned NaN for {len(lost)} of {len(rows)} values of C: they count as worst")
        self.scores_ = SweepTable(rows, kept)
        return best

    def _settings(self, X: Any, tol: float) -> dict[str, Any]:
        """Return the settings of fits to these rows."""
        settings: dict[str, Any] = dict(
            fit_intercept=self.fit_intercept, tol=tol, max_iter=self.max_iter, n_jobs=self.n_jobs
        )
        if self.standardize:  # a column that is constant counts as it is
            variance = moments(X).variance
            settings["feature_penalty"] = np.where(variance > 0, variance, 1.0)
        return settings

    def _check_settings(self) -> None:
        """Refuse settings that mean nothing, whatever the grid is."""
        named = ("accuracy", "balanced_accuracy", "loss")
        if not (callable(self.metric) or (isinstance(self.metric, str) and self.metric in named)):
            known = ", ".join(map(repr, named))
            raise ValueError(f"metric must be one of {known} or a function, got {self.metric!r}")
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
        torch = needed("torch", "head()", "torch")
        weight, bias = (torch.as_tensor(array) for array in self._two_sided())
        classes, columns = weight.shape
        # No random numbers are drawn for weights that are set.
        layer = torch.nn.utils.skip_init(
            torch.nn.Linear, columns, classes, bias=bool(self.fit_intercept), dtype=weight.dtype
        )
        with torch.no_grad():
            layer.weight.copy_(weight)
            if self.fit_intercept:
                layer.bias.copy_(bias)
        return layer

    def _two_sided(self) -> tuple[Array, Array]:
        """Return weights and biases with a row for each class: of two classes, half of the difference for each."""
        W: Array = sparse.csr_array(self.coef_).toarray() if sparse.issparse(self.coef_) else self.coef_
        b = self.intercept_
        return (np.vstack([-W / 2, W / 2]), np.append(-b / 2, b / 2)) if len(self.classes_) == 2 else (W, b)

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
        if Path(path).suffix != ENDING:
            super().save(path, notes)
            return
        facts, arrays = self._checked(notes)
        weight, bias = self._two_sided()
        others = {name: array for name, array in arrays.items() if name not in ("coef", "intercept")}
        header = {"facts": facts, **{name: [array.dtype.str, array.tolist()] for name, array in others.items()}}
        tensors = {"weight": np.ascontiguousarray(weight), "bias": bias.astype(weight.dtype)}
        with replacing(path) as temporary:
            needed("safetensors.numpy", f"a {ENDING} file", "safetensors").save_file(
                tensors, temporary, {"format": FORMAT, "probe": json.dumps(header)}
            )

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
    """Return the grid from the strongest penalty on: so many points of DINOv3's grid, or those given."""
    return np.logspace(-6, 5, int(Cs)) if is_count(Cs) else np.sort(read_grid(Cs))


# --- files that PyTorch reads as well -----------------------------------------------------------------------

FORMAT = "majorant probe"
ENDING = ".safetensors"


def read_safetensors(path: Any, fields: Mapping[str, Field]) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the facts and arrays of a probe in a safetensors file."""
    needed("safetensors.numpy", f"a {ENDING} file", "safetensors")
    from safetensors import safe_open

    with readable("safetensors file of a probe"):
        file: Any = safe_open(path, framework="numpy")
    with file:
        with readable("safetensors file of a probe"):
            header = json.loads((file.metadata() or {}).get("probe", "null"))
        if header is None:
            raise ValueError("it holds tensors, but no probe that majorant has saved")
        with readable("safetensors file of a probe"):
            weight, bias = file.get_tensor("weight"), file.get_tensor("bias")
            if len(weight) == 2:  # of two classes, the difference
                weight, bias = weight[1:] - weight[:1], bias[1:] - bias[:1]
            arrays = {"coef": weight, "intercept": bias.astype(np.float64)}
            for name in fields:
                if name in header:
                    dtype, values = header[name]
                    # Strings are as long as they are, whatever the file says.
                    kind = {"U": str, "S": bytes}.get(np.dtype(dtype).kind, dtype)
                    arrays[name] = np.array(values, dtype=kind)
    check_arrays(fields, arrays)
    return fact(header, "facts", dict), arrays

"""``LogisticRegressionCV``: C chosen by cross-validation, of rows in memory or in a source."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
from sklearn import get_config
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils import Bunch
from sklearn.utils.metadata_routing import UNUSED, MetadataRouter, MethodMapping, process_routing
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_method_params, validate_data

from majorant.core.checks import Array, refuse_null_ending
from majorant.core.objective import Objective
from majorant.core.result import Outcome, Result
from majorant.device.estimators import is_tensor, read_tensors, to_array
from majorant.estimators import saving
from majorant.estimators.base import check_labels, check_settings, read_offset, take_rows
from majorant.estimators.fitting import CallbackSupportMixin, hand_over, warn_outside
from majorant.estimators.saving import Field, Notes, Written, all_or_nothing, are_any, are_counts, are_positive
from majorant.linear.classifier import LinearClassifier
from majorant.linear.logistic import LogisticRegression
from majorant.linear.path import is_count, read_grid, walk, walk_rows
from majorant.sources.base import Chunk, Piece, Source

# Settings of its own; all others are those of the fits.
OWN = ("Cs", "l1_ratios", "cv", "scoring", "refit", "use_legacy_attributes", "callbacks")
# Fits of folds are compared at so many times the certified gap of the fit of all rows, and at no more than this one:
# accuracies are then the same to a few rows of a thousand.
LOOSER, RANKS = 100.0, 1e-4
# What is learnt here, and not taken over from the fit of all rows.
LEARNT = ("n_iter_", "classes_", "n_features_in_", "feature_names_in_")
# What a model needs to know of its fit to say how sure it is.
OF_A_FIT = ("coef_", "intercept_", "classes_", "n_features_in_", "feature_names_in_")


@dataclass(frozen=True)
class Folds:
    """Coefficients (folds, ratios, Cs, rows, columns), scores (folds, ratios, Cs) and steps (folds, ratios, Cs)."""

    paths: Array
    scores: Array
    steps: Array

    @property
    def best(self) -> tuple[int, int]:
        """The ratio and the C with the best mean score."""
        means = self.scores.mean(axis=0)
        ratio, C = np.unravel_index(int(np.argmax(means)), means.shape)
        return int(ratio), int(C)

    def attributes(self, classes: Array, C: float, l1_ratio: float, l1_ratios: Any, *, legacy: bool) -> dict[str, Any]:
        """Return the attributes of scikit-learn's ``LogisticRegressionCV``."""
        ratios = np.asarray([None] if l1_ratios is None else l1_ratios)
        if not legacy:
            shown = {"coefs_paths_": self.paths, "scores_": self.scores, "n_iter_": self.steps}
            return {"C_": C, "l1_ratio_": l1_ratio, "l1_ratios_": ratios} | shown

        def by_ratio(values: Array) -> Array:
            """Return values with an axis for the ℓ1 ratios, if any were named."""
            return values[:, 0] if l1_ratios is None else values.swapaxes(1, 2)

        keys = classes[1:] if len(classes) == 2 else classes
        return {
            "C_": np.full(len(keys), C),
            "l1_ratio_": np.full(len(keys), None if l1_ratios is None else l1_ratio),
            "coefs_paths_": {key: by_ratio(self.paths[:, :, :, k]) for k, key in enumerate(keys)},
            "scores_": dict.fromkeys(keys, by_ratio(self.scores)),
            "n_iter_": by_ratio(self.steps)[None],
            "l1_ratios_": ratios,
        }

    @classmethod
    def of(cls, model: Any) -> Self:
        """Read them from the attributes of a model."""
        if not isinstance(model.scores_, dict):
            return cls(model.coefs_paths_, model.scores_, model.n_iter_)
        paths = np.stack(list(model.coefs_paths_.values()), axis=-2)
        scores, steps = next(iter(model.scores_.values())), model.n_iter_[0]
        if model.l1_ratios is None:
            return cls(*(values[:, None] for values in (paths, scores, steps)))
        return cls(*(values.swapaxes(1, 2) for values in (paths, scores, steps)))


class Scored(LogisticRegression):
    """A fitted model as scorers see it, which know of no offset, and of arrays only."""

    _offset: Array | None = None

    @classmethod
    def of(cls, model: Any, offset: Array | None = None) -> Self:
        """Return the model, with the offset of the rows that are scored."""
        scored = cls()
        scored.__dict__.update(model.__dict__, _offset=offset)
        return scored

    def decision_function(self, X: Any, offset: Any = None) -> Array:
        """Return the scores of the rows that the offset is of, in the memory of this process."""
        return np.asarray(to_array(super().decision_function(X, self._offset)))


def informed(scorer: Any, classes: Array) -> Any:
    """Return a scorer that is told all classes, if it can be: the labels of a fold may lack some."""
    accepted = signature(scorer._score_func).parameters if hasattr(scorer, "_score_func") else {}
    if "labels" not in accepted:
        return scorer
    told = {"labels": classes}
    if len(classes) == 2 and "pos_label" in accepted:
        told["pos_label"] = classes[-1]
    informed = copy(scorer)
    informed._kwargs = told | getattr(scorer, "_kwargs", {})
    return informed


# --- folds of a source --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class FoldOf(Source):
    """The rows of a source that are in a fold, or those that are not: fold f has the rows f, f + k and so on."""

    source: Source
    folds: int
    fold: int
    held_out: bool

    @property
    def feature_names(self) -> Sequence[str] | None:
        """Names of the columns of the source."""
        return self.source.feature_names

    def pieces(self) -> Sequence[Piece]:
        """Return those of the source, each without some of its rows."""
        return [FoldOfPiece(piece, self.folds, self.fold, self.held_out) for piece in self.source.pieces()]


@dataclass(frozen=True, eq=False)
class FoldOfPiece:
    """Some rows of a piece."""

    piece: Piece
    folds: int
    fold: int
    held_out: bool

    def read(self) -> Iterator[Chunk]:
        """Yield them."""
        first = 0
        for chunk in self.piece.read():
            inside = (first + np.arange(len(chunk))) % self.folds == self.fold
            first += len(chunk)
            yield chunk.take(np.flatnonzero(inside == self.held_out))


def mean_scores(models: Sequence[LogisticRegression], source: Source, scoring: str) -> Array:
    """Return the mean score of each model over the rows of a source, in one read: accuracies or log-likelihoods."""
    from majorant.estimators.source import fitting_chunks

    def score(model: LogisticRegression, X: Any, names: Array) -> Array:
        if scoring == "accuracy":
            return (model.predict(X) == names).astype(np.float64)
        place = np.minimum(np.searchsorted(model.classes_, names), len(model.classes_) - 1)
        known = model.classes_[place] == names
        log = model.predict_log_proba(X)[np.arange(len(names)), np.where(known, place, 0)]
        return np.where(known, log, -np.inf)

    sums, total = np.zeros(len(models)), 0.0
    for chunk in fitting_chunks(models[0], source):
        assert chunk.labels is not None
        weight = np.ones(len(chunk)) if chunk.weight is None else chunk.weight
        names = chunk.labels.names[chunk.labels.codes]
        sums += [float(weight @ score(model, chunk.X, names)) for model in models]
        total += float(weight.sum())
    return sums / total if total else np.full(len(models), np.nan)


class LogisticRegressionCV(CallbackSupportMixin, LinearClassifier):  # type: ignore[misc]
    """:class:`LogisticRegression` with C, and the share of an ℓ1 penalty, chosen by cross-validation.

    Classes are those of all rows: a fold whose rows lack one gives it (next to) no chance, as in scikit-learn, and
    ``class_weight="balanced"`` balances all rows.

    Parameters
    ----------
    Cs : int or list
        The grid, or how many points of it between 10⁻⁴ and 10⁴.
    l1_ratios : list of numbers, optional
        Values of ``l1_ratio`` to choose from; ℓ2 alone if not given.
    cv : int or splitter, optional
        Stratified folds, five by default.
    scoring : str or callable, optional
        Accuracy by default. Weights of rows are weights of scores.
    refit : bool
        Whether to fit all rows with the best C; otherwise the coefficients of the best C of each fold are averaged.
    use_legacy_attributes : bool
        Whether ``C_``, ``l1_ratio_``, ``coefs_paths_``, ``scores_`` and ``n_iter_`` are by class, as scikit-learn has
        them by default before 1.10.
    callbacks : list, optional
        Those of :class:`LogisticRegression`, for the fit of all rows; the fits of the folds go without.
    fit_intercept, penalize_intercept, class_weight, solver, max_iter, shuffle, random_state, feature_penalty
        As in :class:`LogisticRegression`, for every fit.
    tol : float
        Certified relative suboptimality of the fit of all rows; those of folds stop at 100 times that, or 1e-4.
    n_jobs, verbose
        Threads, which share the folds, and how much is said, as in :class:`LogisticRegression`.
    penalty, dual, intercept_scaling, multi_class
        Accepted for scikit-learn's sake, as in :class:`LogisticRegression`; what cannot be done is refused.

    Attributes
    ----------
    C_ : float
        The best C: the first of those with the best mean score; without ``refit`` the mean of the best of each fold.
    Cs_ : array of shape (n_cs,)
        The grid, as given.
    l1_ratio_, l1_ratios_
        The ratio that was chosen, and all of them (``[None]`` for ``l1_ratios=None``).
    scores_ : array of shape (n_folds, n_ratios, n_cs)
    coefs_paths_ : array of shape (n_folds, n_ratios, n_cs, rows of ``coef_``, n_features + 1)
        Coefficients, with the intercept at the end if there is one.
    n_iter_ : array of shape (n_folds, n_ratios, n_cs)
        Steps of the fits of the folds.
    gap_, trace_, result_
        Of the fit of all rows.

    Examples
    --------
    >>> import majorant
    >>> X, y = majorant.datasets.load("ecoli")
    >>> common = y != 3  # a class with two rows cannot be in every fold
    >>> model = majorant.LogisticRegressionCV(Cs=[0.1, 1.0, 10.0], cv=2).fit(X[common], y[common])
    >>> model.scores_.shape, model.C_ in (0.1, 1.0, 10.0)
    ((2, 1, 3), True)
    """

    C_: Any  # a number, or by class
    Cs_: Array
    l1_ratio_: Any
    l1_ratios_: Array
    coefs_paths_: Any
    scores_: Any

    # The weights of rows that ``score`` is given are the scorer's to ask for.
    __metadata_request__score = {"sample_weight": UNUSED}  # noqa: RUF012

    def __init__(
        self,
        *,
        Cs: Any = 10,
        l1_ratios: Any = None,
        cv: Any = None,
        scoring: Any = None,
        refit: bool = True,
        penalty: str = "deprecated",
        fit_intercept: bool = True,
        penalize_intercept: bool = False,
        class_weight: Any = None,
        solver: str = "auto",
        tol: float = 1e-6,
        max_iter: int = 1000,
        shuffle: bool = True,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        feature_penalty: Any = None,
        dual: bool = False,
        intercept_scaling: float = 1.0,
        multi_class: str = "deprecated",
        use_legacy_attributes: bool = False,
        callbacks: Any = None,
    ) -> None:
        self.Cs = Cs
        self.l1_ratios = l1_ratios
        self.cv = cv
        self.scoring = scoring
        self.refit = refit
        self.penalty = penalty
        self.fit_intercept = fit_intercept
        self.penalize_intercept = penalize_intercept
        self.class_weight = class_weight
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.shuffle = shuffle
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.feature_penalty = feature_penalty
        self.dual = dual
        self.intercept_scaling = intercept_scaling
        self.multi_class = multi_class
        self.use_legacy_attributes = use_legacy_attributes
        self.callbacks = callbacks

    # --- fitting ------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, offset: Any = None, **params: Any) -> Self:
        """Choose C by cross-validation, then fit all rows.

        Parameters
        ----------
        X, y, sample_weight, offset
            As in :meth:`LogisticRegression.fit`; weights are handed to the scorer as well, offsets are part of what is
            scored. Of a source every k-th row is a fold, scores are accuracies or "neg_log_loss", and all values of C
            share every read.
        **params
            What the splitter (``groups``) and the scorer ask for, with scikit-learn's metadata routing enabled.

        Returns
        -------
        estimator
            Fitted.
        """
        with all_or_nothing(self):
            if isinstance(X, Source):
                from majorant.estimators.source import refuse_beside

                refuse_beside(y=y, sample_weight=sample_weight, offset=offset)
                grid = self._read_settings()
                folds = self._folds_of_source(X, grid)
            else:
                routed = self._route("fit", params, sample_weight)
                grid, scorer = self._read_settings(), self._get_scorer()
                folds = self._folds(grid, scorer, routed, X, y, sample_weight, offset)
            ratio, best = folds.best
            self.Cs_, C, l1_ratio = grid, float(grid[best]), self._ratios()[ratio]
            if self.refit or isinstance(X, Source):
                model = LogisticRegression(**self._settings(), C=C, l1_ratio=l1_ratio, callbacks=self.callbacks)
                hand_over(self, model)
                model.fit(X, y, sample_weight, offset)
                if isinstance(X, Source):
                    self.__dict__.update({name: value for name, value in vars(model).items() if name in LEARNT})
                self._adopt(model.__dict__)
            else:
                C, l1_ratio = self._adopt_average(folds, grid)
            self._show(folds, C, l1_ratio)
        return self

    @property
    def fit_soft(self) -> NoReturn:
        """Not here: scores compare labels."""
        raise AttributeError(
            "LogisticRegressionCV has no fit_soft: scores compare labels, and soft labels have none; use "
            "LogisticRegression.fit_soft for each C"
        )

    def _folds(self, grid: Array, scorer: Any, routed: Bunch, X: Any, y: Any, sample_weight: Any, offset: Any) -> Folds:
        """Return coefficients, scores and steps along the grid, fold by fold, of rows in memory."""
        # Rows, and all classes that there are.
        refuse_null_ending("y", y)
        y, sample_weight, offset = map(to_array, (y, sample_weight, offset))
        if is_tensor(X):
            y = read_tensors(self, X, y, reset=True)[1]
        else:
            X, y = validate_data(self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], order="C")
        check_classification_targets(y)
        check_labels(y)
        reader = LogisticRegression(**self._settings())
        reader._set_classes(np.unique(y))
        self.classes_ = classes = reader.classes_
        offset = read_offset(offset, X.shape[0], len(classes))
        weight = reader._weights(sample_weight, y, y)

        settings = {**self._settings(), "class_weight": None}  # the weights of the rows have it in them
        if self.refit:  # else their mean is the model
            settings["tol"] = max(self.tol, min(LOOSER * self.tol, RANKS))
        scorer = informed(scorer, classes)
        folds = []
        for train, test in check_cv(self.cv, y, classifier=True).split(X, y, **routed.splitter.split):
            X_train, y_train, weight_train, offset_train = take_rows(train, X, y, weight, offset)
            X_test, y_test, offset_test = take_rows(test, X, y, offset)
            params = _check_method_params(X, routed.scorer.score, indices=test)
            present = np.isin(classes, y_train if weight is None else y_train[weight_train > 0])

            def fit(model: LogisticRegression, rows: tuple[Any, ...], present: Array) -> None:
                """Fit a model of all classes, whichever of them have rows in this fold."""
                X, y, weight, offset = rows
                if present.all():
                    model.fit(X, y, weight, offset)
                    return
                one_hot = (y[:, None] == classes).astype(np.float64)
                with warnings.catch_warnings():
                    # The intercept of a class without rows has no optimum to get to.
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    model.fit_soft(X, one_hot, weight, offset, classes)

            rows = (X_train, y_train, weight_train, offset_train)
            ratios, fits = self._ratios(), {}
            for number, ratio in enumerate(ratios):
                of_ratio = settings | {"l1_ratio": ratio}
                for k, model in walk(grid, of_ratio, partial(fit, rows=rows, present=present)):
                    scored = model if offset is None and not is_tensor(X) else Scored.of(model, offset_test)
                    score = float(scorer(scored, X_test, y_test, **params))
                    fits[number, k] = self._path_of(model), score, model.n_iter_[0]
            folds.append(self._gathered(fits, grid))
        return Folds(*(np.stack(values) for values in zip(*folds, strict=True)))

    def _folds_of_source(self, source: Source, grid: Array) -> Folds:
        """Return the folds of every k-th row of a source; all values of C share every read."""
        if not (self.cv is None or (is_count(self.cv) and self.cv >= 2)):
            raise ValueError(
                "cv must be a number of folds of at least 2 for a source, whose rows are split by position: "
                f"{self.cv!r}"
            )
        scoring, known = "accuracy" if self.scoring is None else self.scoring, ("accuracy", "neg_log_loss")
        if scoring not in known:
            raise ValueError(f"scoring must be {' or '.join(map(repr, known))} for a source, got {scoring!r}")
        count, folds = int(check_cv(self.cv).get_n_splits()), []
        for fold in range(count):
            train, test = (FoldOf(source, count, fold, held_out) for held_out in (False, True))
            fits = {}
            for number, ratio in enumerate(self._ratios()):
                models = dict(walk_rows(grid, self._settings() | {"l1_ratio": ratio}, train, None))
                scores = mean_scores([models[k] for k in range(len(grid))], test, scoring)
                for k, model in models.items():
                    fits[number, k] = self._path_of(model), float(scores[k]), model.n_iter_[0]
            folds.append(self._gathered(fits, grid))
        return Folds(*(np.stack(values) for values in zip(*folds, strict=True)))

    def _ratios(self) -> list[float]:
        """Return the ℓ1 ratios to choose from."""
        if self.l1_ratios is None or self.penalty in ("l1", "l2"):
            return [1.0 if self.penalty == "l1" else 0.0]
        return [float(ratio) for ratio in self.l1_ratios]

    def _gathered(self, fits: dict[tuple[int, int], Any], grid: Array) -> tuple[Array, Array, Array]:
        """Return coefficients, scores and steps of a fold, which are known by the numbers of a ratio and a C."""
        shape = (len(self._ratios()), len(grid))
        paths, scores, steps = zip(*(fits[at] for at in np.ndindex(shape)), strict=True)
        scored, counted = np.reshape(scores, shape), np.reshape(np.array(steps, dtype=np.int32), shape)
        return np.reshape(np.stack(paths), (*shape, *paths[0].shape)), scored, counted

    def _path_of(self, model: LogisticRegression) -> Array:
        return np.hstack([model.coef_, model.intercept_[:, None]] if self.fit_intercept else [model.coef_])

    def _adopt_average(self, folds: Folds, grid: Array) -> tuple[float, float]:
        """Take the mean of the coefficients of the best C and ratio of each fold; return the means of both."""
        if self.callbacks or getattr(self, "_skl_callbacks", None):
            warn_outside("refit=False leaves no fit of all rows for the callbacks to follow")
        count = len(folds.scores)
        ratio, best = np.unravel_index(folds.scores.reshape(count, -1).argmax(axis=1), folds.scores.shape[1:])
        W = folds.paths[np.arange(count), ratio, best].mean(axis=0)
        coef, intercept = (W[:, :-1], W[:, -1]) if self.fit_intercept else (W, np.zeros(len(W)))
        result = Result(Outcome.STOPPED, "the average of the folds; nothing certifies it", float("nan"))
        self._adopt({"coef_": coef, "intercept_": intercept, "gap_": result.gap, "result_": result})
        return float(np.mean(grid[best])), float(np.mean(np.array(self._ratios())[ratio]))

    def _adopt(self, learnt: Mapping[str, Any]) -> None:
        """Take over what a fit has learnt, in the place of what one before had."""
        for name in ("_posterior", *self.__dict__.pop("_adopted", ())):
            self.__dict__.pop(name, None)
        settings = LogisticRegression().get_params()
        theirs = {k: v for k, v in learnt.items() if k not in settings and k not in LEARNT and "_skl_" not in k}
        self.__dict__.update(theirs, _adopted=list(theirs))

    def _show(self, folds: Folds, C: float, l1_ratio: float) -> None:
        legacy = self.use_legacy_attributes
        self.__dict__.update(folds.attributes(self.classes_, C, l1_ratio, self.l1_ratios, legacy=legacy))

    @property
    def _chosen_ratio(self) -> float:
        """The ℓ1 ratio of the fit of all rows, whichever way it is shown."""
        ratio = np.ravel(self.l1_ratio_)[0]
        return self._ratios()[0] if ratio is None else float(ratio)

    def _objective_on(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> Objective:
        if not self.refit:
            raise ValueError("averages of folds have no posterior; set refit=True")
        model = LogisticRegression(**self._settings(), C=float(np.ravel(self.C_)[0]), l1_ratio=self._chosen_ratio)
        model.__dict__.update({name: value for name, value in self.__dict__.items() if name in OF_A_FIT})
        return model._objective_on(X, y, sample_weight, offset)

    # --- scores -------------------------------------------------------------------------------------------

    def score(self, X: Any, y: Any = None, sample_weight: Any = None, **score_params: Any) -> float:
        """Return the score by ``scoring`` (accuracy by default).

        Parameters
        ----------
        X, y, sample_weight
            As for :meth:`LogisticRegression.score`.
        **score_params
            What the scorer asks for, with scikit-learn's metadata routing enabled.

        Returns
        -------
        float
        """
        routed = self._route("score", score_params, sample_weight)
        scored = Scored.of(self) if is_tensor(X) else self
        return float(self._get_scorer()(scored, X, to_array(y), **routed.scorer.score))

    def get_metadata_routing(self) -> MetadataRouter:
        """Return who asks for what: this estimator, the splitter and the scorer.

        Returns
        -------
        MetadataRouter

        Examples
        --------
        >>> import majorant
        >>> type(majorant.LogisticRegressionCV().get_metadata_routing())
        <class 'sklearn.utils._metadata_requests.MetadataRouter'>
        """
        to_scorer = MethodMapping().add(caller="score", callee="score").add(caller="fit", callee="score")
        return (
            MetadataRouter(owner=self)
            .add_self_request(self)
            .add(splitter=self.cv, method_mapping=MethodMapping().add(caller="fit", callee="split"))
            .add(scorer=self._get_scorer(), method_mapping=to_scorer)
        )

    def _route(self, method: str, params: dict[str, Any], sample_weight: Any) -> Bunch:
        """Return the arguments of the splitter and the scorer."""
        if get_config()["enable_metadata_routing"]:
            weight = {} if sample_weight is None else {"sample_weight": sample_weight}
            return process_routing(self, method, **weight, **params)
        if params:
            raise ValueError(
                f"{method} got {', '.join(params)}, which is only supported if enable_metadata_routing=True; see "
                "sklearn.set_config"
            )
        weight = {} if sample_weight is None else {"sample_weight": np.asarray(sample_weight)}
        return Bunch(splitter=Bunch(split={}), scorer=Bunch(score=weight))

    def _get_scorer(self) -> Any:
        if not (self.scoring is None or isinstance(self.scoring, str) or callable(self.scoring)):
            raise ValueError(f"scoring must be one scorer, by name or as a callable, got {self.scoring!r}")
        return check_scoring(self, scoring="accuracy" if self.scoring is None else self.scoring)

    # --- files --------------------------------------------------------------------------------------------

    _fields: ClassVar[dict[str, Field]] = {
        **saving.linear_fields(),
        "Cs": Field("f", ("Cs",), are_positive),
        "C": Field("f", (1,), are_positive),
        "l1_ratio": Field("f", (1,), are_any, needed=False),
        "paths": Field("f", ("folds", "fits", saving.coefficient_rows, "parameters"), are_any),
        "scores": Field("fiu", ("folds", "fits"), are_any),
        "steps": Field("iu", ("folds", "fits"), are_counts),
    }

    def _written(self, notes: Notes) -> Written:
        arrays = saving.arrays_of(self, saving.linear_fields())
        return saving.facts_of(self, notes), {
            **arrays,
            "Cs": self.Cs_,
            "C": np.atleast_1d(self.C_)[:1],
            "l1_ratio": np.array([self._chosen_ratio]),
            **{name: each.reshape(len(each), -1, *each.shape[3:]) for name, each in vars(Folds.of(self)).items()},
        }

    def _restore(self, path: Any, facts: dict[str, Any], arrays: dict[str, Array]) -> None:
        super()._restore(path, facts, {name: arrays[name] for name in saving.linear_fields() if name in arrays})
        # Fits of a fold are those of each ratio, one after the other; older files have one for all ratios, zeros.
        named, fits = 1 if self.l1_ratios is None else np.size(self.l1_ratios), arrays["paths"].shape[1]
        ratios = fits // len(arrays["Cs"])
        is_whole = fits == ratios * len(arrays["Cs"]) and (ratios == named or (ratios == 1 and named <= 100))
        if arrays["paths"].shape[3] - self.n_features_in_ not in (0, 1) or not is_whole:
            raise ValueError(f"the array 'paths' does not go with {self.n_features_in_} columns, or with l1_ratios")
        self.Cs_ = arrays["Cs"]
        each = (arrays[name] for name in ("paths", "scores", "steps"))
        shaped = [part.reshape(len(part), ratios, len(self.Cs_), *part.shape[2:]) for part in each]
        folds = Folds(*(np.repeat(part, named, axis=1) if ratios < named else part for part in shaped))
        self._show(folds, float(arrays["C"][0]), float(arrays["l1_ratio"][0]) if "l1_ratio" in arrays else 0.0)

    # --- what the methods above are made of ---------------------------------------------------------------

    def _settings(self) -> dict[str, Any]:
        """Return the settings of the fits."""
        return {name: value for name, value in self.get_params(deep=False).items() if name not in OWN}

    def _check_settings(self) -> None:
        """Refuse settings that mean nothing, whatever the grid is."""
        check_settings(self)
        if self.penalty is None:
            raise ValueError("penalty=None leaves no C to choose; Cs=[np.inf] is a grid without a penalty")
        if self.l1_ratios is not None and (np.ndim(self.l1_ratios) != 1 or np.size(self.l1_ratios) == 0):
            raise ValueError(f"l1_ratios must be a list of numbers between 0 and 1, got {self.l1_ratios!r}")
        if self.penalty == "elasticnet" and self.l1_ratios is None:
            raise ValueError("l1_ratios must be given if penalty='elasticnet', got None; leave both out for ℓ2")
        if not is_count(self.Cs):
            read_grid(self.Cs)
        for ratio in self._ratios():
            LogisticRegression(**self._settings(), l1_ratio=ratio)._check_settings()

    def _read_settings(self) -> Array:
        """Return the grid, if all settings are in order."""
        self._check_settings()
        grid = read_grid(self.Cs)
        for C in grid:
            LogisticRegression(**self._settings(), C=float(C), l1_ratio=self._ratios()[0])._check_settings()
        return grid

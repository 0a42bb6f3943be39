"""The base class :class:`Estimator`, and checks of the settings and data of linear classifiers.

Every refusal names the argument, what it got, and what to do.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from inspect import signature
from numbers import Real
from typing import Any

import numpy as np
from joblib import cpu_count, effective_n_jobs
from joblib.parallel import get_active_backend
from scipy.sparse import csr_array, csr_matrix, issparse
from sklearn.base import BaseEstimator
from sklearn.utils import compute_class_weight
from sklearn.utils.validation import _check_sample_weight, validate_data

from majorant.core.checks import Array, finite_array, one_of, refuse_null_ending, whole
from majorant.core.result import Result, paragraph
from majorant.core.threads import blas_threads, even_slices, mapped, sharing
from majorant.estimators.fitting import ACCEPTED, warn_outside
from majorant.estimators.saving import Saved

# Numbers below which work is not shared: a pass over fewer takes about as long as it takes to start threads.
WORTH_SHARING = 2**19


class Estimator(Saved, BaseEstimator):  # type: ignore[misc]
    """Base class of the estimators: results, ``save`` and ``load``, and scikit-learn's diagram with the result.

    Examples
    --------
    >>> from majorant import LogisticRegression
    >>> model = LogisticRegression()
    >>> "certified" in model._repr_html_()
    False
    >>> "certified to be within" in model.fit([[0.0], [1.0], [2.0]], [0, 1, 0])._repr_html_()
    True
    """

    result_: Result
    gap_: float
    trace_: dict[str, Array]
    notes_: dict[str, Any] | None  # of a loaded model

    def _repr_html_inner(self) -> str:  # what scikit-learn's _repr_html_ gives, where diagrams are wanted
        return f"{super()._repr_html_inner()}{self._sentence()}"

    def _repr_mimebundle_(self, **settings: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**settings)
        if "text/html" in bundle:
            bundle["text/html"] += self._sentence()
        return bundle

    def _sentence(self) -> str:
        result = vars(self).get("result_")
        return "" if result is None else paragraph(str(result))


class StepCount:
    """``n_iter_``: an attribute that is an int32 array of one number, whatever kind of number is assigned to it."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, estimator: Any, owner: type | None = None) -> Array:
        if estimator is None or self._name not in vars(estimator):
            raise AttributeError(f"{owner.__name__ if owner else 'the estimator'} has no {self._name} before a fit")
        return vars(estimator)[self._name]

    def __set__(self, estimator: Any, steps: Any) -> None:
        vars(estimator)[self._name] = np.asarray(steps, dtype=np.int32).reshape(1)

    def __delete__(self, estimator: Any) -> None:
        del vars(estimator)[self._name]


def fit_threads(n_jobs: int | None, numbers: float) -> int:
    """Return the number of threads of a fit whose passes multiply so many numbers.

    With ``n_jobs`` that is what joblib makes of it: −1 for all cores. With None, as many as BLAS and OpenMP would use
    here (``OMP_NUM_THREADS``, ``threadpool_limits``), no more than joblib counts cores (``LOKY_MAX_CPU_COUNT``,
    affinity, the quota of a container), and one where the work is too small, or is one of several jobs already.
    """
    if n_jobs is not None:
        return int(effective_n_jobs(n_jobs))
    if numbers < WORTH_SHARING or get_active_backend()[0].nesting_level:
        return 1
    return max(min(blas_threads(), cpu_count()), 1)


# --- settings -----------------------------------------------------------------------------------------------

SWITCHES = ("fit_intercept", "penalize_intercept", "warm_start", "shuffle", "dual", "refit", "use_legacy_attributes")


def check_settings(estimator: Any) -> None:
    """Refuse settings of a logistic regression that mean nothing, or that this package does not do."""
    settings = vars(estimator)
    check_common_settings(settings, ACCEPTED)
    one_of("multi_class", settings["multi_class"], ("deprecated", "auto", "ovr", "multinomial"))
    solver = settings["solver"]
    if settings["dual"] and solver != "liblinear":
        raise ValueError(f"Solver {solver} supports only dual=False, got dual=True: the optimum is the same")
    scaling = check_number("intercept_scaling", settings["intercept_scaling"], least=0.0)
    if not scaling > 0:
        raise ValueError("intercept_scaling must be positive, got 0")
    if solver == "liblinear" and scaling * scaling * float(min(settings.get("C", 1.0), 1.0)) * sys.float_info.max < 1:
        raise ValueError(
            f"intercept_scaling must be large enough for 1/(C intercept_scaling²) to be finite, got {scaling!r}; "
            "fit_intercept=False leaves the intercept out"
        )


def check_common_settings(settings: Mapping[str, Any], solvers: tuple[str, ...]) -> None:
    """Refuse settings that mean nothing to any linear classifier, or a solver that is none of these."""
    for name in SWITCHES:
        if not isinstance(settings.get(name, False), bool | np.bool_):
            raise ValueError(f"{name} must be True or False, got {settings[name]!r}")
    one_of("solver", settings["solver"], solvers)
    check_number("tol", settings["tol"], least=0.0)
    whole("max_iter", settings["max_iter"], least=0)
    if not isinstance(settings["verbose"], bool | np.bool_):
        whole("verbose", settings["verbose"], least=0)
    check_jobs(settings["n_jobs"])
    check_callbacks(settings["callbacks"])


# Solvers that have an ℓ1 penalty, here by proximal Newton; of liblinear it is ℓ1 or ℓ2, not both.
WITH_L1 = ("auto", "saga", "liblinear")


def check_penalty(penalty: Any, l1_ratio: Any, C: Any, solver: str) -> None:
    """Refuse penalties that mean nothing, as ``penalty`` and ``l1_ratio`` ask for them, or that a solver has not."""
    check_strength(C)
    if penalty is not None:
        one_of("penalty", penalty, ("l1", "l2", "elasticnet", "deprecated"))
    if penalty == "elasticnet" and l1_ratio is None:
        raise ValueError("l1_ratio must be specified when penalty is elasticnet.")
    if l1_ratio is not None and not (_is_number(l1_ratio) and 0 <= l1_ratio <= 1):
        raise ValueError(f"l1_ratio must be a number between 0 and 1, got {l1_ratio!r}")
    if penalty is None and C != 1:
        warn_outside("Setting penalty=None will ignore the C and l1_ratio parameters")
    if penalty in ("l1", "l2", None) and l1_ratio is not None and 0 < l1_ratio < 1:
        warn_outside(f"l1_ratio parameter is only used when penalty is 'elasticnet'. Got (penalty={penalty})")
    elif (penalty == "l2" and l1_ratio not in (0, None)) or (penalty == "l1" and l1_ratio not in (0, 1, None)):
        warn_outside(f"Inconsistent values: penalty={penalty} with l1_ratio={l1_ratio}, which is ignored")
    share = share_of_l1(penalty, l1_ratio, C)
    if share and solver not in WITH_L1:
        raise ValueError(f"Solver {solver} supports only 'l2' or None penalties, got l1_ratio={share:g}; use 'auto'")
    if 0 < share < 1 and solver == "liblinear":
        raise ValueError(f"Only 'saga' and 'auto' solvers support elasticnet penalty, got solver={solver}.")


def share_of_l1(penalty: Any, l1_ratio: Any, C: Any) -> float:
    """Return which share of the penalty is ℓ1: zero for ℓ2, and where there is no penalty."""
    if penalty in (None, "l2", "firth") or np.isinf(float(C)):
        return 0.0
    return 1.0 if penalty == "l1" else float(l1_ratio or 0.0)


def check_class_count(count: int, solver: str, multi_class: str) -> None:
    """Refuse what scikit-learn's settings do to another number of classes."""
    if count > 2 and solver == "liblinear":
        raise ValueError(
            "The 'liblinear' solver does not support multiclass classification (n_classes >= 3). Use another solver, "
            "or wrap the estimator in a OneVsRestClassifier"
        )
    if count > 2 and multi_class == "ovr":
        raise ValueError("multi_class='ovr' is not supported: wrap the estimator in a OneVsRestClassifier")
    if count == 2 and multi_class == "multinomial":
        raise ValueError(
            "multi_class='multinomial' halves the penalty of two classes: leave it out, and double C if that is meant"
        )


def check_labels(y: Array) -> None:
    """Refuse labels that cannot be put in order, such as numbers and strings together, or that files do not keep."""
    if y.dtype == object:
        refuse_null_ending("y", y)
        try:
            np.unique(y)
        except TypeError:
            kinds = sorted({type(label).__name__ for label in y})
            raise ValueError(f"y must hold labels of one type, got {' and '.join(kinds)}") from None


def check_strength(C: Any, name: str = "C") -> None:
    """Refuse a C that is no positive number, or so small that 1/C is none."""
    if not (_is_number(C) and C > 0):
        raise ValueError(f"{name} must be positive (np.inf for no penalty), got {C!r}")
    if float(C) * sys.float_info.max < 1:
        raise ValueError(f"{name} must be large enough for 1/{name} to be finite, got {C!r}")


def check_number(name: str, value: Any, *, least: float) -> float:
    """Return a number that is large enough, or raise."""
    if not (_is_number(value) and value >= least):
        raise ValueError(f"{name} must be a number of at least {least:g}, got {value!r}")
    return float(value)


def check_jobs(n_jobs: Any) -> None:
    """Raise unless this is what ``n_jobs`` may be."""
    if n_jobs is not None and (isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer) or n_jobs == 0):
        raise ValueError(f"n_jobs must be None, a number of threads, or -1 for all cores, got {n_jobs!r}")


def check_callbacks(callbacks: Any) -> None:
    """Refuse what is no list of callbacks."""
    if callbacks is not None and not isinstance(callbacks, list | tuple):
        raise ValueError(f"callbacks must be a list, got {callbacks!r:.80}; write callbacks=[...]")
    for callback in callbacks or ():
        if not callable(callback) or isinstance(callback, type):
            raise ValueError(f"callbacks must be functions or instances that can be called, got {callback!r:.80}")


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)


# --- data ---------------------------------------------------------------------------------------------------


def read_feature_penalty(value: Any, features: int) -> Array:
    """Return one finite factor ≥ 0 per feature; one for all if there are none."""
    if value is None:
        return np.ones(1)
    try:
        factors = np.asarray(value, dtype=np.float64)
    except (OverflowError, TypeError, ValueError):
        factors = np.empty((0, 0))  # which is refused
    if factors.shape != (features,) or not (factors >= 0).all() or not np.isfinite(factors).all():
        raise ValueError(f"feature_penalty must be {features} non-negative numbers, all finite, got {value!r:.80}")
    return factors


def distinct(y: Array) -> tuple[Array, Array]:
    """Return the distinct labels in order, and which of them each one is; numbers next to zero are only counted."""
    if y.dtype.kind in "iu" and y.min() >= 0 and y.max() < len(y):
        numbers = y.astype(np.intp, copy=False)  # NumPy before 2.2 counts no unsigned numbers of 64 bits
        counts = np.bincount(numbers)
        classes = np.flatnonzero(counts).astype(y.dtype)
        places = np.cumsum(counts > 0) - 1
        return classes, numbers if len(classes) == len(counts) else places[numbers]
    return np.unique(y, return_inverse=True)


def only_class(labels: Array) -> int | None:
    """Return the number of the class of all rows, if they have one class; rows of a table are distributions."""
    if labels.ndim == 1:
        return int(labels[0]) if (labels == labels[0]).all() else None
    present = np.flatnonzero((labels > 0).any(axis=0))
    return int(present[0]) if len(present) == 1 else None


def validated(estimator: Any, X: Any, y: Any = "no_validation", *, reset: bool) -> Any:
    """Return rows as scikit-learn validates them, and labels if there are any; threads look for what is not finite."""
    if reset and _is_plain(X, y) and _sums_are_finite(X, estimator.n_jobs):
        estimator.n_features_in_ = X.shape[1]
        vars(estimator).pop("feature_names_in_", None)
        return X, y
    settings = dict(accept_sparse="csr", dtype=[np.float64, np.float32], order="C", reset=reset)
    valid = validate_data(estimator, X, y, ensure_all_finite=False, **settings)
    rows = valid[0] if isinstance(valid, tuple) else valid
    # Sums of finite numbers may be infinite: then, and to say what is wrong, scikit-learn checks number by number.
    return valid if _sums_are_finite(rows, estimator.n_jobs) else validate_data(estimator, X, y, **settings)


def _is_plain(X: Any, y: Any) -> bool:
    """Return whether rows and labels are arrays that scikit-learn would return as they are.

    Finding that out takes it as long as all of a Newton step on a few hundred rows.
    """
    in_order = X.flags.c_contiguous if type(X) is np.ndarray else type(X) in (csr_matrix, csr_array)
    if not (in_order and X.ndim == 2 and X.dtype in (np.float64, np.float32) and type(y) is np.ndarray):
        return False
    return y.shape == X.shape[:1] and y.dtype.kind in "iub" and min(X.shape) > 0


def _sums_are_finite(X: Any, n_jobs: int | None) -> bool:
    values: Array = X.data if issparse(X) else X.reshape(-1)  # all that is stored
    if len(values) <= WORTH_SHARING:
        return bool(np.isfinite(values.sum()))
    with sharing(fit_threads(n_jobs, values.size)):
        sums = mapped(lambda rows: values[rows].sum(), even_slices(len(values), WORTH_SHARING))
    return bool(np.isfinite(sums).all())


def read_weights(sample_weight: Any, X: Any) -> Array | None:
    """Return the weights of the rows, if there are any; none may be negative, and not all zero."""
    if sample_weight is None:
        return None
    weight = np.asarray(_check_sample_weight(sample_weight, X, dtype=np.float64))
    if not weight.any():
        raise ValueError("sample_weight must hold a non-zero number: there is nothing to fit")
    if (weight < 0).any():
        row = int(np.argmax(weight < 0))
        raise ValueError(f"sample_weight must be non-negative, got {weight[row]:g} at row {row}; drop rows instead")
    return weight


def take_rows(rows: Array, *arrays: Any) -> tuple[Any, ...]:
    """Return the given rows of each array, None for None."""
    return tuple(None if array is None else array[rows] for array in arrays)


def with_class_weight(class_weight: Any, classes: Array, y: Array, weight: Array | None) -> Array | None:
    """Return the weights of the rows times those of their classes; a balance is of classes that have a weight."""
    if class_weight is None:
        return weight
    if isinstance(class_weight, Mapping):
        check_class_weight(class_weight)
    codes, of_class = np.searchsorted(classes, y), np.zeros(len(classes))
    weighs = np.bincount(codes, weights=weight, minlength=len(classes)) > 0
    counts = weighs | (class_weight != "balanced")
    y, row_weight = take_rows(counts[codes], y, weight)
    # scikit-learn balances weighted counts since 1.7; sample_weight was no argument before.
    takes_weights = "sample_weight" in signature(compute_class_weight).parameters
    weights = {"sample_weight": row_weight} if takes_weights else {}
    of_class[counts] = compute_class_weight(class_weight, classes=classes[counts], y=y, **weights)
    return of_class[codes] if weight is None else weight * of_class[codes]


def check_class_weight(class_weight: Mapping[Any, Any]) -> None:
    """Refuse weights that are not numbers, or negative."""
    for label, value in class_weight.items():
        if not (_is_number(value) and 0 <= value < np.inf):
            raise ValueError(
                f"class_weight must be finite and non-negative for each class, got {value!r} for {label!r}"
            )


def read_offset(offset: Any, rows: int, classes: int) -> Array | None:
    """Return the offset if it has the shape of the scores."""
    if offset is None:
        return None
    shape = (rows,) if classes == 2 else (rows, classes)
    if np.shape(offset) != shape:
        raise ValueError(
            f"offset must have the shape of the scores of {rows} rows and {classes} classes, {shape}, "
            f"got {np.shape(offset)}"
        )
    return np.asarray(offset)


def least_margin(offset: Array | None, only: int) -> float:
    """Return by how much an offset prefers a class to the others, in the row where that is least; 0 without one.

    It is −∞ where the offset forbids the class, and for two classes where it forbids either.
    """
    if offset is None:
        return 0.0
    offset = finite_array("offset", offset, ndim=(1, 2), allow="-inf").astype(np.float64)
    if offset.ndim == 1:
        return float((offset if only == 1 else -offset).min()) if np.isfinite(offset).all() else -np.inf
    own, others = offset[:, only], np.delete(offset, only, axis=1).max(axis=1)
    return float(np.where(np.isneginf(own), -np.inf, own - others).min())


def read_distributions(P: Any, classes: Any) -> tuple[Array, Array]:
    """Return the names of the classes in order, and the distribution of each row over them."""
    P = np.asarray(P, dtype=np.float64)
    if P.ndim != 2 or P.shape[1] < 2:
        raise ValueError(f"P must have one column per class, at least two, got shape {P.shape}")
    refuse_null_ending("classes", classes)
    names, order = np.unique(np.arange(P.shape[1]) if classes is None else np.asarray(classes), return_index=True)
    if len(names) != P.shape[1]:
        raise ValueError(f"classes must name the {P.shape[1]} columns of P, each differently, got {classes!r}")
    bad = ~np.isclose(P.sum(axis=1), 1.0) | ~(P >= 0).all(axis=1)
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(f"the rows of P must be non-negative and sum to one, got {P[row]!r:.80} at row {row}")
    return names, (P / P.sum(axis=1, keepdims=True))[:, order]

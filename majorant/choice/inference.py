"""The base class of choice estimators: refinement by Newton's method, Hessians, covariances and files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from majorant.choice.enumerated import Enumerated
from majorant.choice.sets import Situations
from majorant.core.checks import Array, one_of
from majorant.core.choices import Choices
from majorant.core.curvature import Curvature
from majorant.core.objective import Objective
from majorant.core.preconditioners import HessianByBlocks, hessian_by_blocks
from majorant.core.result import Fitted, Result
from majorant.core.solver import DescentState
from majorant.core.structured import Arrow
from majorant.estimators import saving
from majorant.estimators.base import Estimator
from majorant.estimators.saving import Notes, Written
from majorant.inference import Facts, covariance, in_columns

# Of more parameters no Hessian is kept; by blocks that never meet there are still standard errors.
LARGEST_HESSIAN = 5_000


@dataclass(frozen=True, eq=False)
class Polished:
    """Parameters, F there, and the Hessian of the penalised loss; of many parameters its inverse diagonal alone."""

    theta: Array
    value: float
    hessian: Array | None = None
    variances: Array | None = None
    gradient: Array | None = None


def polished(objective: Objective, fitted: Fitted) -> Polished:
    """Return a fit after Newton's last steps, if it has converged, and what is known of its curvature."""
    theta, λ = fitted.params, objective.ridge
    state = None if fitted.solution is None else fitted.solution.state
    found: tuple[float, Array, Curvature] | None = None
    newton = state if isinstance(state, DescentState) and state.curvature is not None else None
    if newton is not None and newton.point is not None and np.array_equal(newton.point.theta, theta):
        assert newton.curvature is not None
        found = newton.point.value, newton.point.gradient, newton.curvature
    found = found or curved(objective, theta)
    for _ in range(3):  # Newton's last steps, at most
        if found is None:
            return Polished(theta, objective.value(theta))
        value, gradient, H = found
        step = H.factorized(λ)(gradient)
        # Newton's decrement squared is an estimate of twice the log-likelihood that is missing.
        small = fitted.result.converged and gradient @ step > 4 * np.finfo(np.float64).eps
        if not small or not objective.value(theta - step) <= value:
            break
        theta = theta - step
        found = curved(objective, theta)
    assert found is not None
    value, gradient, H = found
    if isinstance(H, Arrow):
        return Polished(theta, value, None, variances_of(H, λ), gradient)
    return Polished(theta, value, H.as_matrix() + np.diag(λ), None, gradient)


def curved(objective: Objective, theta: Array) -> tuple[float, Array, Curvature] | None:
    """Return F, its gradient and the Hessian of the loss, if there is a way to have it."""
    if objective.size <= LARGEST_HESSIAN:
        return objective.hessian(theta)
    if HessianByBlocks().price(objective) is None:
        return None
    point = objective.point(theta)
    return point.value, point.gradient, hessian_by_blocks(objective, point, whole=True)


def variances_of(H: Arrow, ridge: Array) -> Array:
    """Return the diagonal of the inverse, infinite where rounding hides it.

    That is where a variance is so many times what it would be if the parameter were alone.
    """
    found, alone = H.factorized(ridge).inverse_diagonal(), H.diagonal() + ridge
    return np.where((alone > 0) & (found * alone <= np.finfo(np.float64).eps ** (-2 / 3)), found, np.inf)


class ChoiceEstimator(Estimator):
    """Base class of the conditional and the latent class logit: probabilities, covariances and files."""

    n_features_in_: int
    n_iter_: int
    result_: Result
    trace_: dict[str, Array]
    param_names_: list[str]
    log_likelihood_: float
    null_log_likelihood_: float
    notes_: dict[str, Any] | None  # of a loaded model
    _facts: Facts
    _hessian: Array | None  # of the penalised loss, for columns XT
    _basis: Array | None = None  # T, a diagonal or a matrix; None for the columns of X
    _robust: Array | None = None  # of a loaded model
    _unsaved: ClassVar[tuple[str, ...]]  # attributes that hold the data of the fit: files and pickles leave them out

    def _column_names(self) -> list[str]:
        names = getattr(self, "feature_names_in_", [f"x{i}" for i in range(self.n_features_in_)])
        return [str(name) for name in names]

    def _situations(self, X: Any, groups: Any) -> Situations:
        check_is_fitted(self, "coef_")
        return Situations.read(self, X, groups, reset=False)

    def _probabilities(self, sets: Choices, theta: Array) -> Array:
        """Return the probability of each outcome in its set, flat."""
        return Enumerated().probabilities(Enumerated().scores(theta, sets), sets)

    def _covariance(
        self, kind: str, kinds: tuple[str, ...], scores: Callable[[], Array] | None, clusters: Array | None = None
    ) -> Array:
        """Return a covariance of the coefficients; ``scores`` returns gradients of observations for columns XT."""
        check_is_fitted(self, "coef_")
        assert self._hessian is not None
        if one_of("kind", kind, kinds) == "hessian":
            return in_columns(self._basis, covariance(self._hessian, None, kind))
        if scores is None:
            if kind == "robust" and self._robust is not None:
                return self._robust
            raise ValueError(f"kind={kind!r} needs the data of the fit, which files and pickles do not hold: fit again")
        return in_columns(self._basis, covariance(self._hessian, scores(), kind, clusters))

    def _common(self, notes: Notes) -> Written:
        """Return the facts and arrays that files of all choice models hold."""
        arrays: dict[str, Array] = {}
        if self._hessian is not None:
            arrays["hessian"] = self._hessian
            if self._basis is not None:
                arrays["basis"] = np.diag(self._basis) if self._basis.ndim == 1 else self._basis
            if self._robust is not None or any(getattr(self, name) is not None for name in self._unsaved):
                arrays["robust"] = self.covariance("robust")
        facts = saving.facts_of(self, notes) | {"facts": asdict(self._facts)}
        return facts | {"named_columns": hasattr(self, "feature_names_in_")}, arrays

    def _restore_common(self, facts: dict[str, Any], arrays: dict[str, Array], columns: list[str], size: int) -> None:
        """Read that again, for columns of X with these names and so many parameters."""
        saving.restore_ending(self, facts)
        self._hessian, self._robust, self._basis = (arrays.get(name) for name in ("hessian", "robust", "basis"))
        saved = saving.fact(facts, "facts", dict)
        if saved.keys() != {field.name for field in fields(Facts)} or saved["parameters"] != size:
            raise ValueError(f"it says of a fit of {size} parameters {saved!r:.80}, which cannot be")
        numbers = ("log_likelihood", "null_log_likelihood", "observations")
        likelihood, null, observations = (float(saving.fact(saved, name, int, float)) for name in numbers)
        if not observations > 0:
            raise ValueError(f"it says that there were {observations} observations")
        self._facts = Facts(likelihood, null, observations, size, saving.fact(saved, "unit", str))
        self.log_likelihood_, self.null_log_likelihood_, self.n_features_in_ = likelihood, null, len(columns)
        if saving.fact(facts, "named_columns", bool):
            self.feature_names_in_ = saving.names_of(columns)

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name not in self._unsaved}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags

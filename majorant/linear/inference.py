"""What maximum-likelihood estimates of a logistic regression are worth: standard errors, and a table of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import xlogy
from sklearn.utils.validation import check_is_fitted, validate_data

from majorant.core.checks import Array, one_of
from majorant.core.labelled import Labelled
from majorant.core.objective import Objective
from majorant.device.estimators import to_array
from majorant.estimators.base import read_offset
from majorant.inference import KINDS, Facts, Summary, covariance, row_scores, summarise, through

SOURCES = {
    "hessian": "standard errors from the inverse Hessian",
    "robust": "robust standard errors (sandwich over rows)",
    "cluster": "standard errors robust to dependence within clusters",
}


class Evidence(NamedTuple):
    """Estimates of maximum likelihood, class by class, their covariance, and what is said of the fit."""

    params: Array
    covariance: Array
    facts: Facts


class LogisticInference:
    """``summary``, for a logistic regression without a penalty."""

    def _objective_on(self: Any, X: Any, y: Any, sample_weight: Any, offset: Any) -> Objective:
        """Return what was minimised, on these rows, whose labels do not matter."""
        X = validate_data(self, to_array(X), accept_sparse="csr", dtype=np.float64, order="C", reset=False)
        if self.class_weight is not None and y is None:
            raise ValueError("class_weight counts in the posterior: pass y as well")
        weight = self._weights(sample_weight, X, np.full(X.shape[0], self.classes_[0]) if y is None else np.asarray(y))
        offset = read_offset(offset, X.shape[0], len(self.classes_))
        # A class that cannot happen cannot be a label.
        labels = np.zeros(X.shape[0], dtype=int) if np.ndim(offset) < 2 else np.argmax(offset, axis=1)
        data = Labelled(X, labels, weight, offset, constant=self.fit_intercept, center=self._is_free)
        return Objective(self._model(), data, ridge=self._ridge())

    def summary(
        self: Any,
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
        check_is_fitted(self, "coef_")
        self._check_posterior_size()
        if not np.isinf(self._strength):
            raise ValueError(f"standard errors are those of maximum likelihood: fit with C=np.inf, got C={self.C!r}")
        one_of("kind", kind, KINDS)
        found = self._evidence(self._labelled_objective(X, y, sample_weight, offset), kind, cluster, offset is None)
        notes = [SOURCES[kind], str(self.result_)]
        title = "Logistic regression"
        return summarise(
            title, self._parameter_names(), found.params, found.covariance, found.facts, level=level, notes=notes
        )

    def _labelled_objective(self: Any, X: Any, y: Any, sample_weight: Any, offset: Any) -> Objective:
        X, y = self._validate(X, y, reset=False)
        labels = np.searchsorted(self.classes_, y)
        if not np.array_equal(self.classes_[np.minimum(labels, len(self.classes_) - 1)], y):
            raise ValueError(f"y must hold the classes of the fit, {self.classes_.tolist()!r:.80}; got others")
        weight = self._weights(sample_weight, X, y)
        offset = read_offset(offset, X.shape[0], len(self.classes_))
        data = Labelled(X, labels, weight, offset, constant=self.fit_intercept, center=self._is_free)
        return Objective(self._model(), data, ridge=self._ridge())

    def _evidence(self: Any, objective: Objective, kind: str, cluster: Any, shares: bool) -> Evidence:
        model, data = objective.model.as_rows(), objective.whole
        assert isinstance(data, Labelled)
        centre = model.design(data).centre
        W = self._params_of_fit(centre)
        loss, _, H = objective.hessian(W.ravel())
        # Softmax coefficients may all move together: those against the first class are what can be known.
        first = W.shape[1] if len(W) > 1 else 0
        scores = None if kind == "hessian" else row_scores(model, W.ravel(), data)[:, first:]
        found = covariance(
            H.as_matrix()[first:, first:], scores, kind, None if cluster is None else np.asarray(cluster)
        )
        T = _to_printed(W.shape[1], max(len(W) - 1, 1), centre, intercept=bool(self.fit_intercept))
        params = (W[1:] - W[0] if len(W) > 1 else W).ravel()
        weight = float(len(data) if data.weight is None else data.weight.sum())
        null = (
            _null_loss(data.class_totals(len(self.classes_)))
            if self.fit_intercept and shares
            else objective.value_at_zero()
        )
        return Evidence(T @ params, through(T, found), Facts(-loss, -null, weight, len(params)))

    def _parameter_names(self: Any) -> list[str]:
        features = getattr(self, "feature_names_in_", [f"x{i}" for i in range(self.n_features_in_)])
        names = [*(["(Intercept)"] if self.fit_intercept else []), *map(str, features)]
        if len(self.classes_) == 2:
            return names
        return [f"{label}: {name}" for label in self.classes_[1:] for name in names]


def _to_printed(width: int, classes: int, centre: Array | None, *, intercept: bool) -> Array:
    """Return the matrix that puts intercepts first, and makes them those of columns measured from zero."""
    one = np.eye(width)
    if intercept:
        if centre is not None:
            one[-1, :-1] -= centre
        one = np.roll(one, 1, axis=0)
    return np.kron(np.eye(classes), one)


def _null_loss(totals: Array) -> float:
    """Return the loss of intercepts alone: every class is as likely as it was observed."""
    return float(-xlogy(totals, totals / totals.sum()).sum())

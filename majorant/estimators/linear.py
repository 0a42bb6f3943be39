"""What a fitted linear classifier can do: scores, probabilities, and how sure it is of them."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy import sparse
from scipy.linalg import block_diag
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted, validate_data

from majorant._checks import Array
from majorant.data import Labelled
from majorant.kernels import design
from majorant.objective import Objective
from majorant.solvers.metrics import Metric

# posterior_covariance inverts a d×d Hessian.
LARGEST_POSTERIOR = 5_000


class LinearClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Prediction from ``coef_``, ``intercept_`` and ``classes_``."""

    fit_intercept: bool
    classes_: Array
    coef_: Array
    intercept_: Array
    _objective: Objective  # of the last fit, and its solution
    _solution: Array
    _stream: tuple[Array, Metric, int]  # of partial_fit: parameters, metric, rows of a batch

    def decision_function(self, X: Any, offset: Any = None) -> Array:
        """Return scores: shape (n_samples,) for two classes, (n_samples, n_classes) for more."""
        check_is_fitted(self, "coef_")
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        scores = np.asarray(safe_sparse_dot(X, self.coef_.T, dense_output=True)) + self.intercept_
        scores = scores[:, 0] if len(self.classes_) == 2 else scores
        if offset is None:
            return scores
        offset = np.asarray(offset, dtype=np.float64)
        if offset.shape != scores.shape:
            raise ValueError(f"offset must have shape {scores.shape}, got {offset.shape}")
        return scores + offset

    def predict(self, X: Any, offset: Any = None) -> Array:
        """Return the likeliest class of each row."""
        scores = self.decision_function(X, offset)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]

    def predict_proba(self, X: Any, offset: Any = None, posterior: bool = False) -> Array:
        """Return the probabilities of the classes.

        With ``posterior=True`` they are averaged over the Laplace approximation of the posterior, by MacKay's formula
        p ≈ softmax(score / √(1 + πv/8)) with v the variance of each score (of each less their mean, for more than two
        classes): an approximation of an approximation, which pulls uncertain predictions towards even ones.
        """
        scores = self.decision_function(X, offset)
        if posterior:
            # Softmax scores may all move together without a change: that direction has no say.
            scores = scores - scores.mean(axis=1, keepdims=True) if scores.ndim == 2 else scores
            scores = scores / np.sqrt(1 + np.pi / 8 * self._score_variance(X, scores.shape))
        if scores.ndim == 1:
            return np.column_stack([expit(-scores), expit(scores)])
        return softmax(scores, axis=1)

    def predict_log_proba(self, X: Any, offset: Any = None) -> Array:
        """Return the logarithms of the probabilities."""
        scores = self.decision_function(X, offset)
        if scores.ndim == 1:
            scores = np.column_stack([np.zeros_like(scores), scores])
        return scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)

    def sparsify(self) -> Self:
        """Keep ``coef_`` as a sparse CSR matrix; predictions stay as they are. Few coefficients are zero under ℓ2."""
        check_is_fitted(self, "coef_")
        self.coef_ = sparse.csr_matrix(self.coef_)
        return self

    def densify(self) -> Self:
        """Keep ``coef_`` as an array again, as fits leave it."""
        check_is_fitted(self, "coef_")
        if sparse.issparse(self.coef_):
            self.coef_ = sparse.csr_matrix(self.coef_).toarray()
        return self

    def posterior_covariance(self) -> Array:
        """Return the covariance of (coef_, intercept_), class by class, under the Laplace approximation at the fit.

        That is the inverse Hessian of the penalised loss, taken at the solution of the last ``fit`` or, after
        ``partial_fit``, as the stream has gathered it. Not the sampling covariance of the estimates. Refused above
        5,000 parameters. The estimator keeps a reference to the data of its fit for this; pickles and files do not.
        """
        check_is_fitted(self, "coef_")
        size = self.coef_.size + self.fit_intercept * len(self.coef_)
        if size > LARGEST_POSTERIOR:
            raise ValueError(
                f"a posterior covariance of {size} parameters is too large; the limit is {LARGEST_POSTERIOR}"
            )
        return np.linalg.pinv(self._precision(), hermitian=True)

    def _precision(self) -> Array:
        if hasattr(self, "_stream"):
            return _as_matrix(self._stream[1].precision())
        if not hasattr(self, "_objective"):
            raise ValueError(
                "the posterior needs the data of a fit, which files, pickles and averages of folds lack; fit again"
            )
        H = self._objective.hessian(self._solution)[2]
        return H.as_matrix() + np.diag(self._objective.ridge)

    def _score_variance(self, X: Any, shape: tuple[int, ...]) -> Array:
        covariance = self.posterior_covariance()
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        rows = Labelled(X, np.zeros(X.shape[0], dtype=int), constant=self.fit_intercept).X
        n, p = len(self.coef_), rows.shape[1]
        by_class = covariance.reshape(n, p, n, p)
        if n > 1:
            by_class = by_class - by_class.mean(axis=0, keepdims=True)
            by_class = by_class - by_class.mean(axis=2, keepdims=True)
        blocks = [by_class[c, :, c] for c in range(n)]
        dense = design.dense(rows)
        return np.stack([np.einsum("jp,jp->j", dense @ block, dense) for block in blocks], axis=-1).reshape(shape)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        state.pop("_objective", None)
        return state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _as_matrix(precision: Array) -> Array:
    """Return a precision as a d×d matrix, whatever the stream kept of it."""
    if precision.ndim == 1:
        return np.diag(precision)
    return precision if precision.ndim == 2 else block_diag(*precision)

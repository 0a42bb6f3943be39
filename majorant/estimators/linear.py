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
from majorant.estimators.stream import Stream
from majorant.kernels import design
from majorant.objective import Objective

# posterior_covariance inverts a d×d Hessian.
LARGEST_POSTERIOR = 5_000


class LinearClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Prediction from ``coef_``, ``intercept_`` and ``classes_``."""

    fit_intercept: bool
    classes_: Array
    coef_: Array
    intercept_: Array
    penalize_intercept: bool
    class_weight: Any
    _centre: Array | None = None  # where the columns of the fit were measured from
    _stream: Stream  # of partial_fit
    _covariance: Array  # once it has been asked for

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

    def posterior_covariance(
        self, X: Any = None, y: Any = None, sample_weight: Any = None, offset: Any = None
    ) -> Array:
        """Return the covariance of (coef_, intercept_), class by class, under the Laplace approximation at the fit.

        That is the inverse Hessian of the penalised loss, taken at the solution on the rows given, which should be
        those of the fit; after ``partial_fit`` it is as the stream has gathered it, and takes no rows. Not the sampling
        covariance of the estimates. Refused above 5,000 parameters. It is remembered until the next fit.

        Parameters
        ----------
        X, sample_weight, offset
            The rows of the fit, which models do not keep; needed at the first call.
        y : array of labels, optional
            Needed where there are class weights.
        """
        check_is_fitted(self, "coef_")
        size = self.coef_.size + self.fit_intercept * len(self.coef_)
        if size > LARGEST_POSTERIOR:
            raise ValueError(
                f"a posterior covariance of {size} parameters is too large; the limit is {LARGEST_POSTERIOR}"
            )
        if hasattr(self, "_stream"):
            return self._uncentred(np.linalg.pinv(_as_matrix(self._stream.metric.precision()), hermitian=True))
        if X is not None:
            self._covariance = self._uncentred(
                np.linalg.pinv(self._precision(X, y, sample_weight, offset), hermitian=True)
            )
        if not hasattr(self, "_covariance"):
            raise ValueError("the posterior needs the rows of the fit, which models do not keep: pass X first")
        return self._covariance

    def _precision(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> Array:
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], order="C", reset=False)
        if self.class_weight is not None and y is None:
            raise ValueError("class_weight counts in the posterior: pass y as well")
        weight = self._weights(sample_weight, X, np.full(X.shape[0], self.classes_[0]) if y is None else np.asarray(y))
        data = self._like_the_fit(X, np.zeros(X.shape[0], dtype=int), weight, offset)
        objective = Objective(self._model(), data, ridge=self._ridge())
        H = objective.hessian(self._params_of_fit().ravel())[2]
        return H.as_matrix() + np.diag(objective.ridge)

    def _like_the_fit(self, X: Any, labels: Array, weight: Any = None, offset: Any = None) -> Labelled:
        """Return rows whose columns are measured from where those of the fit were."""
        center = False if self._centre is None else self._centre
        return Labelled(X, labels, weight, offset, constant=self.fit_intercept, center=center)

    def _params_of_fit(self) -> Array:
        """Return coefficients and intercepts as the solver has them: of centred columns, class by class."""
        W = sparse.csr_array(self.coef_).toarray() if sparse.issparse(self.coef_) else self.coef_
        W = W.astype(np.float64)
        if not self.fit_intercept:
            return W
        return np.column_stack([W, self.intercept_ + (0.0 if self._centre is None else W @ self._centre)])

    def _uncentred(self, covariance: Array) -> Array:
        """Return the covariance that belongs to columns measured from zero."""
        if self._centre is None:
            return covariance
        n = len(self.coef_)
        C = covariance.reshape(n, -1, n, len(self._centre) + 1).copy()
        C[:, -1] -= np.einsum("i,ciek->cek", self._centre, C[:, :-1])
        C[:, :, :, -1] -= np.einsum("i,cjei->cje", self._centre, C[:, :, :, :-1])
        return C.reshape(covariance.shape)

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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _as_matrix(precision: Array) -> Array:
    """Return a precision as a d×d matrix, whatever the stream kept of it."""
    if precision.ndim == 1:
        return np.diag(precision)
    return precision if precision.ndim == 2 else block_diag(*precision)

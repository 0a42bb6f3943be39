"""What a fitted linear classifier can do: scores, probabilities, and how sure it is of them.

Learning from distributions over the classes in the place of labels.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self, TypeVar

import numpy as np
from scipy import sparse
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted, validate_data

from majorant.core.checks import Array
from majorant.core.objective import Objective
from majorant.device.estimators import decision, is_on_device, is_tensor, named, probabilities, read_tensor, to_array
from majorant.estimators.base import InNotebooks, Posterior, read_distributions, read_weights, validated
from majorant.estimators.fitting import with_callbacks
from majorant.estimators.saving import all_or_nothing
from majorant.estimators.source import How, accuracy, chunkwise
from majorant.linear.stream import Stream
from majorant.sources.base import Source

# An intercept so large belongs to columns far from zero, whose scores would be lost in single precision.
FAR = 100.0
# posterior_covariance inverts a d×d Hessian.
LARGEST_POSTERIOR = 5_000


class LinearClassifier(InNotebooks, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Prediction from ``coef_``, ``intercept_`` and ``classes_``."""

    fit_intercept: bool
    classes_: Array
    coef_: Array
    intercept_: Array
    penalize_intercept: bool
    class_weight: Any
    _centre: Array | None = None  # where the columns of the fit were measured from
    _stream: Stream  # of partial_fit
    _posterior: Posterior  # once it has been asked for

    @chunkwise
    def decision_function(self, X: Any, offset: Any = None) -> Array:
        """Return the score of each row and class: coefficients times features, plus intercept.

        Parameters
        ----------
        X : array, data frame, sparse matrix, tensor or Source
            Rows with the columns of the fit; a source is read chunk by chunk.
        offset : array, optional
            Added to the scores, as for :meth:`fit`; a source has none.

        Returns
        -------
        array of shape (n_samples,), or (n_samples, n_classes) for more than two classes
            A tensor on the device of X, if X is one.

        Examples
        --------
        >>> import majorant
        >>> X, y = majorant.datasets.load("ecoli")
        >>> model = majorant.LogisticRegression().fit(X, y)
        >>> model.decision_function(X[:2]).shape
        (2, 8)
        >>> model.decision_function(X[:2]).sum(axis=1).round(8) + 0.0  # scores of softmax sum to zero
        array([0., 0.])
        """
        check_is_fitted(self, "coef_")
        wide = bool(np.abs(self.intercept_).max() > FAR)
        if is_on_device(X):
            return decision(self, X, offset, wide=wide)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        if wide:
            X = X.astype(np.float64, copy=False)
        scores = np.asarray(safe_sparse_dot(X, self.coef_.T, dense_output=True)) + self.intercept_
        scores = scores[:, 0] if len(self.classes_) == 2 else scores
        if offset is None:
            return scores
        offset = np.asarray(offset, dtype=np.float64)
        if offset.shape != scores.shape:
            raise ValueError(f"offset must have shape {scores.shape}, got {offset.shape}")
        return scores + offset

    @chunkwise
    def predict(self, X: Any, offset: Any = None) -> Array:
        """Return the likeliest class of each row.

        Parameters
        ----------
        X, offset
            As for :meth:`decision_function`.

        Returns
        -------
        array of shape (n_samples,)
            Labels as ``y`` had them.

        Examples
        --------
        >>> import majorant
        >>> X, y = majorant.datasets.load("ecoli")
        >>> model = majorant.LogisticRegression().fit(X, y)
        >>> model.predict(X[:3])
        array([0, 0, 0])
        """
        scores = self.decision_function(X, offset)
        if is_tensor(scores):
            return named(self.classes_, scores)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]

    @chunkwise
    def predict_proba(self, X: Any, offset: Any = None, posterior: bool = False) -> Array:
        """Return the probabilities of the classes.

        With ``posterior=True`` they are averaged over the Laplace approximation of the posterior, by MacKay's formula
        p ≈ softmax(score / √(1 + πv/8)) with v the variance of each score (of each less their mean, for more than two
        classes): an approximation of an approximation, which pulls uncertain predictions towards even ones.

        Parameters
        ----------
        X, offset
            As for :meth:`decision_function`.
        posterior : bool
            Whether to average; the posterior has to be known, by :meth:`posterior_covariance` or ``partial_fit``.

        Returns
        -------
        array of shape (n_samples, n_classes)
            In the order of ``classes_``.

        Examples
        --------
        >>> import majorant
        >>> X, y = majorant.datasets.load("ecoli")
        >>> model = majorant.LogisticRegression().fit(X, y)
        >>> model.predict_proba(X[:2]).max(axis=1).round(2)
        array([0.89, 0.91])

        Averaged over the posterior:

        >>> covariance = model.posterior_covariance(X)
        >>> model.predict_proba(X[:2], posterior=True).max(axis=1).round(2)
        array([0.89, 0.9 ])
        """
        scores = self.decision_function(X, offset)
        if is_tensor(scores) and posterior:
            raise ValueError("posterior=True is found of arrays: give X as one (X.cpu().numpy())")
        if is_tensor(scores):
            return probabilities(scores, log=False)
        if posterior:
            # Softmax scores may all move together without a change: that direction has no say.
            scores = scores - scores.mean(axis=1, keepdims=True) if scores.ndim == 2 else scores
            scores = scores / np.sqrt(1 + np.pi / 8 * self._score_variance(X, scores.shape))
        if scores.ndim == 1:
            return np.column_stack([expit(-scores), expit(scores)])
        return softmax(scores, axis=1)

    @chunkwise
    def predict_log_proba(self, X: Any, offset: Any = None) -> Array:
        """Return the logarithms of the probabilities.

        Parameters
        ----------
        X, offset
            As for :meth:`decision_function`.

        Returns
        -------
        array of shape (n_samples, n_classes)

        Examples
        --------
        >>> import majorant
        >>> X, y = majorant.datasets.load("ecoli")
        >>> model = majorant.LogisticRegression().fit(X, y)
        >>> model.predict_log_proba(X[:2]).max(axis=1).round(2)
        array([-0.11, -0.1 ])
        """
        scores = self.decision_function(X, offset)
        if is_tensor(scores):
            return probabilities(scores, log=True)
        if scores.ndim == 1:
            scores = np.column_stack([np.zeros_like(scores), scores])
        return scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the share of rows whose label is the likeliest one; a source brings its own labels and weights.

        Parameters
        ----------
        X : as for :meth:`predict`
        y : array of labels, shape (n_samples,)
        sample_weight : array of shape (n_samples,), optional

        Returns
        -------
        float
            Between 0 and 1.

        Examples
        --------
        >>> import majorant
        >>> X, y = majorant.datasets.load("ecoli")
        >>> model = majorant.LogisticRegression().fit(X, y)
        >>> round(model.score(X, y), 2)
        0.83
        """
        if isinstance(X, Source):
            return accuracy(self, X, y=y, sample_weight=sample_weight)
        if is_on_device(X):
            predicted, (y, weight) = to_array(self.predict(X)), map(to_array, (y, sample_weight))
            return float(np.average(predicted == np.asarray(y), weights=weight))
        return float(super().score(X, y, sample_weight))

    def sparsify(self) -> Self:
        """Keep ``coef_`` as a sparse CSR matrix; predictions stay as they are. Few coefficients are zero under ℓ2.

        Returns
        -------
        estimator
            Itself.

        Examples
        --------
        >>> import majorant
        >>> X, y = majorant.datasets.load("ecoli")
        >>> model = majorant.LogisticRegression().fit(X, y)
        >>> model.sparsify().coef_.format
        'csr'
        """
        check_is_fitted(self, "coef_")
        self.coef_ = sparse.csr_matrix(self.coef_)
        return self

    def densify(self) -> Self:
        """Keep ``coef_`` as an array again, as fits leave it.

        Returns
        -------
        estimator
            Itself.

        Examples
        --------
        >>> import majorant
        >>> X, y = majorant.datasets.load("ecoli")
        >>> model = majorant.LogisticRegression().fit(X, y)
        >>> type(model.sparsify().densify().coef_)
        <class 'numpy.ndarray'>
        """
        check_is_fitted(self, "coef_")
        if sparse.issparse(self.coef_):
            self.coef_ = sparse.csr_matrix(self.coef_).toarray()
        return self

    def posterior_covariance(
        self, X: Any = None, y: Any = None, sample_weight: Any = None, offset: Any = None
    ) -> Array:
        """Return the covariance of (``coef_``, ``intercept_``), class by class, by Laplace's approximation at the fit.

        That is the inverse Hessian of the penalised loss, taken at the solution on the rows given, which should be
        those of the fit; after ``partial_fit`` it is as the stream has gathered it, and takes no rows. Not the sampling
        covariance of the estimates. Refused above 5,000 parameters. It is remembered until the next fit.

        Parameters
        ----------
        X, sample_weight, offset
            The rows of the fit, which models do not keep; needed at the first call.
        y : array of labels, optional
            Needed where there are class weights.

        Returns
        -------
        array of shape (d, d)
            d is the number of coefficients and intercepts of all classes; of two classes, of the second alone.

        Examples
        --------
        >>> import majorant
        >>> X, y = majorant.datasets.load("ecoli")
        >>> model = majorant.LogisticRegression().fit(X[:, :-1], y == 0)
        >>> model.posterior_covariance(X[:, :-1]).shape  # seven coefficients, an intercept
        (8, 8)
        """
        if X is not None and not hasattr(self, "_stream"):
            self._check_posterior_size()
            self._posterior = self._find_posterior(X, y, sample_weight, offset)
        return self._known_posterior().uncentred()

    def _known_posterior(self) -> Posterior:
        self._check_posterior_size()
        if hasattr(self, "_stream"):
            stream = self._stream
            classes = self.coef_.shape[0]
            free = stream.ridge.reshape(classes, -1)[0] == 0
            return Posterior.of(stream.memory.precision.compact(), classes, stream.centre, free)
        if not hasattr(self, "_posterior"):
            raise ValueError("the posterior needs the rows of the fit, which models do not keep: pass X first")
        return self._posterior

    def _check_posterior_size(self) -> None:
        check_is_fitted(self, "coef_")
        rows, columns = self.coef_.shape
        size = rows * (columns + bool(self.fit_intercept))
        if size > LARGEST_POSTERIOR:
            raise ValueError(
                f"a posterior covariance of {size} parameters is too large; the limit is {LARGEST_POSTERIOR}"
            )

    @abstractmethod
    def _objective_on(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> Objective:
        """Return what was minimised, on these rows, whose labels do not matter."""

    def _find_posterior(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> Posterior:
        objective = self._objective_on(X, y, sample_weight, offset)
        centre = objective.model.as_rows().design(objective.like).centre
        H = objective.hessian(self._params_of_fit(centre).ravel())[2]
        return Posterior.of(H.as_matrix() + np.diag(objective.ridge), self.coef_.shape[0], centre)

    def _params_of_fit(self, centre: Array | None) -> Array:
        """Return coefficients and intercepts class by class, of columns measured from a centre."""
        W = sparse.csr_array(self.coef_).toarray() if sparse.issparse(self.coef_) else self.coef_
        return joined_params(W.astype(np.float64), self.intercept_ if self.fit_intercept else None, centre)

    def _score_variance(self, X: Any, shape: tuple[int, ...]) -> Array:
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return self._known_posterior().score_variances(X, constant=self.fit_intercept).reshape(shape)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def joined_params(W: Array, intercept: Array | None, centre: Array | None) -> Array:
    """Return coefficients and intercepts, if there are any, row by row, of columns measured from a centre."""
    if intercept is None:
        return W
    return np.column_stack([W, intercept + (0.0 if centre is None else W @ centre)])


def split_params(W: Array, dtype: Any, *, constant: bool, centre: Array | None) -> dict[str, Array]:
    """Return coefficients and intercepts. These stay in double precision: columns far from zero need them so."""
    # Where all scores move together is up to the solver, unless a penalty says so: scikit-learn's sum to zero.
    W = W - W.mean(axis=0) if len(W) > 1 else W
    if not constant:
        return {"coef_": W.astype(dtype), "intercept_": np.zeros(len(W))}
    coef, intercept = W[:, :-1].astype(dtype), W[:, -1].copy()
    if centre is not None:
        intercept -= coef.astype(np.float64) @ centre
    return {"coef_": coef, "intercept_": intercept}


Classifier = TypeVar("Classifier", bound=Any)


class SoftLabels:
    """``fit_soft``, for a linear classifier that says how it fits rows and labels."""

    @with_callbacks
    def fit_soft(
        self: Classifier,
        X: Any,
        P: Any,
        sample_weight: Any = None,
        offset: Any = None,
        classes: Any = None,
        resume_from: Any = None,
    ) -> Classifier:
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
            return self._fit(X, P, read_weights(sample_weight, X), offset, How(None, resume_from))

"""The base class of linear classifiers: scores, probabilities, Laplace's posterior and files."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import wraps
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from scipy import sparse
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted, validate_data

from majorant.core.checks import Array
from majorant.core.objective import Objective
from majorant.device.estimators import decision, is_on_device, is_tensor, named, probabilities, to_array
from majorant.estimators.base import Estimator, StepCount, read_feature_penalty
from majorant.estimators.fitting import as_told_apart
from majorant.estimators.saving import Field, Notes, Written, linear_fields
from majorant.linear.inference import Posterior
from majorant.linear.stream import Stream
from majorant.sources.base import Source

# posterior_covariance inverts a d×d Hessian.
LARGEST_POSTERIOR = 5_000

Method = TypeVar("Method", bound=Callable[..., Array])


def chunkwise(method: Method) -> Method:
    """Let a method of rows take a source as well: what it returns for each chunk is put together."""

    @wraps(method)
    def of_rows_or_source(self: Any, X: Any, *args: Any, **kwargs: Any) -> Array:
        if not isinstance(X, Source):
            return method(self, X, *args, **kwargs)
        from majorant.estimators.source import fitting_chunks

        if kwargs.get("offset") is not None or (args and args[0] is not None):
            raise ValueError("offset must be left out: a source has none")
        parts = [method(self, chunk.X, *args, **kwargs) for chunk in fitting_chunks(self, X)]
        if not parts:
            raise ValueError("there are no rows to predict: every piece of the source is empty")
        return np.concatenate(parts)

    return of_rows_or_source  # type: ignore[return-value]


class LinearClassifier(ClassifierMixin, Estimator):  # type: ignore[misc]
    """Prediction from ``coef_``, ``intercept_`` and ``classes_``."""

    fit_intercept: bool
    classes_: Array
    coef_: Array
    intercept_: Array
    coef_error_: Array
    intercept_error_: Array
    n_features_in_: int
    n_iter_ = StepCount()
    _centre: Array | None = None  # where the columns of the fit were measured from
    _stream: Stream  # of partial_fit
    _posterior: Posterior  # once it has been asked for
    _fields: ClassVar[dict[str, Field]] = linear_fields()

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
        # Large intercepts belong to columns far from zero, whose scores would be lost in single precision.
        wide = bool(np.abs(self.intercept_).max() > 100.0)
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
            rows = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
            variances = self._known_posterior().score_variances(rows, constant=self.fit_intercept)
            scores = scores / np.sqrt(1 + np.pi / 8 * variances.reshape(scores.shape))
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
            from majorant.estimators.source import accuracy, refuse_beside

            refuse_beside(y=y, sample_weight=sample_weight)
            return accuracy(self, X)
        if is_on_device(X):
            predicted, (y, weight) = to_array(self.predict(X)), map(to_array, (y, sample_weight))
            return float(np.average(predicted == np.asarray(y), weights=weight))
        return float(super().score(X, y, sample_weight))

    @property
    def n_nonzero_(self) -> int:
        """How many coefficients are not zero, intercepts apart."""
        check_is_fitted(self, "coef_")
        return int(np.count_nonzero(self.coef_.data if sparse.issparse(self.coef_) else self.coef_))

    def sparsify(self) -> Self:
        """Keep ``coef_`` as a sparse CSR matrix; predictions stay as they are. Under ℓ1 most coefficients are zero.

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

    def to_sklearn(self) -> Any:
        """Return scikit-learn's ``LogisticRegression`` with the same coefficients, for what knows that class alone.

        That is what converters to ONNX and PMML and most servers of models read. It predicts the same; offsets,
        certificates and posteriors stay here.

        Returns
        -------
        sklearn.linear_model.LogisticRegression
            Fitted, with copies of the coefficients.

        Examples
        --------
        >>> import majorant
        >>> X, y = majorant.datasets.load("ecoli")
        >>> model = majorant.LogisticRegression().fit(X, y)
        >>> theirs = model.to_sklearn()
        >>> type(theirs).__module__.split(".")[0], bool((theirs.predict(X) == model.predict(X)).all())
        ('sklearn', True)
        """
        from sklearn.linear_model import LogisticRegression

        check_is_fitted(self, "coef_")
        C, class_weight = getattr(self, "C", getattr(self, "C_", 1.0)), getattr(self, "class_weight", None)
        theirs = LogisticRegression(
            C=float(np.ravel(C)[0]), fit_intercept=bool(self.fit_intercept), class_weight=class_weight
        )
        theirs.classes_, theirs.n_features_in_ = self.classes_.copy(), self.n_features_in_
        theirs.coef_, theirs.intercept_ = self.coef_.copy(), self.intercept_.copy()
        theirs.n_iter_ = np.ravel(self.n_iter_)[-1:].astype(np.int32)
        if hasattr(self, "feature_names_in_"):
            theirs.feature_names_in_ = self.feature_names_in_.copy()
        return theirs

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
            objective = self._objective_on(X, y, sample_weight, offset)
            centre = objective.model.as_rows().design(objective.like).centre
            H = objective.hessian(self._params_of_fit(centre).ravel())[2].as_matrix()
            self._posterior = Posterior.of(H + np.diag(objective.ridge), self.coef_.shape[0], centre)
        return self._known_posterior().uncentred()

    def _known_posterior(self) -> Posterior:
        self._check_posterior_size()
        if hasattr(self, "_stream"):
            stream, classes = self._stream, self.coef_.shape[0]
            free = stream.ridge.reshape(classes, -1)[0] == 0
            return Posterior.of(stream.memory.precision.compact(), classes, stream.centre, free)
        if not hasattr(self, "_posterior"):
            raise ValueError("call posterior_covariance(X) with the training rows first: models do not keep them")
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

    def _params_of_fit(self, centre: Array | None) -> Array:
        """Return coefficients and intercepts class by class, of columns measured from a centre."""
        W = sparse.csr_array(self.coef_).toarray() if sparse.issparse(self.coef_) else self.coef_
        return joined_params(W.astype(np.float64), self.intercept_ if self.fit_intercept else None, centre)

    # --- files --------------------------------------------------------------------------------------------

    def _checked(self, notes: Notes) -> Written:
        try:
            read_feature_penalty(getattr(self, "feature_penalty", None), self.n_features_in_)
        except ValueError as problem:
            raise ValueError(f"this {type(self).__name__} cannot be saved: {problem}") from None
        return super()._checked(notes)

    def _restore(self, path: Any, facts: dict[str, Any], arrays: dict[str, Array]) -> None:
        self.n_features_in_ = arrays["coef"].shape[1]
        read_feature_penalty(getattr(self, "feature_penalty", None), self.n_features_in_)
        if "feature_names" in arrays:
            arrays = arrays | {"feature_names": arrays["feature_names"].astype(object)}
        super()._restore(path, facts, arrays)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def joined_params(W: Array, intercept: Array | None, centre: Array | None) -> Array:
    """Return coefficients and intercepts, if there are any, row by row, of columns measured from a centre."""
    if intercept is None:
        return W
    return np.column_stack([W, intercept + (0.0 if centre is None else W @ centre)])


def split_params(
    W: Array, dtype: Any, *, constant: bool, centre: Array | None, has_l1: bool = False
) -> dict[str, Array]:
    """Return coefficients and intercepts. These stay in double precision: columns far from zero need them so."""
    # Where all scores move together is up to the solver, unless a penalty says so: scikit-learn's sum to zero.
    W = as_told_apart(W, has_l1=has_l1)
    if not constant:
        return {"coef_": W.astype(dtype), "intercept_": np.zeros(len(W))}
    coef, intercept = W[:, :-1].astype(dtype), W[:, -1].copy()
    if centre is not None:
        intercept -= coef.astype(np.float64) @ centre
    return {"coef_": coef, "intercept_": intercept}

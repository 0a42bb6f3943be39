"""What a fitted classifier with hidden states can do: scores, probabilities, and which state a row is in."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted, validate_data

from majorant._checks import Array
from majorant.estimators.latent_settings import read_class_offset
from majorant.estimators.notebook import InNotebooks
from majorant.kernels.softmax import log_partition, log_partition_and_probabilities


class LatentClassifier(InNotebooks, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Prediction from ``coef_``, ``intercept_``, ``classes_`` and ``states_``.

    An ``offset`` is added to the scores of all states of a class: shape (n_samples,) for two classes, else (n_samples,
    n_classes).

    Examples
    --------
    >>> import numpy as np
    >>> import majorant
    >>> X = np.array([[-3.0], [-2.0], [0.0], [0.1], [2.0], [3.0]])
    >>> y = np.array(["far", "far", "near", "near", "far", "far"])
    >>> model = majorant.LatentLogisticRegression({"far": 2}, C=10.0).fit(X, y)
    >>> model.predict([[-2.5], [0.0], [2.5]])
    array(['far', 'near', 'far'], dtype='<U4')
    >>> model.decision_function([[-2.5], [0.0], [2.5]]) > 0
    array([False,  True, False])
    >>> p = model.predict_proba([[-2.5], [0.0], [2.5]])
    >>> p.round(1)
    array([[1. , 0. ],
           [0.1, 0.9],
           [1. , 0. ]])
    >>> bool(np.allclose(np.exp(model.predict_log_proba([[-2.5], [0.0], [2.5]])), p))
    True

    "far" has two states, on either side, and "near" has one:

    >>> states = model.predict_latent(X)
    >>> bool(states[0] == states[1]), bool(states[0] == states[-1])
    (True, False)
    >>> model.predict_joint_proba(X).shape
    (6, 3)
    """

    classes_: Array
    coef_: Array
    intercept_: Array
    states_: Array  # how many each class has

    def decision_function(self, X: Any, offset: Any = None) -> Array:
        """Return log p(y|x) less its mean over classes, (n_samples, n_classes); of two classes, log p(1|x)/p(0|x).

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n_samples, n_features)
        offset : array, optional
            As for ``fit``.

        Returns
        -------
        array of shape (n_samples,) for two classes, (n_samples, n_classes) for more
        """
        scores = self._class_scores(X, offset)
        return (scores[1] - scores[0]) if len(scores) == 2 else (scores - scores.mean(axis=0)).T.copy()

    def predict(self, X: Any, offset: Any = None) -> Array:
        """Return the likeliest class of each row, its states taken together.

        Parameters
        ----------
        X, offset
            As for :meth:`decision_function`.

        Returns
        -------
        array of shape (n_samples,)
            Labels as ``y`` had them.
        """
        likeliest = self._class_scores(X, offset).argmax(axis=0)
        return self.classes_[likeliest]

    def predict_proba(self, X: Any, offset: Any = None) -> Array:
        """Return p(y|x) = Σ_m p(y, m|x).

        Parameters
        ----------
        X, offset
            As for :meth:`decision_function`.

        Returns
        -------
        array of shape (n_samples, n_classes)
            In the order of ``classes_``.
        """
        return log_partition_and_probabilities(self._class_scores(X, offset))[1].T.copy()

    def predict_log_proba(self, X: Any, offset: Any = None) -> Array:
        """Return the logarithms of the probabilities.

        Parameters
        ----------
        X, offset
            As for :meth:`decision_function`.

        Returns
        -------
        array of shape (n_samples, n_classes)
        """
        scores = self._class_scores(X, offset)
        return (scores - log_partition(scores)).T.copy()

    def predict_joint_proba(self, X: Any, offset: Any = None) -> Array:
        """Return p(y, m|x) for every class y and each of its states m.

        Parameters
        ----------
        X, offset
            As for :meth:`decision_function`.

        Returns
        -------
        array of shape (n_samples, states of all classes)
            The states of a class side by side.
        """
        return log_partition_and_probabilities(self._state_scores(X, offset))[1].T.copy()

    def predict_latent(self, X: Any, y: Any = None, offset: Any = None) -> Array:
        """Return which state of its class each row is likeliest in: 0 for the one most rows of the class are in.

        Parameters
        ----------
        X : array, data frame or sparse matrix
        y : array of labels, optional
            The class of each row; if not given, the one that is predicted.
        offset : array, optional
            As in the fit.

        Returns
        -------
        array of shape (n_samples,)
            Numbers of states, counted within each class.
        """
        scores = self._state_scores(X, offset)
        labels = self._class_scores(X, offset).argmax(axis=0) if y is None else self._numbers(y, scores.shape[1])
        others = self._owner[:, None] != labels
        return np.where(others, -np.inf, scores).argmax(axis=0) - self._first[labels]

    @property
    def _first(self) -> Array:
        """The first state of each class, and one beyond the last."""
        return np.concatenate([[0], np.cumsum(self.states_)])

    @property
    def _owner(self) -> Array:
        """The class of each state, by its number."""
        return np.repeat(np.arange(len(self.classes_)), self.states_)

    def _state_scores(self, X: Any, offset: Any) -> Array:
        """Return scores class-major, (states, n_samples)."""
        check_is_fitted(self, "coef_")
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        scores = np.asarray(safe_sparse_dot(X.astype(np.float64, copy=False), self.coef_.T, dense_output=True))
        scores = (scores + self.intercept_).T
        # One row of coefficients is a score against zero.
        scores = np.concatenate([np.zeros_like(scores), scores]) if len(scores) == 1 else scores
        more = read_class_offset(offset, scores.shape[1], len(self.classes_))
        return scores if more is None else scores + more.T[self._owner]

    def _class_scores(self, X: Any, offset: Any) -> Array:
        """Return the log-sum of the scores of each class, (classes, n_samples)."""
        scores, first = self._state_scores(X, offset), self._first
        return np.stack([log_partition(scores[a:b]) for a, b in pairwise(first)])

    def _numbers(self, y: Any, rows: int) -> Array:
        labels = np.asarray(y)
        if labels.shape != (rows,):
            raise ValueError(f"y must have one label per row of X ({rows}), got an array of shape {labels.shape}")
        unknown = np.setdiff1d(labels, self.classes_)
        if len(unknown):
            raise ValueError(f"y holds classes that were not fitted: {unknown.tolist()}")
        return np.searchsorted(self.classes_, labels)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.non_deterministic = False
        return tags

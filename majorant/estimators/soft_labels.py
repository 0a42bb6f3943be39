"""Learning from distributions over the classes in the place of labels."""

from __future__ import annotations

from typing import Any, TypeVar

from majorant.estimators.atomic import all_or_nothing
from majorant.estimators.placing import How
from majorant.estimators.settings import read_distributions, read_weights, validated
from majorant.estimators.sklearn_callbacks import with_callbacks
from majorant.estimators.tensors import is_on_device, read_tensor, to_array

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

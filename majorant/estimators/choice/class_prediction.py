"""What fitted latent classes foretell: choices, and who belongs to which class."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from majorant._checks import Array
from majorant.estimators.choice.panel import People, read_covariates, read_people
from majorant.estimators.choice.sets import Situations, flagged_largest
from majorant.models.latent_classes import LatentClasses, Panel, Parameters

# Probabilities of the classes have to sum to one so nearly.
SUMS_TO_ONE = 1e-6


class LatentPrediction:
    """``predict``, ``predict_proba``, ``class_proba``, ``predict_membership`` and ``score``, for latent classes."""

    def class_proba(self: Any, X: Any, groups: Any, *, offset: Any = None) -> Array:
        """Return the probability of each row within its group in each class.

        Parameters
        ----------
        X, groups, offset
            As for :meth:`fit`.

        Returns
        -------
        array of shape (n_rows, ``n_classes_``)
        """
        check_is_fitted(self, "coef_")
        table = Situations.read(self, X, groups, reset=False)
        sets = table.unobserved(offset)
        scores = sets.design.times(self.coef_.T) + (0.0 if sets.log_measure is None else sets.log_measure[:, None])
        top = np.repeat(np.maximum.reduceat(scores, table.starts), table.sizes, axis=0)
        e = np.exp(scores - top)
        return table.as_given(e / np.repeat(np.add.reduceat(e, table.starts), table.sizes, axis=0))

    def predict_proba(
        self: Any, X: Any, groups: Any = None, *, membership: Any = None, weights: Any = None, offset: Any = None
    ) -> Array:
        """Return the probability of each row within its group, averaged over classes.

        Parameters
        ----------
        X, groups, offset
            As for :class:`~majorant.ConditionalLogit`.
        membership : array, optional
            What is known of the people, as in the fit.
        weights : array of shape (n_rows, ``n_classes_``), optional
            Probabilities of the classes for the person of each row, such as posteriors; instead of those that the
            membership model gives.

        Returns
        -------
        array of shape (n_rows,)
        """
        of_classes = self.class_proba(X, groups, offset=offset)
        table = Situations.read(self, X, groups, reset=False)
        if weights is None:
            Z, _ = read_covariates(membership, len(of_classes), self._covariates)
            table.of_groups("membership", Z)
            weights = _softmax(np.column_stack([np.ones(len(Z)), Z]) @ self._parameters().membership.T)
        else:
            weights = _read_distributions(weights, of_classes.shape)
            table.of_groups("weights", weights)
        return (of_classes * weights).sum(axis=1)

    def predict(self: Any, X: Any, groups: Any = None, *, membership: Any = None, offset: Any = None) -> Array:
        """Return which row of each group is likeliest.

        Parameters
        ----------
        X, groups, membership, offset
            As for :meth:`fit`.

        Returns
        -------
        array of shape (n_rows,)
            1 for the likeliest row of each group, 0 for the others.
        """
        p = self.predict_proba(X, groups, membership=membership, offset=offset)
        table = Situations.read(self, X, groups, reset=False)
        return table.as_given(flagged_largest(table.sorted(p), table.starts, table.sizes))

    def predict_membership(
        self: Any, X: Any, y: Any, groups: Any, persons: Any = None, *, membership: Any = None, offset: Any = None
    ) -> tuple[Array, Array]:
        """Return how likely each person is of each class, given what was chosen.

        Parameters
        ----------
        X, y, groups, persons, membership, offset
            As for :meth:`fit`.

        Returns
        -------
        persons : array of shape (n_persons,)
        posterior : array of shape (n_persons, ``n_classes_``)
        """
        people = self._read(X, y, groups, persons, membership, offset, None)
        return people.names, self._on(people.panel).posteriors

    def score(
        self: Any,
        X: Any,
        y: Any,
        groups: Any = None,
        persons: Any = None,
        *,
        membership: Any = None,
        offset: Any = None,
        sample_weight: Any = None,
    ) -> float:
        """Return the mean log-likelihood of a person.

        Parameters
        ----------
        X, y, groups, persons, membership, offset, sample_weight
            As for :meth:`fit`.

        Returns
        -------
        float
            At most 0.
        """
        people = self._read(X, y, groups, persons, membership, offset, sample_weight)
        return float(np.average(self._on(people.panel).log_likelihoods, weights=people.panel.weight))

    def _read(
        self: Any, X: Any, y: Any, groups: Any, persons: Any, membership: Any, offset: Any, weight: Any
    ) -> People:
        check_is_fitted(self, "coef_")
        table = Situations.read(self, X, groups, reset=False)
        return read_people(table, y, persons, membership, offset, weight, self._covariates)

    def _parameters(self: Any) -> Parameters:
        zeros = np.zeros((1, 1 + len(self._covariates)))
        return Parameters(self.coef_, np.vstack([zeros, self.membership_]))

    def _on(self: Any, panel: Panel) -> LatentClasses:
        return LatentClasses(panel, self._parameters())


def _softmax(logits: Array) -> Array:
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def _read_distributions(weights: Any, shape: tuple[int, ...]) -> Array:
    each = np.asarray(weights, dtype=np.float64)
    if each.shape != shape:
        raise ValueError(f"weights must have shape {shape}, got {each.shape}")
    wrong = ~((each >= 0).all(axis=1) & (np.abs(each.sum(axis=1) - 1.0) <= SUMS_TO_ONE))
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(f"weights must be probabilities of the classes, got {each[row].tolist()} at row {row}")
    return each

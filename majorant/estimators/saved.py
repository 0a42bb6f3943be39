"""Estimators as files: what all of them share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from sklearn.utils.validation import check_is_fitted

from majorant._checks import Array
from majorant.estimators import storage
from majorant.estimators.archive import Field, check_arrays
from majorant.estimators.settings import read_feature_penalty

Notes = dict[str, Any] | None
Written = tuple[dict[str, Any], dict[str, Array]]  # what JSON holds, and arrays


class Saved:
    """``save`` and ``load``, for an estimator that says what it writes (``_written``) and takes up what was read."""

    _learnt: ClassVar[str] = "coef_"  # what a fitted one has
    _fields: ClassVar[Mapping[str, Field]]  # what its arrays are

    def save(self, path: Any, notes: Notes = None) -> None:
        """Write the fitted model to a file that holds data only, and none of the rows.

        What a chain has gathered by ``partial_fit``, and standard errors of choice models, are in it. Left out are
        callbacks, and settings that are objects: a random state, a splitter, a scorer.

        Parameters
        ----------
        path : str or Path
        notes : dict, optional
            Anything that JSON can hold; it travels with the model and comes back as ``notes_``.

        Examples
        --------
        >>> import tempfile
        >>> import majorant
        >>> X, y = majorant.datasets.load("ecoli")
        >>> path = tempfile.mkdtemp() + "/model.npz"
        >>> majorant.LogisticRegression().fit(X, y).save(path, notes={"trained": "in November"})
        >>> majorant.LogisticRegression.load(path).notes_
        {'trained': 'in November'}
        """
        check_is_fitted(self, self._learnt)
        self._save(path, notes, {})

    @classmethod
    def load(cls, path: Any) -> Self:
        """Return the model that :meth:`save` wrote, or :class:`~majorant.Checkpoint`.

        All of the file is checked: one that is damaged, or that was made by hand, is a ValueError that says what is
        wrong with it.

        Parameters
        ----------
        path : str or Path

        Returns
        -------
        estimator
            Fitted, with its ``notes_``.

        Examples
        --------
        >>> import tempfile
        >>> import majorant
        >>> X, y = majorant.datasets.load("ecoli")
        >>> model, path = majorant.LogisticRegression().fit(X, y), tempfile.mkdtemp() + "/model.npz"
        >>> model.save(path)
        >>> bool((majorant.LogisticRegression.load(path).predict(X) == model.predict(X)).all())
        True
        """
        with storage.naming(path):
            facts, arrays = storage.read(path, cls.__name__, cls._fields)
            model: Self = storage.built(cls, facts)
            model._restore(path, facts, arrays)
        return model

    def _save(self, path: Any, notes: Notes, parts: Mapping[str, Any]) -> None:
        """Write a model that can be read again."""
        facts, arrays = self._written(notes)
        check_savable(self, self._fields, arrays)
        storage.write(path, type(self).__name__, facts, arrays, parts)

    def _write(self, path: Any, notes: Notes, parts: Mapping[str, Any]) -> None:
        storage.write(path, type(self).__name__, *self._written(notes), parts)

    def _written(self, notes: Notes) -> Written:
        raise NotImplementedError

    def _restore(self, path: Any, facts: dict[str, Any], arrays: dict[str, Array]) -> None:
        raise NotImplementedError


def check_savable(model: Any, fields: Mapping[str, Field], arrays: Mapping[str, Array]) -> None:
    """Raise if a file of a model could not be read again: its numbers or settings have been changed since the fit."""
    try:
        storage.check_settings_of(model)
        read_feature_penalty(getattr(model, "feature_penalty", None), getattr(model, "n_features_in_", 0))
        check_arrays(fields, arrays)
    except ValueError as problem:
        raise ValueError(f"this {type(model).__name__} cannot be saved: {problem}") from None

"""Classifiers with hidden states as files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from majorant.estimators import storage

MORE = ("restarts", "state_shares")


class LatentClassifierFiles:
    """``save`` and ``load``, for classifiers with hidden states."""

    def save(self, path: Any, notes: dict[str, Any] | None = None) -> None:
        """Write the fitted model to a file that holds data only.

        Callbacks and a random state that is not a number are left out.

        Parameters
        ----------
        path : str or Path
        notes : dict, optional
            Anything that JSON can hold; it comes back as ``notes_``.
        """
        self._write(path, notes, {})

    def _write(self: Any, path: Any, notes: dict[str, Any] | None, parts: Mapping[str, Any]) -> None:
        arrays = storage.arrays_of(self) | {"states": self.states_}
        arrays |= {name: getattr(self, f"{name}_") for name in MORE if hasattr(self, f"{name}_")}
        storage.write(path, type(self).__name__, storage.facts_of(self, notes), arrays, parts)

    @classmethod
    def load(cls, path: Any) -> Self:
        """Return the model that :meth:`save` wrote.

        Parameters
        ----------
        path : str or Path

        Returns
        -------
        estimator
            Fitted, with its ``notes_``.
        """
        facts, arrays = storage.read(path, cls.__name__)
        model: Any = cls(**storage.settings_from(facts))
        storage.restore(model, facts, arrays)
        model.states_ = arrays["states"]
        for name in MORE:
            if name in arrays:
                setattr(model, f"{name}_", arrays[name])
        return model

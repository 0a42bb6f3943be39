"""Classifiers with hidden states as files."""

from __future__ import annotations

from typing import Any

from majorant._checks import Array
from majorant.estimators import storage
from majorant.estimators.saved import Notes, Saved, Written

MORE = ("restarts", "state_shares")


class LatentClassifierFiles(Saved):
    """``save`` and ``load``, for classifiers with hidden states."""

    def _written(self: Any, notes: Notes) -> Written:
        arrays = storage.arrays_of(self) | {"states": self.states_}
        arrays |= {name: getattr(self, f"{name}_") for name in MORE if hasattr(self, f"{name}_")}
        return storage.facts_of(self, notes), arrays

    def _restore(self: Any, path: Any, facts: dict[str, Any], arrays: dict[str, Array]) -> None:
        storage.restore(self, facts, arrays)
        self.states_ = arrays["states"]
        for name in MORE:
            if name in arrays:
                setattr(self, f"{name}_", arrays[name])

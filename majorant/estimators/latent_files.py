"""Classifiers with hidden states as files."""

from __future__ import annotations

from typing import Any

import numpy as np

from majorant._checks import Array
from majorant.estimators import storage
from majorant.estimators.archive import Field, are_any, are_positive
from majorant.estimators.saved import Notes, Saved, Written

MORE = ("restarts", "state_shares")
FIELDS = {
    **storage.linear_fields("rows"),
    "states": Field("iu", ("classes",), are_positive),
    "restarts": Field("f", ("restarts",), are_any, needed=False),
    "state_shares": Field("f", ("states",), needed=False),
}


class LatentClassifierFiles(Saved):
    """``save`` and ``load``, for classifiers with hidden states."""

    _fields = FIELDS

    def _written(self: Any, notes: Notes) -> Written:
        arrays = storage.arrays_of(self) | {"states": self.states_}
        arrays |= {name: getattr(self, f"{name}_") for name in MORE if hasattr(self, f"{name}_")}
        return storage.facts_of(self, notes), arrays

    def _restore(self: Any, path: Any, facts: dict[str, Any], arrays: dict[str, Array]) -> None:
        rows, states, shares = len(arrays["coef"]), arrays["states"].astype(np.int64), arrays.get("state_shares")
        total = int(states.sum()) if states.max(initial=0) <= max(rows, 2) else 0  # larger ones might overflow
        if len(states) < 2 or rows != (1 if total == 2 else total) or (shares is not None and len(shares) != total):
            raise ValueError(f"the array 'states' does not go with {rows} rows of coefficients")
        storage.restore(self, facts, arrays)
        self.states_ = states
        for name in MORE:
            if name in arrays:
                setattr(self, f"{name}_", arrays[name])

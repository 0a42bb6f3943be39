"""``n_iter_`` as scikit-learn has it."""

from __future__ import annotations

from typing import Any

import numpy as np

from majorant._checks import Array


class StepCount:
    """An attribute that is an int32 array of one number, whatever kind of number is assigned to it.

    Several places count steps (fits, streams, callbacks that save a model on its way), and none of them need know.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, estimator: Any, owner: type | None = None) -> Array:
        if estimator is None or self._name not in vars(estimator):
            raise AttributeError(f"{owner.__name__ if owner else 'the estimator'} has no {self._name} before a fit")
        return vars(estimator)[self._name]

    def __set__(self, estimator: Any, steps: Any) -> None:
        vars(estimator)[self._name] = np.asarray(steps, dtype=np.int32).reshape(1)

    def __delete__(self, estimator: Any) -> None:
        del vars(estimator)[self._name]

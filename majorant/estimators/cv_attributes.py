"""What a cross-validation has found, and the shapes in which scikit-learn shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from majorant._checks import Array


@dataclass(frozen=True)
class Folds:
    """Coefficients (folds, Cs, rows, columns), scores (folds, Cs) and steps (folds, Cs).

    All of scikit-learn's ℓ1 ratios are zeros here, so each of them has found the same.
    """

    paths: Array
    scores: Array
    steps: Array
    l1_ratios: Any

    @property
    def best(self) -> int:
        """The C with the best mean score."""
        return int(np.argmax(self.scores.mean(axis=0)))

    @property
    def best_of_each(self) -> Array:
        """The best C of each fold."""
        return np.argmax(self.scores, axis=1)

    @property
    def mean_of_best(self) -> Array:
        """The mean of the coefficients of the best C of each fold."""
        return self.paths[np.arange(len(self.paths)), self.best_of_each].mean(axis=0)

    def attributes(self, classes: Array, C: float, *, legacy: bool) -> dict[str, Any]:
        """Return the attributes of scikit-learn's ``LogisticRegressionCV``."""
        ratios = [None] if self.l1_ratios is None else self.l1_ratios
        shown = self._by_class(classes, C) if legacy else self._whole(C, len(ratios))
        return {**shown, "l1_ratios_": np.asarray(ratios)}

    def _whole(self, C: float, ratios: int) -> dict[str, Any]:
        return {
            "C_": C,
            "l1_ratio_": 0.0,
            "coefs_paths_": np.repeat(self.paths[:, None], ratios, axis=1),
            "scores_": np.repeat(self.scores[:, None], ratios, axis=1),
            "n_iter_": np.repeat(self.steps[:, None], ratios, axis=1),
        }

    def _by_class(self, classes: Array, C: float) -> dict[str, Any]:
        keys = classes[1:] if len(classes) == 2 else classes
        ratio = None if self.l1_ratios is None else 0.0
        return {
            "C_": np.full(len(keys), C),
            "l1_ratio_": np.full(len(keys), ratio),
            "coefs_paths_": {key: self._by_ratio(self.paths[:, :, k]) for k, key in enumerate(keys)},
            "scores_": dict.fromkeys(keys, self._by_ratio(self.scores)),
            "n_iter_": self._by_ratio(self.steps)[None],
        }

    def _by_ratio(self, values: Array) -> Array:
        """Return values with an axis for the ℓ1 ratios, if any were named."""
        return values if self.l1_ratios is None else np.repeat(values[:, :, None], len(self.l1_ratios), axis=2)

    @classmethod
    def of(cls, model: Any) -> Self:
        """Read them from the attributes of a model."""
        if not isinstance(model.scores_, dict):
            return cls(model.coefs_paths_[:, 0], model.scores_[:, 0], model.n_iter_[:, 0], model.l1_ratios)
        paths = np.stack(list(model.coefs_paths_.values()), axis=2)
        scores, steps = next(iter(model.scores_.values())), model.n_iter_[0]
        if model.l1_ratios is not None:
            paths, scores, steps = paths[..., 0, :], scores[..., 0], steps[..., 0]
        return cls(paths, scores, steps, model.l1_ratios)

    def arrays(self) -> dict[str, Array]:
        """Return what a file holds of them."""
        return {"paths": self.paths, "scores": self.scores, "steps": self.steps}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Array], l1_ratios: Any) -> Self:
        """Read them from a file."""
        return cls(arrays["paths"], arrays["scores"], arrays["steps"], l1_ratios)

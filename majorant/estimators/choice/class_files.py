"""Latent class models as files."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from majorant._checks import Array
from majorant.estimators import storage
from majorant.estimators.saved import Notes, Saved, Written
from majorant.inference.summary import Facts

ARRAYS = ("coef_", "membership_", "shares_", "start_log_likelihoods_", "memberships_")


class LatentFiles(Saved):
    """``save`` and ``load``, for latent classes."""

    def _written(self: Any, notes: Notes) -> Written:
        arrays = {name.rstrip("_"): getattr(self, name) for name in ARRAYS}
        arrays |= {"hessian": self._hessian, "people": storage.plain(self.people_)}
        if self._basis is not None:
            arrays["basis"] = self._basis
        arrays |= storage.packed([*self._features, *self._covariates])
        if self._state is not None or self._robust is not None:
            arrays["robust"] = self.covariance("robust")
        facts = storage.facts_of(self, notes) | {"facts": asdict(self._facts), "features": len(self._features)}
        facts["named_columns"] = hasattr(self, "feature_names_in_")
        return facts, arrays

    def _restore(self: Any, path: Any, facts: dict[str, Any], arrays: dict[str, Array]) -> None:
        for name in ARRAYS:
            setattr(self, name, arrays[name.rstrip("_")])
        names, count = storage.unpacked(arrays), facts["features"]
        self._features, self._covariates = names[:count], names[count:]
        self.people_, self._hessian, self._robust = arrays["people"], arrays["hessian"], arrays.get("robust")
        self._basis = arrays.get("basis")
        self._facts = Facts(**facts["facts"])
        self.log_likelihood_ = self._facts.log_likelihood
        self.null_log_likelihood_ = self._facts.null_log_likelihood
        self.aic_, self.bic_ = self._facts.aic, self._facts.bic
        self.n_classes_, self.n_features_in_ = len(self.coef_), count
        self.param_names_ = self._names()
        if facts["named_columns"]:
            self.feature_names_in_ = storage.names_of(self._features)
        self.n_iter_, self.result_, self.notes_ = facts["n_iter"], storage.result_of(facts), facts.get("notes")

"""Latent class models as files."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, ClassVar

from majorant._checks import Array
from majorant.estimators import storage
from majorant.estimators.archive import LABELS, Field, are_any, are_rising
from majorant.estimators.choice.files import facts_from
from majorant.estimators.saved import Notes, Saved, Written

ARRAYS = ("coef_", "membership_", "shares_", "start_log_likelihoods_", "memberships_")


def _parameters(lengths: dict[str, int]) -> int:
    """Return how many parameters there are: tastes of each class, and logits of membership in all but the first."""
    if not lengths["known"]:
        raise ValueError("the array 'membership' lacks the column of the constant")
    return lengths["classes"] * lengths["features"] + (lengths["classes"] - 1) * lengths["known"]


class LatentFiles(Saved):
    """``save`` and ``load``, for latent classes."""

    _fields: ClassVar[dict[str, Field]] = {
        "coef": Field("f", ("classes", "features")),
        "membership": Field("f", (lambda lengths: lengths["classes"] - 1, "known")),
        "shares": Field("f", ("classes",)),
        "start_log_likelihoods": Field("f", ("starts",), are_any),
        "people": Field(LABELS, ("people",), are_rising),
        "memberships": Field("f", ("people", "classes")),
        "hessian": Field("f", (_parameters, _parameters)),
        "robust": Field("f", (_parameters, _parameters), are_any, needed=False),
        "basis": Field("f", (_parameters, _parameters), needed=False),
        **storage.names_fields(lambda lengths: lengths["features"] + lengths["known"] - 1),
    }

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
        storage.restore_ending(self, facts)
        for name in ARRAYS:
            setattr(self, name, arrays[name.rstrip("_")])
        names, count = storage.unpacked(arrays), self.coef_.shape[1]
        self._features, self._covariates = names[:count], names[count:]
        self.people_, self._hessian, self._robust = arrays["people"], arrays["hessian"], arrays.get("robust")
        self._basis = arrays.get("basis")
        self._facts = facts_from(storage.fact(facts, "facts", dict), len(self._hessian))
        self.log_likelihood_ = self._facts.log_likelihood
        self.null_log_likelihood_ = self._facts.null_log_likelihood
        self.aic_, self.bic_ = self._facts.aic, self._facts.bic
        self.n_classes_, self.n_features_in_ = len(self.coef_), count
        self.param_names_ = self._names()
        if storage.fact(facts, "named_columns", bool):
            self.feature_names_in_ = storage.names_of(self._features)

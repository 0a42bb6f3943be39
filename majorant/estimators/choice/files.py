"""Choice models as files."""

from __future__ import annotations

from dataclasses import asdict, fields
from types import NoneType
from typing import Any, ClassVar

import numpy as np

from majorant._checks import Array
from majorant.estimators import storage
from majorant.estimators.archive import Field, are_any, are_counts
from majorant.estimators.choice.frames import layout_from
from majorant.estimators.saved import Notes, Saved, Written
from majorant.inference.summary import Facts


class ChoiceFiles(Saved):
    """``save`` and ``load``, for a conditional logit."""

    _fields: ClassVar[dict[str, Field]] = {
        "coef": Field("f", ("parameters",)),
        "coef_error": Field("f", ("parameters",), are_counts, needed=False),  # older files have none
        **storage.names_fields("parameters"),
        "variances": Field("f", ("parameters",), are_any, needed=False),
        "hessian": Field("f", ("parameters", "parameters"), needed=False),
        "robust": Field("f", ("parameters", "parameters"), are_any, needed=False),
        "basis": Field("f", ("parameters", "parameters"), needed=False),
    }

    def _written(self: Any, notes: Notes) -> Written:
        arrays = {"coef": self.coef_, "coef_error": self.coef_error_, **storage.packed(self.param_names_)}
        if self._variances is not None:
            arrays["variances"] = self._variances
        if self._hessian is not None:
            arrays["hessian"] = self._hessian
            if self._basis is not None:
                arrays["basis"] = np.diag(self._basis) if self._basis.ndim == 1 else self._basis
            if self._sample is not None or self._robust is not None:
                arrays["robust"] = self.covariance("robust")
        facts = storage.facts_of(self, notes) | {"facts": asdict(self._facts), "groups": self.n_groups_}
        facts["named_columns"] = hasattr(self, "feature_names_in_")
        facts["layout"] = None if self._layout is None else self._layout.as_json()
        return facts, arrays

    def _restore(self: Any, path: Any, facts: dict[str, Any], arrays: dict[str, Array]) -> None:
        storage.restore_ending(self, facts)
        self.gap_ = self.result_.gap
        self.coef_, self.param_names_ = arrays["coef"], storage.unpacked(arrays)
        self.coef_error_ = arrays.get("coef_error", np.full(len(self.coef_), np.inf))
        self._hessian, self._robust = arrays.get("hessian"), arrays.get("robust")
        self._variances, self._basis = arrays.get("variances"), arrays.get("basis")
        self._facts = facts_from(storage.fact(facts, "facts", dict), len(self.coef_))
        self.log_likelihood_ = self._facts.log_likelihood
        self.null_log_likelihood_ = self._facts.null_log_likelihood
        self.n_groups_, self.n_features_in_ = storage.whole_fact(facts, "groups"), len(self.coef_)
        if storage.fact(facts, "named_columns", bool):
            self.feature_names_in_ = storage.names_of(self.param_names_)
        layout = storage.fact(facts, "layout", dict, NoneType)
        self._layout = None if layout is None else layout_from(layout, self.param_names_)


def facts_from(saved: dict[str, Any], parameters: int) -> Facts:
    """Return what was saved of a fit as a whole, if it is of so many parameters."""
    if saved.keys() != {each.name for each in fields(Facts)} or saved["parameters"] != parameters:
        raise ValueError(f"it says of a fit of {parameters} parameters {saved!r:.80}, which cannot be")
    numbers = ("log_likelihood", "null_log_likelihood", "observations")
    likelihood, null, observations = (float(storage.fact(saved, name, int, float)) for name in numbers)
    if not observations > 0:
        raise ValueError(f"it says that there were {observations} observations")
    return Facts(likelihood, null, observations, parameters, storage.fact(saved, "unit", str))

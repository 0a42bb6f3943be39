"""Choice models as files."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from majorant._checks import Array
from majorant.estimators import storage
from majorant.estimators.choice.frames import layout_from
from majorant.estimators.saved import Notes, Saved, Written
from majorant.inference.summary import Facts


class ChoiceFiles(Saved):
    """``save`` and ``load``, for a conditional logit."""

    def _written(self: Any, notes: Notes) -> Written:
        arrays = {"coef": self.coef_, "coef_error": self.coef_error_, **storage.packed(self.param_names_)}
        if self._variances is not None:
            arrays["variances"] = self._variances
        if self._hessian is not None:
            arrays["hessian"] = self._hessian
            if self._basis is not None:
                arrays["basis"] = self._basis
            if self._sample is not None or self._robust is not None:
                arrays["robust"] = self.covariance("robust")
        facts = storage.facts_of(self, notes) | {"facts": asdict(self._facts), "groups": self.n_groups_}
        facts["named_columns"] = hasattr(self, "feature_names_in_")
        facts["layout"] = None if self._layout is None else self._layout.as_json()
        return facts, arrays

    def _restore(self: Any, path: Any, facts: dict[str, Any], arrays: dict[str, Array]) -> None:
        self.coef_, self.param_names_ = arrays["coef"], storage.unpacked(arrays)
        self.coef_error_ = arrays.get("coef_error", np.full(len(self.coef_), np.inf))  # older files have none
        self._hessian, self._robust = arrays.get("hessian"), arrays.get("robust")
        self._variances, self._basis = arrays.get("variances"), arrays.get("basis")
        self._facts = Facts(**facts["facts"])
        self.log_likelihood_ = self._facts.log_likelihood
        self.null_log_likelihood_ = self._facts.null_log_likelihood
        self.n_groups_, self.n_features_in_ = facts["groups"], len(self.coef_)
        if facts["named_columns"]:
            self.feature_names_in_ = storage.names_of(self.param_names_)
        self.n_iter_, self.result_, self.notes_ = facts["n_iter"], storage.result_of(facts), facts.get("notes")
        self.gap_ = self.result_.gap
        self._layout = None if facts["layout"] is None else layout_from(facts["layout"])

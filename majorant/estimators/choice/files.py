"""Choice models as files."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from majorant.estimators import storage
from majorant.estimators.choice.frames import layout_from
from majorant.inference.summary import Facts


class ChoiceFiles:
    """``save`` and ``load``, for a conditional logit."""

    def save(self: Any, path: Any, notes: dict[str, Any] | None = None) -> None:
        """Write the fitted model to a file that holds data only; standard errors come along, rows do not.

        Parameters
        ----------
        path : str or Path
        notes : dict, optional
            Anything that JSON can hold; it comes back as ``notes_``.
        """
        check_is_fitted(self, "coef_")
        arrays = {"coef": self.coef_, "coef_error": self.coef_error_, **storage.packed(self.param_names_)}
        if self._variances is not None:
            arrays["variances"] = self._variances
        if self._hessian is not None:
            arrays["hessian"] = self._hessian
            if self._sample is not None or self._robust is not None:
                arrays["robust"] = self.covariance("robust")
        facts = storage.facts_of(self, notes) | {"facts": asdict(self._facts), "groups": self.n_groups_}
        facts["named_columns"] = hasattr(self, "feature_names_in_")
        facts["layout"] = None if self._layout is None else self._layout.as_json()
        storage.write(path, type(self).__name__, facts, arrays)

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
        model.coef_, model.param_names_ = arrays["coef"], storage.unpacked(arrays)
        model.coef_error_ = arrays.get("coef_error", np.full(len(model.coef_), np.inf))  # older files have none
        model._hessian, model._robust = arrays.get("hessian"), arrays.get("robust")
        model._variances = arrays.get("variances")
        model._facts = Facts(**facts["facts"])
        model.log_likelihood_ = model._facts.log_likelihood
        model.null_log_likelihood_ = model._facts.null_log_likelihood
        model.n_groups_, model.n_features_in_ = facts["groups"], len(model.coef_)
        if facts["named_columns"]:
            model.feature_names_in_ = storage.names_of(model.param_names_)
        model.n_iter_, model.result_, model.notes_ = facts["n_iter"], storage.result_of(facts), facts.get("notes")
        model.gap_ = model.result_.gap
        model._layout = None if facts["layout"] is None else layout_from(facts["layout"])
        return model

"""Latent class models as files."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Self

from sklearn.utils.validation import check_is_fitted

from majorant.estimators import storage
from majorant.inference.summary import Facts

ARRAYS = ("coef_", "membership_", "shares_", "start_log_likelihoods_", "memberships_")


class LatentFiles:
    """``save`` and ``load``, for latent classes."""

    def save(self: Any, path: Any, notes: dict[str, Any] | None = None) -> None:
        """Write the fitted model to a file that holds data only; standard errors come along, rows do not.

        Parameters
        ----------
        path : str or Path
        notes : dict, optional
            Anything that JSON can hold; it comes back as ``notes_``.
        """
        check_is_fitted(self, "coef_")
        arrays = {name.rstrip("_"): getattr(self, name) for name in ARRAYS}
        arrays |= {"hessian": self._hessian, "people": storage.plain(self.people_)}
        arrays |= storage.packed([*self._features, *self._covariates])
        if self._state is not None or self._robust is not None:
            arrays["robust"] = self.covariance("robust")
        facts = storage.facts_of(self, notes) | {"facts": asdict(self._facts), "features": len(self._features)}
        facts["named_columns"] = hasattr(self, "feature_names_in_")
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
        for name in ARRAYS:
            setattr(model, name, arrays[name.rstrip("_")])
        names, count = storage.unpacked(arrays), facts["features"]
        model._features, model._covariates = names[:count], names[count:]
        model.people_, model._hessian, model._robust = arrays["people"], arrays["hessian"], arrays.get("robust")
        model._facts = Facts(**facts["facts"])
        model.log_likelihood_ = model._facts.log_likelihood
        model.null_log_likelihood_ = model._facts.null_log_likelihood
        model.aic_, model.bic_ = model._facts.aic, model._facts.bic
        model.n_classes_, model.n_features_in_ = len(model.coef_), count
        model.param_names_ = model._names()
        if facts["named_columns"]:
            model.feature_names_in_ = storage.names_of(model._features)
        model.n_iter_, model.result_, model.notes_ = facts["n_iter"], storage.result_of(facts), facts.get("notes")
        return model

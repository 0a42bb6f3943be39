"""What a fitted latent class model says of its parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from majorant._checks import Array, one_of
from majorant.inference import Summary, covariance, in_columns, summarise

SOURCES = {
    "hessian": "standard errors from the inverse Hessian of the marginal likelihood",
    "robust": "robust standard errors (sandwich over people)",
}


class LatentInference:
    """``covariance`` and ``summary``, for latent classes."""

    def covariance(self: Any, kind: str = "hessian") -> Array:
        """Return the covariance of all parameters.

        Where parameters cannot be told from the data (two classes that are the same), variances are infinite.

        Parameters
        ----------
        kind : {"hessian", "robust"}
            The inverse of the exact Hessian of the marginal likelihood, or the sandwich over people.

        Returns
        -------
        array of shape (d, d)
            In the order of ``param_names_``.
        """
        check_is_fitted(self, "coef_")
        if one_of("kind", kind, tuple(SOURCES)) == "hessian":
            return in_columns(self._basis, covariance(self._hessian, None, "hessian"))
        if self._state is None:
            if self._robust is not None:
                return self._robust
            raise ValueError("kind='robust' needs the data of the fit, which files and pickles do not hold: fit again")
        return in_columns(self._basis, covariance(self._hessian, self._state.scores(), "robust"))

    def summary(self: Any, kind: str = "hessian", level: float = 0.95) -> Summary:
        """Return the table of estimates, standard errors, z, p and intervals, and what is said of the fit.

        Parameters
        ----------
        kind : {"hessian", "robust"}
            As for :meth:`covariance`.
        level : float
            Of the confidence intervals.

        Returns
        -------
        Summary
            Printed it is text, notebooks show HTML, ``to_frame()`` returns a pandas data frame.
        """
        params = np.concatenate([self.coef_.ravel(), self.membership_.ravel()])
        shares = ", ".join(f"{share:.4f}" for share in self.shares_)
        notes = [f"shares of the classes: {shares}", SOURCES[kind], str(self.result_)]
        if np.isfinite(self.C) or np.isfinite(self.membership_C):
            penalties = f"C = {self.C:g}, membership_C = {self.membership_C:g}"
            notes.append(f"penalised ({penalties}): estimates are drawn towards zero, and so are standard errors")
        found, title = self.covariance(kind), f"Latent class logit, {self.n_classes_} classes"
        return summarise(title, self.param_names_, params, found, self._facts, level=level, notes=notes)

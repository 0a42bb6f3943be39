"""What a fitted choice model says of its coefficients: standard errors, tables, willingness to pay, elasticities."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from majorant.choice.basis import elasticities, elasticity_table, observation_scores
from majorant.choice.sets import Situations, refuse_missing
from majorant.core.checks import Array, one_of
from majorant.inference import (
    KINDS,
    Derived,
    LikelihoodRatio,
    Summary,
    covariance,
    in_columns,
    likelihood_ratio,
    ratio,
    summarise,
)

SOURCES = {
    "hessian": "standard errors from the inverse Hessian",
    "robust": "robust standard errors (sandwich over choice situations)",
    "cluster": "standard errors robust to dependence within clusters",
}


class ChoiceInference:
    """``summary``, ``covariance``, ``wtp``, ``elasticities`` and a likelihood-ratio test, for a conditional logit."""

    def covariance(self: Any, kind: str = "hessian", cluster: Any = None) -> Array:
        """Return the covariance of the coefficients, from analytic derivatives.

        Parameters
        ----------
        kind : {"hessian", "robust", "cluster"}
            The inverse Hessian, the sandwich over choice situations, or over clusters of them (with the factor
            G/(G − 1) of G clusters, as usual).
        cluster : array, optional
            With "cluster": what each row of the fit, or each choice situation, belongs to, such as a person.

        Returns
        -------
        array of shape (d, d)
            In the order of ``param_names_``.
        """
        check_is_fitted(self, "coef_")
        if self._hessian is None:
            errors = "there are no standard errors" if self._variances is None else "summary() has standard errors"
            raise ValueError(f"{len(self.coef_)} parameters are too many for a covariance matrix: {errors}")
        if one_of("kind", kind, KINDS) == "hessian":
            return in_columns(self._basis, covariance(self._hessian, None, kind))
        if self._sample is None:
            if kind == "robust" and self._robust is not None:
                return self._robust
            raise ValueError(f"kind={kind!r} needs the data of the fit, which files and pickles do not hold: fit again")
        scores = observation_scores(self._sample, self.coef_)
        T, clusters = self._basis, None if cluster is None else self._by_situation(cluster)
        scores = scores if T is None else scores * T if T.ndim == 1 else scores @ T
        return in_columns(T, covariance(self._hessian, scores, kind, clusters))

    def summary(self: Any, kind: str = "hessian", cluster: Any = None, level: float = 0.95) -> Summary:
        """Return the table of estimates, standard errors, z, p and intervals, and what is said of the fit.

        Parameters
        ----------
        kind, cluster
            Where standard errors come from, as for :meth:`covariance`.
        level : float
            Of the confidence intervals.

        Returns
        -------
        Summary
            Printed it is text, notebooks show HTML, ``to_frame()`` returns a pandas data frame.
        """
        alone = self._hessian is None and self._variances is not None and kind == "hessian"
        found = self._variances if alone else self.covariance(kind, cluster)
        notes = [SOURCES[kind], str(self.result_)]
        if np.isfinite(self.C):
            notes.append(f"penalised (C = {self.C:g}): estimates are drawn towards zero, and so are standard errors")
        return summarise(
            "Conditional logit", self.param_names_, self.coef_, found, self._facts, level=level, notes=notes
        )

    def wtp(self: Any, attribute: str, cost: str, kind: str = "hessian", cluster: Any = None) -> Derived:
        """Return the willingness to pay for one more unit of an attribute, −θ_attribute/θ_cost, by the delta method.

        Parameters
        ----------
        attribute, cost : str
            Coefficients by their names in ``param_names_``.
        kind, cluster
            As for :meth:`covariance`.

        Returns
        -------
        Derived
            ``estimate``, ``std_error``, ``z``, ``p`` and ``interval(level)``.
        """
        above, below = self._place(attribute), self._place(cost)
        name = f"-{attribute} / {cost}"
        return ratio(name, self.coef_, self.covariance(kind, cluster), above, below, sign=-1.0)

    def likelihood_ratio_test(self: Any, other: Any) -> LikelihoodRatio:
        """Return the test between this fit and another one, one of which is a special case of the other.

        Parameters
        ----------
        other : ConditionalLogit
            Fitted to the same choices; both without a penalty (``C=np.inf``).

        Returns
        -------
        LikelihoodRatio
            ``statistic``, ``degrees`` of freedom and ``p``.
        """
        for fitted in (self, other):
            check_is_fitted(fitted, "coef_")
            if np.isfinite(fitted.C):
                raise ValueError(f"a likelihood-ratio test needs fits without a penalty (C=np.inf), got C={fitted.C!r}")
        return likelihood_ratio(self._facts, other._facts)

    def elasticities(
        self: Any, feature: str, X: Any, groups: Any = None, alternatives: Any = None, *, offset: Any = None
    ) -> Any:
        """Return by how many percent probabilities change if a feature rises by one percent.

        Parameters
        ----------
        feature : str
            A coefficient by its name in ``param_names_``.
        X, groups, offset
            As for ``predict_proba``; a data frame alone where the model was made from one.
        alternatives : array of shape (n_rows,), optional
            What each row is an alternative of.

        Returns
        -------
        array of shape (n_rows, 2), or (names, array of shape (n, n))
            For each row its own elasticity, and that of every other alternative of its group with respect to the
            feature of this row. With alternatives (or a data frame that names them) a table E[a, b]: the change of the
            share of b when the feature of a rises, averaged with the probabilities of b as weights.
        """
        check_is_fitted(self, "coef_")
        place = self._place(feature)
        if groups is None and self._layout is not None:
            self._refuse_offset(offset)
            data, ids, alternatives = self._layout.rows(X)
            p, x = self._probabilities_of(data), data.design.dense()[:, place]
            return elasticity_table(p, x, self.coef_[place], alternatives, ids)
        table = Situations.read(self, X, groups, reset=False)
        data = table.unobserved(offset)
        p, x = self._probabilities_of(data), data.design.dense()[:, place]
        if alternatives is None:
            return table.as_given(np.stack(elasticities(p, x, self.coef_[place]), axis=1))
        labels = table.sorted(np.asarray(alternatives))
        return elasticity_table(p, x, self.coef_[place], labels, table.sorted_ids)

    def _place(self: Any, name: str) -> int:
        check_is_fitted(self, "coef_")
        if name not in self.param_names_:
            raise ValueError(f"there is no coefficient {name!r}; there are {', '.join(self.param_names_)}")
        return int(self.param_names_.index(name))

    def _by_situation(self: Any, cluster: Any) -> Array:
        values = np.asarray(cluster)
        if values.ndim == 1:
            refuse_missing("cluster", values, "what each row, or each choice situation, belongs to", "position")
        if self._table is None or values.shape == (len(self._sample),):
            return values
        return self._table.of_groups("cluster", values)

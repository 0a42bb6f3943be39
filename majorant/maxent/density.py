"""``MaxEnt``: the density of largest entropy over a finite set that has given expectations of features."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from majorant.core.checks import Array, finite_array
from majorant.core.result import paragraph
from majorant.estimators.base import check_number
from majorant.maxent.balance import EntropyBalancing, Named, read_base
from majorant.maxent.dual import of_table


class MaxEnt:
    """The density p(y) ∝ h(y) exp(λᵀf(y)) over a finite set with given expectations of features f.

    Of all densities with these expectations it is the one nearest to the base measure h in relative entropy: that of
    largest entropy if h is constant. With a tolerance, expectations may be off by so much, and coefficients that do not
    matter are zero: this is the ℓ1 penalty of species distribution models (Phillips, Dudík & Schapire, 2004).

    Parameters
    ----------
    features : array or data frame of shape (n, d)
        f(y) of every point y of the set.
    expectations : array of shape (d,), dict or series
        Of each feature.
    base_measure : array of shape (n,), optional
        h(y) > 0.
    tolerance : float or array of shape (d,)
        How far each expectation may be off.
    tol : float
        The largest error of an expectation, in standard deviations of its feature.
    max_iter : int
        Newton steps.

    Attributes
    ----------
    probabilities_ : array of shape (n,)
        p(y), which sums to one.
    coef_ : array of shape (d,)
        λ.
    log_partition_ : float
        log Σ_y h(y) exp(λᵀf(y)), h with a sum of one.
    entropy_ : float
        −Σ_y p(y) log p(y).
    feature_names_ : tuple of str
    result_ : Result
        How the fit ended, as a sentence.

    Examples
    --------
    A die whose mean is 4.5 rather than 3.5 (Jaynes, 1962):

    >>> import numpy as np
    >>> import majorant
    >>> die = majorant.MaxEnt(np.arange(1.0, 7.0), [4.5])
    >>> die.probabilities_.round(4)
    array([0.0543, 0.0788, 0.1142, 0.1654, 0.2398, 0.3475])
    >>> die.log_density([[7.0]]).round(3)  # as if there were a seventh side
    array([1.106])
    """

    def __init__(
        self,
        features: Any,
        expectations: Any,
        base_measure: Any = None,
        tolerance: Any = 0,
        *,
        tol: float = 1e-9,
        max_iter: int = 200,
    ) -> None:
        found = EntropyBalancing(features, expectations, base_measure, tolerance, tol=tol, max_iter=max_iter)
        self.feature_names_, self.coef_ = found.feature_names_, found.coef_
        self.probabilities_ = p = found.weights_ / found.weights_.sum()
        self.result_ = found.result_
        values = of_table(features)[0]
        h = read_base(base_measure, len(p))
        log_h = np.full(len(p), -np.log(len(p))) if h is None else np.log(h / h.sum())
        top = int(np.argmax(p))
        self.log_partition_ = float(log_h[top] + values[top] @ self.coef_ - np.log(p[top]))
        self.entropy_ = float(-np.sum(p * np.log(np.where(p > 0, p, 1.0))))

    @classmethod
    def from_sample(
        cls, sample: Any, background: Any, base_measure: Any = None, *, multiplier: float = 0.0, **settings: Any
    ) -> Self:
        """Return the density over background points with the mean features of a sample.

        Parameters
        ----------
        sample : array or data frame of shape (m, d)
            Features where a species was seen, for example.
        background : array or data frame of shape (n, d)
            Features of the points of the set.
        base_measure : array of shape (n,), optional
        multiplier : float
            Expectations may be off by so many standard errors of the sample's means.
        **settings
            Of the class.

        Returns
        -------
        MaxEnt

        Examples
        --------
        >>> import numpy as np
        >>> import majorant
        >>> rng = np.random.default_rng(0)
        >>> background = rng.normal(size=(1000, 2))
        >>> sample = background[rng.random(1000) < 1 / (1 + np.exp(2 - 2 * background[:, 0]))]
        >>> model = majorant.MaxEnt.from_sample(sample, background, multiplier=2.0)
        >>> model.coef_.round(2)  # the second feature does not matter
        array([0.95, 0.  ])
        """
        seen, names = of_table(sample)
        values = finite_array("sample", seen, ndim=2)
        if not len(values):
            raise ValueError("sample must have at least one row, got none")
        check_number("multiplier", multiplier, least=0.0)
        errors = values.std(axis=0, ddof=min(1, len(values) - 1)) / np.sqrt(len(values))
        table = background if hasattr(background, "columns") else Named(of_table(background)[0], names)
        return cls(table, values.mean(axis=0), base_measure, multiplier * errors, **settings)

    def log_density(self, features: Any) -> Array:
        """Return log (p(y)/h(y)) of points by their features, h with a sum of one; they need not be of the set.

        Parameters
        ----------
        features : array or data frame of shape (m, d)

        Returns
        -------
        array of shape (m,)
        """
        values = finite_array("features", of_table(features)[0], ndim=2)
        if values.shape[1] != len(self.coef_):
            raise ValueError(f"features must have {len(self.coef_)} columns, got {values.shape[1]}")
        return np.asarray(values @ self.coef_ - self.log_partition_)

    def __repr__(self) -> str:
        return f"{self.result_}; entropy {self.entropy_:.4g}"

    def _repr_html_(self) -> str:
        return paragraph(repr(self))

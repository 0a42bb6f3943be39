"""Whether a larger model is worth its parameters."""

from __future__ import annotations

from dataclasses import dataclass

from scipy.special import chdtrc

from majorant.inference.summary import Facts


@dataclass(frozen=True)
class LikelihoodRatio:
    """2 (ℓ_larger − ℓ_smaller), χ² with as many degrees of freedom as there are more parameters.

    Examples
    --------
    >>> print(LikelihoodRatio(12.0, 2))
    likelihood ratio 12 on 2 degrees of freedom, p = 0.00248
    """

    statistic: float
    degrees: int

    @property
    def p(self) -> float:
        """How likely so large a ratio is if the smaller model is right."""
        return float(chdtrc(self.degrees, max(self.statistic, 0.0)))

    def __str__(self) -> str:
        return f"likelihood ratio {self.statistic:.6g} on {self.degrees} degrees of freedom, p = {self.p:.3g}"


def likelihood_ratio(one: Facts, other: Facts) -> LikelihoodRatio:
    """Return the test between two nested fits to the same observations, in either order."""
    smaller, larger = sorted((one, other), key=lambda facts: facts.parameters)
    if smaller.parameters == larger.parameters:
        raise ValueError(f"nested models differ in their parameters, got {larger.parameters} of both")
    if abs(smaller.observations - larger.observations) > 1e-9 * larger.observations:
        got = f"{smaller.observations:g} and {larger.observations:g}"
        raise ValueError(f"a likelihood-ratio test needs fits to the same observations, got {got} of them")
    _refuse_others(smaller, larger)
    statistic = 2.0 * (larger.log_likelihood - smaller.log_likelihood)
    if statistic < -1e-6 * abs(larger.log_likelihood):
        raise ValueError(
            f"the larger model has the lower log-likelihood ({larger.log_likelihood:g} against "
            f"{smaller.log_likelihood:g}): they are not nested, or not both at their maximum"
        )
    return LikelihoodRatio(max(statistic, 0.0), larger.parameters - smaller.parameters)


def _refuse_others(one: Facts, other: Facts) -> None:
    """Raise if fits are to other data: parameters of zero make all models of the same data the same one."""
    if one.unit != other.unit:
        raise ValueError(
            f"a likelihood-ratio test is between fits of one kind, got {one.unit} and {other.unit}: hidden classes are "
            "not nested in its sense; compare AIC or BIC"
        )
    nulls = one.null_log_likelihood, other.null_log_likelihood
    if abs(nulls[0] - nulls[1]) > 1e-6 * max(map(abs, nulls)):
        raise ValueError(
            "a likelihood-ratio test needs fits to the same alternatives and offsets, but log-likelihoods at zero are "
            f"{nulls[0]:g} and {nulls[1]:g}"
        )

"""Conditional logit under an ℓ1 penalty: optimality conditions written out."""

import numpy as np
import pytest

from majorant import ConditionalLogit


def trips(seed=0, groups=150, alternatives=4, columns=12):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(groups * alternatives, columns)) * 10.0 ** rng.integers(-1, 2, columns)
    utility = X[:, :3] / np.abs(X[:, :3]).mean(axis=0) @ [1.0, -1.0, 0.5] + rng.gumbel(size=len(X))
    utility = utility.reshape(groups, alternatives)
    chosen = (utility == utility.max(axis=1, keepdims=True)).ravel()
    return X, chosen, np.repeat(np.arange(groups), alternatives)


@pytest.mark.parametrize("l1_ratio", [1.0, 0.4])
def test_the_optimality_conditions_hold_whatever_the_units(l1_ratio):
    X, chosen, group = trips()
    model = ConditionalLogit(C=0.1, l1_ratio=l1_ratio, tol=1e-9).fit(X, chosen, group)
    P = np.exp((X @ model.coef_).reshape(-1, 4))
    P /= P.sum(axis=1, keepdims=True)
    G, θ, λ = X.T @ (P.ravel() - chosen), model.coef_, 10.0
    at = np.where(θ != 0, G + λ * (l1_ratio * np.sign(θ) + (1 - l1_ratio) * θ), np.maximum(abs(G) - λ * l1_ratio, 0))
    assert abs(at).max() < 1e-3 * λ
    assert 0 < (θ != 0).sum() < len(θ)
    assert model.gap_ < 1e-7


def test_standard_errors_and_settings_without_a_meaning_are_refused():
    X, chosen, group = trips()
    model = ConditionalLogit(C=0.1, l1_ratio=1).fit(X, chosen, group)
    for ask in (model.summary, model.covariance):
        with pytest.raises(ValueError, match="no standard errors"):
            ask()
    for settings in ({"C": np.inf}, {"solver": "newton"}, {"l1_ratio": 2}):
        with pytest.raises(ValueError, match="l1_ratio"):
            ConditionalLogit(**{"C": 1.0, "l1_ratio": 1.0} | settings).fit(X, chosen, group)

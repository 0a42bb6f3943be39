"""The model, the design and the penalty that CONTRIBUTING adds, held to what is asked of our own."""

import doctest
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize as scipy_minimize
from sklearn.linear_model import PoissonRegressor

import majorant
from majorant import (
    LBFGS,
    SGD,
    BatchMajorization,
    Binary,
    Labelled,
    Multinomial,
    Newton,
    Objective,
    OnlineMajorization,
    ProximalMajorization,
    QuasiNewton,
    StochasticMajorization,
    Threads,
    minimize,
)
from tests.oracles import finite_difference

TEXT = (Path(__file__).parent.parent / "CONTRIBUTING.md").read_text()
LONGEST = 40


def examples():
    """The classes that CONTRIBUTING defines, by name: what is written there, and what it makes."""
    found, names = {}, {}
    for example in doctest.DocTestParser().get_examples(TEXT):
        exec(example.source, names)
        if example.source.startswith("class "):
            name = example.source.split("(")[0].removeprefix("class ")
            found[name] = (example.source, names[name])
    return found


EXAMPLES = examples()
Poisson, Lags, Towards = (EXAMPLES[name][1] for name in ("Poisson", "Lags", "Towards"))


@pytest.mark.parametrize("name", ["Poisson", "Lags", "Towards"])
def test_they_are_short_and_use_public_names_only(name):
    source = EXAMPLES[name][0]
    assert len(source.splitlines()) < LONGEST
    assert "majorant._" not in source
    assert "._" not in source.replace("self._", "")


# --- a model ----------------------------------------------------------------------------------------------


def counts(seed=0):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(300, 3)), np.ones(300)])
    return X, rng.poisson(np.exp(X @ [0.5, -0.3, 0.2, 0.1]))


@pytest.mark.parametrize("solver", [QuasiNewton(), LBFGS(), majorant.SteepestDescent()], ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_model_is_fitted_as_scikit_learn_does(solver, threads):
    X, y = counts()
    F = Objective(Poisson(), Labelled(X, y), ridge=3.0, reducer=Threads(threads))
    theta = np.random.default_rng(1).normal(size=4)
    np.testing.assert_allclose(F.value_and_gradient(theta)[1], finite_difference(F.value, theta), rtol=1e-5)
    solution = minimize(F, solver)
    assert solution.result.converged
    assert solution.result.gap <= 1e-8
    theirs = PoissonRegressor(alpha=3.0 / len(y), fit_intercept=False, tol=1e-12, max_iter=1000).fit(X, y)
    np.testing.assert_allclose(solution.params, theirs.coef_, atol=1e-4)


@pytest.mark.parametrize(
    ("solver", "sentence"),
    [
        (BatchMajorization(), "Poisson has no bound"),
        (Newton(), "outcomes that can be written out, which Poisson has too many of"),
        (ProximalMajorization(), "outcomes that can be written out"),
        (OnlineMajorization(), "OnlineMajorization trains Chain, got Poisson"),
    ],
)
def test_solvers_say_what_a_model_does_not(solver, sentence):
    with pytest.raises(TypeError, match=sentence):
        minimize(Objective(Poisson(), Labelled(*counts()), ridge=1.0), solver)


# --- a design ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("model", [Binary(), Multinomial(3)], ids=lambda m: type(m).__name__)
@pytest.mark.parametrize(
    "solver",
    [
        QuasiNewton(),
        QuasiNewton(curvature="diagonal"),
        BatchMajorization(),
        BatchMajorization(curvature="low-rank"),
        Newton(),
        ProximalMajorization(),
        ProximalMajorization(curvature="diagonal"),
        StochasticMajorization(batch_size=7),
        SGD(gain=0.01),
    ],
    ids=lambda s: f"{type(s).__name__}-{getattr(s, 'curvature', '')}",
)
def test_a_design_does_what_its_matrix_does(solver, model, constant):
    rng = np.random.default_rng(0)
    windows = np.lib.stride_tricks.sliding_window_view(rng.normal(size=204), 5)
    y = rng.integers(0, 2 if model == Binary() else 3, size=200)
    ours, theirs = (
        minimize(Objective(model, Labelled(X, y, constant=constant), ridge=1.0), solver, max_steps=5)
        for X in (Lags(windows), np.ascontiguousarray(windows))
    )
    np.testing.assert_allclose(ours.params, theirs.params, atol=1e-8)
    np.testing.assert_allclose(ours.trace["objective"], theirs.trace["objective"], rtol=1e-10)


# --- a penalty --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [6, 700])
@pytest.mark.parametrize(
    "solver", [QuasiNewton(), BatchMajorization(), Newton(), LBFGS()], ids=lambda s: type(s).__name__
)
def test_a_penalty_is_minimised_and_certified(solver, p):
    rng = np.random.default_rng(0)
    X, guess = rng.normal(size=(600, p)), rng.normal(size=p)
    F = Objective(Binary(), Labelled(X, rng.integers(0, 2, size=600)), ridge=Towards(guess, 5.0))
    theta = rng.normal(size=p)
    np.testing.assert_allclose(F.value_and_gradient(theta)[1][:6], finite_difference(F.value, theta)[:6], rtol=1e-4)
    solution = minimize(F, solver, tol=1e-7)
    best = scipy_minimize(F.value_and_gradient, solution.params, jac=True, method="L-BFGS-B", tol=1e-14).fun
    assert solution.result.converged
    for value, gap in zip(solution.trace["objective"], solution.trace["gap"], strict=True):
        assert (value - best) / value <= gap + 1e-12


def test_solvers_with_a_prior_say_that_they_need_a_ridge():
    F = Objective(Binary(), Labelled(np.eye(3), [0, 1, 0]), ridge=Towards(np.ones(3), 1.0))
    for solver in (ProximalMajorization(), StochasticMajorization(), SGD(gain=0.1)):
        with pytest.raises(TypeError, match="starts from a Gaussian prior: it needs a ridge, got Towards"):
            minimize(F, solver)
    with pytest.raises(ValueError, match="penalty must be one of 3 parameters, got one of 2"):
        Objective(Binary(), Labelled(np.eye(3), [0, 1, 0]), ridge=Towards(np.ones(2), 1.0))

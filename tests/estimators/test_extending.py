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

TEXT = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()
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


class Huber(majorant.objective.Penalty):
    """λ Σ (√(1 + θ²) − 1): convex, but nowhere strongly."""

    def __init__(self, strengths):
        self.curvature = strengths

    def value(self, theta):
        return float(self.curvature @ (np.sqrt(1 + theta**2) - 1))

    def gradient(self, theta):
        return self.curvature * theta / np.sqrt(1 + theta**2)

    def scaled(self, factor):
        return Huber(factor * self.curvature)


class RidgeAndHuber(Huber):
    """A ridge on all but the last parameter."""

    def __init__(self, strengths):
        super().__init__(strengths)
        self.strength = np.append(strengths[:-1], 0.0)

    def value(self, theta):
        last = self.curvature[-1] * (np.sqrt(1 + theta[-1] ** 2) - 1)
        return float(0.5 * self.curvature[:-1] @ theta[:-1] ** 2 + last)

    def gradient(self, theta):
        return self.curvature * np.append(theta[:-1], theta[-1] / np.sqrt(1 + theta[-1] ** 2))


@pytest.mark.parametrize(
    "solver", [QuasiNewton(), LBFGS(), Newton(), BatchMajorization()], ids=lambda s: type(s).__name__
)
@pytest.mark.parametrize("penalty", [Huber, RidgeAndHuber])
def test_a_penalty_that_is_not_strongly_convex_certifies_nothing_and_bounds_all(solver, penalty):
    """Separable rows: the penalty alone keeps parameters finite, the intercept's too."""
    X = np.array([[-2.0], [-1.0], [1.0], [2.0], [3.0]])
    data = Labelled(X, [0, 0, 1, 1, 1], constant=True)
    F = Objective(Binary(), data, ridge=penalty(np.array([0.3, 0.5])))
    solution = minimize(F, solver, gradient_tol=1e-7)
    best = scipy_minimize(F.value_and_gradient, np.zeros(2), jac=True, method="BFGS", options={"gtol": 1e-10})
    assert solution.result.converged, solution.result
    assert np.isnan(solution.result.gap)
    np.testing.assert_allclose(solution.params, best.x, atol=1e-4)


def test_stochastic_gradients_need_no_prior():
    rng = np.random.default_rng(0)
    F = Objective(Binary(), Labelled(rng.normal(size=(50, 3)), rng.integers(0, 2, 50)), ridge=Towards(np.ones(3), 1.0))
    solver = SGD(gain=0.01, batch_size=50, shuffle=False)
    at = minimize(F, solver, start=np.full(3, 2.0), max_steps=1, tol=0.0).params
    np.testing.assert_allclose(at, 2.0 - 0.01 * F.value_and_gradient(np.full(3, 2.0))[1], atol=1e-12)


class Identity(majorant.models.Model):
    """½ Σ (θ − 1)², with a residual that is its own gradient: nothing is copied."""

    def n_parameters(self, like):
        return 3

    def potentials(self, theta, batch):
        return theta - 0.0

    def add_measure(self, potentials, batch):
        return potentials - 1.0

    def loss_and_residual(self, scores, batch):
        return 0.5 * float(scores @ scores), scores.copy()

    def lift(self, residual, batch):
        return residual


def test_what_a_model_returns_is_not_written_to():
    F = Objective(Identity(), Labelled(np.eye(3), [0, 1, 0]), ridge=1.0)
    ray = F.ray(np.zeros(3), np.ones(3))
    np.testing.assert_array_equal(ray.point_at(0.5).gradient, ray.point_at(0.5).gradient)
    np.testing.assert_allclose(minimize(F, QuasiNewton()).params, 0.5, atol=1e-4)


class Stored(Poisson):
    """Returns an array of its own to scale steps by."""

    scale = np.full(4, 100.0)

    def hessian_diagonal(self, scores, batch):
        return self.scale


def test_what_a_model_keeps_is_not_added_to():
    X, y = counts()
    minimize(Objective(Stored(), Labelled(X, y), ridge=1.0, reducer=Threads(3)), QuasiNewton())
    assert (Stored.scale == 100.0).all()


def test_an_offset_that_a_model_would_ignore_is_refused():
    X, y = counts()
    with pytest.raises(ValueError, match="Poisson has no use for an offset"):
        Objective(Poisson(), Labelled(X, y, offset=np.ones(len(y))), ridge=1.0)


class Sharp(Binary):
    """The loss of three times the score."""

    def loss(self, scores, batch):
        return super().loss(3 * scores, batch)

    def loss_and_residual(self, scores, batch):
        loss, residual = super().loss_and_residual(3 * scores, batch)
        return loss, 3 * residual


def test_compiled_loops_are_left_to_the_models_they_were_written_for():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    F = Objective(Sharp(), Labelled(X, (X[:, 0] + rng.logistic(size=600) > 0).astype(int)), ridge=1.0)
    best = minimize(F, LBFGS()).params
    found = minimize(F, SGD(gain=0.01, schedule="adaptive", tau=1000.0), max_steps=30, tol=0.0).params
    np.testing.assert_allclose(found, best, atol=0.05)
    assert F.value_at_zero() == pytest.approx(F.value(np.zeros(2)))


def test_solvers_with_a_prior_say_that_they_need_a_ridge():
    F = Objective(Binary(), Labelled(np.eye(3), [0, 1, 0]), ridge=Towards(np.ones(3), 1.0))
    for solver in (ProximalMajorization(), StochasticMajorization(), majorant.LowRankStochasticMajorization()):
        with pytest.raises(TypeError, match="starts from a Gaussian prior: it needs a ridge, got Towards"):
            minimize(F, solver)
    with pytest.raises(ValueError, match="penalty must be one of 3 parameters, got one of 2"):
        Objective(Binary(), Labelled(np.eye(3), [0, 1, 0]), ridge=Towards(np.ones(2), 1.0))

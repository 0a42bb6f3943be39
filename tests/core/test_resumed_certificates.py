"""No certificate is below the truth, however a run began, went on or ended; a run resumed is the run it interrupted.

The truth is the objective written out outcome by outcome and minimised without the package (``tests.oracles``).
"""

import functools
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from majorant import (
    BFGS,
    LBFGS,
    SGD,
    BatchMajorization,
    Binary,
    Chain,
    Choices,
    ConjugateGradient,
    Enumerated,
    Labelled,
    LogisticRegression,
    LowRankStochasticMajorization,
    Multinomial,
    Newton,
    Objective,
    OnlineMajorization,
    Outcome,
    ProximalMajorization,
    QuasiNewton,
    SteepestDescent,
    StochasticMajorization,
    datasets,
    minimize,
)
from majorant.core import certificates
from majorant.core.result import Fitted
from majorant.estimators.fitting import above_tangent, judged_as_published
from tests import oracles, problems
from tests.truth import Truth

pytestmark = pytest.mark.unwatched

# To the rounding of the reference.
ROUNDING = 1e-12

CLASSES = ("binary", "multinomial")
ROWS = (*CLASSES, "enumerated")
ALL = (*ROWS, "chain")
# Every solver, and the models it trains.
SOLVERS = [
    (BatchMajorization(), ALL),
    (BatchMajorization(memory=0), ALL),
    (BatchMajorization(curvature="low-rank", rank=2), ALL),
    (BatchMajorization(curvature="diagonal"), ALL),
    (BatchMajorization(curvature="kronecker"), CLASSES),
    (BatchMajorization(curvature="boehning", memory=0), CLASSES),
    (Newton(), ROWS),
    (SteepestDescent(), ALL),
    (LBFGS(), ALL),
    (BFGS(), ALL),
    (ConjugateGradient(), ALL),
    (QuasiNewton(), ALL),
    (QuasiNewton(curvature="sample"), CLASSES),
    (QuasiNewton(curvature="kronecker"), CLASSES),
    (QuasiNewton(curvature="diagonal"), CLASSES),
    (ProximalMajorization(batch_size=5), ROWS),
    (ProximalMajorization(batch_size=7, curvature="block", report_every=0.5), CLASSES),
    (ProximalMajorization(batch_size=5, curvature="diagonal"), CLASSES),
    (StochasticMajorization(), ROWS),
    (StochasticMajorization(batch_size=6, report_every=0.3), ROWS),
    (StochasticMajorization(batch_size=6, restart=True), ROWS),
    (LowRankStochasticMajorization(), ROWS),
    (LowRankStochasticMajorization(rank=0, batch_size=4), ROWS),
    (LowRankStochasticMajorization(rank=3, restart=True), ROWS),
    (SGD(gain=0.02, schedule="adaptive", tau=10.0, batch_size=3), ROWS),
    (OnlineMajorization(), ("chain",)),
    (OnlineMajorization(curvature="bound"), ("chain",)),
]
# They start from M = I/λ, or from the penalty as a metric.
NEED_A_PENALTY = (StochasticMajorization, LowRankStochasticMajorization, OnlineMajorization)
# SciPy's minimisers own their loops: only parameters can be handed back to them.
FORGETFUL = (LBFGS, BFGS, ConjugateGradient)


# --- problems ---------------------------------------------------------------------------------------------


def weights(rng, size, kind):
    if kind != "weights":
        return None
    weight = rng.exponential(size=size) * (rng.uniform(size=size) < 0.6)
    weight[0] = 1.0
    return weight


def labelled(model, n, rng, kind):
    X, y = rng.normal(size=(30, 3)) + 1, rng.integers(0, n, size=30)
    X = X.astype(np.float32) if kind == "float32" else X
    ridge = np.array([0.5, 0.5, 0.5, 0.0 if kind == "free intercept" else 0.5])
    ridge[1] = 0.0 if kind == "free feature" else 0.5
    data = Labelled(X, y, weights(rng, 30, kind), constant=True)
    return Objective(model, data, ridge=np.tile(ridge, model.coefficient_rows))


def enumerated(rng, kind):
    sizes = rng.integers(2, 5, size=15)
    F = rng.normal(size=(sizes.sum(), 4))
    F = F.astype(np.float32) if kind == "float32" else F
    ridge = [0.3, 0.3, 0.3, 0.0 if kind.startswith("free") else 0.3]
    data = Choices(F, sizes, rng.integers(0, sizes), weight=weights(rng, 15, kind))
    return Objective(Enumerated(), data, ridge=ridge)


def chain(rng, kind):
    data = problems.sequences(2, (3, 1, 2, 4, 0, 2), 4, seed=rng, values=True)
    of_sequences = weights(rng, 6, kind)
    if of_sequences is not None:
        data = replace(data, weight=np.repeat(of_sequences, np.diff(data.starts)))
    ridge = np.full(data.universe.size, 0.3)
    ridge[0] = 0.0 if kind.startswith("free") else 0.3
    return Objective(Chain(), data, ridge=ridge)


MODELS = {
    "binary": lambda rng, kind: labelled(Binary(), 2, rng, kind),
    "multinomial": lambda rng, kind: labelled(Multinomial(3), 3, rng, kind),
    "enumerated": enumerated,
    "chain": chain,
}
KINDS = ("plain", "weights", "float32", "free intercept", "free feature")


@functools.cache
def problem(name, kind, seed=0):
    """Return an objective, the same written out, and its least value."""
    F = MODELS[name](np.random.default_rng(seed), kind)
    return F, written_out(F), oracles.optimum(F)


def written_out(F):
    """Return F as a function of θ, found from all outcomes of all rows."""
    features, _, target, weight = zip(*oracles.enumerate_sets(F.model, F.data), strict=True)
    starts = np.cumsum([0, *(len(each) for each in features[:-1])])
    features, target, weight = np.vstack(features), np.concatenate(target), np.array(weight)

    def value(theta):
        scores = features @ theta
        loss = np.logaddexp.reduceat(scores, starts) - np.add.reduceat(target * scores, starts)
        return weight @ loss + 0.5 * np.sum(F.ridge * theta**2)

    return value


def refuses(solver, kind):
    return isinstance(solver, NEED_A_PENALTY) and kind.startswith("free")


def short(solver):
    """Return the settings that are not the default."""
    said = {f.name: getattr(solver, f.name) for f in fields(solver) if getattr(solver, f.name) != f.default}
    return f"{type(solver).__name__}({', '.join(f'{name}={value}' for name, value in said.items())})"


CASES = [
    pytest.param(solver, name, kind, id=f"{short(solver)}-{name}-{kind}")
    for solver, models in SOLVERS
    for name in models
    for kind in KINDS
    if not refuses(solver, kind) and not (name == "chain" and kind == "float32")  # chains are multiplied in double
]


# --- runs -------------------------------------------------------------------------------------------------


class Watched:
    """A run, and every point it went through."""

    def __init__(self, F, solver, stop_at=None, **settings):
        self.path = []

        def watch(row, theta):
            self.path.append(theta.copy())
            return row["step"] == stop_at

        self.solution = minimize(F, solver, callback=watch, **settings)
        self.trace, self.result = self.solution.trace, self.solution.result


def at_once(F, solver, seed):
    yield Watched(F, solver, max_steps=4, tol=0.0)
    yield Watched(F, solver, max_steps=15, tol=1e-4)


def resumed(F, solver, seed):
    first = Watched(F, solver, max_steps=2, tol=0.0)
    second = Watched(F, solver, start=first.solution, max_steps=2, tol=0.0)
    yield second
    yield Watched(F, solver, start=second.solution, max_steps=1, tol=0.0)


@functools.cache
def near_the_optimum(F):
    return minimize(F, LBFGS(), tol=1e-6, max_steps=200)


def warm(F, solver, seed):
    far = np.random.default_rng(seed).normal(size=F.size)
    yield Watched(F, solver, start=3 * far, max_steps=3, tol=0.0)
    near = near_the_optimum(F)
    yield Watched(F, solver, start=near, max_steps=2, tol=0.0)
    yield Watched(F, solver, start=near.params, max_steps=2, tol=1e-3)


def stopped_early(F, solver, seed):
    yield Watched(F, solver, stop_at=0)
    yield Watched(F, solver, stop_at=2, tol=0.0)


RUNS = (at_once, resumed, warm, stopped_early)


def check_honest(run, truth, best):
    """Hold every certificate against the truth."""
    assert len(run.path) == len(run.trace["gap"])
    pairs = [*zip(run.path, run.trace["gap"], strict=True), (run.solution.params, run.result.gap)]
    for k, (theta, gap) in enumerate(pairs):
        value = truth(theta)
        assert not gap < (value - best) / value - ROUNDING, f"{run.result} (certificate {k})"


# --- properties -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("solver", "name", "kind"), CASES)
def test_no_certificate_is_below_the_truth(solver, name, kind):
    F, truth, best = problem(name, kind)
    for way in RUNS:
        for run in way(F, solver, seed=1):
            check_honest(run, truth, best)
            values = [truth(theta) for theta in run.path]
            np.testing.assert_allclose(run.trace["objective"], values, rtol=1e-5 if kind == "float32" else 1e-9)
            assert np.isnan(run.result.gap) or F.certifiable or certificates.suits(F)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(CASES), st.sampled_from(RUNS), st.integers(0, 10**6))
def test_nor_on_any_other_problem(case, way, seed):
    solver, name, kind = case.values
    F, truth, best = problem(name, kind, seed)
    for run in way(F, solver, seed):
        check_honest(run, truth, best)


# In float32 F is known to seven digits, but runs are told apart by nine.
RESUMABLE = [case for case in CASES if not isinstance(case.values[0], FORGETFUL) and case.values[2] != "float32"]


@pytest.mark.parametrize(("solver", "name", "kind"), RESUMABLE)
def test_a_resumed_run_is_the_run_it_interrupted(solver, name, kind):
    F, _, _ = problem(name, kind)
    # A limit within the steps that nobody sees would end a start: what goes on from there is another run.
    unseen = int(Watched(F, solver, max_steps=8, max_passes=0.0).trace["step"][0])
    whole = Watched(F, solver, max_steps=unseen + 6, tol=0.0)
    first = Watched(F, solver, max_steps=unseen + 2, tol=0.0)
    second = Watched(F, solver, start=first.solution, max_steps=2, tol=0.0)
    third = Watched(F, solver, start=second.solution, max_steps=2, tol=0.0)
    if Outcome.STALLED in (run.result.outcome for run in (first, second, third)):
        pytest.skip("nothing decreases any more: there is no state to go on from")
    for column in ("objective", "gradient_norm", "gap"):
        pieces = [run.trace[column][1 if k else 0 :] for k, run in enumerate((first, second, third))]
        np.testing.assert_allclose(np.concatenate(pieces), whole.trace[column], rtol=1e-9, atol=1e-12, err_msg=column)
        # Where one ends the next begins, and is seen once more.
        assert second.trace[column][0] == pytest.approx(first.trace[column][-1], rel=1e-9, nan_ok=True)
    np.testing.assert_array_equal(third.solution.params, whole.solution.params)


def test_a_proximal_run_in_single_precision_goes_on():
    solver = ProximalMajorization(batch_size=5)
    F, _, _ = problem("multinomial", "float32")
    whole = minimize(F, solver, max_steps=4, tol=0.0)
    second = minimize(F, solver, start=minimize(F, solver, max_steps=2, tol=0.0), max_steps=2, tol=0.0)
    np.testing.assert_allclose(second.trace["objective"], whole.trace["objective"][2:], rtol=1e-6)


@pytest.mark.parametrize("solver", [solver for solver, models in SOLVERS if "multinomial" in models], ids=str)
def test_resumed_on_ecoli_with_a_strong_penalty(solver):
    """A state that kept F and ∇F of an older θ said "within 8.1e-03" where 3.1e-02 was true."""
    X, y = datasets.load("ecoli")
    F = Objective(Multinomial(8), Labelled(X, y), ridge=100.0)
    best = minimize(F, Newton(), tol=1e-13).trace["objective"][-1]
    run = minimize(F, solver, start=minimize(F, solver, tol=0, max_steps=2), tol=0, max_steps=2)
    value = F.value(run.params)
    assert run.trace["objective"][-1] == pytest.approx(value, rel=1e-12)
    assert run.result.gap >= (value - best) / value - ROUNDING


@pytest.mark.parametrize("seed", [177, 237])
def test_gaps_are_those_of_published_coefficients_in_single_precision(seed):
    r = np.random.default_rng([seed, 5])
    t, p, n = int(r.integers(5, 40)), int(r.integers(1, 8)), int(r.integers(2, 6))
    X = r.normal(size=(max(t, n), p)) * 10 ** r.uniform(-2, 2, size=p)
    X = (X + r.choice([0, 0, 1, 30, 1000.0]) * r.normal(size=p)).astype(np.float32)
    y = np.argmax(X @ r.normal(size=(p, n)) * 5, axis=1)
    y[:n] = np.arange(n)
    C, solver, constant = 10 ** r.uniform(0, 10), str(r.choice(["auto", "scipy-lbfgs", "newton"])), bool(r.integers(2))
    model = LogisticRegression(C=C, solver=solver, fit_intercept=constant, tol=1e-8).fit(X, y)
    theta = np.column_stack([model.coef_, model.intercept_] if constant else [model.coef_]).astype(np.float64).ravel()
    ridge = np.tile([1 / C] * p + [0.0] * constant, n)
    truth = Truth(Objective(Multinomial(n), Labelled(X.astype(np.float64), y, constant=constant), ridge=ridge))
    value = truth.value(theta)
    excess = float((value - truth.value(truth.optimum(theta))) / value)
    assert excess <= model.gap_ < 1e-6
    assert f"certified to be within {model.gap_:.1e} of the optimum" in str(model.result_)


@pytest.mark.parametrize("seed", range(200))
def test_losses_rise_above_their_tangents_by_no_more_than_is_said(seed):
    r = np.random.default_rng([seed, 6])
    t, n = int(r.integers(1, 30)), int(r.integers(2, 6))
    weight = (10 ** r.uniform(-6, 6, size=t)).astype(np.longdouble)
    target = np.eye(n)[r.integers(n, size=t)] if r.random() < 0.7 else r.dirichlet(np.ones(n), size=t)
    scores = (10 ** r.uniform(-2, 3) * (r.normal(size=(t, n)) + r.choice([0, 5]) * target)).astype(np.longdouble)
    moves = r.normal(size=(t, n)) if r.random() < 0.5 else -target  # which is where the exponential is needed
    moves = (10 ** r.uniform(-5, 2) * moves).astype(np.longdouble)

    def loss(of):
        top = of.max(axis=1)
        return float(weight @ (top + np.log(np.exp(of - top[:, None]).sum(axis=1)) - (target * of).sum(axis=1)))

    p = np.exp(scores - scores.max(axis=1)[:, None])
    slope = float(weight @ ((p / p.sum(axis=1)[:, None] - target) * moves).sum(axis=1))
    rise, here, ranges = loss(scores + moves) - loss(scores) - slope, loss(scores), np.ptp(moves, axis=1).astype(float)
    rounding = 1e-18 * float(weight @ (np.abs(scores) + np.abs(moves)).sum(axis=1)) + 1e-16 * (abs(rise) + here)
    assert rise <= above_tangent(ranges.max(), float(weight.sum()), here) + rounding
    assert rise <= above_tangent(float(np.linalg.norm(ranges)), float(weight.max()), here) + rounding


@pytest.mark.parametrize("seed", range(20))
def test_what_rounding_adds_is_told_apart(seed):
    r = np.random.default_rng([seed, 7])
    n, t, p = int(r.integers(2, 5)), int(r.integers(20, 60)), int(r.integers(1, 5))
    X, y = r.normal(size=(t, p)), r.integers(n, size=t)
    model, rows = (Binary(), 1) if n == 2 else (Multinomial(n), n)
    F = Objective(model, Labelled(X, y, constant=True), ridge=np.tile([0.1] * p + [0.0], rows))
    fitted = Fitted.of(minimize(F, Newton(), tol=1e-12))
    W = fitted.params.reshape(rows, -1)
    W = W - W.mean(axis=0) if rows > 1 else W
    published = (W * (1 + 10 ** r.uniform(-4, -2) * r.uniform(-1, 1, size=W.shape))).ravel()
    found = judged_as_published(F, fitted, published, 1e-12)
    truth = Truth(F)
    value = truth.value(published)
    excess = float((value - truth.value(truth.optimum(fitted.params))) / value)
    assert fitted.result.gap <= 1e-12
    assert 1e-12 < excess <= found.result.gap < 2 * excess + 2e-9
    words = f"within {found.result.gap:.1e} of the optimum (relative), {fitted.result.gap:.1e} before coef_ was rounded"
    assert words in str(found.result)
    assert judged_as_published(F, fitted, W.ravel(), 1e-12).result == fitted.result

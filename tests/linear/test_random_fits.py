"""Ordinary data of every shape: a seeded sweep of random problems, and the cases that once went wrong, by name."""

import time
import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression as Reference

from majorant import Checkpoint, LogisticRegression
from majorant.estimators.fitting import BEFORE_ROUNDING
from tests import random_fits
from tests.fuzz import shrink, snippet
from tests.optimum import Task, least
from tests.random_fits import Problem, draw, judge, truth

BATCHES, IN_A_BATCH = 16, 32


@pytest.mark.unwatched
@pytest.mark.parametrize("batch", range(BATCHES))
def test_random_problems(batch):
    seeds = range(batch * IN_A_BATCH, (batch + 1) * IN_A_BATCH)
    problems = {seed: draw(seed) for seed in seeds}
    found = [f"{complaint}\n  {snippet(problem)}" for problem in problems.values() for complaint in judge(problem)]
    assert not found, "\n".join(found)


# --- the judge itself -------------------------------------------------------------------------------------


def plain_task(X, y, C, intercept="free"):
    n = int(y.max()) + 1
    X = np.asarray(X, dtype=np.float64)
    return Task(X, np.eye(n)[y], np.ones(len(y)), np.zeros((len(y), n)), C, intercept)


@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("p", [3, 50])
@pytest.mark.parametrize("intercept", ["free", "none"])
def test_the_reference_is_the_optimum_of_scikit_learn(n, p, intercept):
    r = np.random.default_rng(0)
    X, y = r.normal(size=(40, p)), np.arange(40) % n
    theirs = Reference(C=0.7, tol=1e-12, max_iter=10_000, fit_intercept=intercept == "free").fit(X, y)
    task = plain_task(X, y, 0.7, intercept)
    W, _ = least(task, [(np.zeros_like(theirs.coef_), np.zeros(len(theirs.coef_)))])
    np.testing.assert_allclose(W, theirs.coef_, atol=1e-5)


@pytest.mark.parametrize("p", [3, 50])
def test_a_penalised_intercept_is_a_column_of_ones_like_any_other(p):
    r = np.random.default_rng(0)
    X, y, zero = 5 + r.normal(size=(40, p)), np.arange(40) % 3, np.zeros(3)
    task, with_ones = plain_task(X, y, 0.7, "penalised"), plain_task(np.c_[X, np.ones(40)], y, 0.7, "none")
    W, level = least(task, [(np.zeros((3, p)), zero)])
    V, _ = least(with_ones, [(np.zeros((3, p + 1)), zero)])
    np.testing.assert_allclose(np.c_[W, level - W @ task.mean], V, atol=1e-7)


def spoil(monkeypatch, change):
    """Let every fit end in a model that was changed after it was certified."""
    honest = random_fits.fitted

    def spoilt(problem, arrays):
        model, heard = honest(problem, arrays)
        change(model)
        return model, heard

    monkeypatch.setattr(random_fits, "fitted", spoilt)


def claims_rounding(model, before):
    """Let a fit say that its gap is large by rounding alone, and what it was before."""
    model.gap_ = 1.0
    words = f"within 1.0e+00 of the optimum (relative), {before:.1e} {BEFORE_ROUNDING}"
    model.result_ = replace(model.result_, message=words)


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda model: model.coef_.__imul__(1.01), "false certificate"),
        (lambda model: model.coef_.__imul__(-1), "above F(0)"),
        (lambda model: model.coef_.fill(np.nan), "non-finite"),
        (lambda model: setattr(model, "gap_", 1.0), "not optimal"),
        (lambda model: claims_rounding(model, 1e-3), "not optimal"),
        (lambda model: model.missing, "exception"),
    ],
)
def test_the_judge_sees(monkeypatch, change, kind):
    assert judge(Problem(seed=0)) == []
    spoil(monkeypatch, change)
    assert kind in {complaint.partition(":")[0] for complaint in judge(Problem(seed=0))}


def test_the_judge_allows_for_what_rounding_is_said_to_add(monkeypatch):
    spoil(monkeypatch, lambda model: claims_rounding(model, 1e-9))
    assert judge(Problem(seed=0)) == []


def test_the_judge_knows_that_soft_targets_of_one_label_are_of_several_classes():
    assert judge(Problem(seed=12345297, t=4, weights="bootstrap", mode="soft")) == []


@pytest.mark.parametrize("does", [lambda: None, lambda: time.sleep(60)], ids=["works", "waits"])
def test_the_judge_stops_what_takes_too_long(monkeypatch, does):
    def endless(problem, arrays):
        while True:
            does()

    monkeypatch.setattr(random_fits, "fitted", endless)
    assert judge(Problem(seed=0), seconds=0.05) == ["slow: still running after 0.05 s"]


def test_failures_shrink(monkeypatch):
    spoil(monkeypatch, lambda model: model.missing)
    problem = Problem(seed=3, t=90, p=7, n=4, data="scaled", magnitude=50.0, sparse=True, C=30.0, solver="newton")
    small, complaint = shrink(problem, judge(problem)[0])
    assert (small.p, small.n, small.data, small.sparse, small.C, small.solver) == (1, 2, "standard", False, 1.0, "auto")
    assert complaint.startswith("exception: AttributeError")


# --- cases that went wrong --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("t", "p", "n"),
    [
        (5_000, 200, 2),
        (10_000, 768, 2),
        (10_000, 200, 2),
        (9_000, 499, 2),
        (5_000, 100, 5),
        (3_000, 120, 5),
        (20_000, 200, 5),
    ],
)
def test_round_shapes(t, p, n):
    X = np.random.default_rng(0).normal(size=(t, p))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of the step limit, which keeps this short
        model = LogisticRegression(max_iter=2).fit(X, np.arange(t) % n)
    assert np.isfinite(model.coef_).all()


@pytest.mark.parametrize(
    "problem",
    [
        Problem(seed=9100286, t=90, p=222, n=4, data="pareto", intercept="none", C=4.04, weights="random"),
        Problem(seed=9102673, t=138, p=28, n=4, C=148000.0),
    ],
    ids=["pareto", "separated"],
)
def test_rounding_to_single_precision_is_not_made_out_to_be_more_than_it_is(problem):
    """Losses of 0.03, 5,000 times less than at zero: norms of columns say much less of what rounding adds."""
    problem = replace(problem, dtype="float32")
    arrays = random_fits.make(problem)
    model, _ = random_fits.fitted(problem, arrays)
    assert judge(problem) == []
    assert model.gap_ <= random_fits.TOL


def test_without_a_certificate_a_fit_has_to_be_stationary():
    """Weights of 10¹² put an intercept out of bounds: strong convexity says nothing then, of whatever θ."""
    problem = Problem(seed=9300090, t=16, p=14, n=6, C=8250.0, weights="extreme")
    assert judge(problem) == []
    model, heard = random_fits.fitted(problem, random_fits.make(problem))
    assert np.isnan(model.gap_)
    assert not model.result_.converged
    assert [warning.category for warning in heard] == [ConvergenceWarning]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_of_timestamps_one_by_one_lead_no_stream_to_infinity(dtype):
    """A step of 10¹⁴ units left the last digits of a probability to decide, and then of an inverse."""
    settings = dict(data="timestamp", magnitude=23200000.0, C=9800.0, class_weight="uneven", mode="rows")
    problem = Problem(seed=9101493, t=40, p=1, dtype=dtype, **settings)
    model, _ = random_fits.fitted(problem, random_fits.make(problem))
    assert np.abs(model.coef_).max() < 1e-6
    assert judge(problem) == []


@pytest.fixture(scope="module")
def stream():
    """Two classes that a fit tells apart in 79 of 100 rows, in random order."""
    r = np.random.default_rng(0)
    X = r.normal(size=(20_000, 20))
    return X, (X @ r.normal(size=20) / 2 + r.logistic(size=20_000) > 0).astype(int)


def sorted_by_label(X, y):
    order = np.argsort(y, kind="stable")
    return X[order], y[order]


def feed(model, X, y, calls=20):
    for rows in np.split(np.arange(len(y)), calls):
        model.partial_fit(X[rows], y[rows], classes=[0, 1])
    return model


def test_a_call_of_partial_fit_does_not_mind_rows_sorted_by_label(stream):
    model = LogisticRegression().partial_fit(*sorted_by_label(*stream), classes=[0, 1])
    assert model.score(*stream) >= 0.78


def test_nor_do_many_calls_that_hold_all_classes(stream):
    X, y = stream
    order = np.lexsort([y, np.arange(20_000) // 1_000])
    model = feed(LogisticRegression(), X[order], y[order])
    assert model.score(*stream) >= 0.78


def test_calls_that_hold_one_class_each_are_warned_of(stream):
    X, y = sorted_by_label(*stream)
    with pytest.warns(UserWarning, match="shuffle them, or pass chunks that hold all classes"):
        model = feed(LogisticRegression(), X, y)
    # What the docstring of partial_fit says of it.
    assert round(model.score(*stream), 1) == 0.5
    assert round(feed(LogisticRegression(), *stream).score(*stream), 2) == 0.79


def test_a_stream_led_astray_says_so_and_others_how_well_they_foresee(stream):
    model = feed(LogisticRegression(), *stream)
    assert "foreseen with a log loss of 0.4" in str(model.result_)
    wild = random_fits.make(Problem(seed=50030, t=1240, p=51, data="pareto"))
    with pytest.warns(UserWarning, match=r"foreseen worse than by even odds.*heavy tails"):
        feed(LogisticRegression(), wild.X, wild.y, calls=8)


@pytest.mark.parametrize("solver", random_fits.SOLVERS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_certificates_hold_where_columns_have_large_means(solver, dtype):
    r = np.random.default_rng(11)
    z = r.normal(size=(60, 2))
    y = (z[:, 0] + r.logistic(size=60) > 0).astype(int)
    X = ((1e6 if dtype == "float64" else 1e4) + z).astype(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LogisticRegression(solver=solver).fit(X, y)
    true = truth(plain_task(X, y, 1.0), model)
    assert true.excess <= model.gap_ + true.rounding


@pytest.mark.parametrize("way", ["partial_fit", "proximal"])
def test_a_column_of_timestamps(way):
    r = np.random.default_rng(0)
    X, y = np.c_[1.6e9 + 1e8 * r.normal(size=1000), r.normal(size=1000)], r.integers(0, 3, 1000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        if way == "partial_fit":
            model = LogisticRegression().partial_fit(X, y, classes=[0, 1, 2])
        else:
            model = LogisticRegression(solver="proximal").fit(X, y)
    true = truth(plain_task(X, y, 1.0), model)
    assert true.value <= 1.05 * true.at_zero


def test_a_refused_partial_fit_leaves_a_fit_as_it_was():
    X, y = np.random.default_rng(0).normal(size=(100, 3)), np.arange(100) % 2
    model = LogisticRegression().fit(X, y)
    covariance, steps = model.posterior_covariance(X), model.n_iter_
    with pytest.raises(ValueError, match="negative"):
        model.partial_fit(X, y, sample_weight=-np.ones(100))
    np.testing.assert_array_equal(model.posterior_covariance(), covariance)
    assert model.n_iter_ == steps


def test_a_refused_first_call_settles_no_classes():
    X, y = np.random.default_rng(0).normal(size=(100, 3)), np.arange(100) % 2
    model = LogisticRegression()
    with pytest.raises(ValueError, match="negative"):
        model.partial_fit(X, y, classes=[0, 1], sample_weight=-np.ones(100))
    assert model.partial_fit(X, y + 1, classes=[1, 2]).classes_.tolist() == [1, 2]


def test_a_refused_fit_keeps_the_names_of_the_classes():
    X, y = np.random.default_rng(0).normal(size=(100, 3)), np.arange(100) % 2
    model = LogisticRegression().fit(X, y)
    with pytest.raises(ValueError, match="tol"):
        model.set_params(tol=-1.0).fit(X[:, :2], np.where(y, "pear", "apple"))
    assert model.classes_.tolist() == [0, 1]
    assert set(model.predict(X)) <= {0, 1}


@pytest.mark.parametrize("seed", range(6))
def test_heavy_tails_take_the_default_no_further_astray_than_newton(seed):
    r = np.random.default_rng(seed)
    X = r.pareto(1.0, size=(2000, 15))
    y = np.unique(
        np.argmax(np.log1p(X) @ r.normal(size=(15, 5)) + r.gumbel(size=(2000, 5)), axis=1), return_inverse=True
    )[1]
    model = LogisticRegression().fit(X, y)
    assert model.result_.converged
    assert truth(plain_task(X, y, 1.0), model).excess <= 1e-7


def test_a_checkpoint_holds_the_end_of_the_fit(tmp_path):
    X, y = np.random.default_rng(0).normal(size=(100, 3)), np.arange(100) % 2
    model = LogisticRegression(callbacks=[Checkpoint(tmp_path / "model.npz")]).fit(X, y)
    np.testing.assert_array_equal(LogisticRegression.load(tmp_path / "model.npz").coef_, model.coef_)

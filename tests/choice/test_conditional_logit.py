"""``ConditionalLogit``: published estimates, naive oracles, and what it says of bad input."""

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GroupKFold, cross_val_score

import majorant
from majorant import ConditionalLogit
from majorant.core.choices import Sample
from tests.choice_data import (
    ELECTRICITY,
    SWISSMETRO_14,
    electricity,
    log_likelihood,
    mode_canada,
    published,
    ragged,
    swissmetro,
)

ALTERNATIVES = {1: "train", 2: "sm", 3: "car"}


def swissmetro_01():
    time = {"train": "train_time", "sm": "sm_time", "car": "car_time"}
    cost = {"train": "train_cost", "sm": "sm_cost", "car": "car_cost"}
    names = {"(Intercept):train": "asc_train", "(Intercept):car": "asc_car", "time": "b_time", "cost": "b_cost"}
    return (
        ConditionalLogit.from_wide(
            swissmetro(),
            choice="CHOICE",
            alternatives=ALTERNATIVES,
            base="sm",
            varying={"time": time, "cost": cost},
            availability={"train": "train_open", "sm": "SM_AV", "car": "car_open"},
        ),
        names,
    )


def swissmetro_14():
    names = {"(Intercept):train": "asc_train", "(Intercept):sm": "asc_sm", **{name: name for name in SWISSMETRO_14}}
    return (
        ConditionalLogit.from_wide(
            swissmetro(),
            choice="CHOICE",
            alternatives=ALTERNATIVES,
            base="car",
            varying=SWISSMETRO_14,
            availability={"train": "TRAIN_AV", "sm": "SM_AV", "car": "CAR_AV"},
        ),
        names,
    )


def mode_canada_4alt():
    model = ConditionalLogit.from_long(
        mode_canada(),
        choice="choice",
        group="case",
        alternative="alt",
        features=["cost", "freq", "ovt"],
        by_alternative=["income", "ivt"],
        base="air",
    )
    return model, {name: name for name in model.param_names_}


def mode_canada_3alt():
    frame = mode_canada()
    by_bus = frame[(frame.alt == "bus") & (frame.choice == 1)].case
    frame = frame[~frame.case.isin(by_bus) & (frame.alt != "bus")]
    model = ConditionalLogit.from_long(
        frame.assign(time=frame.ivt + frame.ovt),
        choice="choice",
        group="case",
        alternative="alt",
        features=["cost", "freq"],
        by_alternative=["income", "time"],
        base="car",
    )
    return model, {name: name for name in model.param_names_}


def electricity_all():
    frame = electricity()
    return ConditionalLogit().fit(frame[ELECTRICITY], frame.choice, frame.chid), {name: name for name in ELECTRICITY}


PUBLISHED = {
    "swissmetro_01logit": swissmetro_01,
    "swissmetro_14": swissmetro_14,
    "ModeCanada_4alt": mode_canada_4alt,
    "ModeCanada_3alt": mode_canada_3alt,
    "electricity": electricity_all,
}
# Where sources stopped before the maximum, as the notes beside the data say.
STOPPED_EARLY = {"ModeCanada_4alt": 1e-4, "swissmetro_01logit": 2e-6}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_results_are_found(name):
    what = published(name)
    model, names = PUBLISHED[name]()
    assert set(names) == set(model.param_names_)
    assert_allclose(model.log_likelihood_, what["published"]["log_likelihood"], rtol=1e-6)
    assert_allclose(model.log_likelihood_, what["recomputed"]["log_likelihood"], rtol=1e-9)
    found = dict(zip((names[each] for each in model.param_names_), model.coef_, strict=True))
    for parameter, estimate in what["recomputed"]["estimate"].items():
        assert_allclose(found[parameter], estimate, rtol=2e-8)
    for parameter, estimate in what["published"]["estimate"].items():
        assert_allclose(found[parameter], estimate, rtol=STOPPED_EARLY.get(name, 2e-5), atol=6e-8)
    for kind, saved in (("hessian", "std_err"), ("robust", "robust_std_err")):
        errors = dict(zip(found, np.sqrt(np.diag(model.covariance(kind))), strict=True))
        for parameter, error in what["recomputed"][saved].items():
            assert_allclose(errors[parameter], error, rtol=2e-6)
        for parameter, error in what["published"].get(saved, {}).items():
            assert_allclose(errors[parameter], error, rtol=5e-3 if kind == "robust" else 1e-4)


def test_fitted_probabilities_are_those_published():
    model, _ = mode_canada_3alt()
    frame = mode_canada()
    some = frame[frame.case.between(109, 112) & (frame.alt != "bus")]
    some = some.assign(time=some.ivt + some.ovt)
    p = model.predict_proba(some)
    by_case = {(c, a): q for c, a, q in zip(some.case, some.alt, p, strict=True)}
    expected = [[0.4206404, 0.3884120, 0.1909475], [0.3696476, 0.2903582, 0.3399941]]
    for case, row in zip((109, 110), expected, strict=True):
        assert_allclose([by_case[case, alt] for alt in ("car", "train", "air")], row, atol=1e-7)


# --- oracles ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("solver", ["auto", "bbm", "lbfgs"])
def test_the_likelihood_is_at_its_maximum(seed, solver):
    X, y, groups = ragged(seed)
    model = ConditionalLogit(solver=solver).fit(X, y, groups)
    assert_allclose(model.log_likelihood_, log_likelihood(model.coef_, X, y, groups), rtol=1e-12)
    assert_allclose(model.null_log_likelihood_, log_likelihood(np.zeros(3), X, y, groups), rtol=1e-12)
    for direction in (*np.eye(3), *-np.eye(3)):
        assert log_likelihood(model.coef_ + 1e-3 * direction, X, y, groups) < model.log_likelihood_


def test_statsmodels_finds_the_same():
    """Held numbers are of statsmodels 0.15.0, ``ConditionalLogit(y, X, groups=groups).fit(method="bfgs", gtol=1e-10)``.

    It stops at a log-likelihood that is 1.6e-8 below the maximum.
    """
    X, y, groups = ragged(21, situations=120)
    model = ConditionalLogit().fit(X, y, groups)
    assert_allclose(model.coef_, [1.9083871, -0.46198828, 0.45389845], rtol=1e-4)
    assert_allclose(model.summary().std_errors, [0.27068168, 0.16439222, 0.17248035], rtol=2e-5)
    assert -81.63193059211216 < model.log_likelihood_ < -81.631930
    theirs = pytest.importorskip("statsmodels.discrete.conditional_models")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = theirs.ConditionalLogit(y, X, groups=groups).fit(method="bfgs", gtol=1e-10, disp=0)
    assert_allclose(model.coef_, found.params, rtol=1e-4)
    assert_allclose(model.summary().std_errors, found.bse, rtol=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_standard_errors_are_those_of_finite_differences(seed):
    X, y, groups = ragged(seed, situations=40)
    model = ConditionalLogit().fit(X, y, groups)
    step, H, eye = 1e-4, np.empty((3, 3)), np.eye(3)
    for i in range(3):
        for j in range(3):
            corners = ((1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1))
            at = [
                s * log_likelihood(model.coef_ + step * (a * eye[i] + b * eye[j]), X, y, groups) for a, b, s in corners
            ]
            H[i, j] = -sum(at) / (4 * step**2)
    assert_allclose(model.covariance(), np.linalg.inv(H), rtol=1e-4)


def scores_one_by_one(model, X, y, groups):
    rows = []
    for group in np.unique(groups):
        F, chosen = X[groups == group], y[groups == group]
        p = np.exp(F @ model.coef_)
        rows.append((p / p.sum() - chosen) @ F)
    return np.array(rows)


@pytest.mark.parametrize("distinct", [None, 6])
def test_robust_and_clustered_covariances_are_sandwiches(distinct):
    X, y, groups = ragged(1, situations=90, distinct=distinct)
    model = ConditionalLogit().fit(X, y, groups)
    assert (len(model._sample.sets) < 90) == (distinct is not None)
    bread, scores = model.covariance(), scores_one_by_one(model, X, y, groups)
    assert_allclose(model.covariance("robust"), bread @ scores.T @ scores @ bread, rtol=1e-8)
    cluster = groups // 7 % 10
    sums = np.array([scores[np.unique(groups) // 7 % 10 == g].sum(axis=0) for g in range(10)])
    expected = bread @ sums.T @ sums @ bread * 10 / 9
    assert_allclose(model.covariance("cluster", cluster), expected, rtol=1e-8)
    assert_allclose(model.covariance("cluster", np.unique(groups) // 7 % 10), expected, rtol=1e-8)


def test_weights_are_repetitions():
    X, y, groups = ragged(2, situations=30)
    weight = 1.0 + groups // 7 % 3
    weighted = ConditionalLogit().fit(X, y, groups, sample_weight=weight)
    rows = np.concatenate([np.flatnonzero(weight > k) for k in range(3)])
    copies = np.concatenate([groups[weight > k] + 10_000 * k for k in range(3)])
    repeated = ConditionalLogit().fit(X[rows], y[rows], copies)
    assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-9)
    assert_allclose(weighted.log_likelihood_, repeated.log_likelihood_, rtol=1e-12)
    assert_allclose(weighted.covariance(), repeated.covariance(), rtol=1e-7)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_equal_choice_sets_are_put_together(make):
    X, y, groups = ragged(3, situations=200, distinct=9)
    model = ConditionalLogit().fit(make(X), y, groups)
    assert len(model._sample.sets) == 9
    assert model.n_groups_ == 200
    assert_allclose(model.log_likelihood_, log_likelihood(model.coef_, X, y, groups), rtol=1e-12)
    moved = ConditionalLogit().fit(X, y, groups, offset=1e-9 * np.arange(len(X)))  # no two are alike
    assert len(moved._sample.sets) == 200
    assert_allclose(model.coef_, moved.coef_, atol=1e-5)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("in_order", [True, False])
def test_sets_of_small_numbers_are_told_apart(seed, make, in_order):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 4, size=600)
    groups = np.repeat(np.arange(600), sizes)
    X = np.stack([rng.integers(0, 2, len(groups)), -0.5 * rng.integers(0, 3, len(groups))], axis=1).astype(float)
    if in_order:
        X = X[np.lexsort((X[:, 1], X[:, 0], groups))]
    y = np.zeros(len(groups))
    y[np.cumsum(sizes) - 1 - rng.integers(0, 2, 600)] = 1.0
    kinds = {tuple(sorted(map(tuple, X[groups == j]))) for j in range(600)}
    model = ConditionalLogit().fit(make(X), y, groups)
    assert len(model._sample.sets) == len(kinds)
    assert_allclose(model.log_likelihood_, log_likelihood(model.coef_, X, y, groups), rtol=1e-12)


def test_sets_that_only_look_alike_stay_apart(monkeypatch):
    X, y, groups = ragged(4, situations=60, distinct=5, largest=3)
    table = ConditionalLogit().fit(X, y, groups)
    monkeypatch.setattr(
        "majorant.core.choices._looks_of_sets", lambda looks, data: np.zeros(len(data), dtype=np.uint64)
    )
    confused = ConditionalLogit().fit(X, y, groups)
    assert_allclose(confused.coef_, table.coef_, rtol=1e-9)


def test_shares_are_what_many_choose():
    X, y, groups = ragged(5, situations=60, distinct=6)
    many = ConditionalLogit().fit(X, y, groups)
    sets = many._sample.sets
    numbers = np.repeat(np.arange(6), np.diff(sets.indptr))
    weight = np.repeat(sets.weight, np.diff(sets.indptr))
    shares = ConditionalLogit().fit(sets.design.dense(), sets.target, numbers, sample_weight=weight)
    assert_allclose(shares.coef_, many.coef_, rtol=1e-9)


def test_offsets_are_added_and_close_alternatives():
    X, y, groups = ragged(6)
    known = ConditionalLogit().fit(X[:, 1:], y, groups, offset=0.3 * X[:, 0])
    assert_allclose(
        known.log_likelihood_, log_likelihood(np.concatenate([[0.3], known.coef_]), X, y, groups), rtol=1e-12
    )
    more = np.concatenate([X, 50.0 + X[:5]])
    closed = np.concatenate([np.zeros(len(X)), np.full(5, -np.inf)])
    with_closed = ConditionalLogit().fit(more, np.append(y, np.zeros(5)), np.append(groups, groups[:5]), offset=closed)
    assert_allclose(with_closed.coef_, ConditionalLogit().fit(X, y, groups).coef_, rtol=1e-9)
    p = with_closed.predict_proba(more, np.append(groups, groups[:5]), offset=closed)
    assert_array_equal(p[-5:], 0.0)


def test_predictions_belong_to_their_rows():
    X, y, groups = ragged(7)
    model = ConditionalLogit().fit(X, y, groups)
    p, flags = model.predict_proba(X, groups), model.predict(X, groups)
    for group in np.unique(groups):
        at = groups == group
        e = np.exp(X[at] @ model.coef_)
        assert_allclose(p[at], e / e.sum(), rtol=1e-12)
        assert_array_equal(flags[at], np.arange(at.sum()) == p[at].argmax())
    assert_allclose(model.score(X, y, groups), model.log_likelihood_ / 80, rtol=1e-12)


def test_penalties_are_certified():
    X, y, groups = ragged(8)
    model = ConditionalLogit(C=0.5).fit(X, y, groups)
    assert model.gap_ <= 1e-8
    assert "penalised" in str(model.summary())
    value = log_likelihood(model.coef_, X, y, groups) - model.coef_ @ model.coef_
    assert log_likelihood(0.999 * model.coef_, X, y, groups) - 0.999**2 * model.coef_ @ model.coef_ < value


@pytest.mark.parametrize("solver", ["auto", "bbm"])
@pytest.mark.parametrize("C", [1.0, np.inf])
def test_coefficients_are_as_near_to_the_optimum_as_they_are_said_to_be(solver, C, monkeypatch):
    X, y, groups = ragged(19)
    exact = ConditionalLogit(C=C, tol=1e-14).fit(X, y, groups)
    monkeypatch.setattr("majorant.choice.inference.LARGEST_HESSIAN", 2)  # nothing moves it any further
    rough = ConditionalLogit(C=C, tol=1e-4, solver=solver).fit(X, y, groups)
    off = np.abs(rough.coef_ - exact.coef_)
    assert (off <= rough.coef_error_ + exact.coef_error_).all()
    assert (rough.coef_error_ < 0.5).all()
    assert (exact.coef_error_ < 1e-9).all()


def test_polished_estimates_are_certified_where_they_are():
    X, y, groups = ragged(19)
    model = ConditionalLogit().fit(X, y, groups)
    assert model.gap_ < 1e-14
    assert "a unique maximum-likelihood estimate exists (proved)" in str(model.result_)
    assert (model.coef_error_ < 1e-6 * model.summary().std_errors).all()


def test_many_parameters_are_fitted_without_a_hessian(monkeypatch):
    monkeypatch.setattr("majorant.choice.conditional_logit.FEW", 2)
    X, y, groups = ragged(9)
    one = ConditionalLogit().fit(X, y, groups)
    monkeypatch.setattr("majorant.choice.inference.LARGEST_HESSIAN", 2)
    other = ConditionalLogit().fit(X, y, groups)
    assert_allclose(one.coef_, other.coef_, atol=1e-6)
    with pytest.raises(ValueError, match="too many for a covariance matrix: there are no standard errors"):
        other.summary()


# --- what is said of estimates ----------------------------------------------------------------------------


def test_the_summary_is_text_html_and_a_frame():
    X, y, groups = ragged(10)
    model = ConditionalLogit().fit(X, y, groups)
    summary = model.summary("robust", level=0.9)
    text, html, frame = str(summary), summary._repr_html_(), summary.to_frame()
    assert "5 %" in text
    assert f"{model.log_likelihood_:.6f}" in text
    assert html.count("<tr>") == 7 + 1 + 3
    assert_allclose(frame.estimate, model.coef_)
    assert_allclose(frame.std_err, np.sqrt(np.diag(model.covariance("robust"))))
    assert_allclose(frame.high - frame.low, 2 * 1.6448536269514722 * frame.std_err)
    assert_allclose(frame.p, [2 * _upper_tail(abs(z)) for z in frame.z], rtol=1e-10)
    facts = model.summary().facts
    assert_allclose(facts.aic, 6 - 2 * model.log_likelihood_)
    assert_allclose(facts.bic, 3 * np.log(80) - 2 * model.log_likelihood_)


def _upper_tail(z):
    from math import erfc, sqrt

    return 0.5 * erfc(z / sqrt(2))


def test_willingness_to_pay_by_simulation():
    X, y, groups = ragged(11, situations=3000, theta=np.array([-1.0, 0.5, 0.2]))
    model = ConditionalLogit().fit(X, y, groups)
    found = model.wtp("x1", "x0")
    draws = np.random.default_rng(0).multivariate_normal(model.coef_, model.covariance(), size=200_000)
    ratios = -draws[:, 1] / draws[:, 0]
    assert_allclose(found.estimate, -model.coef_[1] / model.coef_[0])
    assert_allclose(found.std_error, ratios.std(), rtol=0.02)
    with pytest.raises(ValueError, match=r"no coefficient 'price'; there are x0, x1, x2"):
        model.wtp("x1", "price")


def test_elasticities_are_derivatives():
    X, y, groups = ragged(12)
    model = ConditionalLogit().fit(X, y, groups)
    own, cross = model.elasticities("x1", X, groups).T
    p, row = model.predict_proba(X, groups), 4
    moved = X.copy()
    moved[row, 1] *= 1 + 1e-6
    change = (np.log(model.predict_proba(moved, groups)) - np.log(p)) / 1e-6
    assert_allclose(change[row], own[row], rtol=1e-4)
    others = np.flatnonzero((groups == groups[row]) & (np.arange(len(X)) != row))
    assert_allclose(change[others], cross[row], rtol=1e-4)


def test_tables_of_elasticities_add_up_over_situations():
    rng = np.random.default_rng(0)
    X, groups, labels = rng.normal(size=(300, 2)), np.repeat(np.arange(100), 3), np.tile(["a", "b", "c"], 100)
    y = np.eye(3)[rng.integers(3, size=100)].ravel()
    model = ConditionalLogit().fit(X, y, groups)
    names, E = model.elasticities("x0", X, groups, labels)
    assert_array_equal(names, ["a", "b", "c"])
    moved = X.copy()
    moved[labels == "b", 0] *= 1 + 1e-6
    before, after = (model.predict_proba(each, groups).reshape(100, 3).sum(axis=0) for each in (X, moved))
    assert_allclose((after / before - 1) / 1e-6, E[1], rtol=1e-4, atol=1e-6)


def test_the_likelihood_ratio_of_nested_fits():
    X, y, groups = ragged(13)
    larger, smaller = ConditionalLogit().fit(X, y, groups), ConditionalLogit().fit(X[:, :2], y, groups)
    test = larger.likelihood_ratio_test(smaller)
    assert_allclose(test.statistic, 2 * (larger.log_likelihood_ - smaller.log_likelihood_))
    assert_allclose(test.p, _upper_tail(np.sqrt(test.statistic)) * 2, rtol=1e-10)
    assert smaller.likelihood_ratio_test(larger) == test
    with pytest.raises(ValueError, match="differ in their parameters"):
        larger.likelihood_ratio_test(larger)
    other = ConditionalLogit().fit(X[groups > 0], y[groups > 0], groups[groups > 0])
    with pytest.raises(ValueError, match="same observations"):
        other.likelihood_ratio_test(smaller)


# --- data frames ------------------------------------------------------------------------------------------


def small_frames():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    n, names = 150, ["bus", "car", "train"]
    wide = pandas.DataFrame({f"time_{a}": rng.normal(size=n) for a in names})
    wide["income"], wide["car_here"] = rng.normal(size=n), rng.integers(2, size=n)
    wide["mode"] = [rng.choice(names if here else ["bus", "train"]) for here in wide.car_here]
    long = pandas.DataFrame(
        {
            "trip": np.repeat(np.arange(n), 3),
            "mode": np.tile(names, n),
            "time": wide[[f"time_{a}" for a in names]].to_numpy().ravel(),
            "income": np.repeat(wide.income.to_numpy(), 3),
            "here": np.where(np.tile(names, n) == "car", np.repeat(wide.car_here.to_numpy(), 3), 1),
            "chosen": np.repeat(wide["mode"].to_numpy(), 3) == np.tile(names, n),
        }
    )
    return wide, long


def fit_wide(wide, **settings):
    return ConditionalLogit.from_wide(
        wide,
        choice="mode",
        alternatives=["bus", "car", "train"],
        varying={"time": {a: f"time_{a}" for a in ("bus", "car", "train")}},
        fixed=["income"],
        availability={"car": "car_here"},
        **settings,
    )


def fit_long(long, **settings):
    return ConditionalLogit.from_long(
        long,
        choice="chosen",
        group="trip",
        alternative="mode",
        features=["time"],
        by_alternative=["income"],
        availability="here",
        **settings,
    )


def test_long_and_wide_frames_of_either_kind_say_the_same():
    polars = pytest.importorskip("polars")
    wide, long = small_frames()
    models = [fit_wide(wide), fit_long(long), fit_wide(polars.from_pandas(wide)), fit_long(polars.from_pandas(long))]
    for model in models:
        assert model.param_names_ == [
            "(Intercept):car",
            "(Intercept):train",
            "time",
            "income:car",
            "income:train",
        ]
        assert_allclose(model.coef_, models[0].coef_, rtol=1e-8)
        assert_allclose(model.covariance("robust"), models[0].covariance("robust"), rtol=1e-7)
    of_wide, of_long = models[0].predict_proba(wide), models[1].predict_proba(long)
    assert_allclose(of_wide.ravel(), of_long, rtol=1e-9)
    assert_allclose(of_wide.sum(axis=1), 1.0)
    assert (of_wide[wide.car_here == 0, 1] == 0).all()
    assert_array_equal(
        np.array(["bus", "car", "train"])[models[1].predict(long).reshape(-1, 3).argmax(axis=1)],
        models[0].predict(wide),
    )
    persons = np.arange(150) // 5
    assert_allclose(
        models[0].covariance("cluster", persons), models[1].covariance("cluster", np.repeat(persons, 3)), rtol=1e-6
    )
    for model, frame in zip(models, (wide, long, polars.from_pandas(wide), polars.from_pandas(long)), strict=True):
        assert_allclose(model.score(frame), model.log_likelihood_ / 150, rtol=1e-12)
    assert_allclose(models[0].elasticities("time", wide)[1], models[1].elasticities("time", long)[1], rtol=1e-7)


def test_effects_by_alternative_of_what_varies_have_no_base():
    _, long = small_frames()
    model = ConditionalLogit.from_long(
        long, choice="chosen", group="trip", alternative="mode", by_alternative=["time"], base="train",
        availability="here",
    )  # fmt: skip
    assert model.param_names_ == ["(Intercept):bus", "(Intercept):car", "time:bus", "time:car", "time:train"]


def test_numbers_of_alternatives_need_no_columns():
    """Everybody sees the same shelf: however many choose, one choice set is written out."""
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    items, quality = [f"i{k}" for k in range(20)], rng.normal(size=20)
    p = np.exp(quality) / np.exp(quality).sum()
    frame = pandas.DataFrame({"item": rng.choice(items, size=5000, p=p)})
    varying = {"quality": dict(zip(items, quality.tolist(), strict=True))}
    model = ConditionalLogit.from_wide(frame, choice="item", alternatives=items, varying=varying, constants=False)
    assert len(model._sample.sets) == 1
    assert_allclose(model.coef_, [1.0], atol=4 * np.sqrt(model.covariance()[0, 0]))


def test_columns_of_many_alternatives_are_sparse():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(rng.integers(2, size=(400, 2)), columns=["a", "b"]).assign(item=rng.integers(30, size=400))
    model = ConditionalLogit.from_wide(frame, choice="item", alternatives=range(30), fixed=["a", "b"], C=1.0)
    assert model._sample.sets.design.is_sparse
    assert len(model._sample.sets) == 4
    assert model.gap_ <= 1e-8


# --- scikit-learn, files ----------------------------------------------------------------------------------


def test_cross_validation_keeps_groups_together():
    X, y, groups = ragged(14, situations=60)
    with config_context(enable_metadata_routing=True):
        model = ConditionalLogit().set_fit_request(groups=True).set_score_request(groups=True)
        found = cross_val_score(model, X, y, params={"groups": groups}, cv=GroupKFold(3))
    expected = []
    for train, test in GroupKFold(3).split(X, y, groups):
        fitted = ConditionalLogit().fit(X[train], y[train], groups[train])
        expected.append(log_likelihood(fitted.coef_, X[test], y[test], groups[test]) / len(np.unique(groups[test])))
    assert_allclose(found, expected, rtol=1e-10)


def test_saved_models_know_their_errors_but_no_rows(tmp_path):
    wide, long = small_frames()
    X, y, groups = ragged(15)
    for model, arguments in ((fit_wide(wide), (wide,)), (fit_long(long), (long,)), (ConditionalLogit().fit(X, y, groups), (X, groups))):  # fmt: skip  # noqa: E501
        model.save(tmp_path / "model.npz", notes={"a": 1})
        for loaded in (ConditionalLogit.load(tmp_path / "model.npz"), pickle.loads(pickle.dumps(model))):
            assert_array_equal(loaded.predict_proba(*arguments), model.predict_proba(*arguments))
            assert str(loaded.summary()) == str(model.summary())
            assert_array_equal(loaded.coef_error_, model.coef_error_)
            with pytest.raises(ValueError, match="needs the data of the fit"):
                loaded.covariance("cluster", np.zeros(3))
        assert_allclose(ConditionalLogit.load(tmp_path / "model.npz").covariance("robust"), model.covariance("robust"))
    assert clone(model).get_params() == model.get_params()


# --- bad input --------------------------------------------------------------------------------------------

GOOD = dict(X=[[1.0, 2.0], [3.0, 1.0], [2.0, 2.0], [0.0, 1.0], [1.0, 0.0]], y=[1, 0, 0, 1, 0], groups=list("aabbb"))
BAD = {
    "group 'b' has no chosen row": dict(y=[1, 0, 0, 0, 0]),
    r"group 'a' has 2 chosen rows \(y sums to 2\)": dict(y=[1, 1, 0, 1, 0]),
    "every group has one available alternative only": dict(groups=list("abcde"), y=[1, 1, 1, 1, 1]),
    "every group has one available alternative": dict(offset=[0, -np.inf, -np.inf, 0, -np.inf]),
    "group 'b' chose an alternative that is not available": dict(offset=[0, 0, 0, -np.inf, 0]),
    r"got nan in column 1 at row 3 \(group 'b'\)": dict(X=[[1, 2], [3, 1], [2, 2], [0, np.nan], [1, 0]]),
    "column 'x1' is constant within every group: .*identified": dict(X=[[1, 5], [3, 5], [2, 7], [0, 7], [1, 7]]),
    "columns 'x0', 'x1' are collinear within every group": dict(X=[[1, 5], [3, 9], [2, 7], [0, 3], [1, 5]]),
    "y must flag the chosen row": dict(y=[2, 0, 0, 1, 0]),
    "y must have one entry per row": dict(y=[1, 0, 0]),
    r"y must flag the chosen row of each group \(1, else 0\), got a missing value at row 2": dict(y=[1, 0, None, 1, 0]),
    "y must be numeric": dict(y=list("abcde")),
    "groups must name the choice situation": dict(groups=None),
    "missing value at row 1": dict(groups=["a", None, "b", "b", "b"]),
    "groups must be of one type": dict(groups=np.array(["a", "a", 1, 1, 1], dtype=object)),
    "groups must have one entry per row": dict(groups=[1, 1]),
    "sample_weight must be the same for all rows of a group, got several values in group 'a'": dict(
        sample_weight=[1, 2, 1, 1, 1]
    ),
    "sample_weight must be non-negative": dict(sample_weight=[-1, -1, 1, 1, 1]),
    "offset must be finite": dict(offset=[np.nan, 0, 0, 0, 0]),
}


@pytest.mark.parametrize("sentence", BAD)
def test_what_is_wrong_is_said_by_group_and_column(sentence):
    model = ConditionalLogit()
    with pytest.raises(ValueError, match=sentence):
        model.fit(**{**GOOD, **BAD[sentence]})
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (dict(C=0), "C must be positive"),
        (dict(C="1"), "C must be positive"),
        (dict(solver="sag"), "solver must be one of"),
        (dict(tol=-1), "tol must be"),
        (dict(n_jobs="2"), "n_jobs must be"),
        (dict(verbose="no"), "verbose must be"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        ConditionalLogit(**settings).fit(*ragged())


@pytest.mark.parametrize("missing", [None, np.nan])
def test_clusters_without_a_name_are_refused(missing):
    X, y, groups = ragged(3)
    model = ConditionalLogit().fit(X, y, groups)
    by_row = (groups // 14).astype(object)
    by_row[np.flatnonzero(groups == groups[5])] = missing
    first = int(np.flatnonzero(groups == groups[5])[0])
    with pytest.raises(ValueError, match=f"cluster must name what .* got a missing value at position {first}"):
        model.covariance("cluster", by_row)
    by_situation = np.where(np.arange(80) == 7, np.nan, np.arange(80) % 9)
    with pytest.raises(ValueError, match="got a missing value at position 7"):
        model.summary("cluster", by_situation)
    with pytest.raises(ValueError, match="cluster must be of one type"):
        model.covariance("cluster", np.array([1] * 40 + ["a"] * 40, dtype=object))


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_situations_of_one_alternative_add_nothing(make):
    X, y, groups = ragged(4)
    plain = ConditionalLogit().fit(X, y, groups)
    more = np.concatenate([X, [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [9.0, 9.0, 9.0]]])
    chosen, which = np.append(y, [1, 1, 0]), np.append(groups, [-1, 9999, 9999])
    closed = np.append(np.zeros(len(X) + 2), -np.inf)
    model = ConditionalLogit().fit(make(more), chosen, which, offset=closed)
    assert model.result_.converged
    assert model.n_groups_ == plain.n_groups_ + 2
    assert_allclose(model.log_likelihood_, plain.log_likelihood_, rtol=1e-12)
    assert_allclose(model.null_log_likelihood_, plain.null_log_likelihood_, rtol=1e-12)
    assert_allclose(model.coef_, plain.coef_, rtol=1e-9)
    for kind in ("hessian", "robust"):
        assert_allclose(model.covariance(kind), plain.covariance(kind), rtol=1e-8)
    assert_allclose(model.predict_proba(more, which, offset=closed)[-3:], [1, 1, 0])
    assert_array_equal(model.predict(more, which, offset=closed)[-3:], [1, 1, 0])
    only = np.flatnonzero(which == -1)
    assert model.score(more[only], chosen[only], which[only]) == 0.0


def test_rows_of_wide_frames_may_have_one_alternative():
    wide, _ = small_frames()
    alone = wide.assign(bus_here=1, train_here=1)
    alone.loc[:3, ["car_here", "bus_here", "train_here"]] = 0
    alone.loc[:3, "bus_here"], alone.loc[:3, "mode"] = 1, "bus"
    here = {name: f"{name}_here" for name in ("bus", "car", "train")}
    varying = {"time": {a: f"time_{a}" for a in here}}
    how = dict(choice="mode", alternatives=list(here), varying=varying, availability=here)
    model = ConditionalLogit.from_wide(alone, **how)
    assert_allclose(model.coef_, ConditionalLogit.from_wide(alone[4:], **how).coef_, rtol=1e-8)
    assert_allclose(model.predict_proba(alone)[:4], [[1, 0, 0]] * 4)


def test_penalties_identify_everything():
    X = np.array([[1, 5], [3, 5], [2, 7], [0, 7], [1, 7]])
    model = ConditionalLogit(C=1.0).fit(X, GOOD["y"], GOOD["groups"])
    assert_allclose(model.coef_[1], 0.0, atol=1e-12)


def test_separation_is_said():
    with pytest.warns(ConvergenceWarning, match="separate"):
        model = ConditionalLogit().fit([[1.0], [0.0], [2.0], [1.0]], [1, 0, 1, 0], [0, 0, 1, 1])
    assert np.isfinite(model.coef_).all()
    assert not model.result_.converged
    assert np.isfinite(model.summary().estimates).all()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (dict(mode="plane"), r"choice must be one of .* got 'plane' at row 0"),
        (dict(mode="car", car_here=0), "row 0 chose 'car', which is not available there"),
        (dict(income=np.nan), r"income must be finite where an alternative is available, but is not at row 0"),
        (dict(income="much"), "column 'income' must hold numbers"),
    ],
)
def test_wide_frames_are_refused_by_row(change, sentence):
    wide, _ = small_frames()
    for name, value in change.items():
        wide[name] = [value, *wide[name][1:]]
    with pytest.raises(ValueError, match=sentence):
        fit_wide(wide)


def test_long_frames_are_refused_by_group():
    wide, long = small_frames()
    twice = long.assign(mode=["car", *long["mode"][1:]])
    with pytest.raises(ValueError, match=r"alternative 'car' stands 2 times in group 0 \(column 'mode'\)"):
        fit_long(twice)
    with pytest.raises(ValueError, match="features names the column 'speed'"):
        ConditionalLogit.from_long(long, choice="chosen", group="trip", features=["speed"])
    with pytest.raises(ValueError, match="by_alternative and base need alternative"):
        ConditionalLogit.from_long(long, choice="chosen", group="trip", by_alternative=["time"])
    with pytest.raises(ValueError, match="base must be one of"):
        fit_long(long, base="plane")
    with pytest.raises(TypeError, match="pandas or polars"):
        ConditionalLogit.from_long([1], choice="chosen", group="trip", features=["time"])
    with pytest.raises(ValueError, match="names 'plane', which is none of the alternatives"):
        ConditionalLogit.from_wide(wide, choice="mode", alternatives=["bus"], varying={"time": {"plane": "x"}})
    with pytest.raises(ValueError, match="no coefficient to fit"):
        ConditionalLogit.from_wide(wide, choice="mode", alternatives=["bus", "car", "train"], constants=False)


def test_a_sample_counts_everything_once():
    X, y, groups = ragged(16, situations=50, distinct=4)
    order = np.argsort(groups, kind="stable")
    data = majorant.Choices(X[order], np.unique(groups, return_counts=True)[1], target=y[order])
    sample = Sample.of(data)
    assert sample.total == 50
    assert_allclose(sample.sets.weight.sum(), 50)
    assert_array_equal(sample.sets.design.dense()[sample.chosen], X[order][y[order] == 1])

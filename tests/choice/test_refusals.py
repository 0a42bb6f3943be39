"""Choice models say no where data are wrong, and the same of the same data however they are written."""

import numpy as np
import pytest

from majorant import ConditionalLogit, LatentClassLogit
from majorant.core.result import Outcome

pandas = pytest.importorskip("pandas")

LABELS = ["bus", "car", "train"]


def long_frame(trips=80, seed=0):
    """Return trips by three modes; some cars are not there."""
    rng = np.random.default_rng(seed)
    df = pandas.DataFrame({"trip": np.repeat(np.arange(trips), 3), "mode": LABELS * trips})
    df["price"], df["income"] = rng.normal(size=len(df)), np.repeat(rng.normal(size=trips), 3)
    df["known"] = 2 * rng.normal(size=len(df))
    df["here"] = np.where(df["mode"] == "car", np.repeat(rng.uniform(size=trips) < 0.7, 3), True).astype(int)
    utility = np.where(df.here == 1, df.known - df.price + rng.gumbel(size=len(df)), -np.inf).reshape(-1, 3)
    df["chosen"] = (utility == utility.max(axis=1, keepdims=True)).astype(int).ravel()
    return df


def from_long(df, **more):
    return ConditionalLogit.from_long(
        df,
        choice="chosen",
        group="trip",
        alternative="mode",
        features=["price"],
        by_alternative=["income"],
        availability="here",
        **more,
    )


def panel(people=30, seed=0, shift=0.0):
    """Return X, y, groups and persons of two classes; features of a choice may be shifted together."""
    rng = np.random.default_rng(seed)
    tastes = np.array([[2.0, 0.0], [-1.0, 1.0]])[rng.integers(0, 2, people)]
    X = rng.normal(size=(people, 5, 3, 2))
    utility = np.einsum("itad,id->ita", X, tastes) + rng.gumbel(size=(people, 5, 3))
    y = (utility == utility.max(axis=2, keepdims=True)).astype(int).ravel()
    groups, persons = np.repeat(np.arange(people * 5), 3), np.repeat(np.arange(people), 15)
    moved = shift * rng.normal(size=people * 5)[groups]
    return X.reshape(-1, 2) + moved[:, None], y, groups, persons


def test_a_column_of_offsets_is_part_of_the_model(tmp_path):
    df = long_frame()
    model = from_long(df, offset="known")
    model.save(tmp_path / "model")
    for fitted in (model, ConditionalLogit.load(tmp_path / "model")):
        p = fitted.predict_proba(df)
        assert np.log(p[df.chosen == 1]).sum() == pytest.approx(model.log_likelihood_, rel=1e-12)
        likeliest = p.reshape(-1, 3).argmax(axis=1)
        np.testing.assert_array_equal(fitted.predict(df).reshape(-1, 3).argmax(axis=1), likeliest)
    # By how much shares change with a price, offsets as they are.
    step = 1e-6
    raised = df.assign(price=np.where(df["mode"] == "bus", df.price * (1 + step), df.price))
    shares, then = (model.predict_proba(each).reshape(-1, 3).sum(axis=0) for each in (df, raised))
    np.testing.assert_allclose(model.elasticities("price", df)[1][0], (then - shares) / shares / step, atol=1e-5)


@pytest.mark.parametrize("ask", ["predict_proba", "predict", "elasticities"])
def test_an_offset_that_a_data_frame_would_ignore_is_refused(ask):
    df = long_frame()
    arguments = ("price", df) if ask == "elasticities" else (df,)
    with pytest.raises(ValueError, match="offset is for arrays"):
        getattr(from_long(df), ask)(*arguments, offset=np.zeros(len(df)))


@pytest.mark.parametrize("filler", [np.nan, 0.0, 1e9])
def test_what_stands_at_alternatives_that_are_not_available_does_not_matter(filler):
    df, as_it_is = long_frame(), from_long(long_frame())
    df.loc[df.here == 0, ["price", "income"]] = filler
    model = from_long(df)
    assert model.param_names_ == as_it_is.param_names_
    np.testing.assert_allclose(model.coef_, as_it_is.coef_, rtol=1e-7)


def test_missing_availability_and_alternatives_are_refused():
    df = long_frame()
    with pytest.raises(ValueError, match="column 'here' is missing at row 1"):
        from_long(df.assign(here=np.where(np.arange(len(df)) == 1, np.nan, df.here)))
    with pytest.raises(ValueError, match="column 'mode' has a missing value at row 1"):
        from_long(df.assign(mode=df["mode"].astype(object).where(np.arange(len(df)) != 1, None)))


def test_a_wide_column_of_availability_may_have_a_number_for_a_name():
    rng = np.random.default_rng(0)
    wide = pandas.DataFrame({"inc": rng.integers(0, 2, 200), "there": rng.integers(0, 2, 200)})
    utility = rng.gumbel(size=(200, 3))
    utility[wide.there == 0, 0] = -np.inf
    wide["choice"] = np.array(LABELS)[utility.argmax(axis=1)]
    named = {"choice": "choice", "alternatives": LABELS, "fixed": ["inc"]}
    expected = ConditionalLogit.from_wide(wide, **named, availability={"bus": "there"})
    model = ConditionalLogit.from_wide(wide.rename(columns={"there": 7}), **named, availability={"bus": 7})
    assert model.log_likelihood_ == pytest.approx(expected.log_likelihood_, rel=1e-12)


def test_what_is_not_finite_in_a_wide_frame_is_said_by_its_row():
    rng = np.random.default_rng(0)
    wide = pandas.DataFrame({"choice": rng.choice(LABELS, 50), "fast": rng.normal(size=50), "slow": np.arange(50.0)})
    wide.loc[17, "fast"] = np.nan
    varying = {"time": {"bus": "slow", "car": "fast", "train": 1.0}}
    with pytest.raises(ValueError, match="time must be finite where an alternative is available, but is not at row 17"):
        ConditionalLogit.from_wide(wide, choice="choice", alternatives=LABELS, varying=varying)


@pytest.mark.parametrize("alternatives", [["bus", "bus", "car"], {1: "bus", 2: "bus"}, [], ["bus"]])
def test_wide_alternatives_have_to_differ(alternatives):
    with pytest.raises(ValueError, match="alternatives must have at least two names, all different"):
        ConditionalLogit.from_wide(pandas.DataFrame({"choice": LABELS}), choice="choice", alternatives=alternatives)


def test_elasticities_of_an_alternative_that_stands_twice_in_a_group_are_refused():
    df = long_frame()
    model = ConditionalLogit().fit(df[["price"]], df.chosen, df.trip)
    with pytest.raises(ValueError, match="alternatives must be different within each group"):
        model.elasticities("price", df[["price"]], df.trip, ["a", "a", "b"] * 80)


def test_likelihood_ratios_are_between_fits_of_one_kind_to_the_same_alternatives():
    df = long_frame()
    columns = {"choice": "chosen", "group": "trip", "alternative": "mode", "features": ["price"]}
    everywhere, there = ConditionalLogit.from_long(df, **columns), from_long(df)
    with pytest.raises(ValueError, match="same alternatives and offsets"):
        there.likelihood_ratio_test(everywhere)
    X, y, groups, _ = panel()
    with pytest.raises(ValueError, match="compare AIC or BIC"):
        ConditionalLogit().fit(X, y, groups).likelihood_ratio_test(LatentClassLogit(n_init=1).fit(X, y, groups))


@pytest.mark.parametrize("weight", [np.nan, np.inf, "heavy"])
@pytest.mark.parametrize("estimator", [ConditionalLogit(), LatentClassLogit()])
def test_weights_that_are_none_are_refused_by_name(estimator, weight):
    X, y, groups, _ = panel()
    with pytest.raises(ValueError, match=r"sample_weight must be (numeric|non-negative, finite)"):
        estimator.fit(X, y, groups, sample_weight=[weight] * len(y))


@pytest.mark.parametrize("nobody", [None, np.nan])
def test_a_choice_that_nobody_made_is_refused(nobody):
    X, y, groups, persons = panel()
    named = persons.astype(object)
    named[persons == 3] = nobody
    with pytest.raises(ValueError, match="persons must name who made each choice, got a missing value at row 45"):
        LatentClassLogit().fit(X, y, groups, named)


def test_membership_is_told_by_its_names_and_is_one_for_a_group():
    X, y, groups, persons = panel()
    rng = np.random.default_rng(1)
    known = pandas.DataFrame(rng.normal(size=(30, 2))[persons], columns=["age", "income"])
    model = LatentClassLogit(n_init=1).fit(X, y, groups, persons, membership=known)
    np.testing.assert_allclose(np.bincount(groups, model.predict_proba(X, groups, membership=known)), 1.0)
    np.testing.assert_array_equal(
        model.predict_proba(X, groups, membership=known), model.predict_proba(X, groups, membership=known.to_numpy())
    )
    with pytest.raises(ValueError, match="membership must have the columns of the fit in their order"):
        model.predict_proba(X, groups, membership=known[["income", "age"]])
    with pytest.raises(ValueError, match="membership must be the same for all rows of a group"):
        model.predict_proba(X, groups, membership=rng.normal(size=(len(X), 2)))


@pytest.mark.parametrize("weights", [[5.0, 5.0], [np.nan, 1.0], [-1.0, 2.0]])
def test_weights_of_classes_are_probabilities(weights):
    X, y, groups, persons = panel()
    model = LatentClassLogit(n_init=1).fit(X, y, groups, persons)
    with pytest.raises(ValueError, match="weights must be probabilities of the classes"):
        model.predict_proba(X, groups, weights=np.tile(weights, (len(X), 1)))
    with pytest.raises(ValueError, match="weights must be the same for all rows of a group"):
        model.predict_proba(X, groups, weights=np.eye(2)[np.arange(len(X)) % 2])


@pytest.mark.parametrize("shift", [1e5, 1e8])
def test_features_that_are_large_in_whole_groups_are_no_harder(shift):
    expected = LatentClassLogit(n_init=2).fit(*panel())
    model = LatentClassLogit(n_init=2).fit(*panel(shift=shift))
    assert model.result_.outcome is Outcome.STATIONARY
    assert model.log_likelihood_ == pytest.approx(expected.log_likelihood_, abs=1e-5)
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-4)


def test_classes_whose_choices_are_separated_are_said_to_be():
    X, _, groups, persons = panel()
    largest = X[:, 0].reshape(-1, 3) == X[:, 0].reshape(-1, 3).max(axis=1, keepdims=True)
    with pytest.warns(match="completely separated.*use a finite C"):
        model = LatentClassLogit(1).fit(X, largest.ravel(), groups, persons)
    assert model.result_.outcome is Outcome.UNBOUNDED
    assert LatentClassLogit(1, C=10.0).fit(X, largest.ravel(), groups, persons).result_.outcome is Outcome.CONVERGED


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("seed", range(4))
def test_single_precision_is_no_reason_to_warn(seed):
    X, y, groups, _ = panel(people=60, seed=seed)
    model = ConditionalLogit().fit(X.astype(np.float32), y, groups)
    assert model.result_.outcome is Outcome.CONVERGED
    np.testing.assert_allclose(model.coef_, ConditionalLogit().fit(X, y, groups).coef_, atol=1e-5)

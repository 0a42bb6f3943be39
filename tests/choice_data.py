"""Choice data whose estimates are published, and random ones with naive oracles."""

import json

import numpy as np
import pytest

from tests.problems import shared_data

ELECTRICITY = ["pf", "cl", "loc", "wk", "tod", "seas"]


def published(name):
    return json.loads(shared_data("choice/published.json").read_text())["models"][name]


def electricity():
    pandas = pytest.importorskip("pandas")
    return pandas.read_csv(shared_data("choice/electricity.csv.gz"))


def mode_canada():
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv(shared_data("choice/ModeCanada.csv.gz"))
    return frame[frame.noalt == 4]


def swissmetro():
    pandas = pytest.importorskip("pandas")
    s = pandas.read_csv(shared_data("choice/swissmetro.dat.gz"), sep="\t")
    s = s[s.PURPOSE.isin([1, 3]) & (s.CHOICE != 0)]
    paid, free = ~((s.GA == 1) | (s.WHO == 2)), s.GA == 1
    return s.assign(
        train_time=s.TRAIN_TT / 100,
        sm_time=s.SM_TT / 100,
        car_time=s.CAR_TT / 100,
        train_cost=s.TRAIN_CO * ~free / 100,
        sm_cost=s.SM_CO * ~free / 100,
        car_cost=s.CAR_CO / 100,
        train_open=s.TRAIN_AV * (s.SP != 0),
        car_open=s.CAR_AV * (s.SP != 0),
        train_hours=s.TRAIN_TT / 60,
        sm_hours=s.SM_TT / 60,
        car_hours=s.CAR_TT / 60,
        train_paid=s.TRAIN_CO * paid / 100,
        sm_paid=s.SM_CO * paid / 100,
        train_headway=s.TRAIN_HE / 60,
        sm_headway=s.SM_HE / 60,
        by_rail=1 - s.SURVEY,
        not_first=1 - s.FIRST,
        luggage1=s.LUGGAGE == 1,
        luggage3=s.LUGGAGE == 3,
    )


SWISSMETRO_14 = {
    "time_train_sm": {"train": "train_hours", "sm": "sm_hours"},
    "time_car": {"car": "car_hours"},
    "cost_train": {"train": "train_paid"},
    "cost_sm": {"sm": "sm_paid"},
    "cost_car": {"car": "car_cost"},
    "headway_train": {"train": "train_headway"},
    "headway_sm": {"sm": "sm_headway"},
    "seats_sm": {"sm": "SM_SEATS"},
    "survey_train_sm": {"train": "by_rail", "sm": "by_rail"},
    "not_first_train": {"train": "not_first"},
    "luggage1_car": {"car": "luggage1"},
    "luggage3_car": {"car": "luggage3"},
}


def ragged(seed=0, situations=80, features=3, largest=5, distinct=None, theta=None):
    """Return X, y, groups of random situations, shuffled; of ``distinct`` different ones if that is given."""
    rng = np.random.default_rng(seed)
    kinds = distinct or situations
    sets = [rng.normal(size=(rng.integers(2, largest + 1), features)) for _ in range(kinds)]
    theta = rng.normal(size=features) if theta is None else theta
    X, y, groups = [], [], []
    for j in range(situations):
        F = sets[j % kinds]
        p = np.exp(F @ theta)
        y.append(np.eye(len(F))[rng.choice(len(F), p=p / p.sum())])
        X.append(F)
        groups.append(np.full(len(F), 7 * j))
    X, y, groups = np.concatenate(X), np.concatenate(y), np.concatenate(groups)
    shuffled = rng.permutation(len(X))
    return X[shuffled], y[shuffled], groups[shuffled]


def log_likelihood(theta, X, y, groups, weight=None):
    """The sum over situations, one at a time."""
    total = 0.0
    for group in np.unique(groups):
        at = groups == group
        s = X[at] @ theta
        of_group = y[at] @ s - y[at].sum() * np.log(np.exp(s).sum())
        total += of_group if weight is None else weight[at][0] * of_group
    return total

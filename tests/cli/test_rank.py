"""``majorant rank`` and ``majorant balance``: the tables of the estimators, and refusals in one line."""

import json

import numpy as np
import pytest

from majorant import EntropyBalancing, PairedComparison
from majorant.choice import paired
from majorant.cli import rank
from tests.commands import call, read, write


@pytest.fixture
def battles(tmp_path):
    rng = np.random.default_rng(0)
    names = np.array(["ant", "bee", "cow", "dog"])
    a = rng.integers(4, size=200)
    b = (a + 1 + rng.integers(3, size=200)) % 4
    won = rng.random(200) < 1 / (1 + np.exp(0.5 * (b - a)))
    winner = np.where(rng.random(200) < 0.1, "tie", np.where(won, "model_a", "model_b"))
    columns = {"model_a": names[a], "model_b": names[b], "winner": winner, "judge": np.arange(200) % 20}
    columns["length"] = np.round(rng.normal(size=200), 3)
    write(tmp_path / "battles.csv", columns)
    return tmp_path / "battles.csv", columns


OPTIONS = ("--a", "model_a", "--b", "model_b", "--winner", "winner")


def test_options_are_those_of_the_estimator():
    assert rank.TIES == paired.TIES
    for scale in rank.SCALES:
        PairedComparison(scale=scale)._check_settings()


def test_ratings_are_printed_and_written(battles, tmp_path):
    path, columns = battles
    said = call("rank", path, *OPTIONS, "--covariates", "length", "--out", tmp_path / "ratings.csv")
    model = PairedComparison.from_battles(
        columns, a="model_a", b="model_b", winner="winner", covariates=["length"], scale="elo"
    )
    assert said.split("\n")[1].split()[0] == model.ratings_.players[0]
    assert "length: " in said
    assert "ratings are certified to be within" in said
    written = read(tmp_path / "ratings.csv")
    assert [row["player"] for row in written] == list(model.ratings_.players)
    assert np.allclose([float(row["rating"]) for row in written], model.ratings_["rating"])


def test_ranks_have_intervals(battles):
    path, _ = battles
    out = call("rank", path, *OPTIONS, "--bootstrap", 100, "--cluster", "judge", "--json", "--ties", "davidson")
    found = json.loads(out)
    assert {"rank low", "rank high", "std_error"} <= found["ratings"][0].keys()
    assert found["ratings"][0]["rank low"] == 1
    assert "tie" in found["coefficients"]
    said = call("rank", path, *OPTIONS, "--bootstrap", 100, "--scale", "logit", "--anchor", "ant")
    assert "100 multinomial replicates" in said
    assert call("rank", path, *OPTIONS, "--out", "-").startswith("player,rating,")


def test_what_cannot_be_rated_is_one_line(tmp_path):
    write(tmp_path / "b.csv", {"a": ["x", "y"], "b": ["y", "z"], "w": ["x", "q"]})
    columns = ("--a", "a", "--b", "b", "--winner", "w")
    assert "column 'w' must name the winner" in call("rank", tmp_path / "b.csv", *columns, code=1)
    write(tmp_path / "b.csv", {"a": ["x", "y"], "b": ["y", "z"], "w": ["x", "y"]})
    assert "'x' never lost" in call("rank", tmp_path / "b.csv", *columns, code=1)
    write(tmp_path / "b.csv", {"a": ["x", "y"], "b": ["y", "z"], "w": ["x", ""]})
    assert "column 'w' of" in call("rank", tmp_path / "b.csv", *columns, code=1)
    assert "--cluster goes with --bootstrap" in call("rank", tmp_path / "b.csv", *columns, "--cluster", "a", code=2)


@pytest.fixture
def sample(tmp_path):
    rng = np.random.default_rng(1)
    columns = {"id": np.arange(100), "sex": rng.choice(["f", "m"], 100, p=[0.3, 0.7]), "base": rng.uniform(1, 2, 100)}
    columns["income"] = rng.exponential(10, 100).round(3)
    write(tmp_path / "sample.csv", columns)
    margins = {"variable": ["sex", "sex", "income"], "category": ["f", "m", ""], "share": [0.5, 0.5, 12]}
    write(tmp_path / "margins.csv", margins)
    return tmp_path, columns


def test_weights_are_written(sample):
    folder, columns = sample
    options = ("--targets", folder / "margins.csv", "--base-weight", "base", "--max-ratio", 4)
    said = call("balance", folder / "sample.csv", *options, "--out", folder / "weights.csv", "--keep", "id")
    assert "balanced in" in said
    assert "weights written to" in said
    margins = {"sex": {"f": 0.5, "m": 0.5}, "income": 12.0}
    fitted = EntropyBalancing.from_margins(columns, margins, columns["base"], max_ratio=4.0)
    written = read(folder / "weights.csv")
    assert [row["id"] for row in written] == [str(each) for each in columns["id"]]
    assert np.allclose([float(row["weight"]) for row in written], fitted.weights_)
    found = json.loads(call("balance", folder / "sample.csv", *options, "--json"))
    assert found["converged"] is True
    assert found["margins"]["sex=f"]["after"] == pytest.approx(0.5)


def test_targets_that_cannot_be_reached_are_one_line(sample):
    folder, _ = sample
    path = folder / "sample.csv"
    write(folder / "margins.csv", {"variable": ["income"], "category": [""], "share": [1e6]})
    said = call("balance", path, "--targets", folder / "margins.csv", code=1)
    assert "targets are infeasible, which is proved: values of 'income' lie between" in said
    write(folder / "margins.csv", {"variable": ["sex", "sex"], "category": ["f", ""], "share": [0.5, 1]})
    assert "gives 'sex' a mean beside other targets" in call(
        "balance", path, "--targets", folder / "margins.csv", code=1
    )
    write(folder / "margins.csv", {"variable": ["sex"], "category": ["f"], "share": [1]})
    assert "has no share in the margins" in call("balance", path, "--targets", folder / "margins.csv", code=1)
    assert "it is the file to be read" in call(
        "balance", path, "--targets", folder / "margins.csv", "--out", path, code=1
    )

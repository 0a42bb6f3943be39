"""Ratings against ConditionalLogit, brute force and published numbers; bad input; resampling."""

from itertools import permutations

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st

from majorant import ConditionalLogit, PairedComparison

# Citations among four journals of statistics (Agresti, Categorical Data Analysis, 2nd ed., table 10.10), as R's
# BradleyTerry2 has them: who was cited how often by whom.
CITATIONS = [
    ("Biometrika", "Comm Statist", 730, 33),
    ("Biometrika", "JASA", 498, 320),
    ("Biometrika", "JRSS-B", 221, 284),
    ("Comm Statist", "JASA", 68, 813),
    ("Comm Statist", "JRSS-B", 17, 276),
    ("JASA", "JRSS-B", 142, 325),
]


def battles(rng, n=400, players=6, covariates=0):
    theta = rng.normal(size=players)
    a = rng.integers(players, size=n)
    b = (a + 1 + rng.integers(players - 1, size=n)) % players
    C = rng.normal(size=(n, covariates))
    beta = rng.normal(size=covariates) * 0.5
    won = rng.random(n) < 1 / (1 + np.exp(theta[b] - theta[a] - C @ beta))
    return np.where(won, a, b), np.where(won, b, a), np.where(won[:, None], C, -C)


def negative(theta, winner, loser, C, tie=None, nu=None):
    """Return −log-likelihood written out battle by battle."""
    P = int(max(winner.max(), loser.max())) + 1
    rating, beta, total = theta[:P], theta[P + (nu is not None) :], 0.0
    for k in range(len(winner)):
        s = rating[winner[k]] - rating[loser[k]] + C[k] @ beta
        if tie is None:
            total += np.log1p(np.exp(-s))
        else:
            scores = np.array([s / 2, -s / 2, theta[P]])
            total += np.log(np.exp(scores).sum()) - scores[2 if tie[k] else 0]
    return total


def test_published_ratings_of_journals():
    wins = [(a, b, n) for a, b, n, _ in CITATIONS] + [(b, a, n) for a, b, _, n in CITATIONS]
    winner, loser, count = map(np.array, zip(*wins, strict=True))
    model = PairedComparison(anchor="Biometrika").fit(winner, loser, weight=count)
    found = dict(
        zip(
            model.ratings_.players, zip(model.ratings_["rating"], model.ratings_["std_error"], strict=True), strict=True
        )
    )
    published = {"JASA": (-0.47957, 0.06059), "Comm Statist": (-2.94907, 0.10255), "JRSS-B": (0.26895, 0.07083)}
    for name, numbers in published.items():
        assert np.allclose(found[name], numbers, atol=6e-6)
    assert found["Biometrika"] == (0.0, 0.0)
    # Written out row by row is the same: weights are repetitions.
    again = PairedComparison(anchor="Biometrika").fit(np.repeat(winner, count), np.repeat(loser, count))
    assert np.allclose(again.coef_, model.coef_, atol=1e-10)
    assert np.allclose(again.covariance(), model.covariance(), atol=1e-12)


def test_is_the_conditional_logit_of_pairs():
    rng = np.random.default_rng(1)
    winner, loser, C = battles(rng, covariates=2)
    model = PairedComparison().fit(winner, loser, covariates=C)
    n, P = len(winner), 6
    X = np.zeros((n, 2, P - 1 + 2))
    for k in range(n):
        for side, player in enumerate((winner[k], loser[k])):
            if player:
                X[k, side, player - 1] = 1
    X[:, 0, P - 1 :] = C
    long = ConditionalLogit().fit(X.reshape(2 * n, -1), np.tile([1, 0], n), np.repeat(np.arange(n), 2))
    assert np.allclose(model.coef_[1:P] - model.coef_[0], long.coef_[: P - 1], atol=1e-7)
    assert np.allclose(model.coef_[P:], long.coef_[P - 1 :], atol=1e-7)
    assert model.log_likelihood_ == pytest.approx(long.log_likelihood_, rel=1e-10)
    T = np.zeros((P - 1 + 2, P + 2))
    T[: P - 1, 1:P], T[: P - 1, 0], T[P - 1 :, P:] = np.eye(P - 1), -1, np.eye(2)
    clusters = rng.integers(20, size=n)
    for kind, more in (("hessian", {}), ("robust", {}), ("cluster", {"cluster": clusters})):
        ours = T @ model.covariance(kind, **more) @ T.T
        assert np.allclose(ours, long.covariance(kind, **more), rtol=1e-6, atol=1e-10), kind


def test_davidson_ties_by_brute_force():
    rng = np.random.default_rng(2)
    winner, loser, C = battles(rng, n=120, players=4, covariates=1)
    tie = rng.random(120) < 0.3
    model = PairedComparison(ties="davidson").fit(winner, loser, tie=tie, covariates=C)
    best = scipy.optimize.minimize(negative, np.zeros(6), (winner, loser, C, tie, True), method="BFGS", tol=1e-9)
    assert -model.log_likelihood_ == pytest.approx(best.fun, rel=1e-8)
    assert np.allclose(model.coef_[:4], best.x[:4] - best.x[:4].mean(), atol=1e-4)
    assert np.allclose(model.coef_[4:], best.x[4:], atol=1e-4)
    p = model.predict_proba([0, 1], [1, 0])
    assert np.allclose(p.sum(axis=1), 1)
    assert np.allclose(p[0], p[1, ::-1])


def test_half_ties_are_half_wins_and_dropped_ones_are_gone():
    rng = np.random.default_rng(3)
    winner, loser, _ = battles(rng)
    tie = rng.random(len(winner)) < 0.2
    half = PairedComparison().fit(winner, loser, tie=tie)
    both = np.concatenate([winner, loser[tie]]), np.concatenate([loser, winner[tie]])
    weight = np.concatenate([np.where(tie, 0.5, 1.0), np.full(tie.sum(), 0.5)])
    assert np.allclose(half.coef_, PairedComparison().fit(*both, weight=weight).coef_, atol=1e-8)
    dropped = PairedComparison(ties="drop").fit(winner, loser, tie=tie)
    assert np.allclose(dropped.coef_, PairedComparison().fit(winner[~tie], loser[~tie]).coef_, atol=1e-10)
    # Clusters are of all battles that were given.
    assert dropped.covariance("cluster", cluster=np.arange(len(tie)) % 30).shape == (6, 6)


def test_rankings_of_two_are_battles_and_longer_ones_are_choices():
    rng = np.random.default_rng(4)
    winner, loser, _ = battles(rng)
    pairs = PairedComparison.from_rankings(np.stack([winner, loser], axis=1))
    assert np.allclose(pairs.coef_, PairedComparison().fit(winner, loser).coef_, atol=1e-9)
    theta = rng.normal(size=5)
    orders = [np.argsort(-(theta + rng.gumbel(size=5)))[: rng.integers(2, 6)] for _ in range(150)]
    model = PairedComparison.from_rankings(orders)
    X, y, groups, stage = [], [], [], 0
    for order in orders:
        for k in range(len(order) - 1):
            for player in order[k:]:
                X.append(np.eye(5)[player, 1:])
                y.append(player == order[k])
                groups.append(stage)
            stage += 1
    long = ConditionalLogit().fit(np.array(X), np.array(y), np.array(groups))
    assert np.allclose(model.coef_[1:] - model.coef_[0], long.coef_, atol=1e-7)
    assert model.log_likelihood_ == pytest.approx(long.log_likelihood_, rel=1e-9)


def test_split_ties_are_the_mean_of_all_orders():
    orders = [["a", "b", "c"], ["c", "a", "b"], ["b", "c", "a"], ["a", ["b", "c", "d"]], ["d", "a", "c"]]
    split = PairedComparison.from_rankings(orders, ties="split")
    written = [order for order in orders if "d" not in order[1]]
    weight = [1.0] * len(written)
    for tail in permutations(["b", "c", "d"]):
        written.append(["a", *tail])
        weight.append(1 / 6)
    assert np.allclose(split.coef_, PairedComparison.from_rankings(written, weight=weight).coef_, atol=1e-8)
    with pytest.raises(ValueError, match="ranking 3 holds tied players: break the tie, or say ties='split'"):
        PairedComparison.from_rankings(orders)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6))
def test_order_of_battles_and_names_does_not_matter(seed):
    rng = np.random.default_rng(seed)
    winner, loser, C = battles(rng, n=300, players=5, covariates=1)
    one = PairedComparison(C=10.0).fit(winner, loser, covariates=C)
    order, names = rng.permutation(300), np.array(["q", "b", "z", "a", "k"])
    other = PairedComparison(C=10.0).fit(names[winner][order], names[loser][order], covariates=1000 * C[order])
    by_name = dict(zip(other.players_, other.coef_, strict=False))
    assert np.allclose([by_name[name] for name in names], one.coef_[:5], atol=1e-7)
    assert other.coef_[5] == pytest.approx(one.coef_[5] / 1000, rel=1e-5, abs=1e-9)


def test_scales_and_anchors():
    winner, loser, _ = battles(np.random.default_rng(5))
    logit, elo = PairedComparison().fit(winner, loser), PairedComparison(scale="elo").fit(winner, loser)
    assert np.allclose(elo.ratings_["rating"], 1000 + 400 / np.log(10) * logit.ratings_["rating"])
    assert elo.ratings_["rating"].mean() == pytest.approx(1000)
    fixed = PairedComparison(scale="elo", anchor={3: 1500}).fit(winner, loser)
    assert fixed.ratings_["rating"][fixed.ratings_.players.index(3)] == 1500
    assert np.allclose(np.diff(fixed.ratings_["rating"]), np.diff(elo.ratings_["rating"]))
    assert fixed.compare(0, 1).std_error == pytest.approx(elo.compare(0, 1).std_error)
    table = elo.pairwise()
    best, second = elo.ratings_.players[:2]
    assert table["difference"][0] == pytest.approx(elo.compare(best, second).estimate)
    assert table["std_error"][0] == pytest.approx(elo.compare(best, second).std_error)


def test_many_battles_are_begun_by_a_tenth_of_them(monkeypatch):
    winner, loser, C = battles(np.random.default_rng(11), n=3000, covariates=1)
    plain = PairedComparison(tol=1e-10).fit(winner, loser, covariates=C)
    monkeypatch.setattr("majorant.choice.paired.MANY", 10)
    begun = PairedComparison(tol=1e-10).fit(winner, loser, covariates=C)
    assert begun.n_iter_ < plain.n_iter_
    assert np.allclose(begun.coef_, plain.coef_, atol=1e-10)


def test_covariates_of_players_take_up_what_they_explain():
    rng = np.random.default_rng(6)
    size = rng.normal(size=30)
    a, b = rng.integers(30, size=4000), rng.integers(30, size=4000)
    a, b = a[a != b], b[a != b]
    won = rng.random(len(a)) < 1 / (1 + np.exp(1.5 * (size[b] - size[a])))
    covariates = {player: [size[player]] for player in range(30)}
    model = PairedComparison(C=0.1)
    model.fit(np.where(won, a, b), np.where(won, b, a), player_covariates=covariates)
    assert model.param_names_[-1] == "z0"
    assert model.coef_[-1] == pytest.approx(1.5, abs=0.15)
    with pytest.raises(ValueError, match=r"player_covariates are not told apart .* finite C"):
        PairedComparison().fit(np.where(won, a, b), np.where(won, b, a), player_covariates=covariates)


def test_from_battles_reads_what_arenas_write():
    frame = {"a": np.array(["x", "y", "x", "z", "x", "z"]), "b": np.array(["y", "z", "z", "x", "y", "y"])}
    shares = [1.0, 0.5, 0.0, 0.0, 0.0, 1.0]
    for won in (
        ["x", "tie", "z", "x", "y", "z"],
        ["a", "tie (bothbad)", "b", "b", "b", "a"],
        shares,
    ):
        model = PairedComparison.from_battles(frame | {"won": won}, a="a", b="b", winner="won")
        written = PairedComparison().fit(
            ["x", "y", "z", "x", "y", "z"], ["y", "z", "x", "z", "x", "y"], tie=np.arange(6) == 1
        )
        assert np.allclose(model.coef_, written.coef_, atol=1e-12)


def test_bootstrap_is_a_refit_with_weights():
    rng = np.random.default_rng(7)
    winner, loser, C = battles(rng, n=2000, covariates=1)
    model = PairedComparison(scale="elo").fit(winner, loser, covariates=C)
    found = model.bootstrap(200, seed=3)
    assert found.within <= 5e-3
    assert not found.separated
    assert not found.unresolved
    # The first replicate, drawn again by hand; battles are drawn in the order in which the model has them.
    drawn = np.bincount(np.random.default_rng([3, 0]).integers(2000, size=2000), minlength=2000)
    weight = drawn[model._battles.observations.unit_of].astype(float)
    again = PairedComparison(scale="elo", tol=1e-10).fit(winner, loser, covariates=C, weight=weight)
    rating = dict(zip(again.ratings_.players, again.ratings_["rating"], strict=True))
    off = np.abs(found.replicates[0, :6] - [rating[player] for player in range(6)])
    assert off.max() < 5e-3 * found.std_errors[:6].max()
    errors = np.sqrt(np.diag(model.covariance("robust")))
    assert np.allclose(found.infinitesimal[-1], errors[-1], rtol=1e-8)
    assert np.allclose(found.std_errors, found.infinitesimal, rtol=0.25)
    percentile, bca = found.interval(0.9), found.interval(0.9, "bca")
    assert np.allclose(percentile, bca, atol=0.6 * found.std_errors[:, None])
    assert (percentile[:, 0] < found.estimates).all()
    ranks = model.rank_
    assert (ranks["low"] <= ranks["rank"]).all()
    assert (ranks["rank"] <= ranks["high"]).all()
    assert np.array_equal(model.bootstrap(20, seed=3).replicates, found.replicates[:20])


@pytest.mark.parametrize("covariates", [0, 1])
def test_jackknife_leaves_everyone_out_once(covariates):
    rng = np.random.default_rng(8)
    winner, loser, C = battles(rng, n=150, players=4, covariates=covariates)
    more = {"covariates": C} if covariates else {}
    model = PairedComparison().fit(winner, loser, **more)
    found = model.bootstrap(kind="jackknife")
    fits = []
    for k in range(150):
        kept = np.arange(150) != k
        part = {"covariates": C[kept]} if covariates else {}
        fits.append(PairedComparison(tol=1e-9).fit(winner[kept], loser[kept], **part).coef_)
    written = np.sqrt(149 / 150 * ((np.array(fits) - np.mean(fits, axis=0)) ** 2).sum(axis=0))
    assert np.allclose(found.std_errors, written, rtol=2e-3)
    with pytest.raises(ValueError, match="a jackknife has no quantiles"):
        found.interval(0.9, "bca")


def test_separated_replicates_are_counted():
    winner = np.array([0, 0, 0, 1, 1, 2, 2, 0, 1, 2])
    loser = np.array([1, 1, 2, 0, 2, 1, 0, 2, 2, 1])
    model = PairedComparison().fit(winner, loser)
    found = model.bootstrap(200)
    assert found.separated > 0
    assert found.unresolved == 0
    assert len(found.replicates) + found.separated == 200
    assert f"{found.separated} more have no maximum-likelihood estimate (separated)" in str(found)
    bayesian = model.bootstrap(200, kind="bayesian")
    assert bayesian.separated == 0
    assert len(bayesian.replicates) == 200


def test_clusters_are_drawn_as_they_are():
    rng = np.random.default_rng(9)
    winner, loser, _ = battles(rng, n=100)
    judge = np.repeat(np.arange(25), 40)
    twice = np.tile(winner, 10), np.tile(loser, 10)
    model = PairedComparison().fit(*twice)
    apart = model.bootstrap(100, cluster=np.arange(1000)).std_errors
    together = model.bootstrap(100, cluster=np.tile(np.arange(100), 10)).std_errors
    assert (together > 2 * apart).all()
    assert "every cluster has one observation" in str(model.bootstrap(5, cluster=np.arange(1000)))
    assert "every cluster" not in str(model.bootstrap(5, cluster=np.arange(1000) // 2))
    assert len(model.bootstrap(10, cluster=judge, kind="bayesian").replicates) == 10


BAD = {
    "one player": (["x"], ["x"], {}, "battle 0 is one of 'x' against itself"),
    "self": (["x", "y"], ["y", "y"], {}, r"battle 1 is one of 'y' against itself; drop it \(1 such\)"),
    "nobody": ([], [], {}, "at least one battle, got none"),
    "groups": (
        ["a", "b", "c", "d"],
        ["b", "a", "d", "c"],
        {},
        "players fall into 2 groups that never met: 'a', 'b' met none of the others",
    ),
    "never lost": (
        ["x", "x", "y", "z"],
        ["y", "z", "z", "y"],
        {},
        "'x' never lost; 'y', 'z' never won .* or give a finite C",
    ),
    "never won": (["x", "y", "x", "y"], ["y", "x", "z", "z"], {}, "'z' never won: .*leave these players out"),
    "ties dropped": (
        ["x"],
        ["y"],
        {"tie": [True], "ties": "drop"},
        "all battles are ties, and ties='drop' leaves none",
    ),
    "ties alone": (["x"], ["y"], {"tie": [True], "ties": "davidson"}, "all battles are ties: ties='davidson' tells"),
    "no ties": (["x"], ["y"], {"ties": "davidson"}, "ties='davidson' needs ties, and there are none"),
    "weights": (["x", "y"], ["y", "x"], {"weight": [1.0, -1.0]}, "weight must be non-negative, got -1"),
    "anchor": (["x", "y"], ["y", "x"], {"anchor": "q"}, "anchor must be one of the players, got 'q'"),
    "covariate": (
        ["x", "y", "x", "y"],
        ["y", "x", "y", "x"],
        {"covariates": [[1.0], [-1.0], [1.0], [-1.0]]},
        "covariate 'x0' follows from the players",
    ),
    "separated": (
        ["x", "y", "x", "y"],
        ["y", "x", "y", "x"],
        {"covariates": [[1.0], [1.0], [2.0], [3.0]]},
        r"explain every battle of a kind \(separation\)",
    ),
    "names": ([None, "y"], ["y", "x"], {}, "players must have names, got None in battle 0"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_battles_are_named_and_change_nothing(case):
    winner, loser, more, sentence = BAD[case]
    of_class = {name: more[name] for name in ("ties", "anchor") if name in more}
    of_fit = {name: np.array(value) for name, value in more.items() if name not in of_class}
    model = PairedComparison(**of_class)
    before = dict(vars(model))
    with pytest.raises(ValueError, match=sentence):
        model.fit(np.array(winner, dtype=object), np.array(loser, dtype=object), **of_fit)
    assert vars(model) == before


def test_all_ties_by_halves_are_equal_ratings():
    model = PairedComparison().fit(["x", "y"], ["y", "z"], tie=np.array([True, True]))
    assert np.allclose(model.coef_, 0)


def test_a_penalty_rates_who_never_lost():
    model = PairedComparison(C=1.0).fit(["x", "x", "y"], ["y", "z", "z"])
    assert model.ratings_.players == ("x", "y", "z")
    assert "penalised" in str(model.summary())


def test_unknown_winner_and_column():
    frame = {"a": ["x", "y"], "b": ["y", "x"], "won": ["x", "q"]}
    with pytest.raises(ValueError, match=r"column 'won' must name the winner.* got 'q' in row 1"):
        PairedComparison.from_battles(frame, a="a", b="b", winner="won")
    with pytest.raises(ValueError, match="there is no column 'who'; there are a, b, won"):
        PairedComparison.from_battles(frame, a="a", b="b", winner="who")
    model = PairedComparison().fit(["x", "y"], ["y", "x"])
    with pytest.raises(ValueError, match="'q' is no player of the fit; players are x, y"):
        model.predict_proba("q", "x")
    with pytest.raises(ValueError, match="cluster must name at least two clusters"):
        model.bootstrap(10, cluster=["c", "c"])


def test_files_and_pictures(tmp_path):
    winner, loser, C = battles(np.random.default_rng(10), covariates=1)
    model = PairedComparison(scale="elo").fit(winner, loser, covariates=C)
    model.save(tmp_path / "ratings.npz")
    loaded = PairedComparison.load(tmp_path / "ratings.npz")
    assert str(loaded.ratings_) == str(model.ratings_)
    assert np.array_equal(
        loaded.predict_proba([0], [1], covariates=[[2.0]]), model.predict_proba([0], [1], covariates=[[2.0]])
    )
    with pytest.raises(ValueError, match="needs the battles of the fit"):
        loaded.bootstrap(10)
    pytest.importorskip("matplotlib").use("Agg")
    assert model.plot().get_xlabel() == "rating (Elo), 95 % interval"
    assert len(model.plot("wins").texts) == 30


def test_players_may_be_named_as_columns():
    battles = {"a": ["x", "a", "x", "a"], "b": ["a", "x", "a", "x"], "winner": ["a", "a", "a", "x"]}
    model = PairedComparison.from_battles(battles, a="a", b="b", winner="winner")
    assert model.predict_proba("a", "x")[0, 0] == pytest.approx(0.75, abs=1e-6)

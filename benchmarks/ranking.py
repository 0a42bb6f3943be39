"""Ratings from battles: a fit, a thousand bootstrap rounds, and Firth's penalty, beside other packages.

    python -m benchmarks.ranking [--only TEXT] [--rounds N]

200,000 battles of 150 players with four covariates of style, drawn at random; set-up is counted. choix and evalica know
no covariates, and get the same battles without them. Packages that are not installed are left out. Peers' bootstraps
are timed over some rounds (``--rounds``), ours over a thousand.
"""

from __future__ import annotations

import argparse
import time
import warnings
from importlib.util import find_spec

import numpy as np
import scipy.sparse as sp
from scipy.special import expit
from sklearn.linear_model import LogisticRegression as Theirs

from majorant import LogisticRegression, PairedComparison

ELO = 400 / np.log(10)


def battles(n=200_000, players=150, covariates=4, seed=0):
    rng = np.random.default_rng(seed)
    rating = rng.normal(scale=0.7, size=players)
    a = rng.integers(players, size=n)
    b = (a + 1 + rng.integers(players - 1, size=n)) % players
    C = rng.normal(size=(n, covariates))
    won = rng.random(n) < expit(rating[a] - rating[b] + C @ rng.normal(scale=0.2, size=covariates))
    return a, b, won, C


def timed(*functions, repeats=7):
    """Return the least CPU seconds of each function, called in turn, and what it returned last."""
    seconds, found = [[] for _ in functions], [None] * len(functions)
    for _ in range(repeats):
        for k, function in enumerate(functions):
            begun = time.process_time()
            found[k] = function()
            seconds[k].append(time.process_time() - begun)
    return [min(each) for each in seconds], found


def design(a, b, C, players):
    rows = np.arange(len(a))
    X = sp.coo_matrix((np.ones(len(a)), (rows, a)), shape=(len(a), players))
    X = X - sp.coo_matrix((np.ones(len(a)), (rows, b)), shape=(len(a), players))
    return sp.hstack([X, sp.csr_matrix(C)], format="csr")


def centred(theta, players=150):
    return theta[:players] - theta[:players].mean()


def fits():
    a, b, won, C = battles()
    winner, loser, by_winner = np.where(won, a, b), np.where(won, b, a), np.where(won[:, None], C, -C)

    def ours():
        return PairedComparison().fit(winner, loser, covariates=by_winner)

    def logistic():
        X = design(a, b, C, 150)
        return LogisticRegression(C=1e6, fit_intercept=False, tol=1e-10).fit(X, won).coef_[0]

    def scikit_learn(tol=1e-10):
        X = design(a, b, C, 150)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Theirs(C=1e6, fit_intercept=False, tol=tol, max_iter=10_000).fit(X, won).coef_[0]

    ours()  # kernels compile
    (mine, ours_too, theirs, default), (model, near, far, loose) = timed(
        ours, logistic, scikit_learn, lambda: scikit_learn(1e-4)
    )
    exact = model.coef_[:150]
    for name, seconds, theta in (
        ("PairedComparison", mine, exact),
        ("majorant.LogisticRegression, C = 1e6, tol 1e-10", ours_too, near),
        ("scikit-learn, C = 1e6, tol 1e-10", theirs, far),
        ("scikit-learn, C = 1e6, default tol", default, loose),
    ):
        off = ELO * np.abs(centred(theta) - exact).max()
        print(f"fit, {name}: {seconds:.3f} s CPU ({seconds / mine:.1f}x), {off:.1e} Elo from PairedComparison")
    print(f"  {model.result_}; in Elo {ELO * model.coef_error_[:150].max():.1e}")
    return model, (a, b, won, C)


def rounds(model, data, count):
    a, b, won, C = data
    X, rng = design(a, b, C, 150), np.random.default_rng(0)
    model.bootstrap(3)
    begun = time.process_time()
    found = model.bootstrap(1000)
    mine = time.process_time() - begun
    print(f"bootstrap, PairedComparison, 1,000 rounds: {mine:.1f} s CPU; within {found.within:.1e} standard errors")

    def scikit_learn(tol):
        weight = np.bincount(rng.integers(len(a), size=len(a)), minlength=len(a))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            Theirs(C=1e6, fit_intercept=False, tol=tol, max_iter=10_000).fit(X, won, sample_weight=weight)

    for tol in (1e-10, 1e-4):
        begun = time.process_time()
        for _ in range(count):
            scikit_learn(tol)
        each = (time.process_time() - begun) / count
        print(f"bootstrap, scikit-learn, tol {tol:g}: {1000 * each:.0f} s for 1,000 rounds ({1000 * each / mine:.1f}x)")

    # Without covariates battles are counted: 11,175 pairs.
    winner, loser = np.where(won, a, b), np.where(won, b, a)
    plain = PairedComparison().fit(winner, loser)
    begun = time.process_time()
    plain.bootstrap(1000)
    mine = time.process_time() - begun
    print(f"bootstrap without covariates, PairedComparison, 1,000 rounds: {mine:.1f} s CPU")
    errors = ELO * plain.ratings_["std_error"].mean()
    if find_spec("choix"):
        import choix

        begun = time.process_time()
        for _ in range(count):
            some = rng.integers(len(a), size=len(a))
            theta = choix.ilsr_pairwise(150, list(zip(winner[some].tolist(), loser[some].tolist(), strict=True)))
        each = (time.process_time() - begun) / count
        off = ELO * np.abs(centred(choix.ilsr_pairwise(150, np.column_stack([winner, loser]).tolist())) - plain.coef_)
        print(
            f"bootstrap without covariates, choix: {1000 * each:.0f} s for 1,000 rounds ({1000 * each / mine:.0f}x); "
            f"its fit is {off.max():.1e} Elo off"
        )
    if find_spec("evalica"):
        import evalica

        x, y = np.asarray(a, dtype=str), np.asarray(b, dtype=str)
        result = np.where(won, evalica.Winner.X, evalica.Winner.Y)
        begun = time.process_time()
        for _ in range(count):
            some = rng.integers(len(a), size=len(a))
            evalica.bradley_terry(x[some].tolist(), y[some].tolist(), result[some].tolist())
        each = (time.process_time() - begun) / count
        scores = evalica.bradley_terry(x.tolist(), y.tolist(), result.tolist()).scores
        theta = np.log(np.array([scores[str(player)] for player in range(150)]))
        off = ELO * np.abs(centred(theta) - plain.coef_).max()
        print(
            f"bootstrap without covariates, evalica: {1000 * each:.0f} s for 1,000 rounds ({1000 * each / mine:.1f}x); "
            f"its fit is {off:.1e} Elo off"
        )
    print(f"  (a standard error is {errors:.1f} Elo)")


def firth():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(569, 15))
    y = (rng.random(569) < expit(X @ rng.normal(scale=0.4, size=15))).astype(int)

    def ours():
        return LogisticRegression(penalty="firth").fit(X, y)

    def with_intervals():
        return ours().conf_int(X, y)

    functions, names = [ours, with_intervals], ["majorant, fit", "majorant, fit and profile intervals"]
    if find_spec("firthmodels"):
        from firthmodels import FirthLogisticRegression

        def theirs():
            return FirthLogisticRegression().fit(X, y)

        functions += [theirs, lambda: theirs().conf_int(method="pl")]
        names += ["firthmodels, fit", "firthmodels, fit and profile intervals"]
    for function in functions:
        function()
    seconds, found = timed(*functions, repeats=15)
    for name, each in zip(names, seconds, strict=True):
        print(f"Firth, 569 x 15, {name}: {1000 * each:.2f} ms CPU")
    if len(found) > 2:
        off = np.abs(found[1][1:] - found[3][:15]).max()
        print(
            f"  coefficients differ by {np.abs(found[0].coef_[0] - found[2].coef_).max():.1e}, intervals by {off:.1e}"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=10)
    given = parser.parse_args()
    if given.only in "fit" or given.only in "bootstrap":
        model, data = fits()
        if given.only in "bootstrap":
            rounds(model, data, given.rounds)
    if given.only in "firth":
        firth()


if __name__ == "__main__":
    main()

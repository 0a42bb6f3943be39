"""``PairedComparison``: ratings of players from battles (Bradley–Terry) or from rankings (Plackett–Luce).

In a battle of i and j with covariates c the log-odds of i are θ_i − θ_j + cᵀβ; in a ranking the best of the players
that are left is i with probability exp(θ_i) / Σ_k exp(θ_k). Davidson's ties are a third outcome, whose score is the
mean of both players' and a parameter of its own. All of them are choices with sparse features.

Without a penalty ratings exist if and only if the players cannot be split in two groups of which the one never lost to
the other: the graph of who beat whom is strongly connected. (Ford, 1957.) Covariates may separate battles as well,
which a linear program proves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from majorant.choice.battles import (
    Battles,
    column_of,
    read_battles,
    read_covariates,
    read_player_covariates,
    read_rankings,
    read_shares,
)
from majorant.choice.enumerated import Enumerated
from majorant.core import separation
from majorant.core.checks import Array, needed, new_axes, one_of, row_weights
from majorant.core.newton import Minimum, SparseChoices, newton
from majorant.core.objective import Objective
from majorant.core.result import Outcome, Result, aligned, counted, table
from majorant.core.threads import sharing
from majorant.estimators import saving
from majorant.estimators.base import Estimator, check_jobs, check_number, check_strength, fit_threads
from majorant.estimators.saving import Field, Notes, Written, all_or_nothing, are_any
from majorant.inference import Derived, Facts, Summary, inverse, summarise
from majorant.resampling import TOLERANCE, Bootstrap, Observations, Replicate, bootstrap

TIES = ("half", "davidson", "drop")
# Points of the Elo scale for one of log-odds, and where it is centred.
ELO, ELO_BASE = 400 / np.log(10), 1000.0
# Distinct battles from which a tenth of them is fitted first: a step on all of them takes milliseconds.
MANY = 50_000
# Numbers of influences written out at a time.
AT_A_TIME = 2**22


@dataclass(frozen=True, eq=False)
class Ratings:
    """Players in falling order: rating, standard error, interval and rank, with an interval of ranks once it is known.

    ``str`` gives text, notebooks show HTML, :meth:`to_frame` returns a pandas data frame.
    """

    players: tuple[Any, ...]
    columns: Mapping[str, Array]

    def __getitem__(self, name: str) -> Array:
        return self.columns[name]

    def __len__(self) -> int:
        return len(self.players)

    def to_frame(self) -> Any:
        """Return the table as a pandas data frame, one row for each player."""
        frames = needed("pandas", "to_frame()", "frames")
        return frames.DataFrame(dict(self.columns), index=list(self.players))

    def __str__(self) -> str:
        return aligned([("", *self.columns), *self._cells()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return table(("", *self.columns), self._cells())

    def _cells(self) -> list[tuple[str, ...]]:
        rows = zip(*self.columns.values(), strict=True)
        return [(str(player), *(f"{each:.6g}" for each in row)) for player, row in zip(self.players, rows, strict=True)]


class PairedComparison(Estimator):
    """Ratings of players from battles (Bradley–Terry) or rankings (Plackett–Luce), by maximum likelihood.

    Newton's method with the exact Hessian, on distinct battles: the estimate is certified, or does not exist, and then
    the players who are the cause are named.

    Parameters
    ----------
    C : float
        Inverse of an ℓ2 penalty on ratings; ``np.inf``, the default, for maximum likelihood.
    ties : {"half", "davidson", "drop"}
        A tie is half a win of each player, an outcome with a parameter of its own, or left out.
    scale : {"logit", "elo"}
        Ratings in log-odds with mean 0, or in points of 400 / log 10 with mean 1000.
    anchor : player or dict, optional
        The player whose rating is 0 (of the Elo scale 1000), or ``{player: rating}``; if None, ratings have that mean.
    tol : float
        How many standard errors from the optimum ratings may be.
    n_jobs : int or None
        Threads that share bootstrap replicates, as in :class:`~majorant.LogisticRegression`.

    Attributes
    ----------
    players_ : array
        Names, in order.
    ratings_ : Ratings
        The table: rating, standard error, 95 % interval, rank, and battles, best player first.
    rank_ : Ratings
        Ranks, with 95 % intervals once :meth:`bootstrap` was called.
    coef_ : array
        All parameters, in log-odds: players, with mean 0, then ``tie``, covariates of players and of battles.
    param_names_ : list of str
    coef_error_ : array
        How far each parameter is from that of the exact optimum, at most.
    log_likelihood_ : float
    result_ : Result
        Why the fit stopped, as a sentence.

    Examples
    --------
    >>> import majorant
    >>> winner = ["ann", "ann", "bob", "cid", "ann", "bob"]
    >>> loser = ["bob", "cid", "cid", "ann", "bob", "ann"]
    >>> model = majorant.PairedComparison(scale="elo").fit(winner, loser)
    >>> print(model.ratings_)
          rating  std_error      low     high  rank  battles
    ann  1054.55    108.802  841.301   1267.8     1        5
    bob  1022.29    123.643   779.95  1264.62     2        4
    cid  923.165      143.2  642.499  1203.83     3        3
    >>> model.predict_proba("ann", "cid").round(2)
    array([[0.68, 0.32]])
    >>> print(model.compare("ann", "cid"))
    ann - cid = 131.384 (std. err. 222.3, 95 % interval -304.2 to 567)
    >>> model.pairwise()["difference"].round()
    array([ 32., 131.,  99.])

    How sure one may be of the ranks; replicates in which somebody never lost, or never won, are counted apart:

    >>> found = model.bootstrap(200)
    >>> model.rank_["low"], model.rank_["high"], found.separated
    (array([1, 1, 1]), array([3, 3, 3]), 95)
    >>> model.summary().names == tuple(model.param_names_), model.covariance("robust").shape
    (True, (3, 3))
    >>> model.plot("wins").get_xlabel()
    'against'
    """

    coef_: Array
    coef_error_: Array
    players_: Array
    ratings_: Ratings
    log_likelihood_: float
    n_iter_: int
    _battles: Battles | None = None
    _bootstrap: Bootstrap | None = None
    _fields: ClassVar[dict[str, Field]] = {
        "coef": Field("f", ("parameters",)),
        "coef_error": Field("f", ("parameters",), are_any),
        "players": Field(saving.LABELS, ("players",), are_any),
        "played": Field("f", ("players",)),
        "of_players": Field("f", ("players", "parameters")),
        "inverse": Field("f", ("parameters", "parameters")),
        **saving.names_fields("parameters"),
    }

    def __init__(
        self,
        *,
        C: float = np.inf,
        ties: str = "half",
        scale: str = "logit",
        anchor: Any = None,
        tol: float = 1e-6,
        n_jobs: int | None = None,
    ) -> None:
        self.C = C
        self.ties = ties
        self.scale = scale
        self.anchor = anchor
        self.tol = tol
        self.n_jobs = n_jobs

    # --- fitting ------------------------------------------------------------------------------------------

    def fit(
        self,
        winner: Any,
        loser: Any,
        *,
        tie: Any = None,
        weight: Any = None,
        covariates: Any = None,
        player_covariates: Any = None,
    ) -> Self:
        """Fit to battles.

        Parameters
        ----------
        winner, loser : arrays of shape (n,)
            Names or numbers of the players of each battle.
        tie : array of bool, shape (n,), optional
            Battles that nobody won.
        weight : array of shape (n,), optional
            Non-negative weight of each battle.
        covariates : array or data frame of shape (n, q), optional
            What speaks for the winner of each battle rather than for the loser: 1 for a home game of the winner and −1
            for one of the loser, differences of style.
        player_covariates : dict or data frame, optional
            Numbers of each player, by name, that ratings depend on. What they do not explain is the player's own
            rating, which needs a finite ``C``.

        Returns
        -------
        estimator
            Fitted.
        """
        with all_or_nothing(self):
            self._check_settings()
            first, second = np.asarray(winner), np.asarray(loser)
            if first.ndim != 1 or first.shape != second.shape:
                raise ValueError(
                    f"winner and loser must name the players of each battle, got shapes {first.shape}, {second.shape}"
                )
            share = np.ones(len(first))
            if tie is not None:
                tied = np.asarray(tie)
                if tied.shape != first.shape or tied.dtype != bool:
                    raise ValueError(f"tie must be True or False for each battle ({len(first)}), got {tied!r:.80}")
                share[tied] = 0.5
            C, names = read_covariates("covariates", covariates, len(first))
            battles = read_battles(first, second, share, row_weights("weight", weight, len(first)), C, names, self.ties)
            return self._fit(battles, player_covariates)

    @classmethod
    def from_battles(
        cls,
        df: Any,
        *,
        a: str,
        b: str,
        winner: str,
        covariates: Sequence[str] = (),
        ties: str = "half",
        weight: str | None = None,
        player_covariates: Any = None,
        **settings: Any,
    ) -> Self:
        """Return a fit to a data frame with a row for each battle.

        Parameters
        ----------
        df : pandas or polars data frame, or dict of arrays
        a, b : str
            Columns of the players.
        winner : str
            Column that holds the name of the winner, the name of the winner's column, ``"a"`` or ``"b"``, 1 or 0 for a
            or b, or for a tie "tie", "draw", "both" or 0.5.
        covariates : list of str
            Columns of what speaks for player a.
        ties : {"half", "davidson", "drop"}
            As in the class.
        weight : str, optional
            Column of weights.
        player_covariates : dict or data frame, optional
            As for :meth:`fit`.
        **settings
            Of the class.

        Returns
        -------
        PairedComparison
            Fitted.

        Examples
        --------
        >>> import majorant
        >>> battles = {"a": ["x", "y", "x", "z", "x"], "b": ["y", "z", "z", "x", "y"]}
        >>> battles["won"] = ["a", "tie", "b", "x", "b"]
        >>> model = majorant.PairedComparison.from_battles(battles, a="a", b="b", winner="won")
        >>> model.ratings_.players
        ('x', 'y', 'z')
        """
        model = cls(ties=ties, **settings)
        model._check_settings()
        first, second, won = (np.asarray(column_of(df, name)) for name in (a, b, winner))
        C, names = read_covariates(
            "covariates", [column_of(df, name) for name in covariates] or None, len(first), covariates
        )
        given = row_weights("weight", None if weight is None else column_of(df, weight), len(first))
        share = read_shares(first, second, won, (a, b, winner))
        return model._fit(read_battles(first, second, share, given, C, names, ties), player_covariates)

    @classmethod
    def from_rankings(
        cls, orders: Any, *, weight: Any = None, ties: str = "refuse", player_covariates: Any = None, **settings: Any
    ) -> Self:
        """Return a fit to rankings, each a list of players, best first, which need not hold all of them.

        Parameters
        ----------
        orders : list of lists
            A list within a ranking holds players who are tied.
        weight : array, optional
            Non-negative weight of each ranking.
        ties : {"refuse", "split"}
            Whether tied players are refused, or every order that they may have had counts as much.
        player_covariates : dict or data frame, optional
            As for :meth:`fit`.
        **settings
            Of the class.

        Returns
        -------
        PairedComparison
            Fitted.

        Examples
        --------
        >>> import majorant
        >>> orders = [["x", "y", "z"], ["y", "x"], ["z", "x", "y"], ["x", ["y", "z"]]]
        >>> model = majorant.PairedComparison.from_rankings(orders, ties="split")
        >>> model.ratings_["rank"]
        array([1, 2, 3])
        """
        model = cls(**settings)
        model._check_settings()
        one_of("ties", ties, ("refuse", "split"))
        return model._fit(read_rankings(orders, row_weights("weight", weight, len(orders)), ties), player_covariates)

    # --- what a fit says ----------------------------------------------------------------------------------

    def predict_proba(self, a: Any, b: Any, *, covariates: Any = None) -> Array:
        """Return the probabilities that a wins and that b wins; with Davidson's ties, of a tie between them.

        Parameters
        ----------
        a, b : player, or array of players
        covariates : array of shape (n, q), optional
            As for :meth:`fit`, of what speaks for a; zeros if not given.

        Returns
        -------
        array of shape (n, 2) or (n, 3)
        """
        difference = self._rating_of(a) - self._rating_of(b)
        if covariates is not None:
            C = read_covariates("covariates", covariates, len(difference))[0]
            if C.shape[1] != len(self._of_battles):
                raise ValueError(f"covariates must have {len(self._of_battles)} columns, got {C.shape[1]}")
            difference = difference + C @ self.coef_[self._of_battles]
        scores = [0.5 * difference, -0.5 * difference]
        if "tie" in self.param_names_:
            scores.insert(1, np.full(len(difference), self.coef_[self.param_names_.index("tie")]))
        odds = np.exp(np.stack(scores, axis=1) - np.max(scores, axis=0)[:, None])
        return odds / odds.sum(axis=1, keepdims=True)

    def compare(self, a: Any, b: Any) -> Derived:
        """Return the difference of two ratings, with its standard error and interval.

        Parameters
        ----------
        a, b : player

        Returns
        -------
        Derived
            ``estimate``, ``std_error``, ``z``, ``p`` and ``interval(level)``.
        """
        check_is_fitted(self, "coef_")
        one, two = (self._codes([player])[0] for player in (a, b))
        apart = self._unit * (self._of_players[one] - self._of_players[two])
        variance = float(apart @ self._inverse @ apart)
        return Derived(f"{a} - {b}", float(apart @ self.coef_), float(np.sqrt(max(variance, 0.0))))

    def pairwise(self, level: float = 0.95) -> Ratings:
        """Return differences of ratings of all pairs of players, with intervals.

        Parameters
        ----------
        level : float
            Of the intervals.

        Returns
        -------
        Ratings
            A table with a row for each pair.
        """
        check_is_fitted(self, "coef_")
        order = np.argsort(-self._ratings(), kind="stable")
        i, j = (order[each] for each in np.triu_indices(len(order), 1))
        V = self._of_players @ self._inverse @ self._of_players.T
        difference = self._ratings()[i] - self._ratings()[j]
        error = self._unit * np.sqrt(np.maximum(np.diag(V)[i] + np.diag(V)[j] - 2 * V[i, j], 0.0))
        reach = float(ndtri(0.5 + 0.5 * level)) * error
        names = tuple(f"{self.players_[one]} - {self.players_[two]}" for one, two in zip(i, j, strict=True))
        columns = {"difference": difference, "std_error": error, "low": difference - reach, "high": difference + reach}
        return Ratings(names, columns)

    def covariance(self, kind: str = "hessian", cluster: Any = None) -> Array:
        """Return the covariance of all parameters, in log-odds.

        Parameters
        ----------
        kind : {"hessian", "robust", "cluster"}
            The inverse Hessian, the sandwich over battles (or rankings), which is the infinitesimal jackknife, or over
            clusters of them.
        cluster : array, optional
            With "cluster": what each battle belongs to, such as a judge.

        Returns
        -------
        array of shape (d, d)
            In the order of ``param_names_``.
        """
        check_is_fitted(self, "coef_")
        one_of("kind", kind, ("hessian", "robust", "cluster"))
        if kind == "hessian":
            return self._inverse
        battles, S = self._data(), self._data().gradients(self.coef_)
        repeats, factor = battles.observations.repeats, 1.0
        if kind == "cluster":
            if cluster is None:
                raise ValueError("kind='cluster' needs cluster=…: what each battle belongs to, such as a judge")
            numbers, count = battles.observations.clusters(cluster)
            units = battles.observations.unit_of
            units = np.arange(len(numbers)) if units is None else units
            here = units >= 0
            S = sp.csr_array((np.ones(here.sum()), (numbers[here], units[here])), shape=(count, S.shape[0])) @ S
            repeats, factor = np.ones(count), count / (count - 1)
        meat = (S.T @ (sp.diags_array(repeats * factor) @ S)).toarray()
        return self._inverse @ meat @ self._inverse

    def summary(self, kind: str = "hessian", cluster: Any = None, level: float = 0.95) -> Summary:
        """Return the table of all parameters in log-odds: estimates, standard errors, z, p and intervals.

        Parameters
        ----------
        kind, cluster
            Where standard errors come from, as for :meth:`covariance`.
        level : float
            Of the confidence intervals.

        Returns
        -------
        Summary
            Printed it is text, notebooks show HTML, ``to_frame()`` returns a pandas data frame.
        """
        notes = [str(self.result_)]
        if np.isfinite(self.C):
            notes.append(f"penalised (C = {self.C:g}): ratings are drawn towards zero, and so are standard errors")
        found = self.covariance(kind, cluster)
        return summarise(
            "Paired comparison", self.param_names_, self.coef_, found, self._facts, level=level, notes=notes
        )

    def bootstrap(self, n: int = 1000, *, cluster: Any = None, kind: str = "multinomial", seed: int = 0) -> Bootstrap:
        """Return ratings of resampled battles (or rankings), and remember the intervals of ranks for ``rank_``.

        Parameters
        ----------
        n : int
            Replicates.
        cluster : array, optional
            What each battle belongs to, such as a judge: clusters are then drawn.
        kind : {"multinomial", "bayesian", "jackknife"}
            Draws with replacement, exponential weights, or every observation (or cluster) left out once.
        seed : int
            Where random numbers begin.

        Returns
        -------
        Bootstrap
            Of all players' ratings, on the scale of the model, in the order of ``players_``, then other parameters.
        """
        check_is_fitted(self, "coef_")
        battles = self._data()
        rows = self._unit * self._of_players
        others = np.eye(len(self.coef_))[len(self.players_) :]
        T = np.vstack([rows, others])
        shift = np.concatenate([np.full(len(rows), self._base), np.zeros(len(others))])

        def fit(weights: Array) -> Replicate:
            amount = battles.amounts @ weights
            found = self._newton(amount, self.coef_, TOLERANCE, self._spread)
            if found is not None:
                return Replicate(T @ found.theta + shift, found.within)
            return Replicate(None, separated=bool(np.isinf(self.C)) and self._separated(amount))

        def influences() -> Iterator[tuple[slice, Array]]:
            S, through = battles.gradients(self.coef_), -(T @ self._inverse).T
            step = max(AT_A_TIME // len(T), 1)
            for begin in range(0, S.shape[0], step):
                part = slice(begin, min(begin + step, S.shape[0]))
                yield part, S[part] @ through

        self._likelihood.begin_at(self.coef_)
        names = [str(player) for player in self.players_] + self.param_names_[len(self.players_) :]
        with sharing(fit_threads(self.n_jobs, battles.features.nnz * max(n, 1))):
            found = bootstrap(
                names,
                T @ self.coef_ + shift,
                battles.observations,
                fit,
                influences,
                n=n,
                cluster=cluster,
                kind=kind,
                seed=seed,
            )
        self._bootstrap = found
        return found

    @property
    def rank_(self) -> Ratings:
        """Ranks, best first, with 95 % intervals once :meth:`bootstrap` was called."""
        check_is_fitted(self, "coef_")
        order = np.argsort(-self._ratings(), kind="stable")
        columns: dict[str, Array] = {"rank": np.arange(1, len(order) + 1)}
        if self._bootstrap is not None and self._bootstrap.kind != "jackknife":
            ratings = self._bootstrap.replicates[:, : len(order)]
            ranks = 1 + np.argsort(np.argsort(-ratings, axis=1, kind="stable"), axis=1)
            low, high = np.quantile(ranks, [0.025, 0.975], axis=0, method="inverted_cdf")
            columns |= {"low": low[order].astype(int), "high": high[order].astype(int)}
        return Ratings(tuple(self.players_[order].tolist()), columns)

    def plot(self, kind: str = "intervals", *, ax: Any = None) -> Any:
        """Draw ratings with their intervals, or the probability of every player to beat every other one.

        Parameters
        ----------
        kind : {"intervals", "wins"}
        ax : matplotlib axes, optional
            Where to draw; a new figure if None.

        Returns
        -------
        matplotlib axes
            What was drawn on.
        """
        one_of("kind", kind, ("intervals", "wins"))
        check_is_fitted(self, "coef_")
        axis, names = new_axes() if ax is None else ax, [str(player) for player in self.ratings_.players]
        places = np.arange(len(names))
        if ax is None:
            side = min(1.2 + 0.26 * len(names), 40.0)
            axis.figure.set_size_inches((6.4, max(side, 2.4)) if kind == "intervals" else (side + 2.6, side + 1.6))
        if kind == "intervals":
            unit = "Elo" if self.scale == "elo" else "log-odds"
            rating, low, high = (self.ratings_[name] for name in ("rating", "low", "high"))
            axis.errorbar(rating, places, xerr=[rating - low, high - rating], fmt="o", ms=4, color="#0072B2", lw=1.4)
            axis.set(yticks=places, yticklabels=names, xlabel=f"rating ({unit}), 95 % interval")
            axis.set_ylim(len(names) - 0.5, -0.5)
            axis.grid(axis="x", alpha=0.3)
            return axis
        order = np.argsort(-self._ratings(), kind="stable")
        ranked = self.players_[order]
        P = self.predict_proba(np.repeat(ranked, len(ranked)), np.tile(ranked, len(ranked)))
        wins = (P[:, 0] + 0.5 * (1.0 - P[:, 0] - P[:, -1])).reshape(len(ranked), -1)
        np.fill_diagonal(wins, np.nan)
        shown = axis.imshow(wins, vmin=0, vmax=1, cmap="RdBu")
        axis.set(xticks=places, yticks=places, yticklabels=names, xlabel="against", ylabel="player")
        axis.set_xticklabels(names, rotation=90)
        if len(names) <= 20:
            for i, j in zip(*np.nonzero(~np.isnan(wins)), strict=True):
                dark = abs(wins[i, j] - 0.5) > 0.3
                axis.text(j, i, f"{wins[i, j]:.2f}", ha="center", va="center", fontsize=7, color="w" if dark else "k")
        axis.figure.colorbar(shown, ax=axis, label="probability to win, ties counted half", shrink=0.8)
        return axis

    # --- what the methods above are made of ---------------------------------------------------------------

    def _check_settings(self) -> None:
        check_strength(self.C)
        one_of("ties", self.ties, TIES)
        one_of("scale", self.scale, ("logit", "elo"))
        check_number("tol", self.tol, least=0.0)
        check_jobs(self.n_jobs)

    def _fit(self, battles: Battles, player_covariates: Any) -> Self:
        P, d = len(battles.players), len(battles.names)
        base = ELO_BASE if self.scale == "elo" else 0.0
        Z, more = read_player_covariates(player_covariates, battles.players)
        if len(more) and np.isinf(self.C):
            raise ValueError(
                "player_covariates are not told apart from ratings without a penalty: give a finite C, which draws to "
                "zero what they do not explain"
            )
        if len(more):
            onehot = sp.csr_array(battles.features[:, :P])
            features = sp.csr_array(sp.hstack([battles.features, sp.csr_array(onehot @ Z)]))
            battles = Battles(
                features, battles.sets, battles.amounts, battles.observations, battles.players, battles.names + more
            )
        size = d + len(more)
        of_players = np.zeros((P, size))
        of_players[:, :P], of_players[:, d:] = np.eye(P), Z
        at, level = self._anchored(battles.players, base)
        of_players -= of_players.mean(axis=0) if at is None else of_players[at].copy()
        self._base, self._unit, self._of_players = level, ELO if self.scale == "elo" else 1.0, of_players

        # The penalty is on ratings; what it leaves free is held where it is.
        ridge = np.where(np.arange(size) < P, 1.0 / self.C, 0.0)
        flat = np.zeros((size, 0)) if np.isfinite(self.C) else np.where(np.arange(size) < P, P**-0.5, 0.0)[:, None]
        self._battles = battles
        self._likelihood = SparseChoices(battles.features, battles.sets, flat, ridge)
        self.players_, self.param_names_, self._bootstrap = battles.players, list(battles.names), None
        self._of_battles = np.arange(P + ("tie" in battles.names[P : P + 1]), d)
        amount = battles.amount
        # Of many battles one in ten tells about where to begin; nothing is lost where it does not.
        start = np.zeros(size)
        if len(battles.sets) > MANY:
            some = np.where(np.repeat(np.arange(len(battles.sets) - 1) % 10 == 0, np.diff(battles.sets)), amount, 0.0)
            about = self._newton(some, start, 0.1)
            start = start if about is None else about.theta
        found = self._newton(amount, start, self.tol)
        if found is None:
            if np.isinf(self.C):
                self._refuse_unconnected(battles, amount)
            self._refuse_flat(battles, amount)
        assert found is not None
        value, _, H = self._likelihood.expand(found.theta, amount)
        V = inverse(H)
        if flat.size:  # nothing is known along it but what holds it
            V -= (flat @ flat.T) * float(flat[:, 0] @ V @ flat[:, 0])
        self.coef_, self._inverse, self.n_iter_, self._spread = found.theta, V, found.steps, found.spread
        self.coef_error_ = found.within * np.sqrt(np.maximum(np.diag(V), 0.0))
        penalty = 0.5 * float(ridge @ found.theta**2)
        null = float(np.add.reduceat(amount, battles.sets[:-1]) @ np.log(np.diff(battles.sets)))
        self.log_likelihood_ = penalty - value
        errors = self._unit * np.sqrt(np.maximum(np.diag(of_players @ V @ of_players.T), 0.0))
        largest = float(found.within * errors.max())
        unit = "Elo" if self.scale == "elo" else "log-odds"
        gap = found.within**2 / (2.0 * value) if value > 0 else 0.0
        words = f"converged in {counted(found.steps, 'step')}; ratings are certified to be within {largest:.1e} {unit}"
        self.result_ = Result(Outcome.CONVERGED, f"{words} of the optimum", gap)
        total = float(amount.sum())
        self._facts = Facts(self.log_likelihood_, -null, total, size - flat.shape[1])
        # Each player is alone in one outcome of a set.
        alone = sp.csr_array(battles.features[:, :P] == 1.0).astype(float)
        self._played = alone.T @ np.repeat(np.add.reduceat(amount, battles.sets[:-1]), np.diff(battles.sets))
        self._publish_ratings(errors)
        return self

    def _publish_ratings(self, errors: Array) -> None:
        rating = self._ratings()
        order, reach = np.argsort(-rating, kind="stable"), float(ndtri(0.975)) * errors
        columns = {"rating": rating, "std_error": errors, "low": rating - reach, "high": rating + reach}
        columns = {name: values[order] for name, values in columns.items()}
        columns["rank"], played = np.arange(1, len(order) + 1), self._played[order]
        columns["battles"] = played.astype(int) if (played == played.round()).all() else played
        self.ratings_ = Ratings(tuple(self.players_[order].tolist()), columns)

    def _newton(self, amount: Array, start: Array, tol: float, likely: float = 0.1) -> Minimum | None:
        F = self._likelihood
        return newton(
            partial(F.expand, amount=amount),
            start,
            partial(F.spread, amount=amount),
            tol=tol,
            likely=likely,
            doubt=partial(F.doubt, amount=amount) if tol < TOLERANCE else lambda inverse: 0.0,
        )

    def _anchored(self, players: Array, base: float) -> tuple[int | None, float]:
        """Return which player is the anchor, if one is, and the rating there, or the mean."""
        if self.anchor is None:
            return None, base
        name, level = self.anchor, base
        if isinstance(self.anchor, dict):
            if len(self.anchor) != 1:
                raise ValueError(f"anchor must be one player and a rating, got {self.anchor!r:.80}")
            name, level = next(iter(self.anchor.items()))
        places = np.flatnonzero(players == name)
        if not len(places):
            raise ValueError(f"anchor must be one of the players, got {name!r}")
        return int(places[0]), float(level)

    def _ratings(self) -> Array:
        return np.asarray(self._base + self._unit * (self._of_players @ self.coef_))

    def _codes(self, names: Any) -> Array:
        given = np.atleast_1d(np.asarray(names))
        places = {name: place for place, name in enumerate(self.players_.tolist())}
        unknown = [name for name in given.tolist() if name not in places]
        if unknown:
            raise ValueError(f"{unknown[0]!r} is no player of the fit; players are {', '.join(map(str, places)):.200}")
        return np.array([places[name] for name in given.tolist()])

    def _rating_of(self, names: Any) -> Array:
        check_is_fitted(self, "coef_")
        return np.asarray((self._of_players @ self.coef_)[self._codes(names)])

    def _data(self) -> Battles:
        if self._battles is None:
            raise ValueError("this needs the battles of the fit, which files and pickles do not hold: fit again")
        return self._battles

    # --- where there is no estimate -------------------------------------------------------------------------

    def _refuse_unconnected(self, battles: Battles, amount: Array) -> None:
        """Refuse players who cannot be compared, or who never won or lost, by name."""
        graph = battles.beaten(amount)
        groups, of = connected_components(graph, directed=False)
        if groups > 1:
            sizes = np.bincount(of)
            smaller = [_named(battles.players[of == each]) for each in np.argsort(sizes)[:-1]][:3]
            raise ValueError(
                f"players fall into {groups} groups that never met: {' and '.join(smaller)} met none of the others, so "
                "that ratings cannot be compared; fit each group by itself, or give a finite C"
            )
        groups, of = connected_components(graph, directed=True, connection="strong")
        if groups == 1:
            return
        edges = graph.tocoo()
        across = of[edges.row] != of[edges.col]
        won, lost = np.zeros(groups, dtype=bool), np.zeros(groups, dtype=bool)
        won[of[edges.row[across]]], lost[of[edges.col[across]]] = True, True
        words = []
        for flag, word in ((lost, "lost"), (won, "won")):
            for group in np.flatnonzero(~flag)[:3]:
                members = battles.players[of == group]
                against = "" if len(members) == 1 else " against any other player"
                words.append(f"{_named(members)} never {word}{against}")
        raise ValueError(
            f"{'; '.join(words)}: such ratings have no maximum-likelihood estimate; leave these players out, or give a "
            "finite C"
        )

    def _refuse_flat(self, battles: Battles, amount: Array) -> None:
        """Refuse covariates that separate battles, or that nothing can be learnt of."""
        P = len(battles.players)
        G = self._likelihood.expand(np.zeros(len(battles.names)), amount)[2]
        for place in range(P, len(battles.names)):
            others = [each for each in range(len(battles.names)) if each < place]
            solved = np.linalg.lstsq(G[np.ix_(others, others)], G[others, place], rcond=1e-12)[0]
            if G[place, place] - G[others, place] @ solved <= 1e-10 * max(G[place, place], 1e-300):
                raise ValueError(
                    f"covariate {battles.names[place]!r} follows from the players and the covariates before it in "
                    "every battle: drop it"
                )
        if self._separated(amount):
            raise ValueError(
                "players and covariates together explain every battle of a kind (separation): ratings have no "
                "maximum-likelihood estimate; drop a covariate, or give a finite C"
            )
        raise ValueError("Newton's method did not converge: give a finite C, or divide covariates by their size")

    def _separated(self, amount: Array) -> bool:
        """Return whether these battles are proved to have no maximum-likelihood estimate."""
        battles = self._data()
        groups = connected_components(battles.beaten(amount), directed=True, connection="strong")[0]
        if groups > 1:
            return True
        if len(battles.names) == len(battles.players):
            return False
        some = Battles(
            battles.features, battles.sets, sp.csc_array(amount[:, None]), Observations(np.ones(1)), battles.players, ()
        )
        objective = Objective(Enumerated(), some.choices(), ridge=self._likelihood.ridge)
        return separation.suits(objective) and separation.find(objective) is not None

    # --- files ----------------------------------------------------------------------------------------------

    def _written(self, notes: Notes) -> Written:
        facts = saving.facts_of(self, notes)
        numbers = {name: float(getattr(self._facts, name)) for name in ("log_likelihood", "null_log_likelihood")}
        facts |= numbers | {"observations": self._facts.observations, "free": self._facts.parameters}
        facts |= {"base": self._base, "of_battles": self._of_battles.tolist()}
        arrays = {"coef": self.coef_, "coef_error": self.coef_error_, "players": self.players_, "played": self._played}
        arrays |= {"of_players": self._of_players, "inverse": self._inverse, **saving.packed(self.param_names_)}
        if arrays["players"].dtype == object:
            arrays["players"] = arrays["players"].astype(str)
        return facts, arrays

    def _restore(self, path: Any, facts: dict[str, Any], arrays: dict[str, Array]) -> None:
        self.coef_, self.coef_error_, self.players_ = (arrays[name] for name in ("coef", "coef_error", "players"))
        self._of_players, self._inverse, self._played = (arrays[name] for name in ("of_players", "inverse", "played"))
        self.param_names_ = saving.unpacked(arrays)
        saving.restore_ending(self, facts)
        fit, null, observations, base = (
            float(saving.fact(facts, name, int, float))
            for name in ("log_likelihood", "null_log_likelihood", "observations", "base")
        )
        self.log_likelihood_, self._facts = fit, Facts(fit, null, observations, saving.whole_fact(facts, "free"))
        self._base, self._unit = base, ELO if self.scale == "elo" else 1.0
        self._of_battles = np.array(saving.fact(facts, "of_battles", list), dtype=int)
        V = self._of_players @ self._inverse @ self._of_players.T
        self._publish_ratings(self._unit * np.sqrt(np.maximum(np.diag(V), 0.0)))

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name not in ("_battles", "_likelihood")}


def _named(players: Array) -> str:
    names = [repr(player) for player in players.tolist()]
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")

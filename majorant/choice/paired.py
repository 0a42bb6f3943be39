"""``PairedComparison``: ratings of players from battles (Bradley–Terry) or from rankings (Plackett–Luce).

In a battle of i and j with covariates c the log-odds of i are θ_i − θ_j + cᵀβ; in a ranking the best of the players that
are left is i with probability exp(θ_i) / Σ_k exp(θ_k). Davidson's ties are a third outcome, whose score is the mean of
both players' and a parameter of its own. All of them are choices with sparse features.

Without a penalty ratings exist if and only if the players cannot be split in two groups of which the one never lost to
the other: the graph of who beat whom is strongly connected. (Ford, 1957.) Covariates may separate battles as well,
which a linear program proves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from math import comb
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from majorant.choice.enumerated import Enumerated
from majorant.core import separation
from majorant.core.checks import Array, finite_array, needed, new_axes, one_of, row_weights
from majorant.core.choices import Choices
from majorant.core.newton import Minimum, SparseChoices, newton
from majorant.core.objective import Objective
from majorant.core.result import Outcome, Result, counted, paragraph, table
from majorant.core.threads import sharing
from majorant.estimators import saving
from majorant.estimators.base import Estimator, check_jobs, check_number, check_strength, fit_threads
from majorant.estimators.saving import Field, Notes, Written, all_or_nothing, are_any
from majorant.inference import Derived, Facts, Summary, covariance, summarise
from majorant.resampling import TOLERANCE, Bootstrap, Observations, Replicate, bootstrap

TIES = ("half", "davidson", "drop")
# Points of the Elo scale for one of log-odds, and where it is centred.
ELO, ELO_BASE = 400 / np.log(10), 1000.0
# What arenas write where no player won.
NEITHER = ("tie", "tie (bothbad)", "both", "bothbad", "both_bad", "draw")
# Items of a ranking that may be tied: the orders they may have had are 2^m sets.
MOST_TIED = 10
# Numbers of influences written out at a time.
AT_A_TIME = 2**22


@dataclass(frozen=True, eq=False)
class Battles:
    """Outcome sets with sparse features, and what was observed of them, distinct observations once.

    Column u of ``amounts`` says how much one observation of kind u adds to each outcome.
    """

    features: sp.csr_array
    sets: Array
    amounts: sp.csc_array
    observations: Observations
    players: Array
    names: tuple[str, ...]

    @property
    def amount(self) -> Array:
        """How much of each outcome was observed."""
        return self.amounts @ self.observations.repeats

    def choices(self) -> Choices:
        """Return the sets with the frequencies of their outcomes."""
        total = np.add.reduceat(self.amount, self.sets[:-1])
        counts = np.repeat(np.where(total > 0, total, 1.0), np.diff(self.sets))
        target = np.where(np.repeat(total > 0, np.diff(self.sets)), self.amount / counts, 0.0)
        first = np.zeros(len(target))
        first[self.sets[:-1]] = 1.0
        target = np.where(np.repeat(total > 0, np.diff(self.sets)), target, first)
        return Choices(self.features, np.diff(self.sets), target=target, weight=total)

    def gradients(self, theta: Array) -> sp.csr_array:
        """Return the gradient of each kind of observation (u×d, sparse)."""
        scores = self.features @ theta
        sizes = np.diff(self.sets)
        p = np.exp(scores - np.repeat(np.maximum.reduceat(scores, self.sets[:-1]), sizes))
        p /= np.repeat(np.add.reduceat(p, self.sets[:-1]), sizes)
        members = sp.csr_array((np.ones(len(p)), np.arange(len(p)), self.sets), shape=(len(sizes), len(p)))
        expected = sp.diags_array(p) @ (members.T @ (members @ self.amounts))
        return sp.csr_array((expected - self.amounts).T @ self.features)

    def beaten(self, amount: Array) -> sp.csr_array:
        """Return the graph of who beat whom: an edge from each outcome that was observed to all others of its set."""
        sizes = np.diff(self.sets)
        of_players = sp.csr_array(self.features[:, : len(self.players)] != 0).astype(float)
        seen = sp.diags_array((amount > 0).astype(float)) @ of_players
        members = sp.csr_array((np.ones(len(amount)), np.arange(len(amount)), self.sets), shape=(len(sizes), len(amount)))
        return sp.csr_array((members @ seen).T @ (members @ of_players))


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
        cells = [("", *self.columns), *self._cells()]
        widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
        return "\n".join("  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in cells)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return table(("", *self.columns), self._cells())

    def _cells(self) -> list[tuple[str, ...]]:
        rows = zip(*self.columns.values(), strict=True)
        return [
            (str(player), *(f"{each:.6g}" for each in row)) for player, row in zip(self.players, rows, strict=True)
        ]


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
    ann  1073.6    152.286  775.124  1372.07     1        5
    bob     990...
    cid     936...
    >>> model.predict_proba("ann", "cid").round(2)
    array([[0.69, 0.31]])
    >>> print(model.compare("ann", "cid"))
    ann - cid = 137... (std. err. 306.2, 95 % interval -462... to 737...)
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
            Numbers of each player, by name, that ratings depend on; what they do not explain is the player's own rating,
            which needs a finite ``C``.

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
                    f"winner and loser must name the players of each battle, got shapes {first.shape} and {second.shape}"
                )
            share = np.ones(len(first))
            if tie is not None:
                tied = np.asarray(tie)
                if tied.shape != first.shape or tied.dtype != bool:
                    raise ValueError(f"tie must be True or False for each battle ({len(first)}), got {tied!r:.80}")
                share[tied] = 0.5
            C, names = _columns("covariates", covariates, len(first))
            battles = self._read(first, second, share, row_weights("weight", weight, len(first)), C, names)
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
        >>> battles = {"a": ["x", "y", "x", "z", "x"], "b": ["y", "z", "z", "x", "y"], "won": ["a", "tie", "b", "x", "b"]}
        >>> model = majorant.PairedComparison.from_battles(battles, a="a", b="b", winner="won")
        >>> model.ratings_.players
        ('y', 'z', 'x')
        """
        model = cls(ties=ties, **settings)
        model._check_settings()
        first, second, won = (np.asarray(_column(df, name)) for name in (a, b, winner))
        C, names = _columns("covariates", [_column(df, name) for name in covariates] or None, len(first), covariates)
        given = row_weights("weight", None if weight is None else _column(df, weight), len(first))
        share = _shares(first, second, won, (a, b, winner))
        return model._fit(model._read(first, second, share, given, C, names), player_covariates)

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
        return model._fit(_read_rankings(orders, row_weights("weight", weight, len(orders)), ties), player_covariates)

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
            C = _columns("covariates", covariates, len(difference))[0]
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
            S = sp.csr_array((np.ones(len(units)), (numbers, units)), shape=(count, S.shape[0])) @ S
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

    def bootstrap(
        self, n: int = 1000, *, cluster: Any = None, kind: str = "multinomial", seed: int = 0
    ) -> Bootstrap:
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
            found = self._newton(amount, self.coef_, TOLERANCE)
            if found is not None:
                return Replicate(T @ found.theta + shift, found.within)
            return Replicate(None, separated=bool(np.isinf(self.C)) and self._separated(amount))

        def influences() -> Iterator[tuple[slice, Array]]:
            S, through = battles.gradients(self.coef_), -(T @ self._inverse).T
            step = max(AT_A_TIME // len(T), 1)
            for begin in range(0, S.shape[0], step):
                part = slice(begin, min(begin + step, S.shape[0]))
                yield part, S[part] @ through

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
            rating, low, high = (self.ratings_[name] for name in ("rating", "low", "high"))
            axis.errorbar(rating, places, xerr=[rating - low, high - rating], fmt="o", ms=4, color="#0072B2", lw=1.4)
            axis.set(yticks=places, yticklabels=names, xlabel=f"rating ({self.scale}), 95 % interval")
            axis.set_ylim(len(names) - 0.5, -0.5)
            axis.grid(axis="x", alpha=0.3)
            return axis
        order = np.argsort(-self._ratings(), kind="stable")
        theta = (self._of_players @ self.coef_)[order]
        wins = 1.0 / (1.0 + np.exp(theta[None, :] - theta[:, None]))
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

    def _read(
        self, first: Array, second: Array, share: Array, weight: Array | None, C: Array, names: Sequence[str]
    ) -> Battles:
        """Return battles with a share of the win for the first player, equal ones once."""
        players, i, j = _players(first, second)
        itself = np.flatnonzero(i == j)
        if len(itself):
            row = int(itself[0])
            raise ValueError(f"battle {row} is one of {players[i[row]]!r} against itself; drop it ({len(itself)} such)")
        if len(players) < 2:
            raise ValueError(f"there must be at least two players, got {players.tolist()}")
        weight = np.ones(len(i)) if weight is None else weight
        kept = weight > 0
        if self.ties == "drop":
            kept &= share != 0.5
            if not kept.any():
                raise ValueError("all battles are ties, and ties='drop' leaves none: use ties='half'")
        if not kept.all():
            i, j, share, weight, C = i[kept], j[kept], share[kept], weight[kept], C[kept]
        davidson = self.ties == "davidson"
        if davidson and not (share == 0.5).any():
            raise ValueError("ties='davidson' needs ties, and there are none: use ties='drop'")
        if davidson and (share == 0.5).all():
            raise ValueError("all battles are ties: ties='davidson' tells nothing of ratings; use ties='half'")

        # The lower player first, and equal battles once.
        swapped = i > j
        i, j = np.where(swapped, j, i), np.where(swapped, i, j)
        share, C = np.where(swapped, 1.0 - share, share), np.where(swapped[:, None], -C, C)
        key = i * np.int64(len(players)) + j
        if C.shape[1]:
            sample = np.random.default_rng(0).integers(len(C), size=min(len(C), 4096))
            if len(np.unique(np.column_stack([key[sample], C[sample]]), axis=0)) < 0.9 * len(np.unique(sample)):
                key = np.unique(np.column_stack([key, C]), axis=0, return_inverse=True)[1].ravel()
            else:
                key = np.arange(len(key))
        _, where, of_set = np.unique(key, return_index=True, return_inverse=True)
        # Of a set there may be wins, losses and ties, of different weights.
        same = np.column_stack([of_set, share, weight])
        if len(where) == len(i):
            units, unit_of, repeats = same, None, np.ones(len(i))
        elif (weight == 1).all():
            code, unit_of, repeats = np.unique(3 * of_set + (2 * share).astype(int), return_inverse=True, return_counts=True)
            units = np.column_stack([code // 3, 0.5 * (code % 3), np.ones(len(code))])
        else:
            units, unit_of, repeats = np.unique(same, axis=0, return_inverse=True, return_counts=True)
        if not kept.all():  # rows that were left out still have a place, for clusters
            rows = np.full(len(kept), -1)
            rows[kept] = np.arange(len(i)) if unit_of is None else unit_of
            unit_of = rows

        # Features: one row for each outcome of a set.
        q, P, width = C.shape[1], len(players), 3 if davidson else 2
        sets, one, two = len(where), i[where], j[where]
        half = np.full(sets, 0.5)
        c = C[where] if q else np.zeros((sets, 0))
        columns_c = np.arange(P + davidson, P + davidson + q)
        # The first player wins: e_i + c; the second one: e_j; a tie: (e_i + e_j + c) / 2 + e_tie.
        parts = [np.column_stack([np.ones(sets), c]), np.ones((sets, 1))]
        places = [np.column_stack([one, np.tile(columns_c, (sets, 1))]), two[:, None]]
        if davidson:
            parts.append(np.column_stack([half, half, np.ones(sets), 0.5 * c]))
            places.append(np.column_stack([one, two, np.full(sets, P), np.tile(columns_c, (sets, 1))]))
        lengths = np.tile([part.shape[1] for part in parts], sets)
        features = sp.csr_array(
            (np.hstack(parts).ravel(), np.hstack(places).ravel(), np.concatenate([[0], np.cumsum(lengths)])),
            shape=(width * sets, P + davidson + q),
        )
        number, won, each = units[:, 0].astype(int), units[:, 1], units[:, 2]
        u = np.arange(len(units))
        if davidson:
            outcome = np.select([won == 1.0, won == 0.0], [0, 1], 2)
            amounts = sp.csc_array((each, (width * number + outcome, u)), shape=(width * sets, len(u)))
        else:
            values, at = np.concatenate([each * won, each * (1 - won)]), np.concatenate([2 * number, 2 * number + 1])
            some = values > 0
            amounts = sp.csc_array((values[some], (at[some], np.tile(u, 2)[some])), shape=(2 * sets, len(u)))
        labels = [str(player) for player in players.tolist()] + (["tie"] if davidson else []) + list(names)
        observed = Observations(np.asarray(repeats, dtype=np.float64), unit_of)
        return Battles(features, width * np.arange(sets + 1), amounts, observed, players, tuple(labels))

    def _fit(self, battles: Battles, player_covariates: Any) -> Self:
        P, d = len(battles.players), len(battles.names)
        base = ELO_BASE if self.scale == "elo" else 0.0
        Z, more = _of_players(player_covariates, battles.players)
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
        self._battles, self._likelihood = battles, SparseChoices(battles.choices(), flat, ridge)
        self.players_, self.param_names_, self._bootstrap = battles.players, list(battles.names), None
        self._of_battles = np.arange(P + ("tie" in battles.names[P : P + 1]), d)
        amount = battles.amount
        if np.isinf(self.C):
            self._refuse_unconnected(battles, amount)
        found = self._newton(amount, np.zeros(size), self.tol)
        if found is None:
            self._refuse_flat(battles, amount)
        assert found is not None
        V = found.inverse - (flat @ flat.T) * float(flat[:, 0] @ found.inverse @ flat[:, 0]) if flat.size else found.inverse
        self.coef_, self._inverse, self.n_iter_ = found.theta, V, found.steps
        self.coef_error_ = found.within * np.sqrt(np.maximum(np.diag(V), 0.0))
        value = self._likelihood.expand(found.theta, amount, curved=False)[0]
        penalty = 0.5 * float(ridge @ found.theta**2)
        null = self._likelihood.expand(np.zeros(size), amount, curved=False)[0]
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

    def _newton(self, amount: Array, start: Array, tol: float) -> Minimum | None:
        F = self._likelihood
        return newton(
            partial(F.expand, amount=amount),
            start,
            partial(F.spread, amount=amount),
            tol=tol,
            doubt=lambda theta, inverse: F.doubt(inverse, amount),
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
                    f"covariate {battles.names[place]!r} follows from the players and the covariates before it in every "
                    "battle: drop it"
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


def _column(df: Any, name: str) -> Any:
    try:
        return df[name]
    except (KeyError, IndexError, TypeError):
        columns = ", ".join(map(str, getattr(df, "columns", df)))
        raise ValueError(f"there is no column {name!r}; there are {columns:.200}") from None
    except Exception as problem:  # polars has an error of its own
        raise ValueError(f"there is no column {name!r}: {problem}") from None


def _players(first: Array, second: Array) -> tuple[Array, Array, Array]:
    """Return the names of players in order, and which of them those of each battle are."""
    both = np.concatenate([first, second])
    if not len(both):
        raise ValueError("there must be at least one battle, got none")
    if both.dtype.kind == "f" and np.isnan(both).any():
        raise ValueError(f"players must have names, got {np.nan} in battle {int(np.isnan(both).argmax()) % len(first)}")
    if both.dtype.kind in "iu":
        names, codes = np.unique(both, return_inverse=True)
        return names, codes[: len(first)], codes[len(first) :]
    given = both.tolist()
    kinds = {type(name).__name__ for name in dict.fromkeys(given)}
    missing = [place for place, name in enumerate(given) if name is None or name != name]
    if missing:
        raise ValueError(f"players must have names, got {given[missing[0]]!r} in battle {missing[0] % len(first)}")
    if len(kinds) > 1:
        raise ValueError(f"players must be named by one type, got {' and '.join(sorted(kinds))}")
    names = sorted(set(given))
    places = {name: place for place, name in enumerate(names)}
    codes = np.fromiter(map(places.__getitem__, given), np.int64, len(given))
    return np.array(names), codes[: len(first)], codes[len(first) :]


def _columns(what: str, given: Any, rows: int, names: Sequence[str] = ()) -> tuple[Array, tuple[str, ...]]:
    """Return covariates as an array, and their names."""
    if given is None:
        return np.zeros((rows, 0)), ()
    if isinstance(given, list) and names:
        given = np.column_stack([np.asarray(column) for column in given])
    labels = tuple(map(str, getattr(given, "columns", names)))
    values = finite_array(what, np.asarray(given), ndim=(1, 2)).astype(np.float64)
    values = values[:, None] if values.ndim == 1 else values
    if len(values) != rows:
        raise ValueError(f"{what} must have a row for each battle ({rows}), got {len(values)}")
    return values, labels or tuple(f"x{k}" for k in range(values.shape[1]))


def _of_players(given: Any, players: Array) -> tuple[Array, tuple[str, ...]]:
    """Return the covariates of players as an array, and their names."""
    if given is None:
        return np.zeros((len(players), 0)), ()
    names: tuple[str, ...] = ()
    if hasattr(given, "columns") and hasattr(given, "index"):
        names = tuple(map(str, given.columns))
        given = {name: row for name, row in zip(given.index.tolist(), np.asarray(given), strict=True)}
    if not isinstance(given, Mapping):
        raise ValueError(f"player_covariates must be a dict or a data frame by player, got {given!r:.80}")
    lacking = [player for player in players.tolist() if player not in given]
    if lacking:
        raise ValueError(f"player_covariates must hold every player, and lack {lacking[0]!r}")
    rows = [np.atleast_1d(given[player]) for player in players.tolist()]
    Z = finite_array("player_covariates", np.stack(rows), ndim=2).astype(np.float64)
    return Z - Z.mean(axis=0), names or tuple(f"z{k}" for k in range(Z.shape[1]))


def _shares(first: Array, second: Array, won: Array, columns: tuple[str, str, str]) -> Array:
    """Return the share of each win that goes to the first player."""
    a, b, winner = columns
    if won.dtype.kind in "fb" or (won.dtype.kind in "iu" and first.dtype.kind not in "iu"):
        share = won.astype(np.float64)
        wrong = ~np.isin(share, (0.0, 0.5, 1.0))
    else:
        one = (won == first) | (won == a)
        two = (won == second) | (won == b)
        one, two = one | ((won == "a") & ~two), two | ((won == "b") & ~one)
        neither = np.isin(won.astype(str), NEITHER) & ~one & ~two
        share = np.select([one, two], [1.0, 0.0], 0.5)
        wrong = ~(one | two | neither)
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"column {winner!r} must name the winner: a player of the battle, {a!r} or {b!r}, 'a' or 'b', 1 or 0, or "
            f"'tie'; got {won.tolist()[row]!r} in row {row} ({int(wrong.sum())} such)"
        )
    return share


def _read_rankings(orders: Any, weight: Array | None, ties: str) -> Battles:
    """Return rankings as choices of the best of the players that are left, equal rankings once.

    Where m players are tied, any subset of them that may have come first leaves a choice among all that are left, in
    which each of the other tied players is as likely; it counts as often as it occurs in the m! orders.
    """
    kinds: dict[Any, int] = {}
    unit_of, each = [], []
    for row, order in enumerate(orders):
        places = tuple(
            tuple(sorted(place, key=str)) if isinstance(place, list | tuple | set | frozenset) else (place,)
            for place in (order.tolist() if isinstance(order, np.ndarray) else order)
        )
        items = [player for place in places for player in place]
        if len(set(items)) < len(items):
            twice = next(player for player in items if items.count(player) > 1)
            raise ValueError(f"ranking {row} holds {twice!r} twice")
        if len(items) < 2:
            raise ValueError(f"ranking {row} must hold at least two players, got {items!r}")
        tied = max(map(len, places))
        if tied > 1 and ties == "refuse":
            raise ValueError(f"ranking {row} holds tied players: break the tie, or say ties='split'")
        if tied > MOST_TIED:
            raise ValueError(f"ranking {row} holds {tied} tied players: at most {MOST_TIED} can be split")
        amount = 1.0 if weight is None else float(weight[row])
        if amount > 0:
            unit_of.append(kinds.setdefault((places, amount), len(kinds)))
            each.append(amount)
    if not kinds:
        raise ValueError("there must be at least one ranking, got none")
    players = sorted({player for places, _ in kinds for place in places for player in place})
    number = {player: place for place, player in enumerate(players)}
    if len(players) < 2:
        raise ValueError(f"there must be at least two players, got {players}")
    sizes, outcomes, rows, columns, values, stages = [0], [], [], [], [], {}
    for u, (places, amount) in enumerate(kinds):
        left = {player for place in places for player in place}
        for place in places:
            for m in range(len(place)):
                for gone in combinations(place, m):
                    among = tuple(sorted(number[player] for player in left - set(gone)))
                    if len(among) < 2:
                        continue
                    if among not in stages:
                        stages[among] = len(outcomes)
                        outcomes.extend(among)
                        sizes.append(len(outcomes))
                    share = amount / (comb(len(place), m) * (len(place) - m))
                    for player in place:
                        if player not in gone:
                            rows.append(stages[among] + among.index(number[player]))
                            columns.append(u)
                            values.append(share)
            left -= set(place)
    shape = (len(outcomes), len(players))
    features = sp.csr_array((np.ones(len(outcomes)), np.array(outcomes), np.arange(len(outcomes) + 1)), shape=shape)
    amounts = sp.csc_array((values, (rows, columns)), shape=(len(outcomes), len(kinds)))
    repeats = np.bincount(unit_of, minlength=len(kinds)).astype(np.float64)
    observations = Observations(repeats, np.array(unit_of))
    names = tuple(str(player) for player in players)
    return Battles(features, np.array(sizes), amounts, observations, np.array(players), names)

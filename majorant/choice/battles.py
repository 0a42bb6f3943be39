"""Battles and rankings as choices with sparse features: every refusal names the battle, the column or the ranking.

A battle of i and j with covariates c is a choice between an outcome with features e_i + c and one with e_j; Davidson's
tie has (e_i + e_j + c) / 2 and a feature of its own. A ranking is a choice of the best player of all, then of the best
of the others, and so on. Equal battles and rankings are written out once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import scipy.sparse as sp

from majorant.core.checks import Array, finite_array
from majorant.core.choices import Choices
from majorant.estimators.base import distinct
from majorant.resampling import Observations

# What arenas write where no player won.
NEITHER = ("tie", "tie (bothbad)", "both", "bothbad", "both_bad", "draw")
# Items of a ranking that may be tied: the orders they may have had are 2^m sets.
MOST_TIED = 10


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
        members = sp.csr_array(
            (np.ones(len(amount)), np.arange(len(amount)), self.sets), shape=(len(sizes), len(amount))
        )
        return sp.csr_array((members @ seen).T @ (members @ of_players))


def read_battles(
    first: Array, second: Array, share: Array, weight: Array | None, C: Array, names: Sequence[str], ties: str
) -> Battles:
    """Return battles with a share of the win for the first player, equal ones once."""
    players, i, j = _players(first, second)
    itself = np.flatnonzero(i == j)
    if len(itself):
        row = int(itself[0])
        raise ValueError(
            f"battle {row} is one of {players.tolist()[i[row]]!r} against itself; drop it ({len(itself)} such)"
        )
    if len(players) < 2:
        raise ValueError(f"there must be at least two players, got {players.tolist()}")
    weight = np.ones(len(i)) if weight is None else weight
    unit_of: Array | None
    repeats: Array
    kept = weight > 0
    if ties == "drop":
        kept &= share != 0.5
        if not kept.any():
            raise ValueError("all battles are ties, and ties='drop' leaves none: use ties='half'")
    if not kept.all():
        i, j, share, weight, C = i[kept], j[kept], share[kept], weight[kept], C[kept]
    davidson = ties == "davidson"
    if davidson and not (share == 0.5).any():
        raise ValueError("ties='davidson' needs ties, and there are none: use ties='drop'")
    if davidson and (share == 0.5).all():
        raise ValueError("all battles are ties: ties='davidson' tells nothing of ratings; use ties='half'")

    # The lower player first, and equal battles once.
    swapped = i > j
    i, j = np.where(swapped, j, i), np.where(swapped, i, j)
    share, C = np.where(swapped, 1.0 - share, share), np.where(swapped[:, None], -C, C)
    key, order = i * np.int64(len(players)) + j, None
    if C.shape[1]:
        sample = np.random.default_rng(0).integers(len(C), size=min(len(C), 4096))
        if len(np.unique(np.column_stack([key[sample], C[sample]]), axis=0)) < 0.9 * len(np.unique(sample)):
            key = np.unique(np.column_stack([key, C]), axis=0, return_inverse=True)[1].ravel()
        else:
            # The Hessian is then filled row by row; sixteen bits are sorted in a tenth of the time.
            order = np.argsort(key.astype(np.uint16) if len(players) <= 256 else key, kind="stable")
            i, j, share, weight, C = i[order], j[order], share[order], weight[order], C[order]
    if order is None:
        _, where, of_set = np.unique(key, return_index=True, return_inverse=True)
    else:
        where = of_set = np.arange(len(key))
    # Of a set there may be wins, losses and ties, of different weights.
    if len(where) == len(i):
        number, won, each, unit_of, repeats = of_set, share, weight, None, np.ones(len(i))
    elif (weight == 1).all():
        code, unit_of, repeats = np.unique(
            3 * of_set + (2 * share).astype(int), return_inverse=True, return_counts=True
        )
        number, won, each = code // 3, 0.5 * (code % 3), np.ones(len(code))
    else:
        units, unit_of, repeats = np.unique(
            np.column_stack([of_set, share, weight]), axis=0, return_inverse=True, return_counts=True
        )
        number, won, each = units[:, 0].astype(int), units[:, 1], units[:, 2]
    if order is not None:
        unit_of = np.empty(len(order), dtype=np.int64)
        unit_of[order] = np.arange(len(order))
    if not kept.all():  # rows that were left out still have a place, for clusters
        rows = np.full(len(kept), -1)
        rows[kept] = np.arange(len(i)) if unit_of is None else unit_of
        unit_of = rows

    # Features: one row for each outcome of a set.
    q, P, width = C.shape[1], len(players), 3 if davidson else 2
    sets, one, two = len(where), i[where], j[where]
    # The first player wins: e_i + c; the second one: e_j; a tie: (e_i + e_j + c) / 2 + e_tie.
    lengths = np.array([1 + q, 1, 3 + q] if davidson else [1 + q, 1])
    stored = int(lengths.sum())
    values, columns = np.empty((sets, stored)), np.empty((sets, stored), dtype=np.int32)
    of_covariates = np.arange(P + davidson, P + davidson + q)
    columns[:, 0], columns[:, 1 : 1 + q], columns[:, 1 + q] = one, of_covariates, two
    values[:, 0] = values[:, 1 + q] = 1.0
    if q:
        values[:, 1 : 1 + q] = C if sets == len(C) else C[where]
    if davidson:
        columns[:, q + 2], columns[:, q + 3], columns[:, q + 4], columns[:, q + 5 :] = one, two, P, of_covariates
        values[:, q + 4] = 1.0
        values[:, q + 2 : q + 4], values[:, q + 5 :] = 0.5, 0.5 * values[:, 1 : 1 + q]
    begins = np.cumsum(lengths) - lengths
    rows = np.append((stored * np.arange(sets)[:, None] + begins).ravel(), stored * sets).astype(np.int32)
    features = sp.csr_array((values.ravel(), columns.ravel(), rows), shape=(width * sets, P + davidson + q))
    u = np.arange(len(number))
    if davidson or not (won == 0.5).any():  # one outcome each
        outcome = np.select([won == 1.0, won == 0.0], [0, 1], 2)
        amounts = sp.csc_array((each, width * number + outcome, np.arange(len(u) + 1)), shape=(width * sets, len(u)))
    else:
        shares, at = np.concatenate([each * won, each * (1 - won)]), np.concatenate([2 * number, 2 * number + 1])
        some = shares > 0
        amounts = sp.csc_array((shares[some], (at[some], np.tile(u, 2)[some])), shape=(2 * sets, len(u)))
    labels = [str(player) for player in players.tolist()] + (["tie"] if davidson else []) + list(names)
    observed = Observations(np.asarray(repeats, dtype=np.float64), unit_of)
    return Battles(features, width * np.arange(sets + 1), amounts, observed, players, tuple(labels))


def column_of(df: Any, name: str) -> Any:
    """Return a column of a data frame."""
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
        names, codes = distinct(both)
        return names, codes[: len(first)], codes[len(first) :]
    given = both.tolist()
    kinds = {type(name).__name__ for name in dict.fromkeys(given)}
    missing = [place for place, name in enumerate(given) if name is None or name != name]
    if missing:
        raise ValueError(f"players must have names, got {given[missing[0]]!r} in battle {missing[0] % len(first)}")
    if len(kinds) > 1:
        raise ValueError(f"players must be named by one type, got {' and '.join(sorted(kinds))}")
    ordered = sorted(set(given))
    places = {name: place for place, name in enumerate(ordered)}
    codes = np.fromiter(map(places.__getitem__, given), np.int64, len(given))
    return np.array(ordered), codes[: len(first)], codes[len(first) :]


def read_covariates(what: str, given: Any, rows: int, names: Sequence[str] = ()) -> tuple[Array, tuple[str, ...]]:
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


def read_player_covariates(given: Any, players: Array) -> tuple[Array, tuple[str, ...]]:
    """Return the covariates of players as an array, and their names."""
    if given is None:
        return np.zeros((len(players), 0)), ()
    names: tuple[str, ...] = ()
    if hasattr(given, "columns") and hasattr(given, "index"):
        names = tuple(map(str, given.columns))
        given = dict(zip(given.index.tolist(), np.asarray(given), strict=True))
    if not isinstance(given, Mapping):
        raise ValueError(f"player_covariates must be a dict or a data frame by player, got {given!r:.80}")
    lacking = [player for player in players.tolist() if player not in given]
    if lacking:
        raise ValueError(f"player_covariates must hold every player, and lack {lacking[0]!r}")
    rows = [np.atleast_1d(given[player]) for player in players.tolist()]
    Z = finite_array("player_covariates", np.stack(rows), ndim=2).astype(np.float64)
    return Z - Z.mean(axis=0), names or tuple(f"z{k}" for k in range(Z.shape[1]))


def read_shares(first: Array, second: Array, won: Array, columns: tuple[str, str, str]) -> Array:
    """Return the share of each win that goes to the first player."""
    a, b, winner = columns
    if won.dtype.kind in "fb" or (won.dtype.kind in "iu" and first.dtype.kind not in "iu"):
        share = won.astype(np.float64)
        wrong = ~np.isin(share, (0.0, 0.5, 1.0))
    else:
        # Names of players come first: one may be named as a column is.
        one, two = won == first, won == second
        for of_first, of_second in ((a, b), ("a", "b")):
            unnamed = ~(one | two)
            one, two = one | (unnamed & (won == of_first)), two | (unnamed & (won == of_second))
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


def read_rankings(orders: Any, weight: Array | None, ties: str) -> Battles:
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
    sizes, outcomes = [0], list[int]()
    rows, columns, values, stages = list[int](), list[int](), list[float](), dict[tuple[int, ...], int]()
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

"""The bootstrap and the jackknife of estimates that weights of the observations lead to.

A replicate is a fit to the same observations with other weights: how often each was drawn with replacement
(*multinomial*; Efron, 1979), or exponential ones (*bayesian*; Rubin, 1981), by clusters where observations depend on
each other. The estimate is near, so that Newton's method takes two or three steps from there, and its last step comes
with a certificate. Of separated replicates there is no estimate: they are counted, and left out of every average.

The influence of an observation on the estimate is −H⁻¹ times its score. The squares of all influences are the
infinitesimal jackknife, which is the sandwich; their cubes are the acceleration of BCa intervals (Efron, 1987).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from majorant.core.checks import Array, needed, one_of, whole
from majorant.core.result import aligned, paragraph, table
from majorant.core.threads import mapped

KINDS = ("multinomial", "bayesian", "jackknife")
INTERVALS = ("percentile", "bca", "normal")
# Standard errors that a replicate may be from its exact optimum: they add 2.5e-5 to a variance of one, at most.
TOLERANCE = 5e-3


@dataclass(frozen=True, eq=False)
class Observations:
    """What is drawn from: distinct observations, how often each occurs, and which one each row is.

    Parameters
    ----------
    repeats : array of shape (u,)
        How many rows are like each distinct observation.
    unit_of : array of shape (t,), optional
        The distinct observation that each row is, −1 of rows that were left out; the row itself if None.
    """

    repeats: Array
    unit_of: Array | None = None

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.repeats) if self.unit_of is None else len(self.unit_of)

    def clusters(self, cluster: ArrayLike) -> tuple[Array, int]:
        """Return the number of each row's cluster, and how many clusters there are."""
        given = np.asarray(cluster)
        if given.shape != (self.rows,):
            raise ValueError(f"cluster must have one entry per observation ({self.rows}), got shape {given.shape}")
        try:
            names, numbers = np.unique(given, return_inverse=True)
        except TypeError:
            raise ValueError("cluster must be of one type, such as numbers or strings, got a mixture") from None
        if len(names) < 2:
            raise ValueError(f"cluster must name at least two clusters, got only {names.tolist()}")
        return numbers, len(names)

    def of_clusters(self, weight: Array, numbers: Array) -> Array:
        """Return the weights of distinct observations if those of their clusters are given."""
        units = np.arange(self.rows) if self.unit_of is None else self.unit_of
        here = units >= 0
        return np.bincount(units[here], weight[numbers[here]], minlength=len(self.repeats))


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """Estimates of resampled data: standard errors and intervals, and how many of them there are.

    Attributes
    ----------
    names : tuple of str
    estimates : array of shape (k,)
        Of the data themselves.
    replicates : array of shape (b, k)
        Of resampled data, without those that are separated.
    separated, unresolved : int
        Replicates without an estimate, and replicates of which neither an estimate nor its absence was proved.
    within : float
        How many standard errors a replicate is from its exact optimum, at most.
    infinitesimal : array of shape (k,)
        Standard errors by the infinitesimal jackknife.
    """

    names: tuple[str, ...]
    estimates: Array
    replicates: Array
    kind: str
    separated: int
    unresolved: int
    within: float
    infinitesimal: Array
    acceleration: Array
    alone: bool = False  # whether every cluster has one observation
    repeats: Array | None = None  # of jackknife replicates: how many observations each leaves out one of

    @property
    def std_errors(self) -> Array:
        """The standard deviation of replicates; of the jackknife its own formula."""
        if self.kind == "jackknife":
            counts = np.ones(len(self.replicates)) if self.repeats is None else self.repeats
            total = counts.sum()
            mean = counts @ self.replicates / total
            return np.sqrt((total - 1) / total * (counts @ (self.replicates - mean) ** 2))
        return self.replicates.std(axis=0, ddof=1)

    def interval(self, level: float = 0.95, kind: str = "percentile") -> Array:
        """Return confidence intervals.

        Parameters
        ----------
        level : float
        kind : {"percentile", "bca", "normal"}
            Quantiles of replicates, the same corrected for bias and acceleration, or the estimate and multiples of its
            standard error, which is all that a jackknife has.

        Returns
        -------
        array of shape (k, 2)
        """
        if not 0 < level < 1:
            raise ValueError(f"level must lie between 0 and 1, got {level!r}; 0.95 is usual")
        tails = np.array([0.5 - 0.5 * level, 0.5 + 0.5 * level])
        if one_of("kind", kind, INTERVALS) == "normal" or self.kind == "jackknife":
            if kind != "normal" and self.kind == "jackknife":
                raise ValueError(f"a jackknife has no quantiles: ask for kind='normal', got {kind!r}")
            return self.estimates[:, None] + np.outer(self.std_errors, ndtri(tails))
        if kind == "percentile":
            return np.quantile(self.replicates, tails, axis=0).T
        below = (self.replicates < self.estimates).mean(axis=0)
        below += 0.5 * (self.replicates == self.estimates).mean(axis=0)
        count = len(self.replicates)
        bias = ndtri(np.clip(below, 0.5 / count, 1 - 0.5 / count))[:, None]
        moved = bias + ndtri(tails)
        levels = ndtr(bias + moved / (1.0 - self.acceleration[:, None] * moved))
        return np.stack([np.quantile(self.replicates[:, i], levels[i]) for i in range(len(levels))])

    def rows(self, level: float = 0.95) -> list[tuple[float, ...]]:
        """Return estimate, standard error and interval of each parameter.

        Parameters
        ----------
        level : float
            Of the intervals.

        Returns
        -------
        list of tuples
        """
        ends = self.interval(level, "normal" if self.kind == "jackknife" else "percentile")
        columns = np.column_stack([self.estimates, self.std_errors, ends])
        return [tuple(float(each) for each in row) for row in columns]

    def to_frame(self, level: float = 0.95) -> Any:
        """Return the table as a pandas data frame, one row for each parameter.

        Parameters
        ----------
        level : float
            Of the intervals.

        Returns
        -------
        pandas.DataFrame
        """
        frames = needed("pandas", "to_frame()", "frames")
        return frames.DataFrame(
            self.rows(level), index=list(self.names), columns=["estimate", "std_err", "low", "high"]
        )

    def __str__(self) -> str:
        cells = [("", "estimate", "std. err.", "2.5 %", "97.5 %"), *self._cells()]
        return "\n".join([self._sentence(), "", aligned(cells)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return paragraph(self._sentence()) + table(("", "estimate", "std. err.", "2.5 %", "97.5 %"), self._cells())

    def _cells(self) -> list[tuple[str, ...]]:
        return [(name, *(f"{each:.6g}" for each in row)) for name, row in zip(self.names, self.rows(), strict=True)]

    def _sentence(self) -> str:
        near = f"each within {self.within:.1e} standard errors of its optimum"
        words = f"{len(self.replicates)} {self.kind} replicates, {near}"
        if self.separated:
            words += f"; {self.separated} more have no maximum-likelihood estimate (separated) and are left out"
        if self.unresolved:
            words += f"; {self.unresolved} more did not converge and are left out"
        if self.alone:
            words += "; every cluster has one observation, so that clusters change nothing"
        return words


@dataclass(frozen=True, eq=False)
class Replicate:
    """Estimates of resampled data and how far they are from the optimum; None where there is none."""

    estimates: Array | None
    within: float = inf
    separated: bool = False


def bootstrap(
    names: Sequence[str],
    estimates: Array,
    observations: Observations,
    fit: Callable[[Array], Replicate],
    influences: Callable[[], Iterable[tuple[slice, Array]]],
    *,
    n: int,
    cluster: ArrayLike | None,
    kind: str,
    seed: int,
) -> Bootstrap:
    """Return replicates of estimates.

    Parameters
    ----------
    names, estimates
        Of the data themselves.
    observations : Observations
        What is drawn from.
    fit : callable
        Returns the replicate of weights of distinct observations.
    influences : callable
        Returns slices of distinct observations with their influences (rows×k).
    n, cluster, kind, seed
        Replicates, the cluster of each row, one of :data:`KINDS`, and where random numbers begin.
    """
    one_of("kind", kind, KINDS)
    whole("seed", seed, least=0)
    if kind != "jackknife":
        whole("n", n, least=2)
    numbers, groups = (None, 0) if cluster is None else observations.clusters(cluster)
    repeats, units = observations.repeats.astype(np.float64), len(observations.repeats)
    total = repeats.sum()
    alone = bool((repeats == 1).all())
    left_out = np.arange(groups) if numbers is not None else np.flatnonzero(repeats)

    def weights(b: int) -> Array:
        if kind == "jackknife":
            if numbers is not None:
                return observations.of_clusters((np.arange(groups) != left_out[b]).astype(float), numbers)
            others = repeats.copy()
            others[left_out[b]] -= 1
            return others
        rng = np.random.default_rng([seed, b])
        if numbers is not None:
            drawn = _drawn(rng, groups) if kind == "multinomial" else rng.standard_exponential(groups)
            drawn = drawn * (groups / drawn.sum())
            return observations.of_clusters(drawn, numbers)
        if kind == "multinomial":
            return _drawn(rng, units) if alone else rng.multinomial(int(total), repeats / total).astype(np.float64)
        drawn = rng.standard_gamma(repeats)
        return drawn * (total / drawn.sum())

    done = mapped(lambda b: fit(weights(b)), range(len(left_out) if kind == "jackknife" else n))
    found = [each.estimates for each in done if each.estimates is not None]
    separated = sum(each.separated for each in done)
    if len(found) < 2:
        raise ValueError(
            f"{separated} of {len(done)} replicates have no maximum-likelihood estimate (separated): use a finite C"
        )
    squares, cubes = np.zeros(len(estimates)), np.zeros(len(estimates))
    of_clusters, members = np.zeros((groups, len(estimates))), None
    if numbers is not None:
        rows = np.arange(observations.rows) if observations.unit_of is None else observations.unit_of
        here = rows >= 0
        members = sp.csc_array((np.ones(here.sum()), (numbers[here], rows[here])), shape=(groups, units))
    for part, values in influences():
        if members is None:
            of_part = values * values
            squares += repeats[part] @ of_part
            of_part *= values  # a third power would take ten times as long
            cubes += repeats[part] @ of_part
        else:
            of_clusters += members[:, part] @ values
    if members is not None:
        squares, cubes = (of_clusters**2).sum(axis=0), (of_clusters**3).sum(axis=0)
    acceleration = np.divide(cubes, 6.0 * squares**1.5, out=np.zeros(len(squares)), where=squares > 0)
    of_jackknife = kind == "jackknife" and numbers is None
    kept = np.array([each.estimates is not None for each in done])
    return Bootstrap(
        tuple(names),
        np.asarray(estimates),
        np.stack(found),
        kind,
        separated,
        len(done) - len(found) - separated,
        max(each.within for each in done if each.estimates is not None),
        np.sqrt(squares),
        acceleration,
        groups == observations.rows,
        repeats[left_out][kept] if of_jackknife else None,
    )


def _drawn(rng: np.random.Generator, units: int) -> Array:
    """Return how often each of some units is drawn, with replacement, in as many draws."""
    return np.bincount(rng.integers(units, size=units), minlength=units).astype(np.float64)

"""``EntropyBalancing``: weights of a sample that give it the means of a population, a group or a trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from majorant.core import kernels
from majorant.core.checks import Array, finite_array, needed, new_axes, refuse_non_finite, whole
from majorant.core.result import Outcome, Result, aligned, counted, paragraph, table
from majorant.estimators.base import check_number
from majorant.estimators.fitting import warn
from majorant.maxent.dual import LARGE, Moments, of_table, responsible, solve

# A column that varies by a smaller share of its size is constant: what is left are rounding errors.
CONSTANT = 1e-12
# Shares of a margin may miss one by so much, as printed tables do.
SHARES = 1e-6


class EntropyBalancing:
    """Weights nearest to base weights in relative entropy that give columns the means asked for.

    With indicators of categories these are raking and post-stratification, with the means of treated units entropy
    balancing (Hainmueller, 2012), with published means of a trial MAIC. Infeasible targets are a ValueError that names
    the columns; weights that are returned as converged have been looked at: their means are within ``tol``.

    Parameters
    ----------
    X : array or data frame of shape (n, d)
        What has to be balanced: numbers, or indicators of categories.
    targets : array of shape (d,), dict or series
        The mean that each column should have.
    base_weights : array of shape (n,), optional
        Positive; weights stay as near to them as they can, and have their sum.
    tolerance : float or array of shape (d,)
        How far each mean may be off, in units of its column. Zero balances exactly.
    max_ratio : float, optional
        The most that a weight may be times what it would be without balancing: weights are cut off there.
    tol : float
        The imbalance that is left, in standard deviations of each column, at most.
    max_iter : int
        Newton steps.

    Attributes
    ----------
    weights_ : array of shape (n,)
    coef_ : array of shape (d,)
        λ: log-weights are log base weights + Xλ, up to a constant.
    effective_size_ : float
        Kish's (Σw)²/Σw².
    imbalance_ : float
        The largest distance of a weighted mean from its target, beyond the tolerance, in standard deviations.
    feature_names_ : tuple of str
    result_ : Result
        How it ended, as a sentence.

    Examples
    --------
    Forty people, too many of them young, get the mean age and the share of women of a population:

    >>> import numpy as np
    >>> import majorant
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([rng.uniform(20, 60, 40), rng.integers(2, size=40)])
    >>> fitted = majorant.EntropyBalancing(X, [45.0, 0.5])
    >>> np.average(X, axis=0, weights=fitted.weights_)
    array([45. ,  0.5])
    >>> print(fitted)
    balanced in ... steps; means are within ... standard deviations of their targets; effective size 36.72 of 40
    >>> fitted.balance()["smd before"].round(2)
    array([-0.29,  0.  ])
    >>> fitted.plot().get_xlabel()
    '|mean − target| in standard deviations'

    Where nobody is older than 60, no weights give a mean of 70:

    >>> majorant.EntropyBalancing(X, [70.0, 0.5])
    Traceback (most recent call last):
    ValueError: targets are infeasible, which is proved: values of 'x0' lie between 20.1095 and 59.8884, and its ...
    """

    weights_: Array
    coef_: Array
    result_: Result

    def __init__(
        self,
        X: Any,
        targets: Any,
        base_weights: Any = None,
        tolerance: Any = 0,
        max_ratio: float | None = None,
        *,
        tol: float = 1e-9,
        max_iter: int = 200,
    ) -> None:
        values, self.feature_names_ = of_table(X)
        if values.ndim != 2 or not values.size:
            raise ValueError(f"X must have rows and columns, got an array of shape {values.shape}")
        n, d = values.shape
        target = read_targets(targets, self.feature_names_)
        base = read_base(base_weights, n)
        allowed = np.broadcast_to(finite_array("tolerance", tolerance, ndim=(0, 1)), (d,)).astype(np.float64)
        if (allowed < 0).any():
            raise ValueError(f"tolerance must be non-negative, got {float(allowed.min()):g}")
        if max_ratio is not None and not max_ratio > 1:
            raise ValueError(f"max_ratio must be above 1, which only base weights have, got {max_ratio!r}")
        check_number("tol", tol, least=0.0)
        whole("max_iter", max_iter, least=0)

        # Columns in units of their standard deviation; constant ones say nothing, or cannot be balanced.
        q = None if base is None else base / base.sum()
        self.mean_, spread, low, high = column_facts(values, q)
        refuse_non_finite("X", values if not np.isfinite(self.mean_).all() else self.mean_)
        sizes = np.maximum(np.maximum(np.abs(low), np.abs(high)), 1e-300)
        constant = high - low <= CONSTANT * sizes
        for k in np.flatnonzero(constant):
            if abs(values[0, k] - target[k]) > allowed[k] + CONSTANT * sizes[k]:
                raise ValueError(
                    f"column {self.feature_names_[k]!r} is constant ({values[0, k]:g}), and no weights give it the "
                    f"mean {target[k]:g}: drop it"
                )
        varying = np.flatnonzero(~constant)
        cap = np.inf if max_ratio is None else float(max_ratio)
        self.coef_, steps, off = np.zeros(d), 0, 0.0
        scores = np.zeros(n)
        problem = Moments(
            values[:, varying] if constant.any() else values,
            q,
            target[varying],
            spread[varying],
            allowed[varying],
            sizes[varying],
            cap,
        )
        if len(varying):
            found = solve(problem, tol=0.5 * tol, max_iter=max_iter)
            if found.infeasible:
                self._refuse(problem, found.λ, varying, target, allowed, values)
            self.coef_[varying], steps, scores, off = found.λ / spread[varying], found.steps, found.scores, found.off
        self.weights_ = problem.weights(scores)[0] * (float(n) if base is None else float(base.sum()))
        self.target_, self.tolerance_, self._spread, self._X, self._base = target, allowed, spread, values, base

        # What is said of the weights is found from the weights alone.
        mean = self.weights_ @ values / self.weights_.sum()
        beyond = np.maximum(np.abs(mean - target) - allowed, 0.0)
        unit = np.where(constant, sizes, spread)
        self.imbalance_ = float((beyond / unit).max())
        self.effective_size_ = float(self.weights_.sum() ** 2 / (self.weights_ @ self.weights_))
        size = f"effective size {self.effective_size_:.4g} of {n}"
        within = f"means are within {self.imbalance_:.1e} standard deviations of their targets"
        if self.imbalance_ <= tol and off <= tol:
            words = f"balanced in {counted(steps, 'step')}; {within}; {size}"
            self.result_ = Result(Outcome.CONVERGED, words, float("nan"))
        else:
            worst = self.feature_names_[int((beyond / unit).argmax())]
            words = (
                f"not balanced after {counted(steps, 'step')}: the mean of {worst!r} is {self.imbalance_:.1e} standard "
                "deviations off, and no proof was found that its target cannot be reached"
            )
            self.result_ = Result(Outcome.STALLED, words, float("nan"))
            warn(self.result_, remedy="give a tolerance, or fewer columns")

    @classmethod
    def to_group(cls, X: Any, treated: Any, base_weights: Any = None, **settings: Any) -> Self:
        """Return weights of untreated rows that give them the means of the treated ones.

        Parameters
        ----------
        X : array or data frame of shape (n, d)
        treated : array of bool, shape (n,)
        base_weights : array of shape (n,), optional
            Of all rows; those of treated rows weigh their means.
        **settings
            Of the class.

        Returns
        -------
        EntropyBalancing
            ``weights_`` are those of the untreated rows, in their order.

        Examples
        --------
        >>> import numpy as np
        >>> import majorant
        >>> X, treated = np.array([[1.0], [2.0], [3.0], [2.5]]), np.array([False, False, False, True])
        >>> majorant.EntropyBalancing.to_group(X, treated).weights_.round(2)
        array([0.35, 0.8 , 1.85])
        """
        values, names = of_table(X)
        group = np.asarray(treated)
        if group.dtype.kind not in "biu" or group.shape != (len(values),) or not np.isin(group, (0, 1)).all():
            raise ValueError(f"treated must be True or False for each row ({len(values)}), got {group!r:.80}")
        group = group.astype(bool)
        if group.all() or not group.any():
            raise ValueError(f"treated must name two groups, got only {bool(group[0])}")
        base = read_base(base_weights, len(values))
        target = values[group].mean(axis=0) if base is None else base[group] @ values[group] / base[group].sum()
        rest = Named(values[~group], names)
        return cls(rest, target, None if base is None else base[~group], **settings)

    @classmethod
    def from_margins(cls, df: Any, margins: Any, base_weights: Any = None, **settings: Any) -> Self:
        """Return weights that give the columns of a data frame the shares of categories asked for: raking.

        Parameters
        ----------
        df : pandas or polars data frame, or dict of arrays
        margins : dict or data frame
            ``{column: {category: share}}``; numbers that do not sum to one are totals. The name of a column is a tuple
            for cells of several columns, as post-stratification has them: ``{("sex", "age"): {("f", "old"): 0.2, …}}``.
            ``{column: number}`` is the mean of a column of numbers. A data frame has the columns variable, category
            (missing where the mean is meant) and share.
        base_weights : array of shape (n,), optional
        **settings
            Of the class.

        Returns
        -------
        EntropyBalancing
            Its columns are indicators, named ``column=category``.

        Examples
        --------
        >>> import majorant
        >>> people = {"sex": ["f", "m", "m", "f", "m"], "age": ["old", "young", "old", "young", "young"]}
        >>> margins = {"sex": {"f": 0.5, "m": 0.5}, "age": {"old": 0.3, "young": 0.7}}
        >>> fitted = majorant.EntropyBalancing.from_margins(people, margins)
        >>> fitted.weights_.round(2)
        array([0.93, 0.96, 0.57, 1.57, 0.96])
        """
        indicators, targets, names = [], [], []
        for column, shares in read_margins(margins).items():
            if not isinstance(shares, Mapping):
                indicators.append(finite_array(f"column {column!r}", _column_of(df, column), ndim=1))
                targets.append(shares)
                names.append(str(column))
                continue
            variables = column if isinstance(column, tuple) else (column,)
            cells = [np.asarray(_column_of(df, variable)) for variable in variables]
            label = " × ".join(map(str, variables))
            total = float(sum(shares.values()))
            if not total > 0 or min(shares.values()) < 0:
                raise ValueError(f"the margin of {label!r} must hold non-negative shares, got {shares!r:.80}")
            known = np.zeros(len(cells[0]), dtype=bool)
            for category, share in shares.items():
                parts = category if isinstance(category, tuple) else (category,)
                here = np.ones(len(cells[0]), dtype=bool)
                for cell, part in zip(cells, parts, strict=True):
                    here &= cell.astype(str) == str(part)
                name = " × ".join(map(str, parts))
                if share > 0 and not here.any():
                    raise ValueError(
                        f"no row has {label} = {name!r}, which should have a share of {share / total:.3g}: merge it "
                        "with another category"
                    )
                known |= here
                indicators.append(here.astype(np.float64))
                targets.append(share / total)
                names.append(f"{label}={name}")
            if not known.all():
                row = int(np.argmin(known))
                got = ", ".join(str(cell[row]) for cell in cells)
                raise ValueError(f"row {row} has {label} = {got!r}, which has no share in the margins")
        return cls(Named(np.stack(indicators, axis=1), tuple(names)), targets, base_weights, **settings)

    def balance(self) -> Balance:
        """Return the table of means: their targets, before and after, and distances in standard deviations.

        Returns
        -------
        Balance
            Printed it is text, notebooks show HTML, ``to_frame()`` returns a pandas data frame.
        """
        after = self.weights_ @ self._X / self.weights_.sum()
        unit = np.where(self._spread > 0, self._spread, 1.0)
        columns = {
            "target": self.target_,
            "before": self.mean_,
            "after": after,
            "smd before": (self.mean_ - self.target_) / unit,
            "smd after": (after - self.target_) / unit,
        }
        return Balance(self.feature_names_, columns)

    def plot(self, *, ax: Any = None) -> Any:
        """Draw how far means are from their targets before and after, in standard deviations (a love plot).

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure if None.

        Returns
        -------
        matplotlib axes
            What was drawn on.
        """
        axis, found = new_axes() if ax is None else ax, self.balance()
        before, after = np.abs(found["smd before"]), np.abs(found["smd after"])
        order = np.argsort(before, kind="stable")
        places, names = np.arange(len(order)), [self.feature_names_[k] for k in order]
        if ax is None:
            axis.figure.set_size_inches(6.4, min(max(1.4 + 0.26 * len(names), 2.4), 40.0))
        axis.hlines(places, after[order], before[order], color="#CCCCCC", lw=1.2, zorder=1)
        axis.plot(before[order], places, "o", ms=6, mfc="none", color="#D55E00", label="before")
        axis.plot(after[order], places, "o", ms=6, color="#0072B2", label="after")
        axis.axvline(0.1, color="#8A8A8A", ls=":", lw=1)
        axis.set(yticks=places, yticklabels=names, xlabel="|mean − target| in standard deviations")
        axis.legend(frameon=False, loc="lower right")
        axis.grid(axis="x", alpha=0.3)
        return axis

    def __repr__(self) -> str:
        return str(self.result_)

    def _repr_html_(self) -> str:
        return paragraph(str(self.result_)) + self.balance()._repr_html_()

    def _refuse(self, problem: Moments, λ: Array, varying: Array, target: Array, allowed: Array, values: Array) -> None:
        """Refuse targets that no weights reach, by the names of their columns."""
        columns = varying[responsible(problem, λ)]
        one = columns[0]
        low, high = float(values[:, one].min()), float(values[:, one].max())
        cap = "" if np.isinf(problem.cap) else f" of at most {problem.cap:g} times their base"
        if len(columns) == 1 and not low - allowed[one] <= target[one] <= high + allowed[one]:
            name = self.feature_names_[one]
            words = f"values of {name!r} lie between {low:g} and {high:g}, and its target is {target[one]:g}"
        else:
            named = " and ".join(f"{self.feature_names_[k]!r} ({target[k]:g})" for k in columns[:6])
            more = f" and {len(columns) - 6} more" if len(columns) > 6 else ""
            words = f"no weights{cap} give {named}{more} these means{' together' if len(columns) > 1 else ''}"
        remedy = "raise max_ratio, or give a tolerance" if cap else "change these targets, or give a tolerance"
        raise ValueError(f"targets are infeasible, which is proved: {words}; {remedy}")


class Balance:
    """Means of columns before and after weighting.

    ``str`` gives text, notebooks show HTML, :meth:`to_frame` returns a pandas data frame.
    """

    def __init__(self, names: tuple[str, ...], columns: Mapping[str, Array]) -> None:
        self.names, self.columns = names, columns

    def __getitem__(self, name: str) -> Array:
        return self.columns[name]

    def to_frame(self) -> Any:
        """Return the table as a pandas data frame, one row for each column of X.

        Returns
        -------
        pandas.DataFrame
        """
        frames = needed("pandas", "to_frame()", "frames")
        return frames.DataFrame(dict(self.columns), index=list(self.names))

    def __str__(self) -> str:
        return aligned([("", *self.columns), *self._cells()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return table(("", *self.columns), self._cells())

    def _cells(self) -> list[tuple[str, ...]]:
        rows = zip(*self.columns.values(), strict=True)
        return [(name, *(f"{each:.4g}" for each in row)) for name, row in zip(self.names, rows, strict=True)]


class Named:
    """An array with names of its columns, as much of a data frame as is looked at."""

    def __init__(self, values: Array, columns: tuple[str, ...]) -> None:
        self.values, self.columns = values, columns

    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        return np.asarray(self.values, dtype=dtype)


def read_targets(targets: Any, names: Sequence[str]) -> Array:
    """Return a number for each column."""
    if hasattr(targets, "index") and hasattr(targets, "to_dict"):
        targets = targets.to_dict()
    if isinstance(targets, Mapping):
        lacking = [name for name in names if name not in targets]
        unknown = [name for name in targets if name not in names]
        if lacking or unknown:
            what = f"lack {lacking[0]!r}" if lacking else f"name {unknown[0]!r}, which is no column"
            raise ValueError(f"targets must name the columns of X ({', '.join(names):.200}), and {what}")
        targets = [targets[name] for name in names]
    values = finite_array("targets", targets, ndim=1).astype(np.float64)
    if len(values) != len(names):
        raise ValueError(f"targets must hold a mean for each column of X ({len(names)}), got {len(values)}")
    return values


def read_base(base_weights: Any, rows: int) -> Array | None:
    """Return positive weights."""
    if base_weights is None:
        return None
    base = finite_array("base_weights", base_weights, ndim=1).astype(np.float64)
    if len(base) != rows:
        raise ValueError(f"base_weights must have one entry per row ({rows}), got {len(base)}")
    if not (base > 0).all():
        row = int(np.argmin(base))
        raise ValueError(f"base_weights must be positive, got {base[row]:g} at row {row}; drop such rows")
    return base


def column_facts(X: Array, q: Array | None) -> tuple[Array, Array, Array, Array]:
    """Return the mean, standard deviation, least and largest value of each column."""
    n, d = X.shape
    if X.size < LARGE:
        mean = X.mean(axis=0) if q is None else q @ X
        Z = X - mean
        squares = np.einsum("ij,ij->j", Z, Z) / n if q is None else q @ Z**2
        return mean, np.sqrt(squares), X.min(axis=0), X.max(axis=0)
    sums, squares, low, high = np.zeros(d), np.zeros(d), np.full(d, np.inf), np.full(d, -np.inf)
    kernels.entropy.column_facts(X, np.zeros(0) if q is None else q, sums, squares, low, high)
    total = float(n) if q is None else 1.0
    away = sums / total
    return X[0] + away, np.sqrt(np.maximum(squares / total - away**2, 0.0)), low, high


def read_margins(margins: Any) -> dict[Any, dict[Any, float] | float]:
    """Return shares by column and category, or means by column."""
    if isinstance(margins, Mapping) and all(isinstance(each, Mapping | int | float) for each in margins.values()):
        return {
            column: {key: float(share) for key, share in each.items()} if isinstance(each, Mapping) else float(each)
            for column, each in margins.items()
        }
    found: dict[Any, Any] = {}
    columns = [np.asarray(_column_of(margins, name)).tolist() for name in ("variable", "category", "share")]
    for row, (variable, category, share) in enumerate(zip(*columns, strict=True)):
        if category is None or category != category or category == "":
            of_column: Any = float(share)
        else:
            of_column = found.get(variable, {})
            of_column = of_column | {category: float(share)} if isinstance(of_column, dict) else None
        if of_column is None or (isinstance(of_column, float) and variable in found):
            raise ValueError(
                f"row {row} of the margins gives {variable!r} a mean beside other targets: drop one of them"
            )
        found[variable] = of_column
    return found


def _column_of(df: Any, name: Any) -> Any:
    try:
        return df[name]
    except Exception:  # every kind of data frame has its own
        columns = ", ".join(map(str, getattr(df, "columns", df)))
        raise ValueError(f"there is no column {name!r}; there are {columns:.200}") from None

"""The experiments of the paper as a table: data, λ, solvers and their settings, axes of the figures.

Gains, mini-batches, λ and ranks are those of the captions of the paper's figures. Choices that the paper leaves open
are made here and in :data:`reproduction.report.OPEN`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from majorant import datasets
from majorant.core.stochastic import StochasticSolver
from majorant.data import Labelled
from majorant.models import Multinomial
from majorant.plotting import Problem
from majorant.solvers import (
    LBFGS,
    SGD,
    BatchMajorization,
    LowRankStochasticMajorization,
    ProximalMajorization,
    Solver,
    StochasticMajorization,
)

# Cross-validated once on the training rows (the paper does not say): ``Options(cv=True)`` repeats it.
ECOLI_RIDGE = 1e-2
TRAINING_SHARE = 0.9
SPLIT_SEED = 0


@dataclass(frozen=True)
class Method:
    """A solver under the name of the paper; ``step`` is η·t where the paper tuned it."""

    label: str
    solver: Solver[Any]
    step: float | None = None

    def solver_for(self, seed: int, rows: int, report_every: float | None) -> Solver[Any]:
        """Return the solver of one run; ``report_every`` None reports every update of θ."""
        if not isinstance(self.solver, StochasticSolver):
            return self.solver
        every = min((self.solver.batch_size or 1) / rows, 1.0) if report_every is None else report_every
        solver: Any = replace(self.solver, seed=seed, report_every=every)
        return solver if self.step is None else replace(solver, step_size=self.step / rows)


@dataclass(frozen=True)
class Experiment:
    """A figure of the paper, or a row of one.

    Parameters
    ----------
    name, title : str
        In names of files, and in text.
    dataset : str
        A name of :func:`majorant.datasets.load`.
    ridge : float
        λ, for the model that keeps all classes.
    methods : tuple of Method
        The solvers that are compared.
    passes : float
        Length of a run, and of the comparison.
    first_order_passes : float, optional
        Length of the runs of SGD and ASGD where CPU time is compared: their passes cost so little that as many as
        the others' would end long before them.
    report_every : float or None
        Passes between two points of a curve; None is every update.
    x, panels : tuples of str
        Columns of the trace on the horizontal axes, and on the vertical axes, of the figures.
    zoom : bool
        Whether the end of each panel is shown larger.
    rows : int, optional
        Use so many rows, drawn at random, where the paper has fewer than the published set.
    scale : float
        Features are multiplied by it.
    training : bool
        Whether curves on the training rows are kept.
    """

    name: str
    title: str
    dataset: str
    ridge: float
    methods: tuple[Method, ...]
    passes: float
    first_order_passes: float | None = None
    report_every: float | None = 0.5
    x: tuple[str, ...] = ("passes",)
    panels: tuple[str, ...] = ("test_log_likelihood", "test_error")
    zoom: bool = True
    rows: int | None = None
    scale: float = 1.0
    training: bool = False

    def passes_of(self, method: Method) -> float:
        """Return the length of the runs of a method."""
        first_order = isinstance(method.solver, SGD) and self.first_order_passes is not None
        return max(self.first_order_passes or 0.0, self.passes) if first_order else self.passes

    @property
    def opponents_tuned(self) -> bool:
        """Whether SGD and ASGD with tuned gains can be added: where curves are compared, not single updates."""
        return self.report_every is not None and any(method.label == "SGD" for method in self.methods)

    def problem(self) -> Problem:
        """Return the problem of the data, split into training and test rows; the same split serves every run."""
        X, y = datasets.load(self.dataset)
        order = np.random.default_rng(SPLIT_SEED).permutation(len(y))[: self.rows]
        X, y = X[order], y[order]
        if self.scale != 1.0:
            factors = np.append(np.full(X.shape[1] - 1, self.scale), 1.0)  # the last column is constant
            X = X @ sp.diags_array(factors) if sp.issparse(X) else X * factors
        cut = round(TRAINING_SHARE * len(y))
        train, test = Labelled(X[:cut], y[:cut]), Labelled(X[cut:], y[cut:])
        model = Multinomial(int(y.max()) + 1, order="given")
        return Problem.of(model, train, test, ridge=self.ridge, training=self.training)


def sgd(gain: float, batch_size: int = 10, label: str = "SGD") -> Method:
    """Return the paper's SGD: a constant gain."""
    return Method(label, SGD(gain=gain, batch_size=batch_size))


def asgd(gain: float, tau: float | None = None, batch_size: int = 10, label: str = "ASGD") -> Method:
    """Return the paper's ASGD: η₀τ/(τ + i), or η₀/i where it names no τ."""
    if tau is None:
        return Method(label, SGD(gain=gain, schedule="inverse", batch_size=batch_size))
    return Method(label, SGD(gain=gain, schedule="adaptive", tau=tau, batch_size=batch_size))


LBFGS_ROW = Method("LBFGS", LBFGS())
BBM = Method("BBM", BatchMajorization(memory=0))
SBM = Method("SBM", StochasticMajorization())
PROXIMAL = Method("proximal", ProximalMajorization())


def low_rank(step: float) -> Method:
    """Return the low-rank SBM with k = 1 and η = step/t."""
    return Method("SBM", LowRankStochasticMajorization(rank=1), step=step)


BOTH_TIMES = ("passes", "cpu_seconds")
TRAINING = ("train_log_likelihood", "train_error")

EXPERIMENTS: dict[str, Experiment] = {
    e.name: e
    for e in (
        Experiment(
            "toy", "Toy set", "toy", 10.0,
            (LBFGS_ROW, sgd(1e-8, 1), asgd(1e-5, 1.0, 1), SBM, PROXIMAL),
            passes=20, report_every=0.2, panels=TRAINING, training=True,
        ),
        Experiment(
            "toy-larger-gains", "Toy set, gains ten times larger", "toy", 10.0,
            (sgd(1e-7, 1, "SGD 1e-7"), asgd(1e-4, 1.0, 1, "ASGD 1e-4")),
            passes=20, report_every=0.2, panels=TRAINING, zoom=False, training=True,
        ),
        Experiment(
            "ecoli", "ecoli", "ecoli", ECOLI_RIDGE,
            (LBFGS_ROW, sgd(1e-2), asgd(1e-1, 500.0), SBM, BBM, PROXIMAL),
            passes=50, report_every=1.0, training=True,
            panels=("train_log_likelihood", "test_log_likelihood", "test_error"),
        ),
        Experiment(
            "ecoli-updates", "ecoli, after every update of θ", "ecoli", ECOLI_RIDGE,
            (LBFGS_ROW, sgd(1e-2), asgd(1e-1, 500.0), SBM),
            passes=5, report_every=None, x=("passes",),
            panels=("objective", "test_log_likelihood", "test_error"),
        ),
        Experiment(
            "secstr", "SecStr", "secstr", 10.0,
            (LBFGS_ROW, sgd(1e-4), asgd(1e-1), SBM, PROXIMAL),
            passes=5, report_every=0.2,
        ),
        Experiment(
            "mnist", "Mnist", "mnist", 1e-2,
            (LBFGS_ROW, sgd(1e-1, 100), asgd(1e-1, 1e5, 100), SBM, PROXIMAL),
            passes=15, report_every=0.5,
        ),
        Experiment(
            "digit1", "digit1", "digit1", 10.0,
            (LBFGS_ROW, sgd(1e-4), asgd(1e-3, 1e2), low_rank(50.0), PROXIMAL),
            passes=30, first_order_passes=500, x=BOTH_TIMES,
        ),
        Experiment(
            "text", "Text", "text", 10.0,
            (LBFGS_ROW, sgd(1e-4), asgd(1e-2, 1e3), low_rank(1.0), PROXIMAL),
            passes=30, first_order_passes=500, x=BOTH_TIMES,
        ),
        Experiment(
            "gisette", "gisette", "gisette", 1.0,
            (LBFGS_ROW, sgd(1e-3), asgd(1e-1, 10.0), low_rank(100.0), PROXIMAL),
            passes=30, first_order_passes=500, x=BOTH_TIMES, rows=1500, scale=1 / 999,
        ),
        Experiment(
            "mnist4v9", "Mnist 4 against 9 (a stand-in for gisette)", "mnist4v9", 1.0,
            (LBFGS_ROW, sgd(1e-3), asgd(1e-1, 10.0), low_rank(100.0), PROXIMAL),
            passes=30, first_order_passes=500, x=BOTH_TIMES, rows=1500,
        ),
    )
}  # fmt: skip

# Figures by the name that the command takes, and their experiments.
FIGURES: dict[str, tuple[str, ...]] = {
    "bound": (),
    "toy": ("toy", "toy-larger-gains"),
    "ecoli": ("ecoli", "ecoli-updates"),
    **{name: (name,) for name in ("secstr", "mnist", "digit1", "text", "gisette", "mnist4v9")},
}

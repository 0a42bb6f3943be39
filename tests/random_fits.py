"""Random ordinary problems for ``LogisticRegression``, and a judge that knows what must hold of every fit.

``draw(seed)`` chooses a problem, ``judge(problem)`` fits it and returns what went wrong, each as "kind: detail". A
:class:`Problem` holds all that its arrays are made of, so its ``repr`` repeats a failure.
"""

from __future__ import annotations

import re
import signal
import traceback
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import majorant
from majorant import EarlyStopping, LogisticRegression, LogisticRegressionCV
from majorant.estimators.fitting import BEFORE_ROUNDING, STUCK
from tests.optimum import Task, least

KINDS = ("exception", "slow", "non-finite", "above F(0)", "false certificate", "not optimal", "wrong warning")
DATA = ("standard", "shifted", "timestamp", "scaled", "exponential", "pareto", "correlated", "degenerate")
STREAMS = ("one call", "chunks", "rows")
MODES = ("fit", "warm", *STREAMS, "cv", "early", "offset", "soft")
# Modes that fit parts of the rows, each of which has to weigh something.
PARTS = ("chunks", "rows", "cv")
# Of what users have besides: units of columns that differ by up to 18 orders of magnitude, columns that depend on each
# other in other units, constant ones; penalties of zero and of any size; bootstrap weights; labels of other kinds.
ODD_DATA = ("units", "dependent", "constant")
PENALTIES = ("even", "some", "mixed", "none")
LABELS = ("int64", "uint8", "uint64", "bool", "float16", "float32", "str", "object", "category")
SOLVERS = ("auto", "proximal", "newton", "scipy-lbfgs", "bbm")
PACKAGE = Path(majorant.__file__).parent
# Solvers that invert d×d matrices at each step are asked for where a user would.
SMALL = 150
TOL = 1e-8
SECONDS = 20.0
# What float32 may leave of a certificate beside the rounding of the coefficients, and what float64 may.
ROUNDING = {"float32": 2e-5, "float64": 1e-9}


@dataclass(frozen=True)
class Problem:
    """Everything that the arrays and the fit are made of; the defaults are the simplest of each."""

    seed: int
    t: int = 60
    p: int = 2
    n: int = 2
    data: str = "standard"
    magnitude: float = 1.0  # of a shift, of a timestamp's deviation, of scales
    density: float = 1.0
    sparse: bool = False
    by_label: bool = False
    intercept: str = "free"
    C: float = 1.0
    weights: str = "none"
    class_weight: str = "none"
    dtype: str = "float64"
    solver: str = "auto"
    mode: str = "fit"
    penalty: str = "even"
    labels: str = "int64"


# --- drawing ----------------------------------------------------------------------------------------------


def draw(seed: int, large: bool = False) -> Problem:
    """Return the problem of a seed; ``large`` allows twenty times the numbers in X. Two in five are odd."""
    problem, r = _ordinary(seed, large), np.random.default_rng([seed, int(large), 1])
    return problem if r.random() < 0.6 else _odd(problem, r)


def _odd(problem: Problem, r) -> Problem:
    """Return a problem with some of what ordinary ones do not have."""
    mode = problem.mode if problem.mode in ("fit", "warm", "soft", "offset", "early") else "fit"
    penalty = _one_of(r, PENALTIES, [3, 2, 2, 2])
    if penalty != "even" and 2 * problem.p * problem.n > problem.t:
        problem = replace(problem, p=max(1, problem.t // (2 * problem.n)))
    data = problem.data if r.random() < 0.2 else _one_of(r, ODD_DATA, [2, 1, 1])
    weights = _one_of(r, (problem.weights, "bootstrap", "extreme"), [2, 1, 1])
    if weights == "extreme" and r.random() < 0.5:
        mode = "offset"
    plain = problem.class_weight == "none" and mode != "soft"
    labels = _one_of(r, LABELS, [1] * len(LABELS)) if plain and r.random() < 0.4 else "int64"
    return replace(
        problem,
        mode=mode,
        data=data,
        magnitude=float(f"{10 ** r.uniform(0, 9):.3g}") if data in ODD_DATA else problem.magnitude,
        penalty=penalty,
        weights=weights,
        class_weight="uneven" if problem.class_weight == "balanced" else problem.class_weight,
        labels="int64" if labels == "bool" and problem.n > 2 else labels,
        intercept="free" if problem.intercept == "penalised" and penalty != "even" else problem.intercept,
        solver="auto" if problem.solver == "proximal" else problem.solver,
    )


def _ordinary(seed: int, large: bool) -> Problem:
    r = np.random.default_rng([seed, int(large)])
    mode = _one_of(r, MODES, [8, 2, 2, 2, 1, 1, 1, 1, 1])
    t, p, n = _shape(r, mode, 2e6 if large else 1e5)
    data = _one_of(r, DATA, [2, 4, 2, 2, 1, 1, 1, 1])
    weights = _one_of(r, ("none", "random", "zeros", "integers"), [5, 2, 1, 1])
    return Problem(
        seed=seed,
        t=t,
        p=p,
        n=n,
        data=data,
        magnitude=_magnitude(r, data),
        density=_one_of(r, (1.0, 0.3), [3, 1]),
        sparse=r.random() < 0.25,
        by_label=r.random() < 0.2,
        intercept=_one_of(r, ("free", "penalised", "none"), [4, 1, 1]),
        C=float(f"{10 ** r.uniform(-4, 6):.3g}"),
        weights="random" if weights == "zeros" and mode in PARTS else weights,
        class_weight=_class_weight(r, mode, weights),
        dtype=_one_of(r, ("float64", "float32"), [4, 1]),
        solver="auto" if mode in STREAMS or n * p > SMALL else _one_of(r, SOLVERS, [4, 1, 1, 2, 1]),
        mode=mode,
    )


def _one_of(r, values, odds):
    return values[r.choice(len(values), p=np.divide(odds, np.sum(odds)))]


def _shape(r, mode, most):
    """Return rows, columns and classes: tiny, of any size, round, or wide, with at most ``most`` numbers in X."""
    how = _one_of(r, ("tiny", "any", "round", "wide"), [1, 3, 2, 1])
    n = int(r.choice([2, 2, 2, 3, 5, 8]))
    t, p = {
        "tiny": lambda: (r.integers(4, 13), r.integers(1, 4)),
        "any": lambda: (10 ** r.uniform(1.3, 3.7), 10 ** r.uniform(0, 2.3)),
        "round": lambda: (r.choice([50, 100, 200, 500, 1000, 2000, 5000]), r.choice([1, 2, 5, 10, 20, 50, 100, 200])),
        "wide": lambda: (10 ** r.uniform(0.7, 2), 10 ** r.uniform(2, 3)),
    }[how]()
    t = min(int(t), 40) if mode == "rows" else int(t)
    t = max(t, _rows_of_a_class(mode) * n)
    return t, max(1, min(int(p), int(most / (t * n)))), n


def _rows_of_a_class(mode):
    return 3 if mode == "cv" else 1


def _magnitude(r, data):
    exponents = {"shifted": (2, 6), "timestamp": (5, 8), "scaled": (1, 3)}
    low, high = exponents.get(data, (0, 0))
    return float(f"{10 ** r.uniform(low, high):.3g}")


def _class_weight(r, mode, weights):
    if mode == "soft" or r.random() < 0.8:
        return "none"
    return "uneven" if mode in STREAMS or weights != "none" else str(r.choice(["balanced", "uneven"]))


# --- arrays -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Arrays:
    """What a fit is given, and the task that it amounts to."""

    X: Any
    y: np.ndarray
    sample_weight: np.ndarray | None
    class_weight: Any
    offset: np.ndarray | None
    target: np.ndarray
    problem: Problem

    @cached_property
    def dense(self):
        return np.asarray(self.X.toarray() if sp.issparse(self.X) else self.X, dtype=np.float64)

    def task(self, C):
        t, n = self.target.shape
        weight = np.ones(t) if self.sample_weight is None else self.sample_weight
        offset = np.zeros((t, n))
        if self.offset is not None:
            offset[:, 1 if n == 2 else slice(None)] = self.offset
        weight = weight * self._weight_of_class()
        if self.problem.penalty == "none":
            C = np.inf
        return Task(self.dense, self.target, weight, offset, C, self.problem.intercept, self.penalties)

    @cached_property
    def penalties(self):
        """What ``feature_penalty`` is given."""
        r, p = np.random.default_rng([self.problem.seed, 2]), self.problem.p
        kinds = {
            "some": lambda: r.integers(0, 2, size=p).astype(float),
            "mixed": lambda: 10.0 ** r.uniform(-8, 8, size=p),
        }
        penalties = kinds.get(self.problem.penalty, lambda: None)()
        if self.problem.penalty == "mixed":
            penalties[r.random(p) < 0.3] = 0.0
        return penalties

    @property
    def labels(self):
        """The labels as users have them."""
        kind = self.problem.labels
        if kind == "category":
            return pd.Series(self.y).astype("category")
        return self.y.astype(kind)

    def _weight_of_class(self):
        if self.class_weight is None:
            return 1.0
        if self.class_weight == "balanced":
            counts = np.bincount(self.y)
            return (len(self.y) / (len(counts) * counts))[self.y]
        return np.array([self.class_weight[label] for label in self.y])


def make(problem: Problem) -> Arrays:
    """Return the arrays of a problem."""
    r = np.random.default_rng(problem.seed)
    t, p, n = problem.t, problem.p, problem.n
    Z = r.normal(size=(t, p))
    y = np.argmax(2 * Z @ r.normal(size=(p, n)) / np.sqrt(p) + r.gumbel(size=(t, n)), axis=1)
    sure = min(_rows_of_a_class(problem.mode) * n, t)
    y[:sure] = np.arange(sure) % n
    X = _columns(problem, r, Z)
    X[r.random((t, p)) >= problem.density] = 0
    weight = _sample_weight(problem, r, sure)
    order = np.argsort(y, kind="stable") if problem.by_label else np.arange(t)
    X, y, weight = X[order].astype(problem.dtype), y[order], None if weight is None else weight[order]
    target = np.eye(n)[y]
    if problem.mode == "soft":
        target = 0.8 * target + 0.2 * r.dirichlet(np.ones(n), size=t)
    offset = 2 * r.normal(size=t if n == 2 else (t, n)) if problem.mode == "offset" else None
    if offset is not None and problem.weights == "extreme":
        offset = 700 * np.sign(offset)
    X = sp.csr_array(X) if problem.sparse else X
    return Arrays(X, y, weight, _class_weight_argument(problem), offset, target, problem)


def _columns(problem, r, Z):
    magnitude, p = problem.magnitude, problem.p
    X = Z.copy()
    if problem.data == "shifted":
        X += magnitude * r.choice([-1, 1, 0.3], size=p)
    elif problem.data == "timestamp":
        X[:, 0] = 1.7e9 + magnitude * Z[:, 0]
    elif problem.data == "scaled":
        X *= magnitude ** r.uniform(-1, 1, size=p)
    elif problem.data == "exponential":
        X = np.exp(1.5 * Z)
    elif problem.data == "pareto":
        X = r.pareto(1.0, size=Z.shape) * np.exp(Z / 2)
    elif problem.data == "correlated":
        X = Z @ r.normal(size=(p, 1)) / np.sqrt(p) + 0.05 * Z
    elif problem.data == "degenerate":
        X[:, -1] = X[:, 0]
        X[:, p // 2] = 3.0
    elif problem.data == "units":
        X *= magnitude ** r.uniform(-1, 1, size=p)
    elif problem.data == "dependent":
        X[:, -1] = X[:, 0] * 2.0 ** round(np.log2(magnitude))  # exactly, so that no rounding makes it independent
    elif problem.data == "constant":
        X[:, -1] = magnitude * r.choice([-1, 1e-9, 1])
    return X


def _sample_weight(problem, r, sure):
    t = problem.t
    weight = {
        "none": lambda: None,
        "random": lambda: r.exponential(size=t),
        "zeros": lambda: r.exponential(size=t) * (r.random(t) < 0.6),
        "integers": lambda: r.integers(int(problem.mode in PARTS), 4, size=t),
        "bootstrap": lambda: np.bincount(r.integers(0, t, size=t), minlength=t),
        "extreme": lambda: 10.0 ** r.uniform(-12, 12, size=t),
    }[problem.weights]()
    if weight is not None and problem.weights != "bootstrap":
        weight[:sure] = 1  # a class without weight has no optimum
    return weight


def _class_weight_argument(problem):
    arguments = {"none": None, "balanced": "balanced", "uneven": {c: 0.5 + c for c in range(problem.n)}}
    return arguments[problem.class_weight]


# --- fitting ----------------------------------------------------------------------------------------------


class StillRunning(BaseException):
    """Raised by the alarm; nothing that catches an Exception may swallow it."""


# So many times the limit may pass on the wall: a busy machine makes everyone wait, a deadlock waits for ever.
WAITS = 10


@contextmanager
def time_limit(seconds):
    """Raise :class:`StillRunning` in the main thread once it has worked so long, or waited far longer."""

    def ring(*_):
        raise StillRunning

    timers = {signal.SIGPROF: (signal.ITIMER_PROF, seconds), signal.SIGALRM: (signal.ITIMER_REAL, WAITS * seconds)}
    before = {number: signal.signal(number, ring) for number in timers}
    for timer, limit in timers.values():
        signal.setitimer(timer, limit)
    try:
        yield
    finally:
        for timer, _ in timers.values():
            signal.setitimer(timer, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def fitted(problem: Problem, arrays: Arrays):
    """Return the model of a problem, and the warnings of its last fit."""
    settings = dict(
        fit_intercept=problem.intercept != "none",
        penalize_intercept=problem.intercept == "penalised",
        class_weight=arrays.class_weight,
        solver=problem.solver,
        tol=TOL,
    )
    weight = {} if arrays.sample_weight is None else {"sample_weight": arrays.sample_weight}
    if problem.mode == "cv":
        model = LogisticRegressionCV(Cs=[problem.C / 10, problem.C], cv=2 + problem.seed % 2, **settings)
    else:
        C = np.inf if problem.penalty == "none" else problem.C
        model = LogisticRegression(C=C, feature_penalty=arrays.penalties, **settings)
    if problem.mode == "warm":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.set_params(max_iter=3).fit(arrays.X, arrays.labels, **weight)
        model.set_params(max_iter=1000, warm_start=True)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        _fit(problem, arrays, model, weight)
    return model, heard


def _fit(problem, arrays, model, weight):
    X, y = arrays.X, arrays.labels
    if problem.mode in STREAMS:
        for rows in chunks(problem):
            part = {name: values[rows] for name, values in weight.items()}
            model.partial_fit(X[rows], y[rows], classes=np.arange(problem.n), **part)
    elif problem.mode == "soft":
        model.fit_soft(X, arrays.target, **weight)
    elif problem.mode == "offset":
        model.fit(X, y, offset=arrays.offset, **weight)
    elif problem.mode == "early":
        model.set_params(callbacks=[EarlyStopping(X[::3], y[::3])]).fit(X, y, **weight)
    else:
        model.fit(X, y, **weight)


def chunks(problem: Problem) -> list[slice]:
    """Return the rows of each call of ``partial_fit``."""
    size = {"one call": problem.t, "rows": 1}.get(problem.mode, max(problem.t // 8, 4))
    return [slice(start, start + size) for start in range(0, problem.t, size)]


# --- judging ----------------------------------------------------------------------------------------------


def judge(problem: Problem, seconds: float = SECONDS) -> list[str]:
    """Fit, and return what is wrong with the result; nothing if all is well."""
    arrays = make(problem)
    try:
        with time_limit(seconds):
            model, heard = fitted(problem, arrays)
    except StillRunning:
        return [f"slow: still running after {seconds:g} s"]
    except Exception as error:
        return [f"exception: {type(error).__name__} at {_place(error)}: {str(error)[:120]}"]
    if not (np.isfinite(model.coef_).all() and np.isfinite(model.intercept_).all()):
        return ["non-finite: coef_ or intercept_"]
    true = truth(arrays.task(getattr(model, "C_", problem.C)), model)
    facts = Facts(problem, arrays, model, heard, true)
    return [*_above_zero(facts), *_certificate(facts), *_optimality(facts), *_warnings(facts)]


def _place(error):
    """Return where in the package an error passed last."""
    ours = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).is_relative_to(PACKAGE)]
    return f"{Path(ours[-1].filename).relative_to(PACKAGE)}:{ours[-1].name}" if ours else "tests"


@dataclass(frozen=True)
class Truth:
    """What long double says of a fitted model."""

    value: float
    at_zero: float
    excess: float  # the true (F − F*) / F
    rounding: float  # how much of F the last digits of the coefficients may account for


def truth(task: Task, model: Any) -> Truth:
    """Hold a model against an optimum that is looked for from zero and from the model itself."""
    exact, precision = task.in_precision(np.longdouble), model.coef_.dtype
    W, intercept = (np.asarray(part, dtype=np.longdouble) for part in (model.coef_, model.intercept_))
    level, zero = intercept + W @ exact.mean, (np.zeros_like(W), np.zeros_like(intercept))
    value = exact.value(W, level)
    lowest = least(task, [tuple(part.astype(np.float64) for part in start) for start in (zero, (W, level))])
    excess = max(value - exact.value(*lowest), 0) / value
    of_coef, of_intercept = exact.gradient(W, level)
    # F is convex, so that rounding θ by δ raised it by no more than ∇F·δ.
    slope = np.abs(of_coef * W).sum() + np.abs(of_intercept * intercept).sum()
    rounding = ROUNDING[precision.name] + np.finfo(precision).eps / 2 * float(slope / value)
    return Truth(float(value), float(exact.value(*zero)), float(excess), rounding)


@dataclass(frozen=True, eq=False)
class Facts:
    """A fitted model, what it said, and the truth."""

    problem: Problem
    arrays: Arrays
    model: Any
    heard: list[warnings.WarningMessage]
    true: Truth

    @property
    def outcome(self):
        return self.model.result_.outcome.value

    @property
    def warned(self):
        return any(issubclass(warning.category, UserWarning) for warning in self.heard)

    @property
    def steady_stream(self):
        """Whether a stream can be expected to learn.

        In one call it can; in several, if the order is random and each holds every class and more rows than the few
        that any coefficients fit.
        """
        problem, calls = self.problem, chunks(self.problem)
        if problem.mode == "one call":
            return True
        every_class = all(len(np.unique(self.arrays.y[rows])) == problem.n for rows in calls)
        fewest = min(len(self.arrays.y[rows]) for rows in calls)
        return every_class and not problem.by_label and fewest >= 10 + 2 * problem.p


def _above_zero(facts):
    true, stream = facts.true, facts.problem.mode in STREAMS
    if facts.warned or (stream and not facts.steady_stream):
        return []
    limit = true.at_zero * (1.05 if stream else 1 + 1e-9) + true.rounding * true.value
    if true.value <= limit:
        return []
    return [f"above F(0): F = {true.value:.6g} is {true.value / true.at_zero:.4g} F(0) ({facts.outcome})"]


def _certificate(facts):
    gap = facts.model.gap_
    if not np.isfinite(gap) or facts.true.excess <= gap + ROUNDING["float64"]:  # it is that of what is published
        return []
    return [f"false certificate: gap_ = {gap:.2e}, truth {facts.true.excess:.2e} ({facts.outcome})"]


def _optimality(facts):
    gap, problem = facts.model.gap_, facts.problem
    if problem.mode in STREAMS or not facts.model.result_.converged:
        return []
    of_rounding = re.search(rf"\(relative\), (\S+) {BEFORE_ROUNDING}", str(facts.model.result_))
    if np.isfinite(gap) and gap > TOL and not (of_rounding and float(of_rounding[1]) <= TOL):
        return [f"not optimal: converged with gap_ = {gap:.2e} above tol"]
    allowed = TOL if np.isfinite(gap) else 1e-6
    weight = facts.arrays.sample_weight
    target = facts.arrays.target if weight is None else facts.arrays.target[np.asarray(weight) > 0]
    # Of one class F falls towards zero for ever, and how far is the fit's choice.
    if target.any(axis=0).sum() == 1 and problem.intercept == "free":
        small = facts.true.value <= allowed * facts.true.at_zero
        return [] if small else ["not optimal: one class, and F is not small"]
    if problem.solver != "auto" or facts.true.excess <= allowed + facts.true.rounding:
        return []
    return [f"not optimal: converged, truth {facts.true.excess:.2e}, gap_ = {gap:.2e}"]


def _warnings(facts):
    found = [
        f"wrong warning: {warning.category.__name__}: {str(warning.message)[:120]}"
        for warning in facts.heard
        if not issubclass(warning.category, UserWarning)
    ]
    if facts.problem.mode in STREAMS:
        return found
    told = any(issubclass(warning.category, ConvergenceWarning) for warning in facts.heard)
    gap, ended_well = facts.model.gap_, facts.outcome in ("converged", "stopped")
    # A limit of steps near the optimum is no failure.
    due = not ended_well and not gap <= (STUCK if facts.outcome == "step limit" else TOL)
    # The fits of folds may warn for themselves, and float32 may end short of tol.
    if told and not due and facts.problem.mode != "cv":
        found.append(f"wrong warning: {facts.outcome}, gap_ = {gap:.2e}, yet a ConvergenceWarning")
    if due and not told and facts.problem.dtype == "float64":
        found.append(f"wrong warning: none, although {facts.outcome} with gap_ = {gap:.2e}")
    return found

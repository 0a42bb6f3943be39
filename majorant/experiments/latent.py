"""The table of the predecessor: test log-likelihood of latent models at convergence, by solver and hidden states.

Splits and λ are not in the text at hand. Here a tenth of the rows is held out, several times, and what is reported is
the *sum* of their log-likelihoods: that suits the scale of the published numbers of most sets. λ is chosen once by
cross-validation of the model with one state on the training rows of the first split (:func:`cross_validated`), and
pinned in ``RIDGES``.

References
----------
Jebara & Choromanska, *Majorization for CRFs and latent likelihoods*, NIPS 2012.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from majorant._checks import Array
from majorant._minimize import held_out, minimize
from majorant.data import Labelled
from majorant.datasets import available, load
from majorant.experiments import store
from majorant.models import LatentMultinomial
from majorant.objective import Objective
from majorant.solvers import BFGS, BatchMajorization, ConjugateGradient, Newton, Solver, SteepestDescent

STATES = (1, 2, 3, 4)
SOLVERS: dict[str, Solver[Any]] = {
    "BFGS": BFGS(),
    "SD": SteepestDescent(),
    "CG": ConjugateGradient(),
    "Newton": Newton(),
    "bound": BatchMajorization(),
}
# Chosen once by cross-validation; ``cross_validated`` repeats it.
RIDGES = {"ionosphere": 10.0, "bupa": 1.0, "hepatitis": 10.0, "wine": 1.0, "srbct": 0.1}
GRID = tuple(10.0**k for k in range(-3, 4))
FOLDS = 5
TOLERANCE, STEPS = 1e-8, 2000
NEWTON_STEPS = 300  # each costs as much as a hundred of others
PARTS = 10  # of the rows, one of which is held out


def run(out: Path, splits: int, tell: Callable[[int, int, str], None]) -> list[dict[str, Any]]:
    """Write an entry for each set, number of states and split; return those of the sets that are there."""
    cases = [(name, states, split) for name in RIDGES for states in STATES for split in range(splits)]
    found = []
    for done, (name, states, split) in enumerate(cases):
        tell(done, len(cases), f"{name}, {states} states, split {split + 1}")
        if available(name):
            found.append(_remembered(store.file_of(out, "latent"), name, states, split))
    tell(len(cases), len(cases), "")
    return found


def _remembered(file: Path, name: str, states: int, split: int) -> dict[str, Any]:
    settings = {
        "set": name,
        "states": states,
        "split": split,
        "ridge": RIDGES[name],
        "tolerance": TOLERANCE,
        "steps": [STEPS, NEWTON_STEPS],
        "parts": PARTS,
        "solvers": {label: repr(solver) for label, solver in SOLVERS.items()},
    }
    return store.remember(file, f"{name}-{states}-{split}", settings, lambda: compared(name, states, split)).contents


def compared(name: str, states: int, split: int) -> Mapping[str, Any]:
    """Return where each solver ends from the same start."""
    train, test = parts(name, split)
    model = LatentMultinomial([states] * (int(max(train.y.max(), test.y.max())) + 1))
    F = Objective(model, train, ridge=RIDGES[name])
    start, metric = F.first_params(split), held_out(model, test)["test_log_likelihood"]
    runs = {}
    for label, solver in SOLVERS.items():
        steps = NEWTON_STEPS if label == "Newton" else STEPS
        solution = minimize(F, solver, start=start, tol=TOLERANCE, max_steps=steps)
        values = solution.trace["objective"]
        runs[label] = {
            "test": len(test) * metric(solution.params),
            "objective": float(values[-1]),
            "steps": int(solution.trace["step"][-1]),
            "cpu_seconds": float(solution.trace["cpu_seconds"][-1]),
            "rise": float(np.max(np.diff(values) / values[:-1], initial=0.0)),
            "outcome": solution.result.outcome.value,
        }
    return {"runs": runs, "train": len(train), "test": len(test)}


def parts(name: str, split: int) -> tuple[Labelled, Labelled]:
    """Return training and test rows of a split; each class gives a tenth of its own."""
    X, y = load(name)
    held = _held_out(y, np.random.default_rng([split, 2012]))
    X = in_row_space(_standardised(X[:, :-1], ~held), ~held)
    return tuple(Labelled(X[some], y[some], constant=True) for some in (~held, held))  # type: ignore[return-value]


def _held_out(y: Array, rng: np.random.Generator) -> Array:
    """Return which rows are held out: class by class, so that none is missing from either part."""
    place = np.empty(len(y), dtype=int)
    order = np.concatenate([rng.permutation(np.flatnonzero(y == label)) for label in np.unique(y)])
    place[order] = np.arange(len(y))
    return place % PARTS == 0


def _standardised(X: Array, train: Array) -> Array:
    spread = X[train].std(axis=0)
    return (X - X[train].mean(axis=0)) / np.where(spread > 0, spread, 1.0)


def in_row_space(X: Array, train: Array) -> Array:
    """Return rows in a basis of what the training rows span, where that is smaller: nothing else is ever used.

    Under a ridge, from a start in that space, coefficients stay there: the problem is the same, with few columns.
    """
    if train.sum() >= X.shape[1]:
        return X
    _, sizes, basis = np.linalg.svd(X[train], full_matrices=False)
    return X @ basis[sizes > 1e-10 * sizes[0]].T


def cross_validated(name: str) -> float:
    """Return the λ of the grid with the best held-out log-likelihood of the model with one state."""
    train = parts(name, 0)[0]
    fold = np.random.default_rng(0).permutation(len(train)) % FOLDS
    scores = [np.mean(list(_scores(train, fold, ridge))) for ridge in GRID]
    return GRID[int(np.argmax(scores))]


def _scores(train: Labelled, fold: Array, ridge: float) -> Iterator[float]:
    model = LatentMultinomial([1] * (int(train.y.max()) + 1))
    for k in range(FOLDS):
        F = Objective(model, train.take(np.flatnonzero(fold != k)), ridge=ridge)
        found = minimize(F, SOLVERS["bound"], start=np.zeros(F.size), tol=1e-6, max_steps=STEPS)
        yield held_out(model, train.take(np.flatnonzero(fold == k)))["test_log_likelihood"](found.params)

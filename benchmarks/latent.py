"""Hidden states: held-out log-likelihood of ``LatentMultinomial`` against the linear model, and against L-BFGS.

    MAJORANT_DATA=... OMP_NUM_THREADS=1 python -m benchmarks.latent [--only TEXT] [--json FILE]

Quasi-Newton steps and SciPy's L-BFGS minimise the same marginal likelihood from the same starts, in turn, to the same
tolerance; seconds are of the processor, without those of the measurement.
"""

from __future__ import annotations

import numpy as np

from benchmarks import report
from majorant import (
    LBFGS,
    BatchMajorization,
    Labelled,
    LatentMultinomial,
    Multinomial,
    Objective,
    QuasiNewton,
    datasets,
    held_out,
    minimize,
)

STARTS = 10
TOLERANCE = 1e-6
RIDGE = 1.0
SOLVERS = {"quasi-Newton": QuasiNewton(), "L-BFGS": LBFGS(), "bound": BatchMajorization()}


def letter_three_states() -> list[dict]:
    """Letter, official split, 26 classes of three states each."""
    return compared(*split(datasets.load("letter"), 16_000), states=3, solvers=("quasi-Newton", "L-BFGS"))


def ecoli_two_states() -> list[dict]:
    """Ecoli, a random third held out, two states each of the classes that have at least ten rows."""
    X, y = datasets.load("ecoli")
    order = np.random.default_rng(0).permutation(len(y))
    return compared(*split((X[order], y[order]), 224), states=2, solvers=tuple(SOLVERS))


def xor_two_states() -> list[dict]:
    """Quadrants of the plane, a tenth of the labels at random; 200 rows to learn from."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2200, 2))
    noise = rng.uniform(size=2200) < 0.1
    y = np.where(noise, rng.integers(0, 2, size=2200), X[:, 0] * X[:, 1] > 0)
    return compared(*split((np.column_stack([X, np.ones(2200)]), y), 200), states=2, solvers=tuple(SOLVERS))


def split(rows, train):
    """Return training and test data, columns but the constant one standardised by the former."""
    X, y = rows
    mean, spread = X[:train, :-1].mean(axis=0), X[:train, :-1].std(axis=0)
    X = (X[:, :-1] - mean) / np.where(spread > 0, spread, 1.0)
    return tuple(Labelled(X[some], y[some], constant=True) for some in (slice(train), slice(train, None)))


def compared(train, test, states, solvers):
    """Return a row for the linear model and one for each solver, means and spreads over starts."""
    classes = int(max(train.y.max(), test.y.max())) + 1
    counts = np.bincount(train.y, minlength=classes)
    linear = Objective(Multinomial(classes), train, ridge=RIDGE)
    found = minimize(linear, QuasiNewton(), tol=TOLERANCE)
    rows = [{"method": "linear", **measured([found], held_out(linear.model, test))}]
    model = LatentMultinomial([states if count >= 10 else 1 for count in counts])
    F, metrics = Objective(model, train, ridge=RIDGE), held_out(model, test)
    runs = {name: [] for name in solvers}
    for seed in range(STARTS):
        for name in solvers:
            runs[name].append(minimize(F, SOLVERS[name], start=F.first_params(seed), tol=TOLERANCE, max_steps=3000))
    return [*rows, *({"method": name, **measured(runs[name], metrics)} for name in solvers)]


def measured(runs, metrics):
    """Return means over runs, and how far they are spread."""
    likelihood, error = (np.array([metric(run.params) for run in runs]) for metric in metrics.values())
    ends = np.array([run.trace["objective"][-1] for run in runs])
    rises = [np.max(np.diff(run.trace["objective"]) / run.trace["objective"][:-1], initial=0.0) for run in runs]
    return {
        "held-out log-likelihood": likelihood.mean(),
        "± over starts": likelihood.std(),
        "of the best start": likelihood[ends.argmin()],
        "held-out error": error.mean(),
        "objective": ends.mean(),
        "best objective": ends.min(),
        "CPU s a start": np.mean([run.trace["cpu_seconds"][-1] for run in runs]),
        "passes": np.mean([run.trace["passes"][-1] for run in runs]),
        "largest rise": max(rises),
    }


MEASUREMENTS = {
    "letter, three states a class": letter_three_states,
    "ecoli, two states a class": ecoli_two_states,
    "xor, two states a class": xor_two_states,
}

if __name__ == "__main__":
    report.run(__doc__, MEASUREMENTS)

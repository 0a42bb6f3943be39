"""``python -m majorant``: fit the bundled ecoli data with every batch solver and show how each converged."""

from __future__ import annotations

from typing import Any

from majorant import (
    LBFGS,
    BatchMajorization,
    ConjugateGradient,
    Labelled,
    Multinomial,
    Newton,
    Objective,
    Solution,
    datasets,
    minimize,
)
from majorant.solvers import Solver

SOLVERS: dict[str, Solver[Any]] = {
    "bound majorization (paper)": BatchMajorization(memory=0),
    "bound majorization, accelerated": BatchMajorization(),
    "the same, diagonal bound": BatchMajorization(curvature="diagonal"),
    "L-BFGS": LBFGS(),
    "conjugate gradient": ConjugateGradient(),
    "Newton": Newton(),
}


def main() -> None:
    """Fit, and print two tables."""
    X, y = datasets.load("ecoli")
    objective = Objective(Multinomial(int(y.max()) + 1), Labelled(X, y), ridge=1.0)
    print(f"ecoli: {X.shape[0]} rows, {X.shape[1]} columns, {y.max() + 1} classes, ridge 1, from zero\n")
    solutions = {name: minimize(objective, solver, max_steps=5000) for name, solver in SOLVERS.items()}
    _print_convergence(solutions["bound majorization, accelerated"])
    _print_comparison(solutions)


def _print_convergence(solution: Solution) -> None:
    print("Accelerated bound majorization, step by step\n")
    print(f"{'step':>6} {'passes':>7} {'objective':>14} {'gradient':>10} {'certified gap':>14}")
    trace = solution.trace
    for k in range(len(trace["step"])):
        print(
            f"{trace['step'][k]:6.0f} {trace['passes'][k]:7.0f} {trace['objective'][k]:14.8f} "
            f"{trace['gradient_norm'][k]:10.2e} {trace['gap'][k]:14.2e}"
        )
    print(f"\n{solution.result}.\n")


def _print_comparison(solutions: dict[str, Solution]) -> None:
    print("Every batch solver, to the same certified gap of 1e-8\n")
    print(f"{'solver':<33} {'steps':>6} {'passes':>7} {'ms':>8} {'objective':>14} {'gap':>9}  outcome")
    for name, solution in solutions.items():
        trace = solution.trace
        print(
            f"{name:<33} {trace['step'][-1]:6.0f} {trace['passes'][-1]:7.0f} {1e3 * trace['seconds'][-1]:8.1f} "
            f"{trace['objective'][-1]:14.8f} {trace['gap'][-1]:9.1e}  {solution.result.outcome.value}"
        )


if __name__ == "__main__":
    main()

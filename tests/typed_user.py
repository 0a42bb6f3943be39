"""A user's file, for a type checker: ``mypy --strict`` of it against the installed package has nothing to say."""

from typing import assert_type

import numpy as np

import majorant


def fit() -> majorant.Result:
    X, y = majorant.datasets.load("ecoli")
    model = majorant.LogisticRegression(C=10.0).fit(X, y)
    assert_type(model, majorant.LogisticRegression)
    assert_type(model.result_, majorant.Result)
    assert_type(model.result_.converged, bool)
    return model.result_


def descend() -> float:
    X, y = majorant.datasets.load("ecoli")
    objective = majorant.Objective(majorant.Multinomial(8), majorant.Labelled(X, y), ridge=1.0)
    solution = majorant.minimize(objective, majorant.BatchMajorization(), tol=1e-6)
    assert_type(solution, majorant.Solution)
    assert_type(solution.result.gap, float)
    return float(np.max(np.diff(solution.trace["objective"])))


def mistakes() -> None:
    majorant.LogisticRegression(C="large")  # type: ignore[arg-type]  # an error that nobody saw would be one here
    majorant.minimize(None)  # type: ignore[arg-type]

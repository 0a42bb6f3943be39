"""Whether a maximum-likelihood estimate exists: the linear program against directions tried one by one."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from majorant import (
    LBFGS,
    BatchMajorization,
    Binary,
    Choices,
    Enumerated,
    Labelled,
    LogisticRegression,
    Multinomial,
    Newton,
    Objective,
    Outcome,
    QuasiNewton,
    minimize,
)
from majorant.core import separation


def comparisons(F):
    """Return f(y_j) − f(y') of all rows, and whether a row has several observed outcomes, in the plainest way."""
    data, rows, soft = F.whole, [], []
    X, target = data.design.dense(), F.model.targets(data)
    for j in range(len(data)):
        if isinstance(data, Choices):
            at = slice(data.indptr[j], data.indptr[j + 1])
            f, seen = X[at], target[at] > 0
        elif isinstance(F.model, Binary):
            f, seen = np.vstack([0 * X[j], X[j]]), np.array([target[j] < 1, target[j] > 0])
        else:
            n = F.model.n_classes
            f, seen = np.kron(np.eye(n), X[j]), target.reshape(n, -1)[:, j] > 0
        for y in np.flatnonzero(seen):
            rows += [f[y] - f[other] for other in range(len(f)) if other != y]
            soft += [seen.sum() > 1] * (len(f) - 1)
    return np.array(rows), np.array(soft)


def by_trying(F):
    """Return "complete", "quasi" or "none": vertices of {Dv ≥ 0, |v_i| ≤ 1} add up to a direction that raises all."""
    D, _ = comparisons(F)
    d = F.size
    constraints = np.unique(np.vstack([D, np.eye(d)]), axis=0)
    total = np.zeros(d)
    for some in combinations(range(len(constraints)), d - 1):
        A = constraints[list(some)]
        _, values, V = np.linalg.svd(np.vstack([A, np.zeros((1, d))]))
        if d > 1 and values[d - 2] < 1e-9:
            continue
        for v in (V[-1], -V[-1]):
            if (D @ v >= -1e-9).all():
                total = total + v
    raised = D @ total > 1e-7
    return "complete" if raised.all() else "quasi" if raised.any() else "none"


def small(seed):
    """Return few rows of small integers, where separation of every kind is common."""
    rng = np.random.default_rng(seed)
    kind, t = seed % 3, int(rng.integers(3, 9))
    if kind == 2:
        sizes = rng.integers(2, 4, size=t)
        data = Choices(rng.integers(-1, 2, size=(sizes.sum(), 2)).astype(float), sizes, chosen=rng.integers(0, sizes))
        return Objective(Enumerated(), data, ridge=0.0)
    X = rng.integers(-1, 2, size=(t, 2 if kind == 0 else 1)).astype(float)
    X = np.column_stack([X, np.ones(t)]) if kind == 0 else X
    n = 2 if kind == 0 else 3
    y = rng.integers(0, n, size=t)
    labels = np.where(rng.random((t, 1)) < 0.1, 1 / n, np.eye(n)[y]) if rng.random() < 0.3 else y
    return Objective(Binary() if kind == 0 else Multinomial(3), Labelled(X, labels), ridge=0.0)


@pytest.mark.parametrize("part", range(3))
def test_the_program_finds_what_trying_finds(part):
    seen = set()
    for seed in range(60 * part, 60 * (part + 1)):
        F = small(seed)
        found, truth = separation.find(F), by_trying(F)
        said = "none" if found is None else "complete" if found.complete else "quasi"
        assert said == truth, seed
        seen.add(said)
        if found is not None:
            D, _ = comparisons(F)
            assert (D @ found.direction >= -1e-7).all()
            assert (D @ found.direction > 1e-7).any()
    assert seen == {"none", "quasi", "complete"}


@pytest.mark.parametrize("seed", range(40))
def test_what_is_proved_to_exist_is_not_separated(seed):
    """Both ways to know have to agree, whatever the fit did."""
    F = small(seed)
    result = minimize(F, QuasiNewton()).result
    if "exists (proved)" in str(result):
        assert separation.find(F) is None
    elif separation.find(F) is not None:
        assert result.outcome is Outcome.UNBOUNDED
        assert np.isnan(result.gap)


@pytest.mark.parametrize("solver", [QuasiNewton(), Newton(), LBFGS(), BatchMajorization()], ids=str)
@pytest.mark.parametrize("classes", [2, 3])
def test_a_column_that_gives_a_class_away_is_named_soon(solver, classes):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 3)), rng.integers(0, classes, size=300)
    X[:, 1] = rng.random(300) < 0.1
    y[X[:, 1] > 0] = 1
    model = Binary() if classes == 2 else Multinomial(3)
    found = minimize(Objective(model, Labelled(X, y, constant=True), ridge=0.0), solver)
    assert found.result.outcome is Outcome.UNBOUNDED
    assert "quasi-completely separated along column 1: no maximum-likelihood estimate exists" in str(found.result)
    assert len(found.trace["step"]) < 65


def test_a_penalty_on_what_separates_leaves_an_optimum():
    X, y = np.array([[1.0, 0.5], [1.0, -0.5], [-1.0, 0.4], [-1.0, -0.6]]), [1, 1, 0, 0]
    assert separation.find(Objective(Binary(), Labelled(X, y), ridge=[1.0, 0.0])) is None
    assert separation.find(Objective(Binary(), Labelled(X, y), ridge=[0.0, 1.0])).parameters.tolist() == [True, False]


def test_rows_without_weight_prevent_nothing():
    X, y = [[1.0], [-1.0], [-1.0]], [1, 0, 1]
    assert separation.find(Objective(Binary(), Labelled(X, y), ridge=0.0)) is None
    assert separation.find(Objective(Binary(), Labelled(X, y, [1, 1, 0]), ridge=0.0)).complete


def test_outcomes_that_cannot_happen_separate_nothing():
    offset = [[0.0, 0.0, -np.inf], [0.0, 0.0, 0.0]]
    F = Objective(Multinomial(3), Labelled([[1.0], [-1.0]], [0, 1], offset=offset), ridge=0.0)
    assert separation.find(F).complete


def test_the_estimator_warns_and_names_the_column():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = (X[:, 0] + rng.logistic(size=200) > 0).astype(int)
    X = np.column_stack([X, (rng.random(200) < 0.1) & (y == 1)])
    with pytest.warns(ConvergenceWarning, match=r"separated along column 2.*use a finite C"):
        model = LogisticRegression(C=np.inf).fit(X, y)
    assert np.isinf(model.coef_error_).all()
    frame = pytest.importorskip("pandas").DataFrame(X, columns=["age", "dose", "never"])
    with pytest.warns(ConvergenceWarning, match=r"separated along column never: no maximum"):
        LogisticRegression(C=np.inf).fit(frame, y)


@pytest.mark.parametrize(
    ("settings", "advice"),
    [
        (dict(feature_penalty=[0, 1]), "penalise them; give feature_penalty positive factors for these columns."),
        (
            dict(feature_penalty=[0, 1], C=np.inf),
            "use a finite C and give feature_penalty positive factors for these columns.",
        ),
        (dict(C=np.inf), "penalise them; use a finite C."),
    ],
)
def test_the_warning_names_the_argument_to_change(settings, advice):
    X = np.random.default_rng(0).normal(size=(40, 2))
    with pytest.warns(ConvergenceWarning, match="separated") as said:
        LogisticRegression(**settings).fit(X, (X[:, 0] > 0).astype(int))
    assert str(said[0].message).endswith(advice)


def test_many_columns_are_not_looked_at_and_that_is_said(monkeypatch):
    rng = np.random.default_rng(0)
    F = Objective(Binary(), Labelled(rng.normal(size=(60, 3)), rng.integers(2, size=60)), ridge=0.0)
    assert separation.suits(F)
    monkeypatch.setattr(separation, "MOST_WORK", F.size**3 - 1)
    assert not separation.suits(F)
    said = str(minimize(F, QuasiNewton(), largest_hessian=0).result)
    assert "whether data are separated is not looked for among 3 parameters" in said


def test_columns_that_are_mostly_zero_may_be_many():
    rng = np.random.default_rng(0)
    X = sp.csr_array((np.ones(6000), (np.repeat(np.arange(3000), 2), rng.integers(600, size=6000))))
    F = Objective(Binary(), Labelled(X, rng.integers(2, size=3000)), ridge=0.0)
    assert separation.suits(F)
    found = separation.find(F)
    gives_away = [j for j in range(600) if len(set(F.data.y[X[:, [j]].toarray().ravel() > 0])) < 2]
    assert set(gives_away) <= set(np.flatnonzero(found.parameters))

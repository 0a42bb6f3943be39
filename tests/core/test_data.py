"""Bad data are refused with the name of the argument and what it got."""

import numpy as np
import pytest
import scipy.sparse as sp

from majorant import BFGS, Binary, Choices, Enumerated, Labelled, Multinomial, Objective, minimize

X = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
F = np.arange(8.0).reshape(4, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(X=[[1.0, np.nan]], y=[0]), r"X must be finite, got nan at \(0, 1\)"),
        (dict(X=sp.csr_array([[np.inf]]), y=[0]), "X.data must be finite, got inf"),
        (dict(X=[1.0, 2.0], y=[0, 1]), "X must be 2-dimensional"),
        (dict(X=np.zeros((0, 2)), y=[]), "X must have at least one row"),
        (dict(X=np.zeros((2, 0)), y=[0, 1]), "X must have at least one column"),
        (dict(X=[["1", "2"]], y=[0]), "X must be numeric: got dtype"),
        (dict(X=X, y=[0, 1]), r"y must have one label per row of X \(3\), got an array of shape \(2,\)"),
        (dict(X=X, y=["a", "b", "c"]), "y must hold the class numbers.*np.unique"),
        (dict(X=X, y=[0.5, 1, 2]), "y must hold the class numbers"),
        (dict(X=X, y=[0, np.nan, 1]), "y must hold the class numbers"),
        (dict(X=X, y=[-1, 1, 1]), "y must hold the class numbers.*got -1"),
        (dict(X=X, y=[0, 1, 0], weight=[1, 1]), r"weight must have one entry per row \(3\), got 2"),
        (dict(X=X, y=[0, 1, 0], weight=[1, -2, 1]), "weight must be non-negative, got -2"),
        (dict(X=X, y=[0, 1, 0], weight=[1, np.nan, 1]), "weight must be finite"),
        (dict(X=X, y=[0, 1, 0], weight=[0, 0, 0]), "weight must not be zero everywhere"),
        (dict(X=X, y=[0, 1, 0], offset=[1.0]), "offset must have one row per row of X"),
        (dict(X=X, y=[0, 1, 0], offset=[np.nan, 0, 0]), "offset must be finite, got nan"),
    ],
)
def test_labelled(arguments, message):
    with pytest.raises(ValueError, match=message):
        Labelled(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(sizes=[2, 1], chosen=[0, 0]), r"sizes must sum to the rows of features \(4\), got 3"),
        (dict(sizes=[4, 0], chosen=[0, 0]), "outcome set 1 is empty"),
        (dict(sizes=[], chosen=[]), "sizes must be a non-empty list"),
        (dict(sizes=[2, 2], chosen=[0, 2]), "set 1 has 2 outcomes, got 2"),
        (dict(sizes=[2, 2], chosen=[0]), r"chosen must be one integer per set \(2\)"),
        (dict(sizes=[2, 2]), "either chosen .* or target"),
        (dict(sizes=[4], chosen=[0], target=[1, 0, 0, 0]), "either chosen .* or target"),
        (dict(sizes=[4], target=[0.5, 0.5, 0.5, 0.5]), "sum to one within each set"),
        (dict(sizes=[4], target=[1.0]), "target must have one entry per outcome"),
        (dict(sizes=[2, 2], chosen=[0, 0], weight=[1, -1]), "weight must be non-negative"),
        (dict(sizes=[2, 2], chosen=[0, 0], log_measure=[-np.inf, -np.inf, 0, 0]), "set 0 has h"),
        (dict(sizes=[2, 2], chosen=[0, 0], log_measure=[-np.inf, 0, 0, 0]), "an outcome that was observed"),
        (dict(sizes=[2, 2], chosen=[0, 0], log_measure=[0, 0]), "log_measure must have one entry per outcome"),
    ],
)
def test_choices(arguments, message):
    with pytest.raises(ValueError, match=message):
        Choices(F, **arguments)


@pytest.mark.parametrize(
    ("model", "data", "ridge", "message"),
    [
        (Multinomial(2), dict(y=[0, 1, 2]), 1.0, "y must hold labels below n_classes=2, got 2"),
        (Binary(), dict(y=[0, 1, 2]), 1.0, "labels 0 and 1 for Binary, got 2"),
        (Multinomial(3), dict(y=[0, 1, 2], offset=np.zeros((3, 2))), 1.0, "offset must have 3 columns"),
        (Multinomial(3), dict(y=[0, 1, 2], offset=np.full((3, 3), -np.inf)), 1.0, "a class that was observed"),
        (Binary(), dict(y=[0, 1, 1], offset=np.zeros((3, 2))), 1.0, r"offset must have shape \(t,\)"),
        (Binary(), dict(y=[0, 1, 1], offset=[-np.inf, 0, 0]), 1.0, "offset must be finite for Binary"),
        (Binary(), dict(y=[0, 1, 1]), -1.0, "ridge must be non-negative, got -1"),
        (Binary(), dict(y=[0, 1, 1]), np.nan, "ridge must be finite"),
        (Binary(), dict(y=[0, 1, 1]), [1.0, 1.0, 1.0], r"one per parameter \(2\), got 3"),
    ],
)
def test_objective(model, data, ridge, message):
    with pytest.raises(ValueError, match=message):
        Objective(model, Labelled(X, **data), ridge=ridge)


def test_parameters_of_the_wrong_shape():
    with pytest.raises(ValueError, match=r"parameters must have shape \(2,\), got \(3,\)"):
        Objective(Enumerated(), Choices(F, [4], [0]), ridge=1.0).value([0, 0, 0])


def test_models_refuse_data_of_another_kind():
    with pytest.raises(TypeError, match="Multinomial reads Labelled data, got Choices"):
        Objective(Multinomial(3), Choices(F, [4], [0]), ridge=1.0)
    with pytest.raises(TypeError, match="Enumerated reads Choices data, got Labelled"):
        Objective(Enumerated(), Labelled(X, [0, 1, 0]), ridge=1.0)
    with pytest.raises(TypeError, match=r"a model such as Multinomial\(3\)"):
        Objective(Binary, Labelled(X, [0, 1, 0]), ridge=1.0)


def test_target_frequencies_are_normalised():
    assert Choices(F, [4], target=[0.25, 0.25, 0.25, 0.25 + 5e-7]).target.sum() == pytest.approx(1.0, abs=1e-15)


def test_settings():
    with pytest.raises(ValueError, match="n_classes must be a whole number of at least 2, got 1"):
        Multinomial(1)
    with pytest.raises(ValueError, match="order must be one of"):
        Multinomial(3, order="best")


def test_a_dense_curvature_that_cannot_fit_is_refused_before_it_is_tried():
    wide = Labelled(sp.csr_array(([1.0], ([0], [0])), shape=(1, 50_000)), [1])
    objective = Objective(Binary(), wide, ridge=1.0)
    with pytest.raises(ValueError, match=r"50000×50000 matrix \(20 GB\).*'diagonal'"):
        objective.bound(np.zeros(50_000))
    for wider in ("kronecker", "boehning"):
        with pytest.raises(ValueError, match="a Kronecker curvature needs a 50000×50000 matrix"):
            objective.bound(np.zeros(50_000), wider)
    with pytest.raises(ValueError, match="BFGS needs a 50000×50000 matrix"):
        minimize(objective, BFGS())
    assert objective.bound(np.zeros(50_000), "diagonal").curvature.size == 50_000

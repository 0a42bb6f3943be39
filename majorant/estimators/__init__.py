"""scikit-learn estimators: the solvers of this package for people."""

from majorant.estimators.logistic import LogisticRegression

__all__ = ["LogisticRegression"]

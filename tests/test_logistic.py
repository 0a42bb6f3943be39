"""LogisticRegression against scikit-learn's, and what it adds."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from majorant import LogisticRegression


@parametrize_with_checks([LogisticRegression(), LogisticRegression(solver="proximal")])
def test_scikit_learn_compatible(estimator, check):
    check(estimator)

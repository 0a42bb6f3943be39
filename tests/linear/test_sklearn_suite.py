"""scikit-learn's own tests of logistic regression, run on this package's estimators.

The file is the one that is installed; nothing of it is here. Which of its cases do not apply, and why, depends on the
version it is of.
"""

import functools
import importlib.util
import itertools
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import sklearn
import sklearn.linear_model
from sklearn.utils.fixes import parse_version

import majorant

KNOWN = ("1.9", "1.10")
INSTALLED = Path(sklearn.linear_model.__file__).parent / "tests" / "test_logistic.py"

if not parse_version(KNOWN[0]) <= parse_version(sklearn.__version__) < parse_version(KNOWN[1]):
    pytest.skip(f"the skip lists are of scikit-learn {KNOWN[0]}, not {sklearn.__version__}", allow_module_level=True)
if not INSTALLED.exists():
    pytest.skip("scikit-learn is installed without its tests", allow_module_level=True)

DEPRECATION = "about a deprecation of scikit-learn's own"
LIBLINEAR = "about what LIBLINEAR does or cannot do"
PRIVATE = "calls a private function of scikit-learn with the settings of the estimator, or one that is a method there"
TEXT = "about the text of a refusal or a warning"
ARRAY_API = "arrays of other libraries are not taken"
BEST_INTERCEPT = (
    "a fit that is cut short ends with the best intercept for its coefficients, not with that of its last step"
)

# Tests that do not apply, with the reason.
NEVER = {
    "test_check_solver_option": TEXT,
    "test_max_iter": TEXT,
    "test_liblinear_dual_random_state": LIBLINEAR,
    "test_liblinear_with_large_values": LIBLINEAR,
    "test_logistic_cv_multinomial_score": PRIVATE,
    "test_logreg_predict_proba_multinomial": PRIVATE,
    "test_logistic_regression_path_convergence_fail": PRIVATE,
    "test_logistic_regression_path_coefs_multinomial": PRIVATE,
    "test_logistic_regression_path_init_coefs": PRIVATE,
    "test_penalty_deprecated": DEPRECATION,
    "test_l1_ratio_None_deprecated": DEPRECATION,
    "test_logisticregressioncv_warns_with_use_legacy_attributes": DEPRECATION,
    "test_logisticregression_warns_with_n_jobs": DEPRECATION,
    "test_lr_scoring_warns": DEPRECATION,
    "test_LogisticRegressionCV_on_folds": "coefficients of folds, which stop at 100 times tol, to five digits",
    "test_newton_cholesky_fallback_to_lbfgs": "about when scikit-learn's Newton gives up",
    "test_logistic_regression_callback_support_warning": "callbacks are supported with every solver",
    "test_logistic_regression_array_api_compliance": ARRAY_API,
    "test_logistic_regression_array_api_warm_start": ARRAY_API,
}
# Cases of tests that otherwise apply: the parameters that all have to match, and the reason.
NOT_WITH = {
    "test_lr_penalty_l1ratio_incompatible": [({"penalty": "l1"}, "an l1_ratio that was left out contradicts nothing")],
    "test_dtype_match": [({"solver": "liblinear"}, LIBLINEAR)],
    "test_large_sparse_matrix": [
        ({"solver": solver}, "indices of 64 bits are taken whatever the solver")
        for solver in ("liblinear", "sag", "saga")
    ],
    "test_zero_max_iter": [
        ({"solver": solver}, BEST_INTERCEPT) for solver in ("newton-cg", "newton-cholesky", "sag", "saga")
    ],
    "test_warm_start_newton_solver": [
        ({"solver": "newton-cg"}, "a quasi-Newton method, whose second step knows of the first"),
        ({"solver": "newton-cholesky", "fit_intercept": True, "C": 1}, BEST_INTERCEPT),
    ],
    "test_logistic_regression_callback_support": [({"max_iter": 0}, "SciPy's L-BFGS takes a step all the same")],
    "test_logistic_regression_callback_fitted_estimator": [({"fit_intercept": True}, BEST_INTERCEPT)],
}


EXPECTED = {"tests": 80, "tests that do not apply": 19, "cases": 252, "cases that do not apply": 23}


def as_strict(cls):
    """Return the estimator with scikit-learn's meaning of ``tol``: it bounds a gradient, ours goes as its square."""

    @functools.wraps(cls.fit)
    def fit(self, *args, **kwargs):
        given, self.tol = self.tol, max(self.tol**2, 1e-15)
        try:
            return cls.fit(self, *args, **kwargs)
        finally:
            self.tol = given

    return type(cls.__name__, (cls,), {"fit": fit})


def load():
    """Return scikit-learn's tests as a module that imports this package's estimators in the place of its own."""
    spec = importlib.util.spec_from_file_location("sklearn_test_logistic", INSTALLED)
    module = importlib.util.module_from_spec(spec)
    ours = (majorant.LogisticRegression, majorant.LogisticRegressionCV)
    with mock.patch.multiple(sklearn.linear_model, **{cls.__name__: as_strict(cls) for cls in ours}):
        spec.loader.exec_module(module)
    return module


# How many steps are enough is another matter for another solver, and so is the point where a cut-short fit ends.
pytestmark = [pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"), pytest.mark.unwatched]
suite = load()
tests = {name: test for name, test in vars(suite).items() if name.startswith("test_")}


def not_run(name, params):
    """Return why a case does not apply, or None."""
    for wanted, reason in NOT_WITH.get(name, []):
        if all(np.array_equal(params[key], value) for key, value in wanted.items()):
            return reason
    return None


def cases(test):
    """Yield the parameters of each case of a test."""
    marks = [mark.args[:2] for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"]
    for values in itertools.product(*(list(argvalues) for _, argvalues in marks)):
        params = {}
        for (names, _), value in zip(marks, values, strict=True):
            names = [each.strip() for each in names.split(",")] if isinstance(names, str) else names
            params.update(zip(names, value if len(names) > 1 else [value], strict=True))
        yield params


@pytest.fixture
def global_random_seed():
    return 42


@pytest.fixture(autouse=True)
def applicable(request):
    params = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    reason = not_run(request.function.__name__, params)
    if reason is not None:
        pytest.skip(reason)


globals().update({name: test for name, test in tests.items() if name not in NEVER})


def test_the_lists_are_of_this_file(record_property):
    """Nothing is skipped that is not there, and not more than was looked at."""
    assert set(NEVER) | set(NOT_WITH) <= set(tests)
    reasons = [not_run(name, params) for name in tests if name not in NEVER for params in cases(tests[name])]
    counts = {
        "tests": len(tests),
        "tests that do not apply": len(NEVER),
        "cases": len(reasons),
        "cases that do not apply": sum(reason is not None for reason in reasons),
    }
    for name, count in counts.items():
        record_property(name, count)
    assert counts == EXPECTED

"""scikit-learn's tests of everything that is given a LogisticRegression, run on this package's.

They are those that are installed, in a process of their own, where the class is replaced (``tests/sklearn_patch.py``).
``MAJORANT_SKLEARN_TESTS=all`` runs those that take longer, too.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import sklearn
from sklearn.utils.fixes import parse_version

KNOWN = ("1.9", "1.10")
INSTALLED = Path(sklearn.__file__).parent
# Files with a test that names the class.
QUICK = (
    "ensemble/tests/test_bagging.py",
    "ensemble/tests/test_common.py",
    "ensemble/tests/test_stacking.py",
    "ensemble/tests/test_weight_boosting.py",
    "feature_selection/tests/test_from_model.py",
    "feature_selection/tests/test_rfe.py",
    "frozen/tests/test_frozen.py",
    "inspection/tests/test_permutation_importance.py",
    "linear_model/tests/test_common.py",
    "metrics/_plot/tests/test_confusion_matrix_display.py",
    "metrics/_plot/tests/test_det_curve_display.py",
    "metrics/_plot/tests/test_precision_recall_display.py",
    "metrics/tests/test_ranking.py",
    "metrics/tests/test_score_objects.py",
    "model_selection/tests/test_search.py",
    "semi_supervised/tests/test_self_training.py",
    "svm/tests/test_sparse.py",
    "svm/tests/test_svm.py",
    "tests/test_calibration.py",
    "tests/test_metaestimators.py",
    "tests/test_multiclass.py",
    "tests/test_multioutput.py",
    "tests/test_pipeline.py",
    "utils/_repr_html/tests/test_estimator.py",
    "utils/tests/test_class_weight.py",
    "utils/tests/test_estimator_checks.py",
    "utils/tests/test_response.py",
)
SLOW = (
    "ensemble/tests/test_voting.py",
    "inspection/_plot/tests/test_boundary_decision_display.py",
    "inspection/tests/test_partial_dependence.py",
    "linear_model/tests/test_sag.py",
    "metrics/_plot/tests/test_common_curve_display.py",
    "metrics/_plot/tests/test_roc_curve_display.py",
    "model_selection/tests/test_classification_threshold.py",
    "model_selection/tests/test_validation.py",
    "tests/test_common.py",
    "utils/_repr_html/tests/test_features.py",
    "utils/tests/test_plotting.py",
)
EVERYTHING = os.environ.get("MAJORANT_SKLEARN_TESTS") == "all"
LEAST = 2000 if EVERYTHING else 450  # that pass

if not parse_version(KNOWN[0]) <= parse_version(sklearn.__version__) < parse_version(KNOWN[1]):
    pytest.skip(f"the lists are of scikit-learn {KNOWN[0]}, not {sklearn.__version__}", allow_module_level=True)
if not (INSTALLED / "tests" / "test_pipeline.py").exists():
    pytest.skip("scikit-learn is installed without its tests", allow_module_level=True)


@pytest.mark.unwatched
def test_what_is_given_a_logistic_regression_takes_this_one(tmp_path):
    files = [str(INSTALLED / name) for name in (*QUICK, *(SLOW if EVERYTHING else ()))]
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    options = ["-q", "--disable-warnings", "-p", "tests.sklearn_patch", "-p", "no:cacheprovider", "-p", "no:xdist"]
    place = ["-c", str(tmp_path / "pytest.ini"), "--rootdir", str(INSTALLED.parent)]
    here = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *place, *files],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        env=here,
    )
    said = done.stdout[-4000:] + done.stderr[-1000:]
    assert done.returncode == 0, said
    assert int(re.findall(r"(\d+) passed", said)[-1]) >= LEAST, said

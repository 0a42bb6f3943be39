"""Compiling for all processes to come."""

import os
import subprocess
import sys

import pytest

import majorant
from majorant.core import kernels
from tests.commands import call


def test_every_kind_of_fit_is_compiled_for_and_the_rule_is_as_before():
    before, kinds = kernels.WORTH_COMPILING, []
    assert majorant.warm_up(kinds.append) > 0
    assert before == kernels.WORTH_COMPILING
    assert kinds == [
        "two classes",
        "several classes",
        "single precision",
        "sparse rows",
        "wide sparse rows",
        "sequences",
    ]
    assert "sequences" in call("warm-up")


@pytest.mark.skipif(os.name == "nt", reason="folders are write-protected otherwise")
def test_small_fits_need_no_folder_and_no_compiler(tmp_path):
    """As in a container that cannot be written to."""
    tmp_path.chmod(0o500)
    code = (
        "import sys; from sklearn.datasets import load_iris; import majorant\n"
        "model = majorant.LogisticRegression().fit(*load_iris(return_X_y=True))\n"
        "print(model.result_.converged, 'numba' in sys.modules)"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "none"), "HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split() == ["True", "False"]

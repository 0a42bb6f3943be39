"""Kernels that were kept: loaded without what only compiling needs, and garbage that waits while they compile."""

from __future__ import annotations

import gc
import os
import subprocess
import sys

import numba
import numpy as np
import pytest

from majorant.core.kernels import compiler

# A kernel that counts no references, one that makes an array, and one that calls BLAS.
CALLS = """
import numpy as np
from majorant.core.kernels import Csr, Stored, dual, softmax
from majorant.chain.kernels.forward_backward import look_up
from numba.core.runtime import rtsys

codes = np.empty(3, np.uint32)
look_up(np.array([1, 0], np.uint32), np.array([0, 1, 3], np.uint32), np.array([0, 1, 0], np.uint16), 1, codes)
X = Csr(np.array([3.0, 4.0]), np.array([0, 1], np.uint32), np.array([0, 2], np.int32))
print(codes.tolist(), dual.row_squares(X).tolist())
S, W, ones = np.zeros((3, 3)), np.ones((3, 2)), Stored(np.ones((3, 2)), np.empty(0), False)
found = softmax.unit_step_dense(ones, W, S, np.zeros(3, np.int64), np.empty(0), S.copy(), S.copy(), W.copy())
print(round(found[0], 1))
print("compiled" if rtsys._init else "loaded")
"""


def called(folder):
    done = subprocess.run(
        [sys.executable, "-c", CALLS],
        env={**os.environ, "NUMBA_CACHE_DIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


KNOWN = compiler.KNOWN_VERSIONS[0] <= numba.version_info.short <= compiler.KNOWN_VERSIONS[1]


@pytest.mark.skipif(not KNOWN, reason=f"Numba {numba.__version__} has not been tried: it loads kept kernels as it does")
def test_kept_kernels_load_without_what_only_compiling_needs(tmp_path):
    first, again = called(tmp_path), called(tmp_path)
    assert first[:2] == again[:2] == ["[3, 4, 0] [25.0]", "3.3"]
    assert (first[2], again[2]) == ("compiled", "loaded")


@pytest.mark.skipif(not KNOWN, reason=f"Numba {numba.__version__} has not been tried: it loads kept kernels as it does")
def test_kernels_that_another_version_has_kept_are_compiled_anew(tmp_path):
    first = called(tmp_path)
    indices = [index for index in tmp_path.rglob("*.nbi") if b"\x8c\x03Csr" in index.read_bytes()]
    assert indices
    for index in indices:  # as if a type had another name now
        index.write_bytes(index.read_bytes().replace(b"\x8c\x03Csr", b"\x8c\x03Csx"))
    assert called(tmp_path) == first


@pytest.mark.parametrize("collects", [True, False])
def test_garbage_is_collected_again_after_a_kernel_was_compiled(collects):
    during = []

    @numba.extending.overload(probed := lambda x: x)
    def compiled_probe(x):
        during.append(gc.isenabled())
        return lambda x: x

    def ours(x):
        return probed(x)

    ours.__module__ = "majorant.core.kernels.of_a_test"
    was = gc.isenabled()
    try:
        (gc.enable if collects else gc.disable)()
        assert numba.njit(ours)(1) == 1
        assert gc.isenabled() == collects
    finally:
        (gc.enable if was else gc.disable)()
    assert during
    assert not any(during)


def test_garbage_is_collected_again_after_a_kernel_could_not_be_compiled():
    def ours(x):
        return x.nothing_of_the_kind

    ours.__module__ = "majorant.core.kernels.of_a_test"
    with pytest.raises(numba.core.errors.TypingError):
        numba.njit(ours)(np.ones(1))
    assert gc.isenabled()

"""Property tests explore at random on a developer's machine and repeat themselves where CI is set."""

import os
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest
from hypothesis import settings

settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")


def pytest_configure(config):
    # Before NumPy is imported, here, in workers, and in what they start: threads of BLAS, as many in each process as
    # there are cores, wait for each other. Tests of threads say how many they want.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    config.addinivalue_line("markers", "unwatched: what it reaches is not counted")
    # A mark of scikit-learn's own tests, some of which are run here.
    config.addinivalue_line("markers", "thread_unsafe: not to be run by several threads")


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item):
    """Let nothing trace tests that are marked so.

    To be traced doubles what a test of many small steps costs, and sweeps go where other tests have been: what is said
    to be reached is reached without them. The mark ``no_cover`` of pytest-cov saves nothing in workers, which trace for
    two, so that where one stops the other goes on.
    """
    if not item.get_closest_marker("unwatched"):
        return (yield)
    tracer = sys.gettrace()
    sys.settrace(None)
    try:
        return (yield)
    finally:
        sys.settrace(tracer)


@pytest.fixture(scope="session")
def pool():
    """Two processes, which take longer to start than any test that needs them takes."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
        yield executor


@pytest.fixture(scope="session")
def cluster():
    """Two workers of Dask, which are no faster to start."""
    dask, distributed = pytest.importorskip("dask"), pytest.importorskip("distributed")
    with (
        dask.config.set({"distributed.worker.daemon": False}),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
    ):
        yield cluster


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder, which relative names are in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path

"""Property tests explore at random on a developer's machine and repeat themselves where CI is set."""

import os

from hypothesis import settings

settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")


def pytest_configure(config):
    # A mark of scikit-learn's own tests, some of which are run here.
    config.addinivalue_line("markers", "thread_unsafe: not to be run by several threads")

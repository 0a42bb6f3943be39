"""Property tests explore at random on a developer's machine and repeat themselves where CI is set."""

import os

from hypothesis import settings

settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")

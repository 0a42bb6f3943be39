"""Numbers for the interactive figure of `why.md`, found by the package: an objective of one parameter and its bound."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from sphinx.application import Sphinx

from majorant import log_partition_bound

# Five outcomes, of which the fourth was observed.
FEATURES = [-2.0, -1.3, 0.4, 1.0, 2.6]
OBSERVED = 3
RIDGE = 0.1
ANCHORS = np.linspace(-8.0, 8.0, 321)


def setup(app: Sphinx) -> dict[str, Any]:
    """Write the numbers before static files are copied."""
    app.connect("builder-inited", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _write(app: Sphinx) -> None:
    curvature = [_curvature_at(anchor) for anchor in ANCHORS]
    numbers = {
        "features": FEATURES,
        "observed": OBSERVED,
        "ridge": RIDGE,
        "anchors": ANCHORS.round(6).tolist(),
        "curvature": curvature,
    }
    target = Path(app.srcdir) / "_static" / "majorization_data.js"
    target.write_text(f"const majorizationData = {json.dumps(numbers)};\n")


def _curvature_at(anchor: float) -> float:
    bound = log_partition_bound([anchor], np.array(FEATURES)[:, None])
    return round(float(bound.curvature.as_matrix()[0, 0]), 9)

"""Draw log Z, the bound of Algorithm 1 and the Hessian's parabola: python -m examples.bound_figure OUT.png"""

from __future__ import annotations

import sys

from majorant.experiments.bound import curves, draw

if __name__ == "__main__":
    draw(curves(), sys.argv[1] if len(sys.argv) > 1 else "bound.png")

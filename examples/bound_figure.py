"""Draw log Z, the bound of Algorithm 1 and the Hessian's parabola: python -m examples.bound_figure OUT.png"""

from __future__ import annotations

import sys

from reproduction.figures import bound_curves, draw_bound

if __name__ == "__main__":
    draw_bound(bound_curves(), sys.argv[1] if len(sys.argv) > 1 else "bound.png")

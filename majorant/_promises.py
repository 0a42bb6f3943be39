"""What the steps of a run promise to gain: an estimate of how far the optimum is, where certificates are loose."""

from __future__ import annotations

from math import inf

from majorant.solvers import State

# Of the tolerance: what two steps foretell is less than this where the optimum is taken to be as near as that.
SURELY = 0.1
# How much of a promise the next step makes, at most, where anything is foretold of it.
SLOWEST = 0.95
TINY = 1e-300


class Promises:
    """What the last steps have promised, relative to F.

    ``estimate`` is what all that follow might gain together, if promises go on to shrink as the last did.
    """

    def __init__(self) -> None:
        self.estimate = inf
        self._last = inf

    def are_over(self, state: State, value: float, tol: float) -> bool:
        """Look at a state; return whether it and the one before leave next to nothing to gain.

        Steps that nobody has seen have ended since they promised as little.
        """
        before = 0.0 if state.unseen > 1 else self.estimate
        promise = state.predicted_decrease() / max(abs(value), TINY)
        shrinks = min(promise / self._last, SLOWEST) if self._last > 0 else 0.0
        self._last, self.estimate = promise, promise / (1 - shrinks)
        return max(before, self.estimate) <= SURELY * tol

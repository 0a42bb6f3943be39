"""What a run takes."""

from __future__ import annotations

import time


class Stopwatch:
    """Seconds of the wall clock, and of the processor for this process, all its threads together."""

    def __init__(self, seconds: float = 0.0, cpu_seconds: float = 0.0) -> None:
        self._seconds, self._cpu_seconds = seconds, cpu_seconds
        self.skip()

    def read(self) -> tuple[float, float]:
        """Return the seconds so far."""
        wall, cpu = self._since
        self.skip()
        self._seconds += self._since[0] - wall
        self._cpu_seconds += self._since[1] - cpu
        return self._seconds, self._cpu_seconds

    def skip(self) -> None:
        """Leave out what was done since the seconds were last read."""
        self._since = time.perf_counter(), time.process_time()

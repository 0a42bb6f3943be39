"""What a run takes, without who looks on."""

from __future__ import annotations

import time


class Stopwatch:
    """Seconds of the wall clock, and of the processor for this process, all its threads together, up to a pause."""

    def __init__(self, seconds: float = 0.0, cpu_seconds: float = 0.0) -> None:
        self.seconds, self.cpu_seconds = seconds, cpu_seconds
        self.go_on()

    def go_on(self) -> None:
        """Count from now on."""
        self._since = time.perf_counter(), time.process_time()

    def pause(self) -> None:
        """Count no more."""
        wall, cpu = self._since
        self.seconds += time.perf_counter() - wall
        self.cpu_seconds += time.process_time() - cpu

"""Random problems for a while: ``make fuzz``, or ``python -m tests.fuzz --seconds 600``.

Prints how many went wrong in which way, each kind with the smallest problems that still do, as code to paste.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass, field, fields, replace
from itertools import count

from tests.random_fits import KINDS, SECONDS, Problem, draw, judge

SHOWN = 10
# Seconds that one failure may take to shrink, and one fit of a smaller problem.
SHRINKING, SMALLER = 20.0, 5.0
SIMPLEST = Problem(seed=0)
# Seconds between lines of progress.
EVERY = 10.0
# One problem in so many is large: some shapes go wrong only beyond what a test has time for.
LARGE = 4


@dataclass
class Tally:
    """Problems seen, and those that failed, by kind."""

    problems: int = 0
    failures: dict[str, list[tuple[Problem, str]]] = field(default_factory=lambda: {kind: [] for kind in KINDS})

    def add(self, problem: Problem, found: list[str]) -> None:
        self.problems += 1
        for complaint in found:
            self.failures[kind_of(complaint)].append((problem, complaint))

    def __str__(self) -> str:
        counts = ", ".join(f"{kind}: {len(some)}" for kind, some in self.failures.items())
        return f"{self.problems} problems; {counts}"


def kind_of(complaint: str) -> str:
    return complaint.partition(":")[0]


def cause_of(complaint: str) -> str:
    """Return what shrinking has to keep: the kind, and for an exception where it was raised."""
    return ":".join(complaint.split(":")[:3]) if kind_of(complaint) == "exception" else kind_of(complaint)


# --- shrinking --------------------------------------------------------------------------------------------


def smaller(problem: Problem):
    """Yield problems that are simpler in one way, the greatest simplification first."""
    for each in fields(Problem):
        simplest = getattr(SIMPLEST, each.name)
        if isinstance(simplest, str | bool) and getattr(problem, each.name) != simplest:
            yield replace(problem, **{each.name: simplest})
    for name in ("C", "density", "magnitude"):
        if getattr(problem, name) != 1.0:
            yield replace(problem, **{name: 1.0})
    for name, least in (("p", 1), ("n", 2), ("t", max(4, problem.n))):
        size = getattr(problem, name)
        for share in (8, 2, 1.2):
            if max(int(size / share), least) < size:
                yield replace(problem, **{name: max(int(size / share), least)})


def shrink(problem: Problem, complaint: str) -> tuple[Problem, str]:
    """Return the simplest problem found that fails for the same cause, and what is said of it."""
    stop, going = time.monotonic() + SHRINKING, True
    while going:
        going = False
        for simpler in smaller(problem):
            if time.monotonic() > stop:
                return problem, complaint
            same = [c for c in judge(simpler, seconds=SMALLER) if cause_of(c) == cause_of(complaint)]
            if same:
                problem, complaint, going = simpler, same[0], True
                break
    return problem, complaint


def snippet(problem: Problem) -> str:
    """Return code that repeats a failure, with the settings that are not the default."""
    given = ", ".join(
        f"{each.name}={getattr(problem, each.name)!r}"
        for each in fields(Problem)
        if each.name == "seed" or getattr(problem, each.name) != getattr(SIMPLEST, each.name)
    )
    return f"from tests.random_fits import Problem, judge; print(judge(Problem({given})))"


# --- running ----------------------------------------------------------------------------------------------


def explore(first: int, seconds: float, problems: float, large: bool, limit: float) -> Tally:
    """Judge the problems of consecutive seeds until the time or the number is used up."""
    tally, began = Tally(), time.monotonic()
    told = began
    for seed in count(first):
        if tally.problems >= problems or time.monotonic() - began > seconds:
            return tally
        problem = draw(seed, large or seed % LARGE == 0)
        tally.add(problem, judge(problem, limit))
        if time.monotonic() - told > EVERY:
            told = time.monotonic()
            print(f"{told - began:.0f} s, {tally}", flush=True)
    return tally


def varied(some: list[tuple[Problem, str]]) -> list[tuple[Problem, str]]:
    """Return one failure of each sort, since those of one sort tend to have one cause."""
    sorts = {(cause_of(complaint), p.data, p.mode, p.solver): (p, complaint) for p, complaint in reversed(some)}
    return list(sorts.values())[::-1]


def report(tally: Tally) -> None:
    for kind, some in tally.failures.items():
        if some:
            print(f"\n{kind}: {len(some)}")
        for problem, complaint in varied(some)[:SHOWN]:
            # A slow fit takes as long again for each attempt to shrink it.
            problem, complaint = (problem, complaint) if kind == "slow" else shrink(problem, complaint)
            print(f"# {complaint}\n{snippet(problem)}", flush=True)
    print(f"\n{tally}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0, help="how long to go on (600)")
    parser.add_argument("--problems", type=float, default=float("inf"), help="how many problems at most")
    parser.add_argument("--seed", type=int, default=None, help="of the first problem; from the clock if not given")
    parser.add_argument("--large", action="store_true", help="make every problem large, not one in four")
    parser.add_argument("--limit", type=float, default=SECONDS, help=f"seconds for one fit ({SECONDS:g})")
    options = parser.parse_args()
    seed = int(time.time()) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    tally = explore(seed, options.seconds, options.problems, options.large, options.limit)
    report(tally)
    return int(any(tally.failures.values()))


if __name__ == "__main__":
    sys.exit(main())

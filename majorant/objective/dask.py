"""Blocks held by the workers of a Dask cluster, where what is kept with them stays as well."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial, reduce
from typing import Any, ClassVar

from majorant._threads import numerics
from majorant.objective.elsewhere import Rounds, work_on
from majorant.objective.reduce import Kept, Task, add, found_again

# Sums that a worker adds up at a time.
ARITY = 8
# The share of the memory of all workers that may be kept with blocks, beside the rows.
KEPT_SHARE = 0.2


class DaskBlocks(Rounds):
    """Shares that Dask has yet to compute: once, if they are pinned to the memory of workers, or at every round.

    A future that is lost with its worker is found again by Dask from what it was made of; so is what was kept with it.
    """

    delay: ClassVar[float] = 2e7

    def __init__(self, client: Any, shares: Sequence[Any], memory: float, *, pinned: bool) -> None:
        self._client, self._memory, self._pinned = client, memory, pinned
        self._shares = client.compute(shares) if pinned else shares

    def keep(self, numbers: float) -> bool:
        """Return whether the workers have memory enough."""
        return 8 * numbers <= KEPT_SHARE * self._memory

    def run(self, task: Task, *kept: Kept) -> tuple[Any, Kept]:
        """Return the sum over all blocks, and futures of what was kept with them."""
        task, kept = found_again(task, kept)
        self.rounds += 1
        # θ travels with each call: what is scattered would be lost with a worker, for good.
        with large_graphs():
            found = self._sent(task, list(zip(self._shares, *kept, strict=True)))
        return self._added(found), found

    def _sent(self, task: Task, shares: Sequence[Any]) -> list[Any]:
        """Return futures of what a task makes of each share."""
        if self._pinned:
            return [self._client.submit(_run_share, task, *some, pure=False) for some in shares]
        from dask import delayed

        call = delayed(partial(_run_share, task), pure=False)
        return list(self._client.compute([call(*some) for some in shares]))

    def _added(self, found: Sequence[Any]) -> Any:
        """Return the sum of all shares: as a tree by the workers, and the last few here. What was kept stays there."""
        sums = self._client.map(_sum_of, found, pure=False)
        while len(sums) > ARITY:
            some = [sums[k : k + ARITY] for k in range(0, len(sums), ARITY)]
            sums = [self._client.submit(_add_sums, each, pure=False) for each in some]
        return _add_sums(self._client.gather(sums))


def large_graphs() -> AbstractContextManager[Any]:
    """Return a context in which Dask does not warn of parameters, or vocabularies, that are large: they have to go."""
    from dask import config

    quiet: AbstractContextManager[Any] = config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"})
    return quiet


def _run_share(task: Task, share: Sequence[Any], *kept: tuple[Any, list[Any]]) -> tuple[Any, list[Any]]:
    """Return sum and what is kept; what was kept before came with a sum, too."""
    with numerics(1):
        return work_on(task, share, *(each for _, each in kept))


def _sum_of(found: tuple[Any, Any]) -> Any:
    return found[0]


def _add_sums(sums: Sequence[Any]) -> Any:
    return reduce(lambda a, b: add(a, b, ours=False), sums)

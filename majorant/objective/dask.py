"""Blocks held by the workers of a Dask cluster, where what is kept with them stays as well."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial, reduce
from typing import Any, ClassVar

from majorant._buffers import hold_on_to_pages
from majorant._threads import numerics
from majorant.objective.elsewhere import Rounds, work_on
from majorant.objective.reduce import Kept, Task, found_again
from majorant.objective.sums import add

# Sums that are added up at a time.
ARITY = 8
# The share of the memory of all workers that may be kept with blocks, beside the rows.
KEPT_SHARE = 0.2


class DaskBlocks(Rounds):
    """Shares that Dask computes at every round, for they are too large to be held: nothing is kept with them.

    A share that is lost with its worker is computed again by another.
    """

    delay: ClassVar[float] = 2e7

    def __init__(self, client: Any, shares: Sequence[Any]) -> None:
        self._client, self._shares = client, shares

    def keep(self, numbers: float) -> bool:
        """Return False."""
        return False

    def run(self, task: Task, *kept: Kept) -> tuple[Any, Kept]:
        """Return the sum over all blocks; nothing is kept."""
        from dask import delayed

        task, kept = found_again(task, kept)
        assert not kept, "nothing is kept where rows are not"
        self.rounds += 1
        call = delayed(partial(_sum_of_share, task), pure=False)
        # θ travels with each call: what is scattered would be lost with a worker, for good.
        with large_graphs():
            sums = self._client.compute([call(share) for share in self._shares])
        return self._added(sums), []

    def _added(self, sums: Sequence[Any]) -> Any:
        """Return the sum of all shares: as a tree by the workers, and the last few here."""
        while len(sums) > ARITY:
            some = [sums[k : k + ARITY] for k in range(0, len(sums), ARITY)]
            sums = [self._client.submit(added, each, pure=False) for each in some]
        return added(self._client.gather(sums))


def large_graphs() -> AbstractContextManager[Any]:
    """Return a context in which Dask does not warn of parameters, or vocabularies, that are large: they have to go."""
    from dask import config

    quiet: AbstractContextManager[Any] = config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"})
    return quiet


def added(sums: Sequence[Any]) -> Any:
    """Return the sum of sums, which stay as they are."""
    return reduce(lambda a, b: add(a, b, ours=False), sums)


def _sum_of_share(task: Task, share: Sequence[Any]) -> Any:
    hold_on_to_pages()
    with numerics(1):
        return work_on(task, share)[0]

"""A Dask cluster that somebody named, or one of our own."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from majorant._extras import needed

# Seconds that a scheduler has to answer, and then to name a worker.
PATIENCE = 5.0
LOCAL = re.compile(r"local(?::(\d+))?")


@contextmanager
def connected(address: str | None) -> Iterator[Any]:
    """Yield a client of the scheduler at an address, None if there is none; ``local:4`` starts four workers here."""
    if address is None:
        yield None
        return
    distributed = needed("distributed", "--scheduler", "dask")
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # who waits is told by us
    local = LOCAL.fullmatch(address)
    with _local(distributed, local[1]) if local else _client(distributed, address) as client:
        yield client


@contextmanager
def _local(distributed: Any, workers: str | None) -> Iterator[Any]:
    many = os.cpu_count() or 1 if workers is None else int(workers)
    if many < 1:
        raise ValueError("--scheduler local:N needs at least one worker, got local:0")
    settings = dict(n_workers=many, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL)
    with (
        distributed.LocalCluster(**settings) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


@contextmanager
def _client(distributed: Any, address: str) -> Iterator[Any]:
    try:
        client = distributed.Client(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, TimeoutError, ValueError, TypeError) as problem:
        why = str(problem).splitlines()[0] if isinstance(problem, ValueError | TypeError) else "nobody answers"
        raise ValueError(
            f"there is no Dask scheduler at {address} ({why}); say --scheduler tcp://host:port, or local"
        ) from None
    with client:
        try:
            client.wait_for_workers(1, timeout=PATIENCE)
        except (OSError, TimeoutError):
            raise ValueError(f"the Dask scheduler at {address} has no workers; start some with dask worker") from None
        yield client

"""Reading while somebody else works."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import Any, TypeVar

T = TypeVar("T")

# Items that are ready before they are asked for.
AHEAD = 2
# Seconds after which a reader looks whether anybody still wants what it has read.
PATIENCE = 0.1
END = object()


def read_ahead(items: Callable[[], Iterator[T]], ahead: int = AHEAD) -> Iterator[T]:
    """Yield what an iterator yields, which a thread of its own runs, a few items ahead.

    Its errors are passed on. Who stops before the end stops the thread, too.
    """
    ready: Queue[tuple[Any, BaseException | None]] = Queue(maxsize=ahead)
    unwanted = Event()
    Thread(target=_read, args=(items, ready, unwanted), name="majorant reader", daemon=True).start()
    try:
        while True:
            item, error = ready.get()
            if error is not None:
                raise error
            if item is END:
                return
            yield item
    finally:
        unwanted.set()
        _empty(ready)


def _read(items: Callable[[], Iterator[T]], ready: Queue[Any], unwanted: Event) -> None:
    try:
        for item in items():
            if not _offer((item, None), ready, unwanted):
                return
        _offer((END, None), ready, unwanted)
    except BaseException as error:  # whoever reads should see it
        _offer((END, error), ready, unwanted)


def _offer(what: Any, ready: Queue[Any], unwanted: Event) -> bool:
    """Put something where it can be taken; return whether anybody still wants it."""
    while not unwanted.is_set():
        try:
            ready.put(what, timeout=PATIENCE)
            return True
        except Full:
            continue
    return False


def _empty(ready: Queue[Any]) -> None:
    try:
        while True:
            ready.get_nowait()
    except Empty:
        return

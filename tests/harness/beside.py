"""What a test does beside its main course, such as changing rows, until it is stopped."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor


@contextlib.contextmanager
def beside(work: Callable[[threading.Event], None]) -> Iterator[Callable[[], None]]:
    """Run this in a thread until the function is called, or to the end of the block; its error is raised there.

    It returns once the event is set.
    """
    stop = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(work, stop)

        def end() -> None:
            stop.set()
            running.result()

        try:
            yield end
        finally:
            stop.set()
        end()

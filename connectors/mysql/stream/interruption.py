"""A stop between two transactions, for a caller that has something to do there even while the source is idle.

Invariant: a request is never missed: it is seen before the next wait for data, or ends that wait.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from typing import Protocol


class Interruption(Protocol):
    """Requests for stops, as the stream's thread sees them."""

    @property
    def is_wanted(self) -> bool:
        """Whether the caller still waits for a position between two transactions."""

    def fileno(self) -> int:
        """Return a descriptor that is readable from a request until ``noticed`` is called."""

    def noticed(self) -> None:
        """Make the descriptor unreadable until the next request."""


class Bell:
    """A descriptor that one thread waits for and any thread makes readable."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        # Closed only with the object: after an earlier close, ``ring`` could write to another file with
        # the same descriptor.
        weakref.finalize(self, _closed, self._read, self._write)

    def fileno(self) -> int:
        """The descriptor to wait for."""
        return self._read

    def ring(self) -> None:
        """Make the descriptor readable."""
        # A full pipe is readable already.
        with contextlib.suppress(BlockingIOError):
            os.write(self._write, b"\0")

    def noticed(self) -> None:
        """Make the descriptor unreadable."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self._read, 4096):
                pass


def _closed(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)

"""When readers of the warehouse saw which changes: the sink's metrics, read all the time.

Invariant: a time is that at which a change was certainly visible, at most a look later than it was.
"""

import threading
import time
from dataclasses import dataclass, field

from demo import observe
from demo.checks import Applied

_SECONDS = 0.1
At = tuple[str, int]


@dataclass(slots=True)
class Visible:
    """The offsets up to which readers see each partition, with the times at which they did."""

    port: int
    seen: dict[At, list[Applied]] = field(default_factory=dict)
    _stop: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """Look from now on, in a thread."""
        threading.Thread(target=self._run, daemon=True).start()

    def stop(self) -> None:
        """Look no more."""
        self._stop.set()

    def look(self) -> None:
        """Look once; a sink that does not answer shows nothing new."""
        found, now_ms = observe.sink_offsets(self.port) or {}, int(time.time() * 1000)
        for at, until in found.items():
            held = self.seen.setdefault(at, [])
            first = held[-1].until if held else 0
            if until > first:
                held.append(Applied(first, until, now_ms))

    def has(self, ends: dict[At, int]) -> bool:
        """Whether everything up to these ends is visible."""
        held = {at: found[-1].until for at, found in list(self.seen.items()) if found}
        return all(held.get(at, 0) >= end for at, end in ends.items())

    def _run(self) -> None:
        while not self._stop.wait(_SECONDS):
            self.look()

"""What happens between the worker and MySQL."""

from __future__ import annotations

import time

from tests.crash.scenario import fault
from tests.crash.scene import Scene

_SILENCE = 3.0
"""Three heartbeats of the scenes' one second."""


@fault("mysql.reset", "the connection is reset, three times")
def reset(at: Scene) -> str:
    at.begin()
    for _ in range(3):
        at.pause(0.3, 1.5)
        at.mysql.reset()
    return f"went on in {at.wait_going_on():.1f} s"


@fault("mysql.cut.down", "the connection is cut behind any byte of what MySQL sends, six times")
def cut_down(at: Scene) -> str:
    at.begin()
    for _ in range(6):
        at.mysql.way("down", cut_after=at.rng.randint(1, 60_000))
        at.pause(0.3, 1.2)
    at.mysql.heal()
    return f"went on in {at.wait_going_on():.1f} s"


@fault("mysql.cut.up", "the connection is cut within what the worker says while it connects")
def cut_up(at: Scene) -> str:
    at.begin()
    for _ in range(5):
        at.mysql.way("up", cut_after=at.rng.randint(1, 700))
        at.mysql.reset()
        at.pause(0.4, 1.0)
    at.mysql.heal()
    return f"went on in {at.wait_going_on():.1f} s"


@fault("mysql.black.down", "nothing comes from MySQL any more, and nothing says so")
def black_down(at: Scene) -> str:
    at.begin()
    at.mysql.way("down", held=True)
    began = time.monotonic()
    error = at.wait_state("RETRYING", "STARTING")
    took = time.monotonic() - began
    at.pause(0.5, 2)
    at.mysql.heal()
    assert took < 4 * _SILENCE, f"seen only after {took:.1f} s"
    return f"{error or 'a new run'} in {took:.1f} s; went on in {at.wait_going_on():.1f} s"


@fault("mysql.black.up", "nothing gets to MySQL any more, a new connection's words neither")
def black_up(at: Scene) -> str:
    at.begin()
    at.mysql.way("up", held=True)
    at.mysql.reset()
    at.pause(6, 9)
    state = at.state()
    at.mysql.heal()
    at.mysql.reset()
    return f"{state} meanwhile; went on in {at.wait_going_on():.1f} s"


@fault("mysql.half-open", "MySQL's port accepts and never answers")
def half_open(at: Scene) -> str:
    at.begin()
    at.mysql.door("half_open")
    at.mysql.reset()
    at.pause(6, 9)
    state = at.state()
    at.mysql.heal()
    at.mysql.reset()
    return f"{state} meanwhile; went on in {at.wait_going_on():.1f} s"


@fault("mysql.refused", "MySQL's port is closed for some seconds")
def refused(at: Scene) -> str:
    at.begin()
    at.mysql.door("refuse")
    at.mysql.reset()
    at.wait_state("RETRYING", "STARTING")
    at.pause(2, 4)
    at.mysql.heal()
    return f"went on in {at.wait_going_on():.1f} s"


@fault("mysql.slow", "40 ms more for each piece, and 150 kB a second")
def slow(at: Scene) -> str:
    at.begin()
    before = at.mysql.seen()["accepted"]
    at.mysql.way("down", latency=0.04, bandwidth=150_000)
    at.pause(5, 7)
    at.mysql.heal()
    took, again = at.wait_going_on(), at.mysql.seen()["accepted"] - before
    assert again <= 2, f"it connected {again} times"
    return f"caught up in {took:.1f} s"


@fault("mysql.sliced", "what MySQL sends comes in pieces of 1 to 7 bytes")
def sliced(at: Scene) -> str:
    at.begin()
    at.mysql.way("down", slice=at.rng.randint(1, 7))
    at.pause(3, 4)
    at.mysql.heal()
    return f"caught up in {at.wait_going_on():.1f} s"


@fault("mysql.flip", "a byte of what MySQL sends without TLS is flipped, eight times")
def flip(at: Scene) -> str:
    at.tls = "disabled"  # TLS would see it first
    at.begin()
    seen: set[str] = set()
    for _ in range(8):
        at.mysql.way("down", flip_at=at.rng.randint(1, 20_000))
        until = time.monotonic() + 2.0
        while time.monotonic() < until:
            status = at.status()
            if status.get("error"):
                seen.add(str(status["error"]).partition(":")[0])
            time.sleep(0.05)
    at.mysql.heal()
    if at.state() == "FAILED":
        why = str(at.status()["error"]).partition(":")[0]
        at.worker.kill()
        return f"{why}; after a restart went on in {at.wait_going_on():.1f} s"
    return f"{', '.join(sorted(seen)) or 'nothing'} seen; went on in {at.wait_going_on():.1f} s"

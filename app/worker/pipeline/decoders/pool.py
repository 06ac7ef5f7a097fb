"""Decoders: a pool of processes, or the stage in the thread that puts portions.

A portion goes to the process that has the fewest; among equals, to the one that lags most. The state passes
from one process to the next.

Invariant: the number of decoders affects only speed. Whatever a decoder does, pieces are delivered once each,
in the order of the portions, and an error at its position among them. A decoder that dies ends the pool; its
error is delivered after the pieces that are finished in order by then. Pending portions are bounded by bytes
and count.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import signal
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from app.failpoints import point
from app.worker.pipeline.decoders.fork_client import FORK_SERVER, Copy, log_output
from app.worker.pipeline.decoders.messages import (
    Begin,
    Connection,
    Failed,
    Finished,
    Given,
    Numbered,
    PickledState,
    Ready,
)
from app.worker.pipeline.decoders.protocols import Decoders, Deliver, Fail, Stage, StageSpec, named
from app.worker.pipeline.portions import Effect, Portion
from connectors.errors import AqueductError, DecoderLost, DecoderStalled, MalformedEvent

log = logging.getLogger(__name__)

_JOIN_SECONDS = 1.0
_LOOKS = 15
"""Checks of the decoders within the time that a decoder may stall."""
_ENDING_SECONDS = 5.0
"""Timeout for a child to end after it has closed its socket."""
STALL_SECONDS = 15.0
"""Limit of the time without a message and without CPU use. A chunk takes less than a second of CPU time."""
_LEAST_CPU_SECONDS = 0.2
"""CPU time in that limit that counts as work: a stopped process uses none, a swapping process little."""
_LONGEST_GLANCE = 2.0
"""Seconds that count at most between two checks: longer, and the worker itself may have been frozen."""
_TICKS = os.sysconf("SC_CLK_TCK")
_TIMES = slice(11, 13)
"""User and system time, among the fields of /proc/<pid>/stat after the name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits on pending portions. Below a limit another portion is accepted, which may exceed it."""

    portions_each: int = 2
    """Portions of one decoder: one in work and the next."""
    bytes_each: int = 8 * 1024 * 1024
    portions: int = 64
    """Portions in all, including those whose pieces were not taken yet."""
    bytes: int = 32 * 1024 * 1024
    stall_seconds: float = STALL_SECONDS
    """Seconds until a decoder that has work and makes no progress is ended."""


def start(
    spec: StageSpec,
    *,
    count: int,
    state: Any,
    deliver: Deliver,
    fail: Fail,
    name: str = "",
    limits: Limits | None = None,
) -> Decoders:
    """Start ``count`` processes, or with 0 decode in the thread that puts.

    ``state`` is the state before the first portion; ``name`` appears in process titles and errors. ``deliver``
    and ``fail`` are called by one thread, in order. Raise DecoderLost if no process can be started, or with 0
    any error of ``spec.make()``.
    """
    if count == 0:
        return Inline(spec.make(), state=state, deliver=deliver, fail=fail)
    return Pool(
        spec, count=count, state=state, deliver=deliver, fail=fail, name=name, limits=limits
    )


class Inline:
    """Runs the stage in the thread that puts.

    Invariant: the pieces are the same as with any number of decoders.
    """

    def __init__(self, stage: Stage, *, state: Any, deliver: Deliver, fail: Fail) -> None:
        self._stage = stage
        self._state = state
        self._deliver = deliver
        self._fail = fail
        self._over = False
        self._learned: tuple[Effect, ...] = ()
        """The effect of the previous portion."""

    def put(self, portion: Portion) -> bool:
        """Decode and deliver."""
        if self._over:
            return False
        learned = self._learned
        self._learned = () if portion.effect is None else (portion.effect,)
        point("decode.before")
        try:
            decoded = self._stage.decode(portion, learned)
            # The only stage has announced all versions itself, so there is no news.
            self._state, _ = decoded.number(self._state, [])
            pieces = decoded.encode()
        except Exception as error:
            self.finish(named(error, portion))
            return False
        point("decode.after")
        for piece in pieces:
            if not self._deliver(piece):
                self._over = True
            elif piece.error is not None:
                self.finish(piece.error)
            if self._over:
                break
        return not self._over

    def finish(self, error: AqueductError) -> None:
        """Report why nothing more comes."""
        if not self._over:
            self._over = True
            self._fail(error)

    def idle(self) -> bool:
        """True: nothing is ever under way between two calls."""
        return True

    def close(self) -> None:
        """Take no more."""
        self._over = True


class Pool:
    """A pool of processes, which it starts at once; raises DecoderLost if that fails."""

    def __init__(
        self,
        spec: StageSpec,
        *,
        count: int,
        state: Any,
        deliver: Deliver,
        fail: Fail,
        name: str = "",
        limits: Limits | None = None,
    ) -> None:
        self._deliver, self._fail = deliver, fail
        self._limits = limits or Limits()
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._come = threading.Condition(self._lock)
        self._over = threading.Event()
        self._lost: AqueductError | None = None
        self._pending = Pending(self._limits)
        self._decoders = _started(spec, count=count, name=name)
        self._relay = Relay(self._decoders, state)
        self._threads = [
            threading.Thread(
                target=self._listen, args=(decoder,), name=decoder.process.name, daemon=True
            )
            for decoder in self._decoders
        ]
        self._threads.append(threading.Thread(target=self._run, name="decoded", daemon=True))
        self._watch = StallWatch(limit=self._limits.stall_seconds)
        self._threads.append(threading.Thread(target=self._look, name="watch", daemon=True))
        for thread in self._threads:
            thread.start()

    @property
    def pids(self) -> list[int]:
        """The process ids of the decoders."""
        return [decoder.process.pid for decoder in self._decoders]

    @property
    def under_way(self) -> tuple[int, int]:
        """Count and bytes of the portions that were put and whose pieces were not taken yet."""
        with self._lock:
            return len(self._pending), self._pending.bytes

    def put(self, portion: Portion) -> bool:
        """Give a portion to a decoder, waiting for one with room; False once the pool is closed."""
        with self._lock:
            while not self._ends() and (decoder := self._free()) is None:
                self._room.wait()
            if self._ends() or decoder is None:
                return False
            size = portion.size
            number = self._pending.put(size)
            decoder.sizes[number] = size
            learned = self._relay.give(number, decoder, portion.effect)
            turn = self._relay.turn()
        decoder.process.send(Given(number, portion, learned))
        self._send(turn)
        return True

    def finish(self, error: AqueductError) -> None:
        """End the stream; the error is delivered after all pieces."""
        with self._lock:
            self._pending.end(error)
            self._come.notify()

    def idle(self) -> bool:
        """Whether a decoder has no work and may be given a portion."""
        return self._pending.has_room and any(
            decoder.ready and not decoder.sizes for decoder in self._decoders
        )

    def close(self) -> None:
        """End all processes, from any thread. Nothing is delivered afterwards."""
        self._end()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(_JOIN_SECONDS)

    # --- giving; under the lock -----------------------------------------------------------------

    def _ends(self) -> bool:
        return self._over.is_set() or self._lost is not None or self._pending.has_end

    def _free(self) -> PooledDecoder | None:
        if not self._pending.has_room:
            return None
        free = [decoder for decoder in self._decoders if decoder.takes(self._limits)]
        # A quiet source needs only one decoder. The others get a portion now and then, so that what is kept for
        # them stays small.
        return min(free, key=lambda decoder: (len(decoder.sizes), -decoder.lag), default=None)

    # --- listening ------------------------------------------------------------------------------

    def _send(self, turn: tuple[PooledDecoder, PickledState] | None) -> None:
        if turn is not None:
            turn[0].process.send(turn[1])

    def _listen(self, decoder: PooledDecoder) -> None:
        connection = decoder.process.connection
        try:
            while True:
                message = connection.receive()
                decoder.messages_received += 1
                self._take(decoder, message)
        except EOFError:
            if not self._over.is_set():
                self._lose(decoder.process.lost())
        except Exception as error:
            log.debug("%s: cannot be understood", decoder.process.name, exc_info=True)
            self._lose(
                DecoderLost(f"{type(error).__name__}: {error}", decoder=decoder.process.name)
            )
        finally:
            connection.close()

    def _take(self, decoder: PooledDecoder, message: Any) -> None:
        if isinstance(message, Numbered):
            with self._lock:
                self._relay.numbered(decoder, message)
                turn = self._relay.turn()
            self._send(turn)
        elif isinstance(message, Finished):
            self._came(decoder, message.number, message.pieces)
        elif isinstance(message, Failed):
            log.debug("%s: %s", decoder.process.name, message.trace)
            if message.number is None:
                self._lose(message.error)
            else:
                self._came(decoder, message.number, message.error)
        elif isinstance(message, Ready):
            with self._lock:
                decoder.ready = True
                self._room.notify()

    def _came(self, decoder: PooledDecoder, number: int, outcome: Any) -> None:
        with self._lock:
            del decoder.sizes[number]
            self._pending.came(number, outcome)
            self._room.notify()
            self._come.notify()

    def _lose(self, error: AqueductError) -> None:
        with self._lock:
            self._lost = self._lost or error
            self._room.notify()
            self._come.notify()

    # --- watching -------------------------------------------------------------------------------

    def _look(self) -> None:
        """End the pool if the decoder with the portion next in order has stalled."""
        while not self._over.wait(self._limits.stall_seconds / _LOOKS):
            with self._lock:
                decoder = self._next_to_work()
                progress = decoder and (decoder.messages_received, self._pending.taken)
            if decoder is None:
                self._watch.rest()
                continue
            seconds = self._watch.stalled(decoder.process.pid, progress)
            if seconds is not None:
                self._lose(
                    DecoderStalled(
                        f"for {seconds:.0f} s",
                        decoder=decoder.process.name,
                        pid=decoder.process.pid,
                    )
                )
                return

    def _next_to_work(self) -> PooledDecoder | None:
        """Return the decoder with the portion next in order, or one that has not started; under the lock."""
        for decoder in self._decoders:
            if not decoder.ready:
                return decoder
        if self._pending.has_next:
            return None
        owners = (decoder for decoder in self._decoders if self._pending.taken in decoder.sizes)
        return next(owners, None)

    # --- delivering -----------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            error = self._deliver_all()
        except Exception as unexpected:
            log.debug("a piece could not be delivered", exc_info=True)
            error = MalformedEvent(f"{type(unexpected).__name__}: {unexpected}")
        with self._lock:
            was_over = self._over.is_set()
            self._over.set()
        if error is not None and not was_over:
            self._fail(error)
        self._end()

    def _deliver_all(self) -> AqueductError | None:
        """Deliver pieces in order; return the final error, or None if no more is wanted."""
        while True:
            outcome = self._next()
            if outcome is None or isinstance(outcome, AqueductError):
                return outcome
            for piece in outcome:
                if not self._deliver(piece):
                    return None
                if piece.error is not None:
                    return piece.error  # type: ignore[no-any-return]
            with self._lock:
                self._pending.took()
                self._room.notify()

    def _next(self) -> Any:
        """Wait for the next portion's pieces or error; None once the pool has ended."""
        with self._lock:
            while not self._over.is_set():
                if self._pending.has_next:
                    return self._pending.next()
                if self._lost is not None:
                    return self._lost
                self._come.wait()
            return None

    def _end(self) -> None:
        with self._lock:
            self._over.set()
            self._room.notify_all()
            self._come.notify_all()
        for decoder in self._decoders:
            decoder.process.kill()
        for decoder in self._decoders:
            decoder.process.wait()


def _started(spec: StageSpec, *, count: int, name: str) -> list[PooledDecoder]:
    begin = Begin(pickle.dumps(spec, protocol=5))
    decoders: list[PooledDecoder] = []
    try:
        for number in range(1, count + 1):
            process = DecoderProcess(f"{name} decoder {number}/{count}".strip())
            decoders.append(PooledDecoder(process))
            process.send(begin)
    except BaseException:
        for decoder in decoders:
            decoder.process.kill()
            decoder.process.wait()
            decoder.process.connection.close()
        raise
    return decoders


class Pending:
    """Portions that were put and whose pieces are not all taken yet.

    Invariant: outcomes are taken once each, in the order in which portions were put; pending portions are
    bounded by bytes and count. Nothing here locks: the pool does.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._sizes: dict[int, int] = {}
        self._outcomes: dict[int, Any] = {}
        """Pieces and errors by the number of their portion."""
        self._put = 0
        self.taken = 0
        """Count of portions taken, which is the number of the next one in order."""
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._sizes)

    @property
    def has_room(self) -> bool:
        """Whether another portion may be put."""
        return self.bytes < self._limits.bytes and len(self._sizes) < self._limits.portions

    @property
    def has_end(self) -> bool:
        """Whether the reader has reported its end; then nothing more is put."""
        return self._put in self._outcomes

    @property
    def has_next(self) -> bool:
        """Whether the outcome next in order is present."""
        return self.taken in self._outcomes

    def put(self, size: int) -> int:
        """Add a portion and return its number."""
        number = self._put
        self._put += 1
        self._sizes[number] = size
        self.bytes += size
        return number

    def end(self, error: AqueductError) -> None:
        """Add the error that ends the stream, after all outcomes."""
        self._outcomes.setdefault(self._put, error)

    def came(self, number: int, outcome: Any) -> None:
        """Add the pieces, or the error, of a portion."""
        # An error replaces the end that the reader reported; what follows it is ignored.
        self._outcomes[number] = outcome

    def next(self) -> Any:
        """Remove and return the outcome next in order; requires ``has_next``."""
        return self._outcomes.pop(self.taken)

    def took(self) -> None:
        """Note that all pieces of the next portion were taken."""
        self.bytes -= self._sizes.pop(self.taken)
        self.taken += 1


class PooledDecoder:
    """A decoder as the pool knows it."""

    def __init__(self, process: DecoderProcess) -> None:
        self.process = process
        self.ready = False
        self.sizes: dict[int, int] = {}
        """Sizes of its unfinished portions, by number."""
        self.news: list[bytes] = []
        """News of other decoders since its last turn."""
        self.learned: list[Effect] = []
        """The effects of portions that it does not know yet."""
        self.messages_received = 0
        """Count of messages received from it."""

    @property
    def lag(self) -> int:
        """Count of news and effects that it does not know yet."""
        return len(self.news) + len(self.learned)

    def takes(self, limits: Limits) -> bool:
        """Whether it may be given another portion."""
        return (
            self.ready
            and len(self.sizes) < limits.portions_each
            and sum(self.sizes.values()) < limits.bytes_each
        )


class Relay:
    """Passes state, news and effects between decoders.

    Invariant: one decoder at a time has the state, in the order of the portions; each decoder gets each
    effect before a later portion, and all news with its next turn. Nothing here locks: the pool does.
    """

    def __init__(self, decoders: list[PooledDecoder], state: Any) -> None:
        self._decoders = decoders
        self._owners: dict[int, PooledDecoder] = {}
        """The decoder of each portion, until it has the state."""
        self._state: tuple[int, bytes] | None = (0, pickle.dumps(state, protocol=5))
        """The number of the next portion and the state before it."""

    def give(
        self, number: int, decoder: PooledDecoder, effect: Effect | None
    ) -> tuple[Effect, ...]:
        """Record the decoder of a portion, and its effect; return earlier effects that the decoder lacks."""
        self._owners[number] = decoder
        learned, decoder.learned = tuple(decoder.learned), []
        if effect is not None:
            for each in self._decoders:
                each.learned.append(effect)
        return learned

    def numbered(self, decoder: PooledDecoder, message: Numbered) -> None:
        """Take back the state, and keep the news for the other decoders."""
        if message.news is not None:
            for other in self._decoders:
                if other is not decoder:
                    other.news.append(message.news)
        self._state = (message.number + 1, message.state)

    def turn(self) -> tuple[PooledDecoder, PickledState] | None:
        """Return the next decoder and the state for it, once both are known."""
        if self._state is None or self._state[0] not in self._owners:
            return None
        (number, state), self._state = self._state, None
        owner = self._owners.pop(number)
        news, owner.news = owner.news, []
        return owner, PickledState(number, state, news)


class DecoderProcess:
    """A child and the connection to it. Raises DecoderLost if no process can be started.

    Invariant: a child has its own end of its own socket, and no other socket of this process. It is ended by
    killing it, since it holds nothing that must survive.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        try:
            own_end, output, self._copy = _fork(name)
        except OSError as error:
            raise DecoderLost(f"no process could be started: {error}", decoder=name) from error
        self.connection = Connection(own_end)
        self._talk = threading.Thread(
            target=log_output, args=(output, name), name=f"{name} says", daemon=True
        )
        self._talk.start()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._copy.pid

    def send(self, message: Any) -> None:
        """Send a message; the listening thread detects a lost child."""
        try:
            self.connection.send(message)
        except OSError:
            log.debug("%s is gone", self.name)

    def lost(self) -> DecoderLost:
        """Return why the child ended, once it has closed its socket."""
        status = self._copy.status(within=_ENDING_SECONDS)
        if status is None:
            return DecoderLost("closed its socket", decoder=self.name, pid=self.pid)
        ended = f"status {status}" if status >= 0 else _signal_name(-status)
        return DecoderLost(f"ended by {ended}", decoder=self.name, pid=self.pid)

    def kill(self) -> None:
        """Kill the child, from any thread; a blocked send or receive returns."""
        # If the child cannot be killed at once, shutting the socket down ends it, busy or not.
        self.connection.shut()
        self._copy.kill()

    def wait(self) -> None:
        """Wait, after ``kill``, until the child has ended."""
        self._copy.killed(within=_ENDING_SECONDS)
        self._talk.join(_ENDING_SECONDS)


def _fork(name: str) -> tuple[socket.socket, IO[bytes], Copy]:
    """Fork a child; return our end of its socket, its output and its handle. An OSError leaves nothing open."""
    with contextlib.ExitStack() as stack:
        own_end, child_end = socket.socketpair()
        stack.callback(own_end.close)
        with child_end:
            reading, writing = os.pipe()
            output = os.fdopen(reading, "rb")
            stack.callback(output.close)
            with os.fdopen(writing, "wb"):
                copy = FORK_SERVER.fork(name, (child_end.fileno(), writing))
        stack.pop_all()
    return own_end, output, copy


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def cpu_seconds(pid: int) -> float | None:
    """Return the CPU time of a process; None where the system does not report it."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[_TIMES])) / _TICKS
    except (OSError, ValueError):
        return None


@dataclass(slots=True)
class StallWatch:
    """Detects a decoder that has work and makes no progress, such as a frozen or swapped process.

    Invariant: only a decoder that has not started, or the decoder whose piece is next in order, is checked: all
    others may be waiting for it. A decoder that uses CPU is working, however long it takes. Time in which the
    decoder itself was frozen does not count.
    """

    limit: float = STALL_SECONDS
    clock: Callable[[], float] = time.monotonic
    cpu: Callable[[int], float | None] = cpu_seconds
    _subject: tuple[int, object] | None = None
    _still: float = 0.0
    """Seconds for which the subject made no progress."""
    _looked: float = field(default=0.0)
    _used: float | None = None
    """The CPU time of the subject at its last progress."""

    def stalled(self, pid: int, progress: object) -> float | None:
        """Return the seconds without progress from ``limit`` on; ``progress`` changes with each message."""
        now, used = self.clock(), self.cpu(pid)
        if self._subject != (pid, progress) or self._works(used):
            self._subject, self._still, self._used = (pid, progress), 0.0, used
        else:
            self._still += min(now - self._looked, _LONGEST_GLANCE)
        self._looked = now
        return self._still if self._still >= self.limit else None

    def _works(self, used: float | None) -> bool:
        if used is None or self._used is None:
            return False
        return used - self._used >= _LEAST_CPU_SECONDS

    def rest(self) -> None:
        """Reset: no decoder has work."""
        self._subject = None

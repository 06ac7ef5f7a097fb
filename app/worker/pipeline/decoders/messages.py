"""Messages between a worker and its decoders, over a socket.

Invariant: a message is read whole or not at all. A frame is a header (the payload's length, the number of large
objects), the length of each large object, the payload (pickle protocol 5), then the objects unchanged: a large
object goes from the sender's memory to the socket and into the receiver's without a copy.
"""

from __future__ import annotations

import io
import pickle
import socket
import struct
import threading
from contextlib import suppress
from typing import Any, NamedTuple, cast

from app.worker.pipeline.portions import Effect, Portion
from connectors.errors import AqueductError

_HEADER = struct.Struct("<QI")
_LENGTH = struct.Struct("<q")
_LARGE = 4 * 1024
"""Bytes from which an object is sent after the payload instead of in it."""
_READ_AHEAD = 32 * 1024
"""Bytes read at once, so that a small message takes one system call and one turn of the GIL."""
_SOCKET_BYTES = 1024 * 1024
_MOST_PARTS = 1024
"""The most parts that one system call takes (IOV_MAX)."""


class Begin(NamedTuple):
    """To a decoder, as the first message: its pickled ``StageSpec``."""

    spec: bytes


class Given(NamedTuple):
    """To a decoder: a portion and its number in stream order."""

    number: int
    portion: Portion
    learned: tuple[Effect, ...]
    """The effects of earlier portions that the decoder does not know yet."""


class PickledState(NamedTuple):
    """To a decoder: the pickled state before a portion that it has or is about to get."""

    number: int
    state: bytes
    news: list[bytes]
    """Pickled lists, in order."""


class Ready(NamedTuple):
    """From a decoder: its stage is made."""


class Numbered(NamedTuple):
    """From a decoder: the pickled state after a portion, and the portion's news, if any."""

    number: int
    state: bytes
    news: bytes | None


class Working(NamedTuple):
    """From a decoder: it is at work, and waits for another program, such as the schema registry."""


class Finished(NamedTuple):
    """From a decoder: a portion's pieces, in their order."""

    number: int
    pieces: list[Any]


class Failed(NamedTuple):
    """From a decoder: the error of a portion or, without a number, of making the stage."""

    number: int | None
    error: AqueductError
    trace: str
    """For the debug log."""


class Connection:
    """One end of the socket; any thread may send, one thread receives."""

    def __init__(self, end: socket.socket) -> None:
        # A whole portion fits, as far as the system allows, so that its sender need not wait.
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BYTES)
        self._socket = end
        self._reader = cast("io.BufferedReader", end.makefile("rb", buffering=_READ_AHEAD))
        self._sending = threading.Lock()

    def send(self, message: Any) -> None:
        """Send a message, waiting for room in the socket. Raise OSError if the other end is gone.

        A message that cannot be pickled raises before anything is sent.
        """
        payload = io.BytesIO()
        pickler = _Pickler(payload)
        pickler.dump(message)
        lengths = [_signed(large) for large in pickler.large]
        head = _HEADER.pack(payload.tell(), len(lengths)) + b"".join(map(_LENGTH.pack, lengths))
        parts = [head + payload.getvalue(), *pickler.large]
        with self._sending:
            for first in range(0, len(parts), _MOST_PARTS):
                self._send(parts[first : first + _MOST_PARTS])

    def _send(self, parts: list[bytes | bytearray]) -> None:
        """Send all parts at once if the socket has room, else the rest one by one."""
        sent = self._socket.sendmsg(parts)
        for part in parts:
            if sent < len(part):
                self._socket.sendall(memoryview(part)[sent:])
            sent = max(0, sent - len(part))

    def receive(self) -> Any:
        """Return the next message; raise EOFError if the other end is gone."""
        try:
            size, count = _HEADER.unpack(self._read(_HEADER.size))
            lengths = [_LENGTH.unpack(self._read(_LENGTH.size))[0] for _ in range(count)]
            payload = self._read(size)
            large = [self._object(length) for length in lengths]
        except OSError as error:
            raise EOFError from error
        return _Unpickler(io.BytesIO(payload), large).load()

    def shut(self) -> None:
        """Shut the socket down, from any thread; a blocked send or receive at either end returns at once."""
        with suppress(OSError):  # the other end was first
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the socket, from the receiving thread when it is done."""
        self._reader.close()
        self._socket.close()

    def _object(self, length: int) -> bytes | bytearray:
        if length > 0:
            return self._read(length)
        array = bytearray(-length)
        if self._reader.readinto(array) < len(array):
            raise EOFError
        return array

    def _read(self, size: int) -> bytes:
        data = self._reader.read(size)
        if len(data) < size:
            raise EOFError
        return data


def _signed(large: bytes | bytearray) -> int:
    """Return the length; negative for a bytearray, so that the receiver restores the type."""
    return len(large) if type(large) is bytes else -len(large)


class _Pickler(pickle.Pickler):
    """Leaves large objects out of the payload."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=5)
        self.large: list[bytes | bytearray] = []

    def persistent_id(self, value: Any) -> int | None:
        if (type(value) is bytes or type(value) is bytearray) and len(value) >= _LARGE:
            self.large.append(value)
            return len(self.large) - 1
        return None


class _Unpickler(pickle.Unpickler):
    """Puts large objects back."""

    def __init__(self, file: io.BytesIO, large: list[bytes | bytearray]) -> None:
        super().__init__(file)
        self._large = large

    def persistent_load(self, index: int) -> bytes | bytearray:
        return self._large[index]

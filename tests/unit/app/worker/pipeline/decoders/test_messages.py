"""Messages over a socket: whole or not at all, large objects beside the rest."""

import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from app.worker.pipeline.decoders.messages import Connection, Finished
from tests.unit.app.worker.pipeline.decoders.runs import DEADLINE

Ends = tuple[Connection, socket.socket, Connection]


@pytest.fixture
def ends() -> Iterator[Ends]:
    """A connection, the bare socket below it, and the other end."""
    left, right = socket.socketpair()
    here, there = Connection(left), Connection(right)
    yield here, left, there
    here.close()
    there.close()


def received(sender: Connection, receiver: Connection, messages: list[Any]) -> list[Any]:
    def send_all() -> None:
        for message in messages:
            sender.send(message)

    thread = threading.Thread(target=send_all)
    thread.start()
    found = [receiver.receive() for _ in messages]
    thread.join()
    return found


def test_messages_come_as_they_were_sent(ends: Ends) -> None:
    sizes = [0, 1, 4095, 4096, 32_768, 300_000, 3_000_000]
    messages = [
        Finished(size, [bytes([size % 251]) * size, bytearray(size), {"x": [size]}])
        for size in sizes
    ]
    found = received(ends[0], ends[2], [*messages, *messages])
    assert found == [*messages, *messages]
    assert {type(message.pieces[0]) for message in found} == {bytes}
    assert {type(message.pieces[1]) for message in found} == {bytearray}


def test_a_message_that_the_socket_takes_in_parts_comes_whole(ends: Ends) -> None:
    # With a time limit the system takes what it has room for, and says how much that was.
    ends[1].settimeout(DEADLINE)
    message = [bytes([number]) * (5000 + 400_000 * (number % 3)) for number in range(30)]
    assert received(ends[0], ends[2], [message, message]) == [message, message]


def test_what_cannot_be_pickled_raises_and_leaves_the_connection_whole(ends: Ends) -> None:
    with pytest.raises(Exception, match="pickle"):
        ends[0].send((bytes(100_000), lambda: None))
    assert received(ends[0], ends[2], ["next"]) == ["next"]


@pytest.mark.parametrize("length", [0, 5, 12, 15, 50_000])
def test_half_a_message_is_none(ends: Ends, length: int) -> None:
    left, right = socket.socketpair()
    whole = Connection(left)
    thread = threading.Thread(target=whole.send, args=(bytes(100_000),))
    thread.start()
    frame = right.recv(100_000, socket.MSG_WAITALL)
    right.close()
    thread.join()
    whole.close()
    assert struct.unpack_from("<QI", frame)[1] == 1
    ends[1].sendall(frame[:length])
    ends[0].shut()
    with pytest.raises(EOFError):
        ends[2].receive()


def test_sender_and_receiver_continue_when_the_connection_is_shut(ends: Ends) -> None:
    ended: list[type] = []

    def described(act: Any, *arguments: Any) -> None:
        try:
            act(*arguments)
        except (OSError, EOFError) as error:
            ended.append(type(error))

    threads = [
        threading.Thread(target=described, args=(ends[0].send, bytes(50_000_000))),
        threading.Thread(target=described, args=(ends[0].receive,)),
    ]
    for thread in threads:
        thread.start()
    ends[0].shut()
    for thread in threads:
        thread.join(60)
    assert len(ended) == 2


def test_more_large_objects_than_one_system_call_takes_come_as_they_were_sent(ends: Ends) -> None:
    message = [bytes([number % 251]) * 5000 for number in range(2500)]
    assert received(ends[0], ends[2], [message, message]) == [message, message]

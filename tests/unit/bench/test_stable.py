import struct

import pytest

from bench.errors import BenchError
from bench.stable import _request, _sum


def answer(*partitions: tuple[int, int]) -> bytes:
    """The broker's answer for one topic: (error, offset) of each partition."""
    body = struct.pack(">iii", 1, 0, 1) + struct.pack(">h", 1) + b"t"
    body += struct.pack(">i", len(partitions))
    for number, (error, offset) in enumerate(partitions):
        body += struct.pack(">ihqq", number, error, -1, offset)
    return body


def test_the_offsets_of_all_partitions_are_added() -> None:
    assert _sum(answer((0, 5), (0, 7))) == 12


def test_a_topic_that_does_not_exist_yet_is_empty() -> None:
    assert _sum(answer((3, -1), (0, 7))) == 7


def test_any_other_error_is_reported() -> None:
    with pytest.raises(BenchError, match="error 29 for partition 0"):
        _sum(answer((29, -1)))


def test_committed_records_alone_are_asked_for() -> None:
    request = _request({"t": 2})
    (size,) = struct.unpack_from(">i", request)
    assert size == len(request) - 4
    assert struct.unpack_from(">hh", request, 4) == (2, 2)
    assert request[4 + 10 + 4] == 1  # isolation level, after the header and the replica's id

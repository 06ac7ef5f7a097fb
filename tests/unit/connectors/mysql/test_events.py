"""Events that are damaged, unknown, or known and not carried: none is passed by in silence."""

import struct
import zlib
from collections.abc import Iterator

import pytest
import zstandard

from connectors.errors import AqueductError, CorruptEvent, IncidentInBinlog, UnsupportedEvent
from connectors.mysql.charsets import Charsets
from connectors.mysql.events import Event, EventType, parse_event, payload_events
from connectors.mysql.position import Coordinates
from connectors.mysql.stream import PlacedEvent
from connectors.mysql.transactions import TransactionReader

HEADER = struct.Struct("<IBIIIH")
IN_USE, IGNORABLE = 0x01, 0x80


def raw(kind: int, body: bytes = b"", *, flags: int = 0, checksum: bool = False) -> bytes:
    size = HEADER.size + len(body) + (4 if checksum else 0)
    data = HEADER.pack(1, kind, 1, size, 200, flags) + body
    return data + struct.pack("<I", zlib.crc32(data)) if checksum else data


def stopped_by(event: Event) -> AqueductError | None:
    place = Coordinates("binlog.000001", 100)
    reader = TransactionReader("uuid", Charsets({}, {}))

    def events() -> Iterator[PlacedEvent]:
        yield PlacedEvent(event, place, Coordinates("binlog.000001", 200))

    try:
        list(reader.steps(events()))
    except AqueductError as error:
        return error
    return None


def test_an_event_with_its_checksum_is_read() -> None:
    event = parse_event(raw(EventType.XID, b"12345678", checksum=True), checksum=True)
    assert (event.type, event.body) == (EventType.XID, b"12345678")


@pytest.mark.parametrize("at", range(23))
def test_a_damaged_byte_is_noticed_wherever_it_is(at: int) -> None:
    data = bytearray(raw(EventType.XID, b"1234", checksum=True))
    data[at] ^= 0x01
    with pytest.raises(CorruptEvent):
        parse_event(bytes(data), checksum=True)


@pytest.mark.parametrize("size", [0, 18, 30])
def test_an_event_that_was_cut_is_noticed(size: int) -> None:
    with pytest.raises(CorruptEvent):
        parse_event(raw(EventType.XID, b"12345678", checksum=True)[:size], checksum=True)


def test_only_the_first_event_of_a_file_may_be_flagged_in_use_after_its_checksum() -> None:
    for kind, passes in ((EventType.FORMAT_DESCRIPTION, True), (EventType.XID, False)):
        data = bytearray(raw(kind, b"12345678", checksum=True))
        data[17] |= IN_USE
        if passes:
            assert parse_event(bytes(data), checksum=True).type == kind
        else:
            with pytest.raises(CorruptEvent):
                parse_event(bytes(data), checksum=True)


def test_an_unknown_event_stops_the_stream_unless_the_server_calls_it_ignorable() -> None:
    error = stopped_by(parse_event(raw(99), checksum=False))
    assert isinstance(error, UnsupportedEvent)
    assert "type 99" in str(error)
    assert "binlog.000001:100" in str(error)
    assert stopped_by(parse_event(raw(99, flags=IGNORABLE), checksum=False)) is None


def test_a_known_event_that_is_not_carried_stops_the_stream_even_if_it_is_called_ignorable() -> (
    None
):
    for kind in (EventType.XA_PREPARE, EventType.GTID_TAGGED):
        error = stopped_by(parse_event(raw(kind, flags=IGNORABLE), checksum=False))
        assert isinstance(error, UnsupportedEvent)


def test_an_incident_stops_the_stream_with_the_servers_words() -> None:
    error = stopped_by(parse_event(raw(EventType.INCIDENT, b"\1\0\4LOST"), checksum=False))
    assert isinstance(error, IncidentInBinlog)
    assert "LOST" in str(error)


def test_rows_of_a_table_that_nothing_described_stop_the_stream() -> None:
    body = (77).to_bytes(6, "little") + b"\0\0\2\0\1\xff"
    error = stopped_by(parse_event(raw(EventType.WRITE_ROWS, body), checksum=False))
    assert error is not None
    assert "table id 77" in str(error)


def payload(content: bytes, *, size: int, algorithm: int = 0) -> Event:
    fields = b"\1\3\xfc" + struct.pack("<H", len(content)) + b"\2\1" + bytes([algorithm])
    fields += b"\3\3\xfc" + struct.pack("<H", size) + b"\0"
    return Event(1, EventType.TRANSACTION_PAYLOAD, 1, 200, 0, 0, fields + content)


def test_a_compressed_payload_gives_the_events_within() -> None:
    inner = raw(EventType.XID, b"12345678") * 3
    found = payload_events(payload(zstandard.compress(inner), size=len(inner)))
    assert found == [raw(EventType.XID, b"12345678")] * 3


def test_a_payload_of_another_size_than_announced_is_refused_and_not_cut() -> None:
    inner = raw(EventType.XID, b"12345678")
    two_frames = zstandard.compress(inner) + zstandard.compress(inner)
    with pytest.raises(CorruptEvent, match="were announced"):
        payload_events(payload(two_frames, size=2 * len(inner)))
    with pytest.raises(CorruptEvent, match="were announced"):
        payload_events(payload(zstandard.compress(inner * 2), size=len(inner)))

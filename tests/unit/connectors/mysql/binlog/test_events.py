"""Events that are damaged, unknown, or known and not carried: none is silently skipped."""

import pytest
import zstandard

from connectors.errors import (
    AqueductError,
    CorruptEvent,
    IncidentInBinlog,
    MalformedEvent,
    UnsupportedEvent,
)
from connectors.mysql.binlog.events import (
    EventType,
    Query,
    parse_event,
    parse_query,
    payload_events,
)
from connectors.mysql.charsets import Charsets
from connectors.mysql.transaction_reader import TransactionReader
from tests.made import (
    HEADER,
    SERVER,
    START,
    anonymous,
    chunk_of,
    event,
    gtid,
    payload_body,
    placed,
    query,
    xid,
)
from tests.steps import Recorded

IN_USE, IGNORABLE = 0x01, 0x80


def raw(kind: int, body: bytes = b"") -> bytes:
    """An event with its checksum."""
    return placed(event(kind, body), 100, checksum=True)


def stopped_by(*events: bytes) -> AqueductError | None:
    try:
        TransactionReader(SERVER, Charsets({}, {})).read(chunk_of(*events), Recorded())
    except AqueductError as error:
        return error
    return None


def test_an_event_with_its_checksum_is_read() -> None:
    found = parse_event(raw(EventType.XID, b"12345678"), checksum=True)
    assert (found.type, found.body) == (EventType.XID, b"12345678")


@pytest.mark.parametrize("at", range(23))
def test_a_damaged_byte_is_noticed_wherever_it_is(at: int) -> None:
    data = bytearray(raw(EventType.XID, b"1234"))
    data[at] ^= 0x01
    with pytest.raises(CorruptEvent):
        parse_event(bytes(data), checksum=True)


@pytest.mark.parametrize("size", [0, 18, 30])
def test_an_event_that_was_cut_is_noticed(size: int) -> None:
    with pytest.raises(CorruptEvent):
        parse_event(raw(EventType.XID, b"12345678")[:size], checksum=True)


def test_only_the_first_event_of_a_file_may_be_flagged_in_use_after_its_checksum() -> None:
    for kind, passes in ((EventType.FORMAT_DESCRIPTION, True), (EventType.XID, False)):
        data = bytearray(raw(kind, b"12345678"))
        data[HEADER.size - 2] |= IN_USE
        if passes:
            assert parse_event(bytes(data), checksum=True).type == kind
        else:
            with pytest.raises(CorruptEvent):
                parse_event(bytes(data), checksum=True)


def test_an_unknown_event_stops_the_stream_unless_the_server_calls_it_ignorable() -> None:
    error = stopped_by(event(99))
    assert isinstance(error, UnsupportedEvent)
    assert "type 99" in str(error)
    assert "b.000001:100" in str(error)
    assert stopped_by(event(99, flags=IGNORABLE)) is None


def test_a_known_event_that_is_not_carried_stops_the_stream_even_if_it_is_called_ignorable() -> (
    None
):
    for kind in (EventType.FORMAT_DESCRIPTION, EventType.ROTATE):
        assert isinstance(stopped_by(event(kind, flags=IGNORABLE)), UnsupportedEvent)


def test_an_incident_stops_the_stream_with_the_servers_words() -> None:
    error = stopped_by(event(EventType.INCIDENT, b"\1\0\4LOST"))
    assert isinstance(error, IncidentInBinlog)
    assert "LOST" in str(error)


@pytest.mark.parametrize(
    ("first", "name"),
    [(gtid(7), f"gtid={SERVER}:7"), (anonymous(), f"transaction_at={START}"), (b"", "ends_at=")],
)
def test_what_stops_the_stream_before_a_begin_has_the_name_by_which_it_is_skipped(
    first: bytes, name: str
) -> None:
    incident = event(EventType.INCIDENT, b"\1\0\4LOST")
    assert name in str(stopped_by(*filter(None, [first, incident])))


def test_rows_of_a_table_that_nothing_described_stop_the_stream() -> None:
    body = (77).to_bytes(6, "little") + b"\0\0\2\0\1\xff"
    error = stopped_by(event(EventType.WRITE_ROWS, body))
    assert isinstance(error, MalformedEvent)
    assert "table id 77" in str(error)


def test_a_statements_text_is_in_the_character_set_of_the_client_that_sent_it() -> None:
    # Code 1 is the SQL mode, code 4 the client's collation, the connection's and the server's.
    status = b"\1" + (32).to_bytes(8, "little") + b"\4" + bytes([8, 0, 45, 0, 45, 0])
    body = query("SELECT 'é'", thread=9, status=status)[HEADER.size :]
    latin1 = body.replace("é".encode(), b"\xe9")
    charsets = Charsets({8: "latin1"}, {"latin1": 1})
    meant = Query(
        thread=9, database="shop", sql="SELECT 'é'", sql_mode=32, error_code=0, status=status
    )
    assert parse_query(latin1, charsets) == meant


@pytest.mark.parametrize(
    ("charset", "raw", "sql"),
    [
        ("sjis", b"SELECT '\x95\x5c'", "SELECT '\u8868'"),
        ("swe7", b"TRUNCATE TABLE `a b`", "TRUNCATE TABLE `a b`"),
    ],
)
def test_a_statement_is_in_its_clients_character_set_and_its_marks_stay_marks(
    charset: str, raw: bytes, sql: str
) -> None:
    status = b"\4" + bytes([8, 0, 8, 0, 8, 0])
    body = query("", status=status)[HEADER.size :] + raw
    assert parse_query(body, Charsets({8: charset}, {})).sql == sql


def test_a_compressed_payload_gives_the_events_within() -> None:
    inner = xid() * 3
    assert payload_events(payload_body(zstandard.compress(inner), size=len(inner))) == inner
    assert payload_events(payload_body(inner, size=len(inner), algorithm=255)) == inner


def test_a_payload_of_another_size_than_announced_is_refused_and_not_cut() -> None:
    inner = xid()
    two_frames = zstandard.compress(inner) + zstandard.compress(inner)
    with pytest.raises(CorruptEvent, match="were announced"):
        payload_events(payload_body(two_frames, size=2 * len(inner)))
    with pytest.raises(CorruptEvent, match="were announced"):
        payload_events(payload_body(zstandard.compress(inner * 2), size=len(inner)))


def test_a_payload_that_cannot_be_decompressed_is_refused() -> None:
    with pytest.raises(CorruptEvent, match="cannot be read"):
        payload_events(payload_body(b"nothing of zstd", size=15))
    with pytest.raises(CorruptEvent, match="unknown algorithm"):
        payload_events(payload_body(b"", size=0, algorithm=7))

"""Tagged GTIDs as a server wrote them, and the integers they are written with."""

from __future__ import annotations

import pytest

from connectors.errors import UnsupportedEvent
from connectors.mysql.binlog.gtid_events import integer, parse_gtid_tagged, signed

# Written by MySQL 9.7.
BODY = bytes.fromhex(
    "0270000000020891031502c69503010222c5030d024a04f103000000020404060674616708080a0c0c7f3e809abb"
    "c460061089041283120b"
)
SOURCE = "04e48563-e580-11f1-8325-02fc00000001"


def test_a_servers_event_is_read() -> None:
    assert parse_gtid_tagged(BODY) == (SOURCE, "tag", 1, 1795247937585214)


def test_the_readmes_examples() -> None:
    assert integer(bytes([0b11111011, 0b11111111, 0b00000111]), 0)[0] == 65535
    assert signed(bytes([0b11110011, 0b11111111, 0b00001111]), 0)[0] == 65535
    assert signed(bytes([0b11111011, 0b11111111, 0b00001111]), 0)[0] == -65536


def test_a_field_that_must_be_known_and_is_not_stops() -> None:
    with pytest.raises(UnsupportedEvent, match="field 12"):
        parse_gtid_tagged(BODY[:2] + bytes([12 << 1]) + BODY[3:])


@pytest.mark.parametrize("body", [BODY[:-1], BODY + b"\0", BODY[:1] + b"\x06" + b"\0"])
def test_an_event_of_another_length_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match="it"):
        parse_gtid_tagged(body)

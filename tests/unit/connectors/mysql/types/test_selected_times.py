"""Dates and times in packets are read back as the same."""

import pytest

from connectors.errors import SnapshotUnsupported
from tests.unit.connectors.mysql.select.tables import value


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("date", b"0000-00-00", "0000-00-00"),
        ("date", b"9999-12-31", "9999-12-31"),
        ("date", b"2023-02-31", "2023-02-31"),
        ("datetime", b"0000-00-00 00:00:00", "0000-00-00 00:00:00"),
        ("datetime", b"2026-00-07 01:02:03", "2026-00-07 01:02:03"),
        ("datetime(1)", b"2026-11-27 10:11:12.9", "2026-11-27T10:11:12.9"),
        ("datetime(2)", b"2026-11-27 10:11:12.09", "2026-11-27T10:11:12.09"),
        ("datetime(3)", b"2026-11-27 10:11:12.001", "2026-11-27T10:11:12.001"),
        ("datetime(6)", b"9999-12-31 23:59:59.999999", "9999-12-31T23:59:59.999999"),
        ("timestamp", b"0000-00-00 00:00:00", "0000-00-00 00:00:00"),
        ("timestamp(3)", b"0000-00-00 00:00:00.000", "0000-00-00 00:00:00.000"),
        ("timestamp", b"1970-01-01 00:00:01", "1970-01-01T00:00:01Z"),
        ("timestamp(5)", b"2038-01-19 03:14:07.99999", "2038-01-19T03:14:07.99999Z"),
        ("timestamp", b"2106-02-07 06:28:15", "2106-02-07T06:28:15Z"),
        ("time", b"-838:59:59", "-838:59:59"),
        ("time", b"00:00:00", "00:00:00"),
        ("time(1)", b"-00:00:00.5", "-00:00:00.5"),
        ("time(4)", b"-00:00:00.0001", "-00:00:00.0001"),
        ("time(6)", b"100:00:00.000001", "100:00:00.000001"),
        ("time(6) /* mariadb-5.3 */", b"-12:34:56.999999", "-12:34:56.999999"),
    ],
)
def test_a_time_is_read_back(kind: str, text: bytes, expected: str) -> None:
    assert value(kind, text) == expected


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("date", b"2026-11-27 10:00:00"),
        ("date", b"2026-13-27"),
        ("datetime", b"2026-11-32 10:00:00"),
        ("datetime", b"2026-11-27 24:00:00"),
        ("datetime", b"2026-11-27 10:11:12.5"),
        ("datetime(1)", b"2026-11-27 10:11:12.51"),
        ("datetime(3)", b"2026-11-27 10:11:12.5001"),
        ("datetime", b"2026-11-27 10:60:12"),
        ("timestamp", b"1969-12-31 23:59:59"),
        ("timestamp", b"2106-02-07 07:00:00"),
        ("timestamp", b"0000-01-00 00:00:00"),
        ("timestamp", b"2026-00-01 00:00:00"),
        ("time", b"10:11:12.5"),
        ("time(2)", b"10:11:12.123"),
        ("time", b"839:00:00"),
        ("time", b"10:60:00"),
    ],
)
def test_a_time_in_another_form_is_refused(kind: str, text: bytes) -> None:
    with pytest.raises(SnapshotUnsupported, match="column 'c'"):
        value(kind, text)

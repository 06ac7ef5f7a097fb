"""JSON documents from text are read back as the same text."""

import pytest

from connectors.errors import SnapshotUnsupported
from connectors.mysql.rows.values.json_binary import LARGE_ARRAY, LARGE_OBJECT, document_text
from connectors.mysql.snapshot.encoders.json_document import encoder
from tests.unit.connectors.mysql.snapshot.tables import value

LONG = "x" * 70_000


@pytest.mark.parametrize(
    "text",
    [
        "null", "true", "false", "0", "-1", "65535", "-32769", "4294967295", "-2147483649",
        "18446744073709551615", "-9223372036854775808", "1.0", "-0.0", "1e20", "5e-324", '""', "{}", "[]",
        '"\\u0001\\b\\f\\n\\r\\t\\\\\\" / é 😀"', '{"": 1, "a": {"b": [1, 2.5, null, true]}}',
        # Decimals, which no DOUBLE has the digits of.
        "12.50", "-0.0001", "0.00", "-0.00", "99999999999999999999", "123456789012345678.12345678901234567890",
        "[0.1, 0.10, 0.100, 1.0, 1.00]",
        # Dates, times and bytes are strings in their text.
        '["2026-11-27", "10:15:00.000000", "base64:type15:AAEC"]',
        # Never written by a server, and kept all the same.
        '{"a": 1, "a": 2, "b": {"a": 1, "a": 2}}', '{"bb": 1, "a": 2}',
    ],
)  # fmt: skip
def test_a_document_is_read_back(text: str) -> None:
    assert document_text(encoder()(text.encode())) == text
    assert value("json", text.encode()) == text


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (f'["{LONG}", 1, 70000, -70000, 5000000000, null]', LARGE_ARRAY),
        (f'{{"a": "{LONG}", "b": 70000, "c": {{"d": [-1, 2.5]}}}}', LARGE_OBJECT),
        (f"[{', '.join(map(str, range(30_000)))}]", LARGE_ARRAY),
        (
            f"{{{', '.join(f'{chr(34)}k{n:05d}{chr(34)}: {n}' for n in range(9_000))}}}",
            LARGE_OBJECT,
        ),
    ],
)
def test_a_document_above_64_kib_is_large(text: str, kind: int) -> None:
    raw = encoder()(text.encode())
    assert raw[0] == kind
    assert document_text(raw) == text


def test_a_small_container_ends_at_its_last_offset() -> None:
    # A head of 4 bytes, an entry of 3, and 3 bytes of the string's length.
    fitting, larger = (f'["{"x" * size}"]' for size in (0xFFFF - 10, 0xFFFF - 9))
    assert encoder()(fitting.encode())[0] == 2
    assert encoder()(larger.encode())[0] == LARGE_ARRAY
    assert document_text(encoder()(larger.encode())) == larger


def test_a_large_document_of_a_hundred_levels_takes_no_longer_than_its_bytes() -> None:
    text = '{"a": ' * 99 + f'"{LONG}"' + "}" * 99
    assert document_text(encoder()(text.encode())) == text


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1}', "[1,2]", '"\\u00e9"', '"\\/"', " 1", "1e2", "1.0e20", "00", "NaN", "", "[", '"\\ud800"',
        "1" * 66, f"0.{'1' * 66}", "[" * 102 + "]" * 102, "1.5e-09", '{"a": 1, "a": 2,}',
    ],
)  # fmt: skip
def test_text_that_the_server_would_write_differently_is_refused(text: str) -> None:
    with pytest.raises(SnapshotUnsupported, match="column 'c'"):
        value("json", text.encode())

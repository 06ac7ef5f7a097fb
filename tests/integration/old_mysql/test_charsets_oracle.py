"""The character sets of the old series are those of today's."""

import pytest

from connectors.mysql.charsets import text_decoder
from devstack.old_mysql import SERIES
from tests.harness.servers import Servers
from tests.harness.sql import connected
from tests.integration.worker.test_charsets_oracle import (
    DOUBLE,
    REFUSED,
    SINGLE,
    assert_published_as_selected,
    sequences,
    stored,
)


@pytest.mark.parametrize("series", SERIES)
def test_each_character_is_the_one_the_server_reads(servers: Servers, series: str) -> None:
    with connected(servers(series)) as cursor:
        cursor.execute("SELECT character_set_name FROM information_schema.character_sets")
        known = {name for (name,) in cursor.fetchall()}
        assert {name for name in known if text_decoder(name) is None} == REFUSED
        for charset in sorted(known & {*SINGLE, *DOUBLE}):
            ours = characters(charset)
            literal = f"_{charset} x'{b''.join(ours).hex()}'"
            cursor.execute(f"SELECT HEX(CONVERT({literal} USING utf32))")
            ((theirs,),) = cursor.fetchall()
            assert bytes.fromhex(theirs).decode("utf-32-be") == "".join(ours.values()), charset


def characters(charset: str) -> dict[bytes, str]:
    """Our text for the byte sequences of a character set that we can decode."""
    decode = text_decoder(charset)
    assert decode is not None
    found = {}
    for raw in sequences(charset):
        try:
            found[raw] = decode(raw)
        except UnicodeDecodeError:
            continue
    if charset != "cp932":
        return found
    return {raw: text for raw, text in found.items() if not _WINDOWS_OWN & {*text}}


_WINDOWS_OWN = {"\x80", *"\uf8f0\uf8f1\uf8f2\uf8f3"}
"""The characters of Python's cp932 for five bytes that no column can store."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("series", SERIES)
def test_each_byte_that_a_column_takes_is_published_as_the_server_returns_it(
    servers: Servers, series: str
) -> None:
    for charset in SINGLE:
        selected = stored(servers(series), charset, sequences(charset))
        assert len(selected) >= 128
        assert_published_as_selected(charset, selected)

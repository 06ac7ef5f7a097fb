"""Every character set we read: our text of its bytes is MariaDB's own."""

import pytest

from connectors.mysql.charsets import text_decoder
from devstack.mysql import Mysql
from tests.harness.sql import connected
from tests.integration.worker.source import facts_of
from tests.integration.worker.test_charsets_oracle import (
    DOUBLE,
    REFUSED,
    SINGLE,
    UNICODE,
    assert_read_alike,
    sequences,
    texts,
)

pytestmark = pytest.mark.stack

_UNKNOWN = {"gb18030"}
"""MySQL's own."""


@pytest.mark.filterwarnings("ignore")  # PyMySQL warns of the malformed strings among them
@pytest.mark.parametrize("charset", [each for each in (*SINGLE, *DOUBLE) if each not in _UNKNOWN])
def test_each_character_is_the_one_the_server_reads(mariadb: Mysql, charset: str) -> None:
    with connected(mariadb) as cursor:
        theirs = texts(cursor, charset, sequences(charset))
    assert len(theirs) >= 128
    assert_read_alike(charset, theirs)


def test_every_collation_has_its_character_set(mariadb: Mysql) -> None:
    charsets = facts_of(mariadb).charsets
    with connected(mariadb) as cursor:
        cursor.execute(
            "SELECT id, character_set_name"
            " FROM information_schema.collation_character_set_applicability"
        )
        listed = cursor.fetchall()
        cursor.execute("SELECT character_set_name FROM information_schema.character_sets")
        known = {name for (name,) in cursor.fetchall()}
    assert len(listed) > 1000
    assert [charsets.name(number) for number, _ in listed] == [name for _, name in listed]
    assert charsets.name(2304) == "utf8mb4"
    read = {name for name in known if text_decoder(name) is not None}
    assert read == known - REFUSED
    assert read >= {*SINGLE, *DOUBLE} - _UNKNOWN
    assert known >= set(UNICODE)

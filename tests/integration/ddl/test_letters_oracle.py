"""Names in lower case: each server's own letters are the oracle for ours."""

import pytest

from connectors.mysql.charsets import lowered
from tests.harness.servers import Servers
from tests.harness.sql import connected

_ASKED_AT_ONCE = 8000


@pytest.mark.parametrize("server", ["9.7", "8.0", "5.7", "mariadb-10.11", "mariadb-11.8"])
def test_every_letter_is_lowered_as_the_server_lowers_it(servers: Servers, server: str) -> None:
    letters = [chr(n) for n in range(1, 0x10000) if not 0xD800 <= n < 0xE000]
    found: list[str] = []
    with connected(servers(server)) as cursor:
        for begin in range(0, len(letters), _ASKED_AT_ONCE):
            text = "".join(letters[begin : begin + _ASKED_AT_ONCE])
            cursor.execute("SELECT LOWER(CONVERT(%s USING utf8) COLLATE utf8_general_ci)", (text,))
            (lower,) = cursor.fetchone()
            found += lower.decode() if isinstance(lower, bytes) else lower
    assert len(found) == len(letters)
    wrong = [(a, b) for a, b in zip(letters, found, strict=True) if lowered(a) != b]
    assert wrong == []

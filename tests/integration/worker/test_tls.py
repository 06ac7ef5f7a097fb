"""The connection to MySQL is encrypted as configured; an untrusted certificate is refused with an error."""

from __future__ import annotations

from typing import Any

import pymysql
import pytest

from connectors.errors import SourceRefused
from connectors.mysql.server.connection import SourceAddress, Tls
from connectors.mysql.server.facts import read_facts
from devstack.stack import Stack
from tests.integration.worker.source import address_of

pytestmark = pytest.mark.stack


def cipher_of(address: SourceAddress) -> str:
    settings: dict[str, Any] = address.connection_settings()
    connection = pymysql.connect(**settings)
    try:
        with connection.cursor() as cursor:
            cursor.execute("SHOW SESSION STATUS LIKE 'Ssl_cipher'")
            return str(cursor.fetchone()[1])
    finally:
        connection.close()


@pytest.mark.parametrize("tls", [Tls.PREFERRED, Tls.REQUIRED])
def test_the_connection_is_encrypted_without_a_checked_certificate(stack: Stack, tls: Tls) -> None:
    assert cipher_of(address_of(stack.mysql, tls=tls))


def test_the_connection_is_plain_where_the_settings_say_so(stack: Stack) -> None:
    assert cipher_of(address_of(stack.mysql, tls=Tls.DISABLED)) == ""


def test_a_certificate_of_the_named_authority_is_trusted(stack: Stack) -> None:
    authority = str(stack.mysql.data / "ca.pem")
    assert cipher_of(address_of(stack.mysql, tls=Tls.VERIFY_CA, tls_ca=authority))


def test_a_certificate_of_another_authority_is_refused_with_what_to_do(stack: Stack) -> None:
    with pytest.raises(SourceRefused, match="certificate is not trusted") as caught:
        read_facts(address_of(stack.mysql, tls=Tls.VERIFY_CA))
    assert "source.tls_ca" in str(caught.value)


def test_a_certificate_for_another_host_is_refused(stack: Stack) -> None:
    authority = str(stack.mysql.data / "ca.pem")
    with pytest.raises(SourceRefused, match="certificate is for another name") as caught:
        read_facts(address_of(stack.mysql, tls=Tls.VERIFY_IDENTITY, tls_ca=authority))
    assert "Set source.host to a name that the certificate has" in str(caught.value)
    assert "tls_ca" not in str(caught.value)

"""A password in a file: what is changed on disk holds from the next connection on."""

from __future__ import annotations

import logging
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import faust
import pytest
from aiokafka.conn import AIOKafkaConnection
from kazoo.protocol.serialization import Auth

from app.settings.model import KafkaSettings
from app.worker.assembly import _faust_credentials
from connectors.kafka.client import KafkaClient
from connectors.mysql.server.connection import SourceAddress
from connectors.secret import FileSecret, text_of
from connectors.zookeeper.kazoo_session import ZooKeeperClient, _credentials


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "password"
    path.write_text("first\n")
    return path


def test_it_is_what_the_file_holds_now(file: Path) -> None:
    secret = FileSecret(file)
    assert (text_of(secret), bool(secret)) == ("first", True)
    file.write_text("sécond\r\n")
    assert (text_of(secret), secret.encode("latin1")) == ("sécond", b"s\xe9cond")
    assert text_of("as it stands") == "as it stands"


def test_it_prints_nowhere_and_another_process_reads_the_file_itself(file: Path) -> None:
    secret = FileSecret(file)
    assert "first" not in repr(secret)
    assert b"first" not in pickle.dumps(secret)
    file.write_text("second")
    assert pickle.loads(pickle.dumps(secret)).now() == "second"


def test_a_file_that_is_away_leaves_what_it_held_and_is_named_once(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    secret = FileSecret(file)
    file.write_text("second")
    assert secret.now() == "second"
    file.unlink()
    with caplog.at_level(logging.ERROR):
        assert [secret.now(), secret.now()] == ["second", "second"]
    assert len(caplog.records) == 1
    assert str(file) in caplog.text
    assert "second" not in caplog.text
    file.write_text("third")
    assert secret.now() == "third"


def test_a_file_that_is_away_keeps_no_client_and_no_process_from_being_made(file: Path) -> None:
    client = ZooKeeperClient(hosts="h", timeout=1, username="me", password=FileSecret(file))
    pickled = pickle.dumps(FileSecret(file))
    file.unlink()
    auth, _ = _credentials(client)
    assert auth is not None
    assert Auth(0, *auth[0]).serialize().endswith(b"me:first")
    secret = pickle.loads(pickled)
    with pytest.raises(FileNotFoundError, match=str(file)):
        secret.encode()
    file.write_text("second")
    assert secret.encode() == b"second"


def test_mysql_is_connected_to_with_what_holds_now(file: Path) -> None:
    address = SourceAddress(
        host="h", port=1, user="u", password=FileSecret(file), server_id=1, replica_uuid=""
    )
    assert address.connection_settings()["password"] == b"first"
    file.write_text("second")
    assert address.connection_settings()["password"] == b"second"


def test_zookeeper_is_sent_what_holds_now_at_each_connection(file: Path) -> None:
    client = ZooKeeperClient(hosts="h", timeout=1, username="me", password=FileSecret(file))
    auth, _ = _credentials(client)
    assert auth is not None
    (scheme, secret), *_ = auth
    assert Auth(0, scheme, secret).serialize().endswith(b"me:first")
    file.write_text("second")
    assert Auth(0, scheme, secret).serialize().endswith(b"me:second")


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
async def test_kafka_is_signed_in_to_with_what_holds_now_by_clients_of_ours_and_of_faust(
    file: Path, mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = KafkaSettings(bootstrap_servers="h:1", sasl_password_file=file)
    client = KafkaClient(
        bootstrap_servers="h:1",
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=mechanism,
        sasl_username="me",
        sasl_password=settings.secret(),
    )
    faust_has = _faust_credentials(client)
    assert isinstance(faust_has, faust.SASLCredentials)
    kept = client.options()["sasl_plain_password"]
    assert await signed_in(kept, mechanism, monkeypatch) == "first"
    _write(file, "second")
    assert await signed_in(kept, mechanism, monkeypatch) == "second"
    assert await signed_in(faust_has.password, mechanism, monkeypatch) == "second"


def _write(file: Path, text: str) -> None:
    file.write_text(text)


async def signed_in(password: Any, mechanism: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The password by which a new connection signs in."""
    used: list[str] = []

    def asked(connection: Any) -> Any:
        used.append(str.__str__(connection._sasl_plain_password))
        return SimpleNamespace(step=done)

    async def done(_: Any) -> None:
        return None

    async def send(*_: Any) -> Any:
        return SimpleNamespace(error_code=0, enabled_mechanisms=[mechanism], API_VERSION=1)

    connection = AIOKafkaConnection(
        "h", 1, sasl_mechanism=mechanism, sasl_plain_username="me", sasl_plain_password=password
    )
    monkeypatch.setattr(connection, "send", send)
    monkeypatch.setattr(AIOKafkaConnection, "authenticator_plain", asked)
    monkeypatch.setattr(AIOKafkaConnection, "authenticator_scram", asked)
    await connection._do_sasl_handshake()
    return used[0]

"""The client against a server over HTTP."""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path

import pytest

from app.worker.pipeline.decoders.pool import STALL_SECONDS
from connectors.errors import (
    AqueductError,
    Retry,
    SchemaRefused,
    SchemaRegistryDenied,
    SchemaRegistryLost,
)
from connectors.secret import FileSecret
from connectors.store import registry as requests
from connectors.store.registry import Answer, ConfluentRegistry, RegistryAccess
from devstack.ports import free_port
from tests.schema_registry import schema_registry

SCHEMA = json.dumps({"type": "record", "name": "A", "fields": []})
OTHER = json.dumps({"type": "record", "name": "B", "fields": []})


def test_a_schema_has_one_id_and_is_registered_once() -> None:
    with schema_registry() as server:
        registry = ConfluentRegistry(RegistryAccess(url=f"{server.url}/"))
        found = [registry.register("aq.a/b-value", one) for one in (SCHEMA, OTHER, SCHEMA)]
        assert found == [1, 2, 1]
        assert registry.register("c-value", SCHEMA) == 1
        assert server.requests == [
            ("POST", "/subjects/aq.a%2Fb-value/versions"),
            ("POST", "/subjects/aq.a%2Fb-value/versions"),
            ("POST", "/subjects/c-value/versions"),
        ]
        assert server.held.subjects == {"aq.a/b-value": [1, 2], "c-value": [1]}
        assert server.held.schemas == {1: SCHEMA, 2: OTHER}


@pytest.mark.parametrize(("closing", "connections"), [(False, 1), (True, 2)])
def test_one_connection_stays_open_as_long_as_the_registry_has_it(
    closing: bool, connections: int
) -> None:
    with schema_registry(closing=closing) as server:
        registry = ConfluentRegistry(RegistryAccess(url=server.url))
        assert [registry.register("a", one) for one in (SCHEMA, OTHER)] == [1, 2]
        assert server.connections == connections


def test_a_connection_that_was_closed_meanwhile_is_replaced() -> None:
    with schema_registry() as server:
        registry = ConfluentRegistry(RegistryAccess(url=server.url))
        registry.register("a", SCHEMA)
        assert registry._requests._open is not None
        registry._requests._open.sock.shutdown(socket.SHUT_RDWR)
        assert registry.register("a", OTHER) == 2


def test_all_addresses_of_a_dead_registry_share_one_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float] = []

    class Silent(socket.socket):
        """Drops what is sent to it."""

        def settimeout(self, value: float | None, /) -> None:
            assert value is not None
            limits.append(value)

        def connect(self, _address: object, /) -> None:
            raise TimeoutError("timed out")

    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (f"192.0.2.{n}", 80)) for n in (1, 2, 3)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: found)
    monkeypatch.setattr(socket, "socket", Silent)
    with pytest.raises(SchemaRegistryLost, match="timed out"):
        ConfluentRegistry(RegistryAccess(url="http://registry.example")).register("a", SCHEMA)
    assert len(limits) == 3
    assert sum(limits) < STALL_SECONDS / 2


def test_the_next_address_is_tried_where_one_is_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    dead = ("127.0.0.1", free_port())
    with schema_registry() as server:
        addresses = [dead, ("127.0.0.1", server.port)]
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", one) for one in addresses]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_: found)
        assert ConfluentRegistry(RegistryAccess(url=server.url)).register("a", SCHEMA) == 1


def test_a_name_that_is_not_resolved_in_time_is_a_lost_registry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended = threading.Event()

    def resolve(*_: object) -> list[object]:
        ended.wait(30)
        raise OSError("too late")

    assert requests._LIMIT_SECONDS < STALL_SECONDS
    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(requests, "_LIMIT_SECONDS", 0.05)
    registry = ConfluentRegistry(RegistryAccess(url="http://registry.example"))
    try:
        with pytest.raises(SchemaRegistryLost, match="no answer within"):
            registry.register("a", SCHEMA)
    finally:
        ended.set()


def test_what_it_refuses_is_named_with_its_own_text() -> None:
    with schema_registry(refused=frozenset({"bad"})) as server:
        registry = ConfluentRegistry(RegistryAccess(url=server.url))
        with pytest.raises(SchemaRefused, match="409: Schema is incompatible") as error:
            registry.register("bad-value", SCHEMA)
        assert error.value.context["subject"] == "bad-value"
        # Its table waits, and the destination continues.
        assert error.value.keeps_definition


def test_a_fault_of_its_own_is_retried_and_nothing_is_remembered() -> None:
    with schema_registry(failing=1) as server:
        registry = ConfluentRegistry(RegistryAccess(url=server.url))
        with pytest.raises(SchemaRegistryLost, match="500: store error") as error:
            registry.register("a-value", SCHEMA)
        assert error.value.retry is Retry.TIMED
        assert registry.register("a-value", SCHEMA) == 1


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (409, b'{"error_code": 409, "message": "incompatible"}', SchemaRefused),
        (422, b'{"error_code": 42201, "message": "invalid"}', SchemaRefused),
        *(
            (status, b"<html>an ingress</html>", SchemaRegistryLost)
            for status in (301, 308, 400, 404, 408, 409, 421, 429)
        ),
        (404, b'{"error_code": 40401, "message": "no such subject"}', SchemaRegistryLost),
        (429, b'{"error_code": 42901, "message": "too many"}', SchemaRegistryLost),
    ],
)
def test_what_a_proxy_answers_is_no_refusal_of_a_schema(
    monkeypatch: pytest.MonkeyPatch, status: int, body: bytes, kind: type[AqueductError]
) -> None:
    registry = ConfluentRegistry(RegistryAccess(url="http://registry.example"))
    answer = Answer(status, "as it says", body)
    monkeypatch.setattr(registry._requests, "post", lambda *_: answer)
    monkeypatch.setattr(registry._requests, "get", lambda *_: answer)
    with pytest.raises(kind, match=str(status)):
        registry.register("a", SCHEMA)
    with pytest.raises(kind, match=str(status)):
        registry.schema(7)


def test_a_schema_that_the_registry_does_not_have_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = ConfluentRegistry(RegistryAccess(url="http://registry.example"))
    answer = Answer(404, "Not Found", b'{"error_code": 40403, "message": "Schema not found"}')
    monkeypatch.setattr(registry._requests, "get", lambda *_: answer)
    assert registry.schema(7) is None


def test_an_account_is_needed_and_its_password_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("old\n")
    with schema_registry(account=("worker", "new")) as server:
        access = RegistryAccess(url=server.url, username="worker", password=FileSecret(file))
        assert "old" not in repr(access)
        registry = ConfluentRegistry(access)
        with pytest.raises(SchemaRegistryDenied, match="401: Unauthorized"):
            registry.register("a-value", SCHEMA)
        file.write_text("new\n")
        assert registry.register("a-value", SCHEMA) == 1


def test_a_registry_that_does_not_answer_or_answers_something_else_is_lost() -> None:
    with pytest.raises(SchemaRegistryLost, match="refused"):
        ConfluentRegistry(RegistryAccess(url=f"http://127.0.0.1:{free_port()}")).register(
            "a", SCHEMA
        )
    with schema_registry() as server:
        server.held.register = lambda *_: "no number"  # type: ignore[assignment,method-assign]
        with pytest.raises(AqueductError, match="has no id"):
            ConfluentRegistry(RegistryAccess(url=server.url)).register("a", SCHEMA)


def test_a_schema_is_found_by_its_id_and_nothing_is_registered_for_it() -> None:
    with schema_registry(account=("worker", "x")) as server:
        server.held.register("a", SCHEMA)
        denied = ConfluentRegistry(RegistryAccess(url=server.url))
        with pytest.raises(SchemaRegistryDenied, match="401"):
            denied.schema(1)
        access = RegistryAccess(url=f"{server.url}/", username="worker", password="x")
        registry = ConfluentRegistry(access)
        assert (registry.schema(1), registry.schema(2)) == (SCHEMA, None)
        assert server.requests[1:] == [("GET", "/schemas/ids/1"), ("GET", "/schemas/ids/2")]
        server.failing = 1
        with pytest.raises(SchemaRegistryLost, match="500"):
            registry.schema(1)
    with pytest.raises(SchemaRegistryLost, match="refused"):
        ConfluentRegistry(RegistryAccess(url=server.url)).schema(1)

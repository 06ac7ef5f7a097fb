"""The client against a server over HTTP."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from connectors.errors import (
    AqueductError,
    Retry,
    SchemaRefused,
    SchemaRegistryDenied,
    SchemaRegistryLost,
)
from connectors.schema_registry.registry import ConfluentRegistry, RegistryAccess
from connectors.secret import FileSecret
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


def test_what_it_refuses_is_named_with_its_own_text() -> None:
    with schema_registry(refused=frozenset({"bad"})) as server:
        registry = ConfluentRegistry(RegistryAccess(url=server.url))
        with pytest.raises(SchemaRefused, match="409: Schema is incompatible") as error:
            registry.register("bad-value", SCHEMA)
        assert error.value.context["subject"] == "bad-value"
        assert error.value.retry is Retry.MANUAL


def test_a_fault_of_its_own_is_retried_and_nothing_is_remembered() -> None:
    with schema_registry(failing=1) as server:
        registry = ConfluentRegistry(RegistryAccess(url=server.url))
        with pytest.raises(SchemaRegistryLost, match="500: store error") as error:
            registry.register("a-value", SCHEMA)
        assert error.value.retry is Retry.TIMED
        assert registry.register("a-value", SCHEMA) == 1


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

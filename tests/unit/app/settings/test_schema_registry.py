"""The settings of the schema registry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from app.settings.mapping import MappingSettings, SchemaRegistrySettings
from connectors.errors import MappingError
from connectors.secret import FileSecret
from tables.rules.mapping.forms import from_yaml

AVRO = from_yaml("{tables: {a: {format: avro}}}")


def test_a_password_comes_from_its_file_and_is_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("hidden\n")
    found = SchemaRegistrySettings(url="https://r:8081/api", username="u", password_file=file)
    access = found.access()
    assert (access.url, access.username, access.password) == ("https://r:8081/api", "u", "hidden")
    assert isinstance(access.password, FileSecret)
    assert "hidden" not in repr(access) + repr(found)


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"url": "ftp://r"}, "pattern"),
        ({"url": "http://user:word@r"}, "pattern"),
        ({"password": "a", "password_file": "/b"}, "not both"),
        ({"password_file": "/nowhere"}, "password_file /nowhere is not a file"),
        ({"ssl_cafile": "/nowhere"}, "ssl_cafile /nowhere is not a file"),
    ],
)
def test_faults_are_named(given: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValidationError, match=fault):
        SchemaRegistrySettings(**given)


def test_a_mapping_with_avro_is_usable_only_with_a_registry() -> None:
    with pytest.raises(MappingError, match=r"tables\.a\.format: avro needs a schema registry"):
        MappingSettings().usable(AVRO, "aq")
    registry = SchemaRegistrySettings(url="http://r:8081")
    assert MappingSettings(schema_registry=registry).usable(AVRO, "aq") is AVRO

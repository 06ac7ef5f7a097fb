"""The mapping among the settings: read with them, and refused with all its faults."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest

from app.settings.model import load
from app.worker.wiring import routes_of
from connectors.errors import SettingsError
from tests.unit.app.settings.test_model import GOOD


def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mapping: str) -> None:
    """Write settings with a mapping file."""
    (tmp_path / "mapping.yaml").write_text(mapping)
    settings = tmp_path / "aqueduct.yaml"
    # Relative to the settings file, wherever the worker is started.
    settings.write_text(f"{GOOD}mapping: {{file: mapping.yaml}}\n")
    monkeypatch.setenv("AQUEDUCT_CONFIG", str(settings))


def test_the_routes_of_a_destination_have_the_mapping(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, monkeypatch, "{databases: {trade: {from: ['s_[0-9]+']}}}")
    route = routes_of(load(), "shop").of(("s_1", "x"))
    assert route is not None
    assert (route.topic, route.shard) == ("aq.trade.x", ("shop", "s_1", "x"))


@pytest.mark.parametrize(
    ("mapping", "faults"),
    [
        (
            "{tables: {a: {colour: red}, b: {from: []}}}",
            ["mapping: ", "mapping.yaml: ", "tables.a: 'colour'", "tables.b: from"],
        ),
        (
            "{databases: {d: {format: avro}}, tables: {a: {format: avro}}}",
            ["databases.d.format: avro needs a schema", "tables.a.format: avro needs a schema"],
        ),
        ("{databases: {a: {topic: " + 248 * "t" + "}}}", ["has more than 249 characters"]),
        ("{", ["it is not YAML"]),
    ],
)
def test_all_faults_of_the_mapping_are_listed_with_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mapping: str, faults: list[str]
) -> None:
    written(tmp_path, monkeypatch, mapping)
    with pytest.raises(SettingsError) as caught:
        load()
    for fault in faults:
        assert fault in str(caught.value)
    assert "\\n" not in str(caught.value)


MASKED = "{tables: {a: {column_actions: {b: {hmac: k1}}}, c: {column_actions: {d: drop}}}}"
KEY = base64.b64encode(bytes(32)).decode()


def with_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: str) -> None:
    """Write settings with a masked mapping and a key file."""
    written(tmp_path, monkeypatch, MASKED)
    (tmp_path / "masking.keys").write_text(keys)
    settings = f"{GOOD}mapping: {{file: {tmp_path}/mapping.yaml, key_file: masking.keys}}\n"
    (tmp_path / "aqueduct.yaml").write_text(settings)


def test_the_routes_have_the_keys_of_the_key_file_beside_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_keys(tmp_path, monkeypatch, f"k1: {KEY}\n")
    settings = load()
    assert KEY not in repr(settings) + settings.model_dump_json()
    route = routes_of(settings, "shop").of(("s", "a"))
    assert route is not None
    assert str(route.column_rules["b"]("x")).startswith("k1:")


@pytest.mark.parametrize(
    ("keys", "fault"),
    [
        (f"k2: {KEY}", "tables.a.column_actions.b: mapping.key_file has no key 'k1'"),
        ("k1: c2VjcmV0", "masking.keys: line 1: the key has 6 bytes"),
        ("", "the key file has no key"),
        ("\udcff", "it is not UTF-8"),
    ],
)
def test_a_fault_of_the_key_file_is_named_without_its_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: str, fault: str
) -> None:
    with_keys(tmp_path, monkeypatch, "")
    (tmp_path / "masking.keys").write_bytes(keys.encode(errors="surrogateescape"))
    with pytest.raises(SettingsError, match=re.escape(fault)) as caught:
        load()
    assert "c2V" not in str(caught.value)
    assert KEY not in str(caught.value)


def test_masked_tables_without_a_key_file_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, monkeypatch, MASKED)
    with pytest.raises(SettingsError, match=r"tables\.c\.column_actions: masked tables need keys"):
        load()

"""The mapping among the settings: read with them, and refused with all its faults."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.settings.model import load
from app.wiring import routes_of
from connectors.errors import SettingsError
from tests.unit.app.settings.test_model import GOOD


def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mapping: str) -> None:
    """Write settings with a mapping file."""
    (tmp_path / "mapping.yaml").write_text(mapping)
    settings = tmp_path / "aqueduct.yaml"
    settings.write_text(f"{GOOD}mapping: {{file: {tmp_path}/mapping.yaml}}\n")
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
        ("{tables: {a: {format: canal}}}", ["tables.a.format: the worker does not"]),
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

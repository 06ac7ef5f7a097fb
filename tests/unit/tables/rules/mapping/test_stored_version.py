from __future__ import annotations

import random
import zlib
from dataclasses import replace

import orjson
import pytest

from connectors.errors import MappingError
from tables.rules.mapping.forms import from_yaml, to_yaml
from tables.rules.mapping.mapping import Mapping
from tables.rules.mapping.rules import LogicalTable
from tables.rules.mapping.stored_version import StoredVersion

MAPPING = from_yaml(
    "databases: {trade: {from: [s_1, s_2], topic: trade}}\n"
    "tables: {trade.users: {column_actions: {ssn: {hmac: k1}}, row_filter: 'a > 1'}}"
)


def stored(mapping: Mapping = MAPPING) -> StoredVersion:
    return StoredVersion.of(mapping, number=3, by="ann", why="why", ts_ms=5, restores=1)


def test_a_version_is_read_back_with_an_equal_mapping() -> None:
    found = StoredVersion.from_bytes(3, stored().to_bytes())
    assert found == stored()
    assert found.mapping() == MAPPING


def test_a_version_that_was_stored_in_yaml_is_still_read() -> None:
    assert replace(stored(), text=to_yaml(MAPPING)).mapping() == MAPPING
    assert from_yaml(stored().to_yaml()) == MAPPING


def test_a_text_that_was_changed_is_refused() -> None:
    changed = replace(stored(), text="tables: {}")
    with pytest.raises(MappingError, match="it was changed"):
        changed.mapping()


@pytest.mark.parametrize(
    "node",
    [
        b"",
        b"not compressed",
        zlib.compress(b"not JSON"),
        zlib.compress(b"[]"),
        zlib.compress(b'{"format": 1}'),
    ],
)
def test_a_node_with_anything_else_is_named(node: bytes) -> None:
    with pytest.raises(MappingError, match="version 3 in ZooKeeper cannot be read"):
        StoredVersion.from_bytes(3, node)


def test_a_later_format_and_another_number_are_refused() -> None:
    later = zlib.compress(orjson.dumps({"format": 2}))
    with pytest.raises(MappingError, match="of a later Aqueduct"):
        StoredVersion.from_bytes(3, later)
    with pytest.raises(MappingError, match="the node of version 4 in ZooKeeper holds 3"):
        StoredVersion.from_bytes(4, stored().to_bytes())


def test_five_thousand_tables_fit_and_too_large_a_mapping_is_refused_with_its_sizes() -> None:
    def tables(count: int, size: int) -> Mapping:
        chosen = random.Random(7)
        return Mapping(
            tables=tuple(
                LogicalTable(name=f"t{n}", real=(f"r{n}_{chosen.randbytes(size).hex()}",))
                for n in range(count)
            )
        )

    assert len(stored(tables(5000, 4)).to_bytes()) < 100_000
    with pytest.raises(MappingError, match="when compressed"):
        stored(tables(1000, 1000)).to_bytes()

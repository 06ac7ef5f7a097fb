"""The mappings of the benchmark of routes are valid, and give its tables their topics."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from app.settings.mapping import read_mapping
from bench.routes import LOGICAL, SHARDS, Mapped, cases, mapping, sharded, single
from bench.workloads import DATABASE, W1, W2


@pytest.mark.parametrize(
    "peer",
    [single(one.name, case) for one in (W1, W2) for case in cases(one.name)],
    ids=lambda peer: peer.name,
)
def test_a_workloads_table_is_mapped_beside_others(peer: Mapped, tmp_path: Path) -> None:
    file = tmp_path / "mapping.yaml"
    file.write_text(yaml.safe_dump(mapping(peer.tables, 3)))
    (rules,) = peer.tables.values()
    mapped = read_mapping(file).of((DATABASE, rules["from"][0].split(".")[1]))
    assert mapped is not None
    assert mapped.topic == "orders"
    assert mapped.key_has_shard == (peer.name == "+shard key")


def test_512_tables_have_eight_topics(tmp_path: Path) -> None:
    file = tmp_path / "mapping.yaml"
    file.write_text(yaml.safe_dump(mapping(sharded().tables, 3)))
    names = [(DATABASE, f"shard{n}") for n in range(1, LOGICAL * SHARDS + 1)]
    found = read_mapping(file)
    topics = [mapped and mapped.topic for mapped in map(found.of, names)]
    assert topics == [f"orders-{n // SHARDS}" for n in range(LOGICAL * SHARDS)]

"""Mappings against a second, naive reading of the documents."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from connectors.errors import MappingError
from tables.rules.mapping.forms import from_documents, from_yaml, to_yaml
from tables.rules.mapping.mapping import Mapping

REAL = st.sampled_from([f"r{number}" for number in range(8)])
OWNERS = st.dictionaries(REAL, st.sampled_from(["x", "y", "z"]))
TOPICS = st.dictionaries(st.sampled_from(["x", "y", "z"]), st.integers(0, 3))


def _entries(owners: dict[str, str], logical: str, real: str) -> list[dict[str, str]]:
    return [
        {logical: one, real: ",".join(key for key in owners if owners[key] == one)}
        for one in sorted(set(owners.values()))
    ]


def _loaded(dbs: dict[str, str], tbs: dict[str, str], topics: dict[str, int]) -> Mapping | None:
    entries = {
        "a.dbs/G": _entries(dbs, "logicDb", "realDbs"),
        "a.tbs/G": _entries(tbs, "logicTb", "realTbs"),
        "a.topics/G": [{"logicDb": name, "topic": f"t{at}"} for name, at in topics.items()],
    }
    try:
        return from_documents({key: json.dumps(one) for key, one in entries.items()})
    except MappingError:
        return None


@given(OWNERS, OWNERS, TOPICS)
def test_yaml_has_the_same_content(
    dbs: dict[str, str], tbs: dict[str, str], topics: dict[str, int]
) -> None:
    mapping = _loaded(dbs, tbs, topics)
    assert (mapping is None) == (len(set(topics.values())) < len(topics))
    assert mapping is None or from_yaml(to_yaml(mapping)) == mapping


@given(OWNERS, OWNERS, TOPICS, REAL, REAL)
def test_resolution_agrees_with_a_naive_reading(
    dbs: dict[str, str], tbs: dict[str, str], topics: dict[str, int], database: str, table: str
) -> None:
    mapping = _loaded(dbs, tbs, topics)
    if mapping is None:
        return
    found = mapping.of((database, table.upper()))
    if database not in dbs and table not in tbs:
        assert found is None
        return
    assert found is not None
    logical = dbs.get(database, database)
    assert found.logical == (logical, tbs.get(table, table.upper()))
    assert found.topic == (f"t{topics[logical]}" if logical in topics else "")


@given(st.lists(st.sampled_from(["t.a", "t_a", "u", "v"]), min_size=2, max_size=4))
def test_collisions_do_not_depend_on_order(topics: list[str]) -> None:
    def refused(names: list[str]) -> bool:
        entries = [{"logicDb": f"d{at}", "topic": one} for at, one in enumerate(names)]
        try:
            from_documents({"a.topics": json.dumps(entries)})
        except MappingError:
            return True
        return False

    assert refused(topics) == refused(topics[::-1])
    assert refused(topics) == (len({one.replace(".", "_") for one in topics}) < len(topics))

"""The four JSON documents of Roma, addressed by data id and group, such as ``com.pajk.Roma.dbs/ROMA_GROUP``.

A tag of ``logicTb1,field1`` and ``tag1,f1`` is read as: each record of ``logicTb1`` has the tag ``tag1``, and
one that changes ``field1`` has ``f1`` too. The format comes from the seed deck of Roma, page 14.
"""

from __future__ import annotations

import json
from collections.abc import Mapping as Texts
from typing import Any

from tables.rules.mapping.assembly import Assembly
from tables.rules.mapping.mapping import Mapping
from tables.rules.mapping.real_name import listed

_KEYS = {
    "dbs": ("logicDb", "realDbs"),
    "tbs": ("logicTb", "realTbs"),
    "topics": ("logicDb", "topic"),
    "tags": ("logicTb", "tag"),
}


def from_documents(documents: Texts[str, str]) -> Mapping:
    """The mapping of documents by data id; raise MappingError that lists all faults."""
    into = Assembly()
    seen: dict[str, str] = {}
    for data_id, text in documents.items():
        kind = data_id.partition("/")[0].rpartition(".")[2]
        if kind not in _KEYS:
            into.fault(data_id, f"is no data id; it must end with one of {', '.join(_KEYS)}")
        elif kind in seen:
            into.fault(data_id, f"is a second document of {kind}; {seen[kind]} is the first")
        else:
            seen[kind] = data_id
            _read(into, data_id, kind, text)
    return into.mapping()


def _read(into: Assembly, data_id: str, kind: str, text: str) -> None:
    names: set[str] = set()
    for at, entry in enumerate(_entries(into, data_id, text)):
        where = f"{data_id}[{at}]"
        pair = _pair(into, where, kind, entry)
        if pair is None:
            continue
        name = pair[0].partition(",")[0].strip().lower()
        if name in names:
            into.fault(where, f"{name} has an entry already; merge the two")
        names.add(name)
        _enter(into, where, kind, *pair)


def _entries(into: Assembly, data_id: str, text: str) -> list[Any]:
    try:
        found = json.loads(text, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        into.fault(data_id, f"line {error.lineno}, column {error.colno}: {error.msg}; correct it")
        return []
    except ValueError as error:
        into.fault(data_id, str(error))
        return []
    if isinstance(found, list):
        return found
    into.fault(data_id, "is no list; write [{...}, ...]")
    return []


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"an entry repeats one of the keys {', '.join(found)}; remove one")
    return found


def _pair(into: Assembly, where: str, kind: str, entry: Any) -> tuple[str, str] | None:
    """The two texts of an entry."""
    first, second = _KEYS[kind]
    if not isinstance(entry, dict) or set(entry) != {first, second}:
        into.fault(where, f"must have exactly the keys {first} and {second}")
        return None
    values = entry[first], entry[second]
    if not all(isinstance(one, str) and one.strip() for one in values):
        into.fault(where, f"{first} and {second} must be texts that are not empty")
        return None
    return values


def _enter(into: Assembly, where: str, kind: str, name: str, value: str) -> None:
    if kind == "dbs":
        into.database(where, name, real=listed(value))
    elif kind == "tbs":
        into.table(where, "", name, real=listed(value))
    elif kind == "topics":
        into.database(where, name, topic=value)
    else:
        _tags(into, where, name, value)


def _tags(into: Assembly, where: str, names: str, values: str) -> None:
    """The tags of one entry: the table's, then one for each column."""
    table, *columns = listed(names)
    tags = listed(values)
    if len(tags) != 1 + len(columns):
        into.fault(where, "logicTb and tag must list as many names; the first is the table's")
        return
    into.table(where, "", table, tags=dict(zip(("", *columns), tags, strict=True)))

"""The one YAML form of a mapping, equal in content to the four JSON documents, with rules besides."""

from __future__ import annotations

from typing import Any

import orjson
import yaml

from connectors.errors import MappingError
from tables.rules.mapping.assembly import Assembly
from tables.rules.mapping.logical import LogicalDatabase, LogicalTable
from tables.rules.mapping.mapping import Mapping
from tables.rules.mapping.rules import Rules
from tables.rules.mapping.rules_entry import RULE_KEYS, read_rules, written_rules

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The parser in C where PyYAML has it: ten times as fast."""
_COMMON_KEYS = {"from", "topic", "share_topic"}
_DATABASE_KEYS = _COMMON_KEYS | {"format"}
_TABLE_KEYS = _COMMON_KEYS | {"tags"} | RULE_KEYS


def _repeated(node: Any) -> str:
    """The first key that an entry repeats, with its line; empty if there is none."""
    waiting, seen = [node], set()
    while waiting:
        one = waiting.pop()
        if id(one) in seen or not isinstance(one, yaml.CollectionNode):
            continue
        seen.add(id(one))
        keys: set[str] = set()
        for part in one.value:
            key, *_ = pair = part if isinstance(part, tuple) else (part,)
            if len(pair) > 1 and str(key.value) in keys:
                return f"line {key.start_mark.line + 1}: {key.value!r} is repeated; remove one"
            keys.add(str(key.value))
            waiting += pair
    return ""


def from_yaml(text: str) -> Mapping:
    """The mapping of a YAML text; raise MappingError that lists all faults."""
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        repeated = _repeated(node)
        found = loader.construct_document(node) if node is not None else {}
    except yaml.YAMLError as error:
        raise MappingError.listed([f"it is not YAML: {' '.join(str(error).split())}"]) from None
    return _assembled(found, repeated)


def from_json(text: str) -> Mapping:
    """The mapping of a text that ``to_json`` returned; raise MappingError that lists all faults."""
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise MappingError.listed([f"it is not JSON: {error}"]) from None
    return _assembled(found, "")


def _assembled(found: Any, repeated: str) -> Mapping:
    into = Assembly()
    if repeated:
        into.fault("mapping", repeated)
    for name, entry in _entries(into, "mapping", found, {"databases", "tables"}).items():
        for key, value in _entries(into, name, entry, None).items():
            _enter(into, name, str(key), value)
    return into.mapping()


def _entries(into: Assembly, where: str, found: Any, allowed: set[str] | None) -> dict[str, Any]:
    """The allowed keys of an entry."""
    if not isinstance(found, dict):
        into.fault(where, "must have keys and values")
        return {}
    for key in found:
        if allowed is not None and key not in allowed:
            into.fault(where, f"{key!r} is unknown; the keys are {', '.join(sorted(allowed))}")
    return {key: one for key, one in found.items() if allowed is None or key in allowed}


def _enter(into: Assembly, kind: str, key: str, value: Any) -> None:
    where = f"{kind}.{key}"
    entry = _entries(into, where, value, _DATABASE_KEYS if kind == "databases" else _TABLE_KEYS)
    common: dict[str, Any] = {
        "real": _real(into, where, entry),
        "topic": _topic(into, where, entry),
        "share_topic": _share_topic(into, where, entry),
    }
    rules = read_rules(into, where, {one: entry[one] for one in entry if one in RULE_KEYS})
    if kind == "databases":
        into.database(where, key, **common, record_format=rules.format)
        return
    database, _, name = key.rpartition(".")
    into.table(where, database, name, **common, tags=_tags(into, where, entry), rules=rules)


def _real(into: Assembly, where: str, entry: dict[str, Any]) -> tuple[str, ...]:
    if "from" not in entry:
        return ()
    found = entry["from"]
    if not isinstance(found, list) or not found or not all(isinstance(one, str) for one in found):
        into.fault(where, "from must be a list of names that is not empty")
        return ()
    return tuple(found)


def _share_topic(into: Assembly, where: str, entry: dict[str, Any]) -> bool:
    found = entry.get("share_topic", False)
    if not isinstance(found, bool):
        into.fault(where, "share_topic must be true or false")
    return found is True


def _topic(into: Assembly, where: str, entry: dict[str, Any]) -> str:
    found = entry.get("topic", "")
    if "topic" not in entry:
        return ""
    if not isinstance(found, str) or not found:
        into.fault(where, "topic must be a text that is not empty")
        return ""
    return found


def _tags(into: Assembly, where: str, entry: dict[str, Any]) -> dict[str, str]:
    """Tags by column; the key ``""`` is the tag of each record."""
    found = entry.get("tags", {})
    pairs = found.items() if isinstance(found, dict) else [(None, None)]
    if not all(isinstance(one, str) for pair in pairs for one in pair):
        into.fault(where, 'tags must be tags by column, with "" for each record')
        return {}
    return dict(found)


def to_yaml(mapping: Mapping) -> str:
    """The text of a mapping, of which ``from_yaml`` makes an equal one."""
    return str(yaml.safe_dump(_content(mapping), sort_keys=False, allow_unicode=True))


def to_json(mapping: Mapping) -> str:
    """The same content in JSON, which is read and written many times as fast."""
    return orjson.dumps(_content(mapping)).decode()


def _content(mapping: Mapping) -> dict[str, Any]:
    return {
        "databases": {
            one.name: _common(one) | ({"format": one.format} if one.format else {})
            for one in mapping.databases
        },
        "tables": {one.label: _written(one) for one in mapping.tables},
    }


def _common(one: LogicalDatabase | LogicalTable) -> dict[str, Any]:
    found = {"from": list(one.real), "topic": one.topic, "share_topic": one.share_topic}
    return {key: value for key, value in found.items() if value}


def _written(one: LogicalTable) -> dict[str, Any]:
    tags = {tag.column: tag.name for tag in one.tags}
    rules = {} if one.rules == Rules() else written_rules(one.rules)
    return _common(one) | ({"tags": tags} if tags else {}) | rules

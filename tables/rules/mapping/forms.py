"""The two forms of a mapping, YAML and the four JSON documents, read to one value and written."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping as Texts
from dataclasses import fields, replace
from typing import Any

import orjson
import yaml

from connectors.errors import MappingError
from tables.rules.mapping.mapping import Mapping
from tables.rules.mapping.real_name import RealName, listed
from tables.rules.mapping.row_filter import row_filter
from tables.rules.mapping.rules import (
    ACTIONS,
    DDL_TYPES,
    FORMATS,
    ON_DROP,
    OPERATIONS,
    SHARD_IN_KEY,
    TRUNCATES,
    ActionKind,
    ColumnAction,
    LogicalDatabase,
    LogicalTable,
    Rules,
    Tag,
    contradictions,
)
from tables.rules.mapping.topic_sharing import collisions
from tables.rules.table_filter import expressions

# The assembly of a mapping from the entries of either form, with all faults in one message.


_NAME = re.compile(r"[^.,\s]+")


class Assembly:
    """Logical databases and tables as their entries are read."""

    def __init__(self) -> None:
        self._databases: dict[str, LogicalDatabase] = {}
        self._tables: dict[tuple[str, str], LogicalTable] = {}
        self._faults: list[str] = []

    def fault(self, where: str, text: str) -> None:
        """Add a fault of a document."""
        self._faults.append(f"{where}: {text}")

    def database(
        self,
        where: str,
        name: str,
        *,
        real: tuple[str, ...] = (),
        topic: str = "",
        share_topic: bool = False,
        record_format: str = "",
    ) -> None:
        """Add what an entry states about a logical database."""
        self._check(where, name, RealName.of_database, real)
        one = self._databases.setdefault(name.lower(), LogicalDatabase(name=name))
        self._databases[name.lower()] = replace(
            one,
            real=one.real + tuple(sorted(real)),
            topic=topic or one.topic,
            share_topic=share_topic or one.share_topic,
            format=record_format or one.format,
        )

    def table(
        self,
        where: str,
        database: str,
        name: str,
        *,
        real: tuple[str, ...] = (),
        topic: str = "",
        share_topic: bool = False,
        tags: dict[str, str] | None = None,
        rules: Rules | None = None,
    ) -> None:
        """Add what an entry states about a logical table."""
        self._check(where, name, RealName.of_table, real)
        key = (database.lower(), name.lower())
        one = self._tables.setdefault(key, LogicalTable(name=name, database=database))
        added = tuple(sorted(Tag(name=tag, column=column) for column, tag in (tags or {}).items()))
        if any(not _NAME.fullmatch(one.name) for one in added):
            self.fault(where, "a tag is empty or contains a comma, a dot or a space")
        self._tables[key] = replace(
            one,
            real=one.real + tuple(sorted(real)),
            topic=topic or one.topic,
            share_topic=share_topic or one.share_topic,
            tags=one.tags + added,
            rules=rules or one.rules,
        )

    def mapping(self) -> Mapping:
        """The mapping; raise MappingError that lists all faults."""
        databases = tuple(one for _, one in sorted(self._databases.items()))
        tables = tuple(one for _, one in sorted(self._tables.items()))
        faults = [*self._faults, *collisions(databases, tables)]
        if faults:
            raise MappingError.listed(faults)
        return Mapping(databases=databases, tables=tables)

    def _check(self, where: str, name: str, read: object, real: tuple[str, ...]) -> None:
        """Check a logical name and its real ones."""
        if not _NAME.fullmatch(name):
            self.fault(where, f"{name!r} is no logical name; use no comma, dot or space")
        counts = Counter(one.lower() for one in real)
        for text in sorted({one for one in real if counts[one.lower()] > 1}):
            self.fault(where, f"{text!r} is listed twice; remove one")
        for text in real:
            try:
                if not callable(read) or not text:
                    raise ValueError("a real name is empty; remove the comma")
                read(text)
            except ValueError as error:
                self.fault(where, str(error))


# The four JSON documents of Roma, addressed by data id and group, such as
# `com.pajk.Roma.dbs/ROMA_GROUP`.
#
# A tag of `logicTb1,field1` and `tag1,f1` is read as: each record of `logicTb1` has the tag
# `tag1`, and a record that changes `field1` has `f1` too. The format comes from the seed deck of Roma,
# page 14.


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
    for at, entry in enumerate(_document_entries(into, data_id, text)):
        where = f"{data_id}[{at}]"
        pair = _pair(into, where, kind, entry)
        if pair is None:
            continue
        name = pair[0].partition(",")[0].strip().lower()
        if name in names:
            into.fault(where, f"{name} has an entry already; merge the two")
        names.add(name)
        _enter_document(into, where, kind, *pair)


def _document_entries(into: Assembly, data_id: str, text: str) -> list[Any]:
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


def _enter_document(into: Assembly, where: str, kind: str, name: str, value: str) -> None:
    if kind == "dbs":
        into.database(where, name, real=listed(value))
    elif kind == "tbs":
        into.table(where, "", name, real=listed(value))
    elif kind == "topics":
        into.database(where, name, topic=value)
    else:
        _document_tags(into, where, name, value)


def _document_tags(into: Assembly, where: str, names: str, values: str) -> None:
    """The tags of one entry: the table's, then one for each column."""
    table, *columns = listed(names)
    tags = listed(values)
    if len(tags) != 1 + len(columns):
        into.fault(where, "logicTb and tag must list as many names; the first is the table's")
        return
    into.table(where, "", table, tags=dict(zip(("", *columns), tags, strict=True)))


# The rules of a table's entry in YAML: read, checked and written.


RULE_KEYS = {one.name for one in fields(Rules)}
_OF_COLUMNS = ("columns", "key", "partition_by")
_LISTS = (*_OF_COLUMNS, "operations", "ddl", "tag_topics")
_CHOICES = {
    "operations": OPERATIONS,
    "ddl": DDL_TYPES,
    "format": FORMATS,
    "shard_in_key": SHARD_IN_KEY,
    "on_drop": ON_DROP,
    "truncates": TRUNCATES,
}


def read_rules(into: Assembly, where: str, entry: dict[str, Any]) -> Rules:
    """The rules of an entry; a fault leaves the default."""
    found = {}
    for key, value in entry.items():
        try:
            found[key] = _value(key, value)
        except ValueError as error:
            into.fault(f"{where}.{key}", str(error))
    rules = Rules(**found)
    for fault in contradictions(rules):
        into.fault(where, fault)
    return rules


def _value(key: str, value: Any) -> Any:
    """A checked value; raise ValueError."""
    if key == "column_actions":
        return _actions(value)
    if key in ("partitions", "repartition_from"):
        if type(value) is not int or value < 1:
            raise ValueError("must be a number from 1")
        return value
    texts = value if key in _LISTS else [value]
    if not isinstance(texts, list) or not texts or not all(_is_text(one) for one in texts):
        raise ValueError("must be a list of texts" if key in _LISTS else "must be a text")
    if len({one.lower() if key in _OF_COLUMNS else one for one in texts}) < len(texts):
        raise ValueError("lists a name twice; remove one")
    for one in texts:
        if key in _CHOICES and one not in _CHOICES[key]:
            raise ValueError(f"{one!r} is unknown; choose from {', '.join(_CHOICES[key])}")
    if key in ("include", "black"):
        expressions(value)
    if key == "row_filter":
        return row_filter(value)[0]
    return tuple(texts) if key in _LISTS else value


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _actions(value: Any) -> tuple[ColumnAction, ...]:
    """Actions by column: ``redact``, ``{hmac: key id}`` or ``{hmac: key id, domain: name}``."""
    if not isinstance(value, dict) or not value:
        raise ValueError("must be actions by column")
    counts = Counter(str(column).lower() for column in value)
    if twice := sorted(str(column) for column in value if counts[str(column).lower()] > 1):
        raise ValueError(f"{', '.join(twice)}: MySQL takes these for one column; keep one")
    return tuple(sorted(_action(str(column), one) for column, one in value.items()))


def _action(column: str, value: Any) -> ColumnAction:
    stated, domain = dict(value) if isinstance(value, dict) else {str(value): ""}, ""
    if "domain" in stated:
        domain = stated.pop("domain")
        keyed = [name for name, one in ACTIONS.items() if one.is_keyed]
        if stated.keys().isdisjoint(keyed) or not _is_text(domain):
            raise ValueError(f"{column}: domain is a name, beside {' or '.join(keyed)}")
    pairs = list(stated.items())
    if len(pairs) != 1 or pairs[0][0] not in ACTIONS:
        raise ValueError(f"{column}: choose one of {', '.join(ACTIONS)}")
    action, argument = pairs[0]
    kind = ACTIONS[action]
    if not kind.is_optional and bool(kind.argument) != (str(argument) != ""):
        needs = "needs an argument" if kind.argument else "takes no argument"
        raise ValueError(f"{column}: {action} {needs}")
    is_number = type(argument) is int and argument > 0
    if not (is_number if kind.is_number else isinstance(argument, str)):
        raise ValueError(f"{column}: {action} needs {kind.argument}")
    return ColumnAction(column=column, action=action, argument=str(argument), domain=domain)


def written_rules(rules: Rules) -> dict[str, Any]:
    """The entry of rules, without defaults."""
    found: dict[str, Any] = {}
    for one in fields(Rules):
        value = getattr(rules, one.name)
        if value != getattr(Rules(), one.name):
            found[one.name] = list(value) if isinstance(value, tuple) else value
    if rules.column_actions:
        found["column_actions"] = {one.column: written_action(one) for one in rules.column_actions}
    return found


def written_action(one: ColumnAction) -> str | dict[str, str | int]:
    """The entry of a column's action."""
    if not one.argument:
        return one.action
    argument = int(one.argument) if one.kind.is_number else one.argument
    domain = {"domain": one.domain} if one.domain else {}
    return {one.action: argument, **domain}


def written_kind(written: str | dict[str, Any]) -> ActionKind:
    """Return the kind of an action by its entry; an action that is not listed counts as the strictest kind."""
    names = [written] if isinstance(written, str) else written
    return next((ACTIONS[name] for name in names if name in ACTIONS), ActionKind())


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
    for kind, entries in _entries(into, "mapping", found, {"databases", "tables"}).items():
        names = dict[str, str]()
        for key, value in _entries(into, kind, entries, None).items():
            first = names.setdefault(str(key).lower(), str(key))
            if first != str(key):
                into.fault(
                    f"{kind}.{key}", f"is {first}, which has an entry already; merge the two"
                )
            _enter(into, kind, str(key), value)
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
    """The text of a mapping, from which ``from_yaml`` makes an equal mapping."""
    return str(yaml.safe_dump(_content(mapping), sort_keys=False, allow_unicode=True))


def to_json(mapping: Mapping) -> str:
    """The text of a mapping in JSON, which is read and written many times as fast as YAML."""
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

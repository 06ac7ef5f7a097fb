"""The rules of a table's entry in YAML: read, checked and written."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from tables.rules.mapping.assembly import Assembly
from tables.rules.mapping.contradictions import contradictions
from tables.rules.mapping.filters.syntax import row_filter
from tables.rules.mapping.rules import (
    ACTIONS,
    DDL_TYPES,
    FORMATS,
    ON_DROP,
    OPERATIONS,
    SHARD_IN_KEY,
    TRUNCATES,
    ColumnAction,
    Rules,
)
from tables.rules.table_filter import expressions

RULE_KEYS = {one.name for one in fields(Rules)}
_LISTS = ("columns", "operations", "ddl", "key", "partition_by", "tag_topics")
_TEXTS = {"hmac": "the id of a key", "redact": "a text", "rename": "a name"}
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
    if len(set(texts)) < len(texts):
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
    return tuple(sorted(_action(str(column), one) for column, one in value.items()))


def _action(column: str, value: Any) -> ColumnAction:
    stated, domain = dict(value) if isinstance(value, dict) else {value: ""}, ""
    if "domain" in stated:
        domain = stated.pop("domain")
        if "hmac" not in stated or not _is_text(domain):
            raise ValueError(f"{column}: domain is a name, beside hmac")
    pairs = list(stated.items())
    if len(pairs) != 1 or pairs[0][0] not in ACTIONS:
        raise ValueError(f"{column}: choose one of {', '.join(ACTIONS)}")
    action, argument = pairs[0]
    if ACTIONS[action] not in (None, str(argument) != ""):
        needs = "needs an argument" if ACTIONS[action] else "takes no argument"
        raise ValueError(f"{column}: {action} {needs}")
    if argument != "" and action in _TEXTS and not isinstance(argument, str):
        raise ValueError(f"{column}: {action} needs {_TEXTS[action]}")
    if action == "truncate" and (type(argument) is not int or argument < 1):
        raise ValueError(f"{column}: truncate needs a length from 1")
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
    argument = int(one.argument) if one.action == "truncate" else one.argument
    domain = {"domain": one.domain} if one.domain else {}
    return {one.action: argument, **domain}

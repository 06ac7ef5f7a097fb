"""Partial updates of JSON documents: a list of diffs, applied to the document before the update.

Invariant: the result is the whole document that the server stores, as the server prints it; a diff
that does not fit the document is an error, never ignored. Numbers keep their digits: they are never
converted to floats.
Source: MySQL's sql-common/json_diff.cc, Json_diff_vector::read_binary, and json_path.cc for the
paths.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import Any

from connectors.mysql.buffer import packed_bytes
from connectors.mysql.types.json_binary import MAX_DEPTH, document_text

_REPLACE, _INSERT, _REMOVE = 0, 1, 2


class _Number(str):
    """A number in its original spelling."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Diff:
    """One change; ``path`` consists of member names and element indexes from the root."""

    operation: int
    path: tuple[str | int, ...]
    value: Any = None


def patched(document: str, diffs: bytes) -> str:
    """Return the text of a document after diffs, which are packed as in PARTIAL_UPDATE_ROWS.

    Raise ValueError, IndexError or KeyError if the diffs do not fit the document.
    """
    tree = _parsed(document)
    for diff in read_diffs(diffs):
        tree = _applied(tree, diff)
    return _text(tree)


def read_diffs(data: bytes) -> list[Diff]:
    """The diffs, in order: an operation, a path, and except for removals a binary value."""
    found, at = [], 0
    while at < len(data):
        operation = data[at]
        if operation not in (_REPLACE, _INSERT, _REMOVE):
            raise ValueError(f"a JSON diff has the unknown operation {operation}")
        path, at = packed_bytes(data, at + 1)
        value = None
        if operation != _REMOVE:
            raw, at = packed_bytes(data, at)
            value = _parsed(document_text(raw))
        found.append(Diff(operation, parse_path(path.decode()), value))
    return found


_LEG = re.compile(r'\[(\d+)\]|\.("(?:[^"\\]|\\.)*"|[^."\[\s]+)')


def parse_path(text: str) -> tuple[str | int, ...]:
    """The legs of a path such as ``$.a."b c"[3]``; raise ValueError for other text."""
    if not text.startswith("$"):
        raise ValueError(f"not a JSON path: {text!r}")
    legs: list[str | int] = []
    at = 1
    while at < len(text):
        leg = _LEG.match(text, at)
        if leg is None:
            raise ValueError(f"not a JSON path: {text!r}")
        index, name = leg.groups()
        legs.append(int(index) if index else json.loads(name) if name[0] == '"' else name)
        at = leg.end()
    return tuple(legs)


def _parsed(text: str) -> Any:
    return json.loads(text, parse_int=_Number, parse_float=_Number)


def _applied(tree: Any, diff: Diff) -> Any:
    if not diff.path:
        if diff.operation != _REPLACE:
            raise ValueError("only a replacement can be of the whole document")
        return diff.value
    *way, last = diff.path
    parent = tree
    for leg in way:
        parent = _at(parent, leg)
    if isinstance(parent, list) and isinstance(last, int):
        _change_array(parent, last, diff)
    elif isinstance(parent, dict) and isinstance(last, str):
        _change_object(parent, last, diff)
    else:
        raise ValueError(f"a JSON diff's path {diff.path} is not in the document")
    return tree


def _at(parent: Any, leg: str | int) -> Any:
    if isinstance(parent, list) and isinstance(leg, int):
        return parent[leg]
    if isinstance(parent, dict) and isinstance(leg, str):
        return parent[leg]
    raise ValueError(f"a JSON diff's leg {leg!r} is not in the document")


def _change_array(array: list[Any], index: int, diff: Diff) -> None:
    if diff.operation == _INSERT:
        # Past the end of the array the value is appended, as on the server.
        array.insert(min(index, len(array)), diff.value)
    elif diff.operation == _REMOVE:
        del array[index]
    else:
        array[index] = diff.value


def _change_object(members: dict[str, Any], name: str, diff: Diff) -> None:
    if (name in members) == (diff.operation == _INSERT):
        raise KeyError(name)
    if diff.operation == _REMOVE:
        del members[name]
        return
    members[name] = diff.value
    if diff.operation == _INSERT:
        # The server sorts members by the length of their names, then by their bytes.
        ordered = sorted(
            members.items(), key=lambda member: (len(member[0].encode()), member[0].encode())
        )
        members.clear()
        members.update(ordered)


def _text(tree: Any, depth: int = 0) -> str:
    if depth > MAX_DEPTH + 1:
        raise ValueError("a JSON document is nested too deep")
    if isinstance(tree, _Number):
        return str(tree)
    if isinstance(tree, str):
        return encode_basestring(tree)
    if isinstance(tree, dict):
        return (
            "{"
            + ", ".join(f"{encode_basestring(n)}: {_text(v, depth + 1)}" for n, v in tree.items())
            + "}"
        )
    if isinstance(tree, list):
        return "[" + ", ".join(_text(value, depth + 1) for value in tree) + "]"
    return {None: "null", True: "true", False: "false"}[tree]

"""A YAML file under construction: values by path, each with a comment that names its origin.

Invariant: a path keeps the first value that was put there; any YAML parser reads these values from the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

YamlPath = tuple[str | int, ...]
"""Names of mappings, and numbers of list items, from the outermost to the value's own."""
Value = str | int | float | bool | None | tuple[str, ...]

_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./@-]*")
_RESERVED = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A value, and where it comes from."""

    value: Value
    origin: str


_Node = dict[str | int, Any]


class YamlText:
    """Values by path, in the order in which they were put."""

    def __init__(self) -> None:
        self._root: _Node = {}

    def __bool__(self) -> bool:
        """Whether it has a value."""
        return bool(self._root)

    def put(self, path: YamlPath, value: Value, origin: str = "") -> bool:
        """Add a value; return False if the path has another value, which stays."""
        node = self._root
        for name in path[:-1]:
            node = node.setdefault(name, {})
        leaf = node.setdefault(path[-1], Leaf(value=value, origin=origin))
        return isinstance(leaf, Leaf) and leaf.value == value

    def get(self, path: YamlPath) -> Value:
        """Return the value of a path; None if there is no value."""
        found = self._found(path)
        return found.value if isinstance(found, Leaf) else None

    def has(self, path: YamlPath) -> bool:
        """Return whether there is a value at a path, or below it."""
        return self._found(path) is not None

    def remove(self, path: YamlPath) -> list[Leaf]:
        """Remove the values at a path and below it, and parents that are then empty; return the values."""
        *above, last = path
        node = self._found(tuple(above))
        if not isinstance(node, dict) or last not in node:
            return []
        removed = list(_leaves(node.pop(last)))
        if above and not node:
            self.remove(tuple(above))
        return removed

    def deepest(self, path: YamlPath) -> YamlPath:
        """Return the part of a path that exists here; names that do not exist here are skipped."""
        found: YamlPath = ()
        for name in path:
            if self._found((*found, name)) is not None:
                found = (*found, name)
        return found

    def values(self) -> dict[str, Any]:
        """Return the plain values, as a YAML parser reads them."""
        plain: dict[str, Any] = _plain(self._root)
        return plain

    def text(self, head: Iterable[str] = ()) -> str:
        """Return the file's text; ``head`` are comment lines at its beginning."""
        lines = [*(f"# {line}".rstrip() for line in head), "", *_block(self._root)]
        return "\n".join(lines) + "\n"

    def _found(self, path: YamlPath) -> Any:
        node: Any = self._root
        for name in path:
            node = node.get(name) if isinstance(node, dict) else None
        return node


def _leaves(node: Any) -> Iterator[Leaf]:
    if isinstance(node, Leaf):
        yield node
        return
    for one in node.values():
        yield from _leaves(one)


def _plain(node: Any) -> Any:
    if isinstance(node, Leaf):
        return list(node.value) if isinstance(node.value, tuple) else node.value
    if _is_list(node):
        return [_plain(one) for one in node.values()]
    return {name: _plain(one) for name, one in node.items()}


def _is_list(node: _Node) -> bool:
    return bool(node) and all(isinstance(name, int) for name in node)


def _block(node: _Node) -> Iterator[str]:
    for name, one in node.items():
        if isinstance(one, Leaf):
            comment = f"  # {one.origin}" if one.origin else ""
            yield f"{_scalar(str(name))}: {_value(one.value)}{comment}"
        elif _is_list(one):
            yield f"{_scalar(str(name))}:"
            for item in one.values():
                first, *others = _block(item)
                yield from (f"  - {first}", *(f"    {line}" for line in others))
        else:
            yield f"{_scalar(str(name))}:"
            yield from (f"  {line}" for line in _block(one))


def _value(value: Value) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_scalar, value))}]"
    return _scalar(value) if isinstance(value, str) else json.dumps(value)


def _scalar(text: str) -> str:
    """A text as YAML reads it: bare if that is safe, in single quotes if it has no control character."""
    if _PLAIN.fullmatch(text) and text.lower() not in _RESERVED:
        return text
    if text.isprintable():
        return "'" + text.replace("'", "''") + "'"
    return '"' + "".join(_escaped(sign) for sign in text) + '"'


def _escaped(sign: str) -> str:
    return sign if sign.isprintable() and sign not in '"\\' else f"\\U{ord(sign):08x}"
